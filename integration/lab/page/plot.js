// A chart over time on a canvas, and a legend with the values at a moment.

import { element, setText } from "./dom.js";
import { moment, NONE, threeDigits } from "./format.js";
import { linearTicks } from "./scales.js";
import { colours, sized, vertexColour, write } from "./theme.js";

const HEIGHT = 190;
const [TOP, RIGHT, BOTTOM] = [14, 12, 34]; // pixels around the lines
const LEAST_LEFT = 74;
const LONGEST_STEP_S = 1.5; // between rows; if they are further apart, the job did not run
const FEW_ROWS = 3; // if there are fewer, each of them gets a dot
const DASH = { a: [], b: [6, 4] };

// The first of some rows that is not before a moment.
function firstRow(rows, from) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].t < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The row that is nearest to a moment; undefined: there is none.
export function rowNear(rows, t) {
  const after = firstRow(rows, t);
  const [one, other] = [rows[after - 1], rows[after]];
  return one === undefined || (other !== undefined && other.t - t < t - one.t) ? other : one;
}

// The row of a moment; undefined: the job did not run then.
function rowAt(rows, t) {
  const row = rowNear(rows, t);
  return row !== undefined && Math.abs(row.t - t) < LONGEST_STEP_S ? row : undefined;
}

export class Plot {
  #hidden = new Set(); // the lines that the user has switched off
  #drawn = null; // what was drawn last: the rows of sides, the moments `from` and `to`, `left`, `right`, and the scales

  // `chart` says what is drawn: the `field` of rows, the `words` of a value, and its scale: the `end` of the axis if
  // it is fixed, `ticks(most)`, and `shareOf(value, most)`, which is linear if there is none.
  // A line has a `label`, its `side`, and its `place` in the field. `pointed(t)` is called while the pointer moves,
  // and with null when it leaves.
  constructor(chart, lines, { pointed, redraw }) {
    this.chart = chart;
    this.lines = lines;
    this.redraw = redraw;
    this.canvas = element("canvas", { role: "img", "aria-label": `${chart.title} over time` });
    this.cursor = element("canvas", { "aria-hidden": "true" }); // above the lines, so that these stay as the pointer moves
    this.cursor.addEventListener("pointermove", ({ offsetX }) => pointed(this.#momentAt(offsetX)));
    this.cursor.addEventListener("pointerleave", () => pointed(null));
    this.at = element("span");
    this.values = lines.map(() => element("span"));
    this.element = element("div", { class: "plot" }, element("div", {}, this.canvas, this.cursor),
      element("p", { class: "values" }, this.at, ...lines.map((line, number) => this.#entry(line, number))));
  }

  // A line in the legend; a click switches it off or on.
  #entry({ side, place }, number) {
    const marker = element("i", { class: side === "b" ? "dashed" : null });
    marker.style.borderColor = vertexColour(place);
    const button = element("button", { type: "button", "aria-pressed": "true" }, marker, this.values[number]);
    button.addEventListener("click", () => {
      if (!this.#hidden.delete(number)) this.#hidden.add(number);
      button.setAttribute("aria-pressed", String(!this.#hidden.has(number)));
      this.redraw();
    });
    return button;
  }

  #momentAt(x) {
    if (this.#drawn === null) return null;
    const { from, to, left, right } = this.#drawn;
    return Math.min(to, Math.max(from, from + ((x - left) / (right - left)) * (to - from)));
  }

  // Draw the rows of sides between two moments. Returns whether there is a value.
  draw(sides, from, to, width) {
    const rows = new Map([...sides].map(([side, all]) => [side, all.slice(firstRow(all, from))]));
    const most = this.#greatest(rows);
    if (most === null) return false;
    const { chart } = this;
    const top = chart.end ?? (most > 0 ? most * 1.06 : 1);
    const ticks = (chart.ticks ?? ((end) => linearTicks(0, end, 4)))(top);
    const texts = ticks.map(chart.words);
    const left = Math.max(LEAST_LEFT, 20 + 8 * Math.max(...texts.map((text) => text.length)));
    const right = width - RIGHT;
    const shareOf = chart.shareOf ?? ((value) => value / top);
    const x = (t) => left + ((t - from) / (to - from)) * (right - left);
    const y = (value) => TOP + (1 - shareOf(value, top)) * (HEIGHT - TOP - BOTTOM);
    this.#drawn = { rows, from, to, left, right, x, y };
    const context = sized(this.canvas, width, HEIGHT);
    this.#grid(context, ticks, texts);
    this.lines.forEach((line, number) => {
      if (!this.#hidden.has(number)) this.#line(context, line);
    });
    return true;
  }

  // Show a moment and its values, or the latest values if it is null.
  point(t) {
    if (this.#drawn === null) return;
    const { rows, from, to, right } = this.#drawn;
    const at = t === null || t < from ? null : t;
    const { field, words } = this.chart;
    // A side may be a row behind the other one, so its latest row can be a second old.
    const values = this.lines.map(({ side, place }) => rowAt(rows.get(side), at ?? to)?.[field][place] ?? null);
    setText(this.at, `At: ${moment(at ?? to)}${at === null ? " (latest)" : ""}`);
    this.lines.forEach(({ label }, number) => setText(this.values[number], `${label}: ${values[number] === null ? NONE : words(values[number])}`));
    const context = sized(this.cursor, right + RIGHT, HEIGHT);
    if (at !== null) this.#cross(context, at, values);
  }

  // The greatest value of the lines that are not hidden; null: no line has a value.
  #greatest(rows) {
    const { field } = this.chart;
    let most = null;
    this.lines.forEach(({ side, place }, number) => {
      const isHidden = this.#hidden.has(number);
      for (const row of rows.get(side)) {
        const value = row[field][place];
        if (value !== null) most = Math.max(most ?? 0, isHidden ? 0 : value);
      }
    });
    return most;
  }

  #grid(context, ticks, texts) {
    const { from, to, left, right, x, y } = this.#drawn;
    const bottom = HEIGHT - BOTTOM;
    const times = linearTicks(from, to, Math.max(1, Math.floor((right - left) / 80)));
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.beginPath();
    for (const t of times) {
      const across = Math.round(x(t)) + 0.5;
      context.moveTo(across, TOP);
      context.lineTo(across, bottom + 8);
    }
    for (const tick of ticks) {
      const down = Math.round(y(tick)) + 0.5;
      context.moveTo(left - 8, down);
      context.lineTo(right, down);
    }
    context.stroke();
    for (const t of times) write(context, `${threeDigits(t)} s`, x(t), bottom + 19, "center");
    ticks.forEach((tick, number) => write(context, texts[number], left - 14, y(tick), "right"));
  }

  // All rows in a pixel column are one stroke, from their least to their greatest value.
  #line(context, { side, place }) {
    const { field } = this.chart;
    const { x, y } = this.#drawn;
    const rows = this.#drawn.rows.get(side);
    context.strokeStyle = context.fillStyle = vertexColour(place);
    context.lineWidth = side === "b" ? 2 : 1.6;
    context.lineJoin = "round";
    context.setLineDash(DASH[side]);
    context.beginPath();
    let [before, column, least, most, last] = [-Infinity, 0, 0, 0, 0];
    const endColumn = () => {
      if (least === most) return;
      context.lineTo(column, least);
      context.lineTo(column, most);
      context.lineTo(column, last);
    };
    for (const row of rows) {
      const value = row[field][place];
      if (value === null) continue;
      const [across, down] = [Math.round(x(row.t)), y(value)];
      const isApart = row.t - before > LONGEST_STEP_S;
      before = row.t;
      if (across === column && !isApart) {
        least = Math.min(least, down);
        most = Math.max(most, down);
        last = down;
        continue;
      }
      endColumn();
      if (isApart) context.moveTo(across, down);
      else context.lineTo(across, down);
      column = across;
      least = most = last = down;
      if (rows.length < FEW_ROWS) context.fillRect(across - 2, down - 2, 4, 4);
    }
    endColumn();
    context.stroke();
    context.setLineDash([]);
  }

  // A line at a moment, with a dot at each value.
  #cross(context, at, values) {
    const { x, y } = this.#drawn;
    const across = Math.round(x(at)) + 0.5;
    context.setLineDash([3, 3]);
    context.lineWidth = 1;
    context.strokeStyle = colours.quiet;
    context.beginPath();
    context.moveTo(across, TOP);
    context.lineTo(across, HEIGHT - BOTTOM);
    context.stroke();
    values.forEach((value, number) => {
      if (value === null || this.#hidden.has(number)) return;
      context.fillStyle = vertexColour(this.lines[number].place);
      context.beginPath();
      context.arc(across, y(value), 3.5, 0, 2 * Math.PI);
      context.fill();
    });
    context.setLineDash([]);
  }
}
