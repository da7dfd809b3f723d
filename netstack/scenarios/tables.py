"""Tables of a scenario file: one dataclass declares each table for reading, writing and the schema.

A field that corresponds to a key is declared with `key`, or with `needed` if it has no default::

    class Machine:
        cores: float = field(metadata=needed(REAL, "2", 1.0, "Number of cores."))
        idle: float = key(REAL, 0.0, "Share of the cores that stays idle.")

`read_table`, `write_table`, `table_shape` (JSON Schema), the suggestions for misspelt keys and the tables of
the reference use these declarations. The name of a key is that of its field without the unit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar

from ..errors import QuantityError, ScenarioError
from .value_kinds import Kind, Parse, Shape, any_of, table, tables

__all__ = ["Section", "did_you_mean"]

T = TypeVar("T")
D = TypeVar("D")

_LONGEST = 400
"""Maximum length of a line about a mistake."""

_UNITS = ("_bytes_per_s", "_s")
_NOTHING: Mapping[str, Any] = {}


class Section:
    """One table of a document.

    `problems` and `notices` are shared by all sections of a document. `problems` has a line for each mistake,
    `notices` for each valid value that may mean something else than its author expects.
    """

    __slots__ = ("_taken", "notices", "path", "problems", "values")

    def __init__(
        self,
        values: Mapping[str, Any],
        path: str,
        problems: list[str],
        notices: list[str] | None = None,
    ) -> None:
        self.values = values
        self.path = path
        self.problems = problems
        self.notices = [] if notices is None else notices
        self._taken: set[str] = set()

    def taken(self) -> list[str]:
        """Return the keys that have been read, present or not, in alphabetical order."""
        return sorted(self._taken)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def take(self, key: str, parse: Parse[T], default: D) -> T | D:
        """Return the value of a key, or the default if the key is absent or its value is wrong."""
        self._taken.add(key)
        if key not in self.values:
            return default
        try:
            return parse(self.values[key])
        except QuantityError as error:
            self.complain(key, f"{error.wrong}; it must be {error.right}")
            return default

    def require(self, key: str, parse: Parse[T], default: D, example: str) -> T | D:
        """Return the value of a required key, or `default` if it is missing or wrong."""
        if key not in self.values:
            self.complain(key, f"is missing; give a value such as {example}")
        return self.take(key, parse, default)

    def section(self, key: str) -> Section:
        """Return the table of a key; an empty table if the key is absent or its value is not a table."""
        return Section(self.take(key, table, {}), f"{self.path}{key}.", self.problems, self.notices)

    def sections(self, key: str, label: Callable[[Mapping[str, Any], int], object]) -> list[Section]:
        """Return the tables of a list; `label` maps a table and its index to a name for messages."""
        values = self.take(key, tables, ())
        return [self.part(key, each, label(each, index)) for index, each in enumerate(values)]

    def part(self, key: str, values: Mapping[str, Any], label: object) -> Section:
        """Return a table within the value of a key."""
        return Section(values, f"{self.path}{key}.{label}.", self.problems, self.notices)

    def complain(self, key: str, message: str) -> None:
        """Report a mistake at a key of this section, once."""
        line = f"{self.path}{key}: {message}"
        if len(line) > _LONGEST:  # the end contains the correct value
            line = f"{line[: _LONGEST * 3 // 4]} ... {line[-_LONGEST // 4 :]}"
        if line not in self.problems:
            self.problems.append(line)

    def finish(self, known: Callable[[], Iterable[str]]) -> None:
        """Report unread keys as unknown; `known` returns the keys that a message may suggest."""
        for key in self.values:
            if key not in self._taken:
                self.complain(key, f"is not a key of this table; {did_you_mean(key, known())}")


class Alternative(NamedTuple):
    """A set of keys that a table may have together."""

    properties: dict[str, Shape]
    required: frozenset[str] = frozenset()

    def __or__(self, other: Alternative) -> Alternative:
        return Alternative(self.properties | other.properties, self.required | other.required)


class Part:
    """A kind of value that consists of tables, or of several keys of the same table."""

    is_tuple: ClassVar[bool] = False
    """Whether a value is a tuple of any length."""
    pairs: ClassVar[str] = ""
    """Empty: the elements of a tuple are not pairs (`Kind.pairs`)."""

    def read(self, section: Section, key: Key, default: Any) -> Any:
        """Return the value of a key, or the default if the key is absent or its value is wrong."""
        raise NotImplementedError

    def render(self, value: Any) -> object:
        """Return the value in the form that documents use; None: it is not written."""
        raise NotImplementedError

    @property
    def shape(self) -> Shape:
        """JSON Schema of the value."""
        raise NotImplementedError

    def entries(self, key: Key, value: Any) -> Mapping[str, object]:
        """Return the keys and values that represent a value in a document."""
        rendered = None if value is None else self.render(value)
        return {} if rendered is None else {key.name: rendered}

    def alternatives(self, key: Key) -> Sequence[Alternative]:
        """Return the sets of keys that can represent the value in a table."""
        return [key.alternative(self.shape)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a table."""

    name: str
    """The key as a file spells it."""
    kind: Kind | Part
    default: Any
    """Value if the key is absent."""
    doc: str = ""
    """Meaning of the key.

    It may end with "None:", "empty:" or "absent:" and a text that explains what an absent key means.
    """
    example: str | None = None
    """Example of a value, for the message that the key is missing; None: the key is optional."""
    written: bool = False
    """Whether a document contains the key even if it has its default."""
    hidden: bool = False
    """Whether messages and the reference omit it."""

    def read(self, section: Section, default: Any) -> Any:
        """Return the value in a section, or the default if it is absent or wrong."""
        kind = self.kind
        if isinstance(kind, Part):
            return kind.read(section, self, default)
        if self.example is None:
            return section.take(self.name, kind.parse, default)
        return section.require(self.name, kind.parse, default, self.example)

    def alternatives(self) -> Sequence[Alternative]:
        """Return the sets of keys that can represent this key in a table."""
        kind = self.kind
        return kind.alternatives(self) if isinstance(kind, Part) else [self.alternative(kind.shape)]

    def alternative(self, shape: Shape) -> Alternative:
        """Return the `Alternative` that has only this key; `shape` is the schema of its value."""
        required = frozenset() if self.example is None else frozenset({self.name})
        return Alternative({self.name: described(shape, said_in_files(self.doc))}, required)


def key(
    kind: Kind | Part,
    default: Any,
    doc: str = "",
    *,
    name: str = "",
    written: bool = False,
    hidden: bool = False,
    beside: tuple[Key, ...] = (),
) -> Any:
    """Declare a dataclass field for an optional key of a file.

    The result has the type Any, so that type checkers use the type in the field's annotation.

    Args:
        kind: Reads and writes its values.
        default: The value of the field if the key is absent.
        doc: Meaning of the key.
        name: Name of the key, if it is not the name of the field without its unit.
        written: Whether a document contains the key even if it has its default.
        hidden: Whether messages and the reference omit the key.
        beside: Further keys of the same table, for which the dataclass has no field.
    """
    declared = Key(name=name, kind=kind, default=default, doc=doc, written=written, hidden=hidden)
    return dataclasses.field(default=default, metadata={"key": declared, "beside": beside})


written_key = partial(key, written=True)
"""Declare a field as `key` does, for a key that is in a document even if it has its default."""


def needed(
    kind: Kind | Part,
    example: str | None = None,
    fallback: Any = None,
    doc: str = "",
    *,
    name: str = "",
    beside: tuple[Key, ...] = (),
) -> Mapping[str, Any]:
    """Return the metadata of a dataclass field for a key without a default.

    The message about a missing key shows the example; without an example there is no message. If the key is
    missing, reading continues with the value `fallback`. Fields of several classes may share the metadata.
    """
    declared = Key(name=name, kind=kind, default=fallback, doc=doc, example=example, written=True)
    return {"key": declared, "beside": beside}


_keys: dict[type, Mapping[str, Key]] = {}


def keys_of(cls: type) -> Mapping[str, Key]:
    """Return the keys of a dataclass by the names of their fields."""
    if cls not in _keys:
        _keys[cls] = {
            field.name: dataclasses.replace(declared, name=declared.name or without_unit(field.name))
            for field in dataclasses.fields(cls)
            if (declared := field.metadata.get("key")) is not None
        }
    return _keys[cls]


def all_keys(cls: type) -> tuple[Key, ...]:
    """Return all keys of a table: the key of each field, followed by the keys in the field's `beside`."""
    beside = {field.name: field.metadata.get("beside", ()) for field in dataclasses.fields(cls)}
    return tuple(each for field, key in keys_of(cls).items() for each in (key, *beside[field]))


def known_keys(cls: type) -> list[str]:
    """Return the names of the keys that a message may suggest."""
    return [key.name for key in all_keys(cls) if not key.hidden]


def without_unit(field: str) -> str:
    """Return the name of a field without its unit."""
    for unit in _UNITS:
        field = field.removesuffix(unit)
    return field


def read_table(
    section: Section,
    cls: type[T],
    given: Mapping[str, Any] = _NOTHING,
    defaults: Mapping[str, Any] = _NOTHING,
) -> T:
    """Return the object in a section; mistakes are reported to the section.

    Args:
        section: The table.
        cls: The dataclass of the object.
        given: Fields that the caller has already read.
        defaults: Fields whose default depends on other values.
    """
    read = read_keys(section, cls, given, defaults)
    section.finish(lambda: known_keys(cls))
    return read


def read_keys(
    section: Section,
    cls: type[T],
    given: Mapping[str, Any] = _NOTHING,
    defaults: Mapping[str, Any] = _NOTHING,
) -> T:
    """Return the object in a section that has other keys too; the arguments are those of `read_table`."""
    values = dict(given)
    for field, key in keys_of(cls).items():
        if field not in values:
            values[field] = key.read(section, defaults.get(field, key.default))
    return cls(**values)


def write_table(value: Any) -> dict[str, Any]:
    """Return an object as a table from which `read_table` returns an equal object."""
    document: dict[str, Any] = {}
    for field, key in keys_of(type(value)).items():
        held, kind = getattr(value, field), key.kind
        if not key.written and held == key.default:
            continue
        if isinstance(kind, Part):
            document.update(kind.entries(key, held))
        elif held is not None and (rendered := kind.render(held)) is not None:
            document[key.name] = rendered
    return document


def alternatives_of(cls: type) -> list[Alternative]:
    """Return the sets of keys that a table may have together."""
    found = [Alternative({})]
    for key in all_keys(cls):
        found = [one | other for one in found for other in key.alternatives()]
    return found


def table_shape(cls: type) -> Shape:
    """Return the JSON Schema of a table."""
    return any_of(*map(object_shape, alternatives_of(cls)))


def object_shape(alternative: Alternative) -> Shape:
    """Return the JSON Schema of a table with these keys and no others."""
    shape = {"type": "object", "properties": alternative.properties, "additionalProperties": False}
    return shape | ({"required": sorted(alternative.required)} if alternative.required else {})


def described(shape: Shape, text: str | None) -> Shape:
    """Return a JSON Schema with a description."""
    if text is None:
        return shape
    # Readers of schemas ignore all other keywords beside "$ref".
    return {"description": text} | ({"allOf": [shape]} if "$ref" in shape else shape)


def said_in_files(doc: str) -> str | None:
    """Return the description of a field for files; None for a text that refers to code."""
    return None if not doc or "`" in doc else doc.replace("None:", "absent:")


@dataclass(frozen=True, slots=True)
class TableOf(Part):
    """A table within a table."""

    cls: type

    def read(self, section: Section, key: Key, default: Any) -> Any:
        """Return the object in the table, or the default if it is absent."""
        return read_table(section.section(key.name), self.cls) if key.name in section else default

    def render(self, value: Any) -> object:
        """Return the table."""
        return write_table(value)

    @property
    def shape(self) -> Shape:
        """JSON Schema of the table."""
        return table_shape(self.cls)


def place(values: Mapping[str, Any], index: int) -> object:
    """Return the label of a table without a name: its index in the list."""
    return index


@dataclass(frozen=True, slots=True)
class TablesOf(Part):
    """A list of tables."""

    is_tuple = True
    cls: type
    label: Callable[[Mapping[str, Any], int], object] = place

    def read(self, section: Section, key: Key, default: Any) -> Any:
        """Return the objects in the tables."""
        return tuple(read_table(each, self.cls) for each in section.sections(key.name, self.label))

    def render(self, value: Any) -> object:
        """Return the tables."""
        return [write_table(each) for each in value]

    @property
    def shape(self) -> Shape:
        """JSON Schema of the list."""
        return {"type": "array", "items": table_shape(self.cls)}


class HoldsTuples:
    """Base of dataclasses with tuple fields, declared by the kinds of their keys.

    It refuses a single value in place of a tuple, as in ``service=0.005``.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            ScenarioError: if a field has a single value in place of a tuple. The error has a line with a
                correct tuple for each such field.
        """
        cls, problems = type(self), []
        for field, key in keys_of(cls).items():
            held, example = getattr(self, field), key.kind.pairs
            if held is None or not key.kind.is_tuple:
                continue
            if isinstance(held, str | bytes) or not isinstance(held, Iterable):
                shown = repr(held) if isinstance(held, str | int | float) else f"{type(held).__name__}(...)"
                right = f"a tuple, such as {example or f'({shown},)'}"
                problems.append(f"{cls.__name__}: {field} is {shown}; it must be {right}")
            elif example and not all(isinstance(each, tuple | list) and len(each) == 2 for each in held):
                problems.append(f"{cls.__name__}: {field} is {held!r}; it must be pairs, such as {example}")
        if problems:
            raise ScenarioError(problems)


def did_you_mean(wrong: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: a suggestion, or all known names."""
    choices = list(known)
    close = get_close_matches(str(wrong), choices, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(choices)}"


def documented(cls: type) -> Iterator[tuple[str, str]]:
    """Yield the documented fields of a dataclass, with their texts."""
    for field in dataclasses.fields(cls):
        declared = field.metadata.get("key") or field.metadata.get("option")
        if declared is not None and declared.doc:
            yield field.name, declared.doc
