// Puts the page together: header, views, scrubber; draws what is seen, once a frame, when something changed.

import { make } from "./dom.js";
import { createFacts, createHeader, createRunList } from "./header.js";
import { createScrubber, listenToKeys } from "./scrubber.js";
import { follow, load, onDraw, redraw, session } from "./session.js";
import { choose, followAddress, onChoice, readAddress, setting } from "./state.js";
import { applyTheme, onSystemTheme } from "./theme.js";
import { createCurves } from "./view_curves.js";
import { createEdges } from "./view_edges.js";
import { createGantt } from "./view_gantt.js";
import { createMap } from "./view_map.js";
import { createNodes } from "./view_nodes.js";
import { createReasons } from "./view_reasons.js";
import { createSpectrum } from "./view_spectrum.js";
import { createUes } from "./view_ues.js";

const VIEWS = [
  ["curves", "Curves", createCurves], ["spectrum", "Spectrum", createSpectrum], ["gantt", "Timeline", createGantt], ["map", "Map", createMap],
  ["edges", "Edges", createEdges], ["reasons", "Reasons", createReasons], ["ues", "UEs", createUes], ["nodes", "Nodes", createNodes],
];
const opened = new Map();

function createTabs(root) {
  const links = VIEWS.map(([name, label]) => make("a", { href: `#view=${name}`, "data-view": name, text: label, onclick: (event) => {
    event.preventDefault();
    choose({ view: name });
  } }));
  root.append(...links);
  let drawn = "";
  return () => {
    if (drawn === viewName()) return;
    drawn = viewName();
    for (const link of links) {
      if (link.dataset.view === drawn) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
      if (link.dataset.view === drawn) root.scrollLeft = link.offsetLeft + link.offsetWidth / 2 - root.clientWidth / 2;
    }
  };
}

function viewName() {
  return VIEWS.some(([name]) => name === setting("view")) ? setting("view") : "curves";
}

/** Shows the view that is chosen; it is made when it is first seen. */
function drawView(root) {
  if (!session.runs.length) return;
  const name = viewName();
  if (!opened.has(name)) {
    const view = VIEWS.find(([one]) => one === name)[2]();
    view.root.dataset.view = name;
    opened.set(name, view);
    root.append(view.root);
  }
  for (const [one, view] of opened) view.root.hidden = one !== name;
  opened.get(name).draw();
}

function drawStatus(root) {
  const empty = session.problem || (session.runs.length ? "" : "There is no run here yet.");
  root.hidden = !empty;
  if (root.textContent !== empty) root.textContent = empty;
}

async function start() {
  readAddress();
  applyTheme();
  const [head, tabs, facts, runs, main, foot, status] = ["head", "tabs", "facts", "runs", "view", "scrubber", "problem"].map((id) => document.getElementById(id));
  for (const draw of [applyTheme, createHeader(head), createTabs(tabs), createFacts(facts), createRunList(runs), createScrubber(foot)]) onDraw(draw);
  onDraw(() => drawView(main));
  onDraw(() => drawStatus(status));
  document.getElementById("skip").addEventListener("click", () => main.focus());
  document.getElementById("close").addEventListener("click", () => document.getElementById("help").close());
  onChoice(redraw);
  onSystemTheme(redraw);
  followAddress();
  listenToKeys(VIEWS.map(([name]) => name));
  await load().catch((problem) => (session.problem = problem.message));
  follow();
  redraw();
}

start();
