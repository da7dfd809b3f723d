"""What is wrong with a running Flink job, by what its cluster's REST API tells.

How a vertex spends its time is in its metrics; where these say nothing, ``/jobs/ID/vertices/V/backpressure``
stands in: what Flink's web UI shows, of one moment only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from netstack import VertexSteady

from ...analysis.known_values import complete
from ...analysis.rules.diagnosis import Diagnosis, diagnose
from ...analysis.rules.observation import observation_of
from .answers import Answers, number
from .client import RestClient
from .ended_job import diagnose_ended
from .importing import Imported, import_scenario
from .job_choice import ended_job
from .job_options import EVERYWHERE, Overrides
from .job_state import unchanged

_NOT_JUDGED = Overrides(record_bytes={EVERYWHERE: 1000}, service_s={EVERYWHERE: 0.0}, rate={EVERYWHERE: 0.0})
"""What a job emits and costs is for emulating it; a diagnosis, which does not, asks for neither."""

_LEVELS = {"ok": False, "low": True, "high": True}
"""Flink's words, and whether a vertex of that level waits for buffers to write to."""

_RATIOS = {
    "backpressured_ms_per_s": "ratio",
    "busy_ms_per_s": "busyRatio",
    "idle_ms_per_s": "idleRatio",
}
"""Field of a vertex: what the answer calls it, as a share."""


def diagnose_job(
    cluster: str | Answers,
    job: str | None = None,
    latency_s: float | None = None,
    *,
    watch_s: float | None = None,
    watching: Callable[[float, float], None] = lambda done, total: None,
) -> Diagnosis:
    """Return what is wrong with a job that runs now, or with one that ended by what is left of it.

    `cluster` is an address, or what answers in its place. Metrics are watched for `watch_s` seconds, by
    default as long as it takes to see them change; `watching` is told how many seconds of how many are over.
    `latency_s` is the way between two of its task managers, None: not known.

    Raises:
        ScenarioError: the cluster cannot be read, the job does not run, or it has too little to tell.
    """
    client = RestClient(cluster)
    with client.reading():
        ended = ended_job(client, job)
        if ended is not None:
            return diagnose_ended(client, ended, _NOT_JUDGED, latency_s)
    return _diagnose_running(cluster, job, latency_s, watch_s, watching)


def _diagnose_running(
    cluster: str | Answers,
    job: str | None,
    latency_s: float | None,
    watch_s: float | None,
    watching: Callable[[float, float], None],
) -> Diagnosis:
    given = replace(_NOT_JUDGED, latency_s=latency_s or 0.0)
    imported = import_scenario(cluster, job, overrides=given, watch_s=watch_s, watching=watching)
    seen = imported.measured
    said = _pressures(cluster, imported)
    vertices = [
        vertex if vertex.name not in said else _with_pressure(vertex, said[vertex.name])
        for vertex in seen.steady.vertices
    ]
    steady = msgspec.structs.replace(seen.steady, vertices=vertices)
    levels = {name: _LEVELS[pressure.level] for name, pressure in said.items() if pressure.level is not None}
    view = observation_of(imported.scenario, steady, seen.checkpoints, levels)
    if latency_s is not None:
        view = replace(view, link=imported.scenario.link)
    notes = [note for note in map(_note, imported.notes) if note]
    if said:
        notes.append(f"{', '.join(said)}: time by what /backpressure says at one moment, metrics tell none")
    return Diagnosis(
        name=seen.job_name,
        of=f"job {seen.job}, Flink {seen.flink}, {seen.url}",
        notes=notes,
        windows=[diagnose(view)],
    )


def _pressures(cluster: str | Answers, imported: Imported) -> dict[str, Pressure]:
    """What ``/backpressure`` says of the vertices whose metrics do not tell of their time, by name."""
    silent = [
        vertex
        for vertex in imported.measured.steady.vertices
        if complete(vertex.backpressured_ms_per_s) is None or complete(vertex.busy_ms_per_s) is None
    ]
    if not silent:
        return {}
    client = RestClient(cluster)
    with unchanged(client, imported.state, client.pause):
        asked = {
            vertex.name: _read_pressure(
                client, imported.state.id, imported.vertex_ids[vertex.name], vertex.parallelism
            )
            for vertex in silent
        }
    return {name: pressure for name, pressure in asked.items() if pressure is not None}


def _note(note: str) -> str:
    """A note on what was read, without the advice to give an option that a diagnosis has no use for."""
    return note if "--latency" in note else note.partition("; give --")[0]


class Pressure(NamedTuple):
    """What a vertex answered: shares of time by field and subtask in ms per second, and Flink's word."""

    shares: dict[str, list[float | None]]
    level: str | None


def _read_pressure(client: RestClient, job: str, vertex: str, parallelism: int) -> Pressure | None:
    """Return what the cluster says of a vertex; None where it does not."""
    answer = client.find(f"/jobs/{job}/vertices/{vertex}/backpressure")
    if not isinstance(answer, dict) or answer.get("status") == "deprecated":
        return None
    by_index = {entry["subtask"]: entry for entry in answer.get("subtasks") or ()}
    subtasks = [by_index.get(subtask, {}) for subtask in range(parallelism)]
    shares = {field: [_ms(entry.get(name)) for entry in subtasks] for field, name in _RATIOS.items()}
    level = answer.get("backpressureLevel", answer.get("backpressure-level"))
    return Pressure(shares, level if level in _LEVELS else None)


def _with_pressure(vertex: VertexSteady, pressure: Pressure) -> VertexSteady:
    """Return a vertex with what was said of its time where its metrics do not tell."""
    changes: dict[str, Any] = {
        field: [
            said if measured is None else measured
            for measured, said in zip(getattr(vertex, field), shares, strict=True)
        ]
        for field, shares in pressure.shares.items()
    }
    return msgspec.structs.replace(vertex, **changes)


def _ms(ratio: object) -> float | None:
    value = number(ratio)
    return None if value is None or value < 0 else 1000 * value
