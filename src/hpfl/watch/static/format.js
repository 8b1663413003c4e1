// Numbers and names as people read them.

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
const KNOWN = {
  round: ["round", ""],
  time_s: ["simulated time", "s"],
  cumulative_energy_j: ["energy of all UEs so far", "J"],
  cumulative_bits: ["bits up and down so far", "bit"],
  personalised_accuracy: ["personalised accuracy", "%"],
  personalised_accuracy_p10: ["personalised accuracy, worst tenth", "%"],
  global_accuracy: ["global accuracy", "%"],
  global_accuracy_p10: ["global accuracy, worst tenth", "%"],
  meta_loss: ["personalised loss", ""],
  loss: ["loss without adaptation", ""],
  personalised_test_loss: ["personalised test loss", ""],
  test_loss: ["test loss without adaptation", ""],
  latency_s: ["length of the round", "s"],
  objective: ["objective", ""],
  lower_bound: ["lower bound", ""],
  relative_gap: ["relative gap", "%"],
  noise_scale: ["noise scale", "edges"],
  step_scale: ["step", "×"],
  planning_s: ["planner's thinking, wall clock", "s"],
  bandwidth_used_hz: ["bandwidth used", "Hz"],
  energy_j: ["energy of the UEs", "J"],
  importance: ["importance", ""],
  debt: ["debt", ""],
  coding: ["coding of uploads", ""],
  round_latency_s: ["planned uploads", "s"],
  least_latency_s: ["bound on uploads", "s"],
  any_time_least_s: ["bound on uploads, any Hz over time", "s"],
  price_s_per_hz: ["price of bandwidth", "s/Hz"],
  broadcast_s: ["planned broadcast", "s"],
  exceeds_cap: ["more edges than the cap", ""],
  max_staleness: ["largest staleness", "rounds"],
  mean_staleness: ["mean staleness", "rounds"],
};
/** Calls the clock what it is: of runs of which some are deployed it is not simulated. */
export function nameClock(deployed) {
  KNOWN.time_s[0] = deployed ? "time" : "simulated time";
}

const UNITS = [["_s", "s"], ["_hz", "Hz"], ["_j", "J"], ["_bits", "bit"], ["_db", "dB"], ["_w", "W"], ["accuracy", "%"]];

/** The unit of a column; "%" stands for a share of 1. */
export function unitOf(name) {
  if (KNOWN[name]) return KNOWN[name][1];
  if (/accuracy(_p\d+)?$/.test(name)) return "%";
  return UNITS.find(([ending]) => name.endsWith(ending))?.[1] ?? "";
}

/** What a column is called. */
export function labelOf(name) {
  if (KNOWN[name]) return KNOWN[name][0];
  return name.replace(/_(s|hz|j|db|w)$/, "").replaceAll("_", " ");
}

/** A column's name with its unit, for an axis. */
export function axisLabel(name) {
  const unit = unitOf(name);
  return unit ? `${labelOf(name)} (${unit})` : labelOf(name);
}

/** A value with its unit: 1.25 MHz, 95.5 %, 0.113 s. */
export function show(value, unit = "") {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (unit === "%") return `${(100 * value).toFixed(1)} %`;
  if (["Hz", "J", "bit", "W"].includes(unit) || (unit === "s" && Math.abs(value) < 1)) return scaled(value, unit);
  return unit ? `${digits(value)} ${unit}` : digits(value);
}

function scaled(value, unit) {
  if (value === 0) return `0 ${unit}`;
  const [scale, prefix] = PREFIXES.find(([one]) => Math.abs(value) >= one) ?? PREFIXES.at(-1);
  return `${digits(value / scale)} ${prefix}${unit}`;
}

/** About four digits of a number. */
export function digits(value) {
  if (value === null || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return value.toLocaleString("en");
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  return value.toLocaleString("en", { maximumSignificantDigits: size >= 1000 ? 6 : 4 });
}

/** Text of a tick: short, in the axis' unit. */
export function tick(value, unit = "") {
  if (unit === "%") return String(Number((100 * value).toFixed(4)));
  if (["Hz", "bit", "J", "W"].includes(unit)) return value === 0 ? "0" : scaled(value, "").trim().replace(" ", "");
  return Math.abs(value) >= 1e6 ? scaled(value, "").replace(" ", "") : String(Number(value.toPrecision(6)));
}

/** Round places for ticks between two values, about `count` of them. */
export function ticks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
  const places = [];
  for (let place = Math.ceil(low / step - 1e-9) * step; place <= high + step * 1e-9; place += step) places.push(place);
  return places.map((place) => (Math.abs(place) < step * 1e-9 ? 0 : place));
}
