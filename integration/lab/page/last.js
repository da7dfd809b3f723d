// The last checkpoint of each side, phase by phase, in the header: what a change did to checkpoints.

import { byId, element, setHidden, setText, throttled } from "./dom.js";
import { moment, WORDS } from "./format.js";
import { classOf, drawPhases, longestOf, phaseBar } from "./phases.js";

export class Last {
  #rows = new Map();

  constructor(model) {
    this.model = model;
    this.place = byId("last");
    this.draw = throttled(() => this.#draw(), 250);
  }

  // Make a row for each side.
  build() {
    this.#rows = new Map([...this.model.sides.keys()].map((side) => [side, row(side, this.model.forked, this.model.hello.columns)]));
    this.place.replaceChildren(...[...this.#rows.values()].map(({ element: each }) => each));
    this.#draw();
  }

  #draw() {
    const shown = [...this.#rows.keys()].map((side) => this.model.lastCheckpoint(side));
    const longest = longestOf(shown.filter((each) => each !== null), this.model.hello.columns.phases);
    [...this.#rows].forEach(([side, cells], place) => this.#fill(cells, side, shown[place], longest));
  }

  #fill(cells, side, checkpoint, longest) {
    const { ended: [whole], phases } = this.model.hello.columns;
    const took = checkpoint?.figures[whole.name] ?? null;
    const failed = checkpoint !== null && took === null;
    setText(cells.end, checkpoint === null ? "none yet" : failed ? "✗ failed" : WORDS[whole.unit](took));
    setHidden(cells.bar, checkpoint === null);
    setHidden(cells.phases, checkpoint === null);
    const about = checkpoint === null ? null : `checkpoint ${checkpoint.id} at ${moment(checkpoint.t)}`;
    const words = [about, failed ? checkpoint.failure : null, ...this.#pending(side)].filter((each) => each !== null).join("; ");
    setText(cells.about, words);
    if (cells.about.title !== words) cells.about.title = words; // a narrow page cuts it
    if (checkpoint === null) return;
    drawPhases(cells.bar, phases, checkpoint, longest);
    phases.forEach(({ name, unit }, place) => setText(cells.figures[place], WORDS[unit](checkpoint.figures[name])));
  }

  #pending(side) {
    const { frame } = this.model.sides.get(side) ?? { frame: null };
    return (frame?.pending ?? []).map(({ id, t, acknowledged, subtasks }) =>
      `${id} pending for ${(frame.t - t).toFixed(1)} s, ${acknowledged} of ${subtasks} subtasks`);
  }
}

function row(side, forked, columns) {
  const end = element("strong", { "data-figure": columns.ended[0].name });
  const bar = phaseBar(columns.phases);
  const figures = columns.phases.map(({ name }) => element("b", { "data-figure": name }));
  const phases = element("span", { class: "phases" }, ...columns.phases.map((phase, place) =>
    element("span", {}, element("i", { class: `key ${classOf(phase)}` }), `${phase.head.toLowerCase()} `, figures[place])));
  const about = element("small");
  const name = forked ? `Last checkpoint of side ${side}` : "Last checkpoint";
  const made = element("p", { "data-side": side, title: "Each phase is the longest of all subtasks, so they do not add up to the whole." },
    element("span", { class: "name", text: name }), end, bar, phases, about);
  return { element: made, end, bar, phases, figures, about };
}
