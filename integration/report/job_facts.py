"""What a job is, in a few lines: from the scenario that a result carries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from netstack import Result, parse_flink_duration

from ..analysis.wording import counted

Fact = tuple[str, str]
"""What it is about, and what there is to say; a line of a report."""

_INTERVAL = "execution.checkpointing.interval"
_MODE = "execution.checkpointing.mode"
_UNALIGNED = "execution.checkpointing.unaligned.enabled"
_TIMEOUT = "execution.checkpointing.aligned-checkpoint-timeout"


def job_facts(result: Result, *, origins: bool = True) -> list[Fact]:
    """Return the topology, the sources, the service times and what was measured, one line each.

    `origins` is whether to say what the sources read, beside how fast they are.
    """
    scenario = result.scenario
    vertices = scenario["vertices"]
    sources = [vertex for vertex in vertices if "source" in vertex]
    facts = [("Job", _topology(scenario))]
    facts += [("Sources", f"{_prefix(source, sources)}{_source(source, origins)}") for source in sources]
    served = [vertex for vertex in vertices if "service" in vertex]
    facts += [("Service", f"{_prefix(vertex, served)}{_service(vertex)}") for vertex in served]
    facts.append(("Checkpoints", _checkpoints(scenario.get("flink", {}))))
    facts.append(("Measured", _measured(result)))
    return facts


def is_exactly_once(result: Result) -> bool:
    """Whether the state after a restart is as if each record had been processed once."""
    return not _at_least_once(result.scenario.get("flink", {}))


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


def _topology(scenario: dict[str, Any]) -> str:
    subtasks = {vertex["name"]: vertex.get("parallelism", 1) for vertex in scenario["vertices"]}
    edges = scenario.get("edges", [])
    if not edges:
        return ", ".join(f"{name} ×{count}" for name, count in subtasks.items())
    return "; ".join(
        f"{edge['from']} ×{subtasks[edge['from']]} → {edge.get('ship', 'rebalance')} → "
        f"{edge['to']} ×{subtasks[edge['to']]}"
        for edge in edges
    )


def _prefix(vertex: dict[str, Any], all_of_them: Sequence[dict[str, Any]]) -> str:
    return f"{vertex['name']}: " if len(all_of_them) > 1 else ""


def _source(vertex: dict[str, Any], origins: bool) -> str:
    source = vertex["source"]
    rates = source.get("rate") or [0]
    paces = Counter(rates[subtask % len(rates)] for subtask in range(vertex.get("parallelism", 1)))
    pace = ", ".join(_pace(rate, count) for rate, count in paces.items())
    return f"{_origin(source)}; {pace}" if origins else pace


def _origin(source: dict[str, Any]) -> str:
    if "record_bytes" in source:
        return f"generated records of {source['record_bytes']:,} bytes"
    if "path" not in source:
        return str(source.get("object", "records of the caller"))
    key = source.get("key")
    keyed = f", keyed by {', '.join([key] if isinstance(key, str) else key)}" if key else ""
    return f"{PurePath(source['path']).name}{keyed}{', over and over' if source.get('repeat') else ''}"


def _pace(rate: float, count: int) -> str:
    return f"{counted(count, 'subtask')} {f'at {rate:,.4g} records/s' if rate else 'as fast as possible'}"


def _service(vertex: dict[str, Any]) -> str:
    service = vertex["service"]
    if isinstance(service, str):
        text = f"{service} a record"
    else:
        text = ", ".join(f"{step['cost']} a record from {step['at']} on" for step in service)
    skew = vertex.get("service_skew")
    return f"{text}, times {', '.join(f'{factor:g}' for factor in skew)} by subtask" if skew else text


def _checkpoints(options: dict[str, Any]) -> str:
    if _INTERVAL not in options:
        return "none"
    every = f"every {options[_INTERVAL]}"
    if _at_least_once(options):
        return f"{every}, at least once, without alignment"
    if not options.get(_UNALIGNED):
        return f"{every}, exactly once, aligned"
    timeout = options.get(_TIMEOUT)
    if timeout is None or not parse_flink_duration(timeout):
        return f"{every}, exactly once, unaligned"
    return f"{every}, exactly once, aligned for {timeout} and then unaligned"


def _at_least_once(options: dict[str, Any]) -> bool:
    return str(options.get(_MODE, "")).upper() == "AT_LEAST_ONCE"


def _measured(result: Result) -> str:
    windows = [f"{steady.from_s:g} to {steady.to_s:g} s" for steady in result.steady]
    clock = "emulated time" if result.clock == "virtual" else "real time"
    return f"{', '.join(windows)} of {clock}{', over TCP' if result.link == 'tcp' else ''}"
