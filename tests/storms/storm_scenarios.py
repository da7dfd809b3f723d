"""The scenario that a case of a storm is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from netstack import Edge, NetworkConfig, Scenario, SourceObject, Vertex

from .case import StormCase, StormVertex, Work
from .debloating_rules import CHECKED_POLICY
from .storm_emissions import sends_watermarks
from .storm_operators import Commit, Witness, operator_of
from .storm_records import key_hash
from .storm_sources import source_of_records


def scenario_of(
    case: StormCase, commit: Commit, witness: Witness, folder: Path, parallelism: Sequence[int] = ()
) -> Scenario:
    """The scenario of a case, whose sinks hand what is final to `commit`; sources have files in `folder`.

    `parallelism` is that of each vertex, where it is not the case's; the records stay the same.
    """
    return Scenario(
        name=f"storm {case.seed}",
        duration_s=case.duration_s,
        vertices=tuple(
            replace(_vertex(case, vertex, commit, witness, folder), parallelism=subtasks)
            for vertex, subtasks in zip(
                case.vertices, parallelism or [each.parallelism for each in case.vertices], strict=True
            )
        ),
        edges=tuple(_edges(case)),
        seed=case.seed,
        preset=case.preset,
        config=_config(case),
        costs=case.costs,
        link=case.link,
        faults=case.faults,
        manual_checkpoints_s=case.manual_checkpoints_s,
    )


def _config(case: StormCase) -> NetworkConfig:
    if case.config.debloat_enabled and case.config.debloat_policy == "flink":
        return replace(case.config, debloat_policy=CHECKED_POLICY)
    return case.config


def _edges(case: StormCase) -> list[Edge]:
    edges, inputs = list[Edge](), dict[str, int]()
    for source, target, ship in case.edges:
        number = inputs[target] = inputs.get(target, -1) + 1
        fraction = float(case.fraction(source, target))
        edge = Edge(source=source, target=target, ship=ship, key_hash=key_hash, fraction=fraction)
        if (reader := case.vertex(target)).apart:
            edge = replace(edge, input=number)
            if reader.work is Work.EMIT:
                edge = replace(edge, selectivity=float(reader.selectivity))
            if reader.work in (Work.PASS, Work.EMIT):
                edge = replace(edge, service=((0.0, reader.service_s * (1 + number)),))
        edges.append(edge)
    return edges


def _vertex(case: StormCase, vertex: StormVertex, commit: Commit, witness: Witness, folder: Path) -> Vertex:
    if vertex.work is Work.SOURCE:
        source = SourceObject(
            source=source_of_records(case, vertex, folder),
            rates=vertex.rates,
            out_of_orderness_s=vertex.out_of_orderness_s if sends_watermarks(case, vertex) else None,
        )
        return Vertex(
            name=vertex.name, parallelism=vertex.parallelism, task_manager=vertex.task_manager, source=source
        )
    return Vertex(
        name=vertex.name,
        parallelism=vertex.parallelism,
        task_manager=vertex.task_manager,
        service=_service(vertex),
        service_skew=vertex.service_skew,
        service_mode=vertex.service_mode,
        operator=operator_of(case, vertex, commit, witness),
        selectivity=1.0 if vertex.apart else float(vertex.selectivity),
        emission="random" if vertex.at_random else "regular",
        emit_every_s=vertex.emit_every_s or None,
        emit_by="event_time" if vertex.by_event_time else "processing_time",
    )


def _service(vertex: StormVertex) -> tuple[tuple[float, float], ...]:
    if not vertex.service_s:
        return ()
    changes = [(at, vertex.service_s * factor) for at, factor in vertex.service_steps]
    return ((0.0, vertex.service_s), *changes)
