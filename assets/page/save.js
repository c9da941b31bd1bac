// The current view as PNG or SVG, its numbers as a table and in the clipboard.

const MOST_ROWS = 200; // of the table on the page; copying gives all
const MARGIN = 16;

// The pictures of the view under each other, with the page's title and what is shown over them.
function sheetOf(app) {
  const pictures = app.view.pictures();
  const head = [app.page.title, app.about(), app.said()].filter(Boolean);
  const width = Math.max(320, ...pictures.map((one) => one.width)) + 2 * MARGIN;
  let height = MARGIN + 22 * head.length + 8;
  for (const one of pictures) {
    one.y = height + 24;
    height = one.y + one.height + 12;
  }
  height += MARGIN / 2;
  return { pictures, head, width, height };
}

function paintHead(pen, app, sheet) {
  const { theme } = app;
  sheet.head.forEach((text, i) => pen.text(MARGIN, MARGIN + 22 * i + 6, label(text), { colour: i ? theme.faint : theme.ink, size: i ? 12 : 15, bold: !i, most: sheet.width - 2 * MARGIN }));
  for (const one of sheet.pictures) pen.text(MARGIN, one.y - 12, label(one.title), { colour: theme.ink, size: 13, bold: true, most: sheet.width - 2 * MARGIN });
}

function savePng(app) {
  const sheet = sheetOf(app);
  // canvases end at 16,384 pixels a side in some browsers
  const scale = Math.min(2, 16000 / Math.max(sheet.width, sheet.height));
  const whole = document.createElement("canvas");
  const pen = new CanvasPen(whole, sheet.width, sheet.height, scale);
  pen.rect(0, 0, sheet.width, sheet.height, app.theme.ground);
  paintHead(pen, app, sheet);
  for (const one of sheet.pictures) {
    const part = document.createElement("canvas");
    one.paint(new CanvasPen(part, one.width, one.height, scale));
    pen.to.drawImage(part, MARGIN, one.y, one.width, one.height);
  }
  whole.toBlob((blob) => (blob ? download(app, blob, "png") : app.say("This view is too large for a PNG; save it as SVG.")), "image/png");
}

function saveSvg(app) {
  const sheet = sheetOf(app);
  const pen = new SvgPen(sheet.width, sheet.height, app.theme.ground);
  paintHead(pen, app, sheet);
  const { root } = pen;
  for (const one of sheet.pictures) {
    pen.root = root;
    pen.root = pen.add("g", { transform: `translate(${MARGIN} ${one.y})` });
    one.paint(pen);
  }
  pen.root = root;
  download(app, new Blob([pen.toString()], { type: "image/svg+xml" }), "svg");
}

function download(app, blob, end) {
  const link = make("a", { href: URL.createObjectURL(blob), download: `attnviz-${app.state.view}.${end}` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  app.say(`Saved attnviz-${app.state.view}.${end}`);
}

function cellText(value) {
  return typeof value === "number" ? (Number.isInteger(value) ? String(value) : String(+value.toPrecision(5))) : value;
}

// Tabs and line ends would break the table apart.
function tableText({ names, list }) {
  const clean = (value) => cellText(value).replace(/[\t\r\n]/g, " ");
  return [names, ...list].map((row) => row.map(clean).join("\t")).join("\n") + "\n";
}

function copyNumbers(app) {
  const text = tableText(app.view.numbers());
  const done = () => app.say(`Copied ${text.split("\n").length - 2} rows.`);
  const byHand = () => {
    const area = make("textarea", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    if (copied) done();
    else app.say("The browser did not allow copying.");
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, byHand);
  else byHand();
}

function showTable(app) {
  const root = document.getElementById("numbers");
  root.hidden = !app.state.table;
  if (!app.state.table) {
    root.replaceChildren();
    return;
  }
  const { names, list } = app.view.numbers();
  const row = (cells, kind) => make("tr", {}, ...cells.map((value, i) =>
    make(kind ?? (typeof value === "number" || i > 0 ? "td" : "th"), { dir: "auto", class: typeof value === "number" ? "number" : "", text: cellText(value) })));
  const more = list.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${list.length} rows; Copy gives all.` : `${list.length} rows.`;
  root.replaceChildren(make("p", { class: "small", text: more }),
    make("div", { class: "sideways" }, make("table", {}, make("thead", {}, row(names, "th")), make("tbody", {}, ...list.slice(0, MOST_ROWS).map((one) => row(one))))));
}
