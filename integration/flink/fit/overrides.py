"""Values of the user that replace those reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, TypeVar, get_args

from ...base.errors import FlinkRestError, Note, Parameter, ParameterName
from ..read.job import FlinkJob

EVERYWHERE = ""
"""Key of an override that applies to all vertices of its kind."""

InputKind = Literal["union", "join"]
INPUT_KINDS: tuple[InputKind, ...] = get_args(InputKind)

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """User values that replace reported ones, by a vertex's name in the scenario or by `EVERYWHERE`."""

    record_bytes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Bytes of a source's records, without their length field."""
    service_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Seconds per record in all subtasks of a vertex with input."""
    rate: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Records per second of each subtask of a source, 0: as fast as possible."""
    service_mode: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Service mode (of `SERVICE_MODES`) of a vertex with input. "burn" is for CPU-bound work."""
    window_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Size in seconds of the windows of a vertex that does its work when a window fires."""
    inputs: Mapping[str, InputKind] = dataclasses.field(default_factory=dict)
    """Kind of the inputs ("union" or "join") of a vertex that reads several exchanges."""
    cores: float | None = None
    """Cores of each machine."""
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Options of Flink by their names."""
    latency_s: float = 0.0
    """Latency of the network between task managers, which Flink does not measure."""


def of_vertex(values: Mapping[str, T], name: str) -> T | None:
    """Return the override for a vertex, or the one for all vertices; None: there is none."""
    return values.get(name, values.get(EVERYWHERE))


def check_names(given: Overrides, job: FlinkJob) -> None:
    """Reject overrides for vertices that do not exist or are of the wrong kind, such as the rate of a sink.

    Raises:
        FlinkRestError: with a line for each such override.
    """
    sources = [job.names[vertex.id] for vertex in job.vertices if not job.inputs(vertex)]
    others = [name for name in job.names.values() if name not in sources]
    several = [job.names[vertex.id] for vertex in job.vertices if len(job.inputs(vertex)) > 1]
    kinds: tuple[tuple[ParameterName, Mapping[str, object], list[str], str], ...] = (
        ("record_bytes", given.record_bytes, sources, "source"),
        ("rate", given.rate, sources, "source"),
        ("service_s", given.service_s, others, "vertex with input"),
        ("service_mode", given.service_mode, others, "vertex with input"),
        ("window_s", given.window_s, others, "vertex with input"),
        ("inputs", given.inputs, several, "vertex that reads several exchanges"),
    )
    wrong = [
        Note(
            f"{name}: no {kind} has this name; the job has {', '.join(known) or 'none'}.",
            Parameter(parameter),
            advice="Set {} for one of these." if known else "Remove {}.",
        )
        for parameter, values, known, kind in kinds
        for name in values
        if name not in (EVERYWHERE, *known)
    ]
    if wrong:
        raise FlinkRestError(*wrong)
