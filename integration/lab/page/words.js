// What a channel or a subtask does, in words. Nothing here knows of the page.

import { buffers, bytes, counted, grouped, percent, subtaskName } from "./format.js";

export function channelName(hello, edge, place) {
  const [producer, consumer] = edge.channels[place];
  const to = subtaskName(hello.vertices[edge.target], consumer);
  const source = hello.vertices[edge.source];
  return producer === null ? `all of ${source.name} → ${to}` : `${subtaskName(source, producer)} → ${to}`;
}

export function channelWords(hello, edge, place, frame) {
  const name = channelName(hello, edge, place);
  if (frame === undefined) return `${name}: the job does not run`;
  const credit = frame.credit[place];
  const parts = [
    `${buffers(frame.sender[place])} at the sender${credit === null ? "" : " (backlog)"}`,
    `${buffers(frame.receiver[place])} at the receiver`,
    credit === null ? "no credit needed: same task manager" : `credit for ${buffers(credit)}`,
    `buffer size ${bytes(frame.size[place])} of ${bytes(hello.segment_bytes)}`,
  ];
  const barriers = frame.barriers.filter(([at]) => at === place);
  for (const [, where, id] of barriers) {
    parts.push(`barrier of checkpoint ${id} ${where === "wire" ? "on the wire" : `at the ${where}`}`);
  }
  if (frame.blocked.includes(place)) parts.push("blocked: its barrier has arrived, and the subtask waits for those of other channels");
  return `${name}: ${parts.join(", ")}`;
}

// The state of a side, in words.
export function stateWords(state) {
  return state === "behind" ? "replaying" : state;
}

// What is said where a frame has no shares; a job that runs has channels.
export function withoutShares(runs) {
  return runs ? "no time has passed yet" : "does not run";
}

export function subtaskWords(vertex, place, shares, runs) {
  const name = `${subtaskName(vertex, place)} in task manager ${vertex.task_managers[place]}`;
  if (shares === undefined || shares.every((share) => share === 0)) return `${name}: ${withoutShares(runs)}`;
  const [busy, idle, pressured] = shares.map(percent);
  return `${name}: busy ${busy}, back-pressured ${pressured}, idle ${idle}`;
}

// Sums of an edge: what waits at its ends, and whether a barrier or a blocked channel is among its channels.
export function edgeSums(frame) {
  const add = (numbers) => numbers.reduce((sum, number) => sum + number, 0);
  const known = frame.credit.filter((credit) => credit !== null);
  return {
    sender: add(frame.sender),
    receiver: add(frame.receiver),
    credit: known.length > 0 ? add(known) : null,
    size: frame.size.reduce((least, size) => Math.min(least, size), Infinity),
    barriers: frame.barriers.length,
    blocked: frame.blocked.length,
    underWay: frame.under_way,
  };
}

export function edgeWords(sums) {
  const credit = sums.credit === null ? "no credit needed" : `credit for ${buffers(sums.credit)}`;
  const blocked = sums.blocked > 0 ? `, ${counted(sums.blocked, "channel")} blocked` : "";
  const waiting = `${buffers(sums.sender)} at senders, ${grouped(sums.receiver)} at receivers`;
  return `${waiting}, ${credit}, ${counted(sums.underWay, "message")} on the wire${blocked}`;
}
