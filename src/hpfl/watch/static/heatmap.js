// A heat map of edges and rounds: a bitmap drawn once, and the round at hand above it.

import { digits, ticks } from "./format.js";
import { scalesOf } from "./linechart.js";
import { heat, heatColour } from "./palette.js";
import { nearest } from "./plot.js";
import { Panel } from "./panel.js";
import { currentRound, goTo } from "./session.js";

const MARGIN_HEAT = { left: 58, right: 64, top: 10, bottom: 36 };

/** A panel of a matrix {rounds, values: Float32Array by edge, edges, low, high}, which `source()` gives or null. */
export class HeatPanel extends Panel {
  constructor({ title, name, source, tone }) {
    super({
      title, height: () => Math.min(460, Math.max(150, 50 + 15 * (source()?.edges ?? 0))),
      paint: (painter, size, ink) => this.paintHeat(painter, size, ink),
      cursor: (size) => this.hereBox(size),
      table: (all) => this.roundTable(all),
      hit: (x, y, size) => this.hitHeat(x, y, size),
      press: (x, y, size) => this.pressHeat(x, size),
    });
    Object.assign(this, { name, source, tone: tone ?? ((share) => share) });
    this.root.classList.add("wide");
  }

  scales(size, { rounds, edges }) {
    return { ...scalesOf(size, { x: [0, rounds.length], y: [0, edges] }, MARGIN_HEAT), row: (size.height - 46) / edges };
  }

  paintHeat(painter, size, ink) {
    const data = this.source();
    if (!data) return;
    const scales = this.scales(size, data);
    const { margin, width, height } = scales;
    painter.image(this.bitmap(data, ink), margin.left, margin.top, width, height);
    painter.rect(margin.left, margin.top, width, height, { stroke: ink.line });
    const every = Math.ceil(13 / scales.row);
    for (let edge = 0; edge < data.edges; edge += every) {
      painter.text(margin.left - 6, margin.top + (edge + 0.5) * scales.row, `edge ${edge}`, { fill: ink.soft, size: 11, anchor: "end" });
    }
    for (const place of ticks(0, data.rounds.length - 1, width / 90).filter(Number.isInteger)) {
      painter.text(scales.across(place + 0.5), margin.top + height + 12, String(data.rounds[place]), { fill: ink.soft, size: 11, anchor: "middle" });
    }
    painter.text(margin.left + width, margin.top + height + 27, "round", { fill: ink.soft, size: 11, anchor: "end" });
    this.paintScale(painter, scales, ink, data);
  }

  bitmap({ rounds, edges, values, low, high }, ink) {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: rounds.length, height: edges });
    const context = canvas.getContext("2d");
    const image = context.createImageData(rounds.length, edges);
    const shades = Array.from({ length: 256 }, (_, k) => heat(ink, k / 255));
    for (let k = 0; k < values.length; k++) {
      if (Number.isNaN(values[k])) continue;
      const shade = shades[Math.round(255 * this.tone((values[k] - low) / (high - low || 1)))];
      image.data.set(shade, 4 * k);
      image.data[4 * k + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  /** The scale at the right, with numbers. */
  paintScale(painter, { margin, width, height }, ink, { low, high }) {
    const x = margin.left + width + 14;
    const steps = 24;
    for (let k = 0; k < steps; k++) {
      painter.rect(x, margin.top + height - ((k + 1) * height) / steps, 10, height / steps + 0.5, { fill: heatColour(ink, this.tone(k / (steps - 1))) });
    }
    painter.rect(x, margin.top, 10, height, { stroke: ink.line });
    painter.text(x + 14, margin.top + 6, digits(high), { fill: ink.soft, size: 10 });
    painter.text(x + 14, margin.top + height - 6, digits(low), { fill: ink.soft, size: 10 });
  }

  hereBox(size) {
    const data = this.source();
    if (!data) return null;
    const { across, margin, height } = this.scales(size, data);
    const k = nearest(data.rounds, currentRound());
    const [from, to] = [across(k), across(k + 1)];
    return { x: from - 1, y: margin.top - 3, width: Math.max(4, to - from + 2), height: height + 6 };
  }

  cellAt(x, y, size, data) {
    const { margin, width, row } = this.scales(size, data);
    const [k, edge] = [Math.floor(((x - margin.left) / width) * data.rounds.length), Math.floor((y - margin.top) / row)];
    return k >= 0 && k < data.rounds.length && edge >= 0 && edge < data.edges ? { k, edge } : null;
  }

  hitHeat(x, y, size) {
    const data = this.source();
    const cell = data && this.cellAt(x, y, size, data);
    if (!cell) return null;
    const value = data.values[cell.edge * data.rounds.length + cell.k];
    return [`edge ${cell.edge}, round ${data.rounds[cell.k]}`, `${this.name}: ${Number.isNaN(value) ? "none" : digits(value)}`];
  }

  pressHeat(x, size) {
    const data = this.source();
    const cell = data && this.cellAt(x, MARGIN_HEAT.top + 1, size, data);
    if (cell) goTo(data.rounds[cell.k]);
  }

  /** The round at hand, an edge a row; the file has all rounds. */
  roundTable(all) {
    const data = this.source();
    if (!data) return { caption: this.title, columns: ["edge", "round", this.name], rows: [] };
    const here = nearest(data.rounds, currentRound());
    const rows = [];
    for (let edge = 0; edge < data.edges; edge++) {
      for (let k = all ? 0 : here; k < (all ? data.rounds.length : here + 1); k++) {
        const value = data.values[edge * data.rounds.length + k];
        rows.push([edge, data.rounds[k], Number.isNaN(value) ? null : value]);
      }
    }
    return { caption: `${this.title}, round ${data.rounds[here]}`, columns: ["edge", "round", this.name], rows };
  }
}
