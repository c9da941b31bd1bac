// Puts the page together: data, state, controls and the view.

const VIEW_CLASSES = { head: HeadView, model: ModelView, neuron: NeuronView, matrix: MatrixView, flow: FlowView };

class Panel {
  constructor(app, side, sheet, layer, { name = "", only = false }) {
    Object.assign(this, { app, side, sheet, layer, name, only });
    const { state } = app;
    this.head = sheet.has(layer, state.head) ? state.head : sheet.headsOf(layer)[0];
    const where = state.combine === "each" || only ? `Layer ${layer}` : "";
    this.title = [name, where].filter(Boolean).join(", ") || sheet.name;
  }

  picked() {
    return picked(this, this.app.state);
  }

  one(head) {
    if (!this.sheet.has(this.layer, head)) return null;
    return { name: `L${this.layer}H${head}`, head, matrix: shown(this.sheet, this.app.state, this.layer, head) };
  }
}

// The second of two panels minus the first.
class Difference {
  constructor(app, first, second) {
    Object.assign(this, { app, first, second, sheet: first.sheet, layer: first.layer, head: first.head });
    this.title = "Difference, second minus first";
    this.side = first.side;
    this.cache = new Map();
  }

  between(a, b) {
    const name = a.name === b.name ? a.name : `${b.name} minus ${a.name}`;
    if (!this.cache.has(name)) this.cache.set(name, difference(a.matrix, b.matrix));
    return { name, head: a.head, matrix: this.cache.get(name) };
  }

  picked() {
    const others = this.second.picked();
    return this.first.picked().flatMap((a) => {
      const b = others.find((one) => one.head === a.head);
      return b ? [this.between(a, b)] : [];
    });
  }

  one() {
    const [a, b] = [this.first.one(this.first.head), this.second.one(this.second.head)];
    return a && b ? this.between(a, b) : null;
  }
}

class App {
  constructor(page) {
    addEventListener("hashchange", () => {
      if (location.hash.slice(1) !== this.written) this.show(readFragment(location.hash, this.page));
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show(this.state));
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      this.show(this.state);
    });
    this.open(page);
  }

  // Shows a page, in place of the one before.
  open(page) {
    this.page = page;
    this.state = readFragment(location.hash, page);
    Object.assign(this, { form: null, scaleKey: null, coloured: null });
    for (const id of ["views", "controls"]) {
      const old = document.getElementById(id);
      old.replaceWith(old.cloneNode(false)); // without what listened to the controls before
    }
    this.head();
    this.controls = new Controls(this);
    this.show(this.state);
  }

  head() {
    const { page } = this;
    document.title = label(page.title) + " · attnviz";
    document.getElementById("title").textContent = label(page.title);
    document.getElementById("about").replaceChildren(make("bdi", { text: this.about() }));
    const { bits, errors } = page;
    const error = (value) => (value < 1e-12 ? "0" : value.toExponential(1));
    const notes = [
      ...page.notes,
      `Weights are kept in ${bits} bits: none is off by more than ${error(errors.weight)}, no row's sum by more than ${error(errors.sum)}.`,
      `Attention says where a head looked, not why the model answers as it does. ${page.tool}`,
    ];
    document.getElementById("notes").replaceChildren(...notes.map((text) => make("p", { dir: "auto", text })));
  }

  about() {
    const { sides } = this.page;
    const models = [...new Set(sides.map((side) => side.model))].map(label).join(" and ");
    const counts = sides.map(({ sheets }) => sheets.map((sheet) => sheet.square ? sheet.rows.tokens.length : `${sheet.rows.tokens.length} × ${sheet.columns.tokens.length}`).join(", "));
    return `${models} · ${counts.join(" and ")} tokens`;
  }

  sheet() {
    return this.page.sides[0].sheets[this.state.stack];
  }

  // What stands side by side.
  panels() {
    if (this.made) return this.made;
    const { page, state } = this;
    const [first, second] = page.sides;
    const sheet = this.sheet();
    const both = ["head", "matrix", "flow"].includes(state.view);
    const panel = (side, of, layer, more) => new Panel(this, side, of, layer, more);
    this.made = [panel(first, sheet, state.layer, {})];
    if (both && state.compare === "side" && second) {
      const other = second.sheets[Math.min(state.stack, second.sheets.length - 1)];
      const names = first.name === second.name ? [first.model, second.model] : [first.name, second.name];
      const layer = other.headsOf(state.layer).length ? state.layer : other.heads[0][0];
      this.made = [panel(first, sheet, state.layer, { name: "1: " + label(names[0]) }), panel(second, other, layer, { name: "2: " + label(names[1]) })];
    } else if (both && state.compare === "layer" && state.view !== "flow") {
      this.made = [panel(first, sheet, state.layer, { name: "1", only: true }), panel(first, sheet, state.against, { name: "2", only: true })];
    }
    if (this.made.length > 1 && state.view !== "flow") this.made.push(new Difference(this, ...this.made));
    return this.made;
  }

  // The largest weight of all heads, for a shared scale.
  largest(panel) {
    const { state } = this;
    const key = shownKey(panel.sheet, state);
    if (this.scaleKey !== key) {
      this.scaleKey = key;
      this.scale = panel.sheet.heads.reduce((most, [layer, head]) => Math.max(most, largestOf(shown(panel.sheet, state, layer, head).data)), 0) || 1;
    }
    return this.scale;
  }

  set(changes) {
    this.show(settle({ ...this.state, ...changes }, this.page));
  }

  show(state) {
    const before = this.state;
    this.state = state;
    this.made = null;
    this.themeName = themeOf(state);
    this.theme = THEMES[this.themeName];
    document.documentElement.dataset.theme = this.themeName;
    const count = Math.max(...this.page.sides.flatMap((side) => side.sheets.flatMap((sheet) => sheet.counts)));
    if (this.coloured !== this.themeName) this.colours = headColours(count, this.themeName === "dark");
    this.coloured = this.themeName;
    this.palette ??= palette(this.page.palette);
    this.write();
    this.controls.update();
    const root = document.getElementById("view");
    const form = [state.view, this.panels().length].join();
    if (this.form !== form) {
      this.form = form;
      root.replaceChildren();
      root.className = state.view;
      root.setAttribute("role", "tabpanel");
      root.setAttribute("aria-labelledby", "tab-" + state.view);
      this.view = new VIEW_CLASSES[state.view](this, root);
    }
    this.view.update();
    document.getElementById("said").textContent = this.said();
    showTable(this);
    if (before !== state && before.view !== state.view) this.say("");
  }

  write() {
    this.written = writeFragment(this.state, this.page);
    const hash = this.written ? "#" + this.written : " ";
    try {
      if (location.hash.slice(1) !== this.written) history.replaceState(null, "", hash.trim() || location.pathname + location.search);
    } catch {
      // a frame without an address of its own keeps no state
    }
  }

  // What was done to the weights that are shown.
  said() {
    const { state } = this;
    const parts = [];
    if (state.view !== "neuron" && state.words) parts.push("By words: sum over the pieces attended to, mean over the pieces attending.");
    if (["head", "model", "matrix"].includes(state.view)) {
      if (state.bare) parts.push("Special tokens hidden, rows scaled to sum to 1 again.");
      if (state.least || state.most) parts.push("Weaker links are left out; what is shown keeps its weight.");
    }
    return parts.join(" ");
  }

  say(text) {
    document.getElementById("readout").textContent = text;
  }
}

const app = new App(readPage(document.getElementById("data").textContent));
