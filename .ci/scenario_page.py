"""Prints the reference of scenario files anew, with tables made of the declarations of `netstack.scenarios`.

In docs/reference/SCENARIO_FILES.md each table stands below a comment that names what it is of.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from netstack import DEFAULT_PRESET, OPTIONS, PRESETS, CostModel, LinkConditions
from netstack.scenarios import changes, scenario
from netstack.scenarios.tables import Key, Part, all_keys, keys_of
from netstack.scenarios.value_kinds import Shape

PAGE = Path(__file__).parent.parent / "docs/reference/SCENARIO_FILES.md"
MARKED = re.compile(r"(<!-- (?:keys of (\w+)|options of Flink) -->\n\n)(?:\|.*\n)*")
ABSENT = re.compile(r"(?:^|; )(?:None|empty|absent): (.*?)\.?$")
"""The end of a text that says what the absence of a key means."""

TABLES: dict[str, type] = {
    table.__name__: table
    for table in (
        scenario.Scenario,
        scenario.Vertex,
        scenario.GeneratorSpec,
        scenario.PathSpec,
        scenario.Edge,
        scenario.Machine,
        changes.ScheduledSavepoint,
        changes.ScheduledChange,
        LinkConditions,
        CostModel,
    )
}
REFERENCES = {"duration": "time", "rate": "rate", "flink": "table"}
MOST_IN_A_LINE = 4
TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true, false"}


def page(text: str) -> str:
    """Return the page with its tables made anew."""
    return MARKED.sub(lambda marker: marker[1] + "".join(f"{line}\n" for line in table(marker[2])), text)


def table(name: str | None) -> Iterator[str]:
    """Yield the lines of the table of a class, or of Flink's options."""
    if name is None:
        return lines(("option", f"default ({DEFAULT_PRESET})", "notes"), map(option_row, OPTIONS))
    needed = required_in(TABLES[name])
    rows = [key_row(key, key.name in needed) for key in all_keys(TABLES[name]) if not key.hidden]
    if TABLES[name] is CostModel:  # the defaults show the form of the values
        return lines(("key", "default", "meaning"), [(key, default, text) for key, _, default, text in rows])
    return lines(("key", "value", "if absent", "meaning"), rows)


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown whose first column is code."""
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for first, *others in rows:
        yield f"| `{first}` | {' | '.join(others)} |".replace("  |", " |")


def key_row(key: Key, required: bool) -> tuple[str, str, str, str]:
    """The row of a key: what it is called, may be, is where it is absent, and means."""
    return key.name, value_of(key.kind.shape), absence_of(key, required), without_absence(key.doc)


def value_of(shape: Shape) -> str:
    """The values that a schema accepts, in words."""
    match shape:
        case {"$ref": str(name)}:
            return REFERENCES[name.rpartition("/")[2]]
        case {"enum": list(names)}:
            return ", ".join(f'`"{name}"`' for name in names)
        case {"type": "array", "items": {"minItems": 2}}:
            return 'list of `["20 s", "60 s"]`'
        case {"type": "array", "items": items}:
            return list_of(value_of(items))
        case {"anyOf": list(shapes)}:
            if all("properties" in each for each in shapes):
                return "table"
            return ", or ".join(map(value_of, shapes))
        case {"type": "object", "properties": dict(properties)}:
            return "table" if len(properties) > MOST_IN_A_LINE else f"`{{ {', '.join(properties)} }}`"
    return TYPES[shape["type"]]


def list_of(words: str) -> str:
    """A list of what some words say."""
    first, *others = words.split(", or ")
    return ", or ".join([f"list of {first}s" if first.isalpha() else f"list of {first}", *others])


def required_in(table: type) -> set[str]:
    """The keys whose fields have no default."""
    defaults = {field.name: (field.default, field.default_factory) for field in dataclasses.fields(table)}
    missing = (dataclasses.MISSING, dataclasses.MISSING)
    return {key.name for field, key in keys_of(table).items() if defaults[field] == missing}


def absence_of(key: Key, required: bool) -> str:
    """The meaning of an absent key."""
    if said := ABSENT.search(key.doc):
        return said[1]
    if required:
        return "required"
    if key.default in (None, ()) or isinstance(key.kind, Part):
        return "none"
    return f"`{json.dumps(key.kind.render(key.default))}`"


def without_absence(doc: str) -> str:
    """The meaning of a key."""
    return without_code(ABSENT.sub("", doc).removesuffix("."))


def without_code(text: str) -> str:
    """A text of a docstring in Markdown."""
    return text.replace("``", "`")


def option_row(field: str) -> tuple[str, str, str]:
    """The row of an option of Flink."""
    return OPTIONS[field].name, default_of(field, DEFAULT_PRESET), "; ".join(notes_on(field))


def notes_on(field: str) -> Iterator[str]:
    """Other defaults, other names and other notes of an option."""
    option = OPTIONS[field]
    for preset in PRESETS:
        if (value := default_of(field, preset)) != default_of(field, DEFAULT_PRESET):
            yield f"{value} in {preset}"
    if option.doc:
        yield without_code(option.doc.removesuffix("."))
    yield from (f"formerly `{name}`" for name in option.former)
    if option.only_1x:
        yield "a constant in Flink 2"
    if option.inert:
        yield "accepted, without effect"


def default_of(field: str, preset: str) -> str:
    """The default of an option, as a scenario file has it."""
    value = getattr(PRESETS[preset], field)
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(OPTIONS[field].kind.render(value))


if __name__ == "__main__":
    sys.stdout.write(page(PAGE.read_text("utf-8")))
