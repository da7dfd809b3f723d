"""A running Flink job as a scenario: what it does, under which options, and what it shows now."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flowcontrol import readable
from netstack import (
    CheckpointResult,
    LinkConditions,
    NetworkConfig,
    Scenario,
    Viewed,
    check_scenario,
    with_options,
)

from ...errors import FlinkRestError
from .answers import Answers
from .barrier_waits import queue_growth
from .burning import NOTHING_BURNS, Burning, burning_of
from .client import RestClient
from .cluster_job import FlinkJob, read_job
from .firing_time import by_event_time
from .flows import JobFlows
from .job_options import Overrides, check_names, preset_of, read_config
from .job_state import JobState, read_running, unchanged
from .measured import Measured, measured, read_checkpoints
from .network_memory import network_memory_of
from .processors import Processors
from .recording import Recording
from .sampling import Samples, stands_still, take_samples, watch_time_s
from .topology import edges_of, job_name, vertex_names
from .vertices import VertexReader

__all__ = ["Imported", "Overrides", "import_scenario"]

WARMUP_S = 20.0
"""By then an emulated job has filled its queues and sized its buffers, at the earliest."""

_DRAINS = 5
"""In the time in which a record waits so often, a job's queues have found out who is the slowest."""

_LEAST_WINDOW_S = 40.0
_LONGEST_WINDOW_S = 600.0
_CHECKPOINTS = 8
_LEAST_CHECKPOINTS = 3

_BACK_TO_BACK = 0.7
"""Share of the interval from which on a checkpoint leaves the debloater little time to recover."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Imported(Viewed):
    """A job read from Flink; `plot` has the picture "task-time".

    `to_pandas` and `to_arrow` have the tables "vertices", "subtasks", "checkpoints", "checkpoint_subtasks"
    and "notes".
    """

    scenario: Scenario
    notes: list[str]
    """What could not be read, or cannot be said in a scenario; a line each."""
    measured: Measured
    job: FlinkJob = field(repr=False)
    """What the cluster said of it."""
    state: JobState = field(repr=False)
    """In which it was when reading began, and when that ended."""
    samples: Samples = field(repr=False)
    """What its subtasks answered while it was watched."""
    vertex_ids: Mapping[str, str]
    """Flink's ids of vertices, by their names in the scenario."""

    def __repr__(self) -> str:
        """Which job it is, in one line."""
        name, flink = readable(self.scenario.name), readable(self.measured.flink)
        vertices = f"{len(self.scenario.vertices)} vertices, {len(self.notes)} notes"
        return f"<Imported {name} from Flink {flink}: {vertices}>"


def import_scenario(
    cluster: str | Path | Answers,
    job: str | None = None,
    *,
    overrides: Overrides | None = None,
    watch_s: float | None = None,
    pause: Callable[[float], None] | None = None,
    watching: Callable[[float, float], None] = lambda done, total: None,
) -> Imported:
    """Read a running job through Flink's REST API; `job` is its id, and may be absent where only one runs.

    `cluster` is the address of Flink's web interface, a file of ``netstack import-flink --recording``, or
    what answers in its place. Its metrics are watched for `watch_s` seconds, by default as long as it takes
    to see them change three times, and 20 s at least; `pause` waits in its place; `watching` is told how many
    seconds of how many are over.

    Raises:
        FlinkRestError: nobody answers, the job does not run, ends, restarts or loses a task manager while it
            is watched, or shows too little to go by.
        ScenarioError: an override is wrong, or what was read makes no sense as a scenario.
    """
    given = overrides or Overrides()
    client = RestClient(_recorded(cluster))
    with client.reading():
        state = read_running(client, job)
    with unchanged(client, state, pause or client.pause):
        running = read_job(client, state)
        names = vertex_names(running.vertices)
        check_shape(client, running)
        check_names(given, running, names)
        processors = Processors(client, running, state.managers)
        samples = _watched(client, running, state, watch_s, pause or client.pause, watching, processors.look)
        checkpoints = read_checkpoints(client, running, names)
        notes = _notes_before(running, samples)
        try:
            burning = burning_of(running, names, samples, processors.hosts(samples), given, notes)
            scenario = scenario_of(running, names, samples, given, notes, checkpoints, burning)
            scenario = _with_network_memory(running, state.managers, scenario, notes)
        except FlinkRestError as error:  # too little to go by, perhaps for want of what is missing
            raise FlinkRestError(*error.problems, *about_missing(client)) from None
        shown = measured(client.url, running, names, samples, checkpoints)
        notes += _notes_after(client, scenario.config, given, shown)
    return Imported(
        scenario=scenario,
        notes=list(dict.fromkeys(notes)),
        measured=shown,
        job=running,
        state=state,
        samples=samples,
        vertex_ids={name: vertex_id for vertex_id, name in names.items()},
    )


def _recorded(cluster: str | Path | Answers) -> str | Answers:
    """Open the file of a recording, where one is named."""
    if isinstance(cluster, str) and not Path(cluster).is_file():
        return cluster
    return Recording(Path(cluster)) if isinstance(cluster, str | Path) else cluster


def check_readable(cluster: Answers, job: str | None, given: Overrides) -> None:
    """Make sure, by a few questions, that a job runs which can be read.

    Raises:
        FlinkRestError: nobody answers, or there is no such job.
        ScenarioError: an override names a vertex that the job has not.
    """
    client = RestClient(cluster)
    with client.reading():
        running = read_job(client, read_running(client, job))
        check_shape(client, running)
        check_names(given, running, vertex_names(running.vertices))


def _watched(
    client: RestClient,
    job: FlinkJob,
    state: JobState,
    watch_s: float | None,
    pause: Callable[[float], None],
    watching: Callable[[float, float], None],
    also: Callable[[], None],
) -> Samples:
    """What the tasks of a job answer while it is watched, all of which have to go on."""
    seconds = watch_time_s(job) if watch_s is None else watch_s
    return take_samples(
        client,
        job,
        state,
        seconds,
        pause=pause,
        clock=client.clock,
        done=lambda done: watching(done, seconds),
        also=also,
    )


def check_shape(client: RestClient, job: FlinkJob) -> None:
    """Make sure that something goes through the network layer.

    Raises:
        FlinkRestError: nothing does.
    """
    if not job.edges:
        raise FlinkRestError(
            f"{client.url}: job {job.id} ({job.name}) has no exchange: all its operators are in one "
            "task, so nothing goes through the network layer"
        )


def _longest_checkpoint_s(checkpoints: Sequence[CheckpointResult]) -> float:
    """How long the slowest checkpoint took, which is how long a record waits at most; 0: it is not known."""
    return max([each.duration_ms or 0.0 for each in checkpoints], default=0.0) / 1e3


def scenario_of(
    job: FlinkJob,
    names: dict[str, str],
    samples: Samples,
    given: Overrides,
    notes: list[str],
    checkpoints: Sequence[CheckpointResult] = (),
    burning: Burning = NOTHING_BURNS,
) -> Scenario:
    """Return the scenario of a job; `notes` gets a line for each thing that it cannot say.

    `checkpoints` are the last ones, if any are told; `burning` is what of its work takes a core.

    Raises:
        FlinkRestError: the job shows too little to go by.
        ScenarioError: an override is wrong, or what was read makes no sense as a scenario.
    """
    config = read_config(job, given.options, notes)
    longest_s = _longest_checkpoint_s(checkpoints)
    warmup_s = max(WARMUP_S, math.ceil(_DRAINS * longest_s))
    growth = {
        vertex.id: queue_growth(checkpoints, names[vertex.id], vertex.parallelism) for vertex in job.vertices
    }
    flows = JobFlows(job, samples, growth)
    reader = VertexReader(job, names, config, samples, flows, given, notes, checkpoints, burning)
    vertices = reader.vertices()
    if config.auto_watermark_interval_s > 0:
        vertices = by_event_time(job, names, samples, vertices, notes)
    scenario = Scenario(
        name=job_name(job),
        duration_s=warmup_s + _window_s(config, longest_s),
        warmup_s=warmup_s,
        preset=preset_of(job.version),
        config=config,
        link=LinkConditions(latency_s=given.latency_s),
        vertices=tuple(vertices),
        edges=edges_of(job, names, flows, notes),
        machines=burning.machines,
    )
    check_scenario(scenario)
    return scenario


def _with_network_memory(
    job: FlinkJob, managers: Mapping[str, Mapping[str, Any]], scenario: Scenario, notes: list[str]
) -> Scenario:
    """The scenario with the network memory that its task managers have, unless the user has given one."""
    config = scenario.config
    if config.network_memory_max_bytes is not None:
        return scenario
    size = network_memory_of(job, managers, config.segment_bytes, notes)
    if size is None:
        return scenario
    return replace(scenario, config=with_options(config, {"network_memory_max_bytes": size}))


def _window_s(config: NetworkConfig, longest_s: float) -> float:
    """Seconds to summarise: some checkpoints, in minutes at most unless they are rarer still."""
    interval = max(config.checkpoint_interval_s or 0.0, math.ceil(longest_s))
    longest = max(_LONGEST_WINDOW_S, _LEAST_CHECKPOINTS * interval)
    return max(_LEAST_WINDOW_S, min(_CHECKPOINTS * interval, longest))


def _notes_before(job: FlinkJob, samples: Samples) -> list[str]:
    notes = ["it is a batch job; here it is a streaming job"] if job.batch else []
    if stands_still(samples):
        notes.append(
            "the metrics did not change while they were watched, so counts since the job started stand in; "
            "give --watch more time"
        )
    if not job.vertices[0].managers:
        notes.append(
            "which task managers the subtasks run in is not told; here each vertex has one of its own"
        )
    return notes


def _notes_after(client: RestClient, config: NetworkConfig, given: Overrides, shown: Measured) -> list[str]:
    notes = []
    if not given.latency_s:
        notes.append("the latency between task managers is not told; here it is loopback's; give --latency")
    if "buffer_timeout_interval_s" not in config.given and "buffer_timeout_enabled" not in config.given:
        notes.append("a buffer timeout that the job sets itself is not told; here it is 100 ms; give --set")
    if config.checkpoint_interval_s is not None:
        notes += _about_checkpoints(config, config.checkpoint_interval_s, shown)
    return notes + about_missing(client)


def about_missing(client: RestClient) -> list[str]:
    """Return a line on the paths that the cluster did not have, if there are any."""
    if not client.missing:
        return []
    return [
        f"the cluster does not have {_listed(client.missing)}, or fails there; what that would tell is not "
        "known"
    ]


def _about_checkpoints(config: NetworkConfig, interval_s: float, shown: Measured) -> list[str]:
    duration = shown.steady.end_to_end_ms
    if duration is None:
        return ["no completed checkpoint is in the history, so delays are not known"]
    if config.debloat_enabled and duration / 1e3 >= _BACK_TO_BACK * interval_s:
        return [
            f"checkpoints take {duration / 1e3:.2g} s of an interval of {interval_s:g} s: the debloater is "
            "misled while channels are blocked, and delays drift by up to a fifth between runs of one job"
        ]
    return []


def _listed(paths: list[str]) -> str:
    unique = list(dict.fromkeys(path.partition("?")[0] for path in paths))
    shown = ", ".join(unique[:3])
    return shown if len(unique) <= 3 else f"{shown} and {len(unique) - 3} more"
