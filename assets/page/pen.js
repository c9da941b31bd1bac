// One way to draw on a canvas and into an SVG.

const FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', sans-serif";

class CanvasPen {
  constructor(canvas, width, height, scale) {
    this.scale = scale ?? Math.min(2, Math.max(1, window.devicePixelRatio || 1));
    canvas.width = Math.max(1, Math.round(width * this.scale));
    canvas.height = Math.max(1, Math.round(height * this.scale));
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    this.to = canvas.getContext("2d");
    this.to.scale(this.scale, this.scale);
  }

  line(x1, y1, x2, y2, colour, alpha = 1, width = 1) {
    const { to } = this;
    to.globalAlpha = alpha;
    to.strokeStyle = colour;
    to.lineWidth = width;
    to.beginPath();
    to.moveTo(x1, y1);
    to.lineTo(x2, y2);
    to.stroke();
    to.globalAlpha = 1;
  }

  // Lines of one colour and strength at once: [x1, y1, x2, y2, …].
  lines(ends, colour, alpha, width) {
    const { to } = this;
    to.globalAlpha = alpha;
    to.strokeStyle = colour;
    to.lineWidth = width;
    to.beginPath();
    for (let i = 0; i < ends.length; i += 4) {
      to.moveTo(ends[i], ends[i + 1]);
      to.lineTo(ends[i + 2], ends[i + 3]);
    }
    to.stroke();
    to.globalAlpha = 1;
  }

  rect(x, y, width, height, colour, alpha = 1) {
    this.to.globalAlpha = alpha;
    this.to.fillStyle = colour;
    this.to.fillRect(x, y, width, height);
    this.to.globalAlpha = 1;
  }

  frame(x, y, width, height, colour, thick = 1) {
    this.to.strokeStyle = colour;
    this.to.lineWidth = thick;
    this.to.strokeRect(x + thick / 2, y + thick / 2, width - thick, height - thick);
  }

  dot(x, y, radius, colour, alpha = 1) {
    this.to.globalAlpha = alpha;
    this.to.fillStyle = colour;
    this.to.beginPath();
    this.to.arc(x, y, radius, 0, 2 * Math.PI);
    this.to.fill();
    this.to.globalAlpha = 1;
  }

  // `most`: widest it may get; `turn`: degrees around its anchor.
  text(x, y, text, { colour, size = 13, align = "left", bold = false, most = Infinity, turn = 0 }) {
    const { to } = this;
    to.save();
    to.translate(x, y);
    to.rotate(turn * Math.PI / 180);
    to.font = `${bold ? 600 : 400} ${size}px ${FONT}`;
    to.fillStyle = colour;
    to.textAlign = align;
    to.textBaseline = "middle";
    to.fillText(fitted(to, text, most), 0, 0);
    to.restore();
  }

  // Colours of cells, row after row: one square image, stretched without smoothing.
  cells(x, y, width, height, columns, rows, paint) {
    if (columns < 1 || rows < 1) return;
    const canvas = cellImage(columns, rows, paint);
    this.to.imageSmoothingEnabled = columns > width * this.scale;
    this.to.drawImage(canvas, x, y, width, height);
  }
}

// A text cut to a width, with an ellipsis; a character is never cut.
function fitted(to, text, most) {
  if (most === Infinity || to.measureText(text).width <= most) return text;
  const characters = Array.from(text);
  let [low, high] = [0, characters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    const fits = to.measureText(characters.slice(0, middle).join("") + "…").width <= most;
    if (fits) low = middle;
    else high = middle - 1;
  }
  return characters.slice(0, low).join("") + "…";
}

function cellImage(columns, rows, paint) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const to = canvas.getContext("2d");
  const image = to.createImageData(columns, rows);
  for (let i = 0, k = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++, k += 4) {
      const [r, g, b, a] = paint(i, j);
      image.data[k] = r;
      image.data[k + 1] = g;
      image.data[k + 2] = b;
      image.data[k + 3] = a ?? 255;
    }
  }
  to.putImageData(image, 0, 0);
  return canvas;
}

class SvgPen {
  constructor(width, height, ground) {
    this.width = width;
    this.height = height;
    this.measure = document.createElement("canvas").getContext("2d");
    this.root = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.set(this.root, { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
    this.rect(0, 0, width, height, ground);
  }

  set(node, values) {
    for (const [name, value] of Object.entries(values)) node.setAttribute(name, value);
    return node;
  }

  add(name, values) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    this.root.append(this.set(node, values));
    return node;
  }

  line(x1, y1, x2, y2, colour, alpha = 1, width = 1) {
    this.add("line", { x1, y1, x2, y2, stroke: colour, "stroke-opacity": alpha, "stroke-width": width });
  }

  lines(ends, colour, alpha, width) {
    let d = "";
    const at = (v) => Math.round(v * 100) / 100;
    for (let i = 0; i < ends.length; i += 4) {
      d += `M${at(ends[i])} ${at(ends[i + 1])}L${at(ends[i + 2])} ${at(ends[i + 3])}`;
    }
    this.add("path", { d, fill: "none", stroke: colour, "stroke-opacity": alpha, "stroke-width": width });
  }

  rect(x, y, width, height, colour, alpha = 1) {
    this.add("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), fill: colour, "fill-opacity": alpha });
  }

  frame(x, y, width, height, colour, thick = 1) {
    this.add("rect", {
      x: x + thick / 2, y: y + thick / 2, width: Math.max(0, width - thick), height: Math.max(0, height - thick),
      fill: "none", stroke: colour, "stroke-width": thick,
    });
  }

  dot(x, y, radius, colour, alpha = 1) {
    this.add("circle", { cx: x, cy: y, r: radius, fill: colour, "fill-opacity": alpha });
  }

  text(x, y, text, { colour, size = 13, align = "left", bold = false, most = Infinity, turn = 0 }) {
    this.measure.font = `${bold ? 600 : 400} ${size}px ${FONT}`;
    const anchor = { left: "start", right: "end", center: "middle" }[align];
    const node = this.add("text", {
      x, y, fill: colour, "font-family": FONT, "font-size": size, "text-anchor": anchor,
      "dominant-baseline": "central", "unicode-bidi": "isolate",
    });
    if (bold) node.setAttribute("font-weight", 600);
    if (turn) node.setAttribute("transform", `rotate(${turn} ${x} ${y})`);
    node.textContent = fitted(this.measure, text, most);
  }

  cells(x, y, width, height, columns, rows, paint) {
    if (columns < 1 || rows < 1) return;
    this.add("image", {
      x, y, width, height, preserveAspectRatio: "none", "image-rendering": "pixelated",
      href: cellImage(columns, rows, paint).toDataURL(),
    });
  }

  toString() {
    return new XMLSerializer().serializeToString(this.root);
  }
}
