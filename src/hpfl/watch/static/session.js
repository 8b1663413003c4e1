// What the page knows now: runs, their columns, details of rounds; and one drawing per frame.

import { Shelf, roundPath } from "./cache.js";
import { Columns } from "./columns.js";
import { ask, listen } from "./data.js";
import { nameClock } from "./format.js";
import { choose, setting } from "./state.js";

export const session = { runs: [], version: "", live: false, connected: false, columns: new Map(), problem: "" };
export const shelf = new Shelf(48, (path, answer) => {
  if (answer.record) newest = { path, answer };
  redraw();
});
let newest = null;
const drawers = [];
let frame = 0;

/** Registers what is called once a frame when something has changed. */
export function onDraw(drawer) {
  drawers.push(drawer);
}

/** Asks for a drawing in the next frame. */
export function redraw() {
  if (!frame) frame = requestAnimationFrame(drawAll);
}

function drawAll() {
  frame = 0;
  for (const drawer of drawers) drawer();
}

/** The run that is looked at. */
export function currentRun() {
  return session.runs.find((run) => run.id === setting("run")) ?? session.runs[0] ?? null;
}

/** Runs that are drawn in the curves. */
export function shownRuns() {
  const hidden = new Set(setting("hide").split(",").filter(Boolean));
  return session.runs.filter((run) => !hidden.has(run.id));
}

/** Rounds that the run at hand has played. */
export function lastRound() {
  const run = currentRun();
  return run ? Math.max(run.rounds, session.columns.get(run.id)?.count ?? 0) : 0;
}

/** The round at hand: the one that was chosen, else the newest. */
export function currentRound() {
  const chosen = Number.parseInt(setting("round"), 10);
  return Number.isFinite(chosen) ? Math.min(Math.max(1, chosen), Math.max(1, lastRound())) : lastRound();
}

/** Goes to a round; reaching the newest means following. */
export function goTo(round) {
  const last = lastRound();
  const wanted = Math.min(Math.max(1, Math.round(round)), Math.max(1, last));
  choose({ round: wanted >= last ? "" : wanted });
}

/**
 * Details of the round at hand; while they are on their way those of its run that came last, or undefined. Once they
 * are here, neighbours are asked for ahead.
 */
export function currentDetails() {
  const [run, round] = [currentRun(), currentRound()];
  if (!run || !round) return undefined;
  const there = shelf.get(roundPath(run.id, round));
  if (!there) return newest?.path.startsWith(`api/runs/${run.id}/`) ? newest.answer : undefined;
  for (const near of [round + 2, round - 1, round + 1]) {
    if (near >= 1 && near <= lastRound()) shelf.wish(roundPath(run.id, near));
  }
  return there;
}

/** Loads the list of runs and the columns of those that are shown. */
export async function load() {
  const answer = await ask("api/runs");
  Object.assign(session, { runs: answer.runs, version: answer.version, live: answer.live });
  nameClock(session.runs.some((run) => run.kind === "deployed"));
  await Promise.all(session.runs.map(loadColumns));
  redraw();
}

async function loadColumns(run) {
  try {
    session.columns.set(run.id, new Columns(await ask(`api/runs/${run.id}/columns`)));
  } catch (problem) {
    session.problem = `${run.name}: ${problem.message}`;
  }
  redraw();
}

/** Follows the news of runs that go on. */
export function follow() {
  if (!session.live) return;
  listen({ onRound: takeRound, onState: takeState, onReset: takeReset, onRuns: refreshRuns, onLine: takeLine });
}

function takeRound({ run: id, count, rows }) {
  const run = session.runs.find((one) => one.id === id);
  if (!run) return;
  const columns = session.columns.get(id);
  if (columns && rows.round[0] > columns.count + 1) loadColumns(run);
  else columns?.append(rows);
  run.rounds = count;
  run.clock_s = rows.time_s?.at(-1) ?? run.clock_s;
  redraw();
}

function takeState(news) {
  const run = session.runs.find((one) => one.id === news.run);
  if (!run) return void refreshRuns();
  Object.assign(run, { state: news.state });
  shelf.forget(`api/runs/${run.id}/ues`);
  redraw();
}

/** A run that began anew, or leapt: its columns are loaded again. */
function takeReset({ run: id, count }) {
  const run = session.runs.find((one) => one.id === id);
  if (!run) return;
  run.rounds = count;
  loadColumns(run);
}

/** What a connection that begins, or comes back, may have missed is asked for. */
function takeLine(stands) {
  session.connected = stands;
  if (stands) refreshRuns();
  redraw();
}

async function refreshRuns() {
  const { runs } = await ask("api/runs").catch(() => session);
  session.runs = runs;
  await Promise.all(runs.filter((run) => run.rounds !== session.columns.get(run.id)?.count).map(loadColumns));
  redraw();
}
