"""What is wrong with a job that has ended, by what a history server or its cluster keeps of it.

There are no metrics any more. What each subtask has counted since it started is kept, its busy, idle and
back-pressured times among it, and so the means over the whole run; and the last checkpoints are.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from netstack import LinkConditions

from ...analysis.rules.diagnosis import Diagnosis, diagnose
from ...analysis.rules.observation import observation_of
from .client import RestClient
from .cluster_job import FlinkJob, FlinkVertex, read_job
from .importing import about_missing, check_shape, scenario_of
from .job_options import Overrides
from .job_state import read_ended
from .measured import Measured, measured, read_checkpoints
from .sampling import Samples, SubtaskSamples, counted
from .topology import vertex_names


def diagnose_ended(
    client: RestClient, job: str, not_judged: Overrides, latency_s: float | None = None
) -> Diagnosis:
    """Return what is wrong with a job that runs no more; `not_judged` is for what a diagnosis does not need.

    Raises:
        ScenarioError: the job cannot be read.
    """
    ended = read_job(client, read_ended(client, job), ended=True)
    names = vertex_names(ended.vertices)
    check_shape(client, ended)
    samples = _whole_run(ended)
    notes: list[str] = []
    scenario = scenario_of(ended, names, samples, not_judged, notes)
    shown = measured(client.url, ended, names, samples, read_checkpoints(client, ended, names))
    steady = msgspec.structs.replace(shown.steady, from_s=0.0, to_s=round(ended.age_s, 2))
    view = observation_of(scenario, steady, shown.checkpoints)
    if latency_s is not None:
        view = replace(view, link=LinkConditions(latency_s=latency_s))
    notes = [note.partition("; give --")[0] for note in dict.fromkeys([*_about(ended, shown), *notes])]
    return Diagnosis(
        name=ended.name,
        of=f"job {ended.id}, Flink {ended.version}, {client.url}",
        notes=notes + about_missing(client),
        windows=[diagnose(view)],
    )


def _whole_run(job: FlinkJob) -> Samples:
    return {
        vertex.id: [_from_its_start(vertex, subtask) for subtask in range(vertex.parallelism)]
        for vertex in job.vertices
    }


def _from_its_start(vertex: FlinkVertex, subtask: int) -> SubtaskSamples:
    """All that a subtask has counted, as what it grew by since it started from nothing."""
    end = counted(vertex, subtask)
    return SubtaskSamples((dict.fromkeys(end, 0.0), end) if end else ())


def _about(job: FlinkJob, shown: Measured) -> list[str]:
    notes = ["the job has ended: of its metrics nothing is kept but what each subtask counted in all"]
    if any(any(vertex.busy_ms_per_s) for vertex in shown.steady.vertices):
        notes.append("times and rates are means since each subtask last started, not of one moment")
    if not job.configuration:
        notes.append("the options of the cluster are not told; Flink's defaults stand in")
    kept = len(shown.checkpoints)
    if not kept:
        notes.append("no completed checkpoint is kept, so delays are not known")
    return notes
