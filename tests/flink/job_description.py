"""A scenario as a job of Flink: the description that the Java job reads, and the options of the cluster.

A key of the scenario that Flink cannot run here is an error that names an alternative. Subtask i of every
vertex of a group runs in slot i of the group. Flink chooses the task manager of each slot among those with
room for one of the group. So the place of a subtask is certain if its group is in one task manager;
otherwise it is read when the job runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from benches.studied_policies import STUDIED
from netstack import (
    OPTIONS,
    CostModel,
    Edge,
    GeneratorSpec,
    LinkConditions,
    Scenario,
    ScenarioError,
    Vertex,
    edge_key,
    preset_for,
    scenario_document,
    version_of,
    vertex_key,
)

from .cluster import NEWEST, RELEASES, Layout


@dataclass(frozen=True)
class Placement:
    """The groups of a job and the room for them."""

    groups: Mapping[str, str]
    """The group of each vertex, by their names."""
    rooms: Sequence[Mapping[str, int]]
    """For each task manager of the scenario, in its order, the slots of each group."""


def placement_of(scenario: Scenario) -> Placement:
    """Return the fewest groups whose vertices agree on where subtask i runs."""
    slots: dict[str, tuple[str, ...]] = {}
    groups = {}
    for vertex in scenario.vertices:
        managers = managers_of(vertex)
        name = next((name for name, known in slots.items() if _agree(managers, known)), f"g{len(slots)}")
        slots[name] = max(managers, slots.get(name, ()), key=len)
        groups[vertex.name] = name
    rooms: list[dict[str, int]] = [{} for _ in scenario.task_managers]
    for name, of_slots in slots.items():
        for manager, count in Counter(of_slots).items():
            rooms[scenario.task_managers.index(manager)][name] = count
    return Placement(groups, rooms)


def managers_of(vertex: Vertex) -> tuple[str, ...]:
    """The task manager of each subtask."""
    return tuple(vertex.manager_of(subtask) for subtask in range(vertex.parallelism))


def _agree(managers: Sequence[str], others: Sequence[str]) -> bool:
    """Whether subtasks run in the same places, as far as both vertices have them."""
    return all(manager == other for manager, other in zip(managers, others, strict=False))


def placed(scenario: Scenario, occupied: Mapping[str, Sequence[str]]) -> Scenario:
    """Return the scenario with the subtasks of each vertex, by its name, in the task managers of `occupied`.

    Task managers that have only changed their names have not changed: the scenario comes back as it is.
    """
    names: dict[str, str] = {}
    for vertex in scenario.vertices:
        for manager, name in zip(managers_of(vertex), occupied[vertex.name], strict=True):
            names.setdefault(manager, name)
    renamed = len(set(names.values())) == len(names) and all(
        [names[manager] for manager in managers_of(vertex)] == list(occupied[vertex.name])
        for vertex in scenario.vertices
    )
    if renamed:
        return scenario
    vertices = [replace(vertex, task_manager=tuple(occupied[vertex.name])) for vertex in scenario.vertices]
    return replace(scenario, vertices=tuple(vertices))


POLICIES = STUDIED
"""Those that the agent knows."""

SERIALIZED_BYTES = 13
"""Bytes that Flink adds to a generated array: tag, timestamp, and the length of the array."""

LEAST_RECORD_BYTES = SERIALIZED_BYTES + 8

MOST_TASK_MANAGERS = 16
MOST_SLOTS = 32
"""Of a task manager: Flink gives each slot half a core of 16."""

Problem = tuple[str, str]


def check(scenario: Scenario) -> None:
    """Refuse a scenario that no job can be made of.

    Raises:
        ScenarioError: with a line for each reason.
    """
    if problems := [f"{key}: {message}" for key, message in problems_of(scenario)]:
        raise ScenarioError(problems)


def problems_of(scenario: Scenario) -> Iterator[Problem]:
    """Yield each key that stands in the way, and why."""
    yield from _about_the_whole(scenario)
    yield from _about_places(scenario)
    for vertex in scenario.vertices:
        for key, message in _about_vertex(scenario, vertex):
            yield vertex_key(vertex.name, key), message
    for edge in scenario.edges:
        for key, message in _about_edge(edge):
            yield edge_key(edge, key), message


def _about_the_whole(scenario: Scenario) -> Iterator[Problem]:
    if (release := RELEASES.get(scenario.preset)) is None:
        yield (
            "preset",
            f"is {scenario.preset}; the testbed runs {' and '.join(RELEASES)}: use one, or drop it",
        )
    else:
        given = {OPTIONS[field].name for field in scenario.config.given & OPTIONS.keys()}
        yield from ((f"flink.{name}", message) for name, message in too_new(given, release))
    if scenario.config.debloat_policy not in POLICIES:
        policy = scenario.config.debloat_policy
        yield "policy", f"{policy!r} is not known to the agent; it knows {', '.join(POLICIES)}"
    for section, given, usual in (
        ("costs", scenario.costs, CostModel()), ("link", scenario.link, LinkConditions())
    ):  # fmt: skip
        for each in fields(usual):
            if getattr(given, each.name) != getattr(usual, each.name):
                key = each.name.removesuffix("_bytes_per_s").removesuffix("_s")
                yield f"{section}.{key}", "is set, but a real machine has its own; drop it"
    if any(machine.cores % 1 for machine in scenario.machines):
        yield "machines", "have a part of a core, but a task manager runs on whole cores; round it"
    for key in ("faults", "changes", "savepoints"):
        if getattr(scenario, key):
            yield key.replace("savepoints", "savepoints_at"), "cannot be made in a real Flink here; drop it"
    if scenario.manual_checkpoints_s:
        yield "checkpoints_at", "cannot be made in a real Flink here; give an interval"


def too_new(names: Iterable[str], release: str) -> Iterator[Problem]:
    """Yield the options that a release of Flink does not have yet, and what to do."""
    since = {option.name: option.since for option in OPTIONS.values()}
    for name in sorted(names):
        if (first := since.get(name)) and version_of(release) < first:
            yield (
                name,
                (
                    f"came with Flink {first}, but this run uses {release}; drop it, or use Flink {NEWEST} "
                    f"(--flink {NEWEST}, preset {preset_for(NEWEST)})"
                ),
            )


def _about_places(scenario: Scenario) -> Iterator[Problem]:
    managers = scenario.task_managers
    if len(managers) > MOST_TASK_MANAGERS:
        count = len(managers)
        message = f"name {count} task managers, each a Java process; use {MOST_TASK_MANAGERS} at most"
        yield "vertices", message
    for name, room in zip(managers, placement_of(scenario).rooms, strict=True):
        if (slots := sum(room.values())) > MOST_SLOTS:
            taken = f"take {slots} slots of task manager {name}, which has {MOST_SLOTS}"
            yield "vertices", f"{taken}; spread them, or use fewer subtasks"


def _about_vertex(scenario: Scenario, vertex: Vertex) -> Iterator[Problem]:
    if vertex.operator is not None:
        yield "operator", "is Python, which Flink does not run here; say service and selectivity instead"
    if vertex.service_mode == "exact":
        yield "service_mode", "is exact, but a real thread sleeps inexactly; take throttle or burn"
    if vertex.emit_every_s is not None:
        yield "emit_every", "is not made by the testbed's job; drop it, or run an ordinary job with windows"
    if any(vertex.behind_s):
        yield "behind", "is work from before the job, which a fresh Flink has not; drop it"
    if vertex.record_bytes is not None and vertex.record_bytes < LEAST_RECORD_BYTES:
        yield "record_bytes", _too_small(vertex.record_bytes)
    if vertex.source is not None:
        yield from ((f"source.{key}", message) for key, message in _about_source(vertex))
        if not scenario.outputs(vertex):
            yield "name", "is that of a source that no vertex reads; give it an edge"
    else:
        yield from _about_inputs(scenario, vertex)


def _about_source(vertex: Vertex) -> Iterator[Problem]:
    source = vertex.source
    if not isinstance(source, GeneratorSpec):
        yield "path", "is not read by the testbed's job; give record_bytes, rate and keys instead"
        return
    if source.record_bytes < LEAST_RECORD_BYTES:
        yield "record_bytes", _too_small(source.record_bytes)
    if source.record_spread:
        yield "record_spread", "is not made by the testbed's job; drop it, or run an ordinary job"
    if source.legacy:
        yield "legacy", "is a SourceFunction, which Flink 2 has no more; drop it"
    if source.cost_s is not None:
        yield "cost", "is not spent by the testbed's source; drop it"


def _too_small(record_bytes: int) -> str:
    return (
        f"is {record_bytes}, of which Flink's serializers take {SERIALIZED_BYTES} and the key 8; "
        f"give {LEAST_RECORD_BYTES} or more"
    )


def _about_inputs(scenario: Scenario, vertex: Vertex) -> Iterator[Problem]:
    inputs: dict[int, list[Edge]] = defaultdict(list)
    for edge in scenario.inputs(vertex):
        inputs[edge.input].append(edge)
    if len(inputs) > 2:
        yield "name", f"is that of a vertex with {len(inputs)} inputs; Flink's DataStream API joins two"
    for edges in inputs.values():
        if len({(edge.selectivity, edge.service) for edge in edges}) > 1:
            what = "is that of a vertex with an input of several edges whose services or selectivities differ"
            yield "name", f"{what}, which a union cannot tell apart; give each an input of its own"


def _about_edge(edge: Edge) -> Iterator[Problem]:
    if edge.key_hash is not None:
        yield "key_hash", "is Python, which Flink does not run here; drop it, or give shares"
    for each in fields(edge.buffers):
        if getattr(edge.buffers, each.name) is not None:
            yield f"buffers.{each.name}", "is of one edge, and Flink has one setting for all; use its option"


ENTRY = "testbed.ScenarioJob"

_SHUFFLE = {"shuffle-service-factory.class": "org.apache.flink.runtime.io.network.ChosenBuffersFactory"}

Document = dict[str, Any]


def described(scenario: Scenario, *, logged: bool = False) -> Document:
    """Return the description of a scenario's job, as `Description.java` has it.

    `logged`: paced sources read a log that others fill, also while the job is down.

    Raises:
        ScenarioError: Flink cannot run such a job here.
    """
    check(scenario)
    places = {vertex.name: place for place, vertex in enumerate(in_order(scenario))}
    groups = placement_of(scenario).groups
    vertices = [_vertex(scenario, vertex, groups[vertex.name], places) for vertex in in_order(scenario)]
    if logged:
        for vertex in vertices:
            if "source" in vertex:
                vertex["source"]["logged"] = True
    return {"name": scenario.name, "vertices": vertices}


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
        cores=_cores_of(scenario),
        **({} if network is None else {"network_bytes": network}),
    )


def _cores_of(scenario: Scenario) -> list[list[int]]:
    """The cores of each task manager, in the scenario's order: each machine has cores of its own."""
    of: dict[str, list[int]] = {}
    first = 0
    for machine in scenario.machines:
        cores = list(range(first, first + int(machine.cores)))
        of |= dict.fromkeys(machine.task_managers, cores)
        first += len(cores)
    return [of.get(manager, []) for manager in scenario.task_managers] if of else []


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
    if source.wave_s is not None:
        document["waveSeconds"] = source.wave_s
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
