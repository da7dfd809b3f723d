// The two runs of a forked lab: each with its graph and its channels, and which of them the controls act on.

import { Channels } from "./channels.js";
import { byId, element, setHidden, setText } from "./dom.js";
import { moment } from "./format.js";
import { Graph } from "./graph.js";
import { ChannelScale } from "./scales.js";
import { stateWords } from "./words.js";

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
    const scales = this.model.hello.edges.map(() => new ChannelScale());
    this.#views = [...this.model.sides.keys()].map((side) => new SideView(this.model, side, scales, this));
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
    for (const view of this.#views) view.fitScales(); // before any side is drawn
    return this.#views.map((view) => view.draw()).includes(true);
  }
}

class SideView {
  constructor(model, side, scales, { redraw, chosen }) {
    this.model = model;
    this.side = side;
    const { hello, forked } = model;
    this.channels = new Channels(hello, side, scales, redraw);
    this.graph = new Graph(hello, side, {
      redraw, chosen,
      toEdge: (number) => {
        const panel = this.channels.panels[number];
        panel.element.scrollIntoView({ block: "nearest" });
        panel.canvas.focus({ preventScroll: true, focusVisible: true });
      },
    });
    this.state = element("span", { class: "side-state" });
    this.bar = element("progress", { "aria-hidden": "true" });
    this.progress = element("span");
    this.replay = element("span", { class: "replay", hidden: true }, this.bar, this.progress);
    this.element = element("section", { class: "side", "data-side": side, "aria-label": forked ? NAMES[side] : "The job" },
      forked ? element("h2", {}, NAMES[side], this.state, this.replay) : this.replay,
      element("div", { class: "views" }, this.graph.element, this.channels.element));
  }

  get #frame() {
    return this.model.sides.get(this.side)?.frame ?? null;
  }

  fitScales() {
    if (this.#frame !== null) this.channels.fitScales(this.#frame);
  }

  draw() {
    const frame = this.#frame;
    if (this.model.forked && frame !== null) setText(this.state, `${stateWords(frame.state)} at ${moment(frame.t)}`);
    this.#drawReplay(frame);
    this.graph.draw(frame ?? undefined);
    return this.channels.draw(frame ?? undefined);
  }

  // A run that was started anew runs as fast as possible up to the moment at which it continues.
  #drawReplay(frame) {
    const end = frame?.replays_to_s ?? null;
    setHidden(this.replay, end === null);
    setHidden(this.state, end !== null);
    if (end === null) return;
    Object.assign(this.bar, { max: end, value: frame.t });
    const what = this.model.forked ? `Side ${this.side} replays the run` : "The run is repeated";
    setText(this.progress, `${what}: ${frame.t.toFixed(1)} of ${end.toFixed(1)} s`);
  }

  close() {
    this.graph.close();
    this.channels.close();
  }
}
