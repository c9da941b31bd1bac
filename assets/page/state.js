// What is shown. All of it that is not as the page opens stands in the URL's fragment, so that a
// link or a reload shows the same.

const VIEWS = ["head", "model", "neuron", "matrix", "flow"];
const FILTERS = ["all", "aa", "bb", "ab", "ba"];

function startState(page) {
  const sheet = page.sides[0].sheets[0];
  // where there is most to see
  const some = sheet.neurons[0];
  const [layer, head] = some ? [some.layer, some.head] : sheet.heads[0];
  return {
    view: page.start.view,
    stack: 0,
    layer,
    head, // of the views of one head
    heads: null, // chosen ones; null for all
    layers: null, // for a mean or maximum; null for all
    combine: "each",
    filter: "all",
    words: page.start.words,
    bare: page.start.bare, // without special tokens
    least: 0,
    most: 0, // strongest keys of a query; 0 for all
    queries: [], // chosen tokens by their first piece
    keys: [],
    open: -1, // query of the neuron view; -1 for collapsed
    detail: false,
    lines: false, // in the model view
    scale: "own",
    zoom: 0,
    residual: page.start.residual,
    step: -1, // -1 for the whole text
    compare: page.compare ? "layer" : page.sides.length > 1 ? "side" : "off",
    against: page.compare ? page.compare[1] : layer,
    table: false,
    theme: "auto",
  };
}

const isCount = (text) => /^\d{1,6}$/.test(text);

function readList(text) {
  const list = [];
  for (const part of text.split(",")) {
    const [from, to] = part.split("-");
    if (!isCount(from) || (to !== undefined && !isCount(to))) return null;
    for (let i = +from; i <= +(to ?? from) && list.length < 100000; i++) list.push(i);
  }
  return list;
}

function writeList(list) {
  const parts = [];
  const sorted = [...list].sort((a, b) => a - b);
  for (let i = 0; i < sorted.length; ) {
    let end = i;
    while (sorted[end + 1] === sorted[end] + 1) end++;
    parts.push(end > i ? sorted[i] + "-" + sorted[end] : "" + sorted[i]);
    i = end + 1;
  }
  return parts.join(",");
}

// A state from a fragment; what makes no sense stays as the page opens.
function readFragment(fragment, page) {
  const state = startState(page);
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  for (const [name, text] of given) {
    if (!Object.hasOwn(state, name)) continue;
    const now = state[name];
    if (name === "heads" || name === "layers") state[name] = readList(text) ?? now;
    else if (Array.isArray(now)) state[name] = readList(text) ?? now;
    else if (typeof now === "boolean") state[name] = text === "1";
    else if (typeof now === "number" && text !== "" && isFinite(+text)) state[name] = +text;
    else if (typeof now === "string") state[name] = text;
  }
  return settle(state, page);
}

function writeFragment(state, page) {
  const start = startState(page);
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    const [now, then] = [value, start[name]].map((one) =>
      Array.isArray(one) ? writeList(one) : typeof one === "boolean" ? (one ? "1" : "0") : one);
    if (now !== then && now !== null) parts.set(name, now);
  }
  return parts.toString().replace(/%2C/g, ",");
}

// Within what the page holds.
function settle(state, page) {
  const start = startState(page);
  const oneOf = (name, names) => {
    if (!names.includes(state[name])) state[name] = start[name];
  };
  oneOf("view", VIEWS);
  oneOf("filter", FILTERS);
  oneOf("combine", ["each", "mean", "max"]);
  oneOf("scale", ["own", "robust", "shared"]);
  oneOf("theme", ["auto", "light", "dark"]);
  oneOf("compare", page.sides.length > 1 ? ["off", "side", "layer"] : ["off", "layer"]);
  const whole = (name, least, beyond) => {
    const value = Math.trunc(state[name]);
    state[name] = value >= least && value < beyond ? value : start[name];
  };
  whole("stack", 0, page.sides[0].sheets.length);
  const sheet = page.sides[0].sheets[state.stack];
  const tokens = sheet.rows.tokens.length;
  whole("layer", 0, sheet.layers);
  whole("against", 0, sheet.layers);
  if (state.layer >= sheet.layers) state.layer = 0;
  if (state.against >= sheet.layers) state.against = 0;
  if (!sheet.headsOf(state.layer).length) state.layer = sheet.heads[0][0];
  if (!sheet.has(state.layer, state.head)) state.head = sheet.headsOf(state.layer)[0];
  whole("most", 0, 1e6);
  whole("open", -1, tokens);
  whole("step", -1, sheet.prompt === null ? 0 : tokens - sheet.prompt + 1);
  state.least = Math.min(1, Math.max(0, state.least));
  state.zoom = Math.min(64, Math.max(0, state.zoom));
  state.residual = Math.min(0.99, Math.max(0, state.residual));
  for (const name of ["heads", "layers"]) {
    const count = name === "heads" ? Math.max(...sheet.counts) : sheet.layers;
    state[name] = state[name] && state[name].filter((i) => i < count);
    if (state[name] && (!state[name].length || state[name].length === count)) state[name] = null;
  }
  if (!isPair(sheet)) state.filter = "all";
  state.queries = state.queries.filter((i) => i < tokens);
  state.keys = state.keys.filter((i) => i < sheet.columns.tokens.length);
  return state;
}
