// The spectrum of the round at hand: who holds which Hz from when to when, and which links set the round's length.

import { make } from "./dom.js";
import { axisLabel, digits, show, tick, ticks } from "./format.js";
import { keyOf } from "./legend.js";
import { scalesOf } from "./linechart.js";
import { widthOf } from "./painter.js";
import { Panel } from "./panel.js";
import { currentDetails, currentRound, currentRun } from "./session.js";

const HOPS = {
  access: { label: "access (UE to edge)", colour: "access", hatch: null },
  backhaul: { label: "backhaul (edge to cloud)", colour: "backhaul", hatch: null },
  cloud: { label: "broadcast (cloud to edges)", colour: "broadcast", hatch: null },
  cell: { label: "broadcast (edge to UEs)", colour: "broadcast", hatch: null },
};

export function createSpectrum() {
  const view = { blocks: [], span: [0, 1], band: 1, phases: [], said: "" };
  const panel = new Panel({
    title: "Spectrum of the round", height: 440,
    paint: (painter, size, ink) => paintSpectrum(painter, size, ink, view),
    table: () => spectrumTable(view),
    hit: (x, y, size) => hitSpectrum(x, y, size, view),
  });
  const keys = [...Object.values(HOPS), { label: "limits the round: ends last", colour: "surface", hatch: "rising", outline: true }];
  panel.body.before(keyOf(keys));
  panel.root.classList.add("wide");
  return { root: make("div", { class: "grid" }, panel.root), draw: () => drawSpectrum(panel, view) };
}

function drawSpectrum(panel, view) {
  const details = currentDetails();
  if (details === undefined) return panel.draw(view.said);
  const phases = details.spectrum?.phases;
  if (!phases?.length) return panel.setEmpty(details.error ?? "This run did not record who holds which Hz.");
  panel.setEmpty("");
  const key = `${currentRun().id}/${details.record.round}`;
  if (key !== view.said) Object.assign(view, layOut(details), { said: key });
  const limiting = view.blocks.filter((block) => block.limits).length;
  const whole = view.blocks.length;
  const others = details.record.round === currentRound() ? "" : ` Shown: round ${details.record.round}, the nearest that is here.`;
  panel.say(`Round ${details.record.round}: ${digits(whole)} links over ${show(view.span[1] - view.span[0], "s")}; ${digits(limiting)} of them end last in their phase and set its length.${others}`);
  return panel.draw(key);
}

/** Links as blocks of time and Hz: within a phase they stand on each other, edge by edge. */
function layOut({ spectrum, record }) {
  const blocks = [];
  let most = 0;
  for (const phase of spectrum.phases) {
    const links = linksOf(phase, currentRun().bandwidth_hz);
    const together = (hop) => links.every((link) => link.hop !== hop || link.limits);
    let [height, shade] = [0, 0];
    links.forEach((link, k) => {
      const before = links[k - 1];
      if (before?.hop === "cloud" && link.hop === "cell") height = 0;
      if (before && before.edge !== link.edge) shade = 1 - shade;
      blocks.push({ ...link, phase: phase.name, low: height, high: height + link.hz, shade, all: together(link.hop) });
      height += link.hz;
      most = Math.max(most, height);
    });
  }
  const from = Math.min(...spectrum.phases.map((phase) => phase.start_s));
  const to = Math.max(...spectrum.phases.map((phase) => phase.end_s));
  return { blocks, span: [from, to], band: Math.max(most, currentRun().bandwidth_hz || 0) || 1, phases: spectrum.phases, round: record.round };
}

function linksOf(phase, band) {
  const { links } = phase;
  const rows = (links?.edge ?? []).map((edge, k) => ({
    edge, ue: links.ue?.[k] ?? null, hop: links.hop?.[k] ?? hopOf(phase.name), hz: links.hz?.[k],
    start: links.start_s?.[k] ?? phase.start_s, end: links.end_s?.[k] ?? phase.end_s, limits: Boolean(links.limits?.[k]),
  })).map((row) => (row.hop === "cloud" ? { ...row, hz: row.hz ?? band } : row)).filter((row) => row.hop !== "cloud" || row.end > row.start);
  const known = rows.filter((row) => Number.isFinite(row.hz) && row.hz > 0);
  if (rows.length && !known.length) return [{ edge: null, ue: null, hop: hopOf(phase.name), hz: band || 1, start: phase.start_s, end: phase.end_s, limits: true, shared: true }];
  const order = Object.keys(HOPS);
  return phase.name === "broadcast" ? inTurns(known) : known.sort((a, b) => order.indexOf(a.hop) - order.indexOf(b.hop) || a.edge - b.edge || a.ue - b.ue);
}

/** The cloud sends before the cells do: each may hold the whole band. */
function inTurns(rows) {
  return rows.sort((a, b) => a.start - b.start || a.edge - b.edge);
}

function hopOf(name) {
  return name === "whole" ? "access" : name === "broadcast" ? "cell" : name;
}

function spectrumScales(size, view) {
  return scalesOf(size, { x: view.span, y: [0, view.band] }, { left: 58, right: 12, top: 26, bottom: 40 });
}

function paintSpectrum(painter, size, ink, view) {
  if (!view.blocks.length) return;
  const scales = spectrumScales(size, view);
  paintFrame(painter, scales, ink, view);
  for (const block of visible(view.blocks, scales)) paintBlock(painter, scales, ink, block);
  for (const run of edgeRuns(view.blocks)) paintName(painter, scales, ink, run);
}

/** All links, but where they are thinner than a row of pixels: there one of each row. */
function visible(blocks, scales) {
  let [column, row] = ["", -1];
  return blocks.filter(({ low, high, phase, hop }) => {
    const [top, here] = [Math.floor(scales.up(high)), `${phase}/${hop}`];
    const hidden = scales.up(low) - scales.up(high) < 1 && top === row && here === column;
    [column, row] = [here, top];
    return !hidden;
  });
}

function paintFrame(painter, scales, ink, view) {
  const { margin, width, height } = scales;
  const bottom = margin.top + height;
  for (const value of ticks(0, view.band, 5)) {
    painter.path([[margin.left, scales.up(value)], [margin.left + width, scales.up(value)]], { stroke: ink.line, line: 1 });
    painter.text(margin.left - 6, scales.up(value), tick(value, "Hz"), { fill: ink.soft, size: 11, anchor: "end" });
  }
  for (const value of ticks(...view.span, width / 100)) {
    painter.text(scales.across(value), bottom + 13, tick(value), { fill: ink.soft, size: 11, anchor: "middle" });
  }
  painter.text(margin.left + width, bottom + 29, axisLabel("time_s"), { fill: ink.soft, size: 11, anchor: "end" });
  painter.text(14, margin.top - 12, "Hz", { fill: ink.soft, size: 11 });
  for (const phase of view.phases) {
    const [from, to] = [scales.across(phase.start_s), scales.across(phase.end_s)];
    painter.path([[from, margin.top], [from, bottom]], { stroke: ink.strong, line: 1, dash: [2, 3] });
    const plain = phase.name === "whole" ? "uploads" : phase.name;
    const full = view.blocks.some((block) => block.phase === phase.name && block.all) ? `${plain}: all links end together and limit it` : plain;
    const name = [full, plain].find((one) => widthOf(one, 12, 600) < to - from);
    if (name) painter.text((from + to) / 2, margin.top - 12, name, { fill: ink.ink, size: 12, anchor: "middle", weight: 600 });
  }
}

function paintBlock(painter, scales, ink, block) {
  const thin = scales.up(block.low) - scales.up(block.high) < 1;
  const [x, y] = [scales.across(block.start), thin ? Math.floor(scales.up(block.high)) : scales.up(block.high)];
  const [width, height] = [Math.max(1, scales.across(block.end) - x), thin ? 1 : scales.up(block.low) - y];
  painter.rect(x, y, width, height, { fill: ink[HOPS[block.hop].colour], opacity: block.shade ? 0.55 : 0.85 });
  if (block.limits) painter.rect(x, y, width, height, { hatch: "rising", hatchColour: ink.ink, opacity: 0.45 });
  if (height > 5) painter.rect(x, y, width, height, { stroke: block.limits ? ink.ink : ink.surface, line: block.limits ? 1.2 : 0.6 });
}

/** Neighbouring links of one edge and hop, to be named together. */
function edgeRuns(blocks) {
  const runs = [];
  for (const block of blocks) {
    const last = runs.at(-1);
    if (last && last.phase === block.phase && last.hop === block.hop && last.edge === block.edge && last.high === block.low) {
      Object.assign(last, { high: block.high, end: Math.max(last.end, block.end), links: last.links + 1, limits: last.limits || block.limits });
    } else runs.push({ ...block, links: 1 });
  }
  return runs;
}

function paintName(painter, scales, ink, run) {
  const x = scales.across(run.start);
  const [top, bottom] = [scales.up(run.high), scales.up(run.low)];
  const who = run.shared ? "whole band, not told by link" : run.edge === null ? "cloud" : `edge ${run.edge}`;
  const words = `${who} · ${show(run.high - run.low, "Hz")}${run.links > 1 ? ` · ${run.links} UEs` : ""}${run.limits && !run.all ? " · limits" : ""}`;
  if (bottom - top > 3) painter.path([[x, top], [scales.across(run.end), top]], { stroke: ink.surface, line: 1 });
  if (bottom - top < 14) return;
  const room = scales.across(run.end) - x;
  const weight = run.limits && !run.all ? 600 : 400;
  const text = [words, who].find((one) => widthOf(one, 11, weight) + 16 < room);
  if (!text) return;
  painter.rect(x + 4, (top + bottom) / 2 - 7.5, widthOf(text, 11, weight) + 8, 15, { fill: ink.surface, opacity: 0.9 });
  painter.text(x + 8, (top + bottom) / 2, text, { fill: ink.ink, size: 11, weight });
}

function hitSpectrum(x, y, size, view) {
  if (!view.blocks.length) return null;
  const scales = spectrumScales(size, view);
  const block = view.blocks.find((one) => x >= scales.across(one.start) - 1 && x <= scales.across(one.end) + 1 && y >= scales.up(one.high) && y <= scales.up(one.low));
  if (!block) return null;
  const who = block.edge === null ? "cloud" : block.ue === null ? `edge ${block.edge}` : `UE ${block.ue} of edge ${block.edge}`;
  return [who, HOPS[block.hop].label, show(block.hz, "Hz"), `${show(block.start, "s")} to ${show(block.end, "s")}`, block.limits ? "limits: ends last in its phase" : "ends earlier than the phase"];
}

function spectrumTable(view) {
  const columns = ["phase", "hop", "edge", "ue", "hz", "start_s", "end_s", "limits"];
  const rows = view.blocks.map((one) => [one.phase, one.hop, one.edge, one.ue, one.hz, one.start, one.end, one.limits]);
  return { caption: `Links of round ${view.round ?? ""}`, columns, rows };
}
