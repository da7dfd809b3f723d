"""Remarks on an import, as data: a value with what was found or assumed for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that was found, or assumed because it is not reported. `words.py` has its sentence."""

    kind: str
    where: str = ""
    """The vertex, exchange, option or machine; empty: the whole job."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The values in the sentence, by their names there."""


Remarks = tuple[Remark, ...]


class Noted(NamedTuple, Generic[T]):
    """A value with the remarks on it, in the order in which they are printed."""

    value: T
    remarks: Remarks = ()
