"""Rules on buffer debloating: whether it reaches its target, and the documented ways in which it fails.

The rules that `tune` applies are called pitfalls. A scenario in ``docs/examples/pitfalls/`` shows each of
them. Flink's page on network memory tuning ("Limitations") lists most; users of Flink reported the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from netstack import VertexSteady

from ...base.optional_figures import complete, highest, known, lowest, quotient, total
from ...runs.job_load import SATURATED
from .back_pressure_rules import full_readers
from .checkpoint_rules import back_to_back as checkpoints_back_to_back
from .checkpoint_rules import phases
from .conditions import MISSED, MOST_CHANNELS, at_minimum, record_bytes, share_of_interval
from .findings import Found, rule
from .observation import Observation
from .words import when

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


_SIZES = "debloatedBufferSize {vertex.debloatedBufferSize:whole span} bytes"
_ESTIMATE = (
    "estimatedTimeToConsumeBuffersMs {vertex.estimatedTimeToConsumeBuffersMs:whole span}, target "
    "{view.target_ms:ms}"
)


def _debloated(view: Observation) -> Iterator[tuple[VertexSteady, list[float]]]:
    """Yield the vertices whose input is debloated, with the known buffer sizes of their subtasks."""
    for vertex in view.consumers:
        sizes = known(vertex.debloatedBufferSize)
        if sizes and view.config.debloat_enabled:
            yield vertex, sizes


def _stuck_at_the_minimum(view: Observation) -> Iterator[Found]:
    """Find vertices whose buffers are minimal while the target is missed."""
    for vertex, sizes in _debloated(view):
        estimated = highest(vertex.estimatedTimeToConsumeBuffersMs)
        missed = estimated is not None and estimated >= MISSED * view.target_ms
        if estimated is not None and missed and at_minimum(min(sizes), view.config):
            yield Found(
                vertex.name,
                vertex=vertex,
                estimated_ms=estimated,
                bytes_per_s=lowest(vertex.bytes_in_per_s) or 0.0,
                excess=quotient(estimated, view.target_ms),
            )


at_the_minimum = rule(
    "debloating-at-its-floor",
    "problem",
    says="Buffers already have their minimum size, but still hold more data than the target allows.",
    evidence=[_SIZES, _ESTIMATE],
    next=[
        "Use fewer buffers, where the version has options for them, or a smaller "
        "taskmanager.memory.min-segment-size.",
        "Or raise the parallelism, or take unaligned checkpoints.",
    ],
)(_stuck_at_the_minimum)

minimum_size = rule(
    "minimum-size",
    "problem",
    weight="excess",
    says="buffers have their minimum size, but still hold too much data",
    evidence=[
        "the buffers into {where} have the minimum size of {view.config.min_segment_bytes:size}, a "
        "subtask reads {bytes_per_s:size} per second, and its data in flight lasts for "
        "{estimated_ms:ms}; {view:missed}"
    ],
    next=[
        "Set a longer target: the present one has no effect. Use fewer channels or, with Flink 1.x, "
        "fewer buffers: they hold less data. Or take unaligned checkpoints, which overtake the data in "
        "the buffers."
    ],
)(_stuck_at_the_minimum)


def _smaller_than_a_record(view: Observation) -> Iterator[Found]:
    """Find vertices whose debloated buffers hold less than one record."""
    for vertex, sizes in _debloated(view):
        record, least = record_bytes(vertex), min(sizes)
        if record is not None and record > least:
            yield Found(
                vertex.name, vertex=vertex, record=record, least=least, buffers=quotient(record, least)
            )


smaller_than_a_record = rule(
    "records-larger-than-buffers",
    "problem",
    says="A record is larger than a debloated buffer. Only whole records are in flight, so smaller "
    "buffers do not reduce the data in flight.",
    evidence=[_SIZES, "a record has {record:size} on average"],
    next=["Set a larger target, so that a buffer holds a record.", "Or take unaligned checkpoints."],
)(_smaller_than_a_record)

large_records = rule(
    "large-records",
    "problem",
    weight="buffers",
    says="records are larger than the debloated buffers",
    evidence=[
        "each record of {record:size} fills {buffers:.2g} buffers of {least:size} into {where}; since "
        "only whole records can be in flight, {view:missed}"
    ],
    next=[
        "Set a longer target, or make records smaller. Or take unaligned checkpoints: they overtake all "
        "records except the one in progress."
    ],
)(_smaller_than_a_record)


@rule(
    "debloating-misses-its-target",
    "notice",
    says="It takes longer than the target to consume the data in flight.",
    evidence=[
        _SIZES,
        _ESTIMATE,
        when(
            "drained",
            "aligned checkpoints are in progress {drained:percent} of the time: they drain the buffers, "
            "so debloating sees few buffers in use and may make each one larger",
        ),
    ],
    next=[
        "If checkpoints drain the buffers, set a longer execution.checkpointing.interval.",
        "If the load changes fast, set a shorter buffer-debloat.period, or fewer buffer-debloat.samples.",
        "Check whether the inputs of a subtask are unequal: debloating measures all of them together.",
    ],
)
def off_target(view: Observation) -> Iterator[Found]:
    """Find vertices that miss the target though buffers could be smaller."""
    for vertex, sizes in _debloated(view):
        estimated = highest(vertex.estimatedTimeToConsumeBuffersMs)
        if estimated is None or estimated < _OFF_TARGET * view.target_ms:
            continue
        if complete(vertex.debloatedBufferSize) is not None and not at_minimum(min(sizes), view.config):
            yield Found(vertex.name, vertex=vertex, drained=_drained_share(view))


def _drained_share(view: Observation) -> float:
    """Return the share of the time in which aligned checkpoints, which empty the buffers, are in progress.

    0: it is too small to disturb debloating, or unknown.
    """
    interval, times = view.config.checkpoint_interval_s, phases(view)
    if not interval or times is None or view.config.takes_unaligned_checkpoints:
        return 0.0
    under_way = share_of_interval(times.end_to_end_ms, interval)
    return min(1.0, under_way) if under_way >= _MUCH else 0.0


@rule(
    "debloating-idle",
    "fine",
    says="Debloating changes nothing: full-size buffers are consumed within the target.",
    evidence=[_SIZES, _ESTIMATE],
    next=[when("pressed", "Set a smaller target if checkpoints are too slow.")],
)
def at_the_maximum(view: Observation) -> Iterator[Found]:
    """Find vertices whose buffers keep the full segment size. The case: whether their writers wait."""
    for vertex, sizes in _debloated(view):
        pressed = view.holds_up(vertex)
        if complete(vertex.debloatedBufferSize) is None or min(sizes) < view.config.segment_bytes:
            continue
        if complete(vertex.estimatedTimeToConsumeBuffersMs) is None or pressed is None:
            continue
        yield Found(vertex.name, severity="notice" if pressed else "fine", vertex=vertex, pressed=pressed)


@rule(
    "slow-input",
    "problem",
    weight="alignment_ms",
    says="a slow input holds up the other inputs of its vertex",
    evidence=[
        "{where} reads {fast[0]:digits} records/s from {fast[1]}, but only {slow[0]:digits} from "
        "{slow[1]}; the last barrier arrives {alignment_ms:ms} after the first, and until then, inputs "
        "whose barrier has arrived are not read; {view:missed}"
    ],
    next=[
        "Speed up the slow input, or raise its parallelism. Or take unaligned checkpoints: they do not "
        "wait for its barriers."
    ],
)
def slow_input(view: Observation) -> Iterator[Found]:
    """Find vertices with inputs of uneven rates, where the barriers of fast inputs wait for the slow ones."""
    for vertex in view.consumers:
        rates = sorted((_rate(view, writer), writer.name) for _, writer in view.inputs(vertex))
        alignment, delay = vertex.alignment_ms_max_subtask or 0.0, vertex.start_delay_ms or 0.0
        if len(rates) < 2 or rates[-1][0] < UNEVEN * rates[0][0]:
            continue
        if alignment >= LEAST_ALIGNMENT * max(alignment + delay, view.target_ms):
            yield Found(vertex.name, slow=rates[0], fast=rates[-1], alignment_ms=alignment)


@rule(
    "high-parallelism",
    "problem",
    weight="estimated_ms",
    says="a gate has more channels than debloating can serve",
    evidence=[
        "{channels} channels lead into a subtask of {where}, with "
        "{view.config.exclusive_buffers_per_channel} buffers for each and "
        "{view.config.floating_buffers_per_gate} for all; {queued:.0f} buffers are queued, with data for "
        "{estimated_ms:ms}; {view:missed}"
    ],
    next=[
        "Connect fewer subtasks (rescale in place of rebalance), or take unaligned checkpoints. With "
        "Flink 1.x, configure as many floating buffers as channels."
    ],
)
def high_parallelism(view: Observation) -> Iterator[Found]:
    """Find vertices with a gate of more than `MOST_CHANNELS` channels."""
    for vertex in view.consumers:
        channels = max(view.channels_by_gate(vertex))
        if channels > MOST_CHANNELS:
            yield Found(
                vertex.name,
                channels=channels,
                queued=highest(vertex.inputQueueLength) or 0.0,
                estimated_ms=highest(vertex.estimatedTimeToConsumeBuffersMs) or 0.0,
            )


@rule(
    "window-bursts",
    "problem",
    weight="cost_s",
    says="a burst blocks the task, which handles no barrier in the meantime",
    evidence=["in {bursts:bursts}, a record at {where} takes up to {cost_ms:ms}; {view:worst}"],
    next=[
        "Spread the times at which windows fire (offsets, smaller windows), or raise the parallelism. "
        "Another target or unaligned checkpoints do not help: a barrier cannot overtake a record in "
        "progress."
    ],
)
def window_bursts(view: Observation) -> Iterator[Found]:
    """Find vertices that become many times slower, for less time than debloating averages over."""
    for vertex in view.consumers:
        costs = [
            change.after for change in _changes(view, vertex) if change.after >= BURST * change.before > 0
        ]
        if costs:
            yield Found(vertex.name, bursts=len(costs), cost_s=max(costs), cost_ms=1000.0 * max(costs))


@rule(
    "moving-load",
    "problem",
    weight="factor",
    says="the load changes faster than debloating can follow",
    evidence=[
        "the cost of a record at {where} changes by factors of up to {factor:.3g}. In {moves:cases} it "
        "changes again within {within_s:.3g} s (period times samples); {view:worst}"
    ],
    next=[
        "Lower buffer-debloat.period or buffer-debloat.samples, which makes sizes noisier, or take "
        "unaligned checkpoints with a timeout."
    ],
)
def moving_load(view: Observation) -> Iterator[Found]:
    """Find vertices whose load changes again before the size of buffers has followed."""
    for vertex in view.consumers:
        moves = [change.factor for change in _changes(view, vertex) if change.factor >= MOVING]
        if len(moves) >= 2 and max(moves) < BURST:
            yield Found(vertex.name, moves=len(moves), factor=max(moves), within_s=_reaction_s(view))


@rule(
    "skewed-consumers",
    "problem",
    weight="ratio",
    says="some subtasks are slower than the others",
    evidence=[
        "the subtasks of {where} are busy for {least:.0f} to {most:.0f} % of their time"
        "{vertex.debloatedBufferSize:two sizes}{vertex:slowest}; {view:missed}"
    ],
    next=[
        "Spread the load, by other keys or more parallelism: the slowest subtask decides, whatever the "
        "target."
    ],
)
def skewed_consumers(view: Observation) -> Iterator[Found]:
    """Find vertices of which only some subtasks are busy, or only some are full and cause back-pressure."""
    for vertex in view.consumers:
        busy = [1e-3 * value for value in known(vertex.busy_ms_per_s)]
        uneven = len(busy) > 1 and max(busy) >= SATURATED and min(busy) <= IDLE * max(busy)
        if uneven or (full_readers(vertex) and view.holds_up(vertex)):
            yield Found(
                vertex.name,
                vertex=vertex,
                least=100 * min(busy),
                most=100 * max(busy),
                ratio=max(busy) / max(min(busy), 1e-3),
            )


back_to_back = rule(
    "back-to-back",
    "problem",
    weight="weight",
    says="a checkpoint begins as soon as the last one ends",
    evidence=[
        "a checkpoint takes {took_ms:ms}, and the interval is {interval_ms:ms}; each checkpoint drains "
        "the buffers, and debloating takes blocked channels for empty ones"
    ],
    next=[
        "Set a longer execution.checkpointing.interval until checkpoints are faster. Predictions for "
        "checkpoints without a pause are the least certain."
    ],
)(checkpoints_back_to_back.condition)


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


RULES = (at_the_minimum, off_target, smaller_than_a_record, at_the_maximum)
"""Rules of `diagnose` on debloating, in the order of their findings."""

PITFALLS = (
    slow_input,
    large_records,
    minimum_size,
    high_parallelism,
    window_bursts,
    moving_load,
    skewed_consumers,
    back_to_back,
)
"""The rules that `tune` applies to each point of a sweep that has debloating on."""
