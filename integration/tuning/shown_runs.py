"""The two runs that a report of a tuning draws over time: the present setting and the recommended one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from netstack import JobFailedError, Result, Scenario, from_json

from ..emulating import emulate
from ..seed_runs import open_sources
from .point_rows import PointRow
from .recommend import Recommendation, time_of
from .settings import NOW, SETTING


def settings_to_show(recommendation: Recommendation) -> dict[str, str]:
    """Return the names of two settings by what they are called in a chart; the present one comes first.

    Where nothing changes, the other one is that with the fastest checkpoints.
    """
    shown = {f"now ({recommendation.present})": NOW}
    others = [each for each in recommendation.settings if each.name != NOW]
    if recommendation.chosen != NOW:
        shown[recommendation.chosen] = recommendation.chosen
    elif others:
        fastest = min(others, key=time_of)
        shown[fastest.name] = fastest.name
    return shown


def runs_to_show(
    recommendation: Recommendation, rows: Sequence[PointRow], scenario: Scenario
) -> dict[str, Result]:
    """Return the runs of `settings_to_show` with their series, of the first seed; each is made again.

    `scenario` is the tuned one.
    """
    made: dict[str, Result] = {}
    for shown, name in settings_to_show(recommendation).items():
        labels = {**recommendation.conditions, SETTING: name}
        row = next((row for row in rows if row.labels == labels and row.probe == "main" and row.result), None)
        if row is not None and row.result is not None:
            policy = recommendation.at(name).policy or scenario.config.debloat_policy
            made[shown] = _made_again(row.result, policy)
    return made


def _made_again(result: str, policy: str) -> Result:
    """Run the scenario of a result with a policy, which may be code, and which no stored file must choose."""
    scenario = from_json(result).scenario
    scenario = dataclasses.replace(
        scenario, config=dataclasses.replace(scenario.config, debloat_policy=policy)
    )
    try:
        with open_sources(scenario) as ready:
            return emulate(ready)
    except JobFailedError as error:
        return error.result
