// Tokens as they are shown: by pieces or words, with or without special ones, of one text of a pair.

// Characters that nobody sees or that turn their neighbours around are spelt out; the joiners inside of
// emoji and Indic words stay.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function label(text) {
  const shown = text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(UNSEEN, (c) =>
    "<" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + ">");
  return shown.trim() === "" ? "␣".repeat(Math.max(1, shown.length)) : shown.trim();
}

// A label inside a sentence: its direction is its own.
function isolated(text) {
  return "\u2068" + text + "\u2069";
}

// Where the second text of a pair begins; 0 for none.
function second(axis) {
  axis.second ??= Math.max(0, axis.tokens.findIndex((token) => token.q === 1));
  return axis.second;
}

function isPair(sheet) {
  return second(sheet.rows) > 0 && second(sheet.columns) > 0;
}

// How many tokens of a generated text are there at a step.
function extent(sheet, state) {
  const all = sheet.rows.tokens.length;
  return sheet.prompt === null || state.step < 0 ? all : Math.min(all, sheet.prompt + state.step);
}

// The shown tokens of an axis: label, first piece, last piece + 1, special, given (by a prompt).
function items(sheet, axis, state, part) {
  const limit = axis === sheet.columns && !sheet.square ? axis.tokens.length : extent(sheet, state);
  const groups = state.words
    ? axis.words
    : axis.tokens.map((token, i) => [i, i + 1, token.t]);
  const border = second(axis);
  const list = [];
  for (const [from, end, text] of groups) {
    if (from >= limit) break;
    const special = axis.tokens[from].s === 1;
    const side = border && from >= border ? "b" : "a";
    if ((state.bare && special) || (part && part !== side)) continue;
    list.push({
      label: label(text),
      from,
      end: Math.min(end, limit),
      special,
      side,
      written: sheet.prompt !== null && from >= sheet.prompt,
      id: end - from === 1 ? axis.tokens[from].i : undefined,
    });
  }
  return list;
}

function axes(sheet, state) {
  const [row, column] = state.filter === "all" ? [null, null] : state.filter;
  return { rows: items(sheet, sheet.rows, state, row), columns: items(sheet, sheet.columns, state, column) };
}
