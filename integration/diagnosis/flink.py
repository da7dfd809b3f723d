"""A running Flink job, looked at through its cluster's REST API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..flink_rest.client import RestClient
from ..flink_rest.importing import import_scenario
from ..flink_rest.job import FlinkJob, FlinkVertex, read_job
from ..flink_rest.overrides import Overrides
from .diagnose import Diagnosis, diagnose
from .observation import observation_of

EXCLUSIVE = "Shuffle.Netty.Input.Buffers.inputExclusiveBuffersUsage"
FLOATING = "Shuffle.Netty.Input.Buffers.inputFloatingBuffersUsage"


def look_at(
    url: str,
    job: str | None = None,
    latency_s: float | None = None,
    *,
    watch_s: float | None = None,
    watching: Callable[[float, float], None] = lambda done, total: None,
) -> Diagnosis:
    """Return what is wrong with a job that runs now.

    Its metrics are watched for `watch_s` seconds, by default as long as it takes to see them change;
    `watching` is told how many seconds of how many are over. `latency_s` is the way between two of its task
    managers, None: not known.

    Raises:
        ScenarioError: the cluster cannot be read, the job does not run, or it has too little to tell.
    """
    imported = import_scenario(
        url, job, overrides=Overrides(latency_s=latency_s or 0.0), watch_s=watch_s, watching=watching
    )
    seen = imported.measured
    client = RestClient(url)
    names = [vertex.name for vertex in seen.steady.vertices]
    with client.reading():
        usages = buffer_usages(client, read_job(client, seen.job), names)
    view = observation_of(
        imported.scenario, seen.steady, seen.checkpoints, usages[EXCLUSIVE], usages[FLOATING]
    )
    if latency_s is not None:
        view = replace(view, link=imported.scenario.link)
    return Diagnosis(
        name=seen.job_name,
        of=f"job {seen.job}, Flink {seen.flink}, {url}",
        notes=[note for note in map(_note, imported.notes) if note],
        windows=[diagnose(view)],
    )


def _note(note: str) -> str:
    """A note on what was read, without the advice to give an option that a diagnosis has no use for."""
    return note if "--latency" in note else note.partition("; give --")[0]


def buffer_usages(
    client: RestClient, job: FlinkJob, names: Sequence[str]
) -> dict[str, Mapping[str, list[float | None]]]:
    """Return the usage of exclusive and of floating buffers, by metric, vertex and subtask, at this moment.

    `names` are what the vertices of the job are called, in its order. A vertex of which a cluster does not
    tell is left out.
    """
    found: dict[str, dict[str, list[float | None]]] = {EXCLUSIVE: {}, FLOATING: {}}
    for vertex, name in zip(job.vertices, names, strict=True):
        answers = [_ask(client, job, vertex, subtask) for subtask in range(vertex.parallelism)]
        for metric in found:
            values = [answer.get(metric) for answer in answers]
            if None not in values:
                found[metric][name] = values
    return dict(found)


def _ask(client: RestClient, job: FlinkJob, vertex: FlinkVertex, subtask: int) -> dict[str, float]:
    path = f"/jobs/{job.id}/vertices/{vertex.id}/subtasks/{subtask}/metrics?get={EXCLUSIVE},{FLOATING}"
    values = {}
    for entry in client.find_list(path) or ():
        try:
            values[entry["id"]] = float(entry["value"])
        except (KeyError, TypeError, ValueError):
            continue  # a task without inputs has none
    return values
