"""Documents to scenarios: every key of a scenario file, and what is said when one is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, TypeVar

from .changes import ScheduledChange
from .config import DEFAULT_PRESET, OPTIONS, PRESETS, CostModel, LinkConditions, NetworkConfig, with_options
from .edge_buffers import EdgeBuffers
from .fault_reader import read_faults
from .quantities import QuantityError, parse_duration, parse_rate
from .savepoints import read_savepoints
from .scenario import (
    CATCH_UP_S,
    EMISSIONS,
    EMITS_BY,
    FILE_FORMATS,
    FROM_SOURCE,
    SERVICE_MODES,
    SHIPS,
    Edge,
    GeneratorSpec,
    Keys,
    Machine,
    PathSpec,
    Scenario,
    ScenarioError,
    SourceObject,
    SourceSpec,
    Vertex,
)
from .scenario_document import cost_key
from .scenario_rules import scenario_problems
from .sections import ListOf, OneOf, OneOrMore, RangeOf, Section, boolean, integer, number, table, text
from .shapes import DURATION, accepts, any_of
from .slots import DEFAULT_GROUP, in_slots
from .user_code import NamedObject

Settings = TypeVar("Settings", CostModel, LinkConditions)

_ABOUT_KEYS = ("name", "duration", "warmup", "seed", "preset", "phases", "service_mode", "policy")
_LIST_KEYS = ("vertices", "edges", "machines", "checkpoints_at", "savepoints_at", "faults", "changes")
_CHANGE_KEYS = ("at", "flink", "policy", "vertex", "service", "service_skew", "rate")
_MACHINE_KEYS = ("cores", "task_managers")
_SCENARIO_KEYS = (*_ABOUT_KEYS, "slots", "flink", "costs", "link", *_LIST_KEYS)
_SERVICE_KEYS = ("service", "service_skew", "service_spread", "service_mode", "behind")
_OUTPUT_KEYS = ("selectivity", "emission", "record_bytes", "emit_every", "emit_by")
_PLACE_KEYS = ("task_manager", "slot_sharing_group")
_VERTEX_KEYS = ("name", "parallelism", *_PLACE_KEYS, "source", *_SERVICE_KEYS, *_OUTPUT_KEYS)
_PACE_KEYS = ("rate", "burst", "batch", "legacy", "cost", "catch_up", "wave")
_GENERATOR_KEYS = ("record_bytes", "keys", *_PACE_KEYS, "out_of_orderness")
_KEYS_KEYS = ("number", "zipf", "most_frequent")
_OBJECT_KEYS = ("object", "rate", "out_of_orderness")
_PATH_KEYS = ("path", "key", "repeat", "format", "rate", "out_of_orderness")
_EDGE_KEYS = ("from", "to", "ship", "shares", "fraction", "input", "selectivity", "service", "buffers")


def read_scenario(document: Mapping[str, object], name: str = "", *, to_run: bool = True) -> Scenario:
    """Return the scenario that a document describes; `name` is its name where the document gives none.

    One that is not `to_run` may have the names of Python objects in their place, and the policy that it names
    is not looked at. Such a document may be anybody's: nothing of it is imported.

    Raises:
        ScenarioError: with one line for each mistake: key, what is wrong, what would be right.
    """
    problems: list[str] = []
    scenario = read_sections(Section(document, "", problems), name)
    if not problems:
        problems = [f"{key}: {message}" for key, message in scenario_problems(scenario, to_run=to_run)]
    if problems:
        raise ScenarioError(problems)
    return scenario


def read_sections(top: Section, name: str = "") -> Scenario:
    """Return the scenario of a document's table as far as it can be read; mistakes are noted there."""
    preset = top.take("preset", _preset, DEFAULT_PRESET)
    mode = top.take("service_mode", OneOf(SERVICE_MODES), "throttle")
    slots = top.take("slots", integer, None)
    if slots is not None and slots < 1:
        top.complain("slots", f"is {slots}; a task manager has at least 1 slot")
    tables = top.tables("vertices", _label)
    groups = [_slot_sharing_group(section, slots) for section in tables]
    scenario = Scenario(
        name=top.take("name", text, name),
        duration_s=top.require("duration", parse_duration, 1.0, '"60 s"'),
        warmup_s=top.take("warmup", parse_duration, 0.0),
        seed=top.take("seed", integer, 1),
        preset=preset,
        phases=top.take("phases", ListOf(_window), ()),
        config=replace(
            read_options(top.section("flink"), PRESETS[preset]),
            debloat_policy=top.take("policy", text, PRESETS[preset].debloat_policy),
        ),
        costs=_settings(top.section("costs"), CostModel()),
        link=_settings(top.section("link"), LinkConditions()),
        vertices=in_slots([_vertex(section, mode) for section in tables], slots, groups),
        edges=tuple(_edge(section) for section in top.tables("edges", _label)),
        machines=tuple(_machine(section) for section in top.tables("machines", _place)),
        manual_checkpoints_s=top.take("checkpoints_at", ListOf(parse_duration), ()),
        savepoints=read_savepoints(top),
        faults=read_faults(top.tables("faults", _place)),
        changes=tuple(_change(section, PRESETS[preset]) for section in top.tables("changes", _place)),
    )
    top.finish(_SCENARIO_KEYS)
    return scenario


def _machine(section: Section) -> Machine:
    machine = Machine(
        cores=section.require("cores", number, 1.0, "2"),
        task_managers=section.require("task_managers", OneOrMore(text), (), '["tm-1", "tm-2"]'),
    )
    section.finish(_MACHINE_KEYS)
    return machine


def _change(section: Section, preset: NetworkConfig) -> ScheduledChange:
    config = read_options(section.section("flink"), preset)
    settings = [(field, getattr(config, field)) for field in sorted(config.given - preset.given)]
    if "policy" in section:
        settings.append(("debloat_policy", section.take("policy", text, preset.debloat_policy)))
    change = ScheduledChange(
        at_s=section.require("at", parse_duration, 0.0, '"30 s"'),
        settings=tuple(settings),
        vertex=section.take("vertex", text, None),
        service_s=section.take("service", parse_duration, None),
        service_skew=section.take("service_skew", OneOrMore(number), ()),
        rates=section.take("rate", OneOrMore(number), ()),
    )
    section.finish(_CHANGE_KEYS)
    return change


def _place(values: Mapping[str, Any], place: int) -> int:
    return place


def _label(values: Mapping[str, Any], place: int) -> str:
    if isinstance(values.get("name"), str):
        return str(values["name"])
    if "from" in values and "to" in values:
        return f"{values['from']}->{values['to']}"
    return str(place)


@accepts({"enum": list(PRESETS)})
def _preset(value: object) -> str:
    name = text(value)
    if name not in PRESETS:
        raise QuantityError(f"{name!r} is no preset", " or ".join(repr(preset) for preset in PRESETS))
    return name


@accepts(ListOf(parse_duration).shape | {"minItems": 2, "maxItems": 2})
def _window(value: object) -> tuple[float, float]:
    ends = ListOf(parse_duration)(value)
    if len(ends) != 2:
        raise QuantityError(f"{value!r} is no window", '["20 s", "60 s"]')
    return ends[0], ends[1]


def read_options(section: Section, preset: NetworkConfig) -> NetworkConfig:
    """Return a preset with the options of Flink's that a section gives; mistakes are noted in the section."""
    fields_by_option = {
        name: field for field, option in OPTIONS.items() for name in (option.name, *option.former)
    }
    values: dict[str, object] = {}
    for name, value in _flat(section.values):
        field = fields_by_option.get(name)
        if field is None:
            section.complain(name, f"no preset has this option; {_meant(name, fields_by_option)}")
            continue
        if field in values:
            section.complain(name, f"is another name of {OPTIONS[field].name}, given too; drop one")
        try:
            values[field] = OPTIONS[field].kind.parse(value)
        except QuantityError as error:
            section.complain(name, f"{error.wrong}; it must be {error.right}")
    return with_options(preset, values)


def split_assignment(text: str) -> tuple[str, str] | None:
    """Return the name and the value of a text OPTION=VALUE, without blanks; None where it has no "="."""
    name, equals, value = text.partition("=")
    return (name.strip(), value.strip()) if equals else None


def _meant(name: str, options: Iterable[str]) -> str:
    """What a wrong name of an option stands for: its end alone, or one much like it."""
    ends = [option for option in options if option.endswith(f".{name}")]
    if ends:
        return f"did you mean {' or '.join(map(repr, ends))}?"
    close = get_close_matches(name, list(options), n=1)
    return f"did you mean {close[0]!r}?" if close else "use the names of Flink's documentation"


def _flat(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Options by their whole names: without quotes, TOML reads the dots of a name as tables."""
    options: list[tuple[str, object]] = []
    for key, value in values.items():
        name = prefix + key
        options += _flat(value, f"{name}.") if isinstance(value, Mapping) and value else [(name, value)]
    return options


def _settings(section: Section, defaults: Settings) -> Settings:
    values: dict[str, Any] = {}
    for field in fields(defaults):
        default = getattr(defaults, field.name)
        read: Any = number
        if field.name.endswith("_bytes_per_s"):
            read = parse_rate
        elif field.name.endswith("_s"):
            read = parse_duration
        values[field.name] = section.take(
            cost_key(field.name), RangeOf(read) if isinstance(default, tuple) else read, default
        )
    section.finish([cost_key(field.name) for field in fields(defaults)])
    return type(defaults)(**values)


def _vertex(section: Section, mode: str) -> Vertex:
    source = _source(section, "source") if "source" in section else None
    parallelism = section.take("parallelism", integer, FROM_SOURCE if isinstance(source, PathSpec) else 1)
    if parallelism < 1 and "parallelism" in section:
        section.complain("parallelism", f"is {parallelism}; a vertex has at least 1 subtask")
    vertex = Vertex(
        name=section.require("name", text, "", '"source"'),
        parallelism=parallelism,
        task_manager=section.take("task_manager", _placed, None),
        source=source,
        service=section.take("service", _service, ()),
        service_skew=section.take("service_skew", OneOrMore(number), (1.0,)),
        service_spread=section.take("service_spread", number, 0.0),
        service_mode=section.take("service_mode", OneOf(SERVICE_MODES), mode),
        selectivity=section.take("selectivity", number, 1.0),
        emission=section.take("emission", OneOf(EMISSIONS), "regular"),
        record_bytes=section.take("record_bytes", integer, None),
        emit_every_s=section.take("emit_every", parse_duration, None),
        emit_by=section.take("emit_by", OneOf(EMITS_BY), EMITS_BY[0]),
        behind_s=section.take("behind", OneOrMore(parse_duration), (0.0,)),
        operator=section.take("operator", _named_object, None),
    )
    section.finish(_VERTEX_KEYS)
    return vertex


def _slot_sharing_group(vertex: Section, slots: int | None) -> str:
    key = "slot_sharing_group"
    if key in vertex and "task_manager" in vertex:
        vertex.complain(key, "is given, and so is the task manager, which takes no slot; drop one of the two")
    elif key in vertex and slots is None:
        vertex.complain(key, "changes nothing without slots; give the scenario slots, or drop it")
    without_count = "source" in vertex and "parallelism" not in vertex and "task_manager" not in vertex
    source = vertex.values.get("source")
    if slots is not None and without_count and isinstance(source, Mapping) and "path" in source:
        vertex.complain("parallelism", "is missing, and slots are dealt out by it; give it a number")
    return vertex.take(key, text, DEFAULT_GROUP)


@accepts(OneOrMore(text).shape)
def _placed(value: object) -> str | tuple[str, ...]:
    return ListOf(text)(value) if isinstance(value, list) else text(value)


def _source(vertex: Section, key: str) -> SourceSpec:
    section = vertex.section(key)
    if not isinstance(vertex.values[key], Mapping):
        return GeneratorSpec(record_bytes=8)  # that it is no table has been said
    rates = section.take("rate", OneOrMore(number), (0.0,))
    disorder_s = section.take("out_of_orderness", parse_duration, None)
    if "object" in section:
        named: Any = section.take("object", _named_object, None)
        section.finish(_OBJECT_KEYS)
        return SourceObject(source=named, rates=rates, out_of_orderness_s=disorder_s)
    if "path" not in section:
        return _generator(section, rates, disorder_s)
    if "record_bytes" in section:
        section.complain("record_bytes", "is given with a path; a source has one of the two")
        section.take("record_bytes", integer, 8)
    spec = PathSpec(
        path=section.take("path", text, "?"),
        key=section.take("key", OneOrMore(text), ()),
        repeat=section.take("repeat", boolean, False),
        rates=rates,
        out_of_orderness_s=disorder_s,
        format=section.take("format", _format, None),
    )
    section.finish(_PATH_KEYS)
    return spec


def _generator(section: Section, rates: tuple[float, ...], disorder_s: float | None) -> GeneratorSpec:
    generator = GeneratorSpec(
        record_bytes=section.require("record_bytes", integer, 8, "1000, or a path"),
        rates=rates,
        out_of_orderness_s=disorder_s,
        keys=_keys(section.section("keys")) if "keys" in section else None,
        burst_s=section.take("burst", parse_duration, None),
        batch=section.take("batch", integer, 1),
        legacy=section.take("legacy", boolean, False),
        cost_s=section.take("cost", parse_duration, None),
        catch_up_s=section.take("catch_up", parse_duration, CATCH_UP_S),
        wave_s=section.take("wave", parse_duration, None),
    )
    section.finish(_GENERATOR_KEYS)
    return generator


def _keys(section: Section) -> Keys:
    keys = Keys(
        number=section.require("number", integer, 1, "1000"),
        zipf=section.take("zipf", number, 0.0),
        most_frequent=section.take("most_frequent", OneOrMore(number), ()),
    )
    section.finish(_KEYS_KEYS)
    return keys


@accepts({"enum": list(FILE_FORMATS)})
def _format(value: object) -> str:
    name = text(value)
    if name not in FILE_FORMATS:
        raise QuantityError(f"{name!r} is no format that is read", " or ".join(map(repr, FILE_FORMATS)))
    return name


_STEP = {
    "type": "object",
    "properties": {"at": DURATION, "cost": DURATION},
    "required": ["at", "cost"],
    "additionalProperties": False,
}


@accepts(any_of(DURATION, {"type": "array", "items": _STEP}))
def _service(value: object) -> tuple[tuple[float, float], ...]:
    if not isinstance(value, list):
        return ((0.0, parse_duration(value)),)
    return tuple(_step(table(step)) for step in value)


def _step(step: Mapping[str, object]) -> tuple[float, float]:
    if step.keys() != {"at", "cost"}:
        raise QuantityError(f"has the step {dict(step)!r}", 'steps such as { at = "30 s", cost = "5 ms" }')
    return parse_duration(step["at"]), parse_duration(step["cost"])


def _edge(section: Section) -> Edge:
    edge = Edge(
        source=section.require("from", text, "", 'the name of a vertex, "source"'),
        target=section.require("to", text, "", 'the name of a vertex, "stage1"'),
        ship=section.take("ship", OneOf(SHIPS), "rebalance"),
        shares=section.take("shares", ListOf(number), ()),
        fraction=section.take("fraction", number, 1.0),
        input=section.take("input", integer, 0),
        selectivity=section.take("selectivity", number, None),
        service=section.take("service", _service, None),
        key_hash=section.take("key_hash", _named_object, None),
        buffers=_buffers(section.section("buffers")),
    )
    section.finish(_EDGE_KEYS)
    return edge


def _buffers(section: Section) -> EdgeBuffers:
    names = [field.name for field in fields(EdgeBuffers)]
    buffers = EdgeBuffers(**{name: section.take(name, integer, None) for name in names})
    section.finish(names)
    return buffers


@accepts({"type": "string"})
def _named_object(value: object) -> Any:
    """What a document has in place of a source, an operator or a hash of keys."""
    return NamedObject(text(value))
