// The clock of the lab: pause, pace, steps, and the way back.

import { byId, setText, throttled } from "./dom.js";
import { backlog, moment, speed } from "./format.js";

const PACES = [["0.02", "1/50 ×"], ["0.1", "1/10 ×"], ["0.5", "1/2 ×"], ["1", "1 × (real time)"], ["2", "2 ×"], ["5", "5 ×"], ["20", "20 ×"]];
const FASTEST = "fastest";
const NEXT = "next";
const SIGNS = { running: "▶", paused: "❚❚", behind: "↻", restarting: "⟳", down: "⊘", ended: "■", failed: "✗" };

export class Clock {
  #backTo = null; // where the user wants to go back to; null: nowhere yet

  constructor(model, say) {
    this.model = model;
    this.say = say;
    byId("pause").addEventListener("click", () => this.togglePause());
    byId("step").addEventListener("click", () => this.step());
    const pace = byId("pace");
    pace.replaceChildren(...PACES.map(([value, text]) => new Option(text, value)), new Option("as fast as possible", FASTEST));
    pace.addEventListener("change", () => say({ type: "pace", value: pace.value === FASTEST ? null : Number(pace.value) }));
    byId("back-slider").addEventListener("input", (event) => this.#wantBack(event.target.valueAsNumber, byId("back-to")));
    byId("back-to").addEventListener("input", (event) => this.#wantBack(event.target.valueAsNumber, byId("back-slider")));
    byId("back-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#backTo !== null) say({ type: "back", t: this.#backTo });
      if (document.activeElement === byId("back")) byId("back-slider").focus(); // the button is disabled now
      this.#wantBack(null, byId("back-to"));
    });
    this.drawBack = throttled(() => this.#drawBack(), 250);
  }

  togglePause() {
    this.say({ type: "pause", paused: !this.model.paused });
  }

  step() {
    const size = byId("step-size").value;
    this.say({ type: "step", seconds: size === NEXT ? null : Number(size) });
  }

  #wantBack(seconds, other) {
    this.#backTo = Number.isFinite(seconds) ? seconds : null;
    other.value = this.#backTo === null ? "" : String(this.#backTo);
    byId("back").disabled = this.#backTo === null;
    this.#drawBack();
  }

  #drawBack() {
    const { now } = this.model;
    const slider = byId("back-slider");
    slider.max = now;
    if (this.#backTo === null) slider.value = now;
    byId("back-to").max = now.toFixed(3);
    slider.setAttribute("aria-valuetext", moment(slider.valueAsNumber));
  }

  // After a hello: what the lab is set to.
  update() {
    const pace = byId("pace");
    const value = this.model.hello.pace === null ? FASTEST : String(this.model.hello.pace);
    if (![...pace.options].some((option) => option.value === value)) pace.add(new Option(`${value} ×`, value), 0);
    pace.value = value;
    this.draw();
  }

  // Without a connection the state is not known.
  lose() {
    byId("state").dataset.state = "lost";
    setText(byId("state"), "no connection");
    setText(byId("speed"), "");
  }

  // While a job is read there is no clock yet.
  read(failed) {
    byId("state").dataset.state = failed ? "failed" : "reading";
    setText(byId("state"), failed ? "not read" : "reading");
  }

  draw() {
    const { model } = this;
    setText(byId("time"), moment(model.now));
    const frame = [...model.sides.values()].find((side) => side.frame !== null)?.frame;
    this.#drawSpeed(frame?.speed ?? null);
    const states = model.states.map(([, state]) => state);
    const worst = ["failed", "down", "restarting", "behind", "ended", "paused", "running"].find((state) => states.includes(state));
    const state = byId("state");
    if (state.dataset.state !== worst) state.dataset.state = worst ?? "";
    setText(state, `${SIGNS[worst] ?? ""} ${model.stateWords}`);
    const texts = [...model.sides.values()].filter((side) => side.frame?.text).map((side) =>
      model.forked ? `${side.side}: ${side.frame.text}` : side.frame.text);
    setText(byId("state-text"), texts.join("; "));
    const backlogs = [...model.sides.values()].filter(({ frame: each }) => each !== null).map(({ side, frame: { backlog: records, catches_up: catchesUp } }) =>
      `${model.forked ? `${side}: ` : ""}${backlog(records)}${catchesUp ? ", catching up" : ""}`);
    setText(byId("backlog"), backlogs.length > 0 ? `Backlog ${backlogs.join("; ")}` : "");
    setText(byId("pause"), model.paused ? "Continue" : "Pause");
    this.drawBack();
  }

  #spoken = -Infinity;

  // The speed wavers; a few times a second are enough.
  #drawSpeed(value) {
    const now = performance.now();
    if (now - this.#spoken < 300 && value !== null) return;
    this.#spoken = now;
    setText(byId("speed"), speed(value === null ? null : Number(value.toPrecision(2))));
  }
}
