"""One run of a scenario in a real Flink, as a document in the layout of `tests/data/flink-reference`."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netstack import Scenario

from .cluster import PORT, Cluster, cluster, steps_file
from .debloating_steps import Step, of_scenario, steps_in
from .errors import TestbedError
from .job_description import ENTRY, described, in_order, layout_of
from .sampling import JobVertex, Samples, checkpoints_of, vertices_of
from .slot_groups import placed
from .software import Software
from .steady_windows import steady

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
        job, ran, vertices = _submitted(running, scenario, json.dumps(description))
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


def _submitted(
    running: Cluster, scenario: Scenario, description: str
) -> tuple[str, Scenario, list[JobVertex]]:
    """Run the job, if possible with every subtask where the scenario has it."""
    names = [vertex.name for vertex in in_order(scenario)]
    for left in reversed(range(_TRIES)):
        job = running.submit(ENTRY, [description])
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
    running: Cluster, job: str, vertices: Sequence[JobVertex], seconds: float
) -> tuple[Samples, float]:
    """Take a sample each second; returns them, and when the first was taken, in ms since 1970.

    Raises:
        TestbedError: the cluster or the job has failed meanwhile.
    """
    samples = Samples(vertices)
    began = time.time()
    for number in range(int(seconds)):
        time.sleep(max(0.0, began + number - time.time()))
        running.check(job)
        samples.take(running.rest, job, time.time() - began)
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
    """The cores that anybody but the cluster takes: on a busy machine delays come out longer."""

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
