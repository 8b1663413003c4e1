// What every edge did, and what became of its updates, in some rounds around the one at hand.

import { choice, make } from "./dom.js";
import { axisLabel, show, tick, ticks } from "./format.js";
import { Shelf, roundPath } from "./cache.js";
import { carriedRounds, isExported } from "./data.js";
import { keyOf } from "./legend.js";
import { scalesOf } from "./linechart.js";
import { OUTCOMES, PHASES } from "./palette.js";
import { marker } from "./painter.js";
import { Panel } from "./panel.js";
import { currentRound, currentRun, lastRound, redraw, session, shelf } from "./session.js";
import { choose, setting } from "./state.js";

const CHUNK = 8;
const ROWS_AT_ONCE = 15_000;
const ROWS_OF_EDGE = 6;
const stretches = new Shelf(48, () => redraw(), { lanes: 2, restMs: 60 });
const NAMES = Object.keys(PHASES);

export function createGantt() {
  const view = { bars: [], points: [], edges: [], span: [0, 1], starts: [], said: "", round: 0 };
  const panel = new Panel({
    title: "Timeline of edges", height: () => Math.min(660, Math.max(180, 70 + 18 * view.edges.length)),
    paint: (painter, size, ink) => paintGantt(painter, size, ink, view),
    table: () => ganttTable(view),
    hit: (x, y, size) => hitGantt(x, y, size, view),
  });
  const widths = choice("Rounds shown", ["1", "3", "5", "9", "17"].map((one) => [one, one]), setting("window"), (value) => choose({ window: value }));
  panel.body.before(keyOf([...Object.values(PHASES), ...Object.values(OUTCOMES).map((one) => ({ ...one, colour: "ink" }))]));
  panel.root.classList.add("wide");
  const root = make("div", {}, make("div", { class: "bar" }, widths.root), make("div", { class: "grid" }, panel.root));
  return { root, draw: () => drawGantt(panel, view, widths) };
}

function drawGantt(panel, view, widths) {
  widths.select.value = setting("window");
  const [run, round, last] = [currentRun(), currentRound(), lastRound()];
  if (!run || !last) return panel.setEmpty("No round has been played yet.");
  const count = Math.max(1, Number.parseInt(setting("window"), 10) || 5);
  const from = Math.max(1, Math.min(round - Math.floor(count / 2), last - count + 1));
  const to = Math.min(last, from + count - 1);
  const answers = isExported() ? carriedRows(run.id, from, to) : chunksOf(run, from, to, last);
  if (answers.some((answer) => answer === undefined)) return view.said ? panel.draw(view.said) : panel.say("Reading …");
  const broken = answers.find((answer) => answer.error);
  if (broken || !answers.some((answer) => answer.edge?.length)) return panel.setEmpty(broken?.error ?? "This run did not record a timeline.");
  panel.setEmpty("");
  const key = [run.id, round, from, to, last >= to].join("/");
  if (key !== view.said) Object.assign(view, gatherRows(answers, { from, to, round }), { said: key });
  panel.say(`Rounds ${from} to ${to}; round ${round} is shaded.${answers.some((one) => one.thinned) ? " Some rounds are left out: there are too many rows." : ""}`);
  return panel.draw(key);
}

/** Rows of the rounds whose details an exported file carries. */
function carriedRows(id, from, to) {
  const there = carriedRounds(id).filter((round) => round >= from && round <= to);
  const details = (there.length ? there : [from]).map((round) => shelf.get(roundPath(id, round)));
  return details.map((one) => (one === undefined ? undefined : (one.gantt ?? { edge: [] })));
}

/** The stretches that hold rounds, short ones where there are many edges; once they are here, neighbours are asked for ahead. */
function chunksOf({ id, num_edges: edges }, from, to, last) {
  const size = Math.min(CHUNK, Math.max(1, Math.floor(ROWS_AT_ONCE / (ROWS_OF_EDGE * Math.max(1, edges)))));
  const path = (first) => `api/runs/${id}/gantt?from=${first}&to=${Math.min(first + size - 1, last)}`;
  const begin = from - ((from - 1) % size);
  const firsts = Array.from({ length: Math.ceil((to - begin + 1) / size) }, (_, k) => begin + k * size);
  const answers = firsts.map((first) => stretches.get(path(first)));
  if (answers.includes(undefined)) return answers;
  if (begin > size) stretches.wish(path(begin - size));
  if (firsts.at(-1) + size <= last) stretches.wish(path(firsts.at(-1) + size));
  return answers;
}

function gatherRows(answers, { from, to, round }) {
  const bars = [];
  const points = [];
  const edges = new Set();
  const ends = new Map();
  let [low, high] = [Infinity, -Infinity];
  for (const rows of answers) {
    for (let k = 0; k < rows.edge.length; k++) {
      const number = rows.round?.[k] ?? round;
      if (number < from || number > to) continue;
      const row = { edge: rows.edge[k], phase: rows.phase[k], start: rows.start_s[k], end: rows.end_s[k], base: rows.base_round[k], round: number };
      edges.add(row.edge);
      low = Math.min(low, row.start);
      high = Math.max(high, row.end);
      const span = ends.get(number) ?? [Infinity, -Infinity];
      ends.set(number, [Math.min(span[0], row.start), Math.max(span[1], row.end)]);
      if (row.end > row.start) bars.push(row);
      else if (OUTCOMES[row.phase]) points.push(row);
    }
  }
  bars.sort((a, b) => NAMES.indexOf(a.phase) - NAMES.indexOf(b.phase));
  const sorted = [...edges].sort((a, b) => a - b);
  const rowOf = new Map(sorted.map((edge, k) => [edge, k]));
  return { bars, points, edges: sorted, rowOf, span: [low, high], ends, round };
}

/** When a round began and ended: by the columns where they know, else by its rows. */
function roundSpan(view, round) {
  const columns = session.columns.get(currentRun()?.id);
  const [end, took] = [columns?.at("time_s", round), columns?.at("latency_s", round)];
  if (columns?.at("round", round) === round && end !== null && took !== null) return [end - took, end];
  return view.ends.get(round) ?? [0, 0];
}

function ganttScales(size, view) {
  const margin = { left: 58, right: 12, top: 24, bottom: 40 };
  const scales = scalesOf(size, { x: view.span, y: [0, 1] }, margin);
  return { ...scales, row: scales.height / Math.max(1, view.edges.length) };
}

function paintGantt(painter, size, ink, view) {
  if (!view.bars.length) return;
  const scales = ganttScales(size, view);
  const { margin, height, row } = scales;
  paintRounds(painter, scales, ink, view);
  const inset = row > 8 ? 2 : row > 4 ? 0.5 : 0;
  const first = (edge) => row >= 1 || Math.floor(view.rowOf.get(edge) * row) !== Math.floor((view.rowOf.get(edge) - 1) * row);
  for (const bar of view.bars) {
    const phase = PHASES[bar.phase];
    if (!phase || !first(bar.edge)) continue; // of edges thinner than a row of pixels one of each row is drawn
    const x = scales.across(bar.start);
    const y = margin.top + view.rowOf.get(bar.edge) * row + inset;
    const width = Math.max(0.6, scales.across(bar.end) - x);
    painter.rect(x, y, width, Math.max(1, row - 2 * inset), { fill: ink[phase.colour], hatch: row > 8 && width > 3 ? phase.hatch : null, hatchColour: `${ink.surface}88` });
  }
  for (const point of view.points) {
    if (row < 3 && point.phase === "aggregated") continue; // dots of all edges would hide the bars
    const style = { fill: ink.ink, stroke: ink.surface };
    const place = [scales.across(point.end), margin.top + (view.rowOf.get(point.edge) + 0.5) * row];
    if (point.phase === "superseded") style.stroke = ink.alarm;
    marker(painter, OUTCOMES[point.phase].shape, place, Math.min(4, Math.max(1.5, row / 4)), style);
  }
  const every = Math.ceil(13 / row);
  view.edges.forEach((edge, k) => {
    if (k % every === 0) painter.text(margin.left - 6, margin.top + (k + 0.5) * row, `edge ${edge}`, { fill: ink.soft, size: 11, anchor: "end" });
  });
  for (const value of ticks(...view.span, scales.width / 100)) {
    painter.text(scales.across(value), margin.top + height + 13, tick(value), { fill: ink.soft, size: 11, anchor: "middle" });
  }
  painter.text(margin.left + scales.width, margin.top + height + 29, axisLabel("time_s"), { fill: ink.soft, size: 11, anchor: "end" });
}

function paintRounds(painter, scales, ink, view) {
  const { margin, height } = scales;
  for (const round of view.ends.keys()) {
    const [from, to] = roundSpan(view, round).map(scales.across);
    if (round === view.round) painter.rect(from, margin.top - 18, to - from, height + 18, { fill: ink.accent, opacity: 0.12 });
    painter.path([[to, margin.top - 18], [to, margin.top + height]], { stroke: ink.strong, line: 1, dash: [2, 3] });
    const now = round === view.round;
    if (to - from > 26) painter.text((from + to) / 2, margin.top - 10, to - from > 64 ? `round ${round}` : String(round), { fill: now ? ink.ink : ink.soft, size: 11, anchor: "middle", weight: now ? 600 : 400 });
  }
}

function hitGantt(x, y, size, view) {
  if (!view.bars.length) return null;
  const scales = ganttScales(size, view);
  const edge = view.edges[Math.floor((y - scales.margin.top) / scales.row)];
  const under = view.bars.findLast((bar) => bar.edge === edge && x >= scales.across(bar.start) - 1 && x <= scales.across(bar.end) + 1);
  if (!under) return null;
  const fate = view.points.filter((point) => point.edge === edge && point.round === under.round).map((point) => point.phase);
  return [`edge ${edge}, round ${under.round}`, `${PHASES[under.phase]?.label ?? under.phase}: ${show(under.end - under.start, "s")}`,
    `${show(under.start, "s")} to ${show(under.end, "s")}`, `on the model of round ${under.base}`, ...(fate.length ? [`update: ${[...new Set(fate)].join(", ")}`] : [])];
}

function ganttTable(view) {
  const rows = [...view.bars, ...view.points].sort((a, b) => a.edge - b.edge || a.start - b.start);
  const columns = ["round", "edge", "phase", "start_s", "end_s", "base_round"];
  return { caption: "Phases of edges", columns, rows: rows.map((one) => [one.round, one.edge, one.phase, one.start, one.end, one.base]) };
}
