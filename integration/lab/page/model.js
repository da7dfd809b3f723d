// What the page knows of the lab, from the messages that have come. Nothing here knows of the page.

import { stateWords } from "./words.js";

export class Model {
  hello = null;
  sides = new Map();
  shape = ""; // of the job: as long as it is the same, what was drawn of it can stay
  acting = "a"; // the side that controls act on
  flink = null; // what Flink shows beside what is predicted, if the job is one of Flink's

  // Take in a message; returns what has changed: "job", "sides", "frame", "row", "checkpoint", "incident", "flink".
  take(message) {
    switch (message.type) {
      case "hello": return this.#greeted(message);
      case "frame": return this.#of(message, (side) => { side.frame = withShares(message, side.frame); });
      case "row": return this.#of(message, (side) => { side.rows.push(message); });
      case "checkpoint": return this.#of(message, (side) => { side.checkpoints.push(message); });
      case "incident": return this.#of(message, (side) => { side.incidents.push(message); });
      case "flink":
        this.flink = message;
        return "flink";
      default: return null;
    }
  }

  #of(message, change) {
    const side = this.sides.get(message.side);
    if (side === undefined) return null; // of a side that was given up while the message was under way
    change(side);
    return message.type;
  }

  #greeted(hello) {
    const { name, segment_bytes, vertices, edges } = hello;
    const names = hello.sides.map((side) => side.side);
    const forked = names.length > this.sides.size && this.sides.size > 0;
    const shape = JSON.stringify([name, segment_bytes, vertices, edges, names]);
    const isNew = shape !== this.shape;
    this.shape = shape;
    this.hello = hello;
    const before = this.sides;
    this.sides = new Map(hello.sides.map((side) => [side.side, { ...side, frame: before.get(side.side)?.frame ?? null }]));
    if (forked && names.includes("b")) this.acting = "b";
    if (!names.includes(this.acting)) this.acting = "a";
    return isNew ? "job" : "sides";
  }

  get forked() {
    return this.sides.size > 1;
  }

  // The checkpoint of a side that ended last; null: none has ended.
  lastCheckpoint(name) {
    return this.sides.get(name)?.checkpoints.at(-1) ?? null;
  }

  // The moment that is shown.
  get now() {
    return Math.max(0, ...[...this.sides.values()].map((side) => side.frame?.t ?? side.t));
  }

  // Whether the lab stands still because the user wants it to.
  get paused() {
    const states = [...this.sides.values()].map((side) => side.frame?.state ?? null);
    if (states.includes("paused")) return true;
    if (states.includes("running")) return false;
    return this.hello?.paused ?? false;
  }

  // What each side is doing; one that has shown nothing yet may still have to come to where the others are.
  get states() {
    const unseen = (side) => (side.t < this.now ? "behind" : "running");
    return [...this.sides.values()].map((side) => [side.side, side.frame?.state ?? unseen(side)]);
  }

  // What all sides are doing, in words.
  get stateWords() {
    const { states } = this;
    const different = new Set(states.map(([, state]) => state)).size > 1;
    const words = states.map(([name, state]) => (different ? `${name} ${stateWords(state)}` : stateWords(state)));
    return different ? words.join(", ") : (words[0] ?? "");
  }
}

// A frame in which no time has passed for any subtask has no shares: those of before hold on.
function withShares(frame, before) {
  const runs = before !== null && frame.edges.length > 0 && before.edges.length > 0;
  const stands = runs && frame.subtasks.every((subtasks) => subtasks.every((shares) => shares.every((each) => each === 0)));
  return stands ? { ...frame, subtasks: before.subtasks } : frame;
}
