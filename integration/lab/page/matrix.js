// Draws an edge of many channels as a heat map: producers down, consumers across.

import { buffers, bytes } from "./format.js";
import { matrixLayout } from "./layout.js";
import { between, readColour } from "./scales.js";
import { colours, fillRect, write } from "./theme.js";

const LEFT = 34;
const TOP = 20;
const KEY_HEIGHT = 30;
const LARGEST_CELL = 22;

// What a heat map can show: the value of a channel, its name and its words.
export const MEASURES = {
  queued: { text: "Queued at both ends", of: (frame, place) => frame.sender[place] + frame.receiver[place], words: buffers },
  sender: { text: "Queued at the sender (backlog)", of: (frame, place) => frame.sender[place], words: buffers },
  receiver: { text: "Queued at the receiver", of: (frame, place) => frame.receiver[place], words: buffers },
  credit: { text: "Credit of the sender", of: (frame, place) => frame.credit[place] ?? 0, words: buffers },
  size: { text: "Buffer size", of: (frame, place) => frame.size[place], words: bytes },
};

export class Matrix {
  #image = document.createElement("canvas");

  constructor(edge, segmentBytes, scale, producers, consumers) {
    this.edge = edge;
    this.segmentBytes = segmentBytes;
    this.scale = scale;
    Object.assign(this, matrixLayout(edge, producers, consumers));
    this.#image.width = this.columns;
    this.#image.height = this.rows;
    this.fit(600);
  }

  // Make room for a frame on the scale.
  fitScale(frame) {
    const { of } = MEASURES[this.scale.measure];
    this.scale.grow(this.scale.measure, this.edge.channels.reduce((most, _, place) => Math.max(most, of(frame, place)), 0));
  }

  get scaleWords() {
    return "";
  }

  // Choose the size of cells for a canvas of a width.
  fit(width) {
    this.cell = Math.max(3, Math.min(LARGEST_CELL, Math.floor((width - LEFT - 2) / this.columns)));
    this.height = TOP + this.rows * this.cell + KEY_HEIGHT;
  }

  at(x, y) {
    const [column, row] = [Math.floor((x - LEFT) / this.cell), Math.floor((y - TOP) / this.cell)];
    return this.#placeOf(column, row);
  }

  beside(place, across, down) {
    return this.#placeOf((place % this.columns) + across, Math.floor(place / this.columns) + down);
  }

  #placeOf(column, row) {
    if (column < 0 || column >= this.columns || row < 0) return null;
    const place = row * this.columns + column;
    return place < this.edge.channels.length ? place : null;
  }

  draw(context, width, frame, picked) {
    this.#axes(context);
    const [across, down] = [this.columns * this.cell, this.rows * this.cell];
    if (frame === undefined) {
      fillRect(context, colours.panel, LEFT, TOP, across, down);
      return false;
    }
    const end = this.#paint(frame);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.#image, LEFT, TOP, across, down);
    this.#grid(context, across, down);
    this.#crosses(context, frame.blocked);
    this.#dots(context, frame.barriers);
    if (picked !== null) this.#frame(context, picked);
    this.#key(context, end);
    return false;
  }

  #axes(context) {
    const cells = this.edge.summed ? "sum for each consumer" : "channel";
    write(context, this.whole ? "producer ↓   consumer →" : cells, 2, TOP / 2);
    const every = Math.max(1, Math.ceil(18 / this.cell));
    const step = [1, 2, 4, 8, 16, 32].find((each) => each >= every) ?? 64;
    for (let row = 0; row < this.rows; row += step) {
      const label = this.whole ? row : row * this.columns;
      write(context, String(label), LEFT - 4, TOP + (row + 0.5) * this.cell, "right");
    }
  }

  // One pixel a cell: the canvas below makes them large. Returns the end of the scale.
  #paint(frame) {
    const { measure } = this.scale;
    const { of } = MEASURES[measure];
    const count = this.edge.channels.length;
    const end = measure === "size" ? this.segmentBytes : this.scale.end(measure);
    const ramp = heatRamp();
    const pen = this.#image.getContext("2d");
    const image = pen.createImageData(this.columns, this.rows);
    for (let place = 0; place < count; place++) {
      const share = Math.sqrt(Math.min(1, of(frame, place) / end));
      const [red, green, blue] = ramp[Math.round(share * (ramp.length - 1))];
      image.data.set([red, green, blue, 255], place * 4);
    }
    pen.putImageData(image, 0, 0);
    return end;
  }

  #grid(context, across, down) {
    if (this.cell < 6) return;
    context.fillStyle = colours.page;
    for (let column = 1; column < this.columns; column++) context.fillRect(LEFT + column * this.cell - 0.5, TOP, 1, down);
    for (let row = 1; row < this.rows; row++) context.fillRect(LEFT, TOP + row * this.cell - 0.5, across, 1);
  }

  #corner(place) {
    return [LEFT + (place % this.columns) * this.cell, TOP + Math.floor(place / this.columns) * this.cell];
  }

  // All crosses are one path and all dots another: thousands of strokes would take too long.
  #crosses(context, places) {
    const inner = Math.max(1, this.cell / 6);
    const far = this.cell - inner;
    context.beginPath();
    for (const place of places) {
      const [x, y] = this.#corner(place);
      context.moveTo(x + inner, y + inner);
      context.lineTo(x + far, y + far);
      context.moveTo(x + far, y + inner);
      context.lineTo(x + inner, y + far);
    }
    const line = Math.max(1, this.cell / 10);
    const strokes = this.cell < 8 ? [[colours.alarm, line]] : [[colours.page, 3 * line], [colours.alarm, line]];
    for (const [colour, width] of strokes) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.stroke();
    }
    context.lineWidth = 1;
  }

  #dots(context, barriers) {
    const radius = Math.max(1.5, this.cell / 5);
    context.beginPath();
    for (const [place] of barriers) {
      const [x, y] = this.#corner(place);
      context.moveTo(x + this.cell / 2 + radius, y + this.cell / 2);
      context.arc(x + this.cell / 2, y + this.cell / 2, radius, 0, 2 * Math.PI);
    }
    context.fillStyle = colours.barrier;
    context.strokeStyle = colours.page;
    context.fill();
    if (this.cell >= 8) context.stroke();
  }

  #frame(context, place) {
    const [x, y] = this.#corner(place);
    context.strokeStyle = colours.text;
    context.lineWidth = 2;
    context.strokeRect(x, y, this.cell, this.cell);
    context.lineWidth = 1;
  }

  #key(context, end) {
    const top = TOP + this.rows * this.cell + 10;
    const { words } = MEASURES[this.scale.measure];
    write(context, "0", LEFT, top + 7);
    const ramp = heatRamp();
    const [left, width] = [LEFT + 14, 96];
    for (let x = 0; x < width; x++) {
      const colour = ramp[Math.round(Math.sqrt(x / width) * (ramp.length - 1))];
      fillRect(context, `rgb(${colour.join(" ")})`, left + x, top, 1, 14);
    }
    write(context, words(end), left + width + 6, top + 7);
  }
}

const RAMP = 64;
let ramps = { of: "", colours: [] };

function heatRamp() {
  const of = colours.cool + colours.hot;
  if (ramps.of !== of) {
    const [cool, hot] = [readColour(colours.cool), readColour(colours.hot)];
    ramps = { of, colours: Array.from({ length: RAMP }, (_, n) => between(cool, hot, n / (RAMP - 1))) };
  }
  return ramps.colours;
}
