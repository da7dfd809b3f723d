"""A scenario as a document: what a scenario file would say, in types that JSON has."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from .changes import change_document
from .config import OPTIONS, PRESETS, CostModel, LinkConditions, NetworkConfig
from .fault_document import fault_document
from .quantities import format_duration, format_rate
from .savepoints import savepoint_documents
from .scenario import (
    CATCH_UP_S,
    EMITS_BY,
    FROM_SOURCE,
    Edge,
    GeneratorSpec,
    Keys,
    PathSpec,
    Scenario,
    SourceObject,
    SourceSpec,
    Vertex,
)
from .user_code import object_name

Document = dict[str, Any]


def scenario_document(scenario: Scenario) -> Document:
    """Return a scenario as a document that loads back to an equal one.

    Options stand where they were given or differ from the preset; costs are all there, so that the document
    means the same when defaults change. Functions and source objects of the Python API are named only, and
    a document that has them does not load.
    """
    document: Document = {
        "name": scenario.name,
        "duration": format_duration(scenario.duration_s),
        "warmup": format_duration(scenario.warmup_s),
        "seed": scenario.seed,
        "preset": scenario.preset,
    }
    if scenario.phases:
        document["phases"] = [[format_duration(at) for at in window] for window in scenario.phases]
    if scenario.manual_checkpoints_s:
        document["checkpoints_at"] = [format_duration(at) for at in scenario.manual_checkpoints_s]
    if scenario.savepoints:
        document["savepoints_at"] = savepoint_documents(scenario.savepoints)
    if scenario.config.debloat_policy != PRESETS[scenario.preset].debloat_policy:
        document["policy"] = scenario.config.debloat_policy
    document["flink"] = _options(scenario.config, PRESETS[scenario.preset])
    document["costs"] = _costs(scenario.costs)
    document["link"] = _link(scenario.link)
    document["vertices"] = [_vertex(vertex) for vertex in scenario.vertices]
    document["edges"] = [_edge(edge) for edge in scenario.edges]
    if scenario.machines:
        document["machines"] = [
            {"cores": _number(machine.cores), "task_managers": list(machine.task_managers)}
            for machine in scenario.machines
        ]
    if scenario.faults:
        document["faults"] = [fault_document(fault) for fault in scenario.faults]
    if scenario.changes:
        document["changes"] = [change_document(change) for change in scenario.changes]
    return document


def cost_key(field: str) -> str:
    """Return the key of a field of `CostModel` or `LinkConditions` in a document: it has no unit."""
    return field.removesuffix("_bytes_per_s").removesuffix("_s")


def _options(config: NetworkConfig, preset: NetworkConfig) -> Document:
    given = {}
    for field, option in OPTIONS.items():
        value = getattr(config, field)
        if value is not None and (field in config.given or value != getattr(preset, field)):
            given[option.name] = option.kind.render(value)
    return given


def _costs(costs: CostModel) -> Document:
    return {cost_key(field.name): _cost(field.name, getattr(costs, field.name)) for field in fields(costs)}


def _cost(field: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return [_cost(field, end) for end in value]
    if field.endswith("_bytes_per_s"):
        return format_rate(value)
    return format_duration(value) if field.endswith("_s") else value


def _link(link: LinkConditions) -> Document:
    document = {"latency": format_duration(link.latency_s)}
    if link.bandwidth_bytes_per_s is not None:
        document["bandwidth"] = format_rate(link.bandwidth_bytes_per_s)
    return document


def _vertex(vertex: Vertex) -> Document:
    document: Document = {"name": vertex.name}
    if vertex.parallelism != FROM_SOURCE:
        document["parallelism"] = vertex.parallelism
    if vertex.task_manager is not None:
        placed = vertex.task_manager
        document["task_manager"] = placed if isinstance(placed, str) else list(placed)
    if vertex.source is not None:
        document["source"] = _source(vertex.source)
    if vertex.service:
        document["service"] = _service(vertex.service)
    if vertex.service_skew != (1.0,):
        document["service_skew"] = [_number(factor) for factor in vertex.service_skew]
    if vertex.service_spread:
        document["service_spread"] = _number(vertex.service_spread)
    if vertex.service_mode != "throttle":
        document["service_mode"] = vertex.service_mode
    if vertex.selectivity != 1:
        document["selectivity"] = _number(vertex.selectivity)
    if vertex.emission != "regular":
        document["emission"] = vertex.emission
    if vertex.record_bytes is not None:
        document["record_bytes"] = vertex.record_bytes
    if vertex.emit_every_s is not None:
        document["emit_every"] = format_duration(vertex.emit_every_s)
    if vertex.emit_by != EMITS_BY[0]:
        document["emit_by"] = vertex.emit_by
    if vertex.behind_s != (0.0,):
        document["behind"] = [format_duration(seconds) for seconds in vertex.behind_s]
    if vertex.operator is not None:
        document["operator"] = object_name(vertex.operator)
    return document


def _source(source: SourceSpec) -> Document:
    document = _origin(source) | {"rate": [_number(rate) for rate in source.rates]}
    if source.out_of_orderness_s is not None:
        document["out_of_orderness"] = format_duration(source.out_of_orderness_s)
    return document


def _origin(source: SourceSpec) -> Document:
    if isinstance(source, GeneratorSpec):
        return _generator(source)
    if isinstance(source, SourceObject):
        return {"object": object_name(source.source)} if source.spec is None else _path(source.spec)
    return _path(source)


def _generator(source: GeneratorSpec) -> Document:
    document: Document = {"record_bytes": source.record_bytes}
    if source.keys is not None:
        document["keys"] = _keys(source.keys)
    if source.burst_s is not None:
        document["burst"] = format_duration(source.burst_s)
    if source.batch != 1:
        document["batch"] = source.batch
    if source.legacy:
        document["legacy"] = True
    if source.cost_s is not None:
        document["cost"] = format_duration(source.cost_s)
    if source.catch_up_s != CATCH_UP_S:
        document["catch_up"] = format_duration(source.catch_up_s)
    if source.wave_s is not None:
        document["wave"] = format_duration(source.wave_s)
    return document


def _keys(keys: Keys) -> Document:
    document: Document = {"number": keys.number}
    if keys.zipf:
        document["zipf"] = _number(keys.zipf)
    if keys.most_frequent:
        document["most_frequent"] = [_number(share) for share in keys.most_frequent]
    return document


def _path(spec: PathSpec) -> Document:
    document: Document = {"path": spec.path, "repeat": spec.repeat}
    if spec.key:
        document["key"] = list(spec.key) if len(spec.key) > 1 else spec.key[0]
    if spec.format is not None:
        document["format"] = spec.format
    return document


def _service(steps: tuple[tuple[float, float], ...]) -> Any:
    if len(steps) == 1 and steps[0][0] == 0:
        return format_duration(steps[0][1])
    return [{"at": format_duration(at), "cost": format_duration(cost)} for at, cost in steps]


def _edge(edge: Edge) -> Document:
    document: Document = {"from": edge.source, "to": edge.target, "ship": edge.ship}
    if edge.shares:
        document["shares"] = [_number(share) for share in edge.shares]
    if edge.fraction != 1:
        document["fraction"] = _number(edge.fraction)
    if edge.input:
        document["input"] = edge.input
    if edge.selectivity is not None:
        document["selectivity"] = _number(edge.selectivity)
    if edge.service is not None:
        document["service"] = _service(edge.service)
    if edge.key_hash is not None:
        document["key_hash"] = object_name(edge.key_hash)
    if buffers := {key: count for key, count in asdict(edge.buffers).items() if count is not None}:
        document["buffers"] = buffers
    return document


def _number(value: float) -> float:
    return int(value) if value == int(value) else value
