// A chart with its heading, its files and the table behind it.

import { fillTable, make, say } from "./dom.js";
import { fileName, saveFile, toCsv, toSvgFile } from "./files.js";
import { PALETTES } from "./palette.js";
import { CanvasPainter, SvgPainter } from "./painter.js";
import { redraw } from "./session.js";
import { colours, isDark } from "./theme.js";

const ROWS = 200;
const REST_MS = 180;

/**
 * A panel. `paint(painter, size, colours)` draws the picture, `cursor(size)` says where the round at hand stands in it
 * ({x, y, width, height} or null), `table()` gives {caption, columns, rows}, `hit(x, y, size)` the tooltip's lines under
 * the pointer, `press(x, y, size)` answers a click.
 */
export class Panel {
  constructor({ title, height, paint, cursor, table, hit, press }) {
    Object.assign(this, { title, height, paint, cursor, table, hit, press });
    Object.assign(this, { drawn: "", filling: 0, filled: -Infinity });
    this.size = { width: 0, height: 0 };
    this.heading = make("h2", { text: title });
    this.note = make("p", { class: "note" });
    this.body = make("div", { class: "chart" });
    this.grid = make("table", { class: "data" });
    this.details = make("details", { class: "behind", ontoggle: () => this.fillTable() },
      make("summary", { text: "Table" }), make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": `Table: ${title}` }, this.grid));
    this.root = make("section", { class: "panel", "aria-label": title },
      make("header", {}, this.heading, this.makeButtons()), this.note, this.body, this.details);
    if (paint) this.makeLayers();
  }

  makeButtons() {
    const button = (text, label, onclick) => make("button", { type: "button", class: "quiet", "aria-label": label, text, onclick });
    const drawn = this.height !== undefined;
    return make("div", { class: "tools" },
      drawn ? button("SVG", `${this.title} as an SVG file`, () => this.saveSvg()) : null,
      button("CSV", `${this.title} as a CSV file`, () => this.saveCsv()));
  }

  makeLayers() {
    this.canvas = make("canvas", { role: "img", "aria-label": `${this.title}; the table below says the same` });
    this.now = make("div", { class: "here", "aria-hidden": "true", hidden: true });
    this.tip = make("div", { class: "tip", role: "status", hidden: true });
    this.body.append(this.canvas, this.now, this.tip);
    new ResizeObserver(() => redraw()).observe(this.body);
    this.body.addEventListener("pointermove", (event) => this.point(event));
    this.body.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.body.addEventListener("click", (event) => this.press?.(...this.place(event), this.size));
  }

  place(event) {
    const box = this.body.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  point(event) {
    if (!this.hit) return;
    const [x, y] = this.place(event);
    const lines = this.hit(x, y, this.size);
    this.tip.hidden = !lines;
    if (!lines) return;
    this.tip.replaceChildren(...lines.map((line) => make("div", { text: line })));
    const left = x > this.size.width / 2;
    this.tip.style.transform = `translate(${Math.round(x + (left ? -12 : 12))}px, ${Math.round(y + 12)}px) translateX(${left ? "-100%" : "0"})`;
  }

  /** Draws: the picture where `key` says that it differs from the one that stands there, what moves always. */
  draw(key) {
    if (!this.paint) return;
    const height = typeof this.height === "function" ? this.height() : this.height;
    const width = this.body.clientWidth;
    if (!width) return;
    this.size = { width, height };
    const state = `${key}|${width}x${height}|${isDark()}|${devicePixelRatio}`;
    if (state !== this.drawn) {
      this.drawn = state;
      this.paint(new CanvasPainter(this.clear(this.canvas)), this.size, colours());
      this.fillTable();
    }
    if (this.cursor) this.placeCursor(this.cursor(this.size));
  }

  /** What moves with the round is an element of its own: the picture is not drawn again for it. */
  placeCursor(box) {
    this.now.hidden = !box;
    if (!box) return;
    this.now.style.transform = `translate(${box.x}px, ${box.y}px)`;
    this.now.style.width = `${box.width}px`;
    this.now.style.height = `${box.height}px`;
  }

  clear(canvas) {
    const { width, height } = this.size;
    const scale = Math.min(2, devicePixelRatio || 1);
    const context = canvas.getContext("2d");
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  }

  say(text) {
    say(this.note, text);
  }

  /** Says why there is no picture. */
  setEmpty(reason) {
    this.root.classList.toggle("empty", Boolean(reason));
    if (reason) this.say(reason);
  }

  /** Fills the table behind the picture where it is open; while one scrubs it waits for a rest. */
  fillTable() {
    clearTimeout(this.filling);
    if (!this.details.open) return;
    const rested = performance.now() - this.filled > REST_MS;
    this.filled = performance.now();
    this.grid.setAttribute("aria-busy", String(!rested));
    if (rested) fillTable(this.grid, this.table(), ROWS);
    else this.filling = setTimeout(() => this.fillTable(), REST_MS + 20);
  }

  saveCsv() {
    saveFile(`${fileName("hpfl", this.title)}.csv`, toCsv(this.table(true)), "text/csv");
  }

  saveSvg() {
    const size = this.size.width ? this.size : { width: 720, height: 320 };
    const painter = new SvgPainter(size.width, size.height, PALETTES.light.surface);
    (this.paintFile ?? this.paint)(painter, size, PALETTES.light);
    const here = this.cursor?.(size);
    if (here) painter.rect(here.x, here.y, here.width, here.height, { stroke: PALETTES.light.backhaul, line: 2 });
    saveFile(`${fileName("hpfl", this.title)}.svg`, toSvgFile(painter.root, this.title), "image/svg+xml");
  }
}
