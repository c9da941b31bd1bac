// Head view: lines of the chosen heads of one layer, a colour per head.

const CAPTIONS = ["query (attends)", "key (attended to)"];

class HeadView {
  constructor(app, root) {
    this.app = app;
    this.panels = app.panels().map((panel) => {
      const box = make("div", { class: "panel" });
      const title = make("h2", { dir: "auto" });
      box.append(title);
      root.append(box);
      return { title, box, picture: new LinkPicture(app, box, panel.name) };
    });
  }

  update() {
    const panels = this.app.panels();
    panels.forEach((panel, i) => {
      const { title, picture, box } = this.panels[i];
      title.textContent = panel.title;
      const list = panel.picked();
      box.classList.toggle("empty", !list.length);
      picture.shown = list.length > 0;
      if (list.length) picture.show(linkScene(this.app, list));
      else title.textContent = panel.title + ": none of the chosen heads is here";
    });
  }

  pictures() {
    return this.panels.filter(({ picture }) => picture.shown)
      .map(({ title, picture }) => ({ title: title.textContent, ...picture.saved() }));
  }

  numbers() {
    return joinNumbers(this.panels.filter(({ picture }) => picture.shown)
      .map(({ title, picture }) => [title.textContent, picture.numbers()]));
  }
}

// Heads or a mean, as picked, with colours.
function linkScene(app, list) {
  const { theme, state } = app;
  const signed = list[0].matrix.signed;
  return {
    rows: list[0].matrix.rows,
    columns: list[0].matrix.columns,
    captions: CAPTIONS,
    signs: signed ? [theme.plus, theme.minus] : null,
    summed: state.combine !== "max",
    layers: list.map(({ name, head, matrix }) => ({
      name,
      matrix,
      colour: head === null ? theme.accent : app.colours[head],
      keep: signed ? (i, j) => Math.abs(matrix.data[i * matrix.columns.length + j]) >= state.least
        : keeper(matrix, state),
    })),
  };
}

// Tables of several panels as one, with a column that says which.
function joinNumbers(tables) {
  if (!tables.length) return { names: [], list: [] };
  if (tables.length === 1) return tables[0][1];
  return {
    names: ["panel", ...tables[0][1].names],
    list: tables.flatMap(([title, table]) => table.list.map((row) => [title, ...row])),
  };
}
