// UEs as a distribution: the worst tenth marked, and one of them picked.

import { choice, fillChoice, fillTable, make, say } from "./dom.js";
import { axisLabel, digits, labelOf, show, tick, ticks, unitOf } from "./format.js";
import { rangeOf, scalesOf } from "./linechart.js";
import { keyOf } from "./legend.js";
import { Panel } from "./panel.js";
import { currentDetails, currentRun, shelf } from "./session.js";
import { choose, setting } from "./state.js";

const BINS = 30;
const NOT_METRICS = ["ue", "edge", "labels"];
const LISTED = 60;

export function createUes() {
  const view = { bins: null, metric: "", said: "", own: null, worst: null, values: null };
  const panel = new Panel({
    title: "UEs at the end of the run", height: 320, paint: (painter, size, ink) => paintBins(painter, size, ink, view),
    table: (all) => ueTable(view, all), hit: (x, y, size) => hitBins(x, size, view), press: (x, y, size) => pressBin(x, size, view),
  });
  const live = { bins: null, metric: "", said: "", own: null, worst: null, values: null };
  const round = new Panel({
    title: "UEs in this round", height: 240, paint: (painter, size, ink) => paintBins(painter, size, ink, live),
    table: () => binTable(live), hit: (x, y, size) => hitBins(x, size, live),
  });
  const metric = choice("Of", [], "", (value) => choose({ metric: value }));
  const pick = make("input", { type: "number", min: 0, step: 1, inputmode: "numeric", onchange: () => choose({ ue: pick.value }) });
  const bar = make("div", { class: "bar" }, metric.root, make("label", { class: "choice" }, make("span", { text: "Pick UE" }), pick));
  const list = make("div", { class: "picks", role: "group", "aria-label": "UEs of the bar that was clicked" });
  const card = make("table", { class: "data" });
  const picked = make("section", { class: "panel", "aria-label": "Picked UE" }, make("header", {}, make("h2", { text: "Picked UE" })), make("p", { class: "note" }), list, make("div", { class: "scroller" }, card));
  panel.body.before(keyOf([{ label: "UEs", colour: "access", hatch: null }, { label: "worst tenth", colour: "backhaul", hatch: "rising" }]));
  panel.root.classList.add("wide");
  const root = make("div", {}, bar, make("div", { class: "grid" }, panel.root, picked, round.root));
  return { root, draw: () => drawUes({ view, live, panel, round, bar, metric, pick, list, card, picked }) };
}

function drawUes(parts) {
  drawRoundUes(parts);
  const { view, panel, metric, pick } = parts;
  const answer = shelf.get(`api/runs/${currentRun()?.id}/ues`);
  if (answer === undefined) return;
  const names = Object.keys(answer.columns ?? answer.histograms ?? {}).filter((name) => !NOT_METRICS.includes(name));
  parts.picked.hidden = parts.bar.hidden = !names.length;
  if (!names.length) return void panel.setEmpty("A run writes the table of its UEs at its end: they can be picked then.");
  panel.setEmpty("");
  const name = names.includes(setting("metric")) ? setting("metric") : names.includes("personalised_accuracy") ? "personalised_accuracy" : names[0];
  fillChoice(metric.select, names.map((one) => [one, labelOf(one)]), name);
  if (document.activeElement !== pick && pick.value !== setting("ue")) pick.value = setting("ue");
  const key = [currentRun().id, name, setting("ue"), answer.count].join("/");
  if (key !== view.said) Object.assign(view, distribution(answer, name), { said: key, metric: name, answer });
  panel.say(describeUes(view, answer));
  panel.draw(key);
  drawPicked(parts, answer);
}

function drawRoundUes({ live, round }) {
  const details = currentDetails();
  if (details === undefined) return;
  const bins = details.ues;
  round.root.hidden = !bins;
  if (!bins) return;
  const key = `${currentRun().id}/${details.record.round}`;
  Object.assign(live, { bins, metric: bins.metric, said: key });
  round.say(`Round ${details.record.round}: ${labelOf(bins.metric)} of ${digits(bins.counts.reduce((sum, one) => sum + one, 0))} UEs that were called`);
  round.draw(key);
}

/** Bins of a metric, where the worst tenth ends, and the value of the picked UE. */
function distribution(answer, name) {
  const bad = /accuracy|r2|score/.test(name) ? "low" : "high";
  if (!answer.columns) {
    const bins = answer.histograms[name];
    return { bins, values: null, own: null, worst: { side: bad, value: bad === "low" ? bins.p10 : bins.p90 } };
  }
  const values = answer.columns[name];
  const known = values.filter((value) => typeof value === "number").sort((a, b) => a - b);
  const [low, high] = rangeOf([known]);
  const width = (high - low) / BINS || 1;
  const counts = new Array(BINS).fill(0);
  for (const value of known) counts[Math.min(BINS - 1, Math.floor((value - low) / width))]++;
  const index = answer.columns.ue.indexOf(Number.parseInt(setting("ue"), 10));
  const place = bad === "low" ? 0.1 * (known.length - 1) : 0.9 * (known.length - 1);
  const worst = known.length > 9 ? { side: bad, value: quantile(known, place) } : null;
  return { bins: { edges: Array.from({ length: BINS + 1 }, (_, k) => low + k * width), counts }, values, worst, own: index < 0 ? null : values[index], index };
}

function quantile(sorted, place) {
  const below = Math.floor(place);
  return sorted[below] + (place - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}

function describeUes({ bins, values, worst, metric }, answer) {
  const known = bins.counts.reduce((sum, one) => sum + one, 0);
  const some = known < answer.count ? ` ${digits(known)} of them have this figure.` : "";
  const tail = worst ? ` The worst tenth is ${worst.side === "low" ? "at or below" : "at or above"} ${show(worst.value, unitOf(metric))}.` : "";
  return `${digits(answer.count)} UEs.${some}${tail} ${values ? "Click a bar to see whose it is." : "There are too many to list; pick one by its number."}`;
}

function binScales(size, bins) {
  const edges = bins.edges;
  return scalesOf(size, { x: [edges[0], edges.at(-1)], y: [0, Math.max(1, ...bins.counts)] }, { left: 46, right: 14, top: 30, bottom: 40 });
}

function paintBins(painter, size, ink, view) {
  if (!view.bins) return;
  const { edges, counts } = view.bins;
  const scales = binScales(size, view.bins);
  const { margin, width, height } = scales;
  const unit = unitOf(view.metric);
  for (const value of ticks(...scales.y, 4).filter(Number.isInteger)) {
    painter.path([[margin.left, scales.up(value)], [margin.left + width, scales.up(value)]], { stroke: ink.line, line: 1 });
    painter.text(margin.left - 6, scales.up(value), tick(value), { fill: ink.soft, size: 11, anchor: "end" });
  }
  counts.forEach((count, k) => {
    const [x, right, y] = [scales.across(edges[k]), scales.across(edges[k + 1]), scales.up(count)];
    const bad = view.worst && (view.worst.side === "low" ? edges[k + 1] <= view.worst.value || edges[k] < view.worst.value : edges[k + 1] > view.worst.value);
    painter.rect(x + 0.5, y, Math.max(0.5, right - x - 1), margin.top + height - y, { fill: bad ? ink.backhaul : ink.access, hatch: bad ? "rising" : null, hatchColour: ink.ink });
  });
  for (const value of ticks(...scales.x, width / 90)) {
    painter.text(scales.across(value), margin.top + height + 13, tick(value, unit), { fill: ink.soft, size: 11, anchor: "middle" });
  }
  painter.text(margin.left + width, margin.top + height + 29, axisLabel(view.metric), { fill: ink.soft, size: 11, anchor: "end" });
  painter.text(margin.left - 6, 12, "UEs", { fill: ink.soft, size: 11, anchor: "end" });
  if (view.worst) paintPlace(painter, scales, ink, { value: view.worst.value, text: `worst tenth ${view.worst.side === "low" ? "≤" : "≥"} ${show(view.worst.value, unit)}`, dash: [4, 3], y: 12 });
  if (typeof view.own === "number") paintPlace(painter, scales, ink, { value: view.own, text: `UE ${setting("ue")}: ${show(view.own, unit)}`, dash: [], y: 24 });
}

function paintPlace(painter, { across, margin, height, width }, ink, { value, text, dash, y }) {
  const x = across(value);
  painter.path([[x, margin.top - 4], [x, margin.top + height]], { stroke: ink.ink, line: 1.6, dash });
  const right = x > margin.left + width / 2;
  painter.text(x + (right ? -5 : 5), y, text, { fill: ink.ink, size: 12, anchor: right ? "end" : "start", weight: 600 });
}

function binAt(x, size, { bins }) {
  if (!bins) return -1;
  const { margin, width } = binScales(size, bins);
  const k = Math.floor(((x - margin.left) / width) * bins.counts.length);
  return k >= 0 && k < bins.counts.length ? k : -1;
}

function hitBins(x, size, view) {
  const k = binAt(x, size, view);
  if (k < 0) return null;
  const unit = unitOf(view.metric);
  return [`${show(view.bins.edges[k], unit)} to ${show(view.bins.edges[k + 1], unit)}`, `${digits(view.bins.counts[k])} UEs`];
}

/** Lists the UEs of a bar, and picks the first. */
function pressBin(x, size, view) {
  const k = binAt(x, size, view);
  if (k < 0 || !view.values) return;
  const [low, high] = [view.bins.edges[k], view.bins.edges[k + 1]];
  const last = k === view.bins.counts.length - 1;
  view.listed = view.answer.columns.ue.filter((_, at) => view.values[at] >= low && (view.values[at] < high || last));
  if (view.listed.length) choose({ ue: view.listed[0] });
}

function drawPicked({ view, list, card, picked }, answer) {
  const [number, note] = [setting("ue"), picked.querySelector(".note")];
  const whole = answer.columns ? null : number === "" ? undefined : shelf.get(`api/runs/${currentRun().id}/ues?ue=${Number.parseInt(number, 10)}`);
  const row = whole ?? (answer.columns && view.index >= 0 ? Object.fromEntries(Object.entries(answer.columns).map(([name, values]) => [name, values[view.index]])) : null);
  say(note, number === "" ? `None yet: ${answer.columns ? "click a bar, a point of the map, or " : ""}type a number.` : row && !row.error ? `UE ${number}` : `There is no UE ${number} here.`);
  const key = `${view.said}/${row ? "there" : ""}/${view.listed?.join() ?? ""}`;
  if (card.dataset.key === key) return;
  card.dataset.key = key;
  fillTable(card, { caption: "Its row of ues.csv", columns: ["column", "value"], rows: Object.entries(row?.error ? {} : (row ?? {})) });
  card.hidden = !row || Boolean(row.error);
  list.replaceChildren(...(view.listed ?? []).slice(0, LISTED).map((ue) => make("button", { type: "button", class: "quiet", "aria-pressed": String(ue) === number ? "true" : "false", text: String(ue), onclick: () => choose({ ue }) })));
}

function ueTable(view, all) {
  const { columns } = view.answer ?? {};
  if (!columns) return binTable(view);
  const names = all ? Object.keys(columns) : ["ue", "edge", view.metric];
  return { caption: `${labelOf(view.metric)} of each UE`, columns: names, rows: columns.ue.map((_, k) => names.map((name) => columns[name][k])) };
}

function binTable({ bins, metric }) {
  const rows = (bins?.counts ?? []).map((count, k) => [bins.edges[k], bins.edges[k + 1], count]);
  return { caption: `UEs by ${labelOf(metric)}`, columns: ["from", "to", "UEs"], rows };
}
