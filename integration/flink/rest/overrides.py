"""What a user knows better than the cluster tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from .client import FlinkRestError
from .cluster_job import FlinkJob

EVERYWHERE = ""
"""The key of an override that holds for all vertices of its kind."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values in place of those read; by a vertex's name in the scenario, or `EVERYWHERE`."""

    record_bytes: Mapping[str, int] = field(default_factory=dict)
    """Of sources: bytes of a record, without its length."""
    service_s: Mapping[str, float] = field(default_factory=dict)
    """Of vertices with input: seconds a record, in all subtasks."""
    rate: Mapping[str, float] = field(default_factory=dict)
    """Of sources: records per second of each subtask, 0 for as fast as possible."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of Flink by their names."""
    latency_s: float = 0.0
    """Of the network between task managers, which Flink does not measure."""


def of_vertex(values: Mapping[str, T], name: str) -> T | None:
    """Return the override for a vertex, or the one for all; None: there is none."""
    return values.get(name, values.get(EVERYWHERE))


def check_names(given: Overrides, job: FlinkJob, names: Mapping[str, str]) -> None:
    """Refuse overrides for vertices that are not there, or of the other kind.

    Raises:
        FlinkRestError: with a line for each.
    """
    sources = [names[vertex.id] for vertex in job.vertices if not job.inputs(vertex)]
    others = [name for name in names.values() if name not in sources]
    kinds: tuple[tuple[str, Mapping[str, object], list[str], str], ...] = (
        ("--record-bytes", given.record_bytes, sources, "source"),
        ("--rate", given.rate, sources, "source"),
        ("--service", given.service_s, others, "vertex with input"),
    )
    wrong = [
        f"{option} {name}: no {kind} has that name; use one of {', '.join(known)}"
        for option, values, known, kind in kinds
        for name in values
        if name not in (EVERYWHERE, *known)
    ]
    if wrong:
        raise FlinkRestError(*wrong)
