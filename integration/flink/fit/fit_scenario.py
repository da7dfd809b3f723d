"""A scenario fitted to the measurements of a job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from netstack import (
    CheckpointResult,
    LinkConditions,
    NetworkConfig,
    Scenario,
    Vertex,
    check_scenario,
    preset_for,
    with_options,
)

from ..read.job import FlinkJob, runs_other_jobs
from ..read.samples import Samples, without_repeats
from .edges import edges_of
from .event_time import by_event_time
from .exchange_flows import JobFlows
from .job_options import read_config
from .noted import Noted, Remark, Remarks, some
from .overrides import Overrides
from .processor_time import NOTHING_BURNS, Burning
from .subtask_loads import queue_growth
from .vertices import COSTS, Evidence, fit_vertices

WARMUP_S = 20.0
"""Minimum warm-up in seconds. By then an emulated job has filled its queues and sized its buffers."""

_DRAINS = 5
"""Warm-up as a multiple of the longest wait of a record. By then the queues show the bottleneck."""

_LEAST_WINDOW_S = 40.0
_LONGEST_WINDOW_S = 600.0
_CHECKPOINTS = 8
_LEAST_CHECKPOINTS = 3

_LATE_MS = 20
"""Time by which the triggers of checkpoints vary around multiples of the interval."""

_SEGMENTS = "nettyShuffleMemorySegmentsTotal"


def fit_scenario(
    job: FlinkJob,
    samples: Samples,
    given: Overrides,
    checkpoints: Sequence[CheckpointResult] = (),
    burning: Burning = NOTHING_BURNS,
    managers: Mapping[str, Mapping[str, Any]] | None = None,
) -> Noted[Scenario]:
    """Return the scenario of a job.

    `checkpoints` are the last checkpoints, `burning` is the CPU-bound work, and `managers` are the
    answers of ``/taskmanagers/ID``. Each of them may be unknown.

    Raises:
        FlinkRestError: the job shows too little.
        ScenarioError: an override is wrong, or the answers make no valid scenario.
    """
    config, remarks = read_config(job, given.options)
    warmup_s, window_s = _times_of_run(config, checkpoints)
    growth = {
        vertex.id: queue_growth(checkpoints, job.names[vertex.id], vertex.parallelism)
        for vertex in job.vertices
    }
    flows = JobFlows(job, samples, growth)
    evidence = Evidence(
        job=job,
        config=config,
        samples=without_repeats(samples),
        flows=flows,
        given=given,
        checkpoints=checkpoints,
        burning=burning,
    )
    vertices, about_vertices = fit_vertices(evidence)
    about_time: Remarks = ()
    if config.auto_watermark_interval_s > 0:
        vertices, about_time = by_event_time(job, samples, vertices)
    edges, about_edges = edges_of(job, flows, given)
    words = "".join(letter if letter.isalnum() or letter in "._-" else " " for letter in job.name).split()
    from_s = None
    if config.checkpoint_interval_s is not None:
        from_s = checkpoints_from_s(job, checkpoints, config.checkpoint_interval_s, vertices)
    scenario = Scenario(
        name="-".join(words)[:60].strip("-.") or "flink-job",
        duration_s=warmup_s + window_s,
        warmup_s=warmup_s,
        preset=preset_for(job.version),
        config=config,
        costs=COSTS,
        link=LinkConditions(latency_s=given.latency_s),
        vertices=tuple(vertices),
        edges=edges,
        machines=burning.machines,
        checkpoints_from_s=from_s,
    )
    check_scenario(scenario)
    remarks += about_vertices + about_time + about_edges
    if managers and config.network_memory_max_bytes is None:
        size, about_memory = _network_memory(job, managers, config.segment_bytes)
        remarks += about_memory
        if size is not None:
            config = with_options(config, {"network_memory_max_bytes": size})
    return Noted(replace(scenario, config=config), remarks)


def _times_of_run(config: NetworkConfig, checkpoints: Sequence[CheckpointResult]) -> tuple[float, float]:
    """Return the warm-up and the measured window of the scenario, in seconds."""
    # The duration of the slowest checkpoint is the maximum wait of a record.
    longest_s = max([each.duration_ms or 0.0 for each in checkpoints], default=0.0) / 1e3
    warmup_s = max(WARMUP_S, math.ceil(_DRAINS * longest_s))
    interval_s = max(config.checkpoint_interval_s or 0.0, math.ceil(longest_s))
    longest_window_s = max(_LONGEST_WINDOW_S, _LEAST_CHECKPOINTS * interval_s)
    return warmup_s, max(_LEAST_WINDOW_S, min(_CHECKPOINTS * interval_s, longest_window_s))


def checkpoints_from_s(
    job: FlinkJob, checkpoints: Sequence[CheckpointResult], interval_s: float, vertices: Sequence[Vertex]
) -> float | None:
    """Return the time of the first checkpoint in a run whose windows begin at 0 s.

    Checkpoints then come at the same times within the windows as in the job: the windows of Flink begin at
    multiples of their size since 1970. None: the vertices have no windows, or no checkpoint is known.
    """
    periods_ms = [round(each.emit_every_s * 1e3) for each in vertices if each.emit_every_s is not None]
    interval_ms = round(interval_s * 1e3)
    triggers_ms = [round(job.running_since_ms + each.t * 1e3) for each in checkpoints]
    if not periods_ms or not all(periods_ms) or not interval_ms or not triggers_ms:
        return None

    def agreeing(trigger_ms: int) -> int:
        differences = ((other - trigger_ms + _LATE_MS) % interval_ms for other in triggers_ms)
        return sum(difference <= 2 * _LATE_MS for difference in differences)

    at_ms = max(reversed(triggers_ms), key=agreeing)  # a checkpoint that waited for another one is late
    return at_ms % math.lcm(*periods_ms) % interval_ms / 1e3


def _network_memory(
    job: FlinkJob, managers: Mapping[str, Mapping[str, Any]], segment_bytes: int
) -> Noted[int | None]:
    """Return the network memory of each task manager in bytes. A scenario has one size for all."""
    sizes = {}
    for name, answer in managers.items():
        segments = answer.get("metrics", {}).get(_SEGMENTS)
        sizes[name] = segments * segment_bytes if isinstance(segments, int) and segments > 0 else 0
    if not all(sizes.values()):
        return Noted(None, (Remark("network_memory_unreported"),))
    least = min(sizes, key=lambda name: sizes[name])
    remarks: Remarks = ()
    if len(set(sizes.values())) > 1:
        remarks += (Remark("network_memory_differs", least),)
    if shared := [name for name, answer in managers.items() if runs_other_jobs(answer, job)]:
        remarks += (Remark("network_memory_shared", some(shared)),)
    return Noted(sizes[least], remarks)
