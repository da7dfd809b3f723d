"""Emulation of a job to check the computed figures of `job_size.py`.

For the check, a job is emulated twice with each seed. The first run has the options of the job, and aligned
checkpoints so rare that all queues fill again before the next checkpoint. The time of a barrier between two
vertices is then the time to drain the queued data. The second run has a debloat target that cannot be met,
and so shows the minimum drain time. Two more runs test the memory needed to start: one has the computed
number of buffers, and the other one buffer less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import msgspec

from buffers import InsufficientBuffers
from netstack import Result, Scenario, Steady, VertexSteady

from ...base.optional_figures import highest, known, lowest, mean_of_known
from ...runs.emulating import emulate
from ...runs.reference_comparison import Spread
from ...runs.run_lengths import SETTLES_S, SHIFT_S, undisturbed
from ...runs.seeds import Done, reads_paths, run_seeds
from .job_size import JobSize, share_of_slowest

CHECKPOINTS = 8
"""Number of checkpoints in each run. The result is the median of their times."""

RUNS = 2
"""Number of emulations with each seed."""

LEAST_TARGET_S = 0.001

_SETTLES_SMALL_S = 5.0
"""Time in seconds until sizes near the minimum have settled. The starting size is close to the minimum."""


class ConsumerCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of a vertex: medians and ranges over seeds; None: not measured."""

    name: str
    bytes_per_s: Spread | None
    """Rate into one subtask."""
    queued_buffers: Spread | None
    """Maximum number of buffers and events in one subtask's gates."""
    in_flight_bytes: Spread | None
    """Bytes in flight to one subtask: in senders, on the wire and in its gates.

    None: the senders have other consumers, or the subtasks are not equally fast.
    """
    drain_ms: Spread | None
    debloated_bytes: Spread | None
    least_drain_ms: Spread | None


class MemoryCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the job starts with its computed buffers, and with one less in the largest task manager."""

    buffers: int
    starts: bool
    starts_with_less: bool


class JobCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The emulated figures of a job."""

    seeds: list[int]
    emulated_seconds: float
    """Emulated seconds of each run of the job with its own options."""
    consumers: list[ConsumerCheck]
    memory: MemoryCheck | None
    """Check of the memory to start; None: not tried, since the sources read files."""


def check_job(scenario: Scenario, size: JobSize, seeds: int, done: Done = lambda count: None) -> JobCheck:
    """Emulate a job with several seeds and return the figures that correspond to its computed ones.

    `done` is called with the number of runs that have ended.

    Raises:
        ScenarioError: the job cannot be run.
        InsufficientBuffers: the configured network memory does not suffice.
        SourceError, WorkerError: as `run_seeds`.
    """
    drains = [each.debloated_drain_ms or each.expected_drain_ms for each in size.consumers]
    plain = _timed(scenario, drains, SETTLES_S if scenario.config.debloat_enabled else 0.0)
    config = replace(scenario.config, debloat_enabled=True, debloat_target_s=LEAST_TARGET_S)
    least_drains = [each.least_drain_ms for each in size.consumers]
    least = _timed(replace(scenario, config=config), least_drains, _SETTLES_SMALL_S)
    as_it_is, smallest = run_seeds([plain, least], seeds, done=done)
    return JobCheck(
        seeds=[result.seed for result in as_it_is],
        emulated_seconds=plain.duration_s,
        consumers=[_consumer(scenario, each.name, as_it_is, smallest) for each in size.consumers],
        memory=None if reads_paths(scenario) else check_memory(scenario, size),
    )


def _timed(scenario: Scenario, drains_ms: Sequence[float | None], settles_s: float) -> Scenario:
    """Return a run with `CHECKPOINTS` aligned checkpoints, and time to fill the queues again before each."""
    drain_s = sum(known(drains_ms)) / 1000
    interval = round(max(1.0, 3 * drain_s), 2) + SHIFT_S
    warmup = round(settles_s + 1.0 + 2 * drain_s, 2)
    calm = undisturbed(
        scenario,
        checkpoint_interval_s=interval,
        checkpoint_timeout_s=max(scenario.config.checkpoint_timeout_s, 10 * interval),
        unaligned_enabled=False,
    )
    return replace(calm, warmup_s=warmup, duration_s=round(warmup + CHECKPOINTS * interval, 2))


def _consumer(
    scenario: Scenario, name: str, as_it_is: Sequence[Result], smallest: Sequence[Result]
) -> ConsumerCheck:
    steady = [result.steady[-1] for result in as_it_is]
    return ConsumerCheck(
        name=name,
        bytes_per_s=_spread([mean_of_known(_vertex(each, name).bytes_in_per_s) for each in steady]),
        queued_buffers=_spread([_most_queued(result, name) for result in as_it_is]),
        in_flight_bytes=_spread([_in_flight(scenario, each, name) for each in steady]),
        drain_ms=_spread([_drain_ms(scenario, each, name) for each in steady]),
        debloated_bytes=_spread([lowest(_vertex(each, name).debloatedBufferSize) for each in steady]),
        least_drain_ms=_spread([_drain_ms(scenario, each.steady[-1], name) for each in smallest]),
    )


def _drain_ms(scenario: Scenario, steady: Steady, name: str) -> float | None:
    """Return the time that a barrier takes from the preceding vertex to the slowest subtask.

    None if several vertices precede it, because the start delay then ends with the fastest one's barrier.
    """
    before = [_vertex(steady, edge.source).start_delay_ms for edge in scenario.inputs(scenario.vertex(name))]
    here = _vertex(steady, name).start_delay_ms_max_subtask
    return here - before[0] if len(before) == 1 and here is not None and before[0] is not None else None


def _in_flight(scenario: Scenario, steady: Steady, name: str) -> float | None:
    """Return the in-flight data to one subtask. None if senders have other consumers, or subtasks differ."""
    vertex = scenario.vertex(name)
    senders = [edge.source for edge in scenario.inputs(vertex)]
    shared = any(len(scenario.outputs(scenario.vertex(sender))) > 1 for sender in senders)
    if shared or share_of_slowest(vertex) < 1:
        return None
    here = _vertex(steady, name)
    waiting = [_vertex(steady, sender).outputQueueSize for sender in senders]
    total = sum(sum(known(sizes)) for sizes in (*waiting, here.inputQueueSize))
    on_the_wire = sum(known(here.bytes_in_per_s)) * scenario.link.latency_s
    return (total + on_the_wire) / vertex.parallelism


def _most_queued(result: Result, name: str) -> float | None:
    series = next(each for each in result.series if each.vertex == name)
    return highest(length for subtask in series.inputQueueLength for length in subtask)


def check_memory(scenario: Scenario, size: JobSize) -> MemoryCheck:
    """Check whether a job starts with the network memory that it needs, and with one buffer less."""
    needed, starts = max(each.required_buffers for each in size.task_managers), []
    for buffers in (needed, needed - 1):
        limit = buffers * scenario.config.segment_bytes
        short = replace(scenario, duration_s=0.01, warmup_s=0.0)
        try:
            emulate(undisturbed(short, network_memory_max_bytes=limit))
            starts.append(True)
        except InsufficientBuffers:
            starts.append(False)
    return MemoryCheck(buffers=needed, starts=starts[0], starts_with_less=starts[1])


def _vertex(steady: Steady, name: str) -> VertexSteady:
    return next(vertex for vertex in steady.vertices if vertex.name == name)


def _spread(values: Sequence[float | None]) -> Spread | None:
    there = known(values)
    return Spread(median(there), min(there), max(there)) if there else None
