"""What readers of values accept, as JSON Schema: each reader has its shape, so that the two stay together.

A shape accepts whatever the reader does, and refuses most of what it refuses. Rules that need more than one
value, such as that an edge leads to a vertex that there is, have no shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .quantities import (
    DURATION_S,
    RATE_BYTES_PER_S,
    SIZE_BYTES,
    parse_duration,
    parse_rate,
)

Shape = dict[str, Any]
"""A JSON Schema, of the keywords that draft 7 has."""

DEFINITIONS: dict[str, Shape] = {}
"""Shapes that others refer to, by their names."""

R = TypeVar("R", bound=Callable[..., object])

_SHAPES: dict[Callable[..., object], Shape] = {}


def accepts(shape: Shape) -> Callable[[R], R]:
    """Return a decorator that says what a reader of values accepts."""

    def note(read: R) -> R:
        _SHAPES[read] = shape
        return read

    return note


def shape_of(read: Callable[..., object]) -> Shape:
    """Return what a reader accepts.

    Raises:
        KeyError: nobody has said so.
    """
    made: Shape | None = getattr(read, "shape", None)
    return _SHAPES[read] if made is None else made


def any_of(*shapes: Shape) -> Shape:
    """Return the shape of what one of some shapes accepts, each once."""
    different = [shape for place, shape in enumerate(shapes) if shape not in shapes[:place]]
    return different[0] if len(different) == 1 else {"anyOf": different}


def defined(name: str, shape: Shape) -> Shape:
    """Note a shape among `DEFINITIONS`, and return one that refers to it."""
    DEFINITIONS[name] = shape
    return reference(name)


def reference(name: str) -> Shape:
    """Return a shape that refers to one of `DEFINITIONS`."""
    return {"$ref": f"#/definitions/{name}"}


def any_case(words: Iterable[str]) -> str:
    """Return a pattern for some words whose letters may be of either case."""
    return "|".join("".join(map(_letter, word)) for word in sorted(words, key=len, reverse=True))


def _letter(letter: str) -> str:
    cases = {case for case in (letter, letter.upper(), letter.lower()) if len(case) == 1}
    if len(cases) > 1:
        return f"[{''.join(sorted(cases))}]"
    return letter if letter.isalnum() else f"\\{letter}"


def named(words: Iterable[str]) -> Shape:
    """Return the shape of one of some words, without regard to case."""
    listed = list(words)
    return {"anyOf": [{"enum": listed}, {"type": "string", "pattern": rf"^\s*({any_case(listed)})\s*$"}]}


def _with_unit(units: Iterable[str], example: str, rest: str = "") -> Shape:
    pattern = rf"^\s*[0-9]+(\.[0-9]+)?\s*({any_case(units)}){rest}\s*$"
    return {"type": "string", "pattern": pattern, "examples": [example]}


def _flinks(units: Iterable[str], example: str) -> Shape:
    text = {"type": "string", "pattern": rf"^\s*[0-9]+\s*({any_case(units)})?\s*$", "examples": [example]}
    return {"anyOf": [text, {"type": "integer", "minimum": 0}]}


DURATION = defined("duration", _with_unit(DURATION_S, "5 ms"))
_SECOND = f"/({any_case(('s', 'sec', 'second'))})"
RATE = defined("rate", _with_unit(RATE_BYTES_PER_S, "10 gbit/s", _SECOND))
FLINK_DURATION = defined("flink-duration", _flinks(DURATION_S, "100 ms"))
FLINK_SIZE = defined("flink-size", _flinks(SIZE_BYTES, "32 kb"))
TABLE: Shape = {"type": "object"}
"""Any table; whoever knows its keys says more."""

accepts(DURATION)(parse_duration)
accepts(RATE)(parse_rate)
