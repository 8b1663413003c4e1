// Colours of what is drawn, light and dark; dashes, hatches and shapes say the same without colour.

const light = {
  surface: "#ffffff", ink: "#1a2330", soft: "#5b6777", line: "#e2e6ec", strong: "#b8c0cc", accent: "#1f5bd1",
  series: ["#1f5bd1", "#c2500a", "#0a7d68", "#8a3ab9", "#8f6400", "#bd1e64", "#44691a", "#4b5b70"],
  compute: "#7d8ca1", access: "#4c86e8", backhaul: "#e08a3c", broadcast: "#2f9e86", waiting: "#eceff3",
  alarm: "#b3261e", heat: [[244, 247, 251], [176, 205, 240], [84, 142, 216], [26, 76, 156], [10, 32, 76]],
};
const dark = {
  surface: "#161c24", ink: "#e8ecf2", soft: "#9aa7b8", line: "#29323d", strong: "#4a5666", accent: "#7fb0ff",
  series: ["#7fb0ff", "#ff9f5a", "#4fd1b5", "#cf94f5", "#e0b94a", "#ff86b3", "#a5cf6b", "#a9b6c8"],
  compute: "#7d8ca1", access: "#4a82dd", backhaul: "#cf7f38", broadcast: "#2e9a84", waiting: "#222b36",
  alarm: "#ff8a80", heat: [[30, 38, 49], [32, 66, 118], [52, 112, 190], [128, 180, 240], [226, 240, 255]],
};
export const PALETTES = { light, dark };
export const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 2], [12, 4, 4, 4], [1, 4], [6, 2, 1, 2, 1, 2]];
export const PHASES = {
  compute: { label: "computing", colour: "compute", hatch: null },
  edge_upload: { label: "access (UEs to edge)", colour: "access", hatch: "rising" },
  backhaul: { label: "backhaul (edge to cloud)", colour: "backhaul", hatch: "falling" },
  broadcast: { label: "broadcast", colour: "broadcast", hatch: "dots" },
  waiting: { label: "waiting", colour: "waiting", hatch: null },
};
export const OUTCOMES = {
  aggregated: { label: "aggregated", shape: "disc" },
  superseded: { label: "superseded", shape: "cross" },
  dropped: { label: "dropped", shape: "square" },
};

/** Colour of a share between 0 and 1 on the heat scale. */
export function heat(colours, share) {
  const place = Math.min(1, Math.max(0, share)) * (colours.heat.length - 1);
  const low = Math.floor(place);
  const high = Math.min(low + 1, colours.heat.length - 1);
  return colours.heat[low].map((one, k) => Math.round(one + (colours.heat[high][k] - one) * (place - low)));
}

/** The same as a CSS colour. */
export function heatColour(colours, share) {
  return `rgb(${heat(colours, share).join(",")})`;
}
