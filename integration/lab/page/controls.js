// What can be changed while the job runs: an input for each control of the lab, by job and by vertex.

import { byId, debounced, element, setText } from "./dom.js";
import { duration, grouped, readDuration, readNumber, threeDigits, writeDuration } from "./format.js";
import { SLIDER_STEPS, sliderPlace, sliderValue } from "./scales.js";

const SLIDER_MS = 250;
const HINTS = {
  rate: "Records per second of each subtask. 0: as fast as possible.",
  load: "A factor of the rates of all sources. 1: the rates of the scenario.",
  factors: "A factor of the cost for each subtask. 1:1:1:4 makes the last of four subtasks slow.",
};

export class Controls {
  #made = new Map(); // by key and vertex
  #last = null; // the one that was changed last, which a refusal is about

  constructor(model, say) {
    this.model = model;
    this.say = say;
    this.place = byId("controls");
  }

  // Show the values that hold now; an input is made once and stays, so that whoever uses it is not disturbed.
  update() {
    const side = this.model.sides.get(this.model.acting);
    const groups = Map.groupBy(side.controls, (control) => control.vertex);
    const seen = new Set();
    let before = null;
    for (const [vertex, controls] of groups) {
      const group = this.#group(vertex);
      this.#put(this.place, group, before);
      before = group;
      let above = group.firstElementChild;
      for (const control of controls) {
        const id = `${control.key}|${control.vertex ?? ""}`;
        seen.add(id);
        const input = this.#made.get(id) ?? this.#make(id, control);
        this.#put(group, input.element, above);
        above = input.element;
        input.show(control);
      }
    }
    for (const [id, input] of this.#made) {
      if (seen.has(id)) continue;
      input.element.remove();
      this.#made.delete(id);
    }
    for (const group of [...this.place.children]) if (group.querySelector("[data-control]") === null) group.remove();
  }

  refused(text) {
    this.#last?.mark(text);
  }

  // Whatever is done next, what was refused is of the past.
  forgetRefusal() {
    this.#last?.mark(null);
    this.#last = null;
  }

  #put(parent, node, before) {
    const there = before === null ? parent.firstElementChild : before.nextElementSibling;
    if (there !== node) parent.insertBefore(node, there);
  }

  #group(vertex) {
    const name = vertex ?? "";
    const known = [...this.place.children].find((group) => group.dataset.group === name);
    return known ?? element("details", { open: true, "data-group": name }, element("summary", { text: vertex ?? "Job" }));
  }

  #make(id, control) {
    const changed = (value) => {
      input.mark(null);
      this.say({ type: "change", side: this.model.acting, key: control.key, vertex: control.vertex, value });
      this.#last = input;
    };
    const input = new INPUTS[control.kind](control, changed);
    this.#made.set(id, input);
    return input;
  }
}

// Common to all inputs: the hooks, the label, and what is to be said only once.
class Input {
  constructor(control, changed) {
    this.id = `control-${control.key}-${control.vertex ?? ""}`.replace(/[^a-zA-Z0-9_-]/g, "-");
    this.control = control;
    this.changed = changed;
  }

  hooks(type = null) {
    return { id: this.id, type, "data-control": this.control.key, "data-vertex": this.control.vertex ?? "" };
  }

  label() {
    return element("label", { for: this.id, text: this.control.label });
  }

  // A refused text stays in its field, to be corrected, with the reason below it. `revert` is for inputs that show
  // the current value.
  mark(problem) {
    if (problem !== null) this.revert();
    if (problem !== null) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
    this.problem?.remove();
    this.problem = problem === null ? null : element("small", { class: "problem", text: problem });
    if (problem !== null) this.element.append(this.problem);
  }

  // Show the current value.
  show(control) {
    this.value = control.value;
    this.revert();
  }

  revert() {}
}

class Switch extends Input {
  constructor(control, changed) {
    super(control, changed);
    this.input = element("input", this.hooks("checkbox"));
    this.input.addEventListener("change", () => changed(String(this.input.checked)));
    this.element = element("div", { class: "control switch" }, this.input, this.label());
  }

  revert() {
    this.input.checked = this.value === "true";
  }
}

class Choice extends Input {
  constructor(control, changed) {
    super(control, changed);
    const options = control.choices.map((choice) => element("option", { value: choice, text: choice }));
    this.input = element("select", this.hooks(), ...options);
    this.input.addEventListener("change", () => changed(this.input.value));
    this.element = element("div", { class: "control" }, this.label(), this.input);
  }

  revert() {
    this.input.value = this.value;
  }
}

// A text that is said at Enter or when it is left.
class Text extends Input {
  constructor(control, changed) {
    super(control, changed);
    const hint = HINTS[control.kind] ?? null;
    const hintId = hint === null ? null : `${this.id}-hint`;
    this.input = element("input", { ...this.hooks("text"), autocomplete: "off", spellcheck: "false", "aria-describedby": hintId });
    this.input.addEventListener("change", () => this.said(this.input.value));
    this.hint = hint === null ? null : element("small", { id: hintId, text: hint });
    this.element = element("div", { class: "control" }, this.label(), this.input, this.hint);
    this.value = control.value;
  }

  said(value) {
    if (value.trim() === this.value) return;
    this.value = value.trim();
    this.changed(this.value);
  }

  // What is being typed is left alone.
  show(control) {
    const typing = document.activeElement === this.input && this.input.value !== this.value;
    this.value = control.value;
    if (!typing) this.input.value = control.value;
    this.mark(null);
  }
}

// A text with a slider of logarithmic steps below it.
class Slider extends Text {
  constructor(control, changed) {
    super(control, changed);
    this.slider = element("input", { type: "range", min: 0, max: SLIDER_STEPS, "aria-label": `${control.label}, slider`,
      "data-slider": control.key, "data-vertex": control.vertex ?? "" });
    this.later = debounced(() => this.said(this.input.value), SLIDER_MS);
    this.slider.addEventListener("input", () => {
      this.input.value = this.write(sliderValue(Number(this.slider.value), control.least, control.most));
      this.#describe();
      this.later();
    });
    this.input.after(this.slider);
  }

  show(control) {
    if (this.later.waits()) return; // the user still slides
    super.show(control);
    const value = this.read(control.value);
    const sliding = document.activeElement === this.slider && this.input.value === this.write(
      sliderValue(Number(this.slider.value), control.least, control.most));
    if (value !== null && !sliding) this.slider.value = sliderPlace(value, control.least, control.most);
    this.#describe();
  }

  #describe() {
    this.slider.setAttribute("aria-valuetext", this.words(this.input.value));
  }
}

class Duration extends Slider {
  read = readDuration;
  write = writeDuration;
  words = (text) => duration(readDuration(text));
}

class Rate extends Slider {
  read = readNumber;
  write = threeDigits;
  words = (text) => (readNumber(text) === 0 ? "as fast as possible" : `${grouped(readNumber(text))} records per second`);
}

// Without a common factor of the rates, the field is empty. Where a source has no rate, it says why.
class Load extends Slider {
  read = readNumber;
  write = threeDigits;
  words = (text) => (readNumber(text) === null ? "no common factor" : `${readNumber(text)} times the rates of the scenario`);

  show(control) {
    super.show(control);
    const { why_not: whyNot } = control;
    this.input.disabled = this.slider.disabled = whyNot !== null;
    this.input.placeholder = whyNot === null && control.value === "" ? "rates differ" : "";
    setText(this.hint, whyNot === null ? HINTS.load : `Not possible: ${whyNot}.`);
  }
}

const INPUTS = { switch: Switch, choice: Choice, duration: Duration, rate: Rate, factors: Text, load: Load };
