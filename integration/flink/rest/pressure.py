"""How a vertex spends its time, as ``/jobs/ID/vertices/V/backpressure`` says: what Flink's web UI shows.

It is of one moment, and so stands in only where metrics that were watched say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from netstack import VertexSteady

from .client import RestClient
from .cluster_job import FlinkJob, FlinkVertex
from .sampling import number

LEVELS = {"ok": False, "low": True, "high": True}
"""Flink's words, and whether a vertex of that level waits for buffers to write to."""

_RATIOS = {
    "backpressured_ms_per_s": "ratio",
    "busy_ms_per_s": "busyRatio",
    "idle_ms_per_s": "idleRatio",
}
"""Field of a vertex: what the answer calls it, as a share."""


class Pressure(NamedTuple):
    """What a vertex answered: shares of time by field and subtask in ms per second, and Flink's word."""

    shares: dict[str, list[float | None]]
    level: str | None


def read_pressure(client: RestClient, job: FlinkJob, vertex: FlinkVertex) -> Pressure | None:
    """Return what the cluster says of a vertex; None where it does not."""
    answer = client.find(f"/jobs/{job.id}/vertices/{vertex.id}/backpressure")
    if not isinstance(answer, dict) or answer.get("status") == "deprecated":
        return None
    by_index = {entry["subtask"]: entry for entry in answer.get("subtasks") or ()}
    subtasks = [by_index.get(subtask, {}) for subtask in range(vertex.parallelism)]
    shares = {field: [_ms(entry.get(name)) for entry in subtasks] for field, name in _RATIOS.items()}
    level = answer.get("backpressureLevel", answer.get("backpressure-level"))
    return Pressure(shares, level if level in LEVELS else None)


def filled(vertex: VertexSteady, pressure: Pressure) -> VertexSteady:
    """Return a vertex with what was said of its time where its metrics do not tell."""
    changes: dict[str, Any] = {
        field: _filled(getattr(vertex, field), shares) for field, shares in pressure.shares.items()
    }
    return msgspec.structs.replace(vertex, **changes)


def _filled(measured: Sequence[float | None], said: Sequence[float | None]) -> list[float | None]:
    return [there if there is not None else other for there, other in zip(measured, said, strict=True)]


def _ms(ratio: object) -> float | None:
    value = number(ratio)
    return None if value is None or value < 0 else 1000 * value
