"""Whether the figures of a storm's job add up: what its vertices counted, and how records were dealt out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netstack import Job

from .case import StormCase, StormVertex, Work

_SLACK_S = 1e-6
_A_HOP_S = 0.05
"""A barrier's way from one task to the next, wake-ups and the synchronous part of a snapshot included."""

_MARKS_BYTES = 32
"""What operators may make longer a record by."""

_OVERTAKEN = frozenset({"hash", "rebalance"})
"""Exchanges whose data unaligned barriers overtake."""

_ONE_AT_A_TIME = frozenset({Work.SOURCE, Work.PASS, Work.MARK, Work.FILTER, Work.SINK})
"""What emits a record at a time."""

_COUNTERS = ("records_in", "bytes_in", "buffers_in", "records_out", "bytes_out", "buffers_out")
_TIMES = ("busy_s", "backpressured_s", "idle_s")


def check_figures(case: StormCase, job: Job, *, ended: bool) -> Iterator[str]:
    """Counters never go back, times are no longer than the run, and what one has sent another has read."""
    samples = [job.recorder.samples_of(number) for number in range(len(case.vertices))]
    if not len(job.recorder.times):
        return
    for vertex, figures in zip(case.vertices, samples, strict=True):
        for name in (*_COUNTERS, *_TIMES):
            if (np.diff(figures[name], axis=1) < -_SLACK_S).any():
                yield f"{name} of {vertex.name} goes back"
        longest = np.sum([figures[name][:, -1] for name in _TIMES], axis=0).max()
        if longest > job.recorder.times[-1] + _SLACK_S:
            yield f"{vertex.name} was busy, held up or idle for {longest:.6f} s, longer than the run"
    if ended and not job.restarts and job.start is None:
        numbers = {vertex.name: vertex.parallelism for vertex in job.scenario.vertices}
        vertices = tuple(replace(vertex, parallelism=numbers[vertex.name]) for vertex in case.vertices)
        all_records = {vertex.name: vertex.all_records for vertex in case.vertices}
        yield from _check_sums(replace(case, vertices=vertices), all_records, samples)


def _check_sums(
    case: StormCase, all_records: Mapping[str, int], samples: list[dict[str, NDArray[np.float64]]]
) -> Iterator[str]:
    """What a job that ran through has counted; `all_records` are those of each source."""
    last = {
        vertex.name: {name: figures[name][:, -1] for name in _COUNTERS}
        for vertex, figures in zip(case.vertices, samples, strict=True)
    }
    outputs = {
        vertex.name: sum(source == vertex.name for source, _, _ in case.edges) for vertex in case.vertices
    }
    for vertex in case.vertices:
        if vertex.work is Work.SOURCE:
            sent = last[vertex.name]["records_out"].sum()
            if sent != all_records[vertex.name] * outputs[vertex.name]:
                yield f"{vertex.name} has sent {sent:.0f} records, and has {all_records[vertex.name]}"
            continue
        for kind in ("records", "bytes"):
            read, due = last[vertex.name][f"{kind}_in"].sum(), 0.0
            for producer, ship in case.inputs(vertex):
                copies = vertex.parallelism if ship == "broadcast" else 1
                due += copies * last[producer.name][f"{kind}_out"].sum() / outputs[producer.name]
            if read != due:
                yield f"{vertex.name} has read {read:.0f} {kind}, and {due:.0f} were sent to it"
        yield from _check_turns(case, vertex, last[vertex.name]["records_in"])


def _check_turns(case: StormCase, vertex: StormVertex, read: NDArray[np.float64]) -> Iterator[str]:
    """Producers that deal their records out in turns give each subtask as many, but for the last turn."""
    inputs = case.inputs(vertex)
    if [ship for _, ship in inputs] != ["rebalance"]:
        return
    ((producer, _),) = inputs
    if read.max() - read.min() > producer.parallelism:
        yield f"the subtasks of {vertex.name} have read {read.tolist()} records dealt out in turns"


def check_checkpoint_times(case: StormCase, job: Job) -> Iterator[str]:
    """Barriers overtake as soon as they may: no data, and no backlog, holds them up."""
    config = case.config
    if not config.takes_unaligned_checkpoints:
        return
    timeout, longest_s = config.aligned_checkpoint_timeout_s, 0.0
    for number, vertex in enumerate(case.vertices):
        parts = job.recorder.parts_of(number)
        start_delay, alignment = parts["start_delay_s"], parts["alignment_s"]
        kept = np.array([head.savepoint is None for head in job.recorder.checkpoints], dtype=bool)
        if all(ship in _OVERTAKEN for _, ship in case.inputs(vertex)):
            late = (
                (alignment > 0) & (start_delay + alignment > timeout + _SLACK_S) & (parts["unaligned"] == 0)
            )
            if late[kept].any():
                yield f"{vertex.name} aligned a checkpoint for longer than its timeout of {timeout} s"
        longest_s += 3 * vertex.service_s * max(vertex.service_skew) + case.link.latency_s + _A_HOP_S
        waited = np.nanmax(start_delay[kept], initial=0.0, where=~np.isnan(start_delay[kept]))
        if not timeout and _flows_freely(case) and waited > longest_s:
            yield f"a barrier has come to {vertex.name} after {waited:.4f} s, more than {longest_s:.4f} s"


def _flows_freely(case: StormCase) -> bool:
    """Whether a task can always begin a checkpoint within a record: none waits for buffers in its middle."""
    config = case.config
    capacity = config.min_segment_bytes if config.debloat_enabled else config.segment_bytes
    longest = max(vertex.record_bytes[1] for vertex in case.vertices) + _MARKS_BYTES
    return (
        not case.faults
        and case.link.bandwidth_bytes_per_s is None
        and {ship for _, _, ship in case.edges} <= _OVERTAKEN
        and {vertex.work for vertex in case.vertices} <= _ONE_AT_A_TIME
        and longest <= capacity
    )
