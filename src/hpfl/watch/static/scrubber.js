// Going through rounds: a slider, buttons, and the keyboard.

import { make, say } from "./dom.js";
import { currentRound, goTo, lastRound, redraw } from "./session.js";
import { choose, setting } from "./state.js";
import { switchTheme } from "./theme.js";

const playing = { on: false, last: 0, speed: 5 };

/** Fills the scrubber; the answer draws it again. */
export function createScrubber(root) {
  const button = (id, text, label, onclick) => make("button", { type: "button", id, text, "aria-label": label, title: label, onclick });
  const play = button("play", "▶", "Play", togglePlay);
  const slider = make("input", { type: "range", id: "round", min: 1, max: 1, step: 1, value: 1, "aria-label": "Round", oninput: () => goTo(slider.valueAsNumber) });
  const words = make("output", { id: "place", for: "round" });
  const newest = button("newest", "Newest", "Follow the newest round", () => choose({ round: "" }));
  const speed = make("select", { "aria-label": "Rounds per second while playing", onchange: () => (playing.speed = Number(speed.value)) },
    ...[2, 5, 20, 60].map((one) => make("option", { value: one, text: `${one}/s`, selected: one === 5 })));
  root.append(play, button("back", "◀", "One round back", () => goTo(currentRound() - 1)), slider, button("forth", "▶", "One round on", () => goTo(currentRound() + 1)), words, newest, speed);
  root.querySelector("#forth").textContent = "⏵";
  root.querySelector("#back").textContent = "⏴";
  return () => drawScrubber({ play, slider, words, newest });
}

function drawScrubber({ play, slider, words, newest }) {
  const [round, last] = [currentRound(), lastRound()];
  if (slider.max !== String(Math.max(1, last))) slider.max = Math.max(1, last);
  if (slider.valueAsNumber !== round) slider.value = round;
  slider.setAttribute("aria-valuetext", `round ${round} of ${last}`);
  say(words, `${round} / ${last}`);
  say(play, playing.on ? "❚❚" : "▶");
  play.setAttribute("aria-label", playing.on ? "Pause" : "Play");
  newest.setAttribute("aria-pressed", setting("round") === "" ? "true" : "false");
}

/** Plays from here, from the beginning where the end is reached; or stops. */
function togglePlay() {
  playing.on = !playing.on;
  if (!playing.on) return redraw();
  if (currentRound() >= lastRound()) goTo(1);
  playing.last = performance.now();
  return requestAnimationFrame(step);
}

function step(time) {
  if (!playing.on) return;
  const due = Math.floor(((time - playing.last) / 1000) * playing.speed);
  if (due > 0) {
    playing.last += (due * 1000) / playing.speed;
    goTo(currentRound() + due);
    if (currentRound() >= lastRound()) playing.on = false;
  }
  redraw();
  requestAnimationFrame(step);
}

/** Keys that work everywhere but in fields that need them. */
export function listenToKeys(views) {
  addEventListener("keydown", (event) => {
    const field = event.target.closest?.("select, textarea, dialog, input:not([type=range]):not([type=checkbox])");
    if (field || event.ctrlKey || event.metaKey || event.altKey) return;
    const pressable = event.target.closest?.("button, summary, a, input[type=checkbox]");
    if (event.key === " " && pressable) return;
    const action = actionOf(event, views);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function actionOf({ key, shiftKey }, views) {
  const far = shiftKey ? 10 : 1;
  const actions = {
    ArrowLeft: () => goTo(currentRound() - far), ArrowRight: () => goTo(currentRound() + far),
    PageDown: () => goTo(currentRound() - 10), PageUp: () => goTo(currentRound() + 10),
    Home: () => goTo(1), End: () => choose({ round: "" }), " ": togglePlay, t: switchTheme,
    "?": () => document.getElementById("help").showModal(),
  };
  if (/^[1-9]$/.test(key) && views[Number(key) - 1]) return () => choose({ view: views[Number(key) - 1] });
  return actions[key];
}
