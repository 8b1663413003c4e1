// Keys of what is drawn: a small picture and a word for each.

import { make, makeSvg } from "./dom.js";
import { SvgPainter, marker } from "./painter.js";
import { colours } from "./theme.js";
import { onDraw } from "./session.js";

/** A key of colours, hatches and shapes that follows the theme. */
export function keyOf(items) {
  const places = items.map(() => make("span", { class: "swatch" }));
  const list = items.map((item, k) => make("li", {}, places[k], make("span", { text: item.label })));
  let drawnWith = null;
  onDraw(() => {
    if (drawnWith === colours()) return;
    drawnWith = colours();
    items.forEach((item, k) => places[k].replaceChildren(swatch(item, drawnWith)));
  });
  return make("ul", { class: "key" }, ...list);
}

function swatch(item, ink) {
  const painter = new SvgPainter(26, 14, "none");
  painter.hatches = { has: () => false, set: () => {}, size: `${item.label.replace(/\W/g, "")}${Math.random().toString(36).slice(2)}` };
  if (item.shape) marker(painter, item.shape, [13, 7], 4.5, { fill: ink[item.colour ?? "ink"], stroke: ink.ink });
  else painter.rect(1, 1, 24, 12, { fill: ink[item.colour], hatch: item.hatch, hatchColour: ink.ink, stroke: item.outline ? ink.ink : ink.strong, line: item.outline ? 1.4 : 0.8 });
  painter.root.setAttribute("aria-hidden", "true");
  return painter.root;
}

/** A piece of line in a colour and a dash. */
export function lineSwatch(colour, dash) {
  const line = makeSvg("line", { x1: 1, x2: 33, y1: 6, y2: 6, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": dash.length ? dash.join(" ") : null });
  return makeSvg("svg", { width: 34, height: 12, "aria-hidden": "true" }, line);
}
