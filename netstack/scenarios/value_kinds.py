"""Kinds of values in a scenario file, and declarations of fields that hold a Flink option.

A kind consists of a parser, a writer and a JSON Schema. An option consists of a name, a kind and the versions
of Flink that have it. A schema accepts every value that its kind parses, and rejects most other values. Rules
about several values, such as that an edge leads to an existing vertex, are not in the schema.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from ..errors import QuantityError
from .unit_texts import (
    DURATION_S,
    RATE_BYTES_PER_S,
    SIZE_BYTES,
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_flink_duration,
    parse_flink_size,
    parse_rate,
)

__all__ = ["FlinkVersion", "Kind", "unit_notice"]

T = TypeVar("T")
Shape = dict[str, Any]
"""A JSON Schema with keywords of draft 7."""

Parse = Callable[[object], T]
"""Converts a value of TOML or JSON; raises QuantityError if it cannot be converted."""

DEFINITIONS: dict[str, Shape] = {}
"""Schemas that other schemas refer to, by name."""

_TYPES = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list"}


@dataclass(frozen=True, slots=True)
class Kind:
    """Syntax of a value in a scenario file."""

    parse: Parse[Any]
    """Converts a value of TOML; raises QuantityError."""
    render: Callable[[Any], object]
    """Inverse of `parse`: converts a value for a document; returns None for a value that is not written."""
    shape: Shape
    """JSON Schema of the values that `parse` accepts."""
    is_tuple: bool = False
    """Whether a parsed value is a tuple of any length."""
    pairs: str = ""
    """Example of a tuple as Python code, if the elements are pairs."""


def any_of(*shapes: Shape) -> Shape:
    """Return the schema of values that match at least one of the schemas; equal schemas are listed once."""
    different = [shape for place, shape in enumerate(shapes) if shape not in shapes[:place]]
    return different[0] if len(different) == 1 else {"anyOf": different}


def defined(name: str, shape: Shape) -> Shape:
    """Add a schema to `DEFINITIONS` and return a reference to it."""
    DEFINITIONS[name] = shape
    return reference(name)


def reference(name: str) -> Shape:
    """Return a reference to one of `DEFINITIONS`."""
    return {"$ref": f"#/definitions/{name}"}


def any_case(words: Iterable[str]) -> str:
    """Return a regular expression for some words in upper, lower or mixed case."""
    return "|".join("".join(map(_letter, word)) for word in sorted(words, key=len, reverse=True))


def _letter(letter: str) -> str:
    cases = {case for case in (letter, letter.upper(), letter.lower()) if len(case) == 1}
    if len(cases) > 1:
        return f"[{''.join(sorted(cases))}]"
    return letter if letter.isalnum() else f"\\{letter}"


def _with_unit(units: Iterable[str], example: str, rest: str = "") -> Shape:
    pattern = rf"^\s*[0-9]+(\.[0-9]+)?\s*({any_case(units)}){rest}\s*$"
    return {"type": "string", "pattern": pattern, "examples": [example]}


def _in_flinks_syntax(units: Iterable[str], example: str) -> Shape:
    text = {"type": "string", "pattern": rf"^\s*[0-9]+\s*({any_case(units)})?\s*$", "examples": [example]}
    return {"anyOf": [text, {"type": "integer", "minimum": 0}]}


_SECOND = f"/({any_case(('s', 'sec', 'second'))})"
_DURATION = defined("duration", _with_unit(DURATION_S, "5 ms"))
_RATE = defined("rate", _with_unit(RATE_BYTES_PER_S, "10 gbit/s", _SECOND))
FLINK_DURATION = defined("flink-duration", _in_flinks_syntax(DURATION_S, "100 ms"))
FLINK_SIZE = defined("flink-size", _in_flinks_syntax(SIZE_BYTES, "32 kb"))


def text(value: object) -> str:
    """Check that a value is a text, and return it.

    Raises:
        QuantityError: if the value has another type. The functions below raise it in the same way.
    """
    if not isinstance(value, str):
        raise QuantityError(f"is {value!r}, {_type(value)}", "text in quotes")
    return value


def integer(value: object) -> int:
    """Check that a value is an integer, and return it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise QuantityError(f"is {value!r}, {_type(value)}", _unquoted("a whole number", value))
    return value


def number(value: object) -> float:
    """Check that a value is a number, and return it as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"is {value!r}, {_type(value)}", _unquoted("a number", value))
    try:
        return float(value)
    except OverflowError:
        raise QuantityError("is too large", "a number that fits into 64 bits") from None


def boolean(value: object) -> bool:
    """Check that a value is true or false, and return it."""
    if not isinstance(value, bool):
        raise QuantityError(f"is {value!r}, {_type(value)}", _unquoted("true or false", value))
    return value


def table(value: object) -> Mapping[str, Any]:
    """Check that a value is a table, and return it."""
    if not isinstance(value, Mapping):
        raise QuantityError(f"is {value!r}, {_type(value)}", "a table")
    return value


def elements(value: object) -> list[Any]:
    """Check that a value is a list, and return it."""
    if not isinstance(value, list):
        raise QuantityError(f"is {value!r}, {_type(value)}", "a list")
    return value


def tables(value: object) -> tuple[Mapping[str, Any], ...]:
    """Check that a value is a list of tables, and return them."""
    return tuple(table(element) for element in elements(value))


def as_is(value: object) -> object:
    """Return the value unchanged."""
    return value


def _unquoted(wanted: str, value: object) -> str:
    return f"{wanted}, without quotes" if isinstance(value, str) else wanted


def _type(value: object) -> str:
    return _TYPES.get(type(value), "a table" if isinstance(value, Mapping) else f"a {type(value).__name__}")


def _short(value: float) -> float:
    return int(value) if value == int(value) else value


STRING = Kind(text, as_is, {"type": "string"})
INTEGER = Kind(integer, as_is, {"type": "integer"})
FLOAT = Kind(number, as_is, {"type": "number"})
REAL = replace(FLOAT, render=_short)
"""Kind of a number, which is written without decimals if it is an integer."""
FLAG = Kind(boolean, as_is, {"type": "boolean"})
TIME = Kind(parse_duration, format_duration, _DURATION)
RATE = Kind(parse_rate, format_rate, _RATE)


def list_of(kind: Kind) -> Kind:
    """Return the kind for lists of values of another kind."""
    parse, render = kind.parse, kind.render
    return Kind(
        lambda value: tuple([parse(element) for element in elements(value)]),
        lambda values: [render(value) for value in values],
        {"type": "array", "items": kind.shape},
        is_tuple=True,
    )


def one_or_more(kind: Kind) -> Kind:
    """Return the kind for one value of another kind, or a list of such values. Documents contain a list."""
    parse, several = kind.parse, list_of(kind)
    return Kind(
        lambda value: several.parse(value) if isinstance(value, list) else (parse(value),),
        several.render,
        any_of(kind.shape, several.shape),
        is_tuple=True,
    )


def range_of(kind: Kind) -> Kind:
    """Return the kind for pairs of minimum and maximum. A single value counts as both."""
    parse, several = kind.parse, list_of(kind)

    def parse_range(value: object) -> tuple[object, object]:
        if not isinstance(value, list):
            return parse(value), parse(value)
        if len(value) != 2:
            raise QuantityError(f"is {value!r}", "one value, or a list of the minimum and the maximum")
        return parse(value[0]), parse(value[1])

    return Kind(
        parse_range, several.render, any_of(kind.shape, several.shape | {"minItems": 2, "maxItems": 2})
    )


def one_of(names: Iterable[str]) -> Kind:
    """Return the kind for a text that is one of `names`.

    The parser accepts any text; rules reject other names, because Python code may set the field too.
    """
    return Kind(text, as_is, {"enum": list(names)})


def named(values: Mapping[str, Any], what: str) -> Kind:
    """Return the kind for values with names; `what` ends the message for other names ("'x' is no ...")."""
    names = {value: name for name, value in values.items()}

    def parse(value: object) -> object:
        name = text(value)
        if name not in values:
            raise QuantityError(f"{name!r} {what}", " or ".join(map(repr, values)))
        return values[name]

    return Kind(parse, names.get, {"enum": list(values)})


class Subsystem(Enum):
    """Parts of a running job that obey a changed setting."""

    CHECKPOINTS = "checkpoints"
    DEBLOATING = "debloating"
    PARTITION_SELECTION = "partition selection"


class FlinkVersion(NamedTuple):
    """A version of Flink: major and minor number."""

    major: int
    minor: int

    @classmethod
    def read(cls, text: str) -> FlinkVersion | None:
        """Return the version in a text such as "2.2.1" or "flink-2.2"; None: it has no numbers."""
        numbers = [int(number) for number in re.findall(r"\d+", text)[:2]]
        return cls(numbers[0], numbers[1] if len(numbers) > 1 else 0) if numbers else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of Flink."""

    name: str
    """The option's name as Flink spells it."""
    kind: Kind
    doc: str
    """Meaning of the option; empty if its name explains it."""
    former: tuple[str, ...] = ()
    """Names in older versions of Flink; they are read too."""
    only_1x: bool = False
    """Whether Flink 2 has replaced the option by a constant."""
    since: FlinkVersion | None = None
    """First version of Flink with this option; None: 2.2 or an older version."""
    inert: bool = False
    """Whether the option has no effect in the emulator."""


def option(
    name: str,
    kind: Kind,
    default: Any,
    doc: str = "",
    *,
    former: tuple[str, ...] = (),
    only_1x: bool = False,
    since: FlinkVersion | None = None,
    inert: bool = False,
    changed_in: Subsystem | None = None,
) -> Any:
    """Declare a dataclass field for an option.

    `changed_in`: the part of a running job that obeys a change; None: the option cannot change while a job
    runs. The result has the type Any, so that type checkers use the type in the field's annotation.
    """
    described = Option(name, kind, doc, former, only_1x, since, inert)
    return dataclasses.field(default=default, metadata={"option": described, "changed_in": changed_in})


def options_of(settings: type[Any]) -> Mapping[str, Option]:
    """Return the option of each field that was declared with `option`."""
    return {
        field.name: field.metadata["option"]
        for field in dataclasses.fields(settings)
        if "option" in field.metadata
    }


def choice(members: type[StrEnum], aliases: Mapping[str, str] = MappingProxyType({})) -> Kind:
    """Return the kind for members of an enumeration by name or alias; case is ignored, as in Flink."""
    by_name = {member.lower(): member for member in members}
    by_name |= {alias: by_name[name] for alias, name in aliases.items()}

    def parse(value: object) -> object:
        member = by_name.get(value.strip().lower()) if isinstance(value, str) else None
        if member is None:
            raise QuantityError(f"{value!r} is not one of the possible values", " or ".join(members))
        return member

    of_members = {member.lower() for member in members}
    words = [*members, *(name for name in by_name if name not in of_members)]
    in_any_case = {"type": "string", "pattern": rf"^\s*({any_case(words)})\s*$"}
    return Kind(parse, str, {"anyOf": [{"enum": words}, in_any_case]})


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise QuantityError(f"{value!r} is not text", "text in quotes that is not empty")
    return value


def _boolean(value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise QuantityError(f"{value!r} is neither true nor false", "true or false")
    return text == "true"


_MOST_DIGITS = 10


def _whole_from(least: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        text = str(value).strip()
        digits = text.removeprefix("-")
        if isinstance(value, bool) or not (digits.isascii() and digits.isdigit()):
            raise QuantityError(f"{value!r} is not a whole number", f"a whole number from {least}")
        if len(digits) > _MOST_DIGITS:
            raise QuantityError(
                f"a number of {len(digits)} digits is too large", "a number that fits into 32 bits"
            )
        if int(text) < least:
            raise QuantityError(f"{value!r} is too small", f"a whole number from {least}")
        return int(text)

    return parse


def _fraction(value: object) -> float:
    number = _number_or_nan(value)
    if not 0 < number < 1:
        raise QuantityError(f"{value!r} is not a fraction", "a number between 0 and 1, such as 0.1")
    return number


def _number_or_nan(value: object) -> float:
    try:
        return math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        return math.nan


def _number(value: object) -> float:
    number = _number_or_nan(value)
    if not math.isfinite(number):
        raise QuantityError(f"{value!r} is not a number", "a number such as 1.5")
    return number


def _or_text(shape: Shape, pattern: str) -> Shape:
    """Return a schema that accepts the value itself (`shape`), or a string that matches `pattern`."""
    return {"anyOf": [shape, {"type": "string", "pattern": rf"^\s*({pattern})\s*$"}]}


def _whole(least: int) -> Kind:
    digits = f"[0-9]{{1,{_MOST_DIGITS}}}"
    shape = _or_text({"type": "integer", "minimum": least}, digits if least == 0 else "0*[1-9][0-9]*")
    return Kind(_whole_from(least), as_is, shape)


_IN_UNIT = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}

TEXT = Kind(_text, as_is, {"type": "string", "pattern": r"\S"})
BOOLEAN = Kind(_boolean, as_is, _or_text({"type": "boolean"}, any_case(("true", "false"))))
WHOLE = _whole(0)
COUNT = _whole(1)
FRACTION = Kind(_fraction, as_is, _or_text(_IN_UNIT, "[-+_.eE0-9]+"))
NUMBER = Kind(_number, as_is, _or_text({"type": "number"}, "[-+_.eE0-9]+"))
DURATION = Kind(parse_flink_duration, format_duration, FLINK_DURATION)
SIZE = Kind(parse_flink_size, format_size, FLINK_SIZE)


def unit_notice(kind: Kind, value: object) -> str | None:
    """Return a warning if a time or a size in Flink's syntax has no unit; None otherwise.

    0 needs no unit. `kind` must be able to read the value.
    """
    text = str(value).strip()
    if kind not in (DURATION, SIZE) or not text.isdecimal() or not int(text):
        return None
    meant = kind.render(kind.parse(value))
    return f'{text} means {meant} in Flink; write "{meant}"'
