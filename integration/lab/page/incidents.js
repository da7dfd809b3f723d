// The log of what was done to the job, and of what became of it.

import { byId, element, throttled } from "./dom.js";
import { moment } from "./format.js";

const MOST_SHOWN = 200;

export class Incidents {
  #drawn = "";

  constructor(model) {
    this.model = model;
    this.list = byId("incidents");
    this.draw = throttled(() => this.#draw(), 250);
  }

  #draw() {
    const all = [...this.model.sides.values()].flatMap((side) => side.incidents);
    const drawn = JSON.stringify([all.length, all.at(-1), this.model.forked]);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    const shown = all.toSorted((one, other) => other.t - one.t).slice(0, MOST_SHOWN);
    this.list.replaceChildren(...shown.map(({ side, t, text }) => element("li", { "data-side": side },
      element("span", { class: "when", text: moment(t) }),
      this.model.forked ? element("span", { class: "side", text: side }) : null,
      element("span", { text }))));
    byId("no-incidents").hidden = shown.length > 0;
  }
}
