// Suggested experiments: each makes one change of the job with a click, and says what to watch while it takes effect.

import { byId, element, setHidden, setText, throttled } from "./dom.js";
import { bytes, moment, NONE, readDuration, WORDS, writeDuration } from "./format.js";

const TIMES = 4; // as slow
const LEAST_SLOW_S = 1e-3; // of a record that has cost nothing

// `of(controls)` finds the control that is changed. `step(control, ...)` is the value that a click sets, the text of
// the button and what to watch.
const EXPERIMENTS = [
  {
    id: "slow",
    name: "Make a consumer slow",
    none: "No vertex of this job has a cost that can be changed.",
    of: (controls) => controls.findLast(({ key }) => key === "service"),
    step: ({ vertex, value }, before, debloats) => (before !== undefined ? {
      value: before,
      text: `Make ${vertex} as fast as before`,
      watch: "The queues get shorter, and each checkpoint has a shorter start delay than the one before it.",
    } : {
      value: writeDuration(Math.max(LEAST_SLOW_S, TIMES * (readDuration(value) ?? 0))),
      text: `Make ${vertex} ${TIMES} times as slow`,
      watch: `The vertices before ${vertex} become back-pressured. Barriers wait behind the queued buffers, which ${vertex} `
        + `now reads more slowly, so the start delay of the next checkpoints grows.${debloats
          ? " Then debloating makes the buffers smaller, until the start delay is about as short as before." : ""}`,
    }),
  },
  {
    id: "debloating",
    of: debloating,
    step: ({ value }) => (value === "true" ? {
      value: "false",
      text: "Switch debloating off",
      watch: "New buffers have the full size again. Data in flight grows, and with it the start delay of the checkpoints.",
    } : {
      value: "true",
      text: "Switch debloating on",
      watch: "The buffer size of each channel falls step by step. Data in flight falls with it, and then the start delay of "
        + "the checkpoints. It takes some seconds.",
    }),
  },
  {
    id: "unaligned",
    name: "Unaligned checkpoints",
    none: "This job takes no exactly-once checkpoints.",
    of: (controls) => controls.find(({ key }) => key === "execution.checkpointing.unaligned.enabled"),
    step: ({ value }) => (value === "true" ? {
      value: "false",
      text: "Back to aligned checkpoints",
      watch: "Barriers wait in the queues again: start delay and alignment grow, and checkpoints store no data in flight.",
    } : {
      value: "true",
      text: "Unaligned checkpoints",
      watch: "From the next checkpoint on, barriers overtake the queued buffers: start delay and alignment become short. "
        + "In return the checkpoint stores the data in flight.",
    }),
  },
];

function debloating(controls) {
  return controls.find(({ key }) => key === "taskmanager.network.memory.buffer-debloat.enabled");
}

// What is compared before and after: the data in flight of the last row, and figures of the last checkpoint, each with
// its head, its value in what is known of a side, and its words.
function compared(columns) {
  const ofCheckpoint = columns.effect.map(({ name, head, unit }) => (
    { head, of: ({ checkpoint }) => checkpoint?.figures[name], words: WORDS[unit], ends: true }));
  const inFlight = ({ row }) => row?.in_flight_bytes.reduce((sum, each) => sum + each, 0);
  return [{ head: "Data in flight", of: inFlight, words: bytes, ends: false }, ...ofCheckpoint];
}

export class Experiments {
  #views = [];
  #asked = false; // for a change that the lab has not answered yet
  #running = null; // {id, side, t, watch, before}: the one that was started last
  #costs = new Map(); // of vertices that were made slow: what they cost before and then, by side and vertex

  constructor(model, say) {
    this.model = model;
    this.say = say;
    this.draw = throttled(() => this.#draw(), 250);
  }

  // Make the buttons, for a job.
  build() {
    if (this.#views.length > 0) return; // the same for all jobs
    const figures = compared(this.model.hello.columns);
    this.#views = EXPERIMENTS.map((experiment) => new View(experiment, figures, () => this.#start(experiment)));
    byId("experiments").replaceChildren(...this.#views.map(({ element: each }) => each));
  }

  // What a click does now; null: the job has no such control.
  #step(experiment) {
    const { controls } = this.model.sides.get(this.model.acting);
    const control = experiment.of(controls);
    if (control === undefined) return null;
    const slowed = this.#costs.get(`${this.model.acting} ${control.vertex}`);
    const slow = slowed !== undefined && Math.abs(readDuration(control.value) - slowed.then_s) < 1e-9;
    const before = slow ? slowed.before : undefined;
    return { control, ...experiment.step(control, before, debloating(controls).value === "true") };
  }

  #start(experiment) {
    const { acting, now } = this.model;
    const { control, value, watch } = this.#step(experiment);
    if (control.vertex !== null) this.#costs.set(`${acting} ${control.vertex}`, { before: control.value, then_s: readDuration(value) });
    this.#running = { id: experiment.id, side: acting, t: now, watch, before: this.#figures(acting) };
    this.#asked = true;
    this.say({ type: "change", side: acting, key: control.key, vertex: control.vertex, value });
    this.#draw();
  }

  #figures(side) {
    return { checkpoint: this.model.lastCheckpoint(side), row: this.model.sides.get(side).rows.at(-1) ?? null };
  }

  // After a hello: the values of the controls, and whether the run still has the change.
  update() {
    const { acting, forked, sides } = this.model;
    const side = sides.get(this.#running?.side);
    if (side === undefined || (!this.#asked && side.t < this.#running.t)) this.#running = null;
    else if (this.#asked) this.#running.t = side.t; // frames may have been behind when the button was clicked
    this.#asked = false;
    setText(byId("experiments-note"), forked ? `A click changes side ${acting}.`
      : "A click changes the job at once. To compare, run a second side first: the click then changes side b only.");
    for (const view of this.#views) view.show(this.#step(view.experiment)?.text ?? null);
    this.#draw();
  }

  refused() {
    if (!this.#asked) return;
    this.#asked = false;
    this.#running = null;
    this.#draw();
  }

  #draw() {
    const running = this.#running;
    for (const view of this.#views) {
      if (view.experiment.id !== running?.id) view.watch(null);
      else view.watch(running, this.#figures(running.side), this.model.forked);
    }
  }
}

class View {
  constructor(experiment, figures, started) {
    this.experiment = experiment;
    this.figures = figures;
    this.button = element("button", { type: "button", "data-experiment": experiment.id, onclick: started });
    this.none = element("small", { text: experiment.none ?? "", hidden: true });
    this.words = element("p");
    this.cells = figures.map(() => [element("td"), element("td")]);
    this.since = element("th", { scope: "col" });
    this.effect = element("div", { class: "effect", hidden: true }, this.words, element("table", {},
      element("thead", {}, element("tr", {}, element("td"), this.since, element("th", { scope: "col", text: "now" }))),
      element("tbody", {}, ...figures.map(({ head }, place) => element("tr", {}, element("th", { scope: "row", text: head }), ...this.cells[place])))));
    this.element = element("div", { class: "control" }, this.button, this.none, this.effect);
  }

  show(text) {
    this.button.disabled = text === null;
    setHidden(this.none, text !== null);
    setText(this.button, text ?? this.experiment.name);
  }

  // What to watch of the experiment that runs; null: another one does, or none.
  watch(running, now = null, forked = false) {
    setHidden(this.effect, running === null);
    if (running === null) return;
    setText(this.words, `Watch: ${running.watch}`);
    setText(this.since, `${forked ? `${running.side} ` : ""}at ${moment(running.t)}`);
    const waits = (now.checkpoint?.t ?? -1) < running.t; // the last checkpoint began before the change
    this.figures.forEach(({ of, words, ends }, place) => {
      const [before, after] = this.cells[place];
      const textOf = (known) => (of(known) === undefined ? NONE : words(of(known)));
      setText(before, textOf(running.before));
      setText(after, ends && waits ? "not yet" : textOf(now));
    });
  }
}
