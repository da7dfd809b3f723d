// The channels of a side, edge by edge: lines of few, heat maps of many.

import { element, setText, throttled } from "./dom.js";
import { MOST_LINES } from "./layout.js";
import { Lines } from "./lines.js";
import { Matrix, MEASURES } from "./matrix.js";
import { Picker } from "./picker.js";
import { sized } from "./theme.js";
import { channelWords, edgeSums, edgeWords } from "./words.js";

export class Channels {
  // `redraw` asks for a picture, as nothing new may come from a lab that stands still.
  // `scales` has the scale of each edge.
  constructor(hello, sideName, scales, redraw) {
    this.panels = hello.edges.map((edge, number) => new EdgePanel(hello, edge, number, sideName, scales[number], redraw));
    this.element = element("div", { class: "channels" }, ...this.panels.map((panel) => panel.element));
  }

  fitScales(frame) {
    frame.edges.forEach((edge, number) => this.panels[number].view.fitScale(edge));
  }

  // Returns whether something still moves.
  draw(frame) {
    const moving = this.panels.map((panel, number) => panel.draw(frame?.edges[number]));
    return moving.includes(true);
  }

  close() {
    for (const panel of this.panels) panel.close();
  }
}

class EdgePanel {
  #frame = undefined;
  #width = 0;
  #visible = true;

  constructor(hello, edge, number, sideName, scale, redraw) {
    this.scale = scale;
    const [source, target] = [hello.vertices[edge.source], hello.vertices[edge.target]];
    const name = `${source.name} → ${target.name}`;
    const count = edge.channels.length;
    this.view = count <= MOST_LINES
      ? new Lines(edge, hello.segment_bytes, scale)
      : new Matrix(edge, hello.segment_bytes, scale, source.parallelism, target.parallelism);
    this.canvas = element("canvas", {
      "aria-label": `Channels from ${source.name} to ${target.name}, side ${sideName}; arrow keys go through them`,
    });
    this.sums = element("p", { class: "sums" });
    const what = edge.summed ? `sums of ${count} consumers` : count === 1 ? "1 channel" : `${count} channels`;
    this.about = element("small");
    const id = `edge-${sideName}-${number}`;
    this.element = element("section", { class: "edge", id, "data-edge": number, "aria-label": `Channels ${name}` },
      element("h3", {}, name, this.about),
      this.view instanceof Matrix ? this.#measures(redraw) : null,
      this.canvas, this.sums);
    this.picker = new Picker(this.canvas, {
      at: (x, y) => this.view.at(x, y),
      beside: (...way) => this.view.beside(...way),
      words: (place) => channelWords(hello, edge, place, this.#frame),
      drawn: redraw,
    });
    this.#watch(redraw);
    this.showSums = throttled(() => {
      setText(this.about, `${edge.ship}, ${what}${this.view.scaleWords}`);
      setText(this.sums, this.#frame === undefined ? "The job does not run at the moment." : edgeWords(edgeSums(this.#frame)));
    }, 250);
  }

  #measures(redraw) {
    const options = Object.entries(MEASURES).map(([value, { text }]) => element("option", { value, text }));
    this.select = element("select", { onchange: () => { this.scale.measure = this.select.value; redraw(); } }, ...options);
    return element("label", { class: "measure" }, "Shown: ", this.select);
  }

  #watch(redraw) {
    this.observers = [
      new ResizeObserver(([entry]) => { this.#width = Math.floor(entry.contentRect.width); redraw(); }),
      new IntersectionObserver(([entry]) => { this.#visible = entry.isIntersecting; if (this.#visible) redraw(); }),
    ];
    for (const observer of this.observers) observer.observe(this.element);
  }

  draw(frame) {
    this.#frame = frame;
    if (!this.#visible || this.#width === 0) return false;
    this.showSums();
    const width = Math.min(this.#width, 620);
    if (this.view instanceof Matrix) {
      this.view.fit(width);
      this.select.value = this.scale.measure; // the other side may have changed it
    }
    const context = sized(this.canvas, width, this.view.height);
    return this.view.draw(context, width, frame, this.picker.place);
  }

  close() {
    for (const observer of this.observers) observer.disconnect();
  }
}
