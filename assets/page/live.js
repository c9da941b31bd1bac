// A served page: a box to type into, tokens to mask, heads to switch off. Each change asks the server
// for a run and shows the answer in place of the page before. What was asked stands in the query of
// the URL, so that a link or a reload asks the same.

const headName = ([layer, head]) => `L${layer}H${head}`;
const sameHead = ([a, b]) => ([c, d]) => a === c && b === d;

// Children of `root`, as many as `list`, made once and brought up to date, so that the focus stays.
function follow(root, list, tag, update) {
  while (root.children.length > list.length) root.lastChild.remove();
  while (root.children.length < list.length) root.append(document.createElement(tag));
  list.forEach((one, i) => update(root.children[i], one, i));
}

function queryOf(ask) {
  const parts = new URLSearchParams({ text: ask.text });
  if (ask.pair !== null) parts.set("pair", ask.pair);
  if (ask.model) parts.set("model", ask.model);
  if (ask.off.length) parts.set("off", ask.off.map(headName).join(","));
  if (ask.masked.length) parts.set("masked", writeList(ask.masked));
  if (ask.compare) parts.set("compare", "1");
  return "?" + parts;
}

// What a query asks for; null where it asks for nothing.
function askOf(query) {
  const parts = new URLSearchParams(query);
  if (!parts.has("text")) return null;
  const heads = (parts.get("off") ?? "").match(/L\d{1,4}H\d{1,4}/g) ?? [];
  return {
    text: parts.get("text"),
    pair: parts.get("pair"),
    model: isCount(parts.get("model") ?? "") ? +parts.get("model") : 0,
    off: heads.map((name) => name.match(/\d+/g).map(Number)),
    masked: readList(parts.get("masked") ?? "") ?? [],
    compare: parts.get("compare") === "1",
  };
}

class LiveBar {
  constructor(app) {
    this.app = app;
    this.build();
    this.take(app.page.live);
    this.fill(this.live);
    const asked = askOf(location.search);
    if (!asked) return;
    this.fill(asked);
    this.ask(asked);
  }

  build() {
    const field = (text, node) => make("label", { class: "field" }, make("span", { text }), node);
    this.model = make("select", { id: "live-model", onchange: () => this.submit() });
    this.text = make("textarea", { id: "live-text", rows: 2, dir: "auto", spellcheck: "false", onkeydown: (event) => this.enter(event) });
    this.pair = make("textarea", { id: "live-pair", rows: 1, dir: "auto", spellcheck: "false", onkeydown: (event) => this.enter(event) });
    this.button = make("button", { type: "submit", id: "live-run", text: "Run" });
    this.form = make("form", { id: "ask", onsubmit: (event) => (event.preventDefault(), this.submit()) },
      field("Model", this.model), field("Text", this.text), field("Second text", this.pair), this.button);
    this.error = make("p", { id: "live-error", role: "alert", dir: "auto" });
    this.tokens = make("div", { id: "live-tokens", class: "chips", role: "group", "aria-label": "Tokens to mask", onclick: (event) => this.mask(event) });
    this.masking = make("p", { class: "small" });
    this.heads = make("div", { id: "live-heads", role: "group", "aria-label": "Heads to switch off", onclick: (event) => this.gate(event), onkeydown: (event) => this.move(event) });
    this.summary = make("summary", {});
    this.details = make("details", { id: "live-gates" }, this.summary,
      make("p", { class: "small", text: "Click a head to switch it off: what it adds to its layer becomes 0. Where it looks is still computed and shown; what changes is everything after it." }), this.heads);
    this.compare = make("input", { type: "checkbox", id: "live-compare", onchange: () => this.ask({ compare: this.compare.checked }) });
    this.undo = make("button", { type: "button", id: "live-undo", text: "Undo all changes", onclick: () => this.ask({ off: [], masked: [], compare: false }) });
    this.changes = make("div", { class: "group" }, make("label", { class: "check" }, this.compare, " Compare with the unchanged run"), this.undo);
    this.answers = make("div", { id: "live-answers" });
    this.root = make("section", { id: "live", "aria-label": "Run the model" },
      this.form, this.error, this.tokens, this.masking, this.details, this.changes, this.answers);
    document.getElementById("top").after(this.root);
  }

  // Enter runs; with the shift key it breaks the line.
  enter(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit();
  }

  // What is typed; other text or another model takes back what was masked or switched off in them.
  submit() {
    const typed = { text: this.text.value, pair: this.pair.value === "" ? null : this.pair.value, model: +this.model.value };
    const { asked } = this;
    const same = typed.text === asked.text && typed.pair === asked.pair;
    if (typed.model !== asked.model) this.ask({ ...typed, masked: [], off: [] });
    else this.ask({ ...typed, masked: same ? asked.masked : [] });
  }

  async ask(changes) {
    const { text, pair, model, off, masked, compare } = { ...this.asked, ...changes };
    this.asked = { text, pair, model, off, masked, compare }; // what a click before the answer adds to
    this.running?.abort();
    const running = (this.running = new AbortController());
    this.root.setAttribute("aria-busy", "true");
    try {
      const page = await this.fetch(this.asked, running.signal);
      this.app.open(page);
      this.take(page.live);
      history.replaceState(null, "", location.pathname + queryOf(this.live) + location.hash);
      this.error.textContent = "";
    } catch (error) {
      if (running.signal.aborted) return;
      this.take(this.live); // the switches as they are
      this.error.textContent = label(error.message);
    }
    this.root.setAttribute("aria-busy", "false");
  }

  async fetch(ask, signal) {
    const lost = () => new Error("The server does not answer; is `attnviz serve` still running?");
    const reply = await fetch("run", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(ask),
      signal,
    }).catch(() => Promise.reject(lost()));
    const text = await reply.text().catch(() => Promise.reject(lost()));
    if (reply.ok) return readPage(text);
    let why = `The server answers ${reply.status}.`;
    try {
      why = String(JSON.parse(text).error ?? why);
    } catch {
      // no JSON: something between here and the server answered
    }
    throw new Error(why);
  }

  fill({ text, pair, model }) {
    this.text.value = text;
    this.pair.value = pair ?? "";
    this.model.value = this.live.models[model] ? model : 0;
  }

  // Shows what ran.
  take(live) {
    const first = !this.live;
    this.live = this.asked = live;
    const { mask } = live.models[live.model];
    follow(this.model, live.models, "option", (node, one, i) => {
      node.value = i;
      node.textContent = label(one.name);
    });
    follow(this.tokens, live.tokens, "button", (node, one, i) => this.token(node, one, i, mask));
    this.masking.textContent = mask !== null
      ? `Click a token to replace it by ${label(mask)}, and again to put it back.`
      : "Click a token to hide it, and again to show it: no token attends to a hidden one. This tokenizer has no mask to put in its place.";
    follow(this.heads, live.heads, "div", (row, heads, layer) => this.layer(row, heads, layer));
    const way = this.heads.querySelector("[tabindex='0']") ?? this.heads.querySelector("button");
    if (way) way.tabIndex = 0;
    if (first) this.details.open = live.heads.length <= 8;
    const off = live.off.length ? live.off.map(headName).join(", ") + " switched off" : "none switched off";
    this.summary.textContent = `Heads${live.stack === null ? "" : " of the " + live.stack}: ${off}`;
    const changed = live.off.length + live.masked.length > 0;
    this.compare.checked = live.compare;
    this.compare.disabled = !changed && !live.compare;
    this.undo.disabled = !changed;
    follow(this.answers, live.answers, "p", (node, { of, list }) => {
      const parts = list.flatMap(([text, share], i) => [i ? " · " : " ", make("bdi", { text: label(text) }), ` ${(100 * share).toFixed(1)} %`]);
      node.replaceChildren(make("bdi", { class: "of", text: label(of) }), ...parts);
    });
  }

  token(node, one, i, mask) {
    const masked = this.live.masked.includes(i);
    node.type = "button";
    node.className = "chip";
    node.value = i;
    node.disabled = !one.free;
    node.dir = "auto";
    node.textContent = masked && mask !== null ? label(mask) : label(one.text);
    node.title = masked ? label(one.text) + ", masked" : "";
    node.setAttribute("aria-pressed", masked);
  }

  layer(row, heads, layer) {
    row.className = "chips";
    if (!row.children.length) row.append(make("span", { text: "L" + layer }), make("span", { class: "chips" }));
    follow(row.lastChild, heads, "button", (node, head) => {
      if (node.className !== "chip") Object.assign(node, { type: "button", className: "chip", tabIndex: -1 });
      const off = this.live.off.some(sameHead([layer, head]));
      node.value = layer + "." + head;
      node.textContent = off ? "✕" : head;
      node.setAttribute("aria-pressed", !off);
      node.setAttribute("aria-label", headName([layer, head]) + (off ? ", off" : ", on"));
      node.title = headName([layer, head]);
    });
  }

  mask(event) {
    const node = event.target.closest("button");
    if (!node) return;
    const { masked } = this.asked;
    const at = +node.value;
    this.ask({ masked: masked.includes(at) ? masked.filter((one) => one !== at) : [...masked, at] });
  }

  gate(event) {
    const node = event.target.closest("button");
    if (!node) return;
    const { off } = this.asked;
    const head = node.value.split(".").map(Number);
    this.ask({ off: off.some(sameHead(head)) ? off.filter((one) => !sameHead(head)(one)) : [...off, head] });
  }

  // Arrows go from head to head; only one of them is on the way of the tab key.
  move(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || event.target.localName !== "button") return;
    event.preventDefault();
    const rows = [...this.heads.children].map((row) => [...row.querySelectorAll("button")]);
    const at = rows.findIndex((row) => row.includes(event.target));
    const row = rows[at + step[0]];
    const next = row?.[Math.min(row.length - 1, rows[at].indexOf(event.target) + step[1])];
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

new LiveBar(app);
