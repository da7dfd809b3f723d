"""Declares that a field of a settings class holds a Flink option: its name, its syntax, its versions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from ..errors import QuantityError
from .kinds import FLINK_DURATION, FLINK_SIZE, Kind, Shape, any_case, as_is
from .quantities import format_duration, format_size, parse_flink_duration, parse_flink_size


@dataclass(frozen=True, slots=True)
class Option:
    """One option of Flink."""

    name: str
    """The option's name as Flink spells it."""
    kind: Kind
    doc: str
    """Meaning of the option, where its name does not say it."""
    former: tuple[str, ...] = ()
    """Names it had in older versions; they are read too."""
    only_1x: bool = False
    """Whether Flink 2 has a constant in its place."""
    inert: bool = False
    """Whether it changes nothing in the emulator."""


def option(
    name: str,
    kind: Kind,
    default: Any,
    doc: str = "",
    *,
    former: tuple[str, ...] = (),
    only_1x: bool = False,
    inert: bool = False,
) -> Any:
    """Declare a dataclass field for an option (of type Any, so that the field's own type holds)."""
    described = Option(name, kind, doc, former, only_1x, inert)
    return dataclasses.field(default=default, metadata={"option": described})


def options_of(settings: type[Any]) -> Mapping[str, Option]:
    """Return the option of each field that `option` declared."""
    return {
        field.name: field.metadata["option"]
        for field in dataclasses.fields(settings)
        if "option" in field.metadata
    }


def choice(members: type[StrEnum], aliases: Mapping[str, str] = MappingProxyType({})) -> Kind:
    """Values that are names of an enumeration, or other names of these; case does not matter, as in Flink."""
    by_name = {member.lower(): member for member in members}
    by_name |= {alias: by_name[name] for alias, name in aliases.items()}

    def parse(value: object) -> object:
        member = by_name.get(value.strip().lower()) if isinstance(value, str) else None
        if member is None:
            raise QuantityError(f"{value!r} is not one of its values", " or ".join(members))
        return member

    return Kind(
        parse, str, _any_case_of([*members, *(name for name in by_name if name not in _lower(members))])
    )


def _any_case_of(words: Iterable[str]) -> Shape:
    listed = list(words)
    return {"anyOf": [{"enum": listed}, {"type": "string", "pattern": rf"^\s*({any_case(listed)})\s*$"}]}


def _lower(members: type[StrEnum]) -> set[str]:
    return {member.lower() for member in members}


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise QuantityError(f"{value!r} is no text", "text in quotes that is not empty")
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
            raise QuantityError(f"a number of {len(digits)} digits is too large", "one of Java's ints")
        if int(text) < least:
            raise QuantityError(f"{value!r} is too small", f"a whole number from {least}")
        return int(text)

    return parse


def _fraction(value: object) -> float:
    try:
        number = -1.0 if isinstance(value, bool) else float(str(value))
    except ValueError:
        number = -1.0
    if not 0 < number < 1:
        raise QuantityError(f"{value!r} is not a fraction", "a number between 0 and 1, such as 0.1")
    return number


def _number(value: object) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise QuantityError(f"{value!r} is not a number", "a number such as 1.5")
    return number


def _or_text(shape: Shape, pattern: str) -> Shape:
    """A value without quotes, or as text, which Flink's values may always be."""
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
