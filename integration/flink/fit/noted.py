"""Remarks on an import, as data: a value with what was found or assumed for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

MOST_NAMED = 4
"""Maximum number of subtasks, machines or paths that one sentence, or sentences of one kind, name."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that was found, or assumed because it is not reported. `words.py` has its sentence."""

    kind: str
    where: str = ""
    """The vertex, exchange, option or machine; empty: the whole job."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The values in the sentence, by their names there."""


Remarks = tuple[Remark, ...]


def some(names: Iterable[object]) -> str:
    """Return the first few names, and the number of the others."""
    listed = list(map(str, names))
    shown, more = ", ".join(listed[:MOST_NAMED]), len(listed) - MOST_NAMED
    return shown if more <= 0 else f"{shown} and {more:,} more"


class Noted(NamedTuple, Generic[T]):
    """A value with the remarks on it, in the order in which they are printed."""

    value: T
    remarks: Remarks = ()
