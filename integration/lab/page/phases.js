// The phases of a checkpoint as a bar; each is the longest of all subtasks. `phases` are columns of the lab.

import { element } from "./dom.js";
import { WORDS } from "./format.js";

export const classOf = ({ head }) => head.toLowerCase().replace(" ", "-");

// The length of the longest bar of some checkpoints.
export function longestOf(checkpoints, phases) {
  return Math.max(1e-9, ...checkpoints.map(({ figures }) => phases.reduce((sum, { name }) => sum + (figures[name] ?? 0), 0)));
}

export function phaseBar(phases) {
  return element("span", { class: "bar", "aria-hidden": "true" }, ...phases.map((phase) => element("span", { class: classOf(phase) })));
}

export function drawPhases(bar, phases, { figures }, longest) {
  phases.forEach(({ name, head, unit }, place) => {
    const part = bar.children[place];
    part.style.width = `${(100 * (figures[name] ?? 0)) / longest}%`;
    part.title = `${head.toLowerCase()} ${WORDS[unit](figures[name])}`;
  });
}
