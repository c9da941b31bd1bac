// Weights as they are shown: merged to words, without special tokens, mean or maximum of heads.

// What decides the axes and so the matrices.
function shownKey(sheet, state) {
  return [sheet.key, state.words, state.bare, state.filter, extent(sheet, state)].join();
}

const shownCache = new Cache(1 << 23);

// One head: { rows, columns, data [rows × columns], lost per row or null }. The weight to a word is
// the sum over its pieces, from a word the mean over its pieces; without special tokens what is left
// of a row is divided by its sum.
function shown(sheet, state, layer, head) {
  const key = shownKey(sheet, state) + "," + layer + "." + head;
  const size = sheet.rows.tokens.length * sheet.columns.tokens.length;
  return shownCache.get(key, size, () => merge(sheet, state, sheet.weights(layer, head)));
}

function merge(sheet, state, weights) {
  const { rows, columns } = axes(sheet, state);
  const s = sheet.columns.tokens.length;
  const place = new Int32Array(s).fill(-1);
  columns.forEach((item, at) => place.fill(at, item.from, item.end));
  const hidden = sheet.columns.tokens.map((token) => state.bare && token.s === 1);
  const data = new Float32Array(rows.length * columns.length);
  const lost = state.bare ? new Float32Array(rows.length) : null;
  rows.forEach((item, i) => {
    const sums = new Float64Array(columns.length);
    let [all, left] = [0, 0];
    for (let p = item.from; p < item.end; p++) {
      for (let j = 0; j < s; j++) {
        const weight = weights[p * s + j];
        all += weight;
        if (hidden[j]) continue;
        left += weight;
        if (place[j] >= 0) sums[place[j]] += weight;
      }
    }
    const by = state.bare ? left : item.end - item.from;
    if (by > 0) sums.forEach((sum, j) => (data[i * columns.length + j] = sum / by));
    if (lost) lost[i] = all > 0 ? 1 - left / all : 1;
  });
  return { rows, columns, data, lost };
}

// The chosen heads of a layer that are here.
function chosenHeads(sheet, state, layer) {
  return sheet.headsOf(layer).filter((head) => !state.heads || state.heads.includes(head));
}

function chosenLayers(sheet, state) {
  const all = Array.from({ length: sheet.layers }, (_, layer) => layer);
  return all.filter((layer) => !state.layers || state.layers.includes(layer));
}

// Mean or maximum over the chosen heads of these layers; null where there are none.
function combined(sheet, state, layers) {
  const heads = layers.flatMap((layer) => chosenHeads(sheet, state, layer).map((head) => [layer, head]));
  if (!heads.length) return null;
  const key = shownKey(sheet, state) + "," + state.combine + heads.join(";");
  const size = sheet.rows.tokens.length * sheet.columns.tokens.length;
  return shownCache.get(key, size, () => {
    const all = heads.map(([layer, head]) => shown(sheet, state, layer, head));
    const { rows, columns } = all[0];
    const data = new Float32Array(all[0].data.length);
    const lost = all[0].lost && new Float32Array(rows.length);
    for (const one of all) {
      if (state.combine === "max") one.data.forEach((v, i) => (data[i] = Math.max(data[i], v)));
      else one.data.forEach((v, i) => (data[i] += v / all.length));
      lost?.forEach((_, i) => (lost[i] += one.lost[i] / all.length));
    }
    return { rows, columns, data, lost, heads: heads.length };
  });
}

// What the views of lines and heatmaps show of one panel: a list of { name, head, matrix }.
function picked(panel, state) {
  const { sheet, layer } = panel;
  if (state.combine === "each") {
    return chosenHeads(sheet, state, layer)
      .map((head) => ({ name: `L${layer}H${head}`, head, matrix: shown(sheet, state, layer, head) }));
  }
  const layers = panel.only ? [layer] : chosenLayers(sheet, state);
  const matrix = combined(sheet, state, layers);
  if (!matrix) return [];
  const what = state.combine === "max" ? "maximum" : "mean";
  const where = layers.length === sheet.layers ? "all layers" : "layer " + writeList(layers);
  return [{ name: `${what} of ${matrix.heads} heads, ${where}`, head: null, matrix }];
}

function largestOf(data) {
  let most = 0;
  for (const value of data) if (Math.abs(value) > most) most = Math.abs(value);
  return most;
}

// The end of the colour scale: the largest weight of all heads, of this matrix, or robustly the 99th
// percentile outside of sinks (the first key and special ones), which leave the rest dark otherwise.
function rangeOf(matrix, state, all) {
  if (state.scale === "shared") return all();
  if (state.scale === "robust") {
    const n = matrix.columns.length;
    const sink = matrix.columns.map((item, j) => j === 0 || item.special);
    const some = matrix.data.filter((value, at) => value > 0 && !sink[at % n]).sort();
    if (some.length) return some[Math.ceil(some.length * 0.99) - 1];
  }
  return largestOf(matrix.data) || 1;
}

// Whether a link counts: at least the threshold and among the strongest of its query.
function keeper(matrix, state) {
  const n = matrix.columns.length;
  if (!state.most || state.most >= n) return (i, j) => matrix.data[i * n + j] >= state.least;
  matrix.cuts ??= new Map();
  if (!matrix.cuts.has(state.most)) {
    matrix.cuts.set(state.most, matrix.rows.map((_, i) => {
      const row = matrix.data.slice(i * n, (i + 1) * n).sort();
      return row[n - state.most];
    }));
  }
  const cuts = matrix.cuts.get(state.most);
  return (i, j) => {
    const value = matrix.data[i * n + j];
    return value >= state.least && value >= cuts[i] && value > 0;
  };
}

// The indices of the items that hold the chosen pieces.
function marked(list, pieces) {
  const chosen = new Set(pieces);
  return list.flatMap((item, i) => {
    for (let p = item.from; p < item.end; p++) if (chosen.has(p)) return [i];
    return [];
  });
}

// Second minus first over the tokens that both have, in order: a longest common subsequence.
function difference(first, second) {
  const [rows, columns] = [common(first.rows, second.rows), common(first.columns, second.columns)];
  const data = new Float32Array(rows.length * columns.length);
  rows.forEach(([a, b], i) => columns.forEach(([c, d], j) => {
    data[i * columns.length + j] = second.data[b * second.columns.length + d]
      - first.data[a * first.columns.length + c];
  }));
  return {
    rows: rows.map(([a]) => first.rows[a]),
    columns: columns.map(([a]) => first.columns[a]),
    data,
    lost: null,
    signed: true,
    left: first.rows.length + second.rows.length - 2 * rows.length,
  };
}

function common(a, b) {
  const width = b.length + 1;
  const best = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      best[i * width + j] = a[i].label === b[j].label
        ? best[(i + 1) * width + j + 1] + 1
        : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i].label === b[j].label) pairs.push([i++, j++]);
    else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
    else j++;
  }
  return pairs;
}
