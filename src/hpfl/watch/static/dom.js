// Making elements: everything that comes from a run is text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (`on…` are listeners, `text` is its text) and children (elements or strings). */
export function make(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function makeSvg(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

function furnish(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** A labelled choice: `options` are [value, label] pairs. */
export function choice(label, options, value, onchange) {
  const select = make("select", { "aria-label": label, onchange: () => onchange(select.value) });
  fillChoice(select, options, value);
  const root = make("label", { class: "choice" }, make("span", { text: label }), select);
  return { root, select };
}

/** Puts other options into a select, touching it only where they differ. */
export function fillChoice(select, options, value) {
  const key = JSON.stringify(options);
  if (select.dataset.key !== key) {
    select.replaceChildren(...options.map(([one, label]) => make("option", { value: one, text: label })));
    select.dataset.key = key;
  }
  if (select.value !== String(value)) select.value = value;
}

/** Sets a text only where it differs, so that nothing is laid out for nothing. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A table with a caption; at most `most` rows, and a sentence where there are more. */
export function fillTable(table, { caption, columns, rows, total }, most = 200) {
  const all = total ?? rows.length;
  const shown = rows.slice(0, most);
  const title = all > shown.length ? `${caption} (the first ${shown.length} of ${all} rows; CSV has all)` : caption;
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col", text: name })));
  const body = shown.map((row) => make("tr", {}, ...row.map((cell) => make("td", { text: cellText(cell) }))));
  table.replaceChildren(
    make("caption", { text: title }),
    make("thead", {}, head),
    make("tbody", {}, ...body),
  );
}

function cellText(cell) {
  if (cell === null || cell === undefined) return "–";
  if (typeof cell === "number") return Number.isInteger(cell) ? String(cell) : String(Number(cell.toPrecision(6)));
  return typeof cell === "boolean" ? (cell ? "yes" : "no") : String(cell);
}
