"""Scenarios as text in TOML, which loads back to the same scenario."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any

from netstack import CostModel, LinkConditions, Scenario, scenario_document

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_COLUMNS = 100
_DEFAULTS = {"costs": CostModel(), "link": LinkConditions()}


def scenario_toml(scenario: Scenario, comments: Iterable[str] = ()) -> str:
    """Return a scenario file, with each comment as a paragraph at its head.

    Costs and conditions of the network stand in it where they are not the defaults.
    """
    document = scenario_document(scenario)
    for key, default in _DEFAULTS.items():
        if getattr(scenario, key) == default:
            del document[key]
    head = [line for comment in comments for line in _comment(comment)]
    return "\n".join([*head, *([""] if head else []), *_lines(document)]).rstrip("\n") + "\n"


def _comment(text: str) -> Iterator[str]:
    """A paragraph that cannot end its comment, whatever it holds."""
    readable = "".join(letter if letter.isprintable() else " " for letter in text)
    for number, line in enumerate(wrap(readable, _COLUMNS - 4) or [""]):
        yield f"# {'  ' if number else ''}{line}".rstrip()


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    tables = {key: value for key, value in document.items() if isinstance(value, Mapping)}
    lists = {key: value for key, value in document.items() if key not in tables and _is_tables(value)}
    yield from (
        f"{_key(key)} = {_value(value)}"
        for key, value in document.items()
        if key not in tables and key not in lists
    )
    for key, table in tables.items():
        yield from ("", f"[{_key(key)}]", *_pairs(table))
    for key, entries in lists.items():
        for entry in entries:
            yield from ("", f"[[{_key(key)}]]", *_pairs(entry))


def _pairs(table: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_key(key)} = {_value(value)}" for key, value in table.items())


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(_pairs(value))
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    """A basic string: JSON's escapes are TOML's; what cannot be seen is escaped too."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in quoted)


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 1 << 16 else f"\\U{ord(letter):08x}"
