// Charts of what each vertex does over time; both sides in one chart, side b dashed.

import uPlot from "./vendor/uPlot.esm.js";
import { element, throttled } from "./dom.js";
import { bytes, duration, moment, percent, rate, threeDigits } from "./format.js";
import { colours, FONT, vertexColour, whenThemeChanges } from "./theme.js";

const HEIGHT = 190;
const DASH = { a: [], b: [6, 4] };
const LONGEST_STEP_S = 1.5; // between rows; where they are further apart the job did not run

// `field` of rows, for each vertex or each edge; `words` are those of a value.
const CHARTS = [
  { title: "Records", unit: "per second", field: "records_per_s", of: "vertices", words: rate },
  { title: "Busy", unit: "share of time", field: "busy", of: "vertices", words: percent, end: 1 },
  { title: "Back-pressured", unit: "share of time", field: "backpressured", of: "vertices", words: percent, end: 1 },
  { title: "Data in flight", unit: "queued at both ends of an edge", field: "in_flight_bytes", of: "edges", words: bytes, binary: true },
  { title: "Buffer size", unit: "the smallest of a vertex", field: "buffer_bytes", of: "vertices", words: bytes, binary: true,
    empty: "Debloating has not announced a size." },
  { title: "Time to consume", unit: "the data in flight, as debloating estimates", field: "time_to_consume_s", of: "vertices", words: duration, wide: true,
    empty: "Debloating has not estimated it." },
];

// The places of all moments of some sides on one axis of times; one between rows that are far apart is empty.
export function placesOfTimes(sides, from) {
  const found = new Set();
  for (const rows of sides) {
    let before = null;
    for (const { t } of rows) {
      if (t < from) continue;
      if (before !== null && t - before > LONGEST_STEP_S) found.add(before + 1);
      found.add(t);
      before = t;
    }
  }
  const times = [...found].sort((one, other) => one - other);
  return new Map(times.map((t, place) => [t, place]));
}

// Columns of a chart: the values of each side and of each of its `count` vertices or edges.
export function columnsOfRows(sides, places, field, count) {
  return sides.flatMap((rows) => {
    const mine = Array.from({ length: count }, () => new Array(places.size).fill(null));
    for (const row of rows) {
      const at = places.get(row.t);
      if (at === undefined) continue;
      for (let n = 0; n < count; n++) mine[n][at] = row[field][n];
    }
    return mine;
  });
}

export class Series {
  #charts = [];

  constructor(model, place, span) {
    this.model = model;
    this.place = place;
    this.span = span;
    this.draw = throttled(() => this.#draw(), 250);
    span.addEventListener("change", this.draw);
    new ResizeObserver(() => this.#resize()).observe(place);
    whenThemeChanges(() => this.build());
  }

  // Make the charts anew, for a job.
  build() {
    for (const { plot } of this.#charts) plot.destroy();
    const { hello } = this.model;
    if (hello === null) return;
    this.#charts = CHARTS.map((chart) => {
      const names = chart.of === "vertices" ? hello.vertices.map((each) => each.name)
        : hello.edges.map((edge) => `${hello.vertices[edge.source].name} → ${hello.vertices[edge.target].name}`);
      const heading = element("h3", {}, chart.title, element("small", { text: chart.unit }));
      const note = element("p", { class: "empty", text: chart.empty ?? "The first values come after one emulated second." });
      const box = element("figure", { class: "chart", "data-chart": chart.field }, heading, note);
      return { chart, names, box, note, plot: null };
    });
    this.place.replaceChildren(...this.#charts.map(({ box }) => box));
    for (const each of this.#charts) each.plot = this.#plot(each);
    this.draw();
  }

  #plot({ chart, names, box }) {
    const sides = [...this.model.sides.keys()];
    const series = sides.flatMap((side) => names.map((name, place) => ({
      label: sides.length > 1 ? `${side}: ${name}` : name,
      stroke: vertexColour(place),
      width: side === "b" ? 2 : 1.6,
      dash: DASH[side],
      points: { show: (plot) => plot.data[0].length < 3 },
      value: (plot, value, number, at) => chart.words(at === null ? latest(plot.data[number]) : value),
    })));
    const axis = { stroke: colours.quiet, font: FONT, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line, width: 1 } };
    return new uPlot({
      width: this.#widthOf(box),
      height: HEIGHT,
      cursor: { sync: { key: "lab" }, drag: { x: false, y: false } },
      legend: { live: true, markers: { width: 2, dash: (plot, number) => (plot.series[number].dash?.length ? "dashed" : "solid") } },
      scales: { x: { time: false }, y: scaleOf(chart) },
      axes: [
        { ...axis, size: 34, values: (_, ticks) => ticks.map((tick) => `${threeDigits(tick)} s`) },
        { ...axis, size: widthOf, ...splitsOf(chart),
          values: (_, ticks) => ticks.map((tick) => chart.words(tick)) },
      ],
      series: [{ label: "At", value: (plot, t, _, at) => (at === null ? `${moment(latest(plot.data[0]))} (latest)` : moment(t)) }, ...series],
    }, [[], ...series.map(() => [])], box);
  }

  #widthOf(box) {
    return Math.max(200, Math.floor(box.clientWidth));
  }

  #resize() {
    for (const { plot, box } of this.#charts) {
      const width = this.#widthOf(box);
      if (plot !== null && plot.width !== width) plot.setSize({ width, height: HEIGHT });
    }
  }

  #draw() {
    const sides = [...this.model.sides.values()].map((side) => side.rows);
    const last = Math.max(0, ...sides.map((rows) => rows.at(-1)?.t ?? 0));
    const from = this.span.value === "all" ? 0 : last - Number(this.span.value);
    const places = placesOfTimes(sides, from);
    const times = [...places.keys()];
    for (const { chart, names, plot, box, note } of this.#charts) {
      const columns = columnsOfRows(sides, places, chart.field, names.length);
      const known = columns.some((values) => values.some((value) => value !== null && value !== undefined));
      note.hidden = known;
      box.classList.toggle("bare", !known);
      plot.setData([times, ...columns]);
      plot.setLegend();
    }
  }
}

// Pixels of an axis, for its longest text.
function widthOf(plot, texts) {
  return Math.max(74, 20 + 8 * Math.max(0, ...(texts ?? []).map((text) => text.length)));
}

// The latest value of a column. A side may be a row behind the other one.
function latest(values) {
  return values.at(-1) ?? values.at(-2) ?? null;
}

// A wide scale is logarithmic above a tenth: what debloating estimates can be a million times too long.
function scaleOf(chart) {
  const range = (_, least, most) => [0, chart.end ?? (most > 0 ? most * 1.06 : 1)];
  return chart.wide ? { range, distr: 4, asinh: 0.1 } : { range };
}

function splitsOf(chart) {
  if (chart.binary) return { splits: binarySplits };
  return chart.wide ? { splits: wideSplits, filter: (_, splits) => splits } : {};
}

function wideSplits(plot, axis, least, most) {
  const tens = [0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].filter((ten) => ten <= most);
  const apart = tens.length > 3 ? tens.slice(1) : tens; // 0 and a tenth would be too near each other
  const every = Math.ceil(apart.length / 4);
  return [0, ...apart.filter((_, place) => place % every === 0)];
}

// Whole powers of two, so that sizes read as KiB and MiB.
function binarySplits(plot, axis, least, most) {
  const step = 2 ** Math.max(0, Math.ceil(Math.log2((most - least) / 5)));
  const splits = [];
  for (let at = Math.ceil(least / step) * step; at <= most; at += step) splits.push(at);
  return splits;
}
