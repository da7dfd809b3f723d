"""The rules by which pitfalls are recognised: what must be so in a run with debloating for each of them.

A rule looks at one run, a scenario and the last window of its result, and yields what it finds at a vertex
with the figures that speak for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from netstack import Edge, Result, Scenario, Steady, Vertex, VertexSteady, channel_counts

from ..analysis.diagnosis.debloat_rules import MISSED, at_minimum, is_larger, record_bytes
from ..analysis.diagnosis.finding import BUSY
from ..analysis.known_values import highest, known, lowest, total
from ..analysis.wording import digits, milliseconds, size

MOST_CHANNELS = 200
"""Channels into a gate beyond which Flink's documentation expects debloating to fail with its defaults."""

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


@dataclass(frozen=True, slots=True)
class DebloatedRun:
    """A run with debloating, and what it was run for; the result may be without its series."""

    label: str
    scenario: Scenario
    result: Result

    @property
    def window(self) -> Steady:
        """The last window of the result."""
        return self.result.steady[-1]

    @property
    def target_ms(self) -> float:
        """What debloating aims at."""
        return 1e3 * self.scenario.config.debloat_target_s

    @property
    def reaction_s(self) -> float:
        """The time over which the size of buffers is averaged: period times samples."""
        return self.scenario.config.debloat_period_s * self.scenario.config.debloat_samples

    @property
    def missed(self) -> str:
        """By how much checkpoints miss the target, as the end of a sentence."""
        if not self.scenario.takes_checkpoints:
            return f"the target is {milliseconds(self.target_ms)}"
        took = self.window.end_to_end_ms
        what = "no checkpoint completes" if took is None else f"a checkpoint takes {milliseconds(took)}"
        return f"{what} against a target of {milliseconds(self.target_ms)}"

    def consumers(self) -> Iterator[tuple[Vertex, VertexSteady]]:
        """The vertices with input, and what was measured of them."""
        for steady in self.window.vertices:
            vertex = self.scenario.vertex(steady.name)
            if self.scenario.inputs(vertex):
                yield vertex, steady


class Symptom(NamedTuple):
    """A pitfall at a vertex: the figures that speak for it, and how bad it is among its like."""

    vertex: str
    evidence: str
    severity: float


Rule = Callable[[DebloatedRun], Iterator[Symptom]]


def slow_input(run: DebloatedRun) -> Iterator[Symptom]:
    """Yield vertices with inputs of uneven rates whose barriers wait for each other."""
    for vertex, steady in run.consumers():
        rates = sorted((_rate(run, edge), edge.source) for edge in run.scenario.inputs(vertex))
        alignment, delay = steady.alignment_ms_max_subtask or 0.0, steady.start_delay_ms or 0.0
        if len(rates) < 2 or rates[-1][0] < UNEVEN * rates[0][0]:
            continue
        if alignment < LEAST_ALIGNMENT * (alignment + delay) or alignment < LEAST_ALIGNMENT * run.target_ms:
            continue
        (slow, slow_name), (fast, fast_name) = rates[0], rates[-1]
        yield Symptom(
            vertex.name,
            f"{vertex.name} reads {digits(fast)}/s from {fast_name} and {digits(slow)}/s from {slow_name}; "
            f"the last barrier comes {milliseconds(alignment)} after the first, and inputs that have "
            f"theirs are not read meanwhile; {run.missed}",
            alignment,
        )


def large_records(run: DebloatedRun) -> Iterator[Symptom]:
    """Yield vertices into which a record needs several buffers."""
    for vertex, steady in run.consumers():
        record, least = record_bytes(steady), lowest(steady.debloatedBufferSize)
        if record is None or least is None or not is_larger(record, least):
            continue
        yield Symptom(
            vertex.name,
            f"records of {size(record)} fill buffers of {size(least)} into {vertex.name}, "
            f"{record / least:.2g} of them each; less than whole records cannot be in flight, and "
            f"{run.missed}",
            record / least,
        )


def minimum_size(run: DebloatedRun) -> Iterator[Symptom]:
    """Yield vertices whose buffers cannot shrink any more although the target is missed."""
    config = run.scenario.config
    for vertex, steady in run.consumers():
        estimated = highest(steady.estimatedTimeToConsumeBuffersMs) or 0.0
        smallest = lowest(steady.debloatedBufferSize)
        if smallest is None or not at_minimum(smallest, config) or estimated < MISSED * run.target_ms:
            continue
        rate = lowest(steady.bytes_in_per_s) or 0.0
        yield Symptom(
            vertex.name,
            f"buffers into {vertex.name} are at the minimum of {size(config.min_segment_bytes)}, a subtask "
            f"reads {size(rate)} a second, and what is in flight to it lasts {milliseconds(estimated)}; "
            f"{run.missed}",
            estimated / run.target_ms,
        )


def high_parallelism(run: DebloatedRun) -> Iterator[Symptom]:
    """Yield vertices with a gate of more channels than Flink's documentation trusts debloating with."""
    config = run.scenario.config
    for vertex, steady in run.consumers():
        channels = max(_most_channels(run.scenario, edge) for edge in run.scenario.inputs(vertex))
        if channels <= MOST_CHANNELS:
            continue
        queued = highest(steady.inputQueueLength) or 0.0
        estimated = highest(steady.estimatedTimeToConsumeBuffersMs) or 0.0
        yield Symptom(
            vertex.name,
            f"{channels} channels lead into a subtask of {vertex.name}, with "
            f"{config.exclusive_buffers_per_channel} buffers each and {config.floating_buffers_per_gate} for "
            f"all; {queued:.0f} are queued and last "
            f"{milliseconds(estimated)}; {run.missed}",
            estimated,
        )


def window_bursts(run: DebloatedRun) -> Iterator[Symptom]:
    """Yield vertices that become many times slower for less time than debloating averages over."""
    for vertex, _ in run.consumers():
        bursts = [
            (cost, lasted)
            for (_, before), (at, cost), lasted in _changes(run, vertex)
            if before and cost >= BURST * before and lasted < run.reaction_s and at >= run.window.from_s
        ]
        if not bursts:
            continue
        cost, _ = max(bursts)
        yield Symptom(
            vertex.name,
            f"a record at {vertex.name} takes up to {milliseconds(1e3 * cost)} in "
            f"{_times(len(bursts), 'burst')}; {_worst(run)}",
            cost,
        )


def moving_load(run: DebloatedRun) -> Iterator[Symptom]:
    """Yield vertices whose load changes again before the size of buffers has followed."""
    for vertex, _ in run.consumers():
        factors = [
            max(before, cost) / min(before, cost)
            for (_, before), (at, cost), lasted in _changes(run, vertex)
            if min(before, cost) and lasted < run.reaction_s and at >= run.window.from_s
        ]
        moves = [factor for factor in factors if factor >= MOVING]
        if len(moves) < 2 or max(moves) >= BURST:
            continue
        yield Symptom(
            vertex.name,
            f"the cost of a record at {vertex.name} changes by factors of up to {max(moves):.3g}, and again "
            f"within {run.reaction_s:.3g} s (period times samples), "
            f"{_times(len(moves), 'time')}; {_worst(run)}",
            max(moves),
        )


def skewed_consumers(run: DebloatedRun) -> Iterator[Symptom]:
    """Yield vertices of which some subtasks are busy all the time while others are not."""
    for vertex, steady in run.consumers():
        busy = [1e-3 * value for value in known(steady.busy_ms_per_s)]
        if len(busy) < 2 or max(busy) < BUSY or min(busy) > IDLE * max(busy):
            continue
        slowest, mean = steady.start_delay_ms_max_subtask, steady.start_delay_ms_mean_subtask
        sizes = known(steady.debloatedBufferSize)
        buffers = f", with buffers of {size(min(sizes))} and of {size(max(sizes))}" if sizes else ""
        delays = ""
        if slowest is not None:
            to_slowest, on_average = milliseconds(slowest), milliseconds(mean)
            delays = f"; the barrier takes {to_slowest} to the slowest, {on_average} on average"
        yield Symptom(
            vertex.name,
            f"the subtasks of {vertex.name} are busy for {100 * min(busy):.0f} to {100 * max(busy):.0f} % of "
            f"their time{buffers}{delays}; {run.missed}",
            max(busy) / max(min(busy), 1e-3),
        )


RULES: Mapping[str, Rule] = {
    "slow-input": slow_input,
    "large-records": large_records,
    "minimum-size": minimum_size,
    "high-parallelism": high_parallelism,
    "window-bursts": window_bursts,
    "moving-load": moving_load,
    "skewed-consumers": skewed_consumers,
}
"""The rule for each pitfall, by its name."""


def _rate(run: DebloatedRun, edge: Edge) -> float:
    """Records per second over an edge, of all subtasks; each edge of a vertex carries all its records."""
    steady = next(vertex for vertex in run.window.vertices if vertex.name == edge.source)
    outputs = len(run.scenario.outputs(run.scenario.vertex(edge.source)))
    return (total(steady.records_out_per_s) or 0.0) / outputs


def _most_channels(scenario: Scenario, edge: Edge) -> int:
    """The most channels of an edge into one subtask."""
    producers, consumers = scenario.vertex(edge.source).parallelism, scenario.vertex(edge.target).parallelism
    return max(channel_counts(edge.ship, producers, consumers))


def _changes(
    run: DebloatedRun, vertex: Vertex
) -> Iterator[tuple[tuple[float, float], tuple[float, float], float]]:
    """The steps of a vertex's cost with the one before, as (time, cost), and how long each lasted."""
    steps = [*vertex.service, (run.scenario.duration_s, 0.0)]
    for before, step, after in zip(steps, steps[1:], steps[2:], strict=False):
        yield before, step, after[0] - step[0]


def _worst(run: DebloatedRun) -> str:
    """How the longest checkpoint compares with an ordinary one."""
    window = run.window
    if window.end_to_end_ms is None or window.end_to_end_ms_max is None:
        return run.missed
    usual, longest = milliseconds(window.end_to_end_ms), milliseconds(window.end_to_end_ms_max)
    return (
        f"a checkpoint takes {usual}, but up to {longest} against a target of {milliseconds(run.target_ms)}"
    )


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
