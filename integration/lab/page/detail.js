// The line that shows in words what the pointer or the keyboard is at.

import { byId, setText, throttled } from "./dom.js";

const line = byId("detail");
const spoken = byId("spoken");
const HINT = line.textContent;
let shown = null; // {owner, words}: who shows something, and how to say what it is now

export const refreshDetail = throttled(() => {
  setText(line, shown === null ? HINT : shown.words());
}, 200);

// Show `words()` until `owner` hides it; aloud, if the keyboard led there: a live region must not chatter.
export function showDetail(owner, words, aloud) {
  shown = { owner, words };
  setText(line, words());
  if (aloud) setText(spoken, words());
}

export function hideDetail(owner) {
  if (shown?.owner !== owner) return;
  shown = null;
  setText(line, HINT);
}
