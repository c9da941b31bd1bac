// Two columns of tokens with lines between them: the head view, and the details of others.

const ROW = 22;
const TOP = 30;
const MOST_LINES = 40000;
const SHADES = 32;
const NUMBERED = 100; // columns this wide have room for numbers

function make(name, given = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key === "class") node.className = value;
    else if (key === "text") node.textContent = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// A weight for people: three digits, without a leading zero's weightiness.
function number(value) {
  if (value === 0) return "0";
  return Math.abs(value) < 0.0005 ? value.toExponential(0) : value.toFixed(3);
}

function linkSize(width, scene) {
  const wide = Math.min(760, Math.max(280, width));
  const column = Math.min(240, Math.floor(wide * 0.36));
  return {
    width: wide,
    height: TOP + ROW * Math.max(scene.rows.length, scene.columns.length) + 4,
    column,
    left: column,
    right: wide - column,
  };
}

// How strong a line of one head is drawn among several: one head alone at its weight.
function strength(value, heads) {
  return Math.min(1, Math.abs(value) / Math.sqrt(heads));
}

// What is drawn when tokens are pointed at or chosen: sums over the chosen ones of one axis, for
// each token of the other, per head.
function sums(layer, scene, active) {
  const n = scene.columns.length;
  const { data } = layer.matrix;
  const rows = active.queries;
  const columns = active.keys;
  const toKeys = rows.length
    ? scene.columns.map((_, j) => rows.reduce((sum, i) => sum + data[i * n + j], 0)) : null;
  const fromQueries = columns.length
    ? scene.rows.map((_, i) => columns.reduce((sum, j) => sum + data[i * n + j], 0)) : null;
  return { toKeys, fromQueries };
}

// Draws everything but, on the screen, the tokens themselves. Says how many lines were left out.
function paintLinks(pen, size, scene, active, theme, labels) {
  const at = (i) => TOP + ROW * i + ROW / 2;
  const captions = [[scene.captions[0], size.left, "right"], [scene.captions[1], size.right, "left"]];
  for (const [text, x, align] of captions) {
    pen.text(x, TOP / 2, text, { colour: theme.faint, size: 12, align, most: size.column });
  }
  const every = (list) => list.map((_, i) => i);
  const rows = active.queries.length ? active.queries : every(scene.rows);
  const columns = active.keys.length ? active.keys : every(scene.columns);
  const some = active.queries.length + active.keys.length > 0;
  for (const i of active.queries) pen.rect(0, at(i) - ROW / 2, size.left, ROW, theme.mark);
  for (const j of active.keys) pen.rect(size.right, at(j) - ROW / 2, size.column, ROW, theme.mark);
  const gap = Math.min(8, size.width / 60);
  if (some) {
    const all = scene.layers.map((layer) => sums(layer, scene, active));
    strips(pen, all.map((one) => one.toKeys), size.right, size, scene, active.queries.length, theme, "right");
    strips(pen, all.map((one) => one.fromQueries), 0, size, scene, active.keys.length, theme, "left");
  }
  const left = lines(pen, scene, rows, columns, [size.left + gap, size.right - gap], at);
  if (labels) {
    const text = (item, i, x, align, numbered) => pen.text(x, at(i), item.label, {
      colour: item.special ? theme.faint : theme.ink, align, bold: item.written,
      most: size.column - (numbered && size.column >= NUMBERED ? 40 : 12),
    });
    scene.rows.forEach((item, i) => text(item, i, size.left - 6, "right", active.keys.length > 0));
    scene.columns.forEach((item, i) => text(item, i, size.right + 6, "left", active.queries.length > 0));
  }
  return left;
}

// A strip per head behind the tokens of the column that is looked at, and their mean as a number.
function strips(pen, all, x, size, scene, count, theme, side) {
  if (!all[0]) return;
  const width = size.column / all.length;
  all.forEach((values, k) => values.forEach((value, i) => {
    const alpha = Math.min(1, Math.abs(value) / Math.max(1, scene.summed ? count : 1));
    if (alpha > 0.004) {
      pen.rect(x + k * width, TOP + ROW * i + 1, width, ROW - 2, lineColour(scene, k, value), alpha * 0.75);
    }
  }));
  if (size.column < NUMBERED) return;
  const [edge, align] = side === "left" ? [4, "left"] : [size.width - 4, "right"];
  all[0].forEach((_, i) => {
    const mean = all.reduce((sum, values) => sum + values[i], 0) / all.length;
    if (Math.abs(mean) < 0.005) return;
    pen.text(edge, TOP + ROW * i + ROW / 2, mean.toFixed(2), { colour: theme.ink, size: 11, align });
  });
}

function lineColour(scene, k, value) {
  return scene.signs && value < 0 ? scene.signs[1] : scene.signs ? scene.signs[0] : scene.layers[k].colour;
}

// By head and shade, strongest last; beyond MOST_LINES the weakest are left out.
function lines(pen, scene, rows, columns, [x1, x2], at) {
  const n = scene.columns.length;
  const buckets = new Map();
  scene.layers.forEach((layer, k) => {
    const { data } = layer.matrix;
    for (const i of rows) {
      for (const j of columns) {
        const value = data[i * n + j];
        const alpha = strength(value, scene.layers.length);
        if (alpha < 0.008 || !layer.keep(i, j)) continue;
        const shade = Math.ceil(alpha * SHADES);
        const key = shade * 4096 + k * 2 + (value < 0 ? 1 : 0);
        let ends = buckets.get(key);
        if (!ends) buckets.set(key, (ends = []));
        ends.push(x1, at(i), x2, at(j));
      }
    }
  });
  const keys = [...buckets.keys()].sort((a, b) => a - b);
  let [total, first] = [0, keys.length];
  while (first > 0 && total < MOST_LINES) total += buckets.get(keys[--first]).length / 4;
  for (const key of keys.slice(first)) {
    const k = (key % 4096) >> 1;
    const shade = Math.floor(key / 4096) / SHADES;
    const colour = lineColour(scene, k, key % 2 ? -1 : 1);
    pen.lines(buckets.get(key), colour, shade, 1 + shade);
  }
  return keys.slice(0, first).reduce((sum, key) => sum + buckets.get(key).length / 4, 0);
}

// The picture with its tokens as buttons over the canvas.
class LinkPicture {
  constructor(app, root, name) {
    this.app = app;
    this.hover = null;
    this.name = name;
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.queries = make("ol", { class: "tokens queries", "aria-label": "queries" });
    this.keys = make("ol", { class: "tokens keys", "aria-label": "keys" });
    this.box = make("div", { class: "links" }, this.canvas, this.queries, this.keys);
    this.note = make("p", { class: "small" });
    root.append(this.box, this.note);
    for (const [list, side] of [[this.queries, "queries"], [this.keys, "keys"]]) {
      const over = (event) => this.point(side, event.target.closest("button"));
      list.addEventListener("pointerover", over);
      list.addEventListener("focusin", over);
      list.addEventListener("pointerleave", () => this.point(side, null));
      list.addEventListener("focusout", () => this.point(side, null));
      list.addEventListener("click", (event) => this.choose(side, event.target.closest("button")));
    }
  }

  // scene: { rows, columns, layers: [{ name, colour, matrix, keep }], captions, signs }
  show(scene) {
    this.scene = scene;
    this.size = linkSize(this.box.parentElement.clientWidth, scene);
    const { size, box } = this;
    box.style.width = size.width + "px";
    box.style.height = size.height + "px";
    this.fill(this.queries, scene.rows, this.app.state.queries);
    this.fill(this.keys, scene.columns, this.app.state.keys);
    for (const list of [this.queries, this.keys]) list.style.width = size.column + "px";
    this.hover = null;
    this.paint();
  }

  fill(list, items, chosen) {
    const key = items.map((item) => item.from + item.label).join("\n");
    if (list.key !== key) {
      list.key = key;
      list.replaceChildren(...items.map((item, i) => {
        const text = make("span", { dir: "auto", text: item.label });
        const kind = (item.special ? " special" : "") + (item.written ? " written" : "");
        const title = `${item.label}, position ${item.from}` + (item.id === undefined ? "" : `, id ${item.id}`);
        return make("li", {}, make("button", { class: "token" + kind, type: "button", "data-at": i, title }, text));
      }));
    }
    const pressed = new Set(marked(items, chosen));
    [...list.children].forEach((child, i) =>
      child.firstChild.setAttribute("aria-pressed", pressed.has(i)));
  }

  // Tokens that are chosen, and the one that is pointed at.
  active() {
    const { rows, columns } = this.scene;
    const active = {
      queries: marked(rows, this.app.state.queries),
      keys: marked(columns, this.app.state.keys),
    };
    if (this.hover) {
      // pointing looks at one token alone
      active.queries = this.hover.side === "queries" ? [this.hover.at] : [];
      active.keys = this.hover.side === "keys" ? [this.hover.at] : [];
    }
    return active;
  }

  point(side, button) {
    const at = button ? +button.dataset.at : -1;
    this.hover = button ? { side, at } : null;
    if (button) this.app.say(this.describe(side, at));
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.paint();
    });
  }

  choose(side, button) {
    if (!button) return;
    const item = (side === "queries" ? this.scene.rows : this.scene.columns)[+button.dataset.at];
    const inside = (piece) => piece >= item.from && piece < item.end;
    const now = this.app.state[side];
    const next = now.some(inside) ? now.filter((piece) => !inside(piece)) : [...now, item.from];
    this.app.set({ [side]: next });
  }

  paint() {
    const { scene, size } = this;
    if (!scene || !this.canvas.isConnected) return;
    const pen = new CanvasPen(this.canvas, size.width, size.height);
    const active = this.active();
    const left = paintLinks(pen, size, scene, active, this.app.theme, false);
    // room for the numbers beside the tokens
    this.keys.classList.toggle("numbered", active.queries.length > 0 && size.column >= NUMBERED);
    this.queries.classList.toggle("numbered", active.keys.length > 0 && size.column >= NUMBERED);
    this.note.textContent = left ? `The ${left} weakest lines are not drawn; set a threshold or point at a token.` : "";
    this.note.hidden = !left;
  }

  describe(side, at) {
    const { scene } = this;
    const n = scene.columns.length;
    const other = side === "queries" ? scene.columns : scene.rows;
    const means = other.map((_, k) => scene.layers.reduce((sum, layer) =>
      sum + layer.matrix.data[side === "queries" ? at * n + k : k * n + at], 0) / scene.layers.length);
    const best = means.map((value, k) => [value, k]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 5);
    const what = scene.layers.length > 1 ? `mean of ${scene.layers.length} heads` : scene.layers[0].name;
    const verb = side === "queries" ? "attends to" : "is attended to by";
    const token = (side === "queries" ? scene.rows : scene.columns)[at];
    return `${isolated(token.label)} ${verb} ` + best.map(([value, k]) => `${isolated(other[k].label)} ${number(value)}`).join(", ") + ` (${what})`;
  }

  // For saving: what is on the screen, with the tokens.
  saved() {
    const { scene, size } = this;
    return {
      width: size.width,
      height: size.height,
      paint: (pen) => paintLinks(pen, size, scene, this.active(), this.app.theme, true),
    };
  }

  // The links as they are drawn, strongest first.
  numbers() {
    const { scene } = this;
    const { queries, keys } = this.active();
    const n = scene.columns.length;
    const list = [];
    scene.layers.forEach((layer) => scene.rows.forEach((row, i) => {
      if (queries.length && !queries.includes(i)) return;
      scene.columns.forEach((column, j) => {
        const value = layer.matrix.data[i * n + j];
        if (value === 0 || (keys.length && !keys.includes(j)) || !layer.keep(i, j)) return;
        list.push([layer.name, row.from, row.label, column.from, column.label, value]);
      });
    }));
    list.sort((a, b) => Math.abs(b[5]) - Math.abs(a[5]));
    return { names: ["head", "query position", "query", "key position", "key", "weight"], list };
  }
}
