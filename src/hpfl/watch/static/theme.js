// Light and dark: what the system prefers, until the reader chooses.

import { PALETTES } from "./palette.js";
import { choose, setting } from "./state.js";

const prefersDark = matchMedia("(prefers-color-scheme: dark)");

export function isDark() {
  const chosen = setting("theme");
  return chosen ? chosen === "dark" : prefersDark.matches;
}

/** The colours to draw with. */
export function colours() {
  return isDark() ? PALETTES.dark : PALETTES.light;
}

export function switchTheme() {
  choose({ theme: isDark() ? "light" : "dark" });
}

/** Puts the theme on the page. */
export function applyTheme() {
  const wanted = isDark() ? "dark" : "light";
  if (document.documentElement.dataset.theme !== wanted) document.documentElement.dataset.theme = wanted;
}

export function onSystemTheme(listener) {
  prefersDark.addEventListener("change", listener);
}
