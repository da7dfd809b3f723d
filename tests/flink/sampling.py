"""What a running job shows: its metrics once a second, and its checkpoints when the run is over."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

_GATE = r"Shuffle\.Netty\.Input\.\d+\."
_BUFFERS = r"Shuffle\.Netty\.(Input|Output)\.Buffers\."
_COUNTERS = (
    "numRecordsIn", "numBytesIn", "numRecordsOut", "numBytesOut", "numBuffersOut",
    "accumulateBusyTimeMs", "accumulateBackPressuredTimeMs", "accumulateIdleTimeMs",
)  # fmt: skip
_POOLS = (
    "inputQueueLength", "inputQueueSize", "inPoolUsage", "inputExclusiveBuffersUsage",
    "inputFloatingBuffersUsage", "outPoolUsage", "outputQueueLength", "outputQueueSize",
)  # fmt: skip

METRICS: Mapping[str, str] = {
    **{name: name for name in _COUNTERS},
    **{name: _BUFFERS + name for name in _POOLS},
    "debloatedBufferSize": _GATE + "debloatedBufferSize",
    "estimatedTimeToConsumeBuffersMs": _GATE + "estimatedTimeToConsumeBuffersMs",
}
"""Of each metric the pattern of its full name; those of a gate may be there several times."""

_OVER_GATES: Mapping[str, Callable[[Sequence[float]], float]] = {"debloatedBufferSize": min}
"""How the values of several gates become a subtask's; the greatest unless said here."""

_NOT_YET = -1e15
"""What a gauge shows that has measured nothing is far below this."""


class Asked(Protocol):
    """What answers for a cluster."""

    def get(self, path: str) -> Any: ...


@dataclass(frozen=True)
class JobVertex:
    """A vertex of a running job."""

    id: str
    name: str
    """As the scenario has it."""
    parallelism: int
    task_managers: tuple[str, ...]
    """Of each subtask."""


_NAME = re.compile(r"\bv(\d+)\b")


def vertices_of(rest: Asked, job: str, names: Sequence[str]) -> list[JobVertex]:
    """Return the vertices of a job of ours, in the order of `names`; Flink calls the kth one "vk"."""
    by_place = {}
    for vertex in rest.get(f"/jobs/{job}")["vertices"]:
        called = _NAME.search(vertex["name"])
        assert called is not None, vertex["name"]
        place = int(called.group(1))
        by_place[place] = _vertex(rest, job, vertex, names[place])
    return [by_place[place] for place in range(len(names))]


def all_vertices(rest: Asked, job: str) -> list[JobVertex]:
    """Return the vertices of any job, by Flink's names."""
    return [_vertex(rest, job, vertex, vertex["name"]) for vertex in rest.get(f"/jobs/{job}")["vertices"]]


def _vertex(rest: Asked, job: str, vertex: Mapping[str, Any], name: str) -> JobVertex:
    subtasks = rest.get(f"/jobs/{job}/vertices/{vertex['id']}")["subtasks"]
    managers = tuple(subtask.get("taskmanager-id", "") for subtask in subtasks)
    return JobVertex(vertex["id"], name, vertex["parallelism"], managers)


@dataclass
class Samples:
    """Values over time: ``series[vertex][metric][subtask][sample]`` at ``times[sample]``, or None."""

    vertices: Sequence[JobVertex]
    times: list[float] = field(default_factory=list)
    series: list[dict[str, list[list[float | None]]]] = field(default_factory=list)
    _names: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def take(self, rest: Asked, job: str, at_s: float) -> None:
        """Ask every subtask once."""
        self.times.append(round(at_s, 2))
        self.series = self.series or [{} for _ in self.vertices]
        for vertex, series in zip(self.vertices, self.series, strict=True):
            names = self._names_of(rest, job, vertex)
            for subtask in range(vertex.parallelism):
                values = self._values(rest, job, vertex, subtask, names)
                for metric in names:
                    rows = series.setdefault(metric, [[] for _ in range(vertex.parallelism)])
                    missed = len(self.times) - 1 - len(rows[subtask])
                    rows[subtask] += [None] * missed + [values.get(metric)]

    def _names_of(self, rest: Asked, job: str, vertex: JobVertex) -> dict[str, list[str]]:
        """The full names of each metric; asked for until all are there that a task has."""
        known = self._names.setdefault(vertex.id, {})
        if len(known) < len(_COUNTERS) + len(_POOLS):
            listed = rest.get(f"/jobs/{job}/vertices/{vertex.id}/metrics")
            full = sorted({each["id"].partition(".")[2] for each in listed if each["id"].startswith("0.")})
            for metric, pattern in METRICS.items():
                if names := [name for name in full if re.fullmatch(pattern, name)]:
                    known[metric] = names
        return known

    def _values(
        self, rest: Asked, job: str, vertex: JobVertex, subtask: int, names: Mapping[str, list[str]]
    ) -> dict[str, float]:
        if not names:
            return {}
        asked = ",".join(name for several in names.values() for name in several)
        path = f"/jobs/{job}/vertices/{vertex.id}/subtasks/{subtask}/metrics?get={asked}"
        told = {each["id"]: _number(each["value"]) for each in rest.get(path)}
        values = {}
        for metric, several in names.items():
            of_gates = [value for name in several if (value := told.get(name)) is not None]
            if of_gates:
                values[metric] = _OVER_GATES.get(metric, max)(of_gates)
        return values


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isnan(number) or number < _NOT_YET:
        return None
    return int(number) if number.is_integer() else round(number, 3)


def checkpoints_of(
    rest: Asked, job: str, vertices: Sequence[JobVertex], began_ms: float
) -> tuple[list[dict[str, Any]], int]:
    """Return the completed checkpoints, oldest first, and how many failed; times count from `began_ms`."""
    completed, failed = [], 0
    history = rest.get(f"/jobs/{job}/checkpoints")["history"]
    for checkpoint in sorted(history, key=lambda each: each["id"]):
        if checkpoint["status"] == "COMPLETED":
            completed.append(_checkpoint(rest, job, vertices, checkpoint, began_ms))
        failed += checkpoint["status"] == "FAILED"
    return completed, failed


def _checkpoint(
    rest: Asked, job: str, vertices: Sequence[JobVertex], checkpoint: Mapping[str, Any], began_ms: float
) -> dict[str, Any]:
    details = f"/jobs/{job}/checkpoints/details/{checkpoint['id']}/subtasks"
    return {
        "id": checkpoint["id"],
        "t": round((checkpoint["trigger_timestamp"] - began_ms) / 1000, 2),
        "duration_ms": checkpoint["end_to_end_duration"],
        "type": checkpoint.get("checkpoint_type"),
        "processed_bytes": checkpoint["processed_data"],
        "persisted_bytes": checkpoint["persisted_data"],
        "vertices": [_parts(rest.get(f"{details}/{vertex.id}")["subtasks"]) for vertex in vertices],
    }


def _parts(subtasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    done = [subtask for subtask in subtasks if subtask["status"] == "completed"]
    return {
        "end_to_end_ms": [subtask["end_to_end_duration"] for subtask in done],
        "start_delay_ms": [subtask["start_delay"] for subtask in done],
        "alignment_ms": [subtask["alignment"]["duration"] for subtask in done],
        "alignment_processed_bytes": [subtask["alignment"]["processed"] for subtask in done],
        "alignment_persisted_bytes": [subtask["alignment"]["persisted"] for subtask in done],
        "sync_ms": [subtask["checkpoint"]["sync"] for subtask in done],
        "async_ms": [subtask["checkpoint"]["async"] for subtask in done],
        "unaligned": [subtask["unaligned_checkpoint"] for subtask in done],
    }
