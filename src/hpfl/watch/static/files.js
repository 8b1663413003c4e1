// Charts as files: SVG and CSV, made in the page.

import { make } from "./dom.js";

/** Hands a text to the reader as a file. */
export function saveFile(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** Rows as CSV; a cell that a spreadsheet would take for a formula begins with an apostrophe. */
export function toCsv({ columns, rows }) {
  return [columns, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function csvCell(cell) {
  if (cell === null || cell === undefined || Number.isNaN(cell)) return "";
  if (typeof cell !== "string") return String(cell);
  const tame = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(tame) ? `"${tame.replaceAll('"', '""')}"` : tame;
}

/** An SVG element as the text of a file, with a title for those who cannot see it. */
export function toSvgFile(root, title) {
  const label = document.createElementNS("http://www.w3.org/2000/svg", "title");
  label.textContent = title;
  root.prepend(label);
  root.setAttribute("role", "img");
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(root)}\n`;
}

/** A name without what file systems dislike. */
export function fileName(...parts) {
  return parts.join("-").toLowerCase().replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+/, "").slice(0, 80);
}
