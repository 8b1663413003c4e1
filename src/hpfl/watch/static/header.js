// The head of the page: which runs, how they are doing, the round and the clock, and the switch of themes.

import { carriedNote, isExported } from "./data.js";
import { choice, fillChoice, make, say } from "./dom.js";
import { digits, show, unitOf } from "./format.js";
import { groupsOf, groupName } from "./groups.js";
import { lineSwatch } from "./legend.js";
import { DASHES } from "./palette.js";
import { currentDetails, currentRound, currentRun, lastRound, session } from "./session.js";
import { choose, setting } from "./state.js";
import { colours, isDark, switchTheme } from "./theme.js";

const STATES = { running: ["▶", "running"], done: ["✓", "done"], stopped: ["■", "stopped"], waiting: ["…", "waiting"] };
const FACTS = [
  ["round", "round"], ["time_s", "clock"], ["latency_s", "round took"], ["personalised_accuracy", "accuracy"],
  ["personalised_accuracy_p10", "worst tenth"], ["num_scheduled", "scheduled"], ["num_aggregated", "updates in"],
  ["max_staleness", "staleness"], ["bandwidth_used_hz", "bandwidth"], ["energy_j", "UEs' energy"],
];

/** Fills the header; the answer draws it again. */
export function createHeader(root) {
  const run = choice("Run", [], "", (value) => choose({ run: value, round: "", ue: "", edge: "" }));
  const state = make("span", { class: "state", id: "state" });
  const live = make("span", { class: "live", id: "live", role: "status" });
  const facts = make("span", { class: "facts" });
  const theme = make("button", { type: "button", id: "theme", class: "quiet", onclick: switchTheme });
  const help = make("button", { type: "button", id: "keys", class: "quiet", text: "Keys", "aria-haspopup": "dialog", onclick: () => document.getElementById("help").showModal() });
  root.append(make("div", { class: "brand" }, make("h1", { text: "hpfl watch" }), live), run.root, state, facts, make("div", { class: "tools" }, help, theme));
  return () => drawHeader({ run, state, live, facts, theme });
}

function drawHeader({ run, state, live, facts, theme }) {
  const now = currentRun();
  say(theme, isDark() ? "Light" : "Dark");
  theme.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
  if (!now) return;
  fillChoice(run.select, session.runs.map((one) => [one.id, one.name]), now.id);
  const [sign, word] = STATES[now.state] ?? ["?", String(now.state)];
  say(state, `${sign} ${word}`);
  say(live, liveWords());
  live.dataset.on = live.textContent.startsWith("●") ? "yes" : "no";
  say(facts, `${now.kind}, ${digits(now.num_edges)} edges, ${digits(now.num_ues)} UEs, planner ${now.planner}, ${now.dataset}, seed ${now.seed}`);
  const title = `${now.name}, round ${currentRound()} · hpfl watch`;
  if (document.title !== title) document.title = title;
}

function liveWords() {
  if (isExported()) return carriedNote() || "exported file";
  if (!session.live || !["running", "waiting"].includes(currentRun()?.state)) return "replay";
  return session.connected ? (setting("round") === "" ? "● live, following" : "● live, standing still") : "○ connection lost, trying again";
}

/** The strip of facts of the round at hand. */
export function createFacts(root) {
  const cells = FACTS.map(([name, label]) => {
    const value = make("dd", { "data-fact": name, text: "–" });
    root.append(make("div", {}, make("dt", { text: label }), value));
    return [name, value];
  });
  return () => drawFacts(cells);
}

function drawFacts(cells) {
  const columns = session.columns.get(currentRun()?.id);
  if (!columns) return;
  const round = currentRound();
  const details = columns.at("round", round) === round ? null : currentDetails();
  const record = details?.record?.round === round ? details.record : null;
  for (const [name, cell] of cells) {
    const known = record?.[name] ?? columns.lastKnown(name, round)?.value ?? null;
    say(cell, name === "round" ? `${round} / ${Math.max(currentRun().total_rounds || 0, lastRound())}` : show(known, unitOf(name)));
  }
}

/** The list of runs with their lines: which of them the curves show. Hidden where there is one run. */
export function createRunList(root) {
  let drawn = "";
  return () => {
    const key = JSON.stringify([session.runs.map((run) => run.id), setting("hide"), isDark()]);
    root.hidden = session.runs.length < 2 || setting("view") !== "curves";
    if (key === drawn || root.hidden) return;
    drawn = key;
    const focus = document.activeElement?.dataset?.group;
    root.replaceChildren(...groupsOf(session.runs).map(groupToggle));
    if (focus) root.querySelector(`[data-group="${CSS.escape(focus)}"]`)?.focus();
  };
}

function groupToggle(group) {
  const hidden = new Set(setting("hide").split(",").filter(Boolean));
  const ids = group.runs.map((run) => run.id);
  const box = make("input", { type: "checkbox", "data-group": group.key, onchange: () => toggle(ids, box.checked) });
  box.checked = !ids.every((id) => hidden.has(id));
  const ink = colours();
  const swatch = lineSwatch(ink.series[group.number % ink.series.length], DASHES[group.number % DASHES.length]);
  return make("label", { class: "run" }, box, swatch, make("span", { text: groupName(group) }));
}

function toggle(ids, shown) {
  const hidden = new Set(setting("hide").split(",").filter(Boolean));
  for (const id of ids) {
    if (shown) hidden.delete(id);
    else hidden.add(id);
  }
  choose({ hide: [...hidden].join(",") });
}
