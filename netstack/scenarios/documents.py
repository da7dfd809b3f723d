"""Reading and writing of scenarios as documents and TOML; the JSON Schema of scenario files.

A document is the content of a scenario file, in JSON's types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from textwrap import wrap
from typing import Any

from ..errors import ScenarioError
from .costs import CostModel, LinkConditions
from .options import DEFAULT_PRESET, POLICY, PRESETS, option_definitions, option_values, read_options
from .rules import scenario_problems
from .scenario import (
    FROM_SOURCE,
    SERVICE_MODE,
    SLOT_SHARING_GROUP,
    SLOTS,
    PathSpec,
    Scenario,
    Vertex,
    in_slots,
    label,
)
from .tables import Section, keys_of, read_table, table_shape, write_table
from .value_kinds import DEFINITIONS

__all__ = ["read_scenario", "scenario_document", "scenario_schema", "scenario_toml"]

DRAFT = "http://json-schema.org/draft-07/schema#"
"""The version of JSON Schema that most editors support."""

_COLUMNS = 100

Document = dict[str, Any]


def read_scenario(
    document: Mapping[str, object],
    name: str = "",
    *,
    to_run: bool = True,
    notices: list[str] | None = None,
) -> Scenario:
    """Return the scenario in a document; `name` is used if the document has no name.

    Without `to_run`, the document may contain names instead of Python objects, and its policy is not checked.
    Then nothing is imported, so a document of unknown origin can be read.

    For each time or size in Flink's syntax without a unit, a line is added to the list `notices`.

    Raises:
        ScenarioError: with one line for each mistake: key, mistake, correct value.
    """
    problems: list[str] = []
    top = Section(document, "", problems, notices)
    preset = keys_of(Scenario)["preset"].read(top, DEFAULT_PRESET)
    config = read_options(top.section("flink"), PRESETS[preset])
    config = replace(config, debloat_policy=POLICY.read(top, config.debloat_policy))
    mode = SERVICE_MODE.read(top, SERVICE_MODE.default)
    slots = SLOTS.read(top, None)
    if slots is not None and slots < 1:
        top.complain("slots", f"is {slots}; a task manager must have at least 1 slot")
    sections = top.sections("vertices", label)
    groups = [_slot_sharing_group(section, slots) for section in sections]
    given = {
        "preset": preset,
        "config": config,
        "vertices": in_slots([_vertex(section, mode) for section in sections], slots, groups),
    }
    scenario = read_table(top, Scenario, given, {"name": name})
    if not problems:
        problems = [f"{key}: {message}" for key, message in scenario_problems(scenario, to_run=to_run)]
    if problems:
        raise ScenarioError(problems)
    return scenario


def _vertex(section: Section, mode: str) -> Vertex:
    source = keys_of(Vertex)["source"].read(section, None)
    usual = FROM_SOURCE if isinstance(source, PathSpec) else 1
    vertex = read_table(section, Vertex, {"source": source}, {"parallelism": usual, "service_mode": mode})
    if vertex.parallelism < 1 and "parallelism" in section:
        section.complain("parallelism", f"is {vertex.parallelism}; a vertex must have at least 1 subtask")
    return vertex


def _slot_sharing_group(vertex: Section, slots: int | None) -> str:
    key = "slot_sharing_group"
    if key in vertex and "task_manager" in vertex:
        vertex.complain(
            key,
            "is given, but a vertex with a task_manager takes no slot; remove one of the two",
        )
    elif key in vertex and slots is None:
        vertex.complain(
            key, "has no effect, since the scenario has no slots; give the scenario slots, or remove this key"
        )
    without_count = "source" in vertex and "parallelism" not in vertex and "task_manager" not in vertex
    source = vertex.values.get("source")
    if slots is not None and without_count and isinstance(source, Mapping) and "path" in source:
        vertex.complain(
            "parallelism",
            "is missing, but the assignment of slots depends on it; give the number of subtasks",
        )
    group: str = SLOT_SHARING_GROUP.read(vertex, SLOT_SHARING_GROUP.default)
    return group


def scenario_document(scenario: Scenario) -> Document:
    """Return a scenario as a document that loads as an equal scenario.

    The document contains the options that were given or differ from the preset, and all costs, so that its
    meaning does not depend on later defaults. For functions and source objects of the Python API it contains
    only names. A document with such names cannot be loaded to run.
    """
    preset = PRESETS[scenario.preset]
    document = write_table(scenario)
    document["flink"] = option_values(scenario.config, preset)
    if scenario.config.debloat_policy != preset.debloat_policy:
        document["policy"] = scenario.config.debloat_policy
    return dict(sorted(document.items(), key=lambda entry: _rank(entry[1])))


def _rank(value: object) -> int:
    """Return the rank of a value in a table: values, then tables, then lists of tables.

    In TOML, values must precede tables.
    """
    if isinstance(value, Mapping):
        return 1
    return 2 if isinstance(value, list) and any(isinstance(each, Mapping) for each in value) else 0


def scenario_toml(scenario: Scenario, comments: Iterable[str] = ()) -> str:
    """Return a scenario file that begins with the comments, one paragraph each.

    It contains only those costs and network conditions that differ from the defaults.
    """
    import tomlkit  # takes a while to import

    document = scenario_document(scenario)
    usual = scenario_document(replace(scenario, costs=CostModel(), link=LinkConditions()))
    for key in ("costs", "link"):
        document[key] = {
            name: value for name, value in document[key].items() if value != usual[key].get(name)
        }
        if not document[key]:
            del document[key]
    head = "".join(f"{line}\n" for comment in comments for line in _comment(comment))
    text = tomlkit.dumps({key: _as_table(value) for key, value in document.items()})
    return (f"{head}\n" if head else "") + "".join(map(_seen, text))


def _comment(text: str) -> Iterator[str]:
    """Yield the lines of a comment. Blanks replace unprintable characters, which might end the comment."""
    readable = "".join(letter if letter.isprintable() else " " for letter in text)
    for number, line in enumerate(wrap(readable, _COLUMNS - 4) or [""]):
        yield f"# {'  ' if number else ''}{line}".rstrip()


def _seen(letter: str) -> str:
    """Return the letter, or its escape sequence if it is not printable. Such letters occur only in quotes."""
    if letter.isprintable() or letter == "\n":
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 1 << 16 else f"\\U{ord(letter):08x}"


def _as_table(value: object) -> object:
    """Return a top-level value for TOML; tables within a table become inline tables."""
    if isinstance(value, Mapping):
        return _entries(value)
    if isinstance(value, list) and value and all(isinstance(table, Mapping) for table in value):
        return [_entries(table) for table in value]
    return value


def _entries(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _in_one_line(value) for key, value in table.items()}


def _in_one_line(value: object) -> object:
    import tomlkit

    if isinstance(value, Mapping):
        inline = tomlkit.inline_table()
        inline.update(_entries(value))
        return inline
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        array.extend(map(_in_one_line, value))
        return array
    return value


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files. It accepts all valid scenarios, and few invalid ones."""
    return {
        "$schema": DRAFT,
        "title": "A scenario of netstack",
        "description": "A job, its Flink options, and the cost of its records.",
        **table_shape(Scenario),
        "definitions": DEFINITIONS | option_definitions(),
    }
