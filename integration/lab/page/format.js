// Numbers and times as words, and back. Nothing here knows of the page.

export const NONE = "–";

const DURATION = /^\s*([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s|min|h|d)\s*$/;
const SECONDS = { ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 };

// At most three significant digits, without an exponent.
export function threeDigits(number) {
  if (number === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(number)));
  return String(Number(number.toFixed(Math.max(0, Math.min(12, 2 - size)))));
}

export function grouped(number) {
  return Math.round(number).toLocaleString("en-US");
}

export function moment(seconds) {
  return seconds === null ? NONE : `${seconds.toFixed(3)} s`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds === 0) return "0 s";
  if (seconds < 1e-3) return `${threeDigits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${threeDigits(seconds * 1e3)} ms`;
  return `${threeDigits(seconds)} s`;
}

export function bytes(number) {
  if (number === null || number === undefined) return NONE;
  if (number < 1024) return `${Math.round(number)} B`;
  if (number < 1024 ** 2) return `${threeDigits(number / 1024)} KiB`;
  if (number < 1024 ** 3) return `${threeDigits(number / 1024 ** 2)} MiB`;
  return `${threeDigits(number / 1024 ** 3)} GiB`;
}

export function rate(number) {
  if (number === null || number === undefined) return NONE;
  return `${number < 1000 ? threeDigits(number) : grouped(number)}/s`;
}

// Records that wait to be read; null: no source with a rate runs.
export function backlog(records) {
  return records === null ? NONE : counted(records, "record");
}

// Words of a value by the unit of its figure, as the lab names them.
export const WORDS = {
  ms: (value) => duration(value === null ? null : value / 1e3),
  bytes,
  "rec/s": rate,
  share: percent,
  buffers: (value) => (value === null ? NONE : threeDigits(value)),
  count: String,
};

export function percent(share) {
  return share === null || share === undefined ? NONE : `${Math.round(share * 100)} %`;
}

export function counted(number, what) {
  return number === 1 ? `1 ${what}` : `${grouped(number)} ${what}s`;
}

export function buffers(number) {
  return counted(number, "buffer");
}

export function speed(perSecond) {
  return perSecond === null ? "" : `runs at ${threeDigits(perSecond)} × real time`;
}

// Seconds of a text such as "200 ms"; null: it is none.
export function readDuration(text) {
  const found = DURATION.exec(text);
  return found === null ? null : Number(found[1]) * SECONDS[found[2]];
}

// A text that a scenario takes, for where a slider stands: in milliseconds below a second, as in all fields.
export function writeDuration(seconds) {
  return seconds > 0 && seconds < 1 ? `${threeDigits(seconds * 1e3)} ms` : duration(seconds);
}

// The first number of a text such as "3000, 2000"; null: there is none.
export function readNumber(text) {
  const number = Number.parseFloat(text);
  return Number.isFinite(number) ? number : null;
}

// "map 2" for the subtask at place 2 of map; subtasks count from 0, as in Flink's logs and metrics.
export function subtaskName(vertex, place) {
  return `${vertex.name} ${place}`;
}
