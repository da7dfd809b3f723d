"""What a job is, in a few lines: from the scenario that a result carries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sized
from pathlib import PurePath

from netstack import (
    FROM_SOURCE,
    CheckpointMode,
    GeneratorSpec,
    NetworkConfig,
    Result,
    Scenario,
    SourceObject,
    SourceSpec,
    Vertex,
    format_duration,
    object_name,
)

from ..analysis.wording import counted

Fact = tuple[str, str]
"""What it is about, and what there is to say; a line of a report."""


def job_facts(result: Result, *, origins: bool = True) -> list[Fact]:
    """Return the topology, the sources, the service times and what was measured, one line each.

    `origins` is whether to say what the sources read, beside how fast they are.
    """
    scenario = result.scenario
    facts = [("Job", _topology(scenario))]
    sources = [(vertex, vertex.source) for vertex in scenario.vertices if vertex.source is not None]
    facts += [
        ("Sources", f"{_prefix(vertex, sources)}{_source(vertex, source, origins)}")
        for vertex, source in sources
    ]
    served = [vertex for vertex in scenario.vertices if vertex.service]
    facts += [("Service", f"{_prefix(vertex, served)}{_service(vertex)}") for vertex in served]
    facts.append(("Checkpoints", _checkpoints(scenario.config)))
    facts.append(("Measured", _measured(result)))
    return facts


def is_exactly_once(result: Result) -> bool:
    """Whether the state after a restart is as if each record had been processed once."""
    return result.scenario.config.checkpoint_mode is CheckpointMode.EXACTLY_ONCE


def how_obtained(result: Result, command: str) -> list[Fact]:
    """Return how a result came about, so that somebody can get it again."""
    facts = [
        ("Clock", f"{result.clock} time, {result.link} links, preset {result.preset}, seed {result.seed}"),
        ("Emulated", f"{result.emulated_seconds:g} s in {result.wall_seconds:.1f} s of real time"),
        ("Moved", f"{result.work.buffers:,} buffers with {result.work.records:,} records"),
        ("Versions", versions_text(result.versions)),
        ("Command", command),
    ]
    return [(name, text) for name, text in facts if text]


def versions_text(versions: Mapping[str, str]) -> str:
    """Return which versions of what made a result, as "netstack 0.1.0, python 3.11.7"."""
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


def _topology(scenario: Scenario) -> str:
    subtasks = {vertex.name: _subtasks(vertex) for vertex in scenario.vertices}
    if not scenario.edges:
        return ", ".join(f"{name} ×{count}" for name, count in subtasks.items())
    return "; ".join(
        f"{edge.source} ×{subtasks[edge.source]} → {edge.ship} → {edge.target} ×{subtasks[edge.target]}"
        for edge in scenario.edges
    )


def _subtasks(vertex: Vertex) -> int:
    return 1 if vertex.parallelism == FROM_SOURCE else vertex.parallelism


def _prefix(vertex: Vertex, all_of_them: Sized) -> str:
    return f"{vertex.name}: " if len(all_of_them) > 1 else ""


def _source(vertex: Vertex, source: SourceSpec, origins: bool) -> str:
    paces = Counter(vertex.rate(subtask) for subtask in range(_subtasks(vertex)))
    pace = ", ".join(_pace(rate, count) for rate, count in paces.items())
    return f"{_origin(source)}; {pace}" if origins else pace


def _origin(source: SourceSpec) -> str:
    if isinstance(source, GeneratorSpec):
        return f"generated records of {source.record_bytes:,} bytes"
    if isinstance(source, SourceObject):
        return object_name(source.source) if source.spec is None else _origin(source.spec)
    keyed = f", keyed by {', '.join(source.key)}" if source.key else ""
    return f"{PurePath(source.path).name}{keyed}{', over and over' if source.repeat else ''}"


def _pace(rate: float, count: int) -> str:
    return f"{counted(count, 'subtask')} {f'at {rate:,.4g} records/s' if rate else 'as fast as possible'}"


def _service(vertex: Vertex) -> str:
    costs = [(format_duration(at), format_duration(cost)) for at, cost in vertex.service]
    if len(costs) == 1:
        text = f"{costs[0][1]} a record"
    else:
        text = ", ".join(f"{cost} a record from {at} on" for at, cost in costs)
    skew = vertex.service_skew
    skewed = f"{text}, times {', '.join(f'{factor:g}' for factor in skew)} by subtask"
    return text if skew == (1.0,) else skewed


def _checkpoints(config: NetworkConfig) -> str:
    if config.checkpoint_interval_s is None:
        return "none"
    every = f"every {format_duration(config.checkpoint_interval_s)}"
    if config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
        return f"{every}, at least once, without alignment"
    if not config.unaligned_enabled:
        return f"{every}, exactly once, aligned"
    if not config.aligned_checkpoint_timeout_s:
        return f"{every}, exactly once, unaligned"
    timeout = format_duration(config.aligned_checkpoint_timeout_s)
    return f"{every}, exactly once, aligned for {timeout} and then unaligned"


def _measured(result: Result) -> str:
    windows = [f"{steady.from_s:g} to {steady.to_s:g} s" for steady in result.steady]
    clock = "emulated time" if result.clock == "virtual" else "real time"
    return f"{', '.join(windows)} of {clock}{', over TCP' if result.link == 'tcp' else ''}"
