"""The documented ways in which debloating fails, recognised in the points of a sweep.

The rules, in `diagnose.debloating_rules`, examine each emulation and give figures as evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from netstack import Result, from_json

from ...base.optional_figures import known
from ...base.shipped_files import example
from ..diagnose.debloating_rules import PITFALLS
from ..diagnose.findings import Finding
from ..diagnose.observation import Observation, observations
from ..sweeps.point_rows import PointRow
from .settings import SETTING


class Pitfall(msgspec.Struct, frozen=True, kw_only=True):
    """A documented failure of debloating at one vertex: findings of a rule, with the worst as evidence."""

    name: str
    vertex: str
    """Vertex or exchange that shows the pitfall."""
    what: str
    evidence: str
    """A sentence with figures, from the point with the worst effect."""
    settings: list[str]
    """Labels of all settings of the sweep that show the pitfall."""
    point: str
    """Setting of the point with the worst effect."""
    seed: int
    remedy: str
    shown_by: str
    """Path of an example scenario that shows the pitfall."""


class ObservedPoint(NamedTuple):
    """A point of a sweep as input of the rules: the last window of its run."""

    label: str
    seed: int
    view: Observation


def find_pitfalls(rows: Sequence[PointRow]) -> list[Pitfall]:
    """Return the pitfalls that the points of a sweep show, each once per vertex.

    Only points with debloating are examined. Failed points, points of the probe "step" and points without a
    result are skipped.
    """
    varying = _varying_axes(rows)
    return pitfalls_of(known(_point_of(row, varying) for row in rows if row.probe == "main"))


def pitfalls_of(points: Iterable[ObservedPoint]) -> list[Pitfall]:
    """Return the pitfalls that points show, in the order of the rules. Each is listed once per vertex."""
    seen = list(points)
    shown: dict[tuple[str, str], list[tuple[Finding, ObservedPoint]]] = {}
    for rule in PITFALLS:
        for point in seen:
            for finding in rule(point.view):
                shown.setdefault((finding.rule, finding.where), []).append((finding, point))
    return [_pitfall(each) for each in shown.values()]


def observed_point(result: Result, label: str = "") -> ObservedPoint:
    """Return a result as input of the rules."""
    return ObservedPoint(label, result.seed, observations(result)[-1])


def _varying_axes(rows: Iterable[PointRow]) -> list[str]:
    """Return the setting and the axes with several values, which distinguish the points of a sweep."""
    values: dict[str, set[str]] = {SETTING: set()}
    for row in rows:
        for name, value in row.labels.items():
            values.setdefault(name, set()).add(value)
    return [name for name, texts in values.items() if name == SETTING or len(texts) > 1]


def _label_of(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """Return some labels of a point in one text, such as "target 50 ms, samples 5"."""
    return ", ".join(
        labels[name] if name == SETTING else f"{name.rpartition('.')[2]} {labels[name]}"
        for name in names
        if name in labels
    )


def _point_of(row: PointRow, names: Sequence[str]) -> ObservedPoint | None:
    """Return the run of a point; None if it failed, measured no window, or had debloating off."""
    if row.result is None or row.status != "finished":
        return None
    result = from_json(row.result)
    if not result.steady or not result.scenario.config.debloat_enabled:
        return None
    return observed_point(result, _label_of(row.labels, names))


def _pitfall(shown: Sequence[tuple[Finding, ObservedPoint]]) -> Pitfall:
    worst, point = max(shown, key=lambda pair: pair[0].weight or 0.0)
    return Pitfall(
        name=worst.rule,
        vertex=worst.where,
        what=worst.says,
        evidence="; ".join(worst.evidence),
        settings=list(dict.fromkeys(each.label for _, each in shown)),
        point=point.label,
        seed=point.seed,
        remedy=" ".join(worst.next),
        shown_by=example(f"pitfalls/{worst.rule.replace('-', '_')}.toml"),
    )
