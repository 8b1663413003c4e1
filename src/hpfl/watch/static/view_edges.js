// Staleness and importance of every edge over rounds, and the edges of the round at hand in numbers.

import { make } from "./dom.js";
import { HeatPanel } from "./heatmap.js";
import { Panel } from "./panel.js";
import { Renewed } from "./renewed.js";
import { currentDetails } from "./session.js";

const TONES = { importance: Math.sqrt, scheduled: (share) => 0.5 * share };
const MATRICES = ["staleness", "importance", "scheduled"];
const edgesOver = new Renewed("edges", (answer) => Object.fromEntries(MATRICES.map((name) => [name, packMatrix(answer, name)])));

export function createEdges() {
  const panels = MATRICES.map((name) => new HeatPanel({
    title: { staleness: "Staleness of edges (rounds)", importance: "Importance of edges", scheduled: "Scheduled edges (1: yes)" }[name],
    name, source: () => edgesOver.kept[name] ?? null, tone: TONES[name],
  }));
  const view = { details: null };
  const numbers = new Panel({ title: "Edges in this round", table: () => edgeTable(view.details) });
  numbers.details.open = true;
  numbers.root.classList.add("wide", "numbers");
  const root = make("div", { class: "grid" }, ...panels.map((panel) => panel.root), numbers.root);
  return { root, draw: () => drawEdges(panels, numbers, view) };
}

function drawEdges(panels, numbers, view) {
  edgesOver.refresh();
  for (const panel of panels) {
    const there = edgesOver.kept[panel.name];
    panel.setEmpty(there || !edgesOver.version ? "" : edgesOver.problem || `This run did not record ${panel.name} of each edge.`);
    if (there) panel.say(`${there.stride > 1 ? `One round in ${there.stride} is shown. ` : ""}${panel.name === "importance" ? "Tones go by the square root. " : ""}Click to go to a round.`);
    panel.draw(edgesOver.key);
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
  return `${edgesOver.key}/${location.hash}`;
}

/** A matrix as numbers of four bytes each; null where it was not recorded. */
function packMatrix(answer, name) {
  const rows = answer[name];
  if (!rows?.length || !answer.rounds?.length) return null;
  const values = new Float32Array(rows.length * answer.rounds.length).fill(NaN);
  rows.forEach((row, edge) => row.forEach((value, k) => {
    if (value !== null) values[edge * answer.rounds.length + k] = value;
  }));
  const high = values.reduce((most, value) => (value > most ? value : most), 0);
  const low = values.reduce((least, value) => (value < least ? value : least), 0);
  return { rounds: answer.rounds, edges: rows.length, values, low, high: high > low ? high : low + 1, stride: answer.stride ?? 1 };
}

function edgeTable(details) {
  const edges = details?.edges ?? {};
  const columns = Object.keys(edges).filter((name) => Array.isArray(edges[name]));
  const rows = (edges.edge ?? []).map((_, k) => columns.map((name) => edges[name][k]));
  return { caption: `Edges in round ${details?.record.round ?? ""}`, columns, rows };
}
