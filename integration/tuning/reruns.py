"""Emulations after a recommendation: estimated remedies, and two settings whose series are missing.

A remedy that names options is emulated before it is given as advice, if that takes seconds; one that names
none (more parallelism, another state backend) stays an estimate.

The two settings are the present one and the recommended one, whose runs a report shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import msgspec

from netstack import OPTIONS, JobFailedError, Result, Scenario, from_json, parse_flink_duration, with_options

from ..diagnosis.trial import may_be_tried, try_out
from ..emulating import emulate
from ..number_text import milliseconds
from ..optional_figures import quotient
from ..seed_runs import open_sources
from .measures import Measures, measure
from .point_rows import PointRow
from .recommend import Recommendation, conditions_of, scenario_of, scenario_run
from .remedies import Remedy
from .summaries import OFF, setting_of

_FIELDS = {option.name: field for field, option in OPTIONS.items()}


def with_trials(
    recommendation: Recommendation, rows: Sequence[PointRow], scenario: Scenario
) -> Recommendation:
    """Return a recommendation whose estimated remedies have been emulated, unless a run would take long.

    `rows` are all rows of the sweep of `scenario`. Figures are of the first seed. A remedy
    that names no target is emulated with the present one, or without debloating if that is the advice.
    """
    runs = [row for row in rows if row.status == "finished" and row.probe in ("main", "baseline")]
    runs = [row for row in runs if conditions_of(row) == recommendation.conditions]
    now, varied = scenario.config, scenario_of(runs, scenario)
    enabled = now.debloat_enabled and recommendation.verdict != "turn off"
    debloating = {"debloat_enabled": enabled, "debloat_target_s": now.debloat_target_s}
    varied = dataclasses.replace(varied, config=with_options(varied.config, debloating))
    if not runs or not may_be_tried(varied, max(row.wall_seconds for row in runs)):
        return recommendation
    seed = min(row.seed for row in runs)
    remedies = [
        each if each.measured else _tried(recommendation, varied, each, seed)
        for each in recommendation.remedies
    ]
    return msgspec.structs.replace(recommendation, remedies=remedies)


def changes_of(remedy: Remedy) -> dict[str, object]:
    """Return the options that a remedy sets, by fields of `NetworkConfig`; empty if it names none."""
    lines = (text.split(": ", 1) for text in remedy.configuration)
    changes = {_FIELDS[name]: OPTIONS[_FIELDS[name]].kind.parse(value) for name, value in lines}
    if not changes:
        return {}
    if remedy.target is not None:
        changes["debloat_target_s"] = parse_flink_duration(remedy.target)
    if "debloat_target_s" in changes:
        changes["debloat_enabled"] = True
    return changes


def _tried(recommendation: Recommendation, scenario: Scenario, remedy: Remedy, seed: int) -> Remedy:
    changes = changes_of(remedy)
    trial = try_out(scenario, changes, seed) if changes else None
    if trial is None:
        return remedy
    figures = ", ".join(_constrained_figures(recommendation, measure(trial.result)))
    if not figures:
        return remedy
    why = f"{remedy.why}; emulated with seed {seed}, {figures}"
    return msgspec.structs.replace(remedy, why=why, emulated_s=round(trial.took_s, 1))


def _constrained_figures(recommendation: Recommendation, measures: Measures) -> Iterator[str]:
    """Yield the figures that constraints limit, as text."""
    if measures.end_to_end_p95_ms is not None:
        yield f"95 % of checkpoints take at most {milliseconds(measures.end_to_end_p95_ms)}"
    if measures.record_delay_p95_ms is not None:
        yield f"95 % of records take at most {milliseconds(measures.record_delay_p95_ms)}"
    before = None if recommendation.baseline is None else recommendation.baseline.throughput_per_s
    share = None if before is None else quotient(measures.throughput_per_s, before.mean)
    if share is not None:
        yield f"throughput is {share:.3f} of that without debloating"


def runs_to_show(
    recommendation: Recommendation, scenario: Scenario, rows: Sequence[PointRow]
) -> dict[str, Result]:
    """Return the runs of two settings by their names, with the first seed and with series.

    They are the present setting and the recommended one. Where nothing fits, the setting that misses the
    constraints by least takes its place; and where both are the same, the other one is without debloating. A
    run of the sweep that kept its series is used as it is.
    """
    shown = {
        name: _run_at(target, recommendation, scenario, rows)
        for name, target in dict.fromkeys(settings_to_show(recommendation))
    }
    return {name: result for name, result in shown.items() if result is not None}


def settings_to_show(recommendation: Recommendation) -> Iterator[tuple[str, str]]:
    """Yield name and target of each setting that `runs_to_show` runs; the one to compare with comes first."""
    proposed = (
        OFF
        if recommendation.verdict == "turn off"
        else recommendation.chosen or recommendation.nearest or recommendation.current
    )
    if recommendation.current != proposed:
        yield f"now ({_name(recommendation.current)})", recommendation.current
    elif proposed != OFF:
        yield _name(OFF), OFF
    yield _name(proposed), proposed


def _name(target: str) -> str:
    return "debloating off" if target == OFF else f"target {target}"


def _run_at(
    target: str, recommendation: Recommendation, scenario: Scenario, rows: Sequence[PointRow]
) -> Result | None:
    """Return the run of a target's point; for the present setting, the run of the given scenario."""
    for row in rows:
        if (
            row.result is not None
            and row.probe in ("main", "baseline")
            and (setting_of(row), conditions_of(row)) == (target, recommendation.conditions)
        ):
            kept = from_json(row.result)
            return kept if kept.series else _run(scenario_run(row.result, row.labels, scenario))
    if target != recommendation.current:
        return None
    seeds = recommendation.seeds
    return _run(dataclasses.replace(scenario, seed=seeds[0]) if seeds else scenario)


def _run(scenario: Scenario) -> Result:
    try:
        with open_sources(scenario) as ready:
            return emulate(ready)
    except JobFailedError as error:
        return error.result
