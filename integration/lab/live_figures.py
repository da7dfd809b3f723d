"""Figures of a running job: shares of the subtasks' time, rates, sizes, and checkpoints that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import isnan

import numpy as np

from netstack import Job, SubtaskSample

from .page_messages import CheckpointRow, Row, Shares, Side

Times = tuple[float, float, float]
"""How long a subtask was busy, idle and back-pressured so far, in seconds."""

_NOTHING: Shares = (0.0, 0.0, 0.0)


class Figures:
    """What the subtasks of a job have done since they were asked last."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._parallelisms = [vertex.parallelism for vertex in job.scenario.vertices]
        self._ends = list(accumulate(self._parallelisms))
        self._sources = [vertex.source is not None for vertex in job.scenario.vertices]
        self._before: Sequence[Times] = ()
        self._attempt: object = None
        self._row_before: Sequence[SubtaskSample] = ()
        self._row_attempt: object = None
        self._row_at = 0.0

    def shares(self) -> list[list[Shares]]:
        """Return the shares of each subtask's time since this was asked last: busy, idle, back-pressured."""
        attempt = self._job.attempt
        times = [] if attempt is None else attempt.times()
        before = self._before if attempt is self._attempt else []
        self._before, self._attempt = times, attempt
        if not times:
            return [[_NOTHING] * count for count in self._parallelisms]
        pairs = zip(times, before or [(0.0, 0.0, 0.0)] * len(times), strict=True)
        return self._by_vertex([_shares(now, then) for now, then in pairs])

    def row(self, side: Side, now: float, in_flight_bytes: Sequence[float]) -> Row | None:
        """Return what was done since the last row, at a sample of the job; None of an attempt's first one."""
        attempt, samples = self._job.attempt, self._job.latest
        before = self._row_before if attempt is self._row_attempt and self._row_before else []
        since, self._row_at = now - self._row_at, now
        self._row_before, self._row_attempt = samples, attempt
        if not samples or not before or since <= 0:
            return None
        pairs = zip(map(_times, samples), map(_times, before), strict=True)
        shares = self._by_vertex([_shares(*pair) for pair in pairs])
        rates, sizes, times = [], [], []
        for source, end, count in zip(self._sources, self._ends, self._parallelisms, strict=True):
            mine = range(end - count, end)
            field = "records_out" if source else "records_in"
            records = sum(getattr(samples[n], field) - getattr(before[n], field) for n in mine)
            rates.append(records / since)
            sizes.append(min(_known(samples[n].debloated_buffer_size for n in mine), default=None))
            longest_ms = max(_known(samples[n].estimated_time_to_consume_ms for n in mine), default=None)
            times.append(None if longest_ms is None else longest_ms / 1e3)
        busy, idle, backpressured = ([_mean(vertex, place) for vertex in shares] for place in range(3))
        return Row(side, now, busy, idle, backpressured, rates, sizes, times, list(in_flight_bytes))

    def _by_vertex(self, values: Sequence[Shares]) -> list[list[Shares]]:
        ends = zip(self._ends, self._parallelisms, strict=True)
        return [list(values[end - count : end]) for end, count in ends]


def _times(sample: SubtaskSample) -> Times:
    return sample.busy_s, sample.idle_s, sample.backpressured_s


def _shares(now: Times, then: Times) -> Shares:
    busy, idle, backpressured = (max(0.0, later - earlier) for later, earlier in zip(now, then, strict=True))
    total = busy + idle + backpressured
    if total <= 0:
        return _NOTHING
    return round(busy / total, 4), round(idle / total, 4), round(backpressured / total, 4)


def _mean(shares: Sequence[Shares], place: int) -> float | None:
    return round(sum(each[place] for each in shares) / len(shares), 4)


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not isnan(value)]


def checkpoint_row(side: Side, job: Job, place: int) -> CheckpointRow:
    """Return what became of a checkpoint, by its place in what the job has recorded."""
    recorder = job.recorder
    head = recorder.checkpoints[place]
    parts = [recorder.parts_of(number) for number in range(len(job.scenario.vertices))]

    def longest(field: str) -> float | None:
        values = np.concatenate([of_vertex[field][place] for of_vertex in parts])
        return None if np.isnan(values).all() else float(np.nanmax(values))

    persisted = np.concatenate([of_vertex["alignment_persisted_bytes"][place] for of_vertex in parts])
    return CheckpointRow(
        side=side,
        id=head.checkpoint_id,
        t=head.triggered_at,
        status=head.status,
        kind=head.checkpoint_type,
        end_to_end_s=head.duration_s,
        start_delay_s=longest("start_delay_s"),
        alignment_s=longest("alignment_s"),
        sync_s=longest("sync_s"),
        async_s=longest("async_s"),
        state_bytes=head.state_bytes,
        in_flight_bytes=int(np.nansum(persisted)),
        failure=head.failure,
    )
