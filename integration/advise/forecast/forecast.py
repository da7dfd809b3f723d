"""Forecast of a job: its figures over the load, with its present and with its recommended setting.

The recommended setting is that of a short tuning at the job's limit. For both settings the emulator then runs
the job at loads from half of today's to three times today's. Beyond its limit a job takes no more, so one run
with more load than it can take stands for all loads above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from flowcontrol import readable
from netstack import FROM_SOURCE, Scenario, Viewed, from_json

from ...base.errors import UsageError
from ...base.optional_figures import known
from ...runs.job_load import has_unlimited_source
from ..diagnose.headroom import (
    Headroom,
    LoadRun,
    brief_point,
    busy_shares,
    capacity_of,
    emitted_rates,
    find_headroom,
    load_point,
    load_run,
    varies,
)
from ..diagnose.words import headroom_text
from ..sweeps.point_rows import PointRow
from ..sweeps.points import Point, point_of
from ..sweeps.restart_drill import RestartDrill, drill_of, drill_scenario
from ..sweeps.waves import RunPoints, Wave, Waves, run_side_by_side
from ..tune.advice import advise, at_any_phase
from ..tune.recommend import Recommendation
from ..tune.settings import NOW, SETTING, USUAL, Question
from .load_figures import Curve, LoadFigures
from .scaling import Scaling, scaled, scaling_of

SCHEMA = "netstack.forecast/1"

LOADS = (0.5, 1.0, 1.5, 2.0, 3.0)
"""Loads of the curve, as multiples of today's; two loads at the job's limit are added."""

TARGETS_S = (0.3, 1.0)
"""Debloat targets of the short tuning, in seconds."""

_NEAR, _NEAREST = 0.9, 0.985
"""Load next below the limit in the curve, relative to the limit; a higher one that has run replaces it, up to
the second share.
"""

_CLEARLY = 1.02
"""Loads above the limit are in the curve from this multiple of it on."""

CPU_BOUND = "if CPU-bound"
"""Label of the runs of a job with CPU-bound work, where this is unknown."""

_WHY = "the curve over the load"

ONE_MORE = "one more subtask"
"""Name of the setting with one more subtask of the limiting vertex."""


class Forecast(msgspec.Struct, Viewed, frozen=True, kw_only=True):
    """The load that a job can take, and its figures at its limit and after an outage.

    `to_pandas` and `to_arrow` return the tables "loads" and "restarts". `plot` draws "load-checkpoints",
    "load-throughput" and "load-delay".
    """

    schema: str = SCHEMA
    scenario: str
    """Name of the job."""
    recommendation: Recommendation
    """The recommended setting; it may be the present one."""
    curves: list[Curve]
    """The present setting, then the recommended one, if it is another."""
    restarts: list[RestartDrill] = []
    """Restart drills with the same settings; empty if none was asked for."""
    scaling: Scaling | None = None
    """Effect of one more subtask of the limiting vertex; None: the job has no limit, or a run failed."""
    if_cpu_bound: Headroom | None = None
    """Headroom with the present setting if the work is CPU-bound; None: it is known whether it is."""
    failures: list[str] = []
    """A line for each run that failed."""

    def __repr__(self) -> str:
        """Return the headroom in one line."""
        return f"<Forecast of {readable(self.scenario)}: {headroom_text(self.now.headroom)}>"

    @property
    def now(self) -> Curve:
        """The job with its present setting."""
        return self.curves[0]

    @property
    def advised(self) -> Curve:
        """The job with its recommended setting."""
        return self.curves[-1]


class Forecasted(NamedTuple):
    """A forecast, and the rows of its restart drills, whose results have series."""

    forecast: Forecast
    drills: list[PointRow]


def forecast(
    scenario: Scenario,
    run: RunPoints,
    question: Question = USUAL,
    *,
    loads: Sequence[float] = LOADS,
    down_s: float | None = None,
    if_cpu_bound: Scenario | None = None,
) -> Forecasted:
    """Run a job at several loads, and return how much it can take.

    Args:
        scenario: The job at today's load.
        run: Runs points.
        question: The settings to compare, and their limits; by default fewer targets than `advise` tries.
        loads: Loads of the curve, as multiples of today's.
        down_s: Length of an outage, in seconds, after which the job catches up; None: no restart drill.
        if_cpu_bound: The job if its work is CPU-bound, where this is unknown. The forecast then has its limit
            too.

    Raises:
        UsageError: the load of the job changes with time, the job did not run at today's load, or a restart
            drill is asked for that the job cannot have.
    """
    if varies(scenario):
        raise UsageError(
            [
                f"{scenario.name}: its load changes with time, so it has no single headroom; remove its "
                "phases, changes and faults"
            ]
        )
    scenario = at_any_phase(scenario)
    if question.targets_s is None:
        question = question._replace(targets_s=TARGETS_S)
    run = _remembering(run)
    advice = advise(scenario, run, question, is_brief=True)
    (recommendation,), (chosen,) = advice.recommendations, advice.chosen
    if recommendation.headroom is None:
        raise UsageError([f"{scenario.name}: the job did not run at today's load", *recommendation.failures])
    headroom = recommendation.headroom
    drill = None if down_s is None else drill_scenario(scenario, down_s, headroom.limit)
    settings = {NOW: scenario} | {chosen.name: chosen.apply(scenario)}
    point = brief_point if headroom.is_below(1.0) else load_point
    (row,) = run([point(scenario, 1.0, {})], _WHY)
    today = load_run(row, 1.0)
    if today is None:
        raise UsageError([f"{scenario.name}: the job did not run at today's load", _failure(row)])
    searches = [_curve(varied, name, loads, headroom, today) for name, varied in settings.items()]
    vertex = headroom.bottleneck.vertex
    grown = None
    if headroom.is_bounded and scenario.vertex(vertex).parallelism != FROM_SOURCE:
        grown = scaled(settings[chosen.name], vertex)
        searches.append(_curve(grown, ONE_MORE, (), headroom, today))
    if if_cpu_bound is not None and not has_unlimited_source(if_cpu_bound):
        searches.append(_limit_of(if_cpu_bound))
    failures: list[str] = []

    def run_and_tell(points: Sequence[Point], why: str) -> list[PointRow]:
        rows = run(points, why)
        failures.extend(_failure(row) for row in rows if row.result is None)
        return rows

    curves = {curve.setting: curve for curve in known(run_side_by_side(searches, run_and_tell))}
    if NOW not in curves:
        raise UsageError([f"{scenario.name}: the job did not run with its present setting", *failures])
    down = [
        point_of(replace(drill, config=varied.config), {SETTING: name}, probe="restart")
        for name, varied in settings.items()
        if drill is not None
    ]
    rows = run_and_tell(down, "the restart drill") if down else []
    scaling = None
    if grown is not None and ONE_MORE in curves and chosen.name in curves:
        ends = curves[chosen.name], curves[ONE_MORE]
        scaling = scaling_of(vertex, settings[chosen.name], grown, *ends)
    found = Forecast(
        scenario=scenario.name,
        recommendation=recommendation,
        curves=[curves[name] for name in settings if name in curves],
        restarts=[drill_of(row.labels[SETTING], from_json(row.result)) for row in rows if row.result],
        scaling=scaling,
        if_cpu_bound=curves[CPU_BOUND].headroom if CPU_BOUND in curves else None,
        failures=failures,
    )
    return Forecasted(found, rows)


def _remembering(run: RunPoints) -> RunPoints:
    """Return a function that runs each point only once, although several parts of a forecast need it."""
    rows: dict[str, PointRow] = {}

    def once(points: Sequence[Point], why: str) -> list[PointRow]:
        missing = {point.key: point for point in points if point.key not in rows}
        if missing:
            rows.update({row.key: row for row in run(list(missing.values()), why)})
        return [msgspec.structs.replace(rows[point.key], labels=point.labels) for point in points]

    return once


def _curve(
    scenario: Scenario, name: str, loads: Sequence[float], headroom: Headroom, now: LoadRun
) -> Waves[Curve | None]:
    """Return the curve of a job with one setting; None: it did not run at today's load or at its limit.

    `headroom` is that of the job with its present setting, and `now` its run at today's load. With another
    setting, a run with more than the job can take shows the limit. A job whose sources emit as fast as
    possible is at its limit at today's load and above.
    """
    labels, emitted = {SETTING: name}, emitted_rates(now.result)
    is_unlimited = has_unlimited_source(scenario)
    point = brief_point if headroom.is_below(1.0) else load_point
    beyond = headroom.beyond if headroom.is_bounded else headroom.limit
    if name == ONE_MORE:
        beyond *= 2
    row_today, row_beyond = yield Wave(
        _WHY, [point(scenario, 1.0, {}, labels), load_point(scenario, beyond, {}, labels)]
    )
    today, at_limit = load_run(row_today, 1.0), load_run(row_beyond, beyond)
    if today is None or at_limit is None:
        return None
    own = headroom if name == NOW else capacity_of(at_limit, now)
    near = float(f"{_NEAR * own.limit:.3g}")
    if near < own.at_least <= _NEAREST * own.limit:
        near = own.at_least
    wanted = {load for load in loads if load < _NEAR * near} | ({near} if near > 1 and loads else set())
    wanted = {load for load in wanted if load < 1 or not is_unlimited} - {1.0}
    runs = {} if is_unlimited else {1.0: (today, row_today)}
    listed = sorted(wanted)
    points = [
        (brief_point if own.is_below(load) else load_point)(scenario, load, emitted, labels)
        for load in listed
    ]
    rows = (yield Wave(_WHY, points)) if points else ()
    for load, row in zip(listed, rows, strict=True):
        if (found := load_run(row, load)) is not None:
            runs[load] = (found, row)
    if own.is_bounded:  # the run beyond the limit stands for all loads that the job cannot take
        above = {own.limit, *(load for load in loads if load > _CLEARLY * own.limit)}
        runs |= {load: (at_limit, row_beyond) for load in above if load != 1.0 or not own.has_room}
    else:
        runs[beyond] = (at_limit, row_beyond)
    return Curve(setting=name, headroom=own, points=[figures_of(load, *runs[load]) for load in sorted(runs)])


def _limit_of(scenario: Scenario) -> Waves[Curve | None]:
    """Return the headroom of a job whose work is CPU-bound, as a curve without points."""
    labels = {SETTING: CPU_BOUND}
    (row,) = yield Wave(_WHY, [load_point(scenario, 1.0, {}, labels)])
    today = load_run(row, 1.0)
    headroom = None if today is None else (yield from find_headroom(scenario, today, labels))
    return None if headroom is None else Curve(setting=CPU_BOUND, headroom=headroom, points=[])


def figures_of(load: float, run: LoadRun, row: PointRow) -> LoadFigures:
    """Return the figures of a run, at the load for which it stands."""
    measures = row.measures
    assert measures is not None
    return LoadFigures(
        load=float(f"{load:.4g}"),
        keeps_up=run.keeps_up,
        throughput_per_s=measures.throughput_per_s,
        checkpoint_ms=measures.end_to_end_ms,
        checkpoint_p95_ms=measures.end_to_end_p95_ms,
        checkpoint_max_ms=measures.end_to_end_max_ms,
        record_delay_ms=measures.record_delay_ms,
        in_flight_bytes=measures.in_flight_bytes,
        persisted_bytes=measures.persisted_bytes,
        checkpoints_expired=measures.checkpoints_expired,
        busiest=run.bottleneck,
        busy=busy_shares(run.window),
    )


def _failure(row: PointRow) -> str:
    where = ", ".join(text if name == SETTING else f"{name} {text}" for name, text in row.labels.items())
    return f"{where}: {row.error or 'no measures'}"
