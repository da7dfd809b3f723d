"""Draws vertices that emit as a scenario says: a record several times, or at times, by either time.

They take the place of some that hand records on, mark or copy them. What comes out is what went in, so often,
and what is held back has to be there again after a restart. By event time the sources before them send
watermarks. While the job runs, each task's watermark follows from when its sources have emitted records: it
is never ahead of the least of theirs, and is that one when nothing is under way. No window is left that a
watermark has passed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

from flowcontrol import MAX_WATERMARK, NO_WATERMARK
from netstack import NetworkConfig

from .case import StormCase, StormVertex, Work
from .storm_operators import Broken

_SHARE = 0.35
"""Of the vertices whose place they may take."""

_REPLACED = frozenset({Work.PASS, Work.MARK, Work.COPY})
_HELD_BACK = 0.6
_BY_EVENT_TIME = 0.6
_SHORTEST_S, _TIMES_LONGER = 0.005, 60.0
_DISORDERS_S = (0.0, 0.0, 0.01, 0.2)
_INTERVALS_S = (0.005, 0.02, 0.2)


def with_emissions(chance: random.Random, vertices: Sequence[StormVertex]) -> tuple[StormVertex, ...]:
    """Return the vertices, some of which emit as the scenario says; sources have watermarks for them."""
    emitting = [
        _emitting(chance, vertex) if vertex.work in _REPLACED and chance.random() < _SHARE else vertex
        for vertex in vertices
    ]
    if not any(vertex.by_event_time for vertex in emitting):
        return tuple(emitting)
    return tuple(
        replace(vertex, out_of_orderness_s=chance.choice(_DISORDERS_S))
        if vertex.work is Work.SOURCE
        else vertex
        for vertex in emitting
    )


def with_watermarks(
    chance: random.Random, config: NetworkConfig, vertices: Sequence[StormVertex]
) -> NetworkConfig:
    """Return the settings, with watermarks now and then where there are any."""
    if not any(vertex.by_event_time for vertex in vertices):
        return config
    return replace(config, auto_watermark_interval_s=chance.choice(_INTERVALS_S))


def at_once(vertex: StormVertex) -> StormVertex:
    """Return a vertex that holds nothing back."""
    return replace(vertex, emit_every_s=0.0, by_event_time=False)


def _emitting(chance: random.Random, vertex: StormVertex) -> StormVertex:
    held_back = chance.random() < _HELD_BACK
    return replace(
        vertex,
        work=Work.EMIT,
        copies=1,
        selectivity=Fraction(chance.choice((1, 2, 3)) if held_back else chance.choice((2, 3))),
        emit_every_s=_SHORTEST_S * _TIMES_LONGER ** chance.random() if held_back else 0.0,
        by_event_time=held_back and chance.random() < _BY_EVENT_TIME,
    )


def sends_watermarks(case: StormCase, source: StormVertex) -> bool:
    """Return whether a vertex behind a source waits for watermarks."""
    behind, left = {source.name}, [source.name]
    while left:
        reached = left.pop()
        targets = {target for origin, target, _ in case.edges if origin == reached} - behind
        behind |= targets
        left += targets
    return any(vertex.by_event_time for vertex in case.vertices if vertex.name in behind)


def has_watermarks(case: StormCase) -> bool:
    """Return whether any are sent in a case."""
    return any(vertex.by_event_time for vertex in case.vertices)


class EventTimes:
    """The watermarks that the tasks of an attempt may have, by what its sources have emitted so far.

    A source has emitted its latest record between two looks. Data in flight that was restored may hold
    watermarks of the attempt before, which were behind the clock when this one began.
    """

    def __init__(self, case: StormCase, attempt: Any) -> None:
        self._case = case
        self._behind_ms = {
            vertex.name: round((vertex.out_of_orderness_s or 0.0) * 1e3) + 1 for vertex in case.vertices
        }
        self._begun_ms: dict[object, int] = {}
        self._looks: dict[object, tuple[int, int]] = {}  # position and time of the look before, by source
        self._emitted: dict[object, float] = {}  # when the latest record was emitted, at the latest
        self._watches = has_watermarks(case)

    def check(self, attempt: Any, *, idle: bool) -> None:
        """Check the watermarks and windows of all subtasks; `idle`: no message is under way between them.

        Raises:
            Broken: a watermark is ahead of what the sources have emitted, or of the clock, or behind it for
                no reason; or a window is kept that a watermark has passed.
        """
        if not self._watches:
            return
        least: dict[tuple[str, int], float] = {}
        present = list(attempt.present)
        restored = any(each.recovered_from is not None for each in present)
        for subtask in present:  # each vertex stands behind those that it reads from
            place = subtask.name, subtask.index
            flow = getattr(subtask, "watermarks", None)
            if flow is None:
                least[place] = self._of_source(subtask)
                continue
            least[place] = min(least[each.name, each.index] for each in subtask.upstream)
            lowest, now_ms = flow._valve.lowest, flow.clock.now_ms
            most = least[place]
            if restored:
                most = max(most, self._begun_ms.setdefault(subtask, now_ms))
            if lowest > most:
                raise Broken(f"{subtask} has the watermark {lowest}, and its sources emitted up to {most}")
            if lowest != MAX_WATERMARK and lowest >= now_ms:
                raise Broken(f"{subtask} has read the watermark {lowest} at {now_ms} ms")
            self._check_windows(subtask, flow, lowest)
            if idle and _has_read_all(subtask):
                sent = min(_sent(each) for each in subtask.upstream)
                if lowest < sent:
                    raise Broken(f"{subtask} has the watermark {lowest}, and its inputs have sent {sent}")

    def _of_source(self, source: Any) -> float:
        """The highest watermark that a source may have sent."""
        watermarks = getattr(source, "_watermarks", None)
        if watermarks is None:
            return NO_WATERMARK
        position, now_ms = source.position, watermarks.clock.now_ms
        before = self._looks.get(source)
        if before is None or before[0] != position:
            self._emitted[source] = now_ms
        self._looks[source] = position, now_ms
        sent = watermarks._sent
        if source.data_ended or (sent == MAX_WATERMARK and source._index == len(source._block)):
            return inf
        most = self._emitted[source] - self._behind_ms[source.name]
        if sent > most:
            raise Broken(f"{source} has sent the watermark {sent}, and its latest record allows {most}")
        return most

    def _check_windows(self, subtask: Any, flow: Any, lowest: int) -> None:
        windows = () if flow.windows is None else flow.windows._windows
        passed = [end for end in windows if end - 1 <= lowest != NO_WATERMARK]
        if passed:
            raise Broken(f"{subtask} keeps the window that ends at {passed[0]} ms, and has read {lowest}")


def _has_read_all(subtask: Any) -> bool:
    """Whether a task has read all that those before it have sent, which stand still."""
    if subtask.mail or subtask._waiting.name != "INPUT":
        return False
    if any(channel.queue_length for gate in subtask.gates for channel in gate.channels):
        return False
    return all(
        (each._waiting.name in ("INPUT", "CONSUMERS", "TIME") or each.ended)
        and not each.mail
        and not any(output.partition.queued.length for output in each.outputs)
        for each in subtask.upstream
    )


def _sent(subtask: Any) -> int:
    """The latest watermark that a task has sent; it stands still."""
    flow = getattr(subtask, "watermarks", None)
    if flow is not None:
        return int(flow._valve.lowest)
    watermarks = getattr(subtask, "_watermarks", None)
    return NO_WATERMARK if watermarks is None else int(watermarks._sent)
