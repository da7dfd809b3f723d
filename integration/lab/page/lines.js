// Draws an edge of few channels: a line for each, from the queue at its sender over the wire to its receiver.
//
//   0 → 1   [    ▮▮▮▮]--------(7)----------[▮▮▮    ]   0   32 KiB
//   channel  sender          wire, barrier  receiver credit size

import { bytes, NONE } from "./format.js";
import { colours, fillRect, striped, wantsStillness, write } from "./theme.js";

export const ROW_HEIGHT = 19;
export const HEAD_HEIGHT = 22;
const BAR = 13;
const MOST_CELLS = 20; // more buffers than these are drawn as one bar
const NEARER = 0.22; // the share of its way that a barrier moves in a frame

// Where the columns stand on a canvas of a width.
export function columnsOf(width) {
  const [name, credit, size] = width < 420 ? [56, 40, 56] : [72, 48, 64];
  const rest = width - name - credit - size - 12;
  const queue = rest * 0.36;
  const wire = rest - 2 * queue;
  const sender = name;
  return {
    sender,
    queue,
    wire: sender + queue,
    wireWidth: wire,
    receiver: sender + queue + wire,
    credit: sender + 2 * queue + wire + credit - 4,
    size: width - size + 4,
    sizeWidth: size - 4,
  };
}

export class Lines {
  #barriers = new Map(); // where each barrier is drawn now, as it moves on

  constructor(edge, segmentBytes, scale) {
    this.edge = edge;
    this.segmentBytes = segmentBytes;
    this.scale = scale;
  }

  // Make room for a frame on the scale.
  fitScale(frame) {
    this.scale.grow("line", Math.max(0, ...frame.sender, ...frame.receiver));
  }

  // What the bars mean, in words.
  get scaleWords() {
    return `, full bar: ${this.scale.end("line")} buffers`;
  }

  get height() {
    return HEAD_HEIGHT + this.edge.channels.length * ROW_HEIGHT + 2;
  }

  at(x, y) {
    const place = Math.floor((y - HEAD_HEIGHT) / ROW_HEIGHT);
    return place >= 0 && place < this.edge.channels.length ? place : null;
  }

  beside(place, across, down) {
    const next = place + down;
    return next >= 0 && next < this.edge.channels.length ? next : null;
  }

  // Returns whether something still moves.
  draw(context, width, frame, picked) {
    const at = columnsOf(width);
    this.#head(context, at, width);
    const blocked = new Set(frame?.blocked);
    this.edge.channels.forEach(([producer, consumer], place) => {
      const middle = HEAD_HEIGHT + place * ROW_HEIGHT + ROW_HEIGHT / 2;
      if (place === picked) fillRect(context, colours.line, 0, middle - ROW_HEIGHT / 2, width, ROW_HEIGHT);
      write(context, `${producer ?? "all"} → ${consumer}`, 2, middle, "left", place === picked ? colours.text : colours.quiet);
      this.#wire(context, at, middle);
      if (frame !== undefined) this.#channel(context, at, middle, frame, place, blocked.has(place));
    });
    return frame !== undefined && this.#moveBarriers(context, at, frame);
  }

  #head(context, at, width) {
    const middle = HEAD_HEIGHT / 2 - 1;
    const narrow = width < 420;
    write(context, narrow ? "Chan." : "Channel", 2, middle);
    write(context, "Sender", at.wire - 2, middle, "right");
    write(context, "Credit", at.credit, middle, "right");
    write(context, "Receiver", at.receiver + 2, middle);
    write(context, narrow ? "Size" : "Buf. size", width - 2, middle, "right");
  }

  #wire(context, at, middle) {
    context.strokeStyle = colours.quiet;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(at.wire + 1, middle);
    context.lineTo(at.receiver - 1, middle);
    context.moveTo(at.receiver - 5, middle - 3);
    context.lineTo(at.receiver - 1, middle);
    context.lineTo(at.receiver - 5, middle + 3);
    context.stroke();
  }

  #channel(context, at, middle, frame, place, blocked) {
    const share = Math.min(1, frame.size[place] / this.segmentBytes);
    const fill = blocked ? striped(context, colours.alarm, colours.page) : colours.accent;
    this.#queue(context, at.wire, -at.queue, middle, frame.sender[place], share, colours.accent);
    this.#queue(context, at.receiver, at.queue, middle, frame.receiver[place], share, fill);
    if (blocked) fillRect(context, colours.alarm, at.receiver - 4, middle - BAR / 2, 3, BAR);
    const credit = frame.credit[place];
    write(context, credit === null ? NONE : String(credit), at.credit, middle, "right", credit === null ? colours.quiet : colours.text);
    fillRect(context, colours.line, at.size, middle + BAR / 2 - 1, at.sizeWidth - 2, 2);
    fillRect(context, colours.accent, at.size, middle + BAR / 2 - 1, (at.sizeWidth - 2) * share, 2);
    write(context, bytes(frame.size[place]), at.size + at.sizeWidth - 2, middle - 1, "right", colours.text);
  }

  // A queue grows away from the wire; the height of its buffers is the size that they may have.
  #queue(context, from, length, middle, count, share, fill) {
    const [left, width] = length < 0 ? [from + length, -length] : [from, length];
    fillRect(context, colours.panel, left, middle - BAR / 2, width, BAR);
    context.strokeStyle = colours.line;
    context.strokeRect(left + 0.5, middle - BAR / 2 + 0.5, width - 1, BAR - 1);
    const height = Math.max(3, Math.round(BAR * share));
    context.fillStyle = fill;
    const end = this.scale.end("line");
    const step = length / end;
    if (end > MOST_CELLS) {
      context.fillRect(from, middle - height / 2, step * count, height);
      return;
    }
    const gap = Math.sign(length);
    for (let n = 0; n < count; n++) context.fillRect(from + n * step + gap, middle - height / 2, step - gap, height);
  }

  #moveBarriers(context, at, frame) {
    const goals = { sender: at.wire - 10, wire: at.wire + at.wireWidth / 2, receiver: at.receiver + 11 };
    const before = this.#barriers;
    let moves = false;
    this.#barriers = new Map();
    for (const [place, where, id] of frame.barriers) {
      const key = this.edge.summed ? `${place} ${id} ${where}` : `${place} ${id}`;
      const goal = goals[where];
      let x = before.get(key) ?? goal;
      x = wantsStillness() || Math.abs(goal - x) < 1 ? goal : x + (goal - x) * NEARER;
      moves ||= x !== goal;
      this.#barriers.set(key, x);
      barrierMark(context, x, HEAD_HEIGHT + place * ROW_HEIGHT + ROW_HEIGHT / 2, id);
    }
    return moves;
  }
}

function barrierMark(context, x, middle, id) {
  const text = String(id);
  const width = Math.max(18, context.measureText(text).width + 8);
  context.fillStyle = colours.barrier;
  context.beginPath();
  context.roundRect(x - width / 2, middle - 8, width, 16, 4);
  context.fill();
  context.strokeStyle = colours.page;
  context.stroke();
  write(context, text, x, middle + 0.5, "center", colours["on-barrier"]);
}
