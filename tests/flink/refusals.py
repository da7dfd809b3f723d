"""What of a scenario cannot be made in a real Flink here: a line for each key, with what would do instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import fields

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
    is_before,
    preset_for,
    vertex_key,
)

from .slot_groups import placement_of
from .software import NEWEST, RELEASES

POLICIES = (
    "flink",
    "frozen-while-blocked",
    "longest-channel",
    "per-channel",
    "burst",
    "longest-when-unblocked",
)
"""Those that the agent knows."""

SERIALIZED_BYTES = 13
"""What Flink adds to a generated array of bytes: tag, timestamp, and the length of the array."""

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
    for key in ("machines", "faults", "changes", "savepoints"):
        if getattr(scenario, key):
            yield key.replace("savepoints", "savepoints_at"), "cannot be made in a real Flink here; drop it"
    if scenario.manual_checkpoints_s:
        yield "checkpoints_at", "cannot be made in a real Flink here; give an interval"


def too_new(names: Iterable[str], release: str) -> Iterator[Problem]:
    """Yield the options that a release of Flink does not have yet, and what to do."""
    since = {option.name: option.since for option in OPTIONS.values()}
    for name in sorted(names):
        if (first := since.get(name)) and is_before(release, first):
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
            yield "name", "is that of a source that nobody reads; give it an edge"
    else:
        yield from _about_inputs(scenario, vertex)


def _about_source(vertex: Vertex) -> Iterator[Problem]:
    source = vertex.source
    if not isinstance(source, GeneratorSpec):
        yield "path", "is not read by the testbed's job; give record_bytes, rate and keys instead"
        return
    if source.record_bytes < LEAST_RECORD_BYTES:
        yield "record_bytes", _too_small(source.record_bytes)
    if source.legacy:
        yield "legacy", "is a SourceFunction, which Flink 2 has no more; drop it"
    if source.cost_s is not None:
        yield "cost", "is not spent by the testbed's source; drop it"
    if source.wave_s is not None:
        yield "wave", "is not made by the testbed's source; give a rate, or a burst"


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
