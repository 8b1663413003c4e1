// A panel whose picture is drawn by uPlot: lines of several runs, a target, the round at hand.

import { make } from "./dom.js";
import { axisLabel, show, tick, unitOf } from "./format.js";
import { paintLines } from "./linechart.js";
import { Panel } from "./panel.js";
import { currentRound, currentRun, goTo, redraw, session } from "./session.js";
import { colours, isDark } from "./theme.js";

const AXIS_FONT = "11px system-ui, sans-serif";

/** Lines of columns over a column. `lines(x, y, colours)` gives them. */
export class PlotPanel extends Panel {
  constructor({ title, height, lines }) {
    super({ title, height, table: () => this.rows() });
    Object.assign(this, { lines, plot: null, shape: "", chart: null });
    this.now = make("div", { class: "now", "aria-hidden": "true" });
    this.tip = make("div", { class: "tip", hidden: true });
    this.body.classList.add("plot");
    this.body.append(this.tip);
    new ResizeObserver(() => redraw()).observe(this.body);
    this.paintFile = (painter, size, ink) => {
      const chart = { ...this.chart, lines: this.lines(this.chart.x, this.chart.y, ink), legend: true };
      paintLines(painter, { width: size.width, height: size.height + 16 * chart.lines.length }, ink, chart);
    };
  }

  /** Draws the chart of `y` over `x`; `version` tells whether data have changed. */
  drawChart({ x, y, target, version }) {
    const width = this.body.clientWidth;
    if (!width) return;
    this.size = { width, height: this.height };
    const key = [x, y, target, version, isDark()].join("|");
    if (key !== this.drawn) {
      this.drawn = key;
      this.chart = { x, y, target, targetLabel: `target ${show(target, unitOf(y))}`, xLabel: axisLabel(x), xUnit: unitOf(x), yLabel: axisLabel(y), yUnit: unitOf(y) };
      this.chart.lines = this.lines(x, y, colours());
      this.setEmpty(this.chart.lines.length ? "" : `No run here has “${y}”.`);
      this.setLines();
      this.fillTable();
    }
    if (this.plot && this.plot.width !== width) this.plot.setSize(this.size);
    this.placeNow();
  }

  setLines() {
    const { lines } = this.chart;
    const shape = JSON.stringify([this.chart.x, this.chart.y, this.chart.target, isDark(), lines.map((one) => [one.label, Boolean(one.low)])]);
    const data = uPlot.join(lines.length ? lines.map((one) => (one.low ? [one.xs, one.ys, one.high, one.low] : [one.xs, one.ys])) : [[[], []]]);
    if (shape === this.shape) return this.plot.setData(data);
    this.shape = shape;
    this.plot?.destroy();
    this.plot = new uPlot(this.options(lines, colours()), data, this.body);
    this.plot.over.append(this.now);
    return this.plot.over.addEventListener("click", () => this.follow());
  }

  options(lines, ink) {
    const series = [{}];
    const bands = [];
    for (const one of lines) {
      const plain = { stroke: one.colour, spanGaps: true, points: { show: one.xs.length === 1 } };
      series.push({ ...plain, width: 2, dash: one.dash });
      if (!one.low) continue;
      series.push({ ...plain, width: 0 }, { ...plain, width: 0 });
      bands.push({ series: [series.length - 2, series.length - 1], fill: `${one.colour}2b` });
    }
    const axis = { stroke: ink.soft, font: AXIS_FONT, labelFont: AXIS_FONT, grid: { stroke: ink.line, width: 1 }, ticks: { stroke: ink.line, width: 1, size: 4 } };
    const values = (unit) => (_, places) => places.map((place) => tick(place, unit));
    return {
      width: this.size.width, height: this.height, series, bands, legend: { show: false }, pxAlign: 0,
      scales: { x: { time: false }, y: { range: (_, low, high) => this.yRange(low, high) } },
      axes: [
        { ...axis, values: values(this.chart.xUnit), label: this.chart.xLabel, labelSize: 18, size: 32, space: 64, grid: { show: false } },
        { ...axis, values: values(this.chart.yUnit), size: 52, space: 34 },
      ],
      cursor: { points: { size: 7 }, drag: { x: false, y: false }, y: false },
      hooks: { draw: [(plot) => this.drawTarget(plot, ink)], setCursor: [(plot) => this.showTip(plot)] },
    };
  }

  yRange(low, high) {
    const { target } = this.chart;
    const [least, most] = [Math.min(low ?? 0, target ?? Infinity), Math.max(high ?? 1, target ?? -Infinity)];
    const room = (most - least || Math.abs(most) || 1) * 0.06;
    return [least - room, most + room];
  }

  drawTarget(plot, ink) {
    const { target, targetLabel } = this.chart;
    if (target === null || target === undefined) return;
    const { ctx, bbox } = plot;
    const y = Math.round(plot.valToPos(target, "y", true));
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = ink.soft;
    ctx.setLineDash([3, 5]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    ctx.fillText(targetLabel, bbox.left + bbox.width - 6, y - 3 * devicePixelRatio);
    ctx.restore();
  }

  /** A line where the round at hand is. */
  placeNow() {
    const run = currentRun();
    const x = run && session.columns.get(run.id)?.at(this.chart.x, currentRound());
    this.now.hidden = x === null || x === undefined || !this.plot;
    if (!this.now.hidden) this.now.style.transform = `translateX(${Math.round(this.plot.valToPos(x, "x"))}px)`;
  }

  showTip(plot) {
    const { left, top, idx } = plot.cursor;
    this.tip.hidden = idx === null || idx === undefined || left < 0;
    if (this.tip.hidden) return;
    const lines = [`${axisLabel(this.chart.x)}: ${show(plot.data[0][idx])}`];
    for (const line of this.chart.lines) {
      const k = nearest(line.xs, plot.data[0][idx]);
      const spread = line.low ? ` (${show(line.low[k], this.chart.yUnit)} to ${show(line.high[k], this.chart.yUnit)})` : "";
      if (k >= 0) lines.push(`${line.label}: ${show(line.ys[k], this.chart.yUnit)}${spread}`);
    }
    this.tip.replaceChildren(...lines.map((text) => make("div", { text })));
    const flip = left > this.size.width / 2;
    this.tip.style.transform = `translate(${Math.round(left + 52 + (flip ? -12 : 12))}px, ${Math.round(top)}px) translateX(${flip ? "-100%" : "0"})`;
  }

  /** A click goes to the round of the run at hand that is nearest. */
  follow() {
    const columns = session.columns.get(currentRun()?.id);
    if (!columns || this.plot.cursor.left < 0) return;
    const [xs, rounds] = columns.points(this.chart.x, "round");
    const k = nearest(xs, this.plot.posToVal(this.plot.cursor.left, "x"));
    if (k >= 0) goTo(rounds[k]);
  }

  rows() {
    const { x, y, lines } = this.chart;
    const banded = lines.some((line) => line.low);
    const rows = lines.flatMap((line) => line.xs.map((value, k) => [line.label, value, line.ys[k], ...(banded ? [line.low?.[k], line.high?.[k]] : [])]));
    return { caption: `${axisLabel(y)} over ${axisLabel(x)}`, columns: ["run", x, y, ...(banded ? ["low", "high"] : [])], rows };
  }
}

/** Where in ascending values the one nearest to a value stands; -1 where there are none. */
export function nearest(values, wanted) {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  if (low > 0 && wanted - values[low - 1] < values[low] - wanted) low--;
  return values.length ? low : -1;
}
