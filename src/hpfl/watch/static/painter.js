// One way of drawing, two surfaces: a canvas for the screen and SVG for a file.

import { makeSvg } from "./dom.js";

const TILE = 7;
const FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const patterns = new Map();
const ruler = document.createElement("canvas").getContext("2d");

function tileLines(kind) {
  if (kind === "rising") return [[0, TILE, TILE, 0], [-1, 1, 1, -1], [TILE - 1, TILE + 1, TILE + 1, TILE - 1]];
  if (kind === "falling") return [[0, 0, TILE, TILE], [-1, TILE - 1, 1, TILE + 1], [TILE - 1, -1, TILE + 1, 1]];
  return kind === "cross" ? [[0, 0, TILE, TILE], [0, TILE, TILE, 0]] : [];
}

function hatchOf(context, kind, colour) {
  const key = kind + colour;
  if (!patterns.has(key)) {
    if (patterns.size > 64) patterns.clear();
    const tile = document.createElement("canvas");
    tile.width = tile.height = TILE;
    const pen = tile.getContext("2d");
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = 1.2;
    for (const [x1, y1, x2, y2] of tileLines(kind)) {
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
      pen.stroke();
    }
    if (kind === "dots") pen.fillRect(2, 2, 2, 2);
    patterns.set(key, context.createPattern(tile, "repeat"));
  }
  return patterns.get(key);
}

/** Corners of a marker around the origin. */
function markerPoints(shape, r) {
  if (shape === "triangle") return [[0, -r * 1.15], [r, r * 0.8], [-r, r * 0.8]];
  if (shape === "diamond") return [[0, -r * 1.2], [r * 1.2, 0], [0, r * 1.2], [-r * 1.2, 0]];
  if (shape === "square") return [[-r, -r], [r, -r], [r, r], [-r, r]];
  return [];
}

/** Draws on a canvas' context. */
export class CanvasPainter {
  constructor(context) {
    this.context = context;
  }

  rect(x, y, width, height, { fill, hatch, hatchColour, stroke, line = 1, opacity = 1 } = {}) {
    const pen = this.context;
    pen.globalAlpha = opacity;
    if (fill) {
      pen.fillStyle = fill;
      pen.fillRect(x, y, width, height);
    }
    if (hatch) {
      pen.fillStyle = hatchOf(pen, hatch, hatchColour);
      pen.fillRect(x, y, width, height);
    }
    if (stroke) {
      pen.strokeStyle = stroke;
      pen.lineWidth = line;
      pen.strokeRect(x, y, width, height);
    }
    pen.globalAlpha = 1;
  }

  path(points, { stroke, fill, line = 1.5, dash = [], opacity = 1, closed = false } = {}) {
    const pen = this.context;
    pen.globalAlpha = opacity;
    pen.beginPath();
    for (let k = 0; k < points.length; k++) {
      if (k) pen.lineTo(points[k][0], points[k][1]);
      else pen.moveTo(points[k][0], points[k][1]);
    }
    if (closed) pen.closePath();
    if (fill) {
      pen.fillStyle = fill;
      pen.fill();
    }
    if (stroke) {
      pen.strokeStyle = stroke;
      pen.lineWidth = line;
      pen.lineJoin = "round";
      pen.setLineDash(dash);
      pen.stroke();
      pen.setLineDash([]);
    }
    pen.globalAlpha = 1;
  }

  /** Many open lines of one style, drawn at once. */
  lines(paths, { stroke, line = 1, opacity = 1 }) {
    const pen = this.context;
    Object.assign(pen, { globalAlpha: opacity, strokeStyle: stroke, lineWidth: line });
    pen.beginPath();
    for (const points of paths) points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
    pen.globalAlpha = 1;
  }

  circle(x, y, r, { fill, stroke, line = 1, opacity = 1 } = {}) {
    const pen = this.context;
    pen.globalAlpha = opacity;
    pen.beginPath();
    pen.arc(x, y, r, 0, 2 * Math.PI);
    if (fill) {
      pen.fillStyle = fill;
      pen.fill();
    }
    if (stroke) {
      pen.strokeStyle = stroke;
      pen.lineWidth = line;
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  text(x, y, string, { fill, size = 12, anchor = "start", weight = 400, turned = false, halo = null } = {}) {
    const pen = this.context;
    pen.font = `${weight} ${size}px ${FONT}`;
    pen.textAlign = anchor === "middle" ? "center" : anchor;
    pen.textBaseline = "middle";
    if (halo) {
      Object.assign(pen, { strokeStyle: halo, lineWidth: 3, lineJoin: "round" });
      pen.strokeText(string, x, y);
    }
    pen.fillStyle = fill;
    if (!turned) return pen.fillText(string, x, y);
    pen.save();
    pen.translate(x, y);
    pen.rotate(-Math.PI / 2);
    pen.fillText(string, 0, 0);
    return pen.restore();
  }

  image(bitmap, x, y, width, height) {
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(bitmap, x, y, width, height);
  }
}

/** Draws into an SVG element, with the same methods. */
export class SvgPainter {
  constructor(width, height, background) {
    this.root = makeSvg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height });
    this.defs = makeSvg("defs");
    this.hatches = new Map();
    this.root.append(this.defs, makeSvg("rect", { width, height, fill: background }));
  }

  rect(x, y, width, height, { fill, hatch, hatchColour, stroke, line = 1, opacity = 1 } = {}) {
    const place = { x: short(x), y: short(y), width: short(Math.max(0, width)), height: short(Math.max(0, height)) };
    const common = { ...place, opacity: opacity === 1 ? null : opacity };
    const edge = stroke ? { stroke, "stroke-width": line } : {};
    if (fill || stroke) this.root.append(makeSvg("rect", { ...common, fill: fill || "none", ...edge }));
    if (hatch) this.root.append(makeSvg("rect", { ...common, fill: `url(#${this.hatch(hatch, hatchColour)})` }));
  }

  path(points, { stroke, fill, line = 1.5, dash = [], opacity = 1, closed = false } = {}) {
    const d = points.map(([x, y], k) => `${k ? "L" : "M"}${short(x)} ${short(y)}`).join("") + (closed ? "Z" : "");
    this.root.append(makeSvg("path", {
      d, fill: fill || "none", stroke: stroke || "none", "stroke-width": line, "stroke-linejoin": "round",
      "stroke-dasharray": dash.length ? dash.join(" ") : null, opacity: opacity === 1 ? null : opacity,
    }));
  }

  lines(paths, style) {
    for (const points of paths) this.path(points, style);
  }

  circle(x, y, r, { fill, stroke, line = 1, opacity = 1 } = {}) {
    this.root.append(makeSvg("circle", {
      cx: short(x), cy: short(y), r, fill: fill || "none", stroke: stroke || "none", "stroke-width": line,
      opacity: opacity === 1 ? null : opacity,
    }));
  }

  text(x, y, string, { fill, size = 12, anchor = "start", weight = 400, turned = false, halo = null } = {}) {
    this.root.append(makeSvg("text", {
      x: short(x), y: short(y), fill, "font-size": size, "text-anchor": anchor, "font-weight": weight,
      "font-family": FONT, "dominant-baseline": "central", text: string,
      stroke: halo, "stroke-width": halo ? 3 : null, "paint-order": halo ? "stroke" : null, "stroke-linejoin": halo ? "round" : null,
      transform: turned ? `rotate(-90 ${short(x)} ${short(y)})` : null,
    }));
  }

  image(bitmap, x, y, width, height) {
    this.root.append(makeSvg("image", {
      href: bitmap.toDataURL("image/png"), x, y, width, height, preserveAspectRatio: "none", "image-rendering": "pixelated",
    }));
  }

  hatch(kind, colour) {
    const key = kind + colour;
    if (this.hatches.has(key)) return this.hatches.get(key);
    const id = `hatch-${this.hatches.size}`;
    const drawn = tileLines(kind).map(([x1, y1, x2, y2]) => makeSvg("line", { x1, y1, x2, y2, stroke: colour, "stroke-width": 1.2 }));
    if (kind === "dots") drawn.push(makeSvg("rect", { x: 2, y: 2, width: 2, height: 2, fill: colour }));
    this.defs.append(makeSvg("pattern", { id, width: TILE, height: TILE, patternUnits: "userSpaceOnUse" }, ...drawn));
    this.hatches.set(key, id);
    return id;
  }
}

/** How wide a text is, in pixels. */
export function widthOf(string, size, weight = 400) {
  ruler.font = `${weight} ${size}px ${FONT}`;
  return ruler.measureText(string).width;
}

function short(value) {
  return Math.round(value * 100) / 100;
}

/** A marker that is told by its shape: disc, cross, square, triangle, diamond. */
export function marker(painter, shape, [x, y], r, style) {
  if (shape === "disc") return painter.circle(x, y, r, style);
  if (shape === "cross") {
    const stroke = { stroke: style.stroke ?? style.fill, line: 1.8 };
    painter.path([[x - r, y - r], [x + r, y + r]], stroke);
    return painter.path([[x - r, y + r], [x + r, y - r]], stroke);
  }
  return painter.path(markerPoints(shape, r).map(([dx, dy]) => [x + dx, y + dy]), { ...style, closed: true });
}
