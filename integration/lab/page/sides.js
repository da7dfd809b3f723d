// The two runs of a forked lab: each with its graph and its channels, and which of them the controls act on.

import { Channels } from "./channels.js";
import { byId, element, setText } from "./dom.js";
import { moment } from "./format.js";
import { Graph } from "./graph.js";

const NAMES = { a: "Side a: as it was", b: "Side b: with changes" };

export class Sides {
  #views = [];

  constructor(model, say, { redraw, chosen, actsOn }) {
    Object.assign(this, { model, redraw, chosen });
    this.place = byId("sides");
    byId("fork").addEventListener("click", () => say({ type: "fork" }));
    for (const side of ["a", "b"]) {
      byId(`keep-${side}`).addEventListener("click", () => say({ type: "join", side }));
      byId(`act-${side}`).addEventListener("change", () => { model.acting = side; actsOn(); });
    }
  }

  // Draw the job anew.
  build() {
    for (const view of this.#views) view.close();
    this.#views = [...this.model.sides.keys()].map((side) => new SideView(this.model, side, this));
    this.place.replaceChildren(...this.#views.map((view) => view.element));
    this.place.classList.toggle("forked", this.model.forked);
  }

  update() {
    const { forked, acting } = this.model;
    const focused = document.activeElement;
    byId("fork").hidden = forked;
    byId("forked").hidden = !forked;
    byId(`act-${acting}`).checked = true;
    if (focused?.closest("[hidden]")) byId(forked ? `act-${acting}` : "fork").focus();
  }

  // Returns whether something still moves.
  draw() {
    return this.#views.map((view) => view.draw()).includes(true);
  }
}

class SideView {
  constructor(model, side, { redraw, chosen }) {
    this.model = model;
    this.side = side;
    const { hello, forked } = model;
    this.channels = new Channels(hello, side, redraw);
    this.graph = new Graph(hello, side, {
      redraw, chosen,
      toEdge: (number) => {
        const panel = this.channels.panels[number];
        panel.element.scrollIntoView({ block: "nearest" });
        panel.canvas.focus({ preventScroll: true, focusVisible: true });
      },
    });
    this.state = element("span", { class: "side-state" });
    this.element = element("section", { class: "side", "data-side": side, "aria-label": forked ? NAMES[side] : "The job" },
      forked ? element("h2", {}, NAMES[side], this.state) : null,
      element("div", { class: "views" }, this.graph.element, this.channels.element));
  }

  draw() {
    const { frame } = this.model.sides.get(this.side) ?? { frame: null };
    if (this.model.forked && frame !== null) setText(this.state, `${frame.state} at ${moment(frame.t)}`);
    this.graph.draw(frame ?? undefined);
    return this.channels.draw(frame ?? undefined);
  }

  close() {
    this.graph.close();
    this.channels.close();
  }
}
