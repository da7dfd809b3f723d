"""Two points of a sweep run once more, for their series: the present setting and the recommended one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from netstack import JobFailedError, Result, Scenario, from_json, read_scenario

from ..emulating import emulate
from ..runs.sources import open_sources
from .recommend import Recommendation, conditions_of
from .rows import PointRow
from .summaries import OFF, setting_of


def runs_to_show(found: Recommendation, scenario: Scenario, rows: Sequence[PointRow]) -> dict[str, Result]:
    """Return the runs of two settings by their names, with the first seed and with series.

    They are the present setting and the recommended one. Where nothing fits, the setting that misses the
    constraints by least takes its place; and where the two are one, no debloating is beside it.
    """
    wanted = list(dict.fromkeys(_settings(found)))
    shown = {name: _scenario_at(target, found, scenario, rows) for name, target in wanted}
    return {name: _run(point) for name, point in shown.items() if point is not None}


def _settings(found: Recommendation) -> Iterator[tuple[str, str]]:
    proposed = OFF if found.verdict == "turn off" else found.chosen or found.nearest or found.current
    if found.current != proposed:
        yield f"now ({_name(found.current)})", found.current
    elif proposed != OFF:
        yield _name(OFF), OFF
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
            and (setting_of(row), conditions_of(row)) == (target, found.conditions)
        ):
            return read_scenario(from_json(row.result).scenario)
    if target != found.current:
        return None
    return dataclasses.replace(scenario, seed=found.seeds[0]) if found.seeds else scenario


def _run(scenario: Scenario) -> Result:
    try:
        with open_sources(scenario) as ready:
            return emulate(ready)
    except JobFailedError as error:
        return error.result
