// Staleness and importance of every edge over rounds, and the edges of the round at hand in numbers.

import { ask } from "./data.js";
import { make } from "./dom.js";
import { HeatPanel } from "./heatmap.js";
import { rangeOf } from "./linechart.js";
import { Panel } from "./panel.js";
import { currentDetails, currentRun, lastRound, redraw } from "./session.js";

const AGAIN_MS = 3000;
const TONES = { importance: Math.sqrt, scheduled: (share) => 0.5 * share };
const kept = { run: "", count: 0, asked: 0, busy: false, version: 0, matrices: {}, problem: "" };

export function createEdges() {
  const panels = ["staleness", "importance", "scheduled"].map((name) => new HeatPanel({
    title: { staleness: "Staleness of edges (rounds)", importance: "Importance of edges", scheduled: "Scheduled edges (1: yes)" }[name],
    name, source: () => kept.matrices[name] ?? null, tone: TONES[name],
  }));
  const view = { details: null };
  const numbers = new Panel({ title: "Edges in this round", table: () => edgeTable(view.details) });
  numbers.details.open = true;
  numbers.root.classList.add("wide", "numbers");
  const root = make("div", { class: "grid" }, ...panels.map((panel) => panel.root), numbers.root);
  return { root, draw: () => drawEdges(panels, numbers, view) };
}

function drawEdges(panels, numbers, view) {
  refreshMatrices();
  for (const panel of panels) {
    const there = kept.matrices[panel.name];
    panel.setEmpty(there || !kept.version ? "" : kept.problem || `This run did not record ${panel.name} of each edge.`);
    if (there) panel.say(`${there.stride > 1 ? `One round in ${there.stride} is shown. ` : ""}${panel.name === "importance" ? "Tones go by the square root. " : ""}Click to go to a round.`);
    panel.draw(`${kept.run}/${kept.version}`);
    if (panel.details.open && panel.tabled !== nowKey()) panel.fillTable();
    panel.tabled = nowKey();
  }
  const details = currentDetails();
  if (details?.edges && view.details !== details) {
    view.details = details;
    numbers.say(`Round ${details.record.round}`);
    numbers.fillTable();
  }
}

function nowKey() {
  return `${kept.run}/${kept.version}/${location.hash}`;
}

/** Asks for the matrices of the run at hand: once, and now and then while it goes on. */
async function refreshMatrices() {
  const [run, count] = [currentRun(), lastRound()];
  if (!run || kept.busy || (kept.run === run.id && kept.count === count)) return;
  const wait = kept.run === run.id ? kept.asked + AGAIN_MS - performance.now() : 0;
  if (wait > 0) return void setTimeout(redraw, wait);
  Object.assign(kept, { busy: true, asked: performance.now() });
  const answer = await ask(`api/runs/${run.id}/edges`).catch((problem) => ({ error: problem.message }));
  const matrices = Object.fromEntries(["staleness", "importance", "scheduled"].map((name) => [name, packMatrix(answer, name)]));
  Object.assign(kept, { busy: false, run: run.id, count, version: kept.version + 1, problem: answer.error ?? "", matrices });
  redraw();
}

/** A matrix as numbers of four bytes each; null where it was not recorded. */
function packMatrix(answer, name) {
  const rows = answer[name];
  if (!rows?.length || !answer.rounds?.length) return null;
  const values = new Float32Array(rows.length * answer.rounds.length).fill(NaN);
  rows.forEach((row, edge) => row.forEach((value, k) => {
    if (value !== null) values[edge * answer.rounds.length + k] = value;
  }));
  const [low, high] = rangeOf([values]);
  return { rounds: answer.rounds, edges: rows.length, values, low: Math.min(0, low), high: Math.max(high, low + 1e-9), stride: answer.stride ?? 1 };
}

function edgeTable(details) {
  const edges = details?.edges ?? {};
  const columns = Object.keys(edges).filter((name) => Array.isArray(edges[name]));
  const rows = (edges.edge ?? []).map((_, k) => columns.map((name) => edges[name][k]));
  return { caption: `Edges in round ${details?.record.round ?? ""}`, columns, rows };
}
