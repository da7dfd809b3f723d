// The colours and patterns of the style sheet, for canvases.

const NAMES = [
  "page", "panel", "text", "quiet", "line", "accent", "alarm", "busy", "idle", "pressured", "barrier",
  "on-barrier", "cool", "hot",
];
export const FONT = "13px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
const dark = matchMedia("(prefers-color-scheme: dark)");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const VERTEX_COLOURS = 8;

export let colours = read();

function read() {
  const style = getComputedStyle(document.documentElement);
  const found = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  found.vertices = [];
  for (let n = 0; n < VERTEX_COLOURS; n++) found.vertices.push(style.getPropertyValue(`--vertex-${n}`).trim());
  return found;
}

export function whenThemeChanges(listener) {
  dark.addEventListener("change", () => {
    colours = read();
    stripes.clear();
    listener();
  });
}

export function vertexColour(place) {
  return colours.vertices[place % VERTEX_COLOURS];
}

export function wantsStillness() {
  return still.matches;
}

const stripes = new Map();

// Slanting stripes of a colour on another, for what has to be told apart without colours.
export function striped(context, colour, ground) {
  const key = `${colour} ${ground}`;
  if (!stripes.has(key)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.fillStyle = ground;
    pen.fillRect(0, 0, 6, 6);
    pen.strokeStyle = colour;
    pen.lineWidth = 2.2;
    pen.beginPath();
    for (const at of [-6, 0, 6]) {
      pen.moveTo(at - 1, 7);
      pen.lineTo(at + 7, -1);
    }
    pen.stroke();
    stripes.set(key, context.createPattern(tile, "repeat"));
  }
  return stripes.get(key);
}

// Make a canvas as sharp as the screen is, and empty; returns its context, in CSS pixels.
export function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = "middle";
  return context;
}

export function fillRect(context, colour, left, top, width, height) {
  context.fillStyle = colour;
  context.fillRect(left, top, width, height);
}

// Write a text that begins, ends or has its middle at `x`, by `align`.
export function write(context, text, x, y, align = "left", colour = colours.quiet) {
  context.fillStyle = colour;
  context.textAlign = align;
  context.fillText(text, x, y);
}
