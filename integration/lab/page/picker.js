// Lets the pointer or the arrow keys choose one of the things that a canvas shows.

import { hideDetail, showDetail } from "./detail.js";

const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Picker {
  place = null;

  // `at(x, y)` is the place below a point or null, `beside(place, across, down)` the next one or null,
  // `words(place)` what is said of it, `drawn` is called whenever another one is chosen.
  constructor(canvas, { at, beside, words, drawn, chosen = null }) {
    Object.assign(this, { canvas, at, beside, words, drawn, chosen });
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    for (const kind of ["pointermove", "pointerdown"]) {
      canvas.addEventListener(kind, (event) => this.#pick(at(event.offsetX, event.offsetY), false));
    }
    canvas.addEventListener("pointerleave", () => this.#pick(null, false));
    canvas.addEventListener("focus", () => {
      if (canvas.matches(":focus-visible")) this.#pick(this.place ?? 0, true);
    });
    canvas.addEventListener("blur", () => this.#pick(null, false));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("click", () => { if (this.place !== null) this.chosen?.(this.place); });
  }

  #key(event) {
    if (event.key === "Enter" && this.place !== null) this.chosen?.(this.place);
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = this.place === null ? 0 : this.beside(this.place, ...KEYS[event.key]);
    if (next !== null) this.#pick(next, true);
  }

  #pick(place, aloud) {
    if (place === this.place && !aloud) return;
    this.place = place;
    if (place === null) hideDetail(this);
    else showDetail(this, () => this.words(place), aloud);
    this.drawn();
  }
}
