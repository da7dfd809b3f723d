// A running Flink beside the lab: how far its job is read, and what it shows now beside what is predicted.

import { byId, element, setHidden, setText } from "./dom.js";
import { duration, NONE, WORDS } from "./format.js";

const SIGNS = { running: "\u25b6 running", recorded: "a recording", away: "\u26a0 no answer", waiting: "\u26a0 not running", gone: "\u26a0 changed" };
const NOT_YET = "No figures until the queues have settled.";

export class Flink {
  #rows = ""; // which rows there are
  #cells = new Map();

  constructor(model, say) {
    this.model = model;
    for (const id of ["try-again", "read-again"]) byId(id).addEventListener("click", () => say({ type: "read_again" }));
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
    const { columns } = this.model.hello;
    head("flink-vertices", "", columns.vertices);
    head("flink-job", "Whole job", columns.checkpoints);
    head("flink-checkpoints", "Checkpoint", columns.flink);
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
    const { columns } = hello;
    for (const [key, , figures] of rows) {
      hello.vertices.forEach((vertex, place) => {
        this.#fill(`${key} ${place}`, columns.vertices, figures?.vertices[place]);
      });
      this.#fill(key, columns.checkpoints, figures?.checkpoints);
    }
    this.#drawCheckpoints(flink.checkpoints, columns.flink);
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
    const { columns } = hello;
    for (const body of [...table.tBodies]) body.remove();
    hello.vertices.forEach((vertex, place) => {
      const named = element("tr", {}, element("th", { scope: "rowgroup", colspan: columns.vertices.length + 1, text: vertex.name }));
      table.append(element("tbody", { "data-vertex": vertex.name }, named,
        ...rows.map(([key, words]) => this.#row(`${key} ${place}`, key, words, columns.vertices))));
    });
    byId("flink-job").tBodies[0].replaceChildren(...rows.map(([key, words]) => this.#row(key, key, words, columns.checkpoints)));
  }

  #row(key, of, words, columns) {
    const cells = columns.map(({ name }) => element("td", { class: "number", "data-figure": name }));
    this.#cells.set(key, cells);
    return element("tr", { "data-of": of }, element("th", { scope: "row", text: words }), ...cells);
  }

  #fill(key, columns, figures) {
    const cells = this.#cells.get(key) ?? [];
    cells.forEach((cell, at) => {
      const { name, unit } = columns[at];
      setText(cell, figures ? WORDS[unit](figures[name]) : NONE);
      cell.title = figures ? "" : NOT_YET;
    });
  }

  #drawCheckpoints(checkpoints, columns) {
    byId("flink-checkpoints").tBodies[0].replaceChildren(...checkpoints.toReversed().map((checkpoint) =>
      element("tr", {}, element("th", { scope: "row", text: String(checkpoint.id) }),
        ...columns.map(({ name, unit }) => element("td", { class: "number", text: WORDS[unit](checkpoint.figures[name]) })))));
    setHidden(byId("flink-last"), checkpoints.length === 0);
  }
}

function head(table, first, columns) {
  const texts = [first, ...columns.map((column) => column.head)];
  byId(table).tHead.replaceChildren(element("tr", {}, ...texts.map((text) => element(text ? "th" : "td", { scope: text ? "col" : null, text }))));
}

function wordsOfWatching(done, total) {
  return `Watching the job's metrics: ${Math.round(done)} of ${Math.round(total)} s`;
}
