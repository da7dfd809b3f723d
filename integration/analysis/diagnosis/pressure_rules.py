"""Rules over the time of subtasks: who makes others wait.

A subtask is busy, back-pressured or idle, and the three add up to its time. Back-pressure goes up the
stream: the bottleneck is the first vertex after the last one that is back-pressured, and it is busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from netstack import Series, VertexSteady

from ..known_values import complete, known, mean
from ..wording import digits, percent
from .finding import (
    BACK_PRESSURED,
    BUSY,
    HIGHLY_BACK_PRESSURED,
    Finding,
    any_of,
    costs_ms,
    is_busy,
    negation,
    share,
    span,
    span_percent,
)
from .observation import Observation

_ALTERNATES_FROM, _ALTERNATES_TO = 0.2, 0.8
"""Shares between which an average may hide that a subtask is back-pressured now wholly, now not at all."""

_EXTREME = 0.15
"""How near to 0 or 1 a second is called "not" or "wholly"."""

_MOSTLY = 0.7
"""Share of the seconds that have to be extreme."""


def operator_bound(view: Observation) -> Iterator[Finding]:
    """A vertex that is busy all the time, waits for nobody, and makes others wait."""
    for vertex in view.vertices:
        writers = [writer for _, writer in view.inputs(vertex)]
        if not is_busy(vertex) or not any_of(view.is_back_pressured(writer) for writer in writers):
            continue
        waiting = ", ".join(
            f"{writer.name} {span_percent(writer.backpressured_ms_per_s)} ({_level(writer)})"
            for writer in writers
            if known(writer.backpressured_ms_per_s)
        )
        waiting = waiting or "by Flink's word for them"
        busy = mean(vertex.busy_ms_per_s)
        some = busy is not None and busy / 1000 < BUSY
        yield Finding(
            rule="operator-bound",
            severity="problem",
            where=vertex.name,
            says="It is busy all the time, and what is before it waits: "
            + ("some of its subtasks are the bottleneck." if some else "it is the bottleneck."),
            evidence=[
                f"busy {span_percent(vertex.busy_ms_per_s)}, back-pressured "
                f"{span_percent(vertex.backpressured_ms_per_s)}; upstream back-pressured: {waiting}",
                *_work(vertex),
            ],
            next=["find out why those subtasks have more to do, before anything else"]
            if some
            else [
                "profile it, or raise its parallelism: no option of the network layer makes it faster",
                "how long data waits before it, and barriers with them, is a matter of buffers",
            ],
        )


def not_bound(view: Observation) -> Iterator[Finding]:
    """Nobody waits: the job does what its input asks of it."""
    shares = [share(complete(vertex.busy_ms_per_s) or ()) for vertex in view.vertices]
    if nobody_waits(view) is not True or not shares or None in shares:
        return
    busy, busiest = max(zip(known(shares), view.vertices, strict=True), key=lambda pair: pair[0])
    evidence = [f"no vertex is back-pressured; {busiest.name} is the busiest, {percent(busy)} of its time"]
    if busy < BUSY:
        says = "Nothing holds the job up: it is as fast as its input."
        yield Finding(rule="input-bound", severity="fine", where=busiest.name, says=says, evidence=evidence)
    elif view.inputs(busiest):
        yield Finding(
            rule="near-its-limit",
            severity="notice",
            where=busiest.name,
            says="Nobody waits for it yet, and it has hardly any time left: a little more input will make "
            "back-pressure.",
            evidence=evidence,
            next=["raise its parallelism before the load grows"],
        )
    else:
        yield Finding(
            rule="source-bound",
            severity="notice",
            where=busiest.name,
            says="The source itself is the bottleneck: whatever reads from it has time left.",
            evidence=evidence,
            next=["raise the parallelism of the source, or make reading cheaper"],
        )


def alternating(view: Observation) -> Iterator[Finding]:
    """A subtask whose average hides that it is back-pressured now wholly, now not at all."""
    for vertex, series in _with_series(view):
        for subtask, counter in enumerate(series.backpressured_ms):
            seconds = list(_shares(series, counter, view))
            extreme = [at for at in seconds if at <= _EXTREME or at >= 1 - _EXTREME]
            average = mean(seconds)
            if average is None:
                continue
            if not _ALTERNATES_FROM <= average <= _ALTERNATES_TO or len(extreme) < _MOSTLY * len(seconds):
                continue
            wholly = sum(at >= 1 - _EXTREME for at in seconds) / len(seconds)
            yield Finding(
                rule="alternating",
                severity="notice",
                where=f"{vertex.name}[{subtask}]",
                says=f"Back-pressured {percent(average)} of its time on average, but by turns: wholly in "
                f"{percent(wholly)} of the samples, and hardly at all in most others.",
                evidence=[f"{len(extreme)} of {len(seconds)} samples are below 15 % or above 85 %"],
                next=["look for what comes in bursts: windows that fire, timers, garbage collection"],
            )
            break  # its other subtasks are told by the first one


def _with_series(view: Observation) -> Iterator[tuple[VertexSteady, Series]]:
    by_name = {series.vertex: series for series in view.series}
    for vertex in view.vertices:
        if vertex.name in by_name:
            yield vertex, by_name[vertex.name]


def _shares(series: Series, counter: Sequence[float], view: Observation) -> Iterator[float]:
    """The share of its time that a subtask was back-pressured, between each two samples of the window."""
    pairs = list(zip(series.t, counter, strict=False))
    for (start, was), (end, now) in pairwise(pairs):
        if start >= view.steady.from_s and end <= view.steady.to_s and end > start:
            yield (now - was) / (end - start) / 1000


def nobody_waits(view: Observation) -> bool | None:
    """Return whether no vertex is back-pressured; None: not known."""
    return negation(any_of(view.is_back_pressured(vertex) for vertex in view.vertices))


def _level(vertex: VertexSteady) -> str:
    """Flink's word for it, of a vertex of which something is known."""
    pressed = share(vertex.backpressured_ms_per_s) or 0.0
    if pressed < BACK_PRESSURED:
        return "OK"
    return "HIGH" if pressed >= HIGHLY_BACK_PRESSURED else "LOW"


def _work(vertex: VertexSteady) -> Iterator[str]:
    """How many records it reads and what one costs, as far as that is known."""
    rates, costs = complete(vertex.records_in_per_s), costs_ms(vertex)
    if rates is not None:
        yield f"reads {digits(sum(rates))} records/s" + (f", with {span(costs)} ms a record" if costs else "")


PRESSURE_RULES = (operator_bound, not_bound, alternating)
