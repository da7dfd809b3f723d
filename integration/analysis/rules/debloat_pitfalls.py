"""The documented ways in which debloating fails, its pitfalls: what must be so in a run for each of them.

Each has a scenario in ``docs/examples/pitfalls/`` that shows it. Most are named by Flink's page on network
memory tuning ("Limitations"), the others by its users.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from netstack import VertexSteady

from ..known_values import highest, known, lowest, total
from ..wording import counted, digits, milliseconds, size
from .checkpoints import without_pause
from .debloating import smaller_than_records, stuck_at_the_minimum
from .finding import BUSY, MOST_CHANNELS, Finding
from .observation import Observation
from .pools import full_readers

UNEVEN = 4.0
"""Quotient of the rates of two inputs from which on one of them counts as slow."""

LEAST_ALIGNMENT = 0.2
"""Share of the way of a barrier into a vertex that alignment must make up for the inputs to be at fault."""

IDLE = 0.6
"""Quotient of the busy times of two subtasks below which the load is skewed."""

BURST = 10.0
"""Factor by which a record becomes more expensive for a moment in a burst."""

MOVING = 1.5
"""Factor by which the cost of a record changes in a load that moves."""


def slow_input(view: Observation) -> Iterator[Finding]:
    """Vertices with inputs of uneven rates whose barriers wait for each other."""
    for vertex in view.consumers:
        rates = sorted((_rate(view, writer), writer.name) for _, writer in view.inputs(vertex))
        alignment, delay = vertex.alignment_ms_max_subtask or 0.0, vertex.start_delay_ms or 0.0
        if len(rates) < 2 or rates[-1][0] < UNEVEN * rates[0][0]:
            continue
        if alignment < LEAST_ALIGNMENT * max(alignment + delay, view.target_ms):
            continue
        (slow, slow_name), (fast, fast_name) = rates[0], rates[-1]
        yield _pitfall(
            "slow-input",
            vertex,
            alignment,
            "a slow input holds up the others of its vertex",
            f"{vertex.name} reads {digits(fast)}/s from {fast_name} and {digits(slow)}/s from "
            f"{slow_name}; the last barrier comes {milliseconds(alignment)} after the first, and inputs "
            f"that have theirs are not read meanwhile; {_missed(view)}",
            "Speed up the slow input or give it more parallelism, or join it elsewhere; unaligned "
            "checkpoints do not wait for its barriers.",
        )


def large_records(view: Observation) -> Iterator[Finding]:
    """Vertices into which a record needs several buffers."""
    for vertex, record, least in smaller_than_records(view):
        yield _pitfall(
            "large-records",
            vertex,
            record / least,
            "records are larger than the debloated buffers",
            f"records of {size(record)} fill buffers of {size(least)} into {vertex.name}, "
            f"{record / least:.2g} of them each; less than whole records cannot be in flight, and "
            f"{_missed(view)}",
            "Take a longer target, or make records smaller; unaligned checkpoints overtake all but "
            "the one in progress.",
        )


def minimum_size(view: Observation) -> Iterator[Finding]:
    """Vertices whose buffers cannot shrink any more although the target is missed."""
    for vertex, estimated in stuck_at_the_minimum(view):
        rate = lowest(vertex.bytes_in_per_s) or 0.0
        yield _pitfall(
            "minimum-size",
            vertex,
            estimated / view.target_ms,
            "buffers are as small as they may be, and still too many",
            f"buffers into {vertex.name} are at the minimum of {size(view.config.min_segment_bytes)}, a "
            f"subtask reads {size(rate)} a second, and what is in flight to it lasts "
            f"{milliseconds(estimated)}; {_missed(view)}",
            "Take a longer target, this one changes nothing; fewer channels or, with Flink 1.x, "
            "fewer buffers hold less; unaligned checkpoints overtake what they hold.",
        )


def high_parallelism(view: Observation) -> Iterator[Finding]:
    """Vertices with a gate of more channels than Flink's documentation trusts debloating with."""
    config = view.config
    for vertex in view.consumers:
        channels = max(view.channels_by_gate(vertex))
        if channels <= MOST_CHANNELS:
            continue
        queued = highest(vertex.inputQueueLength) or 0.0
        estimated = highest(vertex.estimatedTimeToConsumeBuffersMs) or 0.0
        yield _pitfall(
            "high-parallelism",
            vertex,
            estimated,
            "a gate has more channels than debloating can serve",
            f"{channels} channels lead into a subtask of {vertex.name}, with "
            f"{config.exclusive_buffers_per_channel} buffers each and "
            f"{config.floating_buffers_per_gate} for all; {queued:.0f} are queued and last "
            f"{milliseconds(estimated)}; {_missed(view)}",
            "Connect fewer subtasks (rescale in place of rebalance), or use unaligned "
            "checkpoints; with Flink 1.x, as many floating buffers as channels help.",
        )


def window_bursts(view: Observation) -> Iterator[Finding]:
    """Vertices that become many times slower for less time than debloating averages over."""
    for vertex in view.consumers:
        costs = [
            change.after for change in _changes(view, vertex) if change.after >= BURST * change.before > 0
        ]
        if not costs:
            continue
        yield _pitfall(
            "window-bursts",
            vertex,
            max(costs),
            "a burst blocks the task, and no barrier is handled meanwhile",
            f"a record at {vertex.name} takes up to {milliseconds(1e3 * max(costs))} in "
            f"{counted(len(costs), 'burst')}; {_worst(view)}",
            "Spread the firing of windows (offsets, smaller windows), or use more parallelism; "
            "neither a target nor unaligned checkpoints pass a record in progress.",
        )


def moving_load(view: Observation) -> Iterator[Finding]:
    """Vertices whose load changes again before the size of buffers has followed."""
    for vertex in view.consumers:
        moves = [change.factor for change in _changes(view, vertex) if change.factor >= MOVING]
        if len(moves) < 2 or max(moves) >= BURST:
            continue
        yield _pitfall(
            "moving-load",
            vertex,
            max(moves),
            "the load moves faster than debloating follows",
            f"the cost of a record at {vertex.name} changes by factors of up to {max(moves):.3g}, and "
            f"again within {_reaction_s(view):.3g} s (period times samples), "
            f"{counted(len(moves), 'time')}; {_worst(view)}",
            "Lower buffer-debloat.period or .samples, which makes sizes noisier, or use unaligned "
            "checkpoints with a timeout.",
        )


def skewed_consumers(view: Observation) -> Iterator[Finding]:
    """Vertices of which some subtasks are busy all the time, or hold up the writers, while others are not."""
    for vertex in view.consumers:
        busy = [1e-3 * value for value in known(vertex.busy_ms_per_s)]
        uneven = len(busy) > 1 and max(busy) >= BUSY and min(busy) <= IDLE * max(busy)
        if not uneven and not (full_readers(vertex) and view.holds_up(vertex)):
            continue
        sizes = known(vertex.debloatedBufferSize)
        buffers = f", with buffers of {size(min(sizes))} and of {size(max(sizes))}" if sizes else ""
        yield _pitfall(
            "skewed-consumers",
            vertex,
            max(busy) / max(min(busy), 1e-3),
            "some consumers are slower than the others",
            f"the subtasks of {vertex.name} are busy for {100 * min(busy):.0f} to {100 * max(busy):.0f} "
            f"% of their time{buffers}{_slowest(vertex)}; {_missed(view)}",
            "Spread the load (other keys, more parallelism); the slowest consumer decides, "
            "whatever the target.",
        )


def back_to_back(view: Observation) -> Iterator[Finding]:
    """Checkpoints that leave hardly a pause, so that debloating is misled by blocked channels."""
    followed = without_pause(view)
    if followed is None:
        return
    took_ms, interval = followed
    yield Finding(
        rule="back-to-back",
        severity="problem",
        where="checkpoints",
        says="one checkpoint follows the other",
        evidence=[
            f"a checkpoint takes {milliseconds(took_ms)}, every {milliseconds(1e3 * interval)}; "
            "each drains the buffers, and debloating takes blocked channels for empty ones"
        ],
        next=[
            "Take a longer execution.checkpointing.interval until checkpoints are faster; what is predicted "
            "of those without a pause is the least sure."
        ],
        weight=took_ms / interval,
    )


def _pitfall(
    rule: str, vertex: VertexSteady, weight: float, says: str, evidence: str, remedy: str
) -> Finding:
    return Finding(
        rule=rule,
        severity="problem",
        where=vertex.name,
        says=says,
        evidence=[evidence],
        next=[remedy],
        weight=weight,
    )


def _rate(view: Observation, writer: VertexSteady) -> float:
    """Records per second over one of a vertex's exchanges, of all subtasks; each carries all its records."""
    return (total(writer.records_out_per_s) or 0.0) / len(view.outputs(writer))


def _reaction_s(view: Observation) -> float:
    """The time over which the size of buffers is averaged: period times samples."""
    return view.config.debloat_period_s * view.config.debloat_samples


class _Change(NamedTuple):
    """A change of what a record costs, in seconds."""

    before: float
    after: float

    @property
    def factor(self) -> float:
        """By how much it changes, up or down; 0 where one of both is nothing."""
        least = min(self)
        return max(self) / least if least else 0.0


def _changes(view: Observation, vertex: VertexSteady) -> Iterator[_Change]:
    """The changes of a vertex's load in the window that last for less time than debloating averages over."""
    if view.scenario is None:
        return
    steps = [*view.scenario.vertex(vertex.name).service, (view.scenario.duration_s, 0.0)]
    for (_, before), (at, cost), (end, _) in zip(steps, steps[1:], steps[2:], strict=False):
        if end - at < _reaction_s(view) and at >= view.steady.from_s:
            yield _Change(before, cost)


def _missed(view: Observation) -> str:
    """By how much checkpoints miss the target, as the end of a sentence."""
    target = milliseconds(view.target_ms)
    if view.scenario is not None and not view.scenario.takes_checkpoints:
        return f"the target is {target}"
    took = view.steady.end_to_end_ms
    what = "no checkpoint completes" if took is None else f"a checkpoint takes {milliseconds(took)}"
    return f"{what} against a target of {target}"


def _worst(view: Observation) -> str:
    """How the longest checkpoint compares with an ordinary one."""
    usual, longest = view.steady.end_to_end_ms, view.steady.end_to_end_ms_max
    if usual is None or longest is None:
        return _missed(view)
    return (
        f"a checkpoint takes {milliseconds(usual)}, but up to {milliseconds(longest)} against a target of "
        f"{milliseconds(view.target_ms)}"
    )


def _slowest(vertex: VertexSteady) -> str:
    """How long a barrier takes to the slowest subtask, where that is known."""
    slowest, mean = vertex.start_delay_ms_max_subtask, vertex.start_delay_ms_mean_subtask
    if slowest is None:
        return ""
    return f"; the barrier takes {milliseconds(slowest)} to the slowest, {milliseconds(mean)} on average"
