// Flow view: which input tokens a token of the last layer is made of, by attention rollout
// (Abnar and Zuidema 2020): heads averaged, the residual mixed in, layers multiplied.

const FAINTEST = 0.003; // of a token's make-up, what is drawn as a line

// The mean over a layer's heads, null where none is left.
function layerMean(sheet, layer) {
  sheet.means ??= new Map();
  if (!sheet.means.has(layer)) {
    const heads = sheet.headsOf(layer);
    let mean = null;
    for (const head of heads) {
      const weights = sheet.weights(layer, head);
      mean ??= new Float32Array(weights.length);
      weights.forEach((weight, i) => (mean[i] += weight / heads.length));
    }
    sheet.means.set(layer, mean);
  }
  return sheet.means.get(layer);
}

// What reaches the tokens of each layer from `start`, shares of the tokens of the last one: a list from
// the input (0) to the output. `mean(layer)` [n, n] in rows of `width`, or null.
function rolloutShares(layers, start, residual, width, mean) {
  const n = start.length;
  const all = [];
  all[layers] = start;
  for (let layer = layers - 1; layer >= 0; layer--) {
    const below = new Float64Array(n);
    const weights = mean(layer);
    all[layer + 1].forEach((share, i) => {
      if (!share) return;
      if (!weights) {
        below[i] += share;
        return;
      }
      let sum = residual;
      for (let j = 0; j < n; j++) sum += (1 - residual) * weights[i * width + j];
      for (let j = 0; j < n; j++) below[j] += share * (1 - residual) * weights[i * width + j] / sum;
      below[i] += share * residual / sum;
    });
    all[layer] = below;
  }
  return all;
}

// Even attention to all that a causal mask leaves.
function evenMean(n) {
  const mean = new Float32Array(n * n);
  for (let i = 0; i < n; i++) mean.fill(1 / (i + 1), i * n, i * n + i + 1);
  return mean;
}

function whyNoFlow(side, sheet) {
  if (side.sheets.length > 1) return "Rollout is not defined for encoder-decoders: their cross-attention mixes two streams.";
  if (!sheet.square) return "Rollout needs self-attention, with the same tokens on both axes.";
  const lacks = (layer) => sheet.counts[layer] > sheet.headsOf(layer).length
    + sheet.pruned.filter(([at]) => at === layer).length;
  const missing = sheet.counts.findIndex((_, layer) => lacks(layer));
  return missing < 0 ? null : `Rollout multiplies all layers and heads, and this page does not hold all of layer ${missing}.`;
}

class FlowView {
  constructor(app, root) {
    this.app = app;
    this.panels = app.panels().map(() => {
      const box = make("div", { class: "panel" });
      root.append(box);
      return new FlowPicture(app, box);
    });
  }

  update() {
    this.app.panels().forEach((panel, i) => this.panels[i].show(panel));
  }

  pictures() {
    return this.panels.filter((one) => one.items).map((one) => one.saved());
  }

  numbers() {
    return joinNumbers(this.panels.filter((one) => one.items).map((one) => [one.title.textContent, one.numbers()]));
  }
}

class FlowPicture {
  constructor(app, root) {
    this.app = app;
    this.root = root;
    this.title = make("h2", { dir: "auto" });
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.list = make("ol", { class: "tokens keys", "aria-label": "tokens of the last layer" });
    this.box = make("div", { class: "links" }, this.canvas, this.list);
    this.note = make("p", { class: "small" });
    root.append(this.title, make("div", { class: "sideways" }, this.box), this.note);
    const over = (event) => this.point(event.target.closest("button"));
    this.list.addEventListener("pointerover", over);
    this.list.addEventListener("focusin", over);
    this.list.addEventListener("pointerleave", () => this.point(null));
    this.list.addEventListener("focusout", () => this.point(null));
    this.list.addEventListener("click", (event) => LinkPicture.prototype.choose.call(this, "queries", event.target.closest("button")));
  }

  show(panel) {
    const { sheet, side } = panel;
    this.panel = panel;
    const refused = whyNoFlow(side, sheet);
    this.box.hidden = refused !== null;
    this.title.textContent = panel.name ? `${panel.name}: rollout` : "Rollout";
    this.note.textContent = refused ?? this.said();
    if (refused) {
      this.items = null;
      return;
    }
    this.state = { ...this.app.state, filter: "all" };
    this.items = items(sheet, sheet.rows, this.state, null);
    this.scene = { rows: this.items };
    this.hover = null;
    this.numbersWide = sheet.causal ? 78 : 40;
    const column = Math.min(170, Math.floor(Math.max(340, this.root.clientWidth) * 0.24));
    const least = 2 * column + this.numbersWide + 28 + 18 * sheet.layers;
    const wide = Math.min(960, Math.max(least, this.root.clientWidth));
    this.size = { width: wide, column, left: column + this.numbersWide, right: wide - column, height: TOP + ROW * this.items.length + 4 };
    this.box.style.width = wide + "px";
    this.box.style.height = this.size.height + "px";
    this.list.style.width = column + "px";
    LinkPicture.prototype.fill.call(this, this.list, this.items, this.app.state.queries);
    this.paint();
  }

  said() {
    const { state } = this.app;
    const parts = [`Residual ${state.residual.toFixed(2)}; heads averaged. Point at or choose tokens of the last layer; without, all of them together.`];
    if (this.panel.sheet.causal) parts.push("Beside each share stands what even attention under the causal mask would give: early tokens gain from the mask alone.");
    if (state.bare) parts.push("Shares are of what ordinary tokens have; those of special tokens are hidden.");
    if (this.panel.sheet.pruned.length) parts.push("Pruned heads are left out of the mean.");
    return parts.join(" ");
  }

  point(button) {
    this.hover = button ? +button.dataset.at : null;
    if (button) this.app.say(this.describe());
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.paint();
    });
  }

  chosen() {
    if (this.hover !== null) return [this.hover];
    return marked(this.items, this.app.state.queries);
  }

  // Shares by layer and item, and what even attention gives.
  flow() {
    const { sheet } = this.panel;
    const n = extent(sheet, this.state);
    const width = sheet.rows.tokens.length;
    const chosen = this.chosen();
    const start = new Float64Array(n);
    const from = chosen.length ? chosen.map((at) => this.items[at]) : this.items;
    for (const item of from) start.fill(1 / from.length / (item.end - item.from), item.from, item.end);
    const { residual } = this.app.state;
    const pieces = rolloutShares(sheet.layers, start, residual, width, (layer) => layerMean(sheet, layer));
    const even = evenMean(sheet.causal ? n : 0);
    const none = sheet.causal ? rolloutShares(sheet.layers, start, residual, n, () => even)[0] : null;
    return { pieces, shares: pieces.map((one) => this.byItem(one)), none: none && this.byItem(none), n, width };
  }

  byItem(shares) {
    const sums = this.items.map((item) => {
      let sum = 0;
      for (let p = item.from; p < item.end; p++) sum += shares[p];
      return sum;
    });
    const all = this.state.bare ? sums.reduce((a, b) => a + b, 0) : 1;
    return sums.map((sum) => (all > 0 ? sum / all : 0));
  }

  paint() {
    if (!this.items || !this.canvas.isConnected) return;
    this.draw(new CanvasPen(this.canvas, this.size.width, this.size.height), false);
  }

  draw(pen, labels) {
    const { items, size, app: { theme }, panel: { sheet } } = this;
    const flow = this.flow();
    this.last = flow;
    const y = (i) => TOP + ROW * i + ROW / 2;
    const x = (layer) => size.left + 14 + (size.right - size.left - 28) * layer / sheet.layers;
    const faint = { colour: theme.faint, size: 12 };
    pen.text(size.column, TOP / 2, "input", { ...faint, align: "right" });
    pen.text(size.column + 38, TOP / 2, "share", { ...faint, size: 11, align: "right" });
    if (flow.none) pen.text(size.column + 76, TOP / 2, "even", { ...faint, size: 11, align: "right" });
    pen.text(size.right, TOP / 2, `after layer ${sheet.layers - 1}`, { ...faint, most: size.column });
    for (const i of this.chosen()) pen.rect(size.right, y(i) - ROW / 2, size.column, ROW, theme.mark);
    for (let layer = 0; layer < sheet.layers; layer++) this.edges(pen, flow, layer, x, y);
    flow.shares.forEach((shares, layer) => shares.forEach((share, i) => {
      if (share > 0.0005) pen.dot(x(layer), y(i), 1.5 + 6 * Math.sqrt(share), theme.accent);
      else pen.dot(x(layer), y(i), 1, theme.line);
    }));
    items.forEach((item, i) => {
      const share = flow.shares[0][i];
      pen.rect(size.column, y(i) - 8, 40 * share, 16, theme.accent, 0.25);
      pen.text(size.column - 6, y(i), item.label, { colour: item.special ? theme.faint : theme.ink, align: "right", most: size.column - 8, bold: item.written });
      pen.text(size.column + 38, y(i), share.toFixed(3), { colour: theme.ink, size: 11, align: "right" });
      if (flow.none) pen.text(size.column + 76, y(i), flow.none[i].toFixed(3), { colour: theme.faint, size: 11, align: "right" });
      if (labels) pen.text(size.right + 6, y(i), item.label, { colour: item.special ? theme.faint : theme.ink, most: size.column - 8, bold: item.written });
    });
  }

  // What flows between two layers, strongest last.
  edges(pen, flow, layer, x, y) {
    const { items, app: { theme, state } } = this;
    const weights = layerMean(this.panel.sheet, layer);
    const buckets = Array.from({ length: SHADES + 1 }, () => []);
    const above = flow.pieces[layer + 1];
    const carries = items.map((to) => above.subarray(to.from, to.end).reduce((sum, share) => sum + share, 0));
    items.forEach((to, i) => carries[i] >= FAINTEST && items.forEach((from, j) => {
      let sum = 0;
      for (let p = to.from; p < to.end; p++) {
        if (!above[p]) continue;
        for (let q = from.from; q < from.end; q++) {
          const own = p === q ? state.residual : 0;
          sum += above[p] * (weights ? (1 - state.residual) * weights[p * flow.width + q] + own : p === q ? 1 : 0);
        }
      }
      if (sum < Math.max(FAINTEST, state.least)) return;
      buckets[Math.ceil(Math.min(1, Math.sqrt(sum)) * SHADES)].push(x(layer), y(j), x(layer + 1), y(i));
    }));
    buckets.forEach((ends, shade) => ends.length && pen.lines(ends, theme.accent, shade / SHADES, 0.75 + 2 * shade / SHADES));
  }

  describe() {
    const { shares } = this.flow();
    const best = shares[0].map((share, i) => [share, i]).sort((a, b) => b[0] - a[0]).slice(0, 5);
    return `${isolated(this.items[this.hover].label)} is made of ` + best.map(([share, i]) => `${isolated(this.items[i].label)} ${number(share)}`).join(", ") + " (rollout)";
  }

  saved() {
    const { width, height } = this.size;
    return { title: this.title.textContent, width, height, paint: (pen) => this.draw(pen, true) };
  }

  numbers() {
    const { shares, none } = this.flow();
    const names = ["position", "input token", "share"].concat(none ? ["even attention"] : [], shares.slice(1).map((_, layer) => `after layer ${layer}`));
    const list = this.items.map((item, i) => [item.from, item.label, shares[0][i], ...(none ? [none[i]] : []), ...shares.slice(1).map((one) => one[i])]);
    return { names, list };
  }
}
