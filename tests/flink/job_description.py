"""A scenario as a job of Flink: the description that the Java job reads, and the options of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netstack import OPTIONS, Edge, GeneratorSpec, Scenario, Vertex, scenario_document

from .cluster import Layout
from .refusals import SERIALIZED_BYTES, check
from .slot_groups import Placement, placement_of

ENTRY = "testbed.ScenarioJob"

_SHUFFLE = {"shuffle-service-factory.class": "org.apache.flink.runtime.io.network.ChosenBuffersFactory"}

Document = dict[str, Any]


def described(scenario: Scenario) -> Document:
    """Return the description of a scenario's job, as `Description.java` has it.

    Raises:
        ScenarioError: Flink cannot run such a job here.
    """
    check(scenario)
    places = {vertex.name: place for place, vertex in enumerate(in_order(scenario))}
    groups = placement_of(scenario).groups
    return {
        "name": scenario.name,
        "vertices": [_vertex(scenario, vertex, groups[vertex.name], places) for vertex in in_order(scenario)],
    }


def in_order(scenario: Scenario) -> list[Vertex]:
    """The vertices of a scenario, each behind those it reads from; place k becomes Flink's vertex "vk"."""
    ordered: dict[str, Vertex] = {}
    left = list(scenario.vertices)
    while left:
        for vertex in left:
            if all(edge.source in ordered for edge in scenario.inputs(vertex)):
                ordered[vertex.name] = vertex
        left = [vertex for vertex in left if vertex.name not in ordered]
    return list(ordered.values())


def layout_of(scenario: Scenario) -> Layout:
    """Return the cluster for a scenario: its task managers, its options, its policy."""
    placement: Placement = placement_of(scenario)
    options: Document = dict(scenario_document(scenario)["flink"])
    if any(option.only_1x and option.name in options for option in OPTIONS.values()):
        options |= _SHUFFLE
    network = scenario.config.network_memory_max_bytes
    return Layout(
        task_managers=placement.rooms,
        options=options,
        policy=scenario.config.debloat_policy,
        **({} if network is None else {"network_bytes": network}),
    )


def _vertex(scenario: Scenario, vertex: Vertex, group: str, places: Mapping[str, int]) -> Document:
    document: Document = {"parallelism": vertex.parallelism, "slotGroup": group}
    if isinstance(vertex.source, GeneratorSpec):
        return document | {"source": _source(vertex.source)}
    inputs: dict[int, list[Edge]] = {}
    for edge in scenario.inputs(vertex):
        inputs.setdefault(edge.input, []).append(edge)
    return document | {
        "serviceSkew": list(vertex.service_skew),
        "burns": vertex.burns,
        "random": vertex.emission == "random",
        "payloadBytes": 0 if vertex.record_bytes is None else vertex.record_bytes - SERIALIZED_BYTES,
        "inputs": [_input(vertex, inputs[number], places) for number in sorted(inputs)],
    }


def _source(source: GeneratorSpec) -> Document:
    document: Document = {
        "payloadBytes": source.record_bytes - SERIALIZED_BYTES,
        "rates": list(source.rates),
        "batch": source.batch,
        "catchUpSeconds": source.catch_up_s,
    }
    if source.burst_s is not None:
        document["burstSeconds"] = source.burst_s
    if source.keys is not None:
        keys = source.keys
        document |= {"keys": keys.number, "zipf": keys.zipf, "mostFrequent": list(keys.most_frequent)}
    return document


def _input(vertex: Vertex, edges: list[Edge], places: Mapping[str, int]) -> Document:
    first = edges[0]
    service = (vertex.service if first.service is None else first.service) or ((0.0, 0.0),)
    return {
        "service": [list(step) for step in service],
        "selectivity": vertex.selectivity if first.selectivity is None else first.selectivity,
        "edges": [_edge(edge, places) for edge in edges],
    }


def _edge(edge: Edge, places: Mapping[str, int]) -> Document:
    return {
        "from": places[edge.source],
        "ship": edge.ship,
        "fraction": edge.fraction,
        "shares": list(edge.shares),
    }
