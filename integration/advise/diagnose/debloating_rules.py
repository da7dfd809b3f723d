"""Rules on buffer debloating: whether it reaches its target, and the documented ways in which it fails.

The rules that `tune` applies are called pitfalls. A scenario in ``docs/examples/pitfalls/`` shows each of
them. Flink's page on network memory tuning ("Limitations") lists most; users of Flink reported the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from netstack import VertexSteady

from ...base.number_text import counted, digits, milliseconds, percent, size
from ...base.optional_figures import complete, highest, known, lowest, total
from .back_pressure_rules import full_readers
from .checkpoint_rules import phases, without_pause
from .findings import (
    BUSY,
    MISSED,
    MOST_CHANNELS,
    Finding,
    Observation,
    at_minimum,
    record_bytes,
    share_of_interval,
    span,
)

_OFF_TARGET = 1.5
"""The target is missed if data waits at least this many times as long, although buffers could be smaller."""

_MUCH = 0.3
"""Checkpoints disturb debloating if one is in progress for at least this share of the time."""

UNEVEN = 4.0
"""The slowest input of a vertex counts as slow if the fastest one has at least this multiple of its rate."""

LEAST_ALIGNMENT = 0.2
"""Uneven inputs are the cause of a barrier's delay if alignment is at least this share of the delay."""

IDLE = 0.6
"""The load counts as skewed if the least busy subtask has at most this share of the busiest one's busy time.
"""

BURST = 10.0
"""A change of the load counts as a burst if the cost of a record rises at least by this factor."""

MOVING = 1.5
"""The load counts as moving if the cost of a record changes at least by this factor."""


def at_the_minimum(view: Observation) -> Iterator[Finding]:
    """Find vertices whose buffers are minimal while the target is missed."""
    for vertex, _ in stuck_at_the_minimum(view):
        yield Finding(
            rule="debloating-at-its-floor",
            severity="problem",
            where=vertex.name,
            says="Buffers already have their minimum size, but still hold more data than the target allows.",
            evidence=[_sizes(vertex), _estimate(vertex, view)],
            next=[
                "Use fewer buffers, where the version has options for them, or a smaller "
                "taskmanager.memory.min-segment-size.",
                "Or raise the parallelism, or take unaligned checkpoints.",
            ],
        )


def off_target(view: Observation) -> Iterator[Finding]:
    """Find vertices that miss the target though buffers could be smaller."""
    for vertex, sizes in _debloated(view):
        estimated = highest(vertex.estimatedTimeToConsumeBuffersMs)
        if estimated is None or estimated < _OFF_TARGET * view.target_ms:
            continue
        if complete(vertex.debloatedBufferSize) is None or at_minimum(min(sizes), view.config):
            continue
        yield Finding(
            rule="debloating-misses-its-target",
            severity="notice",
            where=vertex.name,
            says="It takes longer than the target to consume the data in flight.",
            evidence=[_sizes(vertex), _estimate(vertex, view), *_drained(view)],
            next=[
                "If checkpoints drain the buffers, set a longer execution.checkpointing.interval.",
                "If the load changes fast, set a shorter buffer-debloat.period, or fewer "
                "buffer-debloat.samples.",
                "Check whether the inputs of a subtask are unequal: debloating measures all of them "
                "together.",
            ],
        )


def at_the_maximum(view: Observation) -> Iterator[Finding]:
    """Find vertices whose buffers keep the full segment size, so that debloating changes nothing."""
    for vertex, sizes in _debloated(view):
        pressed = view.holds_up(vertex)
        if complete(vertex.debloatedBufferSize) is None or min(sizes) < view.config.segment_bytes:
            continue
        if complete(vertex.estimatedTimeToConsumeBuffersMs) is None or pressed is None:
            continue
        yield Finding(
            rule="debloating-idle",
            severity="notice" if pressed else "fine",
            where=vertex.name,
            says="Debloating changes nothing: full-size buffers are consumed within the target.",
            evidence=[_sizes(vertex), _estimate(vertex, view)],
            next=["Set a smaller target if checkpoints are too slow."] if pressed else [],
        )


def smaller_than_a_record(view: Observation) -> Iterator[Finding]:
    """Find vertices whose debloated buffers hold less than one record."""
    for vertex, record, _ in smaller_than_records(view):
        yield Finding(
            rule="records-larger-than-buffers",
            severity="problem",
            where=vertex.name,
            says="A record is larger than a debloated buffer. Only whole records are in flight, so "
            "smaller buffers do not reduce the data in flight.",
            evidence=[_sizes(vertex), f"a record has {size(record)} on average"],
            next=["Set a larger target, so that a buffer holds a record.", "Or take unaligned checkpoints."],
        )


def _debloated(view: Observation) -> Iterator[tuple[VertexSteady, list[float]]]:
    """Yield the vertices whose input is debloated, with the known buffer sizes of their subtasks."""
    for vertex in view.consumers:
        sizes = known(vertex.debloatedBufferSize)
        if sizes and view.config.debloat_enabled:
            yield vertex, sizes


def stuck_at_the_minimum(view: Observation) -> Iterator[tuple[VertexSteady, float]]:
    """Yield vertices that miss the target with buffers of minimum size, and the wait of their data in ms."""
    for vertex, sizes in _debloated(view):
        estimated = highest(vertex.estimatedTimeToConsumeBuffersMs)
        missed = estimated is not None and estimated >= MISSED * view.target_ms
        if estimated is not None and missed and at_minimum(min(sizes), view.config):
            yield vertex, estimated


def smaller_than_records(view: Observation) -> Iterator[tuple[VertexSteady, float, float]]:
    """Yield vertices whose records need several buffers, with the bytes of a record and of a buffer."""
    for vertex, sizes in _debloated(view):
        record = record_bytes(vertex)
        if record is not None and record > min(sizes):
            yield vertex, record, min(sizes)


def _drained(view: Observation) -> list[str]:
    """Return evidence that aligned checkpoints, which empty the buffers, take much of the time."""
    interval, times = view.config.checkpoint_interval_s, phases(view)
    if not interval or times is None or view.config.takes_unaligned_checkpoints:
        return []
    under_way = share_of_interval(times.end_to_end_ms, interval)
    if under_way < _MUCH:
        return []
    return [
        f"aligned checkpoints are in progress {percent(min(1.0, under_way))} of the time: they drain "
        "the buffers, so debloating sees few buffers in use and may make each one larger"
    ]


def _sizes(vertex: VertexSteady) -> str:
    return f"debloatedBufferSize {span(vertex.debloatedBufferSize, ',.0f')} bytes"


def _estimate(vertex: VertexSteady, view: Observation) -> str:
    estimated = span(vertex.estimatedTimeToConsumeBuffersMs, ",.0f")
    return f"estimatedTimeToConsumeBuffersMs {estimated}, target {milliseconds(view.target_ms)}"


def slow_input(view: Observation) -> Iterator[Finding]:
    """Find vertices with inputs of uneven rates, where the barriers of fast inputs wait for the slow ones."""
    for vertex in view.consumers:
        rates = sorted((_rate(view, writer), writer.name) for _, writer in view.inputs(vertex))
        alignment, delay = vertex.alignment_ms_max_subtask or 0.0, vertex.start_delay_ms or 0.0
        if len(rates) < 2 or rates[-1][0] < UNEVEN * rates[0][0]:
            continue
        if alignment < LEAST_ALIGNMENT * max(alignment + delay, view.target_ms):
            continue
        (slow, slow_name), (fast, fast_name) = rates[0], rates[-1]
        yield _pitfall(
            rule="slow-input",
            where=vertex.name,
            weight=alignment,
            says="a slow input holds up the other inputs of its vertex",
            evidence=f"{vertex.name} reads {digits(fast)} records/s from {fast_name}, but only "
            f"{digits(slow)} from {slow_name}; the last barrier arrives {milliseconds(alignment)} after the "
            f"first, and until then, inputs whose barrier has arrived are not read; {_missed(view)}",
            remedy="Speed up the slow input, or raise its parallelism. Or take unaligned checkpoints: they "
            "do not wait for its barriers.",
        )


def large_records(view: Observation) -> Iterator[Finding]:
    """Find vertices whose debloated buffers hold less than one record."""
    for vertex, record, least in smaller_than_records(view):
        yield _pitfall(
            rule="large-records",
            where=vertex.name,
            weight=record / least,
            says="records are larger than the debloated buffers",
            evidence=f"each record of {size(record)} fills {record / least:.2g} buffers of {size(least)} "
            f"into {vertex.name}; since only whole records can be in flight, {_missed(view)}",
            remedy="Set a longer target, or make records smaller. Or take unaligned checkpoints: they "
            "overtake all records except the one in progress.",
        )


def minimum_size(view: Observation) -> Iterator[Finding]:
    """Find vertices whose buffers are minimal while the target is missed."""
    for vertex, estimated in stuck_at_the_minimum(view):
        rate = lowest(vertex.bytes_in_per_s) or 0.0
        yield _pitfall(
            rule="minimum-size",
            where=vertex.name,
            weight=estimated / view.target_ms,
            says="buffers have their minimum size, but still hold too much data",
            evidence=f"the buffers into {vertex.name} have the minimum size of "
            f"{size(view.config.min_segment_bytes)}, a subtask reads {size(rate)} per second, and its "
            f"data in flight lasts for {milliseconds(estimated)}; {_missed(view)}",
            remedy="Set a longer target: the present one has no effect. Use fewer channels or, with Flink "
            "1.x, fewer buffers: they hold less data. Or take unaligned checkpoints, which overtake the data "
            "in the buffers.",
        )


def high_parallelism(view: Observation) -> Iterator[Finding]:
    """Find vertices with a gate of more than `MOST_CHANNELS` channels."""
    config = view.config
    for vertex in view.consumers:
        channels = max(view.channels_by_gate(vertex))
        if channels <= MOST_CHANNELS:
            continue
        queued = highest(vertex.inputQueueLength) or 0.0
        estimated = highest(vertex.estimatedTimeToConsumeBuffersMs) or 0.0
        yield _pitfall(
            rule="high-parallelism",
            where=vertex.name,
            weight=estimated,
            says="a gate has more channels than debloating can serve",
            evidence=f"{channels} channels lead into a subtask of {vertex.name}, with "
            f"{config.exclusive_buffers_per_channel} buffers for each and "
            f"{config.floating_buffers_per_gate} for all; {queued:.0f} buffers are queued, with data "
            f"for {milliseconds(estimated)}; {_missed(view)}",
            remedy="Connect fewer subtasks (rescale in place of rebalance), or take unaligned checkpoints. "
            "With Flink 1.x, configure as many floating buffers as channels.",
        )


def window_bursts(view: Observation) -> Iterator[Finding]:
    """Find vertices that become many times slower, for less time than debloating averages over."""
    for vertex in view.consumers:
        costs = [
            change.after for change in _changes(view, vertex) if change.after >= BURST * change.before > 0
        ]
        if not costs:
            continue
        yield _pitfall(
            rule="window-bursts",
            where=vertex.name,
            weight=max(costs),
            says="a burst blocks the task, which handles no barrier in the meantime",
            evidence=f"in {counted(len(costs), 'burst')}, a record at {vertex.name} takes up to "
            f"{milliseconds(1000.0 * max(costs))}; {_worst(view)}",
            remedy="Spread the times at which windows fire (offsets, smaller windows), or raise the "
            "parallelism. Another target or unaligned checkpoints do not help: a barrier cannot overtake "
            "a record in progress.",
        )


def moving_load(view: Observation) -> Iterator[Finding]:
    """Find vertices whose load changes again before the size of buffers has followed."""
    for vertex in view.consumers:
        moves = [change.factor for change in _changes(view, vertex) if change.factor >= MOVING]
        if len(moves) < 2 or max(moves) >= BURST:
            continue
        yield _pitfall(
            rule="moving-load",
            where=vertex.name,
            weight=max(moves),
            says="the load changes faster than debloating can follow",
            evidence=f"the cost of a record at {vertex.name} changes by factors of up to {max(moves):.3g}. "
            f"In {counted(len(moves), 'case')} it changes again within {_reaction_s(view):.3g} s (period "
            f"times samples); {_worst(view)}",
            remedy="Lower buffer-debloat.period or buffer-debloat.samples, which makes sizes noisier, or "
            "take unaligned checkpoints with a timeout.",
        )


def skewed_consumers(view: Observation) -> Iterator[Finding]:
    """Find vertices of which only some subtasks are busy, or only some are full and cause back-pressure."""
    for vertex in view.consumers:
        busy = [1e-3 * value for value in known(vertex.busy_ms_per_s)]
        uneven = len(busy) > 1 and max(busy) >= BUSY and min(busy) <= IDLE * max(busy)
        if not uneven and not (full_readers(vertex) and view.holds_up(vertex)):
            continue
        sizes = known(vertex.debloatedBufferSize)
        buffers = f", with buffers of {size(min(sizes))} and of {size(max(sizes))}" if sizes else ""
        yield _pitfall(
            rule="skewed-consumers",
            where=vertex.name,
            weight=max(busy) / max(min(busy), 1e-3),
            says="some subtasks are slower than the others",
            evidence=f"the subtasks of {vertex.name} are busy for {100 * min(busy):.0f} to "
            f"{100 * max(busy):.0f} % of their time{buffers}{_slowest(vertex)}; {_missed(view)}",
            remedy="Spread the load, by other keys or more parallelism: the slowest subtask decides, "
            "whatever the target.",
        )


def back_to_back(view: Observation) -> Iterator[Finding]:
    """Find that checkpoints have hardly a pause between them, so that blocked channels mislead debloating."""
    for took_ms, interval in without_pause(view):
        yield _pitfall(
            rule="back-to-back",
            where="checkpoints",
            weight=took_ms / interval,
            says="a checkpoint begins as soon as the last one ends",
            evidence=f"a checkpoint takes {milliseconds(took_ms)}, and the interval is "
            f"{milliseconds(1000.0 * interval)}; each checkpoint drains the buffers, and debloating "
            "takes blocked channels for empty ones",
            remedy="Set a longer execution.checkpointing.interval until checkpoints are faster. Predictions "
            "for checkpoints without a pause are the least certain.",
        )


def _pitfall(*, rule: str, where: str, weight: float, says: str, evidence: str, remedy: str) -> Finding:
    return Finding(
        rule=rule,
        severity="problem",
        where=where,
        says=says,
        evidence=[evidence],
        next=[remedy],
        weight=weight,
    )


def _rate(view: Observation, writer: VertexSteady) -> float:
    """Return the records per second that a writer sends over each of its exchanges.

    Every exchange gets all records, and the writer's rate counts a record once for each exchange.
    """
    return (total(writer.records_out_per_s) or 0.0) / len(view.outputs(writer))


def _reaction_s(view: Observation) -> float:
    """Return the time over which debloating averages: its period times its number of samples."""
    return view.config.debloat_period_s * view.config.debloat_samples


class _Change(NamedTuple):
    """A temporary change in the cost of a record. Costs are in seconds."""

    before: float
    after: float

    @property
    def factor(self) -> float:
        """Ratio of the greater cost to the smaller one; 0 if a cost is 0."""
        least = min(self)
        return max(self) / least if least else 0.0


def _changes(view: Observation, vertex: VertexSteady) -> Iterator[_Change]:
    """Yield load changes of a vertex in the window that end before debloating has averaged over them."""
    if view.scenario is None:
        return
    steps = [*view.scenario.vertex(vertex.name).service, (view.scenario.duration_s, 0.0)]
    for (_, before), (at, cost), (end, _) in zip(steps, steps[1:], steps[2:], strict=False):
        if end - at < _reaction_s(view) and at >= view.steady.from_s:
            yield _Change(before, cost)


def _missed(view: Observation) -> str:
    """Return the duration of a checkpoint and the target, as the end of a sentence."""
    target = milliseconds(view.target_ms)
    if view.scenario is not None and not view.scenario.takes_checkpoints:
        return f"the target is {target}"
    took = view.steady.end_to_end_ms
    what = "no checkpoint completes" if took is None else f"a checkpoint takes {milliseconds(took)}"
    return f"{what} against a target of {target}"


def _worst(view: Observation) -> str:
    """Return the durations of a typical and of the longest checkpoint, as the end of a sentence."""
    usual, longest = view.steady.end_to_end_ms, view.steady.end_to_end_ms_max
    if usual is None or longest is None:
        return _missed(view)
    return (
        f"a checkpoint takes {milliseconds(usual)}, but up to {milliseconds(longest)}, against a target "
        f"of {milliseconds(view.target_ms)}"
    )


def _slowest(vertex: VertexSteady) -> str:
    """Return the start delay of the slowest subtask, as part of a sentence; empty if unknown."""
    slowest, mean = vertex.start_delay_ms_max_subtask, vertex.start_delay_ms_mean_subtask
    if slowest is None:
        return ""
    return (
        f"; the barrier reaches the slowest subtask after {milliseconds(slowest)}, and a subtask after "
        f"{milliseconds(mean)} on average"
    )
