// Accuracy and loss of all shown runs, over what one cares about: seconds, rounds, joules or bits.

import { choice, fillChoice, make } from "./dom.js";
import { labelOf } from "./format.js";
import { linesOf } from "./groups.js";
import { PlotPanel } from "./plot.js";
import { session, shownRuns } from "./session.js";
import { choose, setting } from "./state.js";

const ACROSS = ["time_s", "round", "cumulative_energy_j", "cumulative_bits"];

export function createCurves() {
  const lines = (x, y, ink) => linesOf(x, y, setting("band"), ink);
  const accuracy = new PlotPanel({ title: "Accuracy, mean over UEs", height: 300, lines });
  const worst = new PlotPanel({ title: "Accuracy, worst tenth of UEs", height: 240, lines });
  const loss = new PlotPanel({ title: "Loss", height: 240, lines });
  accuracy.root.classList.add("wide");
  const x = choice("Over", ACROSS.map((name) => [name, labelOf(name)]), setting("x"), (value) => choose({ x: value }));
  const y = choice("Accuracy", [], "", (value) => choose({ y: value }));
  const z = choice("Loss", [], "", (value) => choose({ loss: value }));
  const band = choice("Seeds as", [["range", "lowest to highest"], ["interval", "95 % interval of the mean"]], setting("band"), (value) => choose({ band: value }));
  const bar = make("div", { class: "bar" }, x.root, y.root, z.root, band.root);
  const grid = make("div", { class: "grid" }, accuracy.root, worst.root, loss.root);
  return { root: make("div", {}, bar, grid), draw: () => drawCurves({ x, y, z, band, accuracy, worst, loss }) };
}

function drawCurves({ x, y, z, band, accuracy, worst, loss }) {
  const names = [...new Set(shownRuns().flatMap((run) => session.columns.get(run.id)?.names ?? []))];
  const scores = names.filter((name) => /^(personalised|global)_/.test(name) && !/(loss|_p\d\d)$/.test(name));
  const losses = names.filter((name) => /loss$/.test(name));
  const score = scores.includes(setting("y")) || !scores.length ? setting("y") : scores[0];
  const lossName = losses.includes(setting("loss")) || !losses.length ? setting("loss") : losses[0];
  const tail = names.find((name) => name.startsWith(score) && /_p\d\d$/.test(name)) ?? `${score}_p10`;
  fillChoice(x.select, ACROSS.map((name) => [name, labelOf(name)]), setting("x"));
  fillChoice(y.select, scores.map((name) => [name, labelOf(name)]), score);
  fillChoice(z.select, losses.map((name) => [name, labelOf(name)]), lossName);
  band.select.value = setting("band");
  const versions = session.runs.map((run) => session.columns.get(run.id)?.version ?? 0);
  const common = { x: setting("x"), version: [versions, setting("hide"), setting("band")].join(";") };
  accuracy.drawChart({ ...common, y: score, target: targetOf(score) });
  worst.drawChart({ ...common, y: tail, target: null });
  loss.drawChart({ ...common, y: lossName, target: null });
  const seeds = Math.max(1, ...(accuracy.chart?.lines ?? []).map((line) => line.seeds));
  band.root.hidden = seeds === 1;
  for (const panel of [accuracy, worst, loss]) {
    if (panel.chart?.lines.length) panel.say(noteOf(panel, seeds));
  }
}

function noteOf(panel, seeds) {
  const shape = setting("band") === "interval" ? "95 % interval of the mean (Student's)" : "from the lowest to the highest seed";
  return seeds > 1 ? `${labelOf(panel.chart.y)}; line: mean over seeds, band: ${shape}` : labelOf(panel.chart.y);
}

function targetOf(score) {
  const targets = new Set(shownRuns().map((run) => run.target_accuracy).filter((one) => one !== null && one !== undefined));
  return score === "personalised_accuracy" && targets.size === 1 ? [...targets][0] : null;
}
