"""Scenarios as text in TOML, which loads back to the same scenario."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any

from .config import CostModel, LinkConditions
from .scenario import Scenario
from .scenario_document import scenario_document

_COLUMNS = 100
_DEFAULTS = {"costs": CostModel(), "link": LinkConditions()}


def scenario_toml(scenario: Scenario, comments: Iterable[str] = ()) -> str:
    """Return a scenario file, with each comment as a paragraph at its head.

    Costs and conditions of the network stand in it where they are not the defaults.
    """
    import tomlkit  # takes a while to import

    document = scenario_document(scenario)
    for key, default in _DEFAULTS.items():
        if getattr(scenario, key) == default:
            del document[key]
    head = "".join(f"{line}\n" for comment in comments for line in _comment(comment))
    text = tomlkit.dumps({key: _as_table(value) for key, value in document.items()})
    return (f"{head}\n" if head else "") + "".join(map(_seen, text))


def _comment(text: str) -> Iterator[str]:
    """A paragraph that cannot end its comment, whatever it holds."""
    readable = "".join(letter if letter.isprintable() else " " for letter in text)
    for number, line in enumerate(wrap(readable, _COLUMNS - 4) or [""]):
        yield f"# {'  ' if number else ''}{line}".rstrip()


def _seen(letter: str) -> str:
    """The letter; one that cannot be seen, which only texts in quotes can hold, as its escape."""
    if letter.isprintable() or letter == "\n":
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 1 << 16 else f"\\U{ord(letter):08x}"


def _as_table(value: object) -> object:
    """What the document has under a key: a table, or several, with what lies below them in one line each."""
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
