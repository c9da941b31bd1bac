// Everything that is chosen over the view: a list of controls, each with when it is there and how it
// follows the state.

const VIEW_NAMES = { head: "Head", model: "Model", neuron: "Neuron", matrix: "Matrix", flow: "Flow" };

class Controls {
  constructor(app) {
    this.app = app;
    this.list = [];
    this.tabs();
    this.root = document.getElementById("controls");
    this.groups = ["what", "chips", "how", "keep"].map((name) => make("div", { class: "group " + name }));
    this.root.append(...this.groups);
    const [what, chips, how, keep] = this.groups;
    this.what(what);
    this.chips(chips);
    this.how(how);
    this.keep(keep);
  }

  update() {
    const { state } = this.app;
    const sheet = this.app.sheet();
    for (const one of this.list) {
      const there = !one.when || one.when(state, sheet);
      one.node.hidden = !there;
      if (there) one.update?.(state, sheet);
    }
  }

  put(root, node, when, update) {
    root.append(node);
    this.list.push({ node, when, update });
  }

  tabs() {
    const root = document.getElementById("views");
    for (const view of VIEWS) {
      const tab = make("button", { type: "button", role: "tab", id: "tab-" + view, "aria-controls": "view", text: VIEW_NAMES[view], onclick: () => this.app.set({ view }) });
      this.put(root, tab, null, (state) => {
        tab.setAttribute("aria-selected", state.view === view);
        tab.tabIndex = state.view === view ? 0 : -1;
      });
    }
    root.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      const view = VIEWS[(VIEWS.indexOf(this.app.state.view) + step + VIEWS.length) % VIEWS.length];
      this.app.set({ view });
      document.getElementById("tab-" + view).focus();
    });
  }

  // A choice among a few, `options(state, sheet)` as [value, text].
  select(root, name, text, options, when) {
    const node = make("select", { id: name, onchange: () => this.app.set({ [name]: isCount(node.value) ? +node.value : node.value }) });
    this.put(root, make("label", { class: "field" }, text + " ", node), when, (state, sheet) => {
      const list = options(state, sheet);
      const key = list.join("\n");
      if (node.key !== key) {
        node.key = key;
        node.replaceChildren(...list.map(([value, shown_]) => make("option", { value, text: shown_ })));
      }
      node.value = state[name];
    });
  }

  check(root, name, text, when, title = "") {
    const node = make("input", { type: "checkbox", id: name, onchange: () => this.app.set({ [name]: node.checked }) });
    this.put(root, make("label", { class: "check", title }, node, " " + text), when, (state) => (node.checked = state[name]));
  }

  what(root) {
    const { page } = this.app;
    const layers = (_, sheet) => sheet.counts.map((_, layer) => [layer, layer]).filter(([layer]) => sheet.headsOf(layer).length);
    const heads = (state, sheet) => sheet.headsOf(state.layer).map((head) => [head, head]);
    const oneLayer = (state) => state.view === "neuron" || (["head", "matrix"].includes(state.view) && state.combine === "each");
    this.select(root, "stack", "Attention", () => page.sides[0].sheets.map((sheet, i) => [i, sheet.name]), () => page.sides[0].sheets.length > 1);
    this.select(root, "layer", "Layer", layers, oneLayer);
    this.select(root, "head", "Head", heads, (state) => state.view === "neuron" || (state.view === "matrix" && state.combine === "each"));
    this.select(root, "combine", "Show", () => [["each", "each head"], ["mean", "their mean"], ["max", "their maximum"]], (state) => ["head", "matrix"].includes(state.view));
    this.select(root, "filter", "Pair", () => [["all", "all"], ["aa", "A → A"], ["bb", "B → B"], ["ab", "A → B"], ["ba", "B → A"]], (state, sheet) => isPair(sheet) && ["head", "matrix", "model"].includes(state.view));
    const compares = () => [["off", "off"], ...(page.sides.length > 1 ? [["side", "the other"]] : []), ["layer", "layer"]];
    this.select(root, "compare", "Compare", compares, (state, sheet) => ["head", "matrix", "flow"].includes(state.view) && (sheet.layers > 1 || page.sides.length > 1));
    this.select(root, "against", "with layer", layers, (state) => state.compare === "layer" && oneLayer(state) && state.view !== "neuron");
    this.step(root);
  }

  step(root) {
    const node = make("input", { type: "range", id: "step", min: 0, step: 1, oninput: () => this.app.set({ step: +node.value === +node.max ? -1 : +node.value }) });
    const told = make("output", { for: "step" });
    this.put(root, make("label", { class: "field wide" }, "Step ", node, told), (_, sheet) => sheet.prompt !== null, (state, sheet) => {
      const steps = sheet.rows.tokens.length - sheet.prompt;
      node.max = steps;
      node.value = state.step < 0 ? steps : state.step;
      const at = extent(sheet, state);
      told.textContent = ` ${at - sheet.prompt} of ${steps}: ` + isolated(label(sheet.rows.tokens[at - 1].t));
    });
  }

  chips(root) {
    const combined_ = (state) => ["head", "matrix"].includes(state.view) && state.combine !== "each";
    this.chipRow(root, "layers", "Layers", (_, sheet) => sheet.counts.map((_, layer) => layer), (state) => combined_(state) && state.compare !== "layer");
    this.chipRow(root, "heads", "Heads", (state, sheet) => Array.from({ length: state.combine === "each" ? sheet.counts[state.layer] : Math.max(...sheet.counts) }, (_, head) => head),
      (state) => state.view === "head" || combined_(state));
  }

  // Squares that toggle on a click and stand alone, or give way to all, on a double one.
  chipRow(root, name, text, all, when) {
    const row = make("div", { class: "chips", role: "group", "aria-label": text });
    const isolate = (value) => {
      const now = this.app.state[name];
      this.app.set({ [name]: now && now.length === 1 && now[0] === value ? null : [value] });
    };
    const value = (event) => event.target.closest("button")?.value;
    row.addEventListener("click", (event) => {
      if (value(event) === undefined) return;
      const here = [...row.querySelectorAll("button:not(:disabled)")].map((chip) => +chip.value);
      const now = this.app.state[name] ?? here;
      const [chip, shown_] = [+value(event), now.filter((one) => here.includes(one))];
      // the last one stays on
      if (shown_.length === 1 && shown_[0] === chip) return;
      this.app.set({ [name]: now.includes(chip) ? now.filter((one) => one !== chip) : [...now, chip] });
    });
    row.addEventListener("dblclick", (event) => value(event) !== undefined && isolate(+value(event)));
    row.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() === "i" && value(event) !== undefined) isolate(+value(event));
    });
    const box = make("div", { class: "field" }, make("span", { text: text + " " }), row);
    this.put(root, box, when, (state, sheet) => this.fillChips(row, name, all(state, sheet), state, sheet));
  }

  fillChips(row, name, list, state, sheet) {
    if (row.children.length !== list.length) {
      row.replaceChildren(...list.map((value) => make("button", { type: "button", class: "chip", value, text: value, title: "click: on or off; double-click or key I: alone, and back to all" })));
    }
    [...row.children].forEach((chip, value) => {
      const here = name === "layers" || state.combine !== "each" || sheet.has(state.layer, value);
      const on = here && (!state[name] || state[name].includes(value));
      chip.disabled = !here;
      chip.setAttribute("aria-pressed", on);
      const colour = name === "heads" && state.combine === "each" ? this.app.colours[value] : this.app.theme.accent;
      chip.style.backgroundColor = on ? colour : "";
      chip.style.color = on ? inkOn(colour) : "";
      chip.style.borderColor = here ? colour : "";
    });
  }

  how(root) {
    const tokens = (state) => state.view !== "neuron";
    this.check(root, "words", "Words", tokens, "sum over the pieces attended to, mean over the pieces attending");
    this.check(root, "bare", "Hide special tokens", (state, sheet) => tokens(state) && sheet.rows.tokens.concat(sheet.columns.tokens).some((token) => token.s), "[CLS], [SEP] and the like; rows are scaled to sum to 1 again");
    this.check(root, "lines", "As lines", (state) => state.view === "model");
    this.select(root, "scale", "Scale", () => [["own", "of each matrix"], ["robust", "robust"], ["shared", "of all heads"]], (state) => ["matrix", "model"].includes(state.view));
    this.amount(root, "least", "Threshold", { min: 0, max: 1, step: 0.01 }, null);
    this.amount(root, "most", "Keys per query", { min: 0, max: 9999, step: 1 }, (state) => state.view !== "flow", "the strongest ones; 0 for all");
    this.amount(root, "residual", "Residual", { min: 0, max: 0.99, step: 0.01 }, (state) => state.view === "flow", "share of a token's own residual in each layer; 0.5 is Abnar and Zuidema's");
    this.zoom(root);
    const clear = make("button", { type: "button", id: "clear", onclick: () => this.app.set({ queries: [], keys: [] }) });
    this.put(root, clear, (state) => state.queries.length + state.keys.length > 0, (state) => {
      const count = state.queries.length + state.keys.length;
      clear.textContent = `${count} token${count > 1 ? "s, summed" : ""} ✕`;
      clear.title = "choose no tokens";
    });
  }

  amount(root, name, text, range, when, title = "") {
    const take = () => node.value !== "" && this.app.set({ [name]: +node.value });
    const node = make("input", { type: "number", id: name, ...range, oninput: take });
    this.put(root, make("label", { class: "field", title }, text + " ", node), when, (state) => {
      if (document.activeElement !== node || +node.value !== state[name]) node.value = state[name];
    });
  }

  zoom(root) {
    const by = (factor) => () => {
      const now = this.app.state.zoom || this.app.view.panels?.[0]?.size || 12;
      this.app.set({ zoom: factor ? Math.round(Math.min(64, Math.max(2, now * factor))) : 0 });
    };
    const box = make("div", { class: "field", role: "group", "aria-label": "zoom" },
      make("button", { type: "button", id: "out", text: "−", "aria-label": "smaller cells", onclick: by(1 / 1.5) }),
      make("button", { type: "button", id: "fit", text: "fit", onclick: by(0) }),
      make("button", { type: "button", id: "in", text: "+", "aria-label": "larger cells", onclick: by(1.5) }));
    this.put(root, box, (state) => state.view === "matrix");
  }

  keep(root) {
    const button = (id, text, act, title = "") => this.put(root, make("button", { type: "button", id, text, title, onclick: act }));
    button("png", "PNG", () => savePng(this.app), "save this view as pixels");
    button("svg", "SVG", () => saveSvg(this.app), "save this view as shapes");
    const table = make("button", { type: "button", id: "table", text: "Numbers", onclick: () => this.app.set({ table: !this.app.state.table }) });
    this.put(root, table, null, (state) => table.setAttribute("aria-pressed", state.table));
    button("copy", "Copy", () => copyNumbers(this.app), "the numbers of this view, tab-separated");
    const theme = make("button", { type: "button", id: "theme", onclick: () => this.app.set({ theme: this.app.themeName === "dark" ? "light" : "dark" }) });
    this.put(root, theme, null, () => (theme.textContent = this.app.themeName === "dark" ? "Light" : "Dark"));
  }
}
