// Charts of what each vertex does over time; both sides in one chart, side b dashed.

import { element, throttled } from "./dom.js";
import { bytes, duration, grouped, percent, rate } from "./format.js";
import { Plot, rowNear } from "./plot.js";
import { binaryTicks, wideShare, wideTicks } from "./scales.js";
import { whenThemeChanges } from "./theme.js";

// `field` of rows, for each vertex, source or edge; `words` are those of a value.
const CHARTS = [
  { title: "Records", unit: "per second", field: "records_per_s", of: "vertices", words: rate },
  { title: "Backlog", unit: "records that have arrived and were not read", field: "pending_records", of: "sources", words: grouped,
    empty: "Sources that emit as fast as possible have no backlog." },
  { title: "Busy", unit: "share of time", field: "busy", of: "vertices", words: percent, end: 1 },
  { title: "Back-pressured", unit: "share of time", field: "backpressured", of: "vertices", words: percent, end: 1 },
  { title: "Data in flight", unit: "queued at both ends of an edge", field: "in_flight_bytes", of: "edges", words: bytes, ticks: binaryTicks },
  { title: "Buffer size", unit: "the smallest of a vertex", field: "buffer_bytes", of: "vertices", words: bytes, ticks: binaryTicks,
    empty: "Debloating has not announced a size." },
  { title: "Time to consume", unit: "as debloating estimates, logarithmic", field: "time_to_consume_s", of: "vertices", words: duration,
    ticks: wideTicks, shareOf: wideShare, empty: "Debloating has not estimated it." },
];

export class Series {
  #charts = [];
  #pointed = null; // the moment to which the pointer points in one of the charts

  constructor(model, place, span) {
    this.model = model;
    this.place = place;
    this.span = span;
    this.draw = throttled(() => this.#draw(), 250);
    this.redraw = throttled(() => this.#draw(), 0); // for what the user does
    this.point = throttled(() => this.#point(), 0);
    span.addEventListener("change", this.redraw);
    new ResizeObserver(this.redraw).observe(place);
    whenThemeChanges(() => this.build());
  }

  // Make the charts anew, for a job.
  build() {
    const { hello, sides } = this.model;
    if (hello === null) return;
    const vertices = hello.vertices.map(({ name }, place) => ({ name, place }));
    const named = {
      vertices,
      sources: vertices.filter(({ place }) => hello.vertices[place].source),
      edges: hello.edges.map((edge, place) => ({ name: `${hello.vertices[edge.source].name} → ${hello.vertices[edge.target].name}`, place })),
    };
    this.#charts = CHARTS.map((chart) => {
      const lines = [...sides.keys()].flatMap((side) => named[chart.of].map(({ name, place }) => (
        { side, place, label: sides.size > 1 ? `${side}: ${name}` : name })));
      const plot = new Plot(chart, lines, { pointed: (t) => { this.#pointed = t; this.point(); }, redraw: this.redraw });
      const heading = element("h3", {}, chart.title, element("small", { text: chart.unit }));
      const note = element("p", { class: "empty", text: chart.empty ?? "The first values come after one emulated second." });
      return { plot, note, box: element("figure", { class: "chart", "data-chart": chart.field }, heading, note, plot.element) };
    });
    this.place.replaceChildren(...this.#charts.map(({ box }) => box));
    this.redraw();
  }

  get #rows() {
    return new Map([...this.model.sides].map(([side, { rows }]) => [side, rows]));
  }

  #draw() {
    const [first, last] = endsOf(this.#rows);
    const from = this.span.value === "all" ? first : Math.max(first, last - Number(this.span.value));
    const widths = this.#charts.map(({ box }) => Math.max(200, Math.floor(box.clientWidth))); // before any is drawn
    this.#charts.forEach(({ plot, note, box }, number) => {
      const isKnown = plot.draw(this.#rows, Math.min(from, last - 1), last, widths[number]);
      note.hidden = isKnown;
      box.classList.toggle("bare", !isKnown);
    });
    this.#point();
  }

  // All charts show the moment of the row that is nearest to the pointer.
  #point() {
    const t = this.#pointed;
    const times = t === null ? [] : [...this.#rows.values()].map((rows) => rowNear(rows, t)?.t ?? Infinity);
    const nearest = times.reduce((one, other) => (Math.abs(other - t) < Math.abs(one - t) ? other : one), Infinity);
    for (const { plot } of this.#charts) plot.point(nearest === Infinity ? null : nearest);
  }
}

// The moments of the first and of the last row.
function endsOf(sides) {
  const ends = [...sides.values()].filter((rows) => rows.length > 0).map((rows) => [rows[0].t, rows.at(-1).t]);
  return ends.length === 0 ? [0, 0] : [Math.min(...ends.map(([first]) => first)), Math.max(...ends.map(([, last]) => last))];
}
