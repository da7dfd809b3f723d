// Scales of sliders, bars, heat maps and axes. Nothing here knows of the page.

export const SLIDER_STEPS = 200;

// Where a slider of logarithmic steps stands for a value; a least of 0 is its leftmost step alone.
export function sliderPlace(value, least, most) {
  const low = least > 0 ? least : most / 1e5;
  if (value <= (least > 0 ? least : low / 2)) return 0;
  const share = Math.log(Math.max(value, low) / low) / Math.log(most / low);
  const first = least > 0 ? 0 : 1;
  return Math.round(first + Math.min(1, Math.max(0, share)) * (SLIDER_STEPS - first));
}

export function sliderValue(place, least, most) {
  if (place <= 0) return least;
  const low = least > 0 ? least : most / 1e5;
  const first = least > 0 ? 0 : 1;
  return low * (most / low) ** ((place - first) / (SLIDER_STEPS - first));
}

// The least of 4, 8, 10, 20, 40, 50, 80, 100, ... that is enough: an end for bars.
export function roundEnd(most) {
  if (most <= 4) return 4;
  const ten = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 5, 8, 10].map((each) => each * ten).find((end) => end >= most);
}

// The scale of the channels of an edge, one for both sides, so that their pictures can be compared. Ends only grow.
export class ChannelScale {
  measure = "queued"; // what heat maps show
  #ends = new Map();

  end(measure) {
    return this.#ends.get(measure) ?? 4;
  }

  grow(measure, most) {
    this.#ends.set(measure, Math.max(this.end(measure), roundEnd(most)));
  }
}

// Round numbers on an axis, not more than `count` steps.
export function linearTicks(least, most, count) {
  const ten = 10 ** Math.floor(Math.log10((most - least) / count));
  return multiples(least, most, [1, 2, 2.5, 5, 10].map((each) => each * ten).find((step) => step * count >= (most - least) * 0.999));
}

// Whole powers of two, so that sizes read as KiB and MiB.
export function binaryTicks(most) {
  return multiples(0, most, 2 ** Math.max(0, Math.ceil(Math.log2(most / 5))));
}

function multiples(least, most, step) {
  const found = [];
  for (let n = Math.ceil(least / step); n * step <= most; n++) found.push(n * step);
  return found;
}

// A wide scale is logarithmic above a tenth: what debloating estimates can be a million times too long.
export function wideShare(value, most) {
  return Math.asinh(value / 0.1) / Math.asinh(most / 0.1);
}

export function wideTicks(most) {
  const tens = [0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].filter((ten) => ten <= most);
  const apart = tens.length > 3 ? tens.slice(1) : tens; // 0 and a tenth would be too near each other
  const every = Math.ceil(apart.length / 4);
  return [0, ...apart.filter((_, place) => place % every === 0)];
}

// A colour between two, each [red, green, blue].
export function between(one, other, share) {
  return one.map((part, place) => Math.round(part + (other[place] - part) * share));
}

export function readColour(text) {
  const hex = text.trim().replace("#", "");
  const full = hex.length === 3 ? [...hex].map((each) => each + each).join("") : hex;
  return [0, 2, 4].map((at) => Number.parseInt(full.slice(at, at + 2), 16));
}
