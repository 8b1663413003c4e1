// Nodes of a deployment: state, measured over planned seconds, refusals and misses.

import { make } from "./dom.js";
import { show, tick, ticks } from "./format.js";
import { scalesOf } from "./linechart.js";
import { Panel } from "./panel.js";
import { currentRun, lastRound, redraw, shelf } from "./session.js";

const COLUMNS_OF_NODES = ["node", "state", "round", "staleness", "planned_s", "measured_s", "over_planned", "refused", "misses", "received_bytes"];
const AGAIN_AFTER_MS = 1500;

export function createNodes() {
  const view = { rows: [], said: "", asked: 0, nodes: null };
  const panel = new Panel({
    title: "Measured over planned seconds", height: () => Math.min(620, 56 + 18 * view.rows.length),
    paint: (painter, size, ink) => paintNodes(painter, size, ink, view),
    table: () => nodeTable(view),
    hit: (x, y, size) => hitNodes(y, size, view),
  });
  panel.root.classList.add("wide");
  const all = new Panel({ title: "Nodes", table: () => nodeTable(view) });
  all.root.classList.add("wide", "numbers");
  all.details.open = true;
  return { root: make("div", { class: "grid" }, all.root, panel.root), draw: () => drawNodes(panel, all, view) };
}

function drawNodes(panel, all, view) {
  const run = currentRun();
  if (!run) return;
  if (run.kind !== "deployed") {
    panel.root.hidden = true;
    return void all.setEmpty("This run was simulated: there are no nodes. A deployment shows its nodes here.");
  }
  const path = `api/runs/${run.id}/nodes`;
  if (run.state === "running" && performance.now() - view.asked > AGAIN_AFTER_MS) {
    view.asked = performance.now();
    shelf.forget(path);
    setTimeout(redraw, AGAIN_AFTER_MS + 50);
  }
  const nodes = shelf.get(path);
  if (nodes === undefined) return;
  if (!nodes?.node?.length) return void all.setEmpty(nodes?.error ?? "The cloud has not told of its nodes.");
  if (nodes === view.nodes && view.said) return;
  Object.assign(view, { nodes, said: `${run.id}/${lastRound()}/${JSON.stringify(nodes).length}/${view.asked}` });
  view.rows = nodes.node.map((_, k) => k).filter((k) => Number.isFinite(nodes.over_planned?.[k]));
  all.setEmpty("");
  all.say(`${run.state === "running" ? "" : "As the cloud last told: "}${describeNodes(nodes)}`);
  all.fillTable();
  panel.root.hidden = !view.rows.length;
  panel.say("A bar past 1 took longer than planned; it is hatched and says so.");
  panel.draw(view.said);
}

function describeNodes(nodes) {
  const states = new Map();
  for (const state of nodes.state) states.set(state, (states.get(state) ?? 0) + 1);
  const refused = (nodes.refused ?? []).reduce((sum, one) => sum + (one ?? 0), 0);
  return `${nodes.count ?? nodes.node.length} nodes: ${[...states].map(([state, count]) => `${count} ${state}`).join(", ")}; ${refused} refusals.`;
}

function nodeScales(size, { rows, nodes }) {
  const most = Math.max(1.2, ...rows.map((k) => nodes.over_planned[k])) * 1.1;
  const scales = scalesOf(size, { x: [0, most], y: [0, 1] }, { left: 110, right: 90, top: 8, bottom: 36 });
  return { ...scales, row: scales.height / Math.max(1, rows.length) };
}

function paintNodes(painter, size, ink, view) {
  if (!view.rows.length) return;
  const scales = nodeScales(size, view);
  const { margin, height, row } = scales;
  view.rows.forEach((k, at) => {
    const value = view.nodes.over_planned[k];
    const y = margin.top + at * row;
    const slow = value > 1.05;
    painter.rect(margin.left, y + 2, scales.across(value) - margin.left, Math.max(1, row - 4), { fill: slow ? ink.backhaul : ink.access, hatch: slow ? "rising" : null, hatchColour: ink.ink });
    if (row < 11) return;
    painter.text(margin.left - 6, y + row / 2, view.nodes.node[k].slice(0, 16), { fill: ink.soft, size: 11, anchor: "end" });
    painter.text(scales.across(value) + 5, y + row / 2, `${value.toFixed(2)}×${slow ? " late" : ""}`, { fill: ink.ink, size: 11 });
  });
  const one = scales.across(1);
  painter.path([[one, margin.top], [one, margin.top + height]], { stroke: ink.ink, dash: [4, 3], line: 1.4 });
  for (const value of ticks(...scales.x, 6)) painter.text(scales.across(value), margin.top + height + 12, tick(value), { fill: ink.soft, size: 11, anchor: "middle" });
  painter.text(margin.left + scales.width, margin.top + height + 27, "measured over planned", { fill: ink.soft, size: 11, anchor: "end" });
}

function hitNodes(y, size, view) {
  if (!view.rows.length) return null;
  const { margin, row } = nodeScales(size, view);
  const k = view.rows[Math.floor((y - margin.top) / row)];
  if (k === undefined) return null;
  const { nodes } = view;
  return [nodes.node[k], nodes.state[k], `planned ${show(nodes.planned_s[k], "s")}, measured ${show(nodes.measured_s[k], "s")}`, `${nodes.refused?.[k] ?? 0} refusals, ${nodes.misses?.[k] ?? 0} misses`];
}

function nodeTable({ nodes }) {
  const names = COLUMNS_OF_NODES.filter((name) => Array.isArray(nodes?.[name]));
  return { caption: "Nodes", columns: names, rows: (nodes?.node ?? []).map((_, k) => names.map((name) => nodes[name][k])), total: nodes?.count };
}
