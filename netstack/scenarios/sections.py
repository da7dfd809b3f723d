"""Reads tables of a document key by key, and gathers every mistake with the place where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .config_rules import did_you_mean
from .quantities import QuantityError
from .shapes import TABLE, Shape, accepts, any_of, shape_of

T = TypeVar("T")
D = TypeVar("D")
Reader = Callable[[object], T]
"""Turns a value as TOML or JSON gives it into what is wanted; raises QuantityError if it cannot."""

_TYPES = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list"}


_LONGEST = 400
"""Letters of a line about a mistake."""


class Section:
    """One table of a document. `problems` is shared by all sections of a document: one line a mistake."""

    def __init__(self, values: Mapping[str, object], path: str, problems: list[str]) -> None:
        self.path = path
        self.problems = problems
        self._values = values
        self._taken: set[str] = set()

    @property
    def values(self) -> Mapping[str, object]:
        """What the table holds."""
        return self._values

    @property
    def taken(self) -> list[str]:
        """The keys that were asked for so far, in the order of the alphabet."""
        return sorted(self._taken)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def take(self, key: str, read: Reader[T], default: D) -> T | D:
        """Return the value of a key, or the default where it is absent or wrong."""
        self._taken.add(key)
        if key not in self._values:
            return default
        try:
            return read(self._values[key])
        except QuantityError as error:
            self.complain(key, f"{error.wrong}; it must be {error.right}")
            return default

    def require(self, key: str, read: Reader[T], default: D, example: str) -> T | D:
        """Return the value of a key that has to be there; `default` stands in for the rest of the reading."""
        if key not in self._values:
            self.complain(key, f"is missing; give one such as {example}")
        return self.take(key, read, default)

    def section(self, key: str) -> Section:
        """Return the table of a key; an empty one where it is absent or no table."""
        return self._part(key, self.take(key, table, {}), key)

    def tables(self, key: str, label: Callable[[Mapping[str, Any], int], object]) -> list[Section]:
        """Return the tables of a list; `label` tells of a table, and its place, what it is known by."""
        values = self.take(key, ListOf(table), ())
        return [self.part(key, each, label(each, place)) for place, each in enumerate(values)]

    def part(self, key: str, values: Mapping[str, Any], label: object) -> Section:
        """Return a table within the value of a key."""
        return self._part(key, values, f"{key}.{label}")

    def _part(self, key: str, values: Mapping[str, Any], path: str) -> Section:
        return Section(values, f"{self.path}{path}.", self.problems)

    def complain(self, key: str, message: str) -> None:
        """Note a mistake at a key of this section; one that is found again is noted once."""
        line = _shortened(f"{self.path}{key}: {message}")
        if line not in self.problems:
            self.problems.append(line)

    def finish(self, known: Iterable[str]) -> None:
        """Note the keys that nobody took; `known` are all that there are."""
        for key in self._values:
            if key not in self._taken:
                self.complain(key, f"is no key of this table; {did_you_mean(key, known)}")


def _shortened(line: str) -> str:
    """A line that a person reads to its end, where what would be right stands."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST * 3 // 4]} ... {line[-_LONGEST // 4 :]}"


@accepts({"type": "string"})
def text(value: object) -> str:
    """Return a text.

    Raises:
        QuantityError: it is something else; so it is in the other readers.
    """
    if not isinstance(value, str):
        raise QuantityError(f"is {value!r}, {_type(value)}", "text in quotes")
    return value


@accepts({"type": "integer"})
def integer(value: object) -> int:
    """Return a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise QuantityError(f"is {value!r}, {_type(value)}", _unquoted("a whole number", value))
    return value


@accepts({"type": "number"})
def number(value: object) -> float:
    """Return a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"is {value!r}, {_type(value)}", _unquoted("a number", value))
    try:
        return float(value)
    except OverflowError:
        raise QuantityError("is too large", "a number of 64 bits") from None


@accepts({"type": "boolean"})
def boolean(value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise QuantityError(f"is {value!r}, {_type(value)}", _unquoted("true or false", value))
    return value


@accepts(TABLE)
def table(value: object) -> Mapping[str, Any]:
    """Return a table."""
    if not isinstance(value, Mapping):
        raise QuantityError(f"is {value!r}, {_type(value)}", "a table")
    return value


@dataclass(frozen=True, slots=True)
class OneOf:
    """Reads one of some names; that it is one of them is for the rules to say."""

    names: Sequence[str]

    def __call__(self, value: object) -> str:
        """Return the text."""
        return text(value)

    @property
    def shape(self) -> Shape:
        """What is accepted in the end."""
        return {"enum": list(self.names)}


@dataclass(frozen=True, slots=True)
class ListOf(Generic[T]):
    """Reads lists whose elements `read` reads."""

    read: Reader[T]

    def __call__(self, value: object) -> tuple[T, ...]:
        """Return the elements."""
        if not isinstance(value, list):
            raise QuantityError(f"is {value!r}, {_type(value)}", "a list")
        return tuple(self.read(element) for element in value)

    @property
    def shape(self) -> Shape:
        """What is accepted."""
        return {"type": "array", "items": shape_of(self.read)}


@dataclass(frozen=True, slots=True)
class OneOrMore(Generic[T]):
    """Reads one value, or a list of them."""

    read: Reader[T]

    def __call__(self, value: object) -> tuple[T, ...]:
        """Return the values."""
        return ListOf(self.read)(value) if isinstance(value, list) else (self.read(value),)

    @property
    def shape(self) -> Shape:
        """What is accepted."""
        return any_of(shape_of(self.read), ListOf(self.read).shape)


@dataclass(frozen=True, slots=True)
class RangeOf:
    """Reads [least, greatest], or one value that is both."""

    read: Reader[float]

    def __call__(self, value: object) -> tuple[float, float]:
        """Return the least and the greatest."""
        if not isinstance(value, list):
            return self.read(value), self.read(value)
        if len(value) != 2:
            raise QuantityError(f"is {value!r}", "one value, or a list of the least and the greatest")
        return self.read(value[0]), self.read(value[1])

    @property
    def shape(self) -> Shape:
        """What is accepted."""
        return any_of(shape_of(self.read), ListOf(self.read).shape | {"minItems": 2, "maxItems": 2})


def _unquoted(wanted: str, value: object) -> str:
    return f"{wanted}, without quotes" if isinstance(value, str) else wanted


def _type(value: object) -> str:
    return _TYPES.get(type(value), "a table" if isinstance(value, Mapping) else f"a {type(value).__name__}")
