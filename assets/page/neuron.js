// Neuron view: how one head weighs the keys of one query: q, k, q × k, their sum, what the model adds,
// the score and its soft-max.

const CELL = 60;

class NeuronView {
  constructor(app, root) {
    this.app = app;
    this.title = make("h2");
    this.toggle = make("button", { type: "button", onclick: () => this.expand(app.state.open < 0 ? this.first() : -1) });
    this.pick = make("select", { "aria-label": "query token", dir: "auto", onchange: () => this.expand(+this.pick.value) });
    this.bar = make("div", { class: "bar" }, this.title, this.toggle, make("label", { class: "field" }, "Query ", this.pick));
    this.holder = make("div");
    this.picture = new LinkPicture(app, this.holder, "neuron");
    this.picture.choose = (side, button) => {
      if (button && side === "queries") this.expand(+button.dataset.at);
    };
    this.canvas = make("canvas", {
      role: "img", tabindex: 0,
      onpointermove: (event) => this.over(event),
      onkeydown: (event) => this.key(event),
    });
    this.wide = make("div", { class: "sideways" }, this.canvas);
    this.note = make("p", { class: "small" });
    root.append(this.bar, this.holder, this.wide, this.note);
  }

  first() {
    const { state } = this.app;
    return state.queries[0] ?? (this.panel.sheet.rows.tokens.length > 1 ? 1 : 0);
  }

  expand(open) {
    this.app.set({ open });
    if (open < 0) this.toggle.focus();
  }

  update() {
    const panel = this.app.panels()[0];
    this.panel = panel;
    const { sheet, layer, head } = panel;
    // queries and keys belong to pieces
    this.state = { ...this.app.state, words: false, bare: false, filter: "all" };
    const name = `L${layer}H${head}`;
    this.title.textContent = `Layer ${layer}, head ${head}`;
    const matrix = shown(sheet, this.state, layer, head);
    this.matrix = matrix;
    this.data = sheet.neuron(layer, head);
    const open = this.data && this.app.state.open >= 0 && this.app.state.open < matrix.rows.length;
    this.open = open ? this.app.state.open : -1;
    this.toggle.textContent = open ? "− Collapse" : "+ Expand";
    this.toggle.setAttribute("aria-expanded", open);
    this.toggle.disabled = !this.data;
    this.pick.parentElement.hidden = !open;
    if (this.pick.sheet !== sheet) {
      this.pick.sheet = sheet;
      this.pick.replaceChildren(...items(sheet, sheet.rows, { ...this.state, step: -1 }).map((item, i) => make("option", { value: i, text: `${i}: ${item.label}` })));
    }
    this.pick.value = Math.max(0, this.open);
    this.holder.hidden = open;
    this.wide.hidden = !open;
    this.note.textContent = this.said(sheet, layer, open);
    if (!open) {
      const keep = keeper(matrix, this.state);
      this.picture.show({ ...linkScene(this.app, [{ name, head, matrix }]), layers: [{ name, matrix, keep, colour: this.app.colours[head] }] });
      return;
    }
    this.work = this.compute(sheet, this.open);
    this.canvas.setAttribute("aria-label", `query ${this.matrix.rows[this.open].label} of ${name}, key by key; arrow keys choose the query`);
    this.paint();
  }

  said(sheet, layer, open) {
    const { state } = this.app;
    if (!this.data) {
      const there = [...new Set(sheet.neurons.map((one) => one.layer))];
      const some = there.length ? `This page holds queries and keys of layer ${writeList(there)}.` : "This page holds no queries and keys.";
      return `${some} To have those of this layer: attnviz html --neuron ${layer}`;
    }
    const pieces = state.words || state.bare ? "By pieces, with special tokens: queries and keys are theirs. " : "";
    const how = open
      ? "A bar up is positive, down negative. A single dimension means nothing by itself: queries and keys can be turned together without any change of their products. "
      : "Click a query token, or Expand, to see how its weights come about. ";
    return pieces + how;
  }

  // Everything about one query: per key the products, their sum, the further terms, score, weight.
  compute(sheet, i) {
    const { data } = this;
    const [k, s] = [data.width, sheet.columns.tokens.length];
    const limit = this.matrix.columns.length;
    const query = sheet.floats(data.query_at + i * k * 4, k);
    const terms = data.terms_at === undefined ? null : sheet.floats(data.terms_at + i * s * 4, s);
    const keys = [];
    for (let j = 0; j < limit; j++) {
      const key = sheet.floats(data.key_at + j * k * 4, k);
      const products = Float64Array.from(key, (value, d) => value * query[d]);
      const dot = products.reduce((sum, value) => sum + value, 0);
      const term = terms ? terms[j] : 0;
      keys.push({ key, products, dot, term, hidden: Number.isNaN(term), score: dot * data.factor + term });
    }
    const seen = keys.filter((one) => !one.hidden);
    const most = Math.max(...seen.map((one) => one.score));
    const sum = seen.reduce((all, one) => all + Math.exp(one.score - most), 0);
    for (const one of keys) one.weight = one.hidden ? 0 : Math.exp(one.score - most) / sum;
    const largest = (all, of) => all.reduce((top, one) => Math.max(top, largestOf(of(one))), 1e-9);
    return {
      query, keys,
      added: seen.some((one) => one.term !== 0),
      range: Math.max(largestOf(query), largest(keys, (one) => one.key)),
      products: largest(keys, (one) => one.products),
    };
  }

  // Where the columns are.
  places() {
    const { width } = this.data;
    const strip = Math.max(128, Math.min(256, width * 3));
    const places = { label: 0, key: 128, strip };
    places.product = places.key + strip + 16;
    places.dot = places.product + strip + 8;
    let x = places.dot + CELL;
    if (this.work.added) {
      places.term = x;
      x += CELL + 8;
    }
    places.score = x;
    places.weight = x + CELL + 8;
    places.width = places.weight + 120;
    places.height = 74 + ROW * this.work.keys.length;
    return places;
  }

  paint() {
    if (!this.work || !this.canvas.isConnected) return;
    const at = this.places();
    this.draw(new CanvasPen(this.canvas, at.width, at.height), at);
  }

  draw(pen, at) {
    const { work, matrix, panel: { sheet }, app: { theme } } = this;
    const small = { colour: theme.faint, size: 12 };
    const factor = this.data.factor;
    const scaled = factor === 1 ? "q·k" : `q·k × ${factor.toPrecision(3)}`;
    const heads = [
      [at.key, "Query q and key k", "left"], [at.product, "q × k, elementwise", "left"],
      [at.dot + CELL - 4, "q·k", "right"], [at.score + CELL, "Score", "right"], [at.weight + 8, "Soft-max", "left"],
    ];
    if (work.added) heads.push([at.term + CELL, sheet.terms, "right"]);
    for (const [x, text, align] of heads) pen.text(x, 12, text, { ...small, align, bold: true });
    pen.text(at.score + CELL, 28, work.added ? "sum" : scaled, { ...small, size: 10, align: "right" });
    if (work.added) pen.text(at.dot + CELL - 4, 28, `then × ${factor.toPrecision(3)}`, { ...small, size: 10, align: "right" });
    const y = (row) => 40 + ROW * row + ROW / 2;
    pen.rect(0, y(0) - ROW / 2, at.width, ROW, theme.mark);
    pen.text(at.key - 8, y(0), matrix.rows[this.open].label, { colour: theme.ink, align: "right", bold: true, most: 116 });
    this.vector(pen, at.key, y(0), at.strip, work.query, work.range);
    pen.text(at.product, y(0), "the query", small);
    pen.line(0, y(0) + ROW / 2 + 4, at.width, y(0) + ROW / 2 + 4, theme.line);
    work.keys.forEach((one, j) => this.row(pen, at, 74 + ROW * j + ROW / 2, matrix.columns[j], one));
  }

  row(pen, at, y, item, one) {
    const { work, app: { theme, colours }, panel } = this;
    const ink = { colour: one.hidden ? theme.faint : theme.ink };
    pen.text(at.key - 8, y, item.label, { ...ink, align: "right", most: 116 });
    this.vector(pen, at.key, y, at.strip, one.key, work.range);
    if (one.hidden) {
      pen.text(at.product, y, "hidden from this query", { colour: theme.faint, size: 12 });
      return;
    }
    this.vector(pen, at.product, y, at.strip, one.products, work.products);
    const value = (x, number_) => pen.text(x, y, number_.toFixed(2), { colour: number_ < 0 ? theme.minus : theme.plus, size: 12, align: "right" });
    value(at.dot + CELL - 4, one.dot);
    if (work.added) value(at.term + CELL, one.term);
    value(at.score + CELL, one.score);
    pen.rect(at.weight + 8, y - 7, 60 * one.weight, 14, colours[panel.head]);
    pen.frame(at.weight + 8, y - 7, 60, 14, theme.line);
    pen.text(at.weight + 116, y, number(one.weight), { colour: theme.ink, size: 12, align: "right" });
  }

  vector(pen, x, y, wide, values, range) {
    const { theme } = this.app;
    const step = wide / values.length;
    const half = ROW / 2 - 2;
    pen.rect(x, y - half, wide, 2 * half, theme.soft);
    values.forEach((value, d) => {
      const tall = half * Math.min(1, Math.sqrt(Math.abs(value) / range));
      pen.rect(x + d * step, value > 0 ? y - tall : y, Math.max(0.75, step - 0.25), tall, value > 0 ? theme.plus : theme.minus);
    });
  }

  over(event) {
    const box = this.canvas.getBoundingClientRect();
    const at = this.places();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const j = Math.floor((y - 74) / ROW);
    const one = this.work.keys[j];
    if (!one) return;
    const { query } = this.work;
    const name = isolated(this.matrix.columns[j].label);
    for (const place of ["key", "product"]) {
      const d = Math.floor(((x - at[place]) / at.strip) * query.length);
      if (d >= 0 && d < query.length) {
        this.app.say(`${name}, dimension ${d}: q ${query[d].toFixed(3)} × k ${one.key[d].toFixed(3)} = ${one.products[d].toFixed(3)}`);
        return;
      }
    }
    if (one.hidden) this.app.say(`${name} is hidden from this query`);
    else this.app.say(`${name}: q·k ${one.dot.toFixed(4)}, score ${one.score.toFixed(4)}, weight ${one.weight.toFixed(5)}`);
  }

  key(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const open = this.open + step;
    if (open >= 0 && open < this.matrix.rows.length) this.app.set({ open });
  }

  pictures() {
    const title = this.title.textContent;
    if (this.open < 0) return [{ title, ...this.picture.saved() }];
    const at = this.places();
    return [{ title, width: at.width, height: at.height, paint: (pen) => this.draw(pen, at) }];
  }

  numbers() {
    if (this.open < 0) return this.picture.numbers();
    const list = this.work.keys.map((one, j) => [j, this.matrix.columns[j].label, one.dot, one.hidden ? "hidden" : one.term, one.hidden ? "hidden" : one.score, one.weight]);
    return { names: ["key position", "key", "q·k", this.panel.sheet.terms, "score", "soft-max"], list };
  }
}
