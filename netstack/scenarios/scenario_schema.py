"""The JSON Schema of scenario files, made of what their reader asks for: run on probes, it tells its keys.

A probe is a document that leads the reader through its branches, such as a source of each kind and a fault
of each kind at each kind of moment. What it asks for in a table is what a table may have, and what it asks
for in several ways has alternatives. Only options of Flink, which the reader looks up, come from their table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from .changes import ScheduledChange
from .config import OPTIONS, PRESETS, CostModel, LinkConditions, NetworkConfig
from .edge_buffers import EdgeBuffers
from .fault import FAULTS, ChannelItem
from .fault_document import ACKNOWLEDGEMENT
from .field_docs import field_docs
from .scenario import Edge, GeneratorSpec, Keys, Machine, PathSpec, Scenario, Vertex
from .scenario_reader import read_sections
from .sections import Reader, Section
from .shapes import DEFINITIONS, TABLE, Shape, any_of, reference, shape_of

T = TypeVar("T")
D = TypeVar("D")

DRAFT = "http://json-schema.org/draft-07/schema#"
"""What editors know best."""

_OPTIONS_KEY = "flink"

_SOURCES: Sequence[Mapping[str, Any]] = ({"record_bytes": 8, "keys": {}}, {"path": ""}, {"object": ""})
_MOMENTS: Sequence[Mapping[str, Any]] = (
    {"at": "0 s"},
    *({"on": str(item)} for item in ChannelItem),
    {"on": ACKNOWLEDGEMENT, "from": ""},
    {"on": ACKNOWLEDGEMENT, "vertex": ""},
)

PROBE: Mapping[str, Any] = {
    "vertices": [{"source": source} for source in _SOURCES],
    "edges": [{}],
    "machines": [{}],
    "savepoints_at": [{}],
    "faults": [{"kind": kind} | dict(moment) for kind in FAULTS for moment in _MOMENTS],
    "changes": [{}],
}
"""Leads the reader everywhere."""


_CLASSES: Mapping[str, Sequence[type]] = {
    "": (Scenario,),
    "vertices": (Vertex,),
    "source": (GeneratorSpec, PathSpec),
    "keys": (Keys,),
    "edges": (Edge,),
    "buffers": (EdgeBuffers,),
    "machines": (Machine,),
    "changes": (ScheduledChange,),
    "costs": (CostModel,),
    "link": (LinkConditions,),
}
"""What a table of this key becomes; its fields say what the keys of the table are."""

_ENDINGS = ("", "_s", "_bytes_per_s", "s")
"""By which the name of a field may differ from the key that it is read from."""


class Asked(Section):
    """A table that notes what is asked of it."""

    def __init__(self, values: Mapping[str, Any], path: str = "", problems: list[str] | None = None) -> None:
        super().__init__(values, path, [] if problems is None else problems)
        self.shapes: dict[str, Shape] = {}
        self.required: set[str] = set()
        self.parts: dict[str, list[Asked]] = {}

    def take(self, key: str, read: Reader[T], default: D) -> T | D:
        """Note the key, with the value that leads the reader where it is a name."""
        shape = shape_of(read)
        if "enum" in shape and key in self:
            shape = {"const": self.values[key]}
        self.shapes[key] = shape
        return super().take(key, read, default)

    def require(self, key: str, read: Reader[T], default: D, example: str) -> T | D:
        """Note that the key has to be there."""
        self.required.add(key)
        return super().require(key, read, default, example)

    def _part(self, key: str, values: Mapping[str, Any], path: str) -> Section:
        part = Asked(values, f"{self.path}{path}.", self.problems)
        self.parts.setdefault(key, []).append(part)
        return part


def scenario_schema() -> dict[str, Any]:
    """Return the schema: every scenario that can be read is valid by it, and most that cannot are not."""
    top = Asked(PROBE)
    read_sections(top)
    return {
        "$schema": DRAFT,
        "title": "A scenario of netstack",
        "description": "A job, the Flink options it runs under, and what each record costs.",
        **_table([top], ""),
        "definitions": DEFINITIONS | {_OPTIONS_KEY: options_shape("")} | _tables_of_options(),
    }


def _table(asked: Sequence[Asked], name: str) -> Shape:
    """The shape of a table that was asked in several ways."""
    alternatives: dict[tuple[object, ...], list[Asked]] = {}
    for each in asked:
        constants = sorted((key, shape["const"]) for key, shape in each.shapes.items() if "const" in shape)
        alternatives.setdefault((frozenset(each.shapes), *constants), []).append(each)
    return any_of(*(_alternative(alike, name) for alike in alternatives.values()))


def _alternative(asked: Sequence[Asked], name: str) -> Shape:
    """The shape of a table that was asked for the same keys each time."""
    required = set.intersection(*(each.required for each in asked))
    properties = {
        key: _described(any_of(*(_value(each, key, asked) for each in asked)), _description(name, key))
        for key in asked[0].shapes
    }
    shape = {"type": "object", "properties": properties, "additionalProperties": False}
    return shape | ({"required": sorted(required)} if required else {})


def _value(asked: Asked, key: str, alike: Sequence[Asked]) -> Shape:
    if key == _OPTIONS_KEY:
        return reference(_OPTIONS_KEY)
    parts = [part for each in alike for part in each.parts.get(key, [])]
    return _with_table(asked.shapes[key], _table(parts, key)) if parts else asked.shapes[key]


def _description(table: str, key: str) -> str | None:
    """What a key of a table is, by the field that it is read into; None where that says nothing."""
    fields = [f"{key}{ending}" for ending in _ENDINGS]
    return next(
        (text for each in _CLASSES.get(table, ()) for field in fields if (text := _said(each, field))), None
    )


def _said(cls: type, field: str) -> str | None:
    """What a field says of itself that holds for files, too: a text that names code does not."""
    text = field_docs(cls).get(field)
    return None if text is None or "`" in text else text.replace("None:", "absent:")


def _described(shape: Shape, text: str | None) -> Shape:
    if text is None:
        return shape
    # Of a table with "$ref", readers of schemas pass over all other keywords.
    return {"description": text} | ({"allOf": [shape]} if "$ref" in shape else shape)


def _with_table(shape: Any, within: Shape) -> Any:
    """A shape in which a table is one of certain keys."""
    if shape == TABLE:
        return within
    if isinstance(shape, Mapping):
        return {key: _with_table(value, within) for key, value in shape.items()}
    return [_with_table(each, within) for each in shape] if isinstance(shape, list) else shape


def options_shape(prefix: str) -> Shape:
    """The shape of a table of options whose names begin so: by their whole names, or as tables in tables.

    Without quotes, TOML reads the dots of a name as tables.
    """
    shapes: dict[str, list[Shape]] = {
        name.removeprefix(prefix): [_described(option.kind.shape, _of_option(field))]
        for field, option in OPTIONS.items()
        for name in (option.name, *option.former)
        if name.startswith(prefix)
    }
    tables = dict.fromkeys(table for name in shapes for table in _tables_in(name))
    for table in tables:
        shapes.setdefault(table, []).append(reference(f"{prefix}{table}"))
    properties = {name: any_of(*each) for name, each in shapes.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _of_option(field: str) -> str:
    """What is set where an option is not given, and what the option is where its name does not say it."""
    defaults = {preset: getattr(config, field) for preset, config in PRESETS.items()}
    render = OPTIONS[field].kind.render
    texts = {preset: "none" if value is None else str(render(value)) for preset, value in defaults.items()}
    alike = len(set(texts.values())) == 1
    said = (
        next(iter(texts.values()))
        if alike
        else ", ".join(f"{text} in {name}" for name, text in texts.items())
    )
    return " ".join(filter(None, (_said(NetworkConfig, field), f"Default: {said}.")))


def _tables_of_options() -> dict[str, Shape]:
    names = (name for option in OPTIONS.values() for name in (option.name, *option.former))
    return {table: options_shape(f"{table}.") for name in names for table in _tables_in(name)}


def _tables_in(name: str) -> Iterable[str]:
    """The tables in which an option may stand: "a" and "a.b" for "a.b.c"."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
