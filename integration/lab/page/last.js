// The last checkpoint of each side, phase by phase, in the header: what a change did to checkpoints.

import { byId, element, setHidden, setText, throttled } from "./dom.js";
import { duration, moment } from "./format.js";
import { drawPhases, longestOf, PHASES, phaseBar } from "./phases.js";

export class Last {
  #rows = new Map();

  constructor(model) {
    this.model = model;
    this.place = byId("last");
    this.draw = throttled(() => this.#draw(), 250);
  }

  // Make a row for each side.
  build() {
    this.#rows = new Map([...this.model.sides.keys()].map((side) => [side, row(side, this.model.forked)]));
    this.place.replaceChildren(...[...this.#rows.values()].map(({ element: each }) => each));
    this.#draw();
  }

  #draw() {
    const shown = [...this.#rows.keys()].map((side) => this.model.lastCheckpoint(side));
    const longest = longestOf(shown.filter((each) => each !== null));
    [...this.#rows].forEach(([side, cells], place) => this.#fill(cells, side, shown[place], longest));
  }

  #fill(cells, side, checkpoint, longest) {
    const failed = checkpoint !== null && checkpoint.end_to_end_s === null;
    setText(cells.end, checkpoint === null ? "none yet" : failed ? "✗ failed" : duration(checkpoint.end_to_end_s));
    setHidden(cells.bar, checkpoint === null);
    setHidden(cells.phases, checkpoint === null);
    const about = checkpoint === null ? null : `checkpoint ${checkpoint.id} at ${moment(checkpoint.t)}`;
    const words = [about, failed ? checkpoint.failure : null, ...this.#pending(side)].filter((each) => each !== null).join("; ");
    setText(cells.about, words);
    if (cells.about.title !== words) cells.about.title = words; // a narrow page cuts it
    if (checkpoint === null) return;
    drawPhases(cells.bar, checkpoint, longest);
    PHASES.forEach(([field], place) => setText(cells.figures[place], duration(checkpoint[field])));
  }

  #pending(side) {
    const { frame } = this.model.sides.get(side) ?? { frame: null };
    return (frame?.pending ?? []).map(({ id, t, acknowledged, subtasks }) =>
      `${id} pending for ${(frame.t - t).toFixed(1)} s, ${acknowledged} of ${subtasks} subtasks`);
  }
}

function row(side, forked) {
  const end = element("strong", { "data-figure": "end_to_end_s" });
  const bar = phaseBar();
  const figures = PHASES.map(([field]) => element("b", { "data-figure": field }));
  const phases = element("span", { class: "phases" }, ...PHASES.map(([, name], place) =>
    element("span", {}, element("i", { class: `key ${name.replace(" ", "-")}` }), `${name} `, figures[place])));
  const about = element("small");
  const name = forked ? `Last checkpoint of side ${side}` : "Last checkpoint";
  const made = element("p", { "data-side": side, title: "Each phase is the longest of all subtasks, so they do not add up to the whole." },
    element("span", { class: "name", text: name }), end, bar, phases, about);
  return { element: made, end, bar, phases, figures, about };
}
