"""Draws vertices that emit as a scenario says: a record several times, or at times, by either time.

They take the place of some that hand records on, mark or copy them. What comes out is what went in, so often,
and what is held back has to be there again after a restart. By event time the sources before them send
watermarks; while the job runs, no window may be left that a watermark has passed, nor may event time be ahead
of the clock.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
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


def check_event_time(attempt: Any) -> None:
    """Check the watermarks and windows of all subtasks of an attempt.

    Raises:
        Broken: a window is kept that a watermark has passed, or event time is ahead of the clock.
    """
    for subtask in attempt.subtasks:
        flow = getattr(subtask, "watermarks", None)
        if flow is None:
            continue
        lowest = flow._valve.lowest
        if lowest not in (NO_WATERMARK, MAX_WATERMARK) and lowest >= flow.clock.now_ms:
            raise Broken(f"{subtask} has read the watermark {lowest} at {flow.clock.now_ms} ms")
        windows = () if flow.windows is None else flow.windows._windows
        passed = [end for end in windows if end - 1 <= lowest != NO_WATERMARK]
        if passed:
            raise Broken(f"{subtask} keeps the window that ends at {passed[0]} ms, and has read {lowest}")
