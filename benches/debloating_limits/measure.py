"""One run of one job under one mechanism, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import msgspec

from netstack import CheckpointMode, Result, Scenario, emulate

from ..policies import durations, record_delay_ms
from ..policy_scenarios import SINK, Case
from .variants import example

Mechanism = Callable[[Scenario, int], Result]
"""Runs a scenario, which has debloating on, with a seed."""

Settings = dict[str, object]
"""Fields of `NetworkConfig`."""

KIB = 1024


class Figures(msgspec.Struct, frozen=True):
    """One run, or the medians over some; times in ms, each after the warm-up."""

    end_to_end_ms: float
    """Of checkpoints, median."""
    worst_ms: float
    """The longest checkpoint."""
    delay_ms: float
    """From the emission of a record until the sink has read it, median of a sample each second."""
    records_per_s: float
    """Into all sinks."""
    stored_bytes: float
    """Data in flight that a checkpoint stores, median."""
    buffer_bytes: float
    """The size that consumers ask for at the end; 0 without debloating."""


class Asked(NamedTuple):
    """A run to be made."""

    scenario: Scenario
    mechanism: str
    seed: int = 1


def figures_of(result: Result) -> Figures:
    """What a run comes to.

    Raises:
        ValueError: if no checkpoint was complete after the warm-up: the run is too short.
    """
    scenario = result.scenario
    counted = [duration for at, duration in durations(result) if at >= scenario.warmup_s]
    if not counted:
        raise ValueError(f"{scenario.name}: no checkpoint within {scenario.duration_s:.0f} s")
    series = next(series for series in result.series if series.vertex == SINK)
    read = [sum(subtask) for subtask in zip(*series.numRecordsIn, strict=True)]
    first = next(place for place, at in enumerate(series.t) if at >= scenario.warmup_s)
    sink = next(vertex for vertex in result.steady[-1].vertices if vertex.name == SINK)
    return Figures(
        median(counted),
        max(counted),
        record_delay_ms(result, Case("", scenario)),
        (read[-1] - read[first]) / (series.t[-1] - series.t[first]),
        median(
            one.persisted_bytes
            for one in result.checkpoints
            if one.duration_ms is not None and one.t >= scenario.warmup_s
        ),
        median(size or 0.0 for size in sink.debloatedBufferSize),
    )


def with_config(scenario: Scenario, **values: object) -> Scenario:
    """The same job under other settings."""
    return replace(scenario, config=replace(scenario.config, **values))  # type: ignore[arg-type]


def _configured(**values: object) -> Mechanism:
    return lambda scenario, seed: emulate(with_config(scenario, **values), seed=seed)


def fewer(exclusive: int, floating: int, **values: object) -> Mechanism:
    """So many buffers for each channel and for each gate, and a partition with as many."""
    return _configured(exclusive_buffers_per_channel=exclusive, floating_buffers_per_gate=floating, **values)


def smallest_partitions(scenario: Scenario) -> Scenario:
    """The same job with one buffer for each subpartition, and one more: the fewest that Flink allows."""
    edges = []
    for edge in scenario.edges:
        subpartitions = 1 if edge.ship == "forward" else scenario.vertex(edge.target).parallelism
        edges.append(replace(edge, buffers=replace(edge.buffers, partition=subpartitions + 1)))
    return replace(scenario, edges=tuple(edges))


def _by_bytes(policy: str, *, smallest: bool = False) -> Mechanism:
    def run(scenario: Scenario, seed: int) -> Result:
        chosen = smallest_partitions(scenario) if smallest else scenario
        result = example("credit_by_bytes").by_bytes(chosen, policy, seed)
        assert isinstance(result, Result)
        return result

    return run


def _overtaking(limit: int, **values: object) -> Mechanism:
    def run(scenario: Scenario, seed: int) -> Result:
        result = example("limited_overtaking").run(with_config(scenario, **values), limit, seed)
        assert isinstance(result, Result)
        return result

    return run


OFF: Settings = {"debloat_enabled": False}
UNALIGNED: Settings = {"unaligned_enabled": True}
AT_LEAST_ONCE: Settings = {"checkpoint_mode": CheckpointMode.AT_LEAST_ONCE}


def timeout(seconds: float) -> Settings:
    """Aligned for so long, then unaligned."""
    return {"unaligned_enabled": True, "aligned_checkpoint_timeout_s": seconds}


FEWER = {
    f"{exclusive}/{floating}{suffix}": fewer(exclusive, floating, **values)
    for exclusive in (2, 1, 0)
    for floating in (8, 4, 2, 1)
    for suffix, values in ((" buffers", OFF), (" buffers, debloating", {}))
}

MODES: dict[str, Settings] = {
    "aligned": {},
    "unaligned": UNALIGNED,
    "at least once": AT_LEAST_ONCE,
    "timeout 300 ms": timeout(0.3),
}

MECHANISMS: Mapping[str, Mechanism] = {
    **FEWER,
    "credit by bytes": _by_bytes("whole-segments"),
    "credit by bytes, smallest partitions": _by_bytes("whole-segments", smallest=True),
    "credit by bytes, debloating": _by_bytes("flink-and-bytes"),
    **{
        f"overtakes {limit}{suffix}": _overtaking(limit, **values)
        for limit in (0, 1, 2, 3, 4, 6, 12)
        for suffix, values in (("", OFF), (", debloating", {}))
    },
    **{
        f"{mode}{suffix}": _configured(**{**values, **switch})
        for mode, values in MODES.items()
        for suffix, switch in (("", OFF), (", debloating", {}))
    },
    **{
        f"timeout {ms} ms": _configured(**{**timeout(ms / 1000), **OFF})
        for ms in (100, 500, 1000, 2000, 3000)
    },
}


def run(asked: Asked) -> Figures:
    """Make one run."""
    return figures_of(MECHANISMS[asked.mechanism](asked.scenario, asked.seed))


def run_all(pool: Executor, asked: Iterable[Asked]) -> Iterable[Figures]:
    """Make all of them, in order."""
    return pool.map(run, asked)


def medians(found: Iterable[Figures]) -> Figures:
    """Of several seeds; the longest checkpoint is that of all."""
    runs = list(found)
    fields = {name: median(getattr(one, name) for one in runs) for name in Figures.__struct_fields__}
    return Figures(**{**fields, "worst_ms": max(one.worst_ms for one in runs)})


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Markdown; all columns but the first are numbers."""
    titles = list(head)
    lines = [f"| {' | '.join(titles)} |", "|---|" + "---:|" * (len(titles) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
