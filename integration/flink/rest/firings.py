"""Vertices that emit at times, whatever they read: windows, timers, sources with such in their chain.

They show it by looks between which they read and emitted nothing, and others with all at once. A filter that
lets little through has quiet looks, too, but few records between them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...analysis.known_values import complete, highest, middle, quotient
from .cluster_job import FlinkJob, FlinkVertex
from .loads import LEAST_RECORDS
from .sampling import Samples, SubtaskSamples
from .steady_tasks import Sample

_QUIET = 0.4
"""Share of the looks in which nothing was emitted: then a vertex emits at times, or rarely."""

_MORE_THAN_CHANCE = 10
"""Records for each look that never leave so many looks quiet if they come one by one."""

_HELD = 0.5
"""Who is back-pressured for more of its time emits a buffer whenever there is room for one."""

_WINDOW = re.compile(
    r"(?<!Session)Windows\((\d+)(?:, (\d+))?|(?:size|slide|step|max_size)=\[(\d+) (ms|s|min|h)\b"
)
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}

_ROUND = (1, 2, 3, 5, 10, 15, 20, 30, 60, 90, 120, 180, 300, 600, 900, 1800, 3600)
"""Seconds that people give to windows."""

Look = tuple[float, Sample]
"""What a subtask answered, and when in seconds."""


class Firings(NamedTuple):
    """A vertex emits `records` in all its subtasks together every `period_s` seconds; 0: that is not told."""

    period_s: float
    records: float


class _Firing(NamedTuple):
    """What a subtask emitted between two quiet looks; `whole` unless it may have begun or ended unseen."""

    begun_s: float
    ended_s: float
    records: float
    whole: bool


def firings_of(job: FlinkJob, vertex: FlinkVertex, samples: Samples) -> Firings | None:
    """Return how often a vertex emits, and how much; None: it emits as it reads, or rarely."""
    clock = _moments(samples)
    looks = [_looks(subtask, clock, is_source=not job.inputs(vertex)) for subtask in samples[vertex.id]]
    emitted = [
        after["records_out"] - before["records_out"]
        for of_subtask in looks
        for (_, before), (_, after) in pairwise(of_subtask)
    ]
    total = sum(of_subtask[-1][1]["records_out"] for of_subtask in looks if of_subtask)
    if total < LEAST_RECORDS or not emitted or emitted.count(0) < _QUIET * len(emitted):
        return None
    firings = [_firings(of_subtask) for of_subtask in looks]
    period_s = window_s(vertex.description)
    by_itself = sum(emitted) >= _MORE_THAN_CHANCE * len(emitted) and _held(samples[vertex.id]) < _HELD
    if period_s is None and by_itself:
        period_s = _period_s(firings)
    if period_s is None:
        return None
    records = complete(_records(of_subtask, period_s) for of_subtask in firings)
    return Firings(period_s, sum(records) if records is not None else 0.0)


def window_s(description: str) -> float | None:
    """Return how often the windows that a vertex's description names are emitted, in seconds.

    Of a sliding window that is its slide, of a cumulating one its step, of any other its size.
    """
    ends = []
    for size_ms, slide_ms, number, unit in _WINDOW.findall(description):
        ends.append(float(slide_ms or size_ms) / 1e3 if size_ms else float(number) * _UNITS[unit])
    return min(ends, default=None)


def account_s(sample: Mapping[str, float]) -> float:
    """Return the seconds since the start by a task's own account; 0 where it keeps none."""
    return sum(sample.get(part, 0.0) for part in ("busy_ms", "idle_ms", "backpressured_ms")) / 1e3


def _held(subtasks: Sequence[SubtaskSamples]) -> float:
    """Share of its time in which the subtask was back-pressured that was most; 0 where none tells."""
    shares = (quotient(each.increase("backpressured_ms"), each.accounted_s) for each in subtasks)
    return (highest(shares) or 0.0) / 1e3


def _moments(samples: Samples) -> list[float]:
    """When each round of looks was, by the accounts of those that keep one; empty where nobody does."""
    of_tasks = [
        [account_s(sample) for sample in subtask.samples]
        for subtasks in samples.values()
        for subtask in subtasks
        if subtask.accounted_s
    ]
    rounds = max(map(len, of_tasks), default=0)
    complete_ones = [times for times in of_tasks if len(times) == rounds]
    return [middle(times) or 0.0 for times in zip(*complete_ones, strict=True)]


def _looks(subtask: SubtaskSamples, clock: Sequence[float], *, is_source: bool) -> list[Look]:
    """The answers of different moments; of a vertex with input those between which it has read something."""
    times = clock if len(clock) == len(subtask.samples) else subtask.times
    looks: list[Look] = []
    for time, sample in zip(times, subtask.samples, strict=False):
        if "records_out" in sample:
            last = looks[-1] if looks else None
            read = sample.get("records_in", 0.0)
            if last is None or (time > last[0] if is_source else read > last[1].get("records_in", 0.0)):
                looks.append((time, sample))
    return looks


def _firings(looks: Sequence[Look]) -> list[_Firing]:
    """What came between quiet looks; a look in the middle of it divides nothing."""
    firings: list[_Firing] = []
    begun_s: float | None = None
    records, whole = 0.0, False
    for number, ((early, before), (_, after)) in enumerate(pairwise(looks)):
        grown = after["records_out"] - before["records_out"]
        if grown and begun_s is None:
            begun_s, records, whole = early, 0.0, number > 0
        records += grown
        if begun_s is not None and not grown:
            firings.append(_Firing(begun_s, early, records, whole))
            begun_s = None
    if begun_s is not None:
        firings.append(_Firing(begun_s, looks[-1][0], records, whole=False))
    return firings


def _period_s(firings: Sequence[Sequence[_Firing]]) -> float | None:
    """Time between two emissions; the roundest number that fits."""
    gap = middle(
        (late.begun_s + late.ended_s - early.begun_s - early.ended_s) / 2
        for of_subtask in firings
        for early, late in pairwise(of_subtask)
    )
    if not gap:
        return None
    return float(min(_ROUND, key=lambda seconds: abs(math.log(seconds / gap))))


def _records(firings: Sequence[_Firing], period_s: float) -> float | None:
    """Records of one emission of a subtask; None where none was seen by itself."""
    single = [firing for firing in firings if firing.ended_s - firing.begun_s <= period_s]
    whole = [firing.records for firing in single if firing.whole]
    return middle(whole or [firing.records for firing in single])
