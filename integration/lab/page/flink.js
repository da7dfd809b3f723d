// A running Flink beside the lab: how far its job is read, and what it shows now beside what is predicted.

import { byId, element, setHidden, setText } from "./dom.js";
import { bytes, duration, NONE, percent, rate, threeDigits } from "./format.js";

// A column of the vertices: its head, the figure, and its words.
const VERTEX_COLUMNS = [
  ["Busy", "busy", percent],
  ["Back-pressured", "backpressured", percent],
  ["Idle", "idle", percent],
  ["Records", "records_per_s", rate],
  ["In pool", "in_pool", percent],
  ["Input queue, buffers", "input_queue", buffersOf],
  ["Out pool", "out_pool", percent],
  ["Output queue, buffers", "output_queue", buffersOf],
  ["Buffer size", "buffer_bytes", bytes],
  ["Time to consume", "time_to_consume_s", duration],
  ["Start delay", "start_delay_s", duration],
  ["Alignment", "alignment_s", duration],
];
const JOB_COLUMNS = [
  ["Checkpoints", "checkpoints", String],
  ["End to end", "end_to_end_s", duration],
  ["Shortest", "end_to_end_least_s", duration],
  ["Longest", "end_to_end_most_s", duration],
  ["Data in flight, stored", "in_flight_bytes", bytes],
];
const CHECKPOINT_COLUMNS = [
  ["Triggered after", "t", duration],
  ["End to end", "end_to_end_s", duration],
  ["Longest start delay", "start_delay_s", duration],
  ["Longest alignment", "alignment_s", duration],
  ["Data in flight, stored", "in_flight_bytes", bytes],
];
const SIGNS = { running: "\u25b6 running", recorded: "a recording", away: "\u26a0 no answer", waiting: "\u26a0 not running", gone: "\u26a0 changed" };
const NOT_YET = "No figures until the queues have settled.";

function buffersOf(number) {
  return number === null || number === undefined ? NONE : threeDigits(number);
}

export class Flink {
  #rows = ""; // which rows there are
  #cells = new Map();

  constructor(model, say) {
    this.model = model;
    for (const id of ["try-again", "read-again"]) byId(id).addEventListener("click", () => say({ type: "read_again" }));
    head("flink-vertices", ["", ...VERTEX_COLUMNS.map(([text]) => text)]);
    head("flink-job", ["Whole job", ...JOB_COLUMNS.map(([text]) => text)]);
    head("flink-checkpoints", ["Checkpoint", ...CHECKPOINT_COLUMNS.map(([text]) => text)]);
  }

  // While a job is read there is nothing else to see; null: it has been read.
  showReading(reading) {
    document.body.dataset.reading = String(reading !== null);
    setHidden(byId("reading"), reading === null);
    document.querySelector("main").hidden = reading !== null;
    if (reading === null) return;
    const { url, done_s, total_s, problem } = reading;
    setText(byId("reading-url"), url);
    const bar = byId("reading-progress");
    setHidden(bar.parentElement, problem !== null);
    if (total_s === null) bar.removeAttribute("value");
    else Object.assign(bar, { max: total_s, value: done_s });
    setText(byId("reading-text"), total_s === null ? "Asking for the job" : wordsOfWatching(done_s, total_s));
    setText(byId("reading-problem"), problem ?? "");
    setHidden(byId("reading-problem"), problem === null);
    setHidden(byId("try-again"), problem === null);
  }

  // After a hello: which job it is, if it is one of Flink's.
  greeted() {
    this.showReading(null);
    const job = this.model.hello.flink;
    setHidden(byId("flink"), job === null);
    if (job === null) return;
    byId("flink-notes").replaceChildren(...job.notes.map((text) => element("li", { text })));
    setHidden(byId("flink-about"), job.notes.length === 0);
  }

  draw() {
    const { flink, hello } = this.model;
    if (flink === null || !hello?.flink) return;
    this.#drawState(flink, hello.flink);
    const rows = [["flink", flink.state === "recorded" ? "recorded" : "Flink now", flink.flink], ...flink.predicted.map(({ side, figures }) =>
      [side, flink.predicted.length > 1 ? `predicted, ${side}` : "predicted", figures])];
    this.#build(hello, rows);
    for (const [key, , figures] of rows) {
      hello.vertices.forEach((vertex, place) => {
        this.#fill(`${key} ${place}`, VERTEX_COLUMNS, figures?.vertices[place]);
      });
      this.#fill(key, JOB_COLUMNS, figures);
    }
    this.#drawCheckpoints(flink.checkpoints);
  }

  #drawState({ state, text, age_s }, { url, job_name, version }) {
    const place = byId("flink-state");
    if (place.dataset.state !== state) place.dataset.state = state;
    setText(byId("flink-sign"), SIGNS[state]);
    const age = age_s === null ? "" : `; figures ${duration(Math.max(1, Math.round(age_s)))} old`;
    const what = `${job_name} at ${url}, Flink ${version}${age}`;
    const waits = { away: "; asked again every few seconds", waiting: "; asked again every few seconds",
      gone: "; the figures below are the last ones read. Import the job again" }[state] ?? "";
    setText(byId("flink-text"), text ? `${what}. ${text}${waits}.` : `${what}.`);
    byId("read-again").classList.toggle("main", state === "gone");
    setHidden(byId("read-again"), state === "recorded"); // it would say the same once more
  }

  // Rows for each vertex, one below the other so that a column can be compared.
  #build(hello, rows) {
    const wanted = JSON.stringify([hello.vertices.map(({ name }) => name), rows.map(([key, words]) => [key, words])]);
    if (wanted === this.#rows) return;
    this.#rows = wanted;
    this.#cells.clear();
    const table = byId("flink-vertices");
    for (const body of [...table.tBodies]) body.remove();
    hello.vertices.forEach((vertex, place) => {
      const named = element("tr", {}, element("th", { scope: "rowgroup", colspan: VERTEX_COLUMNS.length + 1, text: vertex.name }));
      table.append(element("tbody", { "data-vertex": vertex.name }, named,
        ...rows.map(([key, words]) => this.#row(`${key} ${place}`, key, words, VERTEX_COLUMNS))));
    });
    byId("flink-job").tBodies[0].replaceChildren(...rows.map(([key, words]) => this.#row(key, key, words, JOB_COLUMNS)));
  }

  #row(key, of, words, columns) {
    const cells = columns.map(([, field]) => element("td", { class: "number", "data-figure": field }));
    this.#cells.set(key, cells);
    return element("tr", { "data-of": of }, element("th", { scope: "row", text: words }), ...cells);
  }

  #fill(key, columns, figures) {
    const cells = this.#cells.get(key) ?? [];
    cells.forEach((cell, at) => {
      const [, field, words] = columns[at];
      setText(cell, figures ? words(figures[field]) : NONE);
      cell.title = figures ? "" : NOT_YET;
    });
  }

  #drawCheckpoints(checkpoints) {
    byId("flink-checkpoints").tBodies[0].replaceChildren(...checkpoints.toReversed().map((checkpoint) =>
      element("tr", {}, element("th", { scope: "row", text: String(checkpoint.id) }),
        ...CHECKPOINT_COLUMNS.map(([, field, words]) => element("td", { class: "number", text: words(checkpoint[field]) })))));
    setHidden(byId("flink-last"), checkpoints.length === 0);
  }
}

function head(table, texts) {
  byId(table).tHead.replaceChildren(element("tr", {}, ...texts.map((text) => element(text ? "th" : "td", { scope: text ? "col" : null, text }))));
}

function wordsOfWatching(done, total) {
  return `Watching the job's metrics: ${Math.round(done)} of ${Math.round(total)} s`;
}
