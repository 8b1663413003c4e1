// Going through rounds: a slider, buttons, and the keyboard.

import { make, makeSvg, say } from "./dom.js";
import { currentRound, goTo, lastRound, redraw } from "./session.js";
import { choose, setting } from "./state.js";
import { switchTheme } from "./theme.js";

const ICONS = {
  play: "M3 1.5v11l9.5-5.5z", pause: "M2.5 1.5h3v11h-3zM8.5 1.5h3v11h-3z", back: "M9.5 1.5v11L3 7zM2 1.5h1.4v11H2z", forth: "M4.5 1.5v11L11 7zM10.6 1.5H12v11h-1.4z",
};
const playing = { on: false, last: 0, speed: 5 };

/** Fills the scrubber; the answer draws it again. */
export function createScrubber(root) {
  const button = (id, inside, label, onclick) => make("button", { type: "button", id, "aria-label": label, title: label, onclick }, inside);
  const play = button("play", icon(ICONS.play), "Play", togglePlay);
  const slider = make("input", { type: "range", id: "round", min: 1, max: 1, step: 1, value: 1, "aria-label": "Round", oninput: () => goTo(slider.valueAsNumber) });
  const words = make("output", { id: "place", for: "round" });
  const newest = button("newest", "Newest", "Follow the newest round", () => choose({ round: "" }));
  const speed = make("select", { "aria-label": "Rounds per second while playing", onchange: () => (playing.speed = Number(speed.value)) },
    ...[2, 5, 20, 60].map((one) => make("option", { value: one, text: `${one}/s`, selected: one === 5 })));
  root.append(play, button("back", icon(ICONS.back), "One round back", () => goTo(currentRound() - 1)), slider, button("forth", icon(ICONS.forth), "One round on", () => goTo(currentRound() + 1)), words, newest, speed);
  return () => drawScrubber({ play, slider, words, newest });
}

function drawScrubber({ play, slider, words, newest }) {
  const [round, last] = [currentRound(), lastRound()];
  if (slider.max !== String(Math.max(1, last))) slider.max = Math.max(1, last);
  if (slider.valueAsNumber !== round) slider.value = round;
  slider.setAttribute("aria-valuetext", `round ${round} of ${last}`);
  say(words, `${round} / ${last}`);
  const label = playing.on ? "Pause" : "Play";
  if (play.getAttribute("aria-label") !== label) {
    play.setAttribute("aria-label", label);
    play.title = label;
    play.replaceChildren(icon(playing.on ? ICONS.pause : ICONS.play));
  }
  newest.setAttribute("aria-pressed", setting("round") === "" ? "true" : "false");
}

function icon(d) {
  return makeSvg("svg", { viewBox: "0 0 14 14", width: 12, height: 12, "aria-hidden": "true" }, makeSvg("path", { d, fill: "currentColor" }));
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
