"""Runs for the time charts of a tuning report: one of the present and one of the recommended setting."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from netstack import JobFailedError, Result, Scenario, from_json

from ...runs.emulating import emulate
from ...runs.seeds import open_sources
from ..sweeps.point_rows import PointRow
from .recommend import Recommendation
from .settings import NOW, SETTING


def settings_to_show(recommendation: Recommendation) -> dict[str, str]:
    """Return the names of two settings, by their titles in a chart. The present one comes first.

    If the present setting is recommended, the second one is the setting with the fastest checkpoints.
    """
    shown = {f"now ({recommendation.present})": NOW}
    others = [each for each in recommendation.settings if each.name != NOW]
    if recommendation.chosen != NOW:
        shown[recommendation.chosen] = recommendation.chosen
    elif others:
        fastest = min(others, key=lambda each: each.time_ms)
        shown[fastest.name] = fastest.name
    return shown


def runs_to_show(
    recommendation: Recommendation, rows: Sequence[PointRow], scenario: Scenario
) -> dict[str, Result]:
    """Return the runs of `settings_to_show` with their series, for the first seed.

    Each run is repeated, because stored results have no series. `scenario` is the tuned one.
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
    """Run the scenario of a result again with `policy`.

    The caller gives the policy, because a policy may be code, and a stored file must not choose code to run.
    """
    scenario = from_json(result).scenario
    scenario = dataclasses.replace(
        scenario, config=dataclasses.replace(scenario.config, debloat_policy=policy)
    )
    try:
        with open_sources(scenario) as ready:
            return emulate(ready)
    except JobFailedError as error:
        return error.result
