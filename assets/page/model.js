// Model view: all layers and heads at a glance, drawn as they come into sight; one of them in detail.

const TILE = 64;

class ModelView {
  constructor(app, root) {
    this.app = app;
    this.grid = make("div", { class: "grid", role: "grid", "aria-label": "heads by layer" });
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.side = make("div", { class: "detail", hidden: "" });
    this.root = make("div", { class: "model" }, make("div", { class: "sideways" }, this.grid), this.side);
    root.append(this.root);
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        this.seen.unobserve(entry.target);
        this.draw(entry.target);
      }
    }, { rootMargin: "200px" });
  }

  update() {
    const { state } = this.app;
    const panel = this.app.panels()[0];
    const { sheet } = panel;
    if (this.sheet !== sheet) this.build(sheet);
    this.panel = panel;
    const key = shownKey(sheet, state) + [state.lines, state.scale, state.least, state.most, this.app.themeName];
    this.grid.querySelectorAll("button").forEach((tile) => {
      const [layer, head] = [+tile.dataset.layer, +tile.dataset.head];
      const here = layer === state.layer && head === state.head;
      tile.tabIndex = here ? 0 : -1;
      tile.setAttribute("aria-pressed", here && state.detail);
      tile.parentElement.setAttribute("aria-selected", here);
      if (this.key_ !== key && sheet.has(layer, head)) this.seen.observe(tile);
    });
    this.key_ = key;
    this.detail();
  }

  build(sheet) {
    this.sheet = sheet;
    this.key_ = null;
    const most = Math.max(...sheet.counts);
    const names = Array.from({ length: most }, (_, head) => make("span", { class: "axis", role: "columnheader", text: "H" + head }));
    const rows = [make("div", { class: "line", role: "row" }, make("span", { class: "axis", role: "columnheader" }), ...names)];
    for (let layer = 0; layer < sheet.layers; layer++) {
      const cells = Array.from({ length: sheet.counts[layer] }, (_, head) => this.tile(sheet, layer, head));
      rows.push(make("div", { class: "line", role: "row" }, make("span", { class: "axis", role: "rowheader", text: "L" + layer }), ...cells));
    }
    this.grid.replaceChildren(...rows);
  }

  tile(sheet, layer, head) {
    const name = `L${layer}H${head}`;
    if (!sheet.has(layer, head)) {
      const why = sheet.gone.has(layer + "." + head) ? "pruned" : "not here";
      return make("span", { class: "gap", role: "gridcell", title: `${name}: ${why}`, text: why });
    }
    const tile = make("button", { type: "button", class: "tile", "data-layer": layer, "data-head": head, title: name, "aria-label": name }, make("canvas", { "aria-hidden": "true" }));
    tile.addEventListener("click", () => {
      const { state } = this.app;
      const same = state.layer === layer && state.head === head;
      this.app.set({ layer, head, detail: !(same && state.detail) });
    });
    return make("span", { role: "gridcell" }, tile);
  }

  draw(tile) {
    const [layer, head] = [+tile.dataset.layer, +tile.dataset.head];
    this.paint(new CanvasPen(tile.firstChild, TILE, TILE), layer, head, 0, 0);
    tile.dataset.drawn = this.app.state.lines ? "lines" : "cells";
  }

  paint(pen, layer, head, x, y) {
    const { app: { state, theme, palette, colours }, sheet } = this;
    const matrix = shown(sheet, state, layer, head);
    const [r, c] = [matrix.rows.length, matrix.columns.length];
    const keep = keeper(matrix, state);
    pen.rect(x, y, TILE, TILE, state.lines ? theme.soft : theme.gap);
    if (!r || !c) return;
    const most = rangeOf(matrix, state, () => this.app.largest(this.panel));
    if (!state.lines) {
      const ground = rgb(theme.gap);
      pen.cells(x, y, TILE, TILE, c, r, (i, j) => (keep(i, j) ? palette.rgb(matrix.data[i * c + j] / most) : ground));
      return;
    }
    const scene = { rows: matrix.rows, columns: matrix.columns, layers: [{ matrix, keep, colour: colours[head] }] };
    const step = (TILE - 6) / Math.max(r, c);
    const every = (list) => list.map((_, i) => i);
    lines(pen, scene, every(matrix.rows), every(matrix.columns), [x + 8, x + TILE - 8], (i) => y + 3 + (i + 0.5) * step);
  }

  detail() {
    const { state } = this.app;
    this.side.hidden = !state.detail;
    this.root.classList.toggle("open", state.detail);
    if (!state.detail) return;
    const { layer, head } = state;
    if (!this.picture) {
      this.title = make("h2");
      const go = (view) => () => this.app.set({ view, layer: this.app.state.layer, head: this.app.state.head, heads: [this.app.state.head], combine: "each" });
      this.side.append(
        make("div", { class: "bar" }, this.title,
          make("button", { type: "button", text: "Head view", onclick: go("head") }),
          make("button", { type: "button", text: "Matrix", onclick: go("matrix") }),
          make("button", { type: "button", text: "Close", class: "close", onclick: () => this.app.set({ detail: false }) })));
      this.holder = make("div");
      this.side.append(this.holder);
      this.picture = new LinkPicture(this.app, this.holder, "detail");
    }
    this.title.textContent = `Layer ${layer}, head ${head}`;
    const matrix = shown(this.sheet, state, layer, head);
    this.picture.show(linkScene(this.app, [{ name: `L${layer}H${head}`, head, matrix }]));
  }

  // Arrow keys walk through the heads and pass over gaps.
  key(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Escape" && this.app.state.detail) this.app.set({ detail: false });
    if (!step) return;
    event.preventDefault();
    let { layer, head } = this.app.state;
    do {
      layer += step[0];
      head += step[1];
      if (layer < 0 || layer >= this.sheet.layers || head < 0 || head >= Math.max(...this.sheet.counts)) return;
    } while (!this.sheet.has(layer, head));
    this.app.set({ layer, head });
    this.grid.querySelector(`[data-layer="${layer}"][data-head="${head}"]`).focus();
  }

  pictures() {
    const { sheet, app: { theme } } = this;
    const most = Math.max(...sheet.counts);
    const [width, height] = [36 + most * (TILE + 4), 24 + sheet.layers * (TILE + 4)];
    const paint = (pen) => {
      for (let head = 0; head < most; head++) pen.text(36 + head * (TILE + 4) + TILE / 2, 12, "H" + head, { colour: theme.faint, size: 12, align: "center" });
      for (let layer = 0; layer < sheet.layers; layer++) {
        const y = 24 + layer * (TILE + 4);
        pen.text(28, y + TILE / 2, "L" + layer, { colour: theme.faint, size: 12, align: "right" });
        for (let head = 0; head < sheet.counts[layer]; head++) {
          const x = 36 + head * (TILE + 4);
          if (sheet.has(layer, head)) this.paint(pen, layer, head, x, y);
          else pen.text(x + TILE / 2, y + TILE / 2, sheet.gone.has(layer + "." + head) ? "pruned" : "not here", { colour: theme.faint, size: 11, align: "center" });
        }
      }
    };
    const list = [{ title: this.panel.title, width, height, paint }];
    if (this.app.state.detail) list.push({ title: this.title.textContent, ...this.picture.saved() });
    return list;
  }

  // A row per head: its strongest link.
  numbers() {
    if (this.app.state.detail) return this.picture.numbers();
    const list = this.sheet.heads.map(([layer, head]) => {
      const { rows, columns, data } = shown(this.sheet, this.app.state, layer, head);
      let best = 0;
      data.forEach((value, at) => { if (value > data[best]) best = at; });
      if (!data.length) return [`L${layer}H${head}`, "", "", 0];
      return [`L${layer}H${head}`, rows[Math.floor(best / columns.length)].label, columns[best % columns.length].label, data[best]];
    });
    return { names: ["head", "query", "key", "largest weight"], list };
  }
}
