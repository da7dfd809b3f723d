// The phases of a checkpoint as a bar; each is the longest of all subtasks.

import { element } from "./dom.js";
import { duration } from "./format.js";

export const PHASES = [
  ["start_delay_s", "start delay"],
  ["alignment_s", "alignment"],
  ["sync_s", "sync"],
  ["async_s", "async"],
];

// The length of the longest bar of some checkpoints, in seconds.
export function longestOf(checkpoints) {
  return Math.max(1e-9, ...checkpoints.map((each) => PHASES.reduce((sum, [field]) => sum + (each[field] ?? 0), 0)));
}

export function phaseBar() {
  return element("span", { class: "bar", "aria-hidden": "true" }, ...PHASES.map(([, name]) => element("span", { class: name.replace(" ", "-") })));
}

export function drawPhases(bar, checkpoint, longest) {
  PHASES.forEach(([field, name], place) => {
    const part = bar.children[place];
    part.style.width = `${(100 * (checkpoint[field] ?? 0)) / longest}%`;
    part.title = `${name} ${duration(checkpoint[field])}`;
  });
}
