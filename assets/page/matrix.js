// Matrix view: a heatmap with its tokens, the exact value under the pointer, zoom.

const LEGEND = 46;

class MatrixView {
  constructor(app, root) {
    this.app = app;
    this.panels = app.panels().map(() => {
      const box = make("div", { class: "panel" });
      root.append(box);
      return new Heatmap(app, box);
    });
  }

  update() {
    this.app.panels().forEach((panel, i) => this.panels[i].show(panel));
  }

  pictures() {
    return this.panels.filter((one) => one.matrix).map((one) => one.saved());
  }

  numbers() {
    return joinNumbers(this.panels.filter((one) => one.matrix).map((one) => [one.title.textContent, one.numbers()]));
  }
}

// One matrix of a panel: the chosen head, or a mean.
function oneOf(panel, state) {
  if (state.combine !== "each") return panel.picked()[0];
  return panel.picked().find((one) => one.head === panel.head) ?? panel.one(panel.head);
}

class Heatmap {
  constructor(app, root) {
    this.app = app;
    this.title = make("h2", { dir: "auto" });
    this.canvas = make("canvas", {
      tabindex: 0, role: "img",
      onpointermove: (event) => this.over(event),
      onpointerleave: () => this.point(null),
      onclick: (event) => this.click(event),
      onkeydown: (event) => this.key(event),
    });
    this.space = make("div", { class: "space" }, this.canvas);
    this.scroll = make("div", { class: "scroll", onscroll: () => this.later() }, this.space);
    root.append(this.title, this.scroll);
    this.root = root;
  }

  show(panel) {
    const { state } = this.app;
    const one = oneOf(panel, state);
    this.matrix = one && one.matrix.rows.length && one.matrix.columns.length ? one.matrix : null;
    this.scroll.hidden = !this.matrix;
    this.title.textContent = panel.title + (one ? `, ${one.name}` : ": not here");
    if (!this.matrix) return;
    this.cell = null;
    const left = this.matrix.left ? ` (${this.matrix.left} tokens are in one of the texts only)` : "";
    this.title.textContent += left;
    this.range = rangeOf(this.matrix, state, () => this.app.largest(panel));
    const scales = { own: "this matrix, 0 to ", robust: "robust, this matrix, 0 to ", shared: "all heads, 0 to " };
    this.legend = `scale: ${scales[state.scale]}${number(this.range)}` + (state.scale === "robust" ? " and above" : "");
    if (this.matrix.signed) {
      this.range = largestOf(this.matrix.data) || 1;
      this.legend = `difference, −${number(this.range)} to ${number(this.range)}`;
    }
    this.canvas.setAttribute("aria-label", `${this.title.textContent}; ${this.legend}; arrow keys read the cells`);
    this.layout();
    this.paint();
  }

  // Places of everything at the current zoom; the window scrolls over the cells, labels stay.
  layout() {
    const { rows, columns } = this.matrix;
    const measure = document.createElement("canvas").getContext("2d");
    measure.font = `13px ${FONT}`;
    const widest = (items) => items.reduce((most, item) => Math.max(most, measure.measureText(item.label).width), 0);
    const width = Math.max(240, this.root.clientWidth);
    const extra = this.matrix.lost ? 40 : 0;
    this.left = Math.min(Math.ceil(widest(rows)) + 12, width * 0.35) + extra;
    this.extra = extra;
    this.top = Math.min(Math.ceil(widest(columns)) + 12, 140);
    const fit = Math.min(28, (Math.min(width, 900) - this.left - 2) / columns.length);
    this.size = this.app.state.zoom ? this.app.state.zoom : Math.max(1, fit);
    this.inner = { width: this.left + this.size * columns.length, height: this.top + this.size * rows.length };
    this.window = { width: Math.min(width, this.inner.width + 1), height: Math.min(Math.max(360, window.innerHeight * 0.8), this.inner.height + 1) };
    this.scroll.style.width = this.window.width + "px";
    this.scroll.style.height = this.window.height + LEGEND + "px";
    this.space.style.width = this.inner.width + "px";
    this.space.style.height = this.inner.height + LEGEND + "px";
  }

  later() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.paint();
    });
  }

  paint() {
    if (!this.matrix || !this.canvas.isConnected) return;
    const { width, height } = this.window;
    const pen = new CanvasPen(this.canvas, width, height + LEGEND);
    this.draw(pen, width, height, this.scroll.scrollLeft, this.scroll.scrollTop);
  }

  draw(pen, width, height, dx, dy) {
    const { matrix, left, top, size, app: { theme } } = this;
    const { rows, columns, data } = matrix;
    const n = columns.length;
    const first = [Math.floor(dy / size), Math.floor(dx / size)];
    const last = [
      Math.min(rows.length, Math.ceil((dy + height - top) / size)),
      Math.min(n, Math.ceil((dx + width - left) / size)),
    ];
    const colour = matrix.signed ? diverging(theme).rgb : this.app.palette.rgb;
    const [ground, state] = [rgb(theme.gap), this.app.state];
    const keep = matrix.signed ? (i, j) => Math.abs(data[i * n + j]) >= state.least : keeper(matrix, state);
    pen.rect(0, 0, width, height + LEGEND, theme.ground);
    pen.cells(left + first[1] * size - dx, top + first[0] * size - dy, (last[1] - first[1]) * size,
      (last[0] - first[0]) * size, last[1] - first[1], last[0] - first[0], (i, j) => {
        const at = [i + first[0], j + first[1]];
        return keep(...at) ? colour(data[at[0] * n + at[1]] / this.range) : ground;
      });
    this.marks(pen, width, height, dx, dy);
    this.labels(pen, [first[0], last[0]], [first[1], last[1]], width, dx, dy);
    this.bar(pen, height);
  }

  // Chosen rows and columns, the border of a pair, the prompt, and the cell that is looked at.
  marks(pen, width, height, dx, dy) {
    const { matrix, left, top, size, app: { state, theme } } = this;
    const [x, y] = [(j) => left + j * size - dx, (i) => top + i * size - dy];
    const [right, bottom] = [Math.min(width, x(matrix.columns.length)), Math.min(height, y(matrix.rows.length))];
    const border = (items, key) => items.findIndex((item, i) => i > 0 && item[key] && item[key] !== items[i - 1][key]);
    for (const key of ["side", "written"]) {
      const [i, j] = [border(matrix.rows, key), border(matrix.columns, key)];
      if (i > 0 && y(i) > top) pen.line(left, y(i), right, y(i), "#ffffff", 0.9, 1.5);
      if (j > 0 && x(j) > left) pen.line(x(j), top, x(j), bottom, "#ffffff", 0.9, 1.5);
    }
    for (const i of marked(matrix.rows, state.queries)) pen.frame(left, y(i), right - left, size, theme.minus, 2);
    for (const j of marked(matrix.columns, state.keys)) pen.frame(x(j), top, size, bottom - top, theme.minus, 2);
    if (this.cell) {
      const [i, j] = this.cell;
      pen.frame(x(j) - 1, y(i) - 1, size + 2, size + 2, "#000000", 3);
      pen.frame(x(j), y(i), size, size, "#ffffff", 1);
    }
  }

  labels(pen, [i0, i1], [j0, j1], width, dx, dy) {
    const { matrix, left, top, size, extra, app: { theme } } = this;
    pen.rect(0, 0, width, top, theme.ground);
    pen.rect(0, 0, left, this.window.height + LEGEND, theme.ground);
    // labels that would overlap are thinned
    const every = Math.max(1, Math.ceil(11 / size));
    const font = Math.min(13, Math.max(10, size - 2));
    const [i, j] = this.cell ?? [-1, -1];
    const shown = (list, from, end, at) => list.slice(from, end)
      .map((item, k) => [item, from + k]).filter(([, k]) => (k % every === 0 && (at < 0 || Math.abs(k - at) >= every)) || k === at);
    for (const [item, k] of shown(matrix.rows, i0, i1, i)) {
      const y = top + (k + 0.5) * size - dy;
      if (y < top) continue;
      pen.text(left - 6, y, item.label, { colour: k === i ? theme.accent : item.special ? theme.faint : theme.ink, size: font, align: "right", most: left - 8 - extra, bold: k === i || item.written });
      if (matrix.lost) pen.text(2, y, Math.round(matrix.lost[k] * 100) + "%", { colour: theme.faint, size: 10 });
    }
    for (const [item, k] of shown(matrix.columns, j0, j1, j)) {
      const x = left + (k + 0.5) * size - dx;
      if (x < left) continue;
      pen.text(x, top - 6, item.label, { colour: k === j ? theme.accent : item.special ? theme.faint : theme.ink, size: font, turn: -90, most: top - 8, bold: k === j || item.written });
    }
    if (matrix.lost) pen.text(2, top - 8, "hidden", { colour: theme.faint, size: 10 });
  }

  bar(pen, height) {
    const { theme, palette } = this.app;
    const wide = Math.min(180, this.window.width - 20);
    const y = height + 14;
    const colour = this.matrix.signed ? diverging(theme).rgb : palette.rgb;
    const share = (j) => (this.matrix.signed ? (j / 99) * 2 - 1 : j / 99);
    pen.rect(0, height, this.window.width, LEGEND, theme.ground);
    pen.cells(4, y - 6, wide, 10, 100, 1, (_, j) => colour(share(j)));
    pen.text(4, y + 16, this.legend, { colour: theme.faint, size: 11, most: this.window.width - 8 });
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - this.left + this.scroll.scrollLeft) / this.size);
    const i = Math.floor((event.clientY - box.top - this.top + this.scroll.scrollTop) / this.size);
    const [inRow, inColumn] = [event.clientY - box.top >= this.top, event.clientX - box.left >= this.left];
    return { i: inRow ? i : -1, j: inColumn ? j : -1 };
  }

  over(event) {
    const { i, j } = this.at(event);
    const inside = i >= 0 && j >= 0 && i < this.matrix.rows.length && j < this.matrix.columns.length;
    this.point(inside ? [i, j] : null);
  }

  point(cell) {
    if (String(cell) === String(this.cell)) return;
    this.cell = cell;
    if (cell) {
      const [i, j] = cell;
      const { rows, columns, data } = this.matrix;
      this.app.say(`${isolated(rows[i].label)} (${rows[i].from}) → ${isolated(columns[j].label)} (${columns[j].from}): ${data[i * columns.length + j].toPrecision(4)}`);
    }
    this.later();
  }

  // A click on a label chooses its row or column, on a cell both.
  click(event) {
    const { i, j } = this.at(event);
    const { state } = this.app;
    const toggled = (now, item) => now.includes(item.from) ? now.filter((p) => p !== item.from) : [...now, item.from];
    const next = {};
    if (this.matrix.rows[i]) next.queries = toggled(state.queries, this.matrix.rows[i]);
    if (this.matrix.columns[j]) next.keys = toggled(state.keys, this.matrix.columns[j]);
    if (Object.keys(next).length) this.app.set(next);
  }

  key(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const clamp = (value, count) => Math.min(count - 1, Math.max(0, value));
    const [i, j] = this.cell ? [this.cell[0] + step[0], this.cell[1] + step[1]] : [0, 0];
    const cell = [clamp(i, this.matrix.rows.length), clamp(j, this.matrix.columns.length)];
    const into = (at, from, room) => at < from ? at : at + this.size > from + room ? at + this.size - room : from;
    this.scroll.scrollTop = into(cell[0] * this.size, this.scroll.scrollTop, this.window.height - this.top);
    this.scroll.scrollLeft = into(cell[1] * this.size, this.scroll.scrollLeft, this.window.width - this.left);
    this.point(cell);
  }

  // For saving: the whole matrix, not the window on it.
  saved() {
    const { width, height } = this.inner;
    const seen = this.window;
    const paint = (pen) => {
      this.window = { width, height };
      this.draw(pen, width, height, 0, 0);
      this.window = seen;
    };
    return { title: this.title.textContent, width: width + 1, height: height + LEGEND, paint };
  }

  numbers() {
    const { rows, columns, data } = this.matrix;
    const n = columns.length;
    return {
      names: ["query \\ key", ...columns.map((item) => item.label)],
      list: rows.map((row, i) => [row.label, ...data.subarray(i * n, (i + 1) * n)]),
    };
  }
}
