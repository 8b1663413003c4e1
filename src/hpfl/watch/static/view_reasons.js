// Why the planner chose what it chose: its objective, bound, gap, noise scale, step and debt, over rounds and now.

import { make } from "./dom.js";
import { labelOf, show, unitOf } from "./format.js";
import { paintLines } from "./linechart.js";
import { Panel } from "./panel.js";
import { Renewed } from "./renewed.js";
import { currentDetails, currentRound, currentRun, session } from "./session.js";

const CHARTS = [["objective", "lower_bound"], ["relative_gap"], ["noise_scale"], ["step_scale"], ["debt"], ["planning_s"], ["importance"], ["bandwidth_used_hz"]];
const MEANINGS = {
  objective: "P2's objective of the plan: latency against importance; lower is better",
  lower_bound: "an objective that no plan of this round can beat",
  relative_gap: "how far the plan may be from the best, as a share",
  noise_scale: "estimate of noise between edges over signal, in edges",
  step_scale: "what the planner multiplied the outer step by",
  debt: "what the steps of earlier rounds left out of the mean of all edges",
  coding: "which entry of the menu of codings uploads go by; 0: the first, or no menu",
  round_latency_s: "from the plan to the last update at the cloud",
  least_latency_s: "seconds that no bandwidth for these edges can beat",
  any_time_least_s: "the same for bandwidth that changes at any time",
  price_s_per_hz: "seconds that one more Hz would save",
  broadcast_s: "from the last update to the last UE that hears",
  exceeds_cap: "whether the staleness bound called more edges than max_edges",
  planning_s: "how long the planner thought, wall clock",
  importance: "sum over the updates that arrived of their squared norms",
  bandwidth_used_hz: "bandwidth the plan handed out, to UEs and edges together",
};

const plansOver = new Renewed("plans", ({ rounds = [], columns = {} }) => ({ rounds, columns }));

export function createReasons() {
  const panels = CHARTS.map((names) => chartPanel(names));
  const view = { details: null };
  const now = new Panel({ title: "The plan of this round", table: () => reasonTable(view.details) });
  now.details.open = true;
  now.root.classList.add("wide", "numbers");
  const root = make("div", { class: "grid small" }, now.root, ...panels.map((panel) => panel.root));
  return { root, draw: () => drawReasons(panels, now, view) };
}

function chartPanel(names) {
  const panel = new Panel({
    title: names.length > 1 ? "Objective and its lower bound" : capital(labelOf(names[0])), height: 170,
    paint: (painter, size, ink) => (panel.scales = paintLines(painter, size, ink, chartOf(names, ink))),
    cursor: () => cursorBox(panel),
    table: () => seriesTable(names),
  });
  return Object.assign(panel, { names });
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function chartOf(names, ink) {
  const lines = names.map((name, k) => {
    const [xs, ys] = pointsOf(name);
    return { label: labelOf(name), xs, ys, colour: ink.series[k], dash: k ? [5, 4] : [], width: 1.5 };
  });
  return { lines: lines.filter((line) => line.xs.length), xLabel: "round", xUnit: "", yUnit: unitOf(names[0]), legend: names.length > 1 };
}

/** A reason over rounds: from the records, else from what plans say of themselves. */
function pointsOf(name) {
  const columns = session.columns.get(currentRun().id);
  if (columns.has(name)) return columns.points("round", name);
  const values = plansOver.run === currentRun().id ? plansOver.kept.columns[name] : null;
  const known = (values ?? []).map((_, k) => k).filter((k) => values[k] !== null);
  return [known.map((k) => plansOver.kept.rounds[k]), known.map((k) => values[k])];
}

/** Its value in a round, or in the last one before it that is known. */
function valueAt(name, round) {
  const columns = session.columns.get(currentRun().id);
  if (columns.has(name)) return columns.at(name, round);
  const [xs, ys] = pointsOf(name);
  return ys[xs.findLastIndex((one) => one <= round)] ?? null;
}

function cursorBox({ scales }) {
  return scales ? { x: scales.across(currentRound()) - 1, y: scales.margin.top, width: 2, height: scales.height } : null;
}

function drawReasons(panels, now, view) {
  const columns = session.columns.get(currentRun()?.id);
  if (!columns) return;
  plansOver.refresh();
  for (const panel of panels) {
    const there = panel.names.some((name) => pointsOf(name)[0].length > 0);
    panel.root.hidden = !there && panel.names[0] === "debt";
    panel.setEmpty(there ? "" : `The planner “${currentRun().planner}” does not tell its ${labelOf(panel.names[0])}.`);
    if (!there) continue;
    panel.say(panel.names.map((name) => `${labelOf(name)} now ${show(valueAt(name, currentRound()), unitOf(name))}`).join(", "));
    panel.draw(`${currentRun().id}/${columns.version}/${plansOver.key}`);
  }
  const details = currentDetails();
  if (!details?.reasons || view.details === details) return;
  view.details = details;
  now.say(`Round ${details.record.round}, planner ${currentRun().planner}`);
  now.fillTable();
}

function reasonTable(details) {
  const rows = Object.entries(details?.reasons ?? {}).map(([name, value]) => [
    labelOf(name), plainValue(name, value), MEANINGS[name] ?? "as the planner calls it",
  ]);
  return { caption: "What the planner says of its plan", columns: ["reason", "value", "meaning"], rows };
}

function plainValue(name, value) {
  if (value === null || value === undefined) return "not told";
  if (name === "any_time_least_s" && !value) return "not asked for";
  return typeof value === "number" ? show(value, unitOf(name)) : typeof value === "object" ? JSON.stringify(value).slice(0, 400) : String(value);
}

function seriesTable(names) {
  const rounds = pointsOf(session.columns.get(currentRun().id).has(names[0]) ? "round" : names[0])[0];
  return { caption: names.map(labelOf).join(", "), columns: ["round", ...names], rows: rounds.map((round) => [round, ...names.map((name) => valueAt(name, round))]) };
}
