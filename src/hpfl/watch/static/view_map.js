// Where cloud, edges and UEs are, how well they hear each other, and how they moved.

import { choice, fillChoice, make } from "./dom.js";
import { roundPath } from "./cache.js";
import { digits, ticks } from "./format.js";
import { keyOf } from "./legend.js";
import { rangeOf } from "./linechart.js";
import { heatColour } from "./palette.js";
import { marker } from "./painter.js";
import { Panel } from "./panel.js";
import { currentDetails, currentRound, currentRun, shelf } from "./session.js";
import { choose, setting } from "./state.js";

const TRAIL = 6;
const MANY_EDGES = 60;

export function createMap() {
  const view = { map: null, edges: null, trails: [], said: "", gains: [0, 1], round: 0 };
  const panel = new Panel({
    title: "Map", height: () => (innerWidth < 700 ? 400 : 560),
    paint: (painter, size, ink) => paintMap(painter, size, ink, view),
    table: () => mapTable(view),
    hit: (x, y, size) => hitMap(x, y, size, view),
    press: (x, y, size) => pressMap(x, y, size, view),
  });
  const edge = choice("Edge", [["", "all"]], "", (value) => choose({ edge: value }));
  panel.body.before(keyOf([
    { label: "cloud", shape: "square", colour: "ink" }, { label: "edge, scheduled", shape: "triangle", colour: "accent" },
    { label: "edge, not scheduled", shape: "triangle", colour: "surface" }, { label: "UE: the stronger its gain, the stronger its tone", shape: "disc", colour: "access" },
    { label: "picked", shape: "diamond", colour: "backhaul" },
  ]));
  panel.root.classList.add("wide");
  const root = make("div", {}, make("div", { class: "bar" }, edge.root), make("div", { class: "grid" }, panel.root));
  return { root, draw: () => drawMap(panel, view, edge) };
}

function drawMap(panel, view, edge) {
  const details = currentDetails();
  if (details === undefined) return panel.draw(view.said);
  const { map } = details;
  if (!map?.edges?.x) return panel.setEmpty(details.error ?? "This run did not record places.");
  panel.setEmpty("");
  fillChoice(edge.select, [["", "all"], ...map.edges.x.map((_, k) => [String(k), String(k)])], setting("edge"));
  const trails = trailsOf(details.record.round);
  const key = [currentRun().id, details.record.round, setting("edge"), setting("ue"), trails.length].join("/");
  if (key !== view.said) {
    const gains = rangeOf([map.ues?.gain_db ?? map.edges.gain_db ?? []]);
    Object.assign(view, { map, edges: details.edges, trails, gains, said: key, round: details.record.round });
  }
  panel.say(describeMap(view));
  return panel.draw(key);
}

function describeMap({ map, trails, gains, round }) {
  const ues = map.ues ? `${digits(map.ues.x.length)} UEs` : "no UEs: too many to record each";
  const heard = map.ues ? `; gains of UEs from ${digits(gains[0])} to ${digits(gains[1])} dB` : "";
  const moved = trails.length ? `; tails show the last ${trails.length} rounds` : "";
  return `Round ${round}: ${digits(map.edges.x.length)} edges, ${ues}${heard}${moved}. Distances in metres.`;
}

/** Places of UEs in the rounds before, oldest first, where they moved at all. */
function trailsOf(round) {
  const run = currentRun();
  const found = [];
  for (let before = Math.max(1, round - TRAIL); before < currentRound() && before < round; before++) {
    const ues = shelf.get(roundPath(run.id, before))?.map?.ues;
    if (ues) found.push(new Map(ues.x.map((x, k) => [ues.ue?.[k] ?? k, [x, ues.y[k]]])));
  }
  const now = shelf.get(roundPath(run.id, round))?.map?.ues;
  const moves = now && found.some((places) => now.x.some((x, k) => places.get(now.ue?.[k] ?? k)?.[0] !== x));
  return moves ? found : [];
}

/** The same scale in both directions, around all there is. */
function mapPlaces(size, { map }) {
  const all = (axis) => [...map.edges[axis], ...(map.ues?.[axis] ?? []), map.cloud?.[axis === "x" ? 0 : 1]].filter((one) => Number.isFinite(one));
  const [[left, right], [low, high]] = [rangeOf([all("x")], 0.06), rangeOf([all("y")], 0.06)];
  const scale = Math.min((size.width - 24) / (right - left), (size.height - 44) / (high - low));
  const [x0, y0] = [size.width / 2 - ((left + right) / 2) * scale, (size.height - 20) / 2 + ((low + high) / 2) * scale];
  return { scale, at: (x, y) => [x0 + x * scale, y0 - y * scale] };
}

function paintMap(painter, size, ink, view) {
  if (!view.map) return;
  const { map } = view;
  const { at, scale } = mapPlaces(size, view);
  const only = setting("edge") === "" ? null : Number(setting("edge"));
  paintLinks(painter, ink, view, at);
  if (map.ues) paintUes(painter, ink, view, { at, only });
  map.edges.x.forEach((x, k) => paintEdge(painter, ink, view, { k, place: at(x, map.edges.y[k]), faint: only !== null && only !== k }));
  if (map.cloud) {
    const place = at(...map.cloud);
    marker(painter, "square", place, 7, { fill: ink.ink, stroke: ink.surface });
    painter.text(place[0], place[1] - 16, "cloud", { fill: ink.ink, size: 12, anchor: "middle", weight: 600, halo: ink.surface });
  }
  const step = ticks(0, size.width / scale / 6, 2).at(-1) || 1;
  painter.path([[14, size.height - 14], [14 + step * scale, size.height - 14]], { stroke: ink.soft, line: 2 });
  painter.text(14, size.height - 24, `${digits(step)} m`, { fill: ink.soft, size: 11 });
}

function paintLinks(painter, ink, { map, edges }, at) {
  if (!map.cloud) return;
  const gains = map.edges.gain_db ?? [];
  const [low, high] = rangeOf([gains]);
  const many = map.edges.x.length > MANY_EDGES;
  map.edges.x.forEach((x, k) => {
    if (!edges?.scheduled?.[k]) return;
    const share = Number.isFinite(gains[k]) ? (gains[k] - low) / (high - low || 1) : 0.5;
    painter.path([at(...map.cloud), at(x, map.edges.y[k])], { stroke: ink.accent, line: (many ? 0.3 : 1) * (0.8 + 2.4 * share), opacity: many ? 0.25 : 0.45 });
  });
}

function paintUes(painter, ink, view, { at, only }) {
  const { ues } = view.map;
  const [low, high] = view.gains;
  const many = ues.x.length > 600;
  const picked = setting("ue") === "" ? null : Number(setting("ue"));
  const faints = (k) => only !== null && ues.edge[k] !== only;
  painter.lines(tailsOf(view, at, (k) => !faints(k) && (!many || (ues.ue?.[k] ?? k) === picked)), { stroke: ink.soft, line: 1.2, opacity: 0.7 });
  for (let k = 0; k < ues.x.length; k++) {
    if (ues.x[k] === null) continue;
    const place = at(ues.x[k], ues.y[k]);
    const faint = faints(k);
    const number = ues.ue?.[k] ?? k;
    const share = 0.25 + 0.65 * ((ues.gain_db?.[k] ?? low) - low) / (high - low || 1);
    if (number === picked) {
      marker(painter, "diamond", place, 7, { fill: ink.backhaul, stroke: ink.ink });
      painter.text(place[0] + 11, place[1], `UE ${number}`, { fill: ink.ink, size: 12, weight: 600, halo: ink.surface });
    } else painter.circle(...place, many ? 2 : 3.2, { fill: heatColour(ink, share), stroke: many ? null : ink.soft, line: 0.5, opacity: faint ? 0.15 : 1 });
  }
}

/** Where UEs came from, of those that `wanted` names. */
function tailsOf({ trails, map: { ues } }, at, wanted) {
  const tails = [];
  for (let k = 0; trails.length && k < ues.x.length; k++) {
    if (ues.x[k] === null || !wanted(k)) continue;
    const before = trails.map((places) => places.get(ues.ue?.[k] ?? k)).filter((one) => one && one[0] !== null);
    tails.push([...before.map((one) => at(...one)), at(ues.x[k], ues.y[k])]);
  }
  return tails;
}

function paintEdge(painter, ink, { edges, map }, { k, place, faint }) {
  const opacity = faint ? 0.3 : 1;
  const small = map.edges.x.length > MANY_EDGES;
  const named = !small || String(k) === setting("edge");
  marker(painter, "triangle", place, map.edges.x.length > 10 * MANY_EDGES ? 3.5 : small ? 5 : 8, { fill: edges?.scheduled?.[k] ? ink.accent : ink.surface, stroke: ink.ink, opacity });
  if (named) painter.text(place[0] + (small ? 7 : 11), place[1], String(k), { fill: faint ? ink.soft : ink.ink, size: small ? 10 : 12, weight: 600, halo: ink.surface });
}

function thingAt(x, y, size, view) {
  if (!view.map) return null;
  const { at } = mapPlaces(size, view);
  const far = ([px, py]) => (px - x) ** 2 + (py - y) ** 2;
  let best = { distance: 196 };
  const look = (kind, list) => list?.x.forEach((px, k) => {
    const distance = px === null ? Infinity : far(at(px, list.y[k])) * (kind === "edge" ? 0.5 : 1);
    if (distance < best.distance) best = { kind, k, distance };
  });
  look("ue", view.map.ues);
  look("edge", view.map.edges);
  return best.kind ? best : null;
}

function hitMap(x, y, size, view) {
  const thing = thingAt(x, y, size, view);
  if (!thing) return null;
  const { k } = thing;
  const gain = (list) => `gain ${digits(list.gain_db?.[k] ?? null)} dB`;
  if (thing.kind === "ue") return [`UE ${view.map.ues.ue?.[k] ?? k} of edge ${view.map.ues.edge[k]}`, gain(view.map.ues), "click to pick it"];
  return [`edge ${k}`, `${gain(view.map.edges)} to the cloud`, view.edges?.scheduled?.[k] ? "scheduled" : "not scheduled", `update: ${view.edges?.outcome?.[k] ?? "not told"}`];
}

function pressMap(x, y, size, view) {
  const thing = thingAt(x, y, size, view);
  if (thing?.kind === "ue") choose({ ue: view.map.ues.ue?.[thing.k] ?? thing.k });
  else if (thing) choose({ edge: setting("edge") === String(thing.k) ? "" : thing.k });
}

function mapTable({ map, round }) {
  const rows = (map?.edges.x ?? []).map((x, k) => ["edge", k, null, x, map.edges.y[k], map.edges.gain_db?.[k]]);
  (map?.ues?.x ?? []).forEach((x, k) => rows.push(["UE", map.ues.ue?.[k] ?? k, map.ues.edge[k], x, map.ues.y[k], map.ues.gain_db?.[k]]));
  return { caption: `Places in round ${round}`, columns: ["what", "number", "of edge", "x_m", "y_m", "gain_db"], rows };
}
