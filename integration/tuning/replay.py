"""Two points of a sweep run once more, for their series: the present setting and the recommended one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from netstack import JobFailedError, Result, Scenario, from_json

from ..emulating import emulate
from ..scenarios.scenario_reader import read_scenario
from ..scenarios.sources import open_sources
from .axes import TARGET
from .recommend import Recommendation
from .rows import PointRow
from .summaries import OFF


def runs_to_show(found: Recommendation, scenario: Scenario, rows: Sequence[PointRow]) -> dict[str, Result]:
    """Return the runs of two settings by their names, with the first seed and with series.

    They are the present setting and the recommended one. Where nothing is recommended, the target that misses
    the constraints by least takes its place; and where the two are one, no debloating is beside it.
    """
    wanted = list(dict.fromkeys(_settings(found)))
    shown = {name: _scenario_at(target, found, scenario, rows) for name, target in wanted}
    return {name: _run(point) for name, point in shown.items() if point is not None}


def _settings(found: Recommendation) -> Iterator[tuple[str, str]]:
    proposed = OFF if found.verdict == "leave off" else found.chosen or found.nearest
    if found.current != proposed:
        yield f"now ({_name(found.current)})", found.current
    elif proposed != OFF:
        yield _name(OFF), OFF
    if proposed is not None:
        yield _name(proposed), proposed


def _name(target: str) -> str:
    return "debloating off" if target == OFF else f"target {target}"


def _scenario_at(
    target: str, found: Recommendation, scenario: Scenario, rows: Sequence[PointRow]
) -> Scenario | None:
    """The scenario of the point of a target; the one that was given stands for the present setting."""
    for row in rows:
        if (
            row.result is not None
            and row.probe in ("main", "baseline")
            and _setting(row)
            == (
                target,
                found.conditions,
            )
        ):
            return read_scenario(from_json(row.result).scenario)
    if target != found.current:
        return None
    return dataclasses.replace(scenario, seed=found.seeds[0]) if found.seeds else scenario


def _setting(row: PointRow) -> tuple[str, dict[str, str]]:
    """The target of a point, and the values of its other axes."""
    conditions = {name: text for name, text in row.labels.items() if name != TARGET}
    return OFF if row.probe == "baseline" else row.labels.get(TARGET, OFF), conditions


def _run(scenario: Scenario) -> Result:
    try:
        with open_sources(scenario) as ready:
            return emulate(ready)
    except JobFailedError as error:
        return error.result
