// A line chart drawn with a painter: for files, and for small multiples on the screen.

import { tick, ticks } from "./format.js";

const MARGIN = { left: 56, right: 14, top: 10, bottom: 40 };

/** Places of values on the paper. */
export function scalesOf(size, { x, y }, margin = MARGIN) {
  const [width, height] = [size.width - margin.left - margin.right, size.height - margin.top - margin.bottom];
  const spread = (low, high) => (high > low ? high - low : 1);
  return {
    margin, width, height, x, y,
    across: (value) => margin.left + ((value - x[0]) / spread(...x)) * width,
    up: (value) => margin.top + height - ((value - y[0]) / spread(...y)) * height,
  };
}

/** Smallest and largest of all finite values, with some room; [0, 1] where there are none. */
export function rangeOf(lists, room = 0) {
  let [low, high] = [Infinity, -Infinity];
  for (const list of lists) {
    for (const value of list) {
      if (!Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return [0, 1];
  const spare = high - low > 1e-6 * Math.max(Math.abs(high), Math.abs(low)) ? (high - low) * room : Math.abs(high) * 0.1 || 0.5;
  return [low - spare, high + spare];
}

/** Axes with ticks and labels. */
export function paintAxes(painter, scales, colours, { xLabel, xUnit, yUnit, yLabel }) {
  const { margin, width, height } = scales;
  const bottom = margin.top + height;
  for (const value of ticks(...scales.y, Math.max(2, height / 34))) {
    const y = scales.up(value);
    painter.path([[margin.left, y], [margin.left + width, y]], { stroke: colours.line, line: 1 });
    painter.text(margin.left - 6, y, tick(value, yUnit), { fill: colours.soft, size: 11, anchor: "end" });
  }
  for (const value of ticks(...scales.x, Math.max(2, width / 90))) {
    const x = scales.across(value);
    painter.path([[x, bottom], [x, bottom + 4]], { stroke: colours.strong, line: 1 });
    painter.text(x, bottom + 13, tick(value, xUnit), { fill: colours.soft, size: 11, anchor: "middle" });
  }
  painter.path([[margin.left, bottom], [margin.left + width, bottom]], { stroke: colours.strong, line: 1 });
  if (xLabel) painter.text(margin.left + width, bottom + 29, xLabel, { fill: colours.soft, size: 11, anchor: "end" });
  if (yLabel) painter.text(12, margin.top + height / 2, yLabel, { fill: colours.soft, size: 11, anchor: "middle", turned: true });
}

/** Lines (`xs`, `ys`, `colour`, `dash`, `low`, `high` for a band) with axes, a target and a legend where asked for. */
export function paintLines(painter, size, colours, chart) {
  const legend = chart.legend ? chart.lines.length * 16 + 6 : 0;
  const margin = { ...MARGIN, left: chart.yLabel ? 66 : MARGIN.left, top: MARGIN.top + legend };
  const lists = chart.lines.flatMap((line) => [line.ys, line.low ?? [], line.high ?? []]);
  const x = rangeOf(chart.lines.map((line) => line.xs));
  const y = rangeOf([...lists, chart.target == null ? [] : [chart.target]], 0.05);
  const scales = scalesOf(size, { x, y }, margin);
  paintAxes(painter, scales, colours, chart);
  for (const line of chart.lines) paintLine(painter, scales, line);
  if (chart.target != null) paintTarget(painter, scales, colours, chart);
  if (chart.legend) chart.lines.forEach((line, k) => paintKey(painter, margin.left, 12 + 16 * k, line, colours));
  return scales;
}

function paintLine(painter, scales, line) {
  const along = (values) => line.xs.map((x, k) => [scales.across(x), scales.up(values[k])]);
  if (line.low) painter.path([...along(line.high), ...along(line.low).reverse()], { fill: line.colour, opacity: 0.16, closed: true });
  if (line.xs.length === 1) painter.circle(scales.across(line.xs[0]), scales.up(line.ys[0]), 3, { fill: line.colour });
  else painter.path(along(line.ys), { stroke: line.colour, dash: line.dash, line: line.width ?? 1.8 });
}

function paintTarget(painter, scales, colours, { target, targetLabel }) {
  const y = scales.up(target);
  const right = scales.margin.left + scales.width;
  painter.path([[scales.margin.left, y], [right, y]], { stroke: colours.soft, dash: [2, 4], line: 1.2 });
  painter.text(right - 4, y - 8, targetLabel, { fill: colours.soft, size: 11, anchor: "end" });
}

function paintKey(painter, x, y, line, colours) {
  painter.path([[x, y], [x + 30, y]], { stroke: line.colour, dash: line.dash, line: 2 });
  painter.text(x + 38, y, line.label, { fill: colours.ink, size: 12 });
}
