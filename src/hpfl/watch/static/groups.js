// Runs as lines: seeds of a group become one line with a band.

import { DASHES } from "./palette.js";
import { session, shownRuns } from "./session.js";

const GRID = 400;
const STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093, 2.086];

/** Groups of runs in the order in which they come, each with its number for colour and dash. */
export function groupsOf(runs) {
  const groups = new Map();
  session.runs.forEach((run) => {
    const key = run.group || run.id;
    if (!groups.has(key)) groups.set(key, { key, number: groups.size, runs: [] });
  });
  for (const run of runs) groups.get(run.group || run.id).runs.push(run);
  return [...groups.values()].filter((group) => group.runs.length);
}

/** What a group is called: its run's name, or what the seeds have in common. */
export function groupName(group) {
  const [first] = group.runs;
  if (group.runs.length === 1) return first.title || first.name;
  const rest = (first.title ?? "").startsWith(`${first.name}: `) ? first.title.slice(first.name.length) : "";
  return `${commonName(group.runs.map((run) => run.name))}${rest}, ${group.runs.length} seeds`;
}

/** What names begin with, without the seed's number at the end. */
function commonName(names) {
  let length = 0;
  while (length < names[0].length && names.every((name) => name[length] === names[0][length])) length++;
  return names[0].slice(0, length).replace(/[-_. ]*(seed)?[-_. =]*$/i, "") || names[0];
}

/** Lines of a column over another: one per group that is shown. */
export function linesOf(x, y, band, colours) {
  const lines = [];
  for (const group of groupsOf(shownRuns())) {
    const seeds = group.runs.map((run) => session.columns.get(run.id)?.points(x, y)).filter((points) => points?.[0].length);
    if (!seeds.length) continue;
    const style = { label: groupName(group), colour: colours.series[group.number % colours.series.length], dash: DASHES[group.number % DASHES.length] };
    lines.push({ ...style, seeds: seeds.length, ...(seeds.length === 1 ? { xs: seeds[0][0], ys: seeds[0][1] } : bandOf(seeds, band)) });
  }
  return lines;
}

/** Mean, and lowest and highest seed or the 95 % interval of the mean, where all seeds are known. */
function bandOf(seeds, band) {
  const from = Math.max(...seeds.map(([xs]) => xs[0]));
  const to = Math.min(...seeds.map(([xs]) => xs.at(-1)));
  const places = [...new Set(seeds.flatMap(([xs]) => xs.filter((x) => x >= from && x <= to)))].sort((a, b) => a - b);
  const every = Math.ceil(places.length / GRID);
  const xs = places.filter((_, k) => k % every === 0 || k === places.length - 1);
  const drawn = seeds.map((points) => valuesAt(points, xs));
  const line = { xs, ys: [], low: [], high: [] };
  for (let k = 0; k < xs.length; k++) {
    const values = drawn.map((one) => one[k]);
    const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
    const half = band === "interval" ? halfInterval(values, mean) : null;
    line.ys.push(mean);
    line.low.push(half === null ? Math.min(...values) : mean - half);
    line.high.push(half === null ? Math.max(...values) : mean + half);
  }
  return line;
}

function halfInterval(values, mean) {
  const free = values.length - 1;
  const variance = values.reduce((sum, one) => sum + (one - mean) ** 2, 0) / free;
  return (STUDENT[free - 1] ?? 1.96 + 2.4 / free) * Math.sqrt(variance / values.length);
}

/** Values of a line at ascending places, straight between its points. */
function valuesAt([xs, ys], places) {
  let k = 0;
  return places.map((place) => {
    while (k + 1 < xs.length && xs[k + 1] <= place) k++;
    if (k + 1 >= xs.length || xs[k + 1] === xs[k]) return ys[k];
    return ys[k] + ((ys[k + 1] - ys[k]) * (place - xs[k])) / (xs[k + 1] - xs[k]);
  });
}
