"""Diagnosis of a Flink job, from the metrics of a running one or the remaining data of an ended one.

The busy, idle and back-pressured times of a running vertex come from its metrics. If the metrics lack them,
the figures of the web UI are used (``/jobs/ID/vertices/V/backpressure``). These are only a snapshot.

For an ended job, the cluster or a history server keeps no metrics. It keeps the last checkpoints and, for
each subtask, the counters since its start, which give means over the whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from netstack import LinkConditions, VertexSteady

from ...base.errors import Note
from ...base.optional_figures import complete
from ...flink.fit.fit_scenario import fit_scenario
from ...flink.fit.overrides import EVERYWHERE, Overrides
from ...flink.fit.words import IF_CPU_BOUND, note_of
from ...flink.http.answers import Answers, number
from ...flink.http.client import RestClient
from ...flink.importing import Imported, check_shape, import_scenario, missing_paths
from ...flink.read.checkpoints import read_checkpoints
from ...flink.read.job import read_job
from ...flink.read.job_state import ended_job, read_ended, unchanged
from ...flink.read.measurements import Measured, measured
from ...flink.read.samples import SubtaskSamples, totals
from .observation import Observation, observation_of
from .verdict import Diagnosis, diagnose

NOT_JUDGED = Overrides(
    record_bytes={EVERYWHERE: 1000},
    service_s={EVERYWHERE: 0.0},
    rate={EVERYWHERE: 0.0},
    inputs={EVERYWHERE: "join"},
)
"""Overrides for values that only an emulation needs, for an import without one."""

_LEVELS = {"ok": False, "low": True, "high": True}
"""Flink's levels of back-pressure; True if a vertex of the level waits for buffers."""

_RATIOS = {
    "backpressured_ms_per_s": "ratio",
    "busy_ms_per_s": "busyRatio",
    "idle_ms_per_s": "idleRatio",
}
"""Field in the answer of ``/backpressure``, for each of our fields of a vertex."""


def diagnose_job(
    cluster: str | Answers,
    job: str | None = None,
    latency_s: float | None = None,
    *,
    watch_s: float | None = None,
    watching: Callable[[float, float], None] = lambda done, total: None,
    wording: Callable[[str], str] = str,
) -> Diagnosis:
    """Diagnose a running or an ended job.

    Args:
        cluster: Address of Flink's web interface, or another source of answers.
        job: Id of the job; None: the only running job or, if none runs, the only job.
        latency_s: Latency between task managers; None: unknown.
        watch_s: Seconds to watch the metrics; None: until they have changed a few times.
        watching: Called with the seconds watched so far, and all seconds.
        wording: Returns the text of a note, which may be a `Note`.

    Raises:
        InputError: the cluster cannot be read, the job does not run, or it shows too little.
    """
    client = RestClient(cluster)
    if client.past is None:
        with client.reading():
            ended = ended_job(client, job)
            if ended is not None:
                return _diagnose_ended(client, ended, latency_s, wording)
    given = replace(NOT_JUDGED, latency_s=latency_s or 0.0)
    imported = import_scenario(cluster, job, overrides=given, watch_s=watch_s, watching=watching)
    pressure = _with_pressure(cluster, imported)
    steady = msgspec.structs.replace(imported.measured.steady, vertices=pressure.vertices)
    view = observation_of(imported.scenario, steady, imported.measured.checkpoints, pressure.waits)
    view = replace(view, changes=imported.changes)
    assumed = [note for note in imported.notes if note not in imported.unsteady]
    about = [_note(note, wording) for note in assumed if not _is_doubt(note)]
    if len(about) < len(assumed):
        about.append(
            "It is unknown whether the work of tasks is CPU-bound, but no finding depends on it: all follow "
            "from measured times."
        )
    if pressure.replaced:
        names = ", ".join(pressure.replaced)
        about.append(
            f"{names}: metrics do not report how the time is spent; assuming the shares that /backpressure "
            "reported at one moment."
        )
    return _diagnosis(imported.measured, view, latency_s, about)


def _diagnosis(shown: Measured, view: Observation, latency_s: float | None, notes: list[str]) -> Diagnosis:
    if latency_s is not None:
        view = replace(view, link=LinkConditions(latency_s=latency_s))
    return Diagnosis(
        name=shown.job_name,
        of=f"job {shown.job}, Flink {shown.flink}, {shown.url}",
        notes=notes,
        windows=[diagnose(view)],
    )


def _is_doubt(note: str) -> bool:
    """Whether a note of an import says that it is unknown whether work is CPU-bound."""
    return isinstance(note, Note) and IF_CPU_BOUND in note.parameters


def _note(note: str, wording: Callable[[str], str]) -> str:
    """Return the text of an import's note. Its advice to set parameters is left out, since a diagnosis lacks
    these.
    """
    has_others = isinstance(note, Note) and any(each.name != "latency_s" for each in note.parameters)
    return wording(note.text if isinstance(note, Note) and has_others else note)


class _Pressure(NamedTuple):
    """The vertices of a job, with the figures of ``/backpressure`` where metrics lack them."""

    vertices: list[VertexSteady]
    waits: dict[str, bool]
    """Whether a vertex waits for buffers, by name, if ``/backpressure`` reports it."""
    replaced: list[str]
    """Names of the vertices with added figures."""


def _with_pressure(cluster: str | Answers, imported: Imported) -> _Pressure:
    """Add the figures of ``/backpressure`` for vertices whose metrics do not report their times."""
    job, vertices = imported.job, list(imported.measured.steady.vertices)
    pressure = _Pressure(vertices, {}, [])
    silent = [
        at
        for at, vertex in enumerate(vertices)
        if complete(vertex.backpressured_ms_per_s) is None or complete(vertex.busy_ms_per_s) is None
    ]
    if not silent:
        return pressure
    client = RestClient(cluster)
    if client.past is not None:
        return pressure  # the cluster has only those of now
    with unchanged(client, imported.state, client.pause):
        for at in silent:
            answer = client.find(f"/jobs/{job.id}/vertices/{job.vertices[at].id}/backpressure")
            if answer is None or answer.get("status") == "deprecated":
                continue
            name = vertices[at].name
            pressure.replaced.append(name)
            vertices[at] = _with_ratios(vertices[at], answer)
            level = answer.get("backpressureLevel", answer.get("backpressure-level"))
            if level in _LEVELS:
                pressure.waits[name] = _LEVELS[level]
    return pressure


def _with_ratios(vertex: VertexSteady, answer: Mapping[str, Any]) -> VertexSteady:
    """Return a vertex with the ratios of an answer of ``/backpressure`` in place of unreported times."""
    by_index = {entry["subtask"]: entry for entry in answer.get("subtasks") or ()}
    changes: dict[str, Any] = {
        field: [
            _ms(by_index.get(subtask, {}).get(name)) if measured is None else measured
            for subtask, measured in enumerate(getattr(vertex, field))
        ]
        for field, name in _RATIOS.items()
    }
    return msgspec.structs.replace(vertex, **changes)


def _ms(ratio: object) -> float | None:
    value = number(ratio)
    return None if value is None or value < 0 else 1000 * value


def _diagnose_ended(
    client: RestClient, job_id: str, latency_s: float | None, wording: Callable[[str], str]
) -> Diagnosis:
    job = read_job(client, read_ended(client, job_id), ended=True)
    check_shape(client, job)
    samples = {
        # Counters grew from 0 at the start to their last values.
        vertex.id: [
            SubtaskSamples((dict.fromkeys(end, 0.0), end) if end else ())
            for end in (totals(vertex, subtask) for subtask in range(vertex.parallelism))
        ]
        for vertex in job.vertices
    }
    scenario, remarks = fit_scenario(job, samples, NOT_JUDGED)
    shown = measured(client.url, job, samples, read_checkpoints(client, job))
    steady = msgspec.structs.replace(shown.steady, from_s=0.0, to_s=round(job.age_s, 2))
    about = ["The job has ended: its metrics are gone, and only the counters of each subtask are left."]
    if any(any(vertex.busy_ms_per_s) for vertex in shown.steady.vertices):
        about.append("Times and rates are means since each subtask last started, not values of one moment.")
    if not job.configuration:
        about.append("The options of the cluster are not reported; assuming Flink's defaults.")
    if not shown.checkpoints:
        about.append("The cluster keeps no completed checkpoint, so delays are unknown.")
    notes = [_note(note, wording) for note in dict.fromkeys([*about, *map(note_of, remarks)])]
    notes += map(note_of, missing_paths(client))
    return _diagnosis(shown, observation_of(scenario, steady, shown.checkpoints), latency_s, notes)
