"""Whether the figures of a storm's job add up: what its vertices counted, and how records were dealt out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from netstack import Job

from .case import StormCase, StormVertex, Work

_SLACK_S = 1e-6
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
