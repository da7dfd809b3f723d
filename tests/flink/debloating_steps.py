"""What debloating goes by, step by step: written down by the agent in Flink, and seen in the emulator.

A gauge is shown once a second, and steps are five times as often. Where a prediction and a measurement
differ, the steps tell by what: how long channels are blocked, what is counted meanwhile, what it comes to.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import trio

from flowcontrol import Announcement, DebloatedChannel, DebloatPolicy
from netstack import Agenda, Job, Scenario, ScenarioError

from .cluster import TestbedError

_TASK = re.compile(r"(?P<vertex>.*) \((?P<subtask>\d+)/\d+\)")
_PLACE = re.compile(r"\bv(\d+)\b")
_LOOK_S = 0.001
"""When the emulated job is there; the first step comes later."""


class Step(NamedTuple):
    """One step of a gate, as it stood before."""

    t: float
    """Seconds since the run began."""
    vertex: str
    subtask: int
    gate: int
    size: int
    """Bytes of a buffer, announced last."""
    in_use: tuple[int, ...]
    """Buffers of each channel, as Flink counts them."""
    blocked: int
    """Number of channels that are blocked for alignment."""
    throughput: float | None
    """Bytes per second that the step uses; None: the step was left out."""


def of_scenario(vertices: Sequence[str]) -> Callable[[str], str]:
    """Return the function from Flink's name of a vertex to that of a scenario: `vertices[k]` is called vk."""

    def named(flinks: str) -> str:
        place = _PLACE.search(flinks)
        assert place is not None, flinks
        return vertices[int(place.group(1))]

    return named


def steps_in(files: Iterable[Path], vertex: Callable[[str], str], began_ms: float) -> list[Step]:
    """Read the steps that task managers have written; `vertex` returns our name for Flink's name of a vertex.

    Raises:
        TestbedError: there is nothing, so no gate was debloated.
    """
    steps = [
        _step(json.loads(line), vertex, began_ms)
        for file in files
        if file.exists()
        for line in file.read_text("utf-8").splitlines()
        if line.endswith("}")  # the last one may have been cut off
    ]
    if not steps:
        raise TestbedError("no step of debloating was written down; is it switched on?")
    return sorted(steps)


def _step(row: dict[str, Any], vertex: Callable[[str], str], began_ms: float) -> Step:
    called = _TASK.match(row["task"])
    assert called is not None, row["task"]
    channels = row["channels"]
    return Step(
        t=(row["ms"] - began_ms) / 1000,
        vertex=vertex(called["vertex"]),
        subtask=int(called["subtask"]) - 1,
        gate=row["gate"],
        size=row["size"],
        in_use=tuple(count for count, _ in channels),
        blocked=sum(blocked for _, blocked in channels),
        throughput=row["throughput"],
    )


def check_steps(scenario: Scenario) -> None:
    """Refuse a scenario whose steps cannot be shown.

    Raises:
        ScenarioError: debloating is off, or each channel has a size of its own.
    """
    if not scenario.config.debloat_enabled:
        raise ScenarioError([f"{scenario.name}: debloating is off, so there are no steps; switch it on"])
    if scenario.config.debloat_policy == "per-channel":
        raise ScenarioError(["--policy: per-channel has a size for each channel, and steps show one a gate"])


class _Witness(DebloatPolicy):
    """Passes every step on to the policy of a gate, and writes down what it is told."""

    def __init__(self, policy: DebloatPolicy, note: Callable[..., None]) -> None:
        super().__init__(policy.settings)
        self._policy = policy
        self._note = note
        self._follow()

    def _follow(self) -> None:
        self.last_announced = self._policy.last_announced
        self.estimated_time_s = self._policy.estimated_time_s

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take the step of the policy."""
        in_use = tuple(channel.buffers_in_use for channel in channels)
        blocked = sum(channel.blocked for channel in channels)
        self._note(now, size=self.last_announced, in_use=in_use, blocked=blocked, throughput=throughput)
        announced = list(self._policy.recalculate(throughput, channels, now))
        self._follow()
        return announced


def emulated_steps(scenario: Scenario, seed: int) -> list[Step]:
    """Run a scenario here, and return its steps; gates are numbered by the inputs of the task."""
    steps: list[Step] = []
    agenda = Agenda()
    job = Job(dataclasses.replace(scenario, seed=seed), agenda)

    def note(vertex: str, subtask: int, gate: int, now: float, **seen: Any) -> None:
        steps.append(Step(now, vertex, subtask, gate, **seen))

    def watch() -> None:
        assert job.attempt is not None
        for subtask in job.attempt.subtasks:
            gates = getattr(subtask, "gates", ())
            inputs = [edge.input for edge in scenario.edges if edge.target == subtask.name]
            in_order = sorted(range(len(gates)), key=inputs.__getitem__)
            for place, gate in enumerate(gates[of_input] for of_input in in_order):
                if gate.debloater is not None:
                    told = partial(note, subtask.name, subtask.index, place)
                    gate.debloater = _Witness(gate.debloater, told)

    agenda.keep(_LOOK_S, watch)
    trio.run(job.run, restrict_keyboard_interrupt_to_checkpoints=True)
    return steps


class Row(NamedTuple):
    """A figure of many steps."""

    name: str
    unit: str
    spread: tuple[float, float, float] | None
    """Of the values a twentieth is below the first, half is below the second, a twentieth above the last."""


def figures(runs: Sequence[Sequence[Step]], begin: float, end: float) -> list[Row]:
    """Return what the steps of a vertex from `begin` to `end` come to, in seconds since each run began."""
    gates = [gate for run in runs for gate in _by_gate(step for step in run if begin <= step.t < end)]
    within = [step for gate in gates for step in gate]
    free = [step for step in within if not step.blocked]
    share = [100 * sum(bool(step.blocked) for step in gate) / len(gate) for gate in gates]
    told = [
        sum(before.size != after.size for before, after in pairwise(gate)) / (end - begin) for gate in gates
    ]
    return [
        Row("steps with a blocked channel", "%", _spread(share)),
        Row("buffers in use, none blocked", "", _spread(sum(step.in_use) for step in free)),
        Row("buffers in use, some blocked", "", _spread(sum(s.in_use) for s in within if s.blocked)),
        Row("longest channel to the mean", "", _spread(_unevenness(free))),
        Row("size in force", "bytes", _spread(step.size for step in within)),
        Row("throughput", "KB/s", _spread(s.throughput / 1e3 for s in within if s.throughput is not None)),
        Row("announcements, a gate", "/s", _spread(told)),
    ]


def _by_gate(steps: Iterable[Step]) -> Iterable[list[Step]]:
    gates: dict[tuple[int, int], list[Step]] = {}
    for step in steps:
        gates.setdefault((step.subtask, step.gate), []).append(step)
    return gates.values()


def _unevenness(steps: Iterable[Step]) -> Iterator[float]:
    for step in steps:
        if total := sum(step.in_use):
            yield max(step.in_use) * len(step.in_use) / total


def _spread(values: Iterable[float]) -> tuple[float, float, float] | None:
    kept = sorted(values)
    if not kept:
        return None
    cuts = quantiles(kept, n=20, method="inclusive") if len(kept) > 1 else kept * 2
    return cuts[0], median(kept), cuts[-1]


def side_by_side(
    flinks: Sequence[Sequence[Step]], ours: Sequence[Sequence[Step]], windows: Sequence[tuple[float, float]]
) -> str:
    """Return a table for each gate of a vertex and each window: runs of Flink, and runs of ours."""
    lines = []
    gates = list(dict.fromkeys((step.vertex, step.gate) for run in flinks for step in run))
    for vertex, gate in sorted(gates):
        theirs, mine = (
            [[s for s in run if (s.vertex, s.gate) == (vertex, gate)] for run in runs]
            for runs in (flinks, ours)
        )
        several = sum(of_vertex == vertex for of_vertex, _ in gates) > 1
        for begin, end in windows:
            title = f"{vertex}, input {gate + 1}" if several else vertex
            lines += [f"{title}, {begin:g} to {end:g} s", f"{'':31}{'Flink':>22}  {'emulated':>22}"]
            pairs = zip(figures(theirs, begin, end), figures(mine, begin, end), strict=True)
            for row, other in pairs:
                name = f"{row.name}, {row.unit}" if row.unit else row.name
                lines.append(f"{name:31}{_shown(row):>22}  {_shown(other):>22}".rstrip())
            lines.append("")
    return "\n".join(lines)


def _shown(row: Row) -> str:
    if row.spread is None:
        return "-"
    least, middle, most = (f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in row.spread)
    return f"{middle} ({least}-{most})"
