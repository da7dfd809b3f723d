"""One run of a scenario in a real Flink, as a document in the layout of `tests/data/flink-reference`.

A running job is sampled once a second. Its checkpoints are read at the end, and windows are summed up.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any, Protocol

import numpy as np

from netstack import Scenario

from .cluster import PORT, Cluster, Software, TestbedError, cluster, steps_file
from .debloating_steps import Step, of_scenario, steps_in
from .job_description import ENTRY, described, in_order, layout_of, placed

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
    metrics: Mapping[str, str] = field(default_factory=lambda: METRICS)
    """Of each metric the pattern of its full name."""
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
            for metric, pattern in self.metrics.items():
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


_RATES = {
    "records_in_per_s": "numRecordsIn",
    "bytes_in_per_s": "numBytesIn",
    "records_out_per_s": "numRecordsOut",
    "bytes_out_per_s": "numBytesOut",
    "buffers_out_per_s": "numBuffersOut",
    "busy_ms_per_s": "accumulateBusyTimeMs",
    "backpressured_ms_per_s": "accumulateBackPressuredTimeMs",
    "idle_ms_per_s": "accumulateIdleTimeMs",
}
_GAUGES = (
    "debloatedBufferSize", "estimatedTimeToConsumeBuffersMs", "inputQueueLength", "inputQueueSize",
    "inPoolUsage", "inputExclusiveBuffersUsage", "inputFloatingBuffersUsage", "outPoolUsage",
    "outputQueueLength", "outputQueueSize",
)  # fmt: skip
_LEAST_SAMPLES = 5
"""A slope of fewer is not worth telling."""

Checkpoint = Mapping[str, Any]
Series = Mapping[str, Sequence[Sequence[float | None]]]


def steady(
    window: tuple[float, float],
    vertices: Sequence[JobVertex],
    times: Sequence[float],
    series: Sequence[Series],
    checkpoints: Iterable[Checkpoint],
) -> dict[str, Any]:
    """Return medians over the checkpoints triggered in a window, and rates and gauges of its samples."""
    begin, end = window
    inside = [each for each in checkpoints if begin <= each["t"] < end]
    durations = [each["duration_ms"] for each in inside]
    samples = [place for place, at in enumerate(times) if begin <= at < end]
    return {
        "from_s": begin,
        "to_s": end,
        "checkpoints": len(inside),
        "end_to_end_ms": _middle(durations),
        "end_to_end_ms_min": min(durations, default=None),
        "end_to_end_ms_max": max(durations, default=None),
        "persisted_bytes": _middle(each["persisted_bytes"] for each in inside),
        "processed_bytes": _middle(each["processed_bytes"] for each in inside),
        "vertices": [
            {"name": vertex.name, "parallelism": vertex.parallelism}
            | _barriers([each["vertices"][place] for each in inside])
            | _metrics(series[place], times, samples)
            for place, vertex in enumerate(vertices)
        ],
    }


def _barriers(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The delays of one vertex, over its subtasks and the checkpoints."""
    figures: dict[str, Any] = {}
    for key in ("alignment_ms", "start_delay_ms"):
        of_checkpoints = [part[key] for part in parts if part[key]]
        figures[key] = _middle(value for values in of_checkpoints for value in values)
        figures[f"{key}_max_subtask"] = _middle(max(values) for values in of_checkpoints)
    unaligned = [bool(value) for part in parts for value in part["unaligned"]]
    figures["unaligned_share"] = fmean(unaligned) if unaligned else None
    return figures


def _metrics(series: Series, times: Sequence[float], samples: Sequence[int]) -> dict[str, Any]:
    def inside(subtask: Sequence[float | None]) -> list[tuple[float, float]]:
        within = [place for place in samples if place < len(subtask)]
        return [(times[place], value) for place in within if (value := subtask[place]) is not None]

    figures: dict[str, Any] = {
        field: [_slope(inside(subtask)) for subtask in series.get(metric, ())]
        for field, metric in _RATES.items()
    }
    for gauge in _GAUGES:
        if gauge in series:
            figures[gauge] = [_middle(value for _, value in inside(subtask)) for subtask in series[gauge]]
    return figures


def growth(
    times: Sequence[float], values: Sequence[float | None], window: tuple[float, float]
) -> float | None:
    """Return how fast a value grows per second in a window; None: there are too few samples."""
    begin, end = window
    known = [(at, value) for at, value in zip(times, values, strict=False) if value is not None]
    return _slope([(at, value) for at, value in known if begin <= at < end])


def _slope(points: Sequence[tuple[float, float]]) -> float | None:
    """How fast a counter grows, by least squares."""
    if len(points) < _LEAST_SAMPLES:
        return None
    at, values = np.array(points, dtype=np.float64).T
    return round(float(np.polyfit(at - at[0], values - values[0], 1)[0]), 1)


def _middle(values: Iterable[float]) -> float | None:
    known = list(values)
    return median(known) if known else None


_TRIES = 3
"""Maximum number of attempts to get each subtask on the task manager that the scenario names."""

_ROW_KEYS = ("steady", "checkpoints")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(
    scenario: Scenario, software: Software, port: int = PORT, *, steps: list[Step] | None = None
) -> tuple[Scenario, dict[str, Any]]:
    """Run a scenario in a fresh cluster; returns it as it was placed, and what was measured.

    `steps` gets what each gate's debloating went by; None: Flink is not asked for it.

    Raises:
        ScenarioError: it cannot be made in Flink.
        TestbedError: the cluster or the job has failed.
    """
    description = described(scenario)
    began = time.time()
    load = Load()
    layout = dataclasses.replace(layout_of(scenario), steps=steps is not None)
    with cluster(software, layout, port) as running:
        job, ran, vertices = submitted(running, scenario, json.dumps(description))
        if layout.changed:
            check_agent(running)
        load.begin(running)
        samples, began_ms = sampled(running, job, vertices, scenario.duration_s)
        load.end(running)
        checkpoints, failed = checkpoints_of(running.rest, job, vertices, began_ms)
        running.cancel(job)
        if steps is not None:
            names = [vertex.name for vertex in in_order(scenario)]
            files = [steps_file(running.folder, name) for name in running.processes.ids]
            steps += steps_in(files, of_scenario(names), began_ms)
    document = {
        "scenario": scenario.name,
        "about": "",
        "policy": scenario.config.debloat_policy,
        "versions": {"flink": software.release, "python": platform.python_version()},
        "machine": machine(),
        "other_cores_used": load.of_others,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "warmup_s": scenario.warmup_s,
        "seconds": scenario.duration_s,
        "failed_checkpoints": failed,
        "steady": [
            steady(window, vertices, samples.times, samples.series, checkpoints)
            for window in scenario.windows
        ],
        "checkpoints": checkpoints,
        "t": samples.times,
        "series": samples.series,
    }
    return ran, document


def repeated(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return several runs as one measurement: the first, and of the others what is compared."""
    first, *others = documents
    return first | {"repetitions": [{key: other[key] for key in _ROW_KEYS} for other in others]}


def outcome(document: Mapping[str, Any]) -> str:
    """Return what a run came to, in a few words."""
    blocks = [block for block in document["steady"] if block["checkpoints"]]
    times = ", ".join(f"{block['end_to_end_ms']:g} ms" for block in blocks)
    return f"end to end {times}" if times else "no checkpoint was completed in time"


def submitted(
    running: Cluster, scenario: Scenario, description: str, checkpoint: str | None = None
) -> tuple[str, Scenario, list[JobVertex]]:
    """Run the job, if possible with every subtask where the scenario has it.

    Returns its id, the scenario as it was placed, and the vertices, sources first. `checkpoint`: the path of
    the checkpoint from which the job starts.

    Raises:
        TestbedError: the job does not run.
    """
    names = [vertex.name for vertex in in_order(scenario)]
    for left in reversed(range(_TRIES)):
        job = running.submit(ENTRY, [description], checkpoint)
        vertices = vertices_of(running.rest, job, names)
        occupied = {
            vertex.name: [scenario.task_managers[int(name[2:])] for name in vertex.task_managers]
            for vertex in vertices
        }
        ran = placed(scenario, occupied)
        if ran is scenario or not left:
            break
        running.cancel(job)
    if ran is not scenario:
        say(f"{scenario.name}: Flink has placed subtasks otherwise, and so will we")
    by_name = {vertex.name: vertex for vertex in vertices}
    sources_first = sorted(scenario.vertices, key=lambda vertex: vertex.source is None)
    return job, ran, [by_name[vertex.name] for vertex in sources_first]


def sampled(
    running: Cluster,
    job: str,
    vertices: Sequence[JobVertex],
    seconds: float,
    *,
    metrics: Mapping[str, str] = METRICS,
    enough: Callable[[Samples], bool] = lambda samples: False,
) -> tuple[Samples, float]:
    """Take a sample each second, until there is `enough`; returns them, and when the first was taken, in ms
    since 1970.

    Raises:
        TestbedError: the cluster or the job has failed meanwhile.
    """
    samples = Samples(vertices, metrics)
    began = time.time()
    for number in range(int(seconds)):
        time.sleep(max(0.0, began + number - time.time()))
        running.check(job)
        samples.take(running.rest, job, time.time() - began)
        if enough(samples):
            break
    return samples, began * 1000


def check_agent(running: Cluster) -> None:
    """Check that the agent has changed Flink.

    Raises:
        TestbedError: a class of this Flink lacks a method that the agent changes, or nothing was changed.
    """
    texts = [(running.folder / f"{name}.out").read_text("utf-8") for name in running.processes.ids]
    lines = [line for text in texts for line in text.splitlines() if line.startswith("testbed: ")]
    if missing := [line for line in lines if " has no " in line]:
        raise TestbedError(f"the agent cannot change this Flink: {missing[0].removeprefix('testbed: ')}")
    if not lines:
        raise TestbedError("the agent has changed nothing: Flink's classes are not what it expects")


class Load:
    """The cores that other processes than the cluster's take: on a busy machine, delays are longer."""

    def __init__(self) -> None:
        self.of_others: float | None = None
        self._before = (0.0, 0.0)

    def begin(self, running: Cluster) -> None:
        self._before = time.monotonic(), self._others(running)

    def end(self, running: Cluster) -> None:
        at, before = self._before
        self.of_others = round((self._others(running) - before) / (time.monotonic() - at), 2)

    @staticmethod
    def _others(running: Cluster) -> float:
        """Seconds of processor time, of the machine without the cluster's."""
        ticks = os.sysconf("SC_CLK_TCK")
        user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text("ascii").split()[1:9])
        clusters = 0
        for process in running.processes.ids.values():
            fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
            clusters += int(fields[11]) + int(fields[12])
        return (user + nice + system + sum(rest) - clusters) / ticks


def machine() -> dict[str, Any]:
    """What a measurement was made on."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "java": said.splitlines()[0],
    }
