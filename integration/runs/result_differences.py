"""Differences in settings and figures between two results, of the same job or of two jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from netstack import Result, to_json

from ..base.optional_figures import quotient
from .quantities import COUNT, JOB, WINDOWS, in_view
from .window_figures import figures_of


class SettingDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A key of the scenario whose value differs between two results."""

    key: str
    """Dotted path of the key, such as "vertices.map.parallelism"."""
    first: str | None
    """The value as JSON; None: the first result lacks the setting."""
    second: str | None


class FigureDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A figure, such as the start delay, in two results; None: unknown."""

    quantity: str
    meaning: str
    first: float | None
    second: float | None
    difference: float | None
    """The second value minus the first."""
    ratio: float | None
    """The second value divided by the first."""


class ResultDifferences(msgspec.Struct, frozen=True, kw_only=True):
    """Two results side by side."""

    schema: str = "netstack.differences/1"
    first: str
    """The name of the first result."""
    second: str
    settings: list[SettingDifference]
    figures: list[FigureDifference]
    """Figures of the last window of each result."""


def differences(first: tuple[str, Result], second: tuple[str, Result]) -> ResultDifferences:
    """Return the differences between two results. Each result is given with its name."""
    return ResultDifferences(
        first=first[0],
        second=second[0],
        settings=list(_settings(document_of(first[1]), document_of(second[1]))),
        figures=list(_figures(first[1], second[1])),
    )


def document_of(result: Result) -> dict[str, Any]:
    """Return the scenario of a result as nested mappings, as in the JSON file."""
    document: dict[str, Any] = json.loads(to_json(msgspec.structs.replace(result, series=[], checkpoints=[])))
    scenario: dict[str, Any] = document["scenario"]
    return scenario


def _settings(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[SettingDifference]:
    left, right = dict(_leaves(first, "")), dict(_leaves(second, ""))
    for key in dict.fromkeys([*left, *right]):
        if left.get(key) != right.get(key):
            yield SettingDifference(key=key, first=left.get(key), second=right.get(key))


def _leaves(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield each value of a document after its dotted key. Keys contain the names of list entries."""
    inner = value if isinstance(value, Mapping) else _by_name(value)
    if not inner:
        yield key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return
    for name, part in inner.items():
        yield from _leaves(part, f"{key}.{name}" if key else str(name))


def _by_name(value: object) -> dict[str, object]:
    """Return a list of vertices or edges as a mapping by name; an empty mapping for any other value."""
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        return {}
    named: dict[str, object] = {}
    for number, entry in enumerate(value):
        ends = f"{entry['from']} → {entry['to']}" if "from" in entry and "to" in entry else str(number)
        name = str(entry.get("name", ends))
        rest = {key: value for key, value in entry.items() if key not in ("name", "from", "to")}
        named[f"{name} ({number})" if name in named else name] = rest
    return named


def _figures(first: Result, second: Result) -> Iterator[FigureDifference]:
    left, right = figures_of(first), figures_of(second)
    for quantity in in_view(JOB, WINDOWS):
        one, other = quantity.of(left), quantity.of(right)
        if quantity.unit is COUNT or (quantity.optional and not one and not other):
            continue
        yield FigureDifference(
            quantity=quantity.head(WINDOWS),
            meaning=quantity.meaning,
            first=one,
            second=other,
            difference=None if one is None or other is None else other - one,
            ratio=quotient(other, one),
        )
