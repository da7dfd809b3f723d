// The table of checkpoints: pending ones, and below them those that have ended, newest first.

import { byId, element, throttled } from "./dom.js";
import { bytes, duration, moment } from "./format.js";

const MOST_SHOWN = 100;
const PHASES = [
  ["start_delay_s", "start delay"],
  ["alignment_s", "alignment"],
  ["sync_s", "sync"],
  ["async_s", "async"],
];

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
      element("td", { class: "number", text: moment(t) }),
      element("td", { colspan: 8 }, bar, ` ${words}`));
  }

  #named(side, id) {
    return this.model.forked ? `${side} ${id}` : String(id);
  }

  #drawEnded() {
    const all = [...this.model.sides.values()].flatMap((side) => side.checkpoints);
    const drawn = JSON.stringify([[...this.model.sides.values()].map((side) => [side.side, side.checkpoints.length]), all.at(-1)]);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    const shown = all.toSorted((one, other) => other.t - one.t || (one.side < other.side ? -1 : 1)).slice(0, MOST_SHOWN);
    const longest = Math.max(1e-9, ...shown.map((row) => PHASES.reduce((sum, [field]) => sum + (row[field] ?? 0), 0)));
    this.ended.replaceChildren(...shown.map((row) => this.#endedRow(row, longest)));
    const more = all.length > shown.length ? ` The newest ${shown.length} of ${all.length} are shown.` : "";
    this.note.textContent = all.length === 0 ? "None has ended yet." : more;
  }

  #endedRow(row, longest) {
    const status = row.status.toLowerCase();
    const failed = status !== "completed";
    return element("tr", { class: failed ? "failed" : null, "data-side": row.side, "data-checkpoint": row.id },
      element("th", { scope: "row", text: this.#named(row.side, row.id) }),
      element("td", {}, `${failed ? "✗ " : ""}${status}`, element("small", { text: row.failure ?? kindWords(row.kind) })),
      element("td", { class: "number", text: moment(row.t) }),
      element("td", { class: "number", text: duration(row.end_to_end_s) }),
      element("td", { class: "phases" }, phaseBar(row, longest)),
      ...PHASES.map(([field]) => element("td", { class: "number", text: duration(row[field]) })),
      element("td", { class: "number", text: bytes(row.state_bytes) }),
      element("td", { class: "number", text: bytes(row.in_flight_bytes) }));
  }
}

function kindWords(kind) {
  return kind.toLowerCase().replaceAll("_", " ");
}

function phaseBar(row, longest) {
  const bar = element("div", { class: "bar", "aria-hidden": "true" });
  for (const [field, name] of PHASES) {
    const part = element("span", { class: name.replace(" ", "-"), title: `${name} ${duration(row[field])}` });
    part.style.width = `${(100 * (row[field] ?? 0)) / longest}%`;
    bar.append(part);
  }
  return bar;
}
