// The table of checkpoints: pending ones, and below them those that have ended, newest first.

import { byId, element, throttled } from "./dom.js";
import { bytes, duration, moment } from "./format.js";
import { drawPhases, longestOf, PHASES, phaseBar } from "./phases.js";

const MOST_SHOWN = 100;

export class Checkpoints {
  #drawn = "";
  #pending = "";

  constructor(model) {
    this.model = model;
    this.pending = byId("pending-checkpoints");
    this.ended = byId("ended-checkpoints");
    this.note = byId("checkpoints-note");
    this.draw = throttled(() => this.#draw(), 250);
  }

  #draw() {
    this.#drawPending();
    this.#drawEnded();
  }

  #drawPending() {
    const rows = [...this.model.sides.values()].flatMap((side) =>
      (side.frame?.pending ?? []).map((each) => ({ side: side.side, ...each })));
    const drawn = JSON.stringify([rows, this.model.forked]);
    if (drawn === this.#pending) return;
    this.#pending = drawn;
    this.pending.replaceChildren(...rows.map((row) => this.#pendingRow(row)));
  }

  #pendingRow({ side, id, t, acknowledged, subtasks }) {
    const bar = element("progress", { max: subtasks, value: acknowledged, "aria-hidden": "true" });
    const words = `acknowledged ${acknowledged} of ${subtasks} subtasks`;
    return element("tr", { class: "pending", "data-side": side, "data-checkpoint": id },
      element("th", { scope: "row", text: this.#named(side, id) }),
      element("td", { text: "pending" }),
      number("Triggered at", moment(t)),
      element("td", { class: "progress", colspan: 8 }, bar, ` ${words}`));
  }

  #named(side, id) {
    return this.model.forked ? `${side}: ${id}` : String(id);
  }

  #drawEnded() {
    const all = [...this.model.sides.values()].flatMap((side) => side.checkpoints);
    const drawn = JSON.stringify([[...this.model.sides.values()].map((side) => [side.side, side.checkpoints.length]), all.at(-1)]);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    const shown = all.toSorted((one, other) => other.t - one.t || (one.side < other.side ? -1 : 1)).slice(0, MOST_SHOWN);
    const longest = longestOf(shown);
    this.ended.replaceChildren(...shown.map((row) => this.#endedRow(row, longest)));
    const more = all.length > shown.length ? ` The newest ${shown.length} of ${all.length} are shown.` : "";
    this.note.textContent = all.length === 0 ? "No checkpoint has ended yet." : more;
  }

  #endedRow(row, longest) {
    const status = row.status.toLowerCase();
    const failed = status !== "completed";
    const about = row.failure ?? (row.kind === "CHECKPOINT" ? null : kindWords(row.kind));
    const bar = phaseBar();
    drawPhases(bar, row, longest);
    return element("tr", { class: failed ? "failed" : null, "data-side": row.side, "data-checkpoint": row.id },
      element("th", { scope: "row", text: this.#named(row.side, row.id) }),
      element("td", {}, `${failed ? "✗ " : ""}${status}`, about === null ? null : element("small", { text: about })),
      number("Triggered at", moment(row.t)),
      number("End to end", duration(row.end_to_end_s)),
      element("td", { class: "phases" }, bar),
      ...PHASES.map(([field, name]) => number(name[0].toUpperCase() + name.slice(1), duration(row[field]))),
      number("State", bytes(row.state_bytes)),
      number("Data in flight, stored", bytes(row.in_flight_bytes)));
  }
}

function kindWords(kind) {
  return kind.toLowerCase().replaceAll("_", " ").replace(/ checkpoint$/, "");
}

// A cell with its name, which a narrow page shows in place of the head of the table.
function number(name, text) {
  return element("td", { class: "number", "data-name": name, text });
}
