"""Rules over the time of subtasks: who makes others wait, and whether the subtasks of a vertex are unequal.

A subtask is busy, back-pressured or idle, and the three add up to its time. Back-pressure goes up the
stream: the bottleneck is the first vertex after the last one that is back-pressured, and it is busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from netstack import Series, VertexSteady

from ..known_values import Values, complete, highest, known, mean
from ..wording import digits, percent
from .finding import (
    BACK_PRESSURED,
    BUSY,
    HIGHLY_BACK_PRESSURED,
    SKEW,
    Finding,
    costs_ms,
    is_busy,
    is_full,
    share,
    span,
    span_percent,
)
from .observation import Observation
from .pools import out_pools_upstream
from .unaligned import may_overtake

_ALTERNATES_FROM, _ALTERNATES_TO = 0.2, 0.8
"""Shares between which an average may hide that a subtask is back-pressured now wholly, now not at all."""

_EXTREME = 0.15
"""How near to 0 or 1 a second is called "not" or "wholly"."""

_MOSTLY = 0.7
"""Share of the seconds that have to be extreme."""


def operator_bound(view: Observation) -> Iterator[Finding]:
    """A vertex that is busy all the time, waits for nobody, and makes others wait."""
    for vertex in view.consumers:
        if not is_busy(vertex) or not view.holds_up(vertex):
            continue
        waiting = ", ".join(
            f"{writer.name} {span_percent(writer.backpressured_ms_per_s)} ({_level(writer)})"
            for _, writer in view.inputs(vertex)
            if known(writer.backpressured_ms_per_s)
        )
        waiting = waiting or "by Flink's word for them"
        some = _only_some(vertex)
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


def _only_some(vertex: VertexSteady) -> bool:
    """Whether a busy vertex has time left, over all its subtasks."""
    busy = mean(vertex.busy_ms_per_s)
    return busy is not None and busy / 1000 < BUSY


def at_its_limit(view: Observation) -> Iterator[Finding]:
    """A vertex that is busy all the time, and holds up nobody who is known to wait."""
    for vertex in view.consumers:
        held = view.holds_up(vertex)
        if not is_busy(vertex) or held:
            continue
        evidence = [f"busy {span_percent(vertex.busy_ms_per_s)}", *_work(vertex)]
        if held is False:
            yield Finding(
                rule="near-its-limit",
                severity="notice",
                where=vertex.name,
                says="Nobody waits for it yet, and it has hardly any time left: a little more input will "
                "make back-pressure.",
                evidence=evidence,
                next=["raise its parallelism before the load grows"],
            )
            continue
        writers = view.may_wait([writer for _, writer in view.inputs(vertex)])
        yield Finding(
            rule="at-its-limit",
            severity="problem",
            where=vertex.name,
            says=f"{'Some of its subtasks are' if _only_some(vertex) else 'It is'} busy all the time, at the "
            f"limit; whether {writers} waits for it is not told.",
            evidence=evidence,
            next=[
                f"see whether {writers} emits less than it would: then this is the bottleneck",
                "profile it, or raise its parallelism: no option of the network layer makes it faster",
            ],
        )


def not_bound(view: Observation) -> Iterator[Finding]:
    """Nobody waits: the job does what its input asks of it."""
    shares = [share(complete(vertex.busy_ms_per_s) or ()) for vertex in view.vertices]
    if view.nobody_waits is not True or not shares or None in shares:
        return
    busy, busiest = max(zip(known(shares), view.vertices, strict=True), key=lambda pair: pair[0])
    evidence = [f"no vertex is back-pressured; {busiest.name} is the busiest, {percent(busy)} of its time"]
    if busy < BUSY:
        says = "Nothing holds the job up: it is as fast as its input."
        yield Finding(rule="input-bound", severity="fine", where=busiest.name, says=says, evidence=evidence)
    elif not view.inputs(busiest):
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
    by_name = {series.vertex: series for series in view.series}
    for series in known(by_name.get(vertex.name) for vertex in view.vertices):
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
                where=f"{series.vertex}[{subtask}]",
                says=f"Back-pressured {percent(average)} of its time on average, but by turns: wholly in "
                f"{percent(wholly)} of the samples, and hardly at all in most others.",
                evidence=[f"{len(extreme)} of {len(seconds)} samples are below 15 % or above 85 %"],
                next=["look for what comes in bursts: windows that fire, timers, garbage collection"],
            )
            break  # its other subtasks are told by the first one


def _shares(series: Series, counter: Sequence[float], view: Observation) -> Iterator[float]:
    """The share of its time that a subtask was back-pressured, between each two samples of the window."""
    pairs = list(zip(series.t, counter, strict=False))
    for (start, was), (end, now) in pairwise(pairs):
        if start >= view.steady.from_s and end <= view.steady.to_s and end > start:
            yield (now - was) / (end - start) / 1000


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


def skewed_records(view: Observation) -> Iterator[Finding]:
    """Subtasks that get more records than others."""
    for vertex in view.consumers:
        uneven = _unevenness(vertex.records_in_per_s)
        if uneven is None or uneven < SKEW:
            continue
        most = vertex.records_in_per_s.index(highest(vertex.records_in_per_s))
        yield Finding(
            rule="skewed-records",
            severity="notice",
            where=vertex.name,
            says=f"{vertex.name}[{most}] gets {uneven:.1f} times as many records as the mean.",
            evidence=[f"records/s by subtask: {span(vertex.records_in_per_s, ',.0f')}"],
            next=["look at the keys: a salt, or a local aggregation before the exchange, spreads them"],
        )


def skewed_cost(view: Observation) -> Iterator[Finding]:
    """Subtasks for which a record costs more than for others, and that have no time left for it."""
    for vertex in view.consumers:
        costs = costs_ms(vertex)
        dearer = _unevenness(costs or ())
        if costs is None or dearer is None or dearer < SKEW or not is_busy(vertex):
            continue
        dearest = _dearest(vertex)
        yield Finding(
            rule="skewed-cost",
            severity="notice",
            where=vertex.name,
            says=f"A record costs {vertex.name}[{dearest}] {dearer:.1f} times as much as the mean.",
            evidence=[f"ms busy for a record, by subtask: {span(costs)}"],
            next=["compare the machines, the state and the keys of the subtasks"],
        )


def unequal_writers(view: Observation) -> Iterator[Finding]:
    """A reader whose writers are unequal: some fill their channels, others hardly use them."""
    avoided = "; unaligned checkpoints or an aligned timeout avoid them" if may_overtake(view) else ""
    for vertex in view.consumers:
        usage = complete(used for _, writer in view.inputs(vertex) for used in writer.outPoolUsage) or []
        full = [used for used in usage if is_full([used])]
        if not full or min(usage) >= max(full) / 2:
            continue
        yield Finding(
            rule="unequal-writers",
            severity="notice",
            where=vertex.name,
            says=f"{len(full)} of the {len(usage)} subtasks that write to it are full, the others are not: "
            "barriers come early on some channels and late on others.",
            evidence=[out_pools_upstream(view, vertex)],
            next=[
                f"expect long alignments{avoided}",
                "debloating gives all channels of a gate buffers of one size, whatever waits on each",
            ],
        )


def _unevenness(values: Values) -> float | None:
    """The greatest over the mean; None if there is nothing to compare, or not all is known."""
    all_values = complete(values) or []
    average = mean(all_values)
    return max(all_values) / average if average and len(all_values) > 1 else None


def _dearest(vertex: VertexSteady) -> int:
    """The subtask that is busy longest with a record; all figures are known."""
    pairs = zip(known(vertex.busy_ms_per_s), known(vertex.records_in_per_s), strict=True)
    costs = [busy / rate if rate else 0.0 for busy, rate in pairs]
    return costs.index(max(costs))
