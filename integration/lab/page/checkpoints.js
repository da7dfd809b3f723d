// The table of checkpoints: pending ones, and below them those that have ended, newest first.

import { byId, element, throttled } from "./dom.js";
import { moment, WORDS } from "./format.js";
import { drawPhases, longestOf, phaseBar } from "./phases.js";

const MOST_SHOWN = 100;

export class Checkpoints {
  #drawn = "";
  #pending = "";

  constructor(model) {
    this.model = model;
    this.pending = byId("pending-checkpoints");
    this.ended = byId("ended-checkpoints");
    this.head = byId("checkpoints").tHead.rows[0];
    this.note = byId("checkpoints-note");
    this.draw = throttled(() => this.#draw(), 250);
  }

  // Make the head, for a job: its first figure stands before the bar of the phases.
  build() {
    const [first, ...others] = this.model.hello.columns.ended;
    const heads = ["ID", "Status", "Triggered at", first.head, "Phases", ...others.map(({ head }) => head)];
    this.head.replaceChildren(...heads.map((text) => element("th", { scope: "col", text })));
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
      element("td", { class: "progress", colspan: this.model.hello.columns.ended.length + 1 }, bar, ` ${words}`));
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
    const longest = longestOf(shown, this.model.hello.columns.phases);
    this.ended.replaceChildren(...shown.map((row) => this.#endedRow(row, longest)));
    const more = all.length > shown.length ? ` The newest ${shown.length} of ${all.length} are shown.` : "";
    this.note.textContent = all.length === 0 ? "No checkpoint has ended yet." : more;
  }

  #endedRow(row, longest) {
    const status = row.status.toLowerCase();
    const failed = status !== "completed";
    const about = row.failure ?? (row.kind === "CHECKPOINT" ? null : kindWords(row.kind));
    const { phases, ended } = this.model.hello.columns;
    const bar = phaseBar(phases);
    drawPhases(bar, phases, row, longest);
    const [first, ...others] = ended.map(({ name, head, unit }) => number(head, WORDS[unit](row.figures[name])));
    return element("tr", { class: failed ? "failed" : null, "data-side": row.side, "data-checkpoint": row.id },
      element("th", { scope: "row", text: this.#named(row.side, row.id) }),
      element("td", {}, `${failed ? "✗ " : ""}${status}`, about === null ? null : element("small", { text: about })),
      number("Triggered at", moment(row.t)),
      first,
      element("td", { class: "phases" }, bar),
      ...others);
  }
}

function kindWords(kind) {
  return kind.toLowerCase().replaceAll("_", " ").replace(/ checkpoint$/, "");
}

// A cell with its name, which a narrow page shows in place of the head of the table.
function number(name, text) {
  return element("td", { class: "number", "data-name": name, text });
}
