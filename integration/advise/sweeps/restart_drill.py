"""The restart drill: a job is down while its input arrives, restarts, and reads the backlog.

While the job is down, the logs that its sources read grow at today's rate. Then the job reads as fast as it
can, which fills all its queues, so that checkpoints take as long as at the limit. It has caught up once at
most the records of a second are pending. With a limit at 1.5 times today's load, that takes twice as long as
the outage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from statistics import fmean

import msgspec
import numpy as np

from flowcontrol import FailureReason
from netstack import AtTime, CheckpointResult, Outage, Recorder, Result, Scenario

from ...base.errors import UsageError
from ...base.optional_figures import known
from ...runs.job_load import burst_s, has_unlimited_source, rates_of

MOST_CATCH_UP_S = 1800.0
"""Maximum time, in seconds, for which reading the backlog is emulated. The rest is calculated."""

_BEFORE_S = 20.0
"""Minimum time, in seconds, before the outage."""
_AFTER_S = 20.0
"""Minimum time, in seconds, of the run after the job has caught up."""
_LONGER = 1.5
"""The run is planned to last this multiple of the expected time to catch up."""
_PENDING_S = 1.0
"""The job has caught up once at most the records of this many seconds are pending, beside a burst."""


class RestartDrill(msgspec.Struct, frozen=True, kw_only=True):
    """Events while a job catches up after an outage; times in seconds, None: unknown."""

    setting: str
    """Name of the setting of the job."""
    down_s: float
    caught_up_s: float | None
    """Time from the end of the outage until the job has caught up; None: not within the run."""
    emulated_s: float
    """The part of it that was emulated. If it is less, the rest follows from the rate of the last minute."""
    most_pending: float | None
    """Largest number of records that had arrived and were not read."""
    checkpoints_completed: int
    """Checkpoints that completed while the job caught up."""
    checkpoints_expired: int
    checkpoints_failed: int
    """All checkpoints that failed meanwhile, with those that expired."""
    checkpoint_ms: float | None
    """Mean duration of the checkpoints that completed meanwhile."""
    checkpoint_max_ms: float | None
    before_ms: float | None
    """Mean duration of the checkpoints before the outage."""
    restarts: int
    """Number of restarts during the catch-up, which failed checkpoints cause."""
    failure: str | None = None
    """Reason why the job failed for good; None: it did not."""


def drill_scenario(scenario: Scenario, down_s: float, limit: float) -> Scenario:
    """Return a scenario in which the job is down for `down_s` seconds and then catches up.

    `limit` is the highest load that the job can take, as a multiple of today's.

    Raises:
        UsageError: the sources have no rate, so that nothing arrives meanwhile; or the job takes no
            checkpoints, from which it could restart.
    """
    if not down_s > 0:
        raise UsageError([f"restart: the outage is {down_s:g} s; it must be more than 0"])
    if has_unlimited_source(scenario):
        raise UsageError(
            [
                f"restart: a source of {scenario.name} emits as fast as possible, so nothing arrives while "
                "the job is down; give its sources a rate"
            ]
        )
    interval_s = scenario.config.checkpoint_interval_s
    if interval_s is None:
        raise UsageError(
            [f"restart: {scenario.name} takes no checkpoints, so it would begin again from its first record"]
        )
    at = float(ceil(max(_BEFORE_S, scenario.warmup_s, 2.5 * interval_s)))
    expected_s = (down_s + interval_s) / max(limit - 1, 1e-9)
    after_s = min(_LONGER * expected_s, MOST_CATCH_UP_S) + max(_AFTER_S, 2 * interval_s)
    return replace(
        scenario,
        duration_s=float(ceil(at + down_s + after_s)),
        warmup_s=min(scenario.warmup_s, at / 2),
        phases=(),
        changes=(),
        manual_checkpoints_s=(),
        savepoints=(),
        faults=(Outage(when=AtTime(at), for_s=down_s),),
    )


class EndOnceCaughtUp:
    """Ends a run some time after the backlog of its outage is read; passed to `emulate` as `end_of_run`."""

    def __init__(self, scenario: Scenario) -> None:
        self._over_s = outage_times(scenario)[1]
        self._asked = scenario.duration_s
        self._sources = [number for number, vertex in enumerate(scenario.vertices) if vertex.source]
        self._allowed = _hardly_pending(scenario)
        self._tail_s = max(_AFTER_S, 2 * (scenario.config.checkpoint_interval_s or 0.0))
        self._ends_at: float | None = None

    def __call__(self, recorder: Recorder) -> float:
        """Return when the run is to end, in emulated seconds."""
        now = float(recorder.times[-1])
        if self._ends_at is None and now > self._over_s:
            pending = [recorder.samples_of(number)["pending_records"][:, -1] for number in self._sources]
            if np.concatenate(pending).sum() <= self._allowed:  # not while the job is down: NaN
                self._ends_at = min(self._asked, now + self._tail_s)
        return self._asked if self._ends_at is None else self._ends_at


def _hardly_pending(scenario: Scenario) -> float:
    """Return the number of records that may be pending once a job has caught up, with a burst."""
    arriving = sum(sum(rates_of(vertex)) for vertex in scenario.vertices if vertex.source is not None)
    return (_PENDING_S + burst_s(scenario)) * arriving


def drill_of(setting: str, result: Result) -> RestartDrill:
    """Return what happened in a run of `drill_scenario`, given its result with its series."""
    scenario = result.scenario
    stopped, over = outage_times(scenario)
    times, pending = backlog(result)
    after = times > over
    caught_up_at, emulated_until = _caught_up(times[after], pending[after], _hardly_pending(scenario))
    end = result.emulated_seconds if caught_up_at is None else min(emulated_until, caught_up_at)
    meanwhile = [each for each in result.checkpoints if over <= each.t < end]
    before = _times([each for each in result.checkpoints if each.t < stopped])
    durations = _times(meanwhile)
    failed = [each for each in meanwhile if each.failed]
    known_pending = pending[~np.isnan(pending)]
    return RestartDrill(
        setting=setting,
        down_s=round(over - stopped, 6),
        caught_up_s=None if caught_up_at is None else round(caught_up_at - over, 1),
        emulated_s=round(max(0.0, emulated_until - over), 1),
        most_pending=float(known_pending.max()) if known_pending.size else None,
        checkpoints_completed=sum(each.completed for each in meanwhile),
        checkpoints_expired=sum(each.failure == FailureReason.EXPIRED for each in failed),
        checkpoints_failed=len(failed),
        checkpoint_ms=round(fmean(durations), 2) if durations else None,
        checkpoint_max_ms=max(durations, default=None),
        before_ms=round(fmean(before), 2) if before else None,
        restarts=sum(each.failed_at > over for each in result.restarts),
        failure=result.failure,
    )


def outage_times(scenario: Scenario) -> tuple[float, float]:
    """Return when the outage of a `drill_scenario` begins and ends, in emulated seconds."""
    (outage,) = (fault for fault in scenario.faults if isinstance(fault, Outage))
    assert isinstance(outage.when, AtTime)
    return outage.when.time_s, outage.when.time_s + outage.for_s


def backlog(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of the samples, and the records that are pending at all sources together.

    NaN while the job does not run.
    """
    sources = [each for each in result.series if each.pendingRecords]
    times = np.array(result.series[0].t, dtype=np.float64)
    listed = [
        [np.nan if value is None else value for value in subtask]
        for each in sources
        for subtask in each.pendingRecords or ()
    ]
    return times, np.sum(np.array(listed, dtype=np.float64), axis=0)


def _caught_up(times: np.ndarray, pending: np.ndarray, allowed: float) -> tuple[float | None, float]:
    """Return when the job has caught up, and until when this was emulated.

    If the job has not caught up at the end, the time follows from the decrease over the last minute. It is
    None if the backlog does not decrease.
    """
    running = ~np.isnan(pending)
    times, pending = times[running], pending[running]
    if not times.size:
        return None, 0.0
    over = np.flatnonzero(pending > allowed)
    if not over.size:
        return float(times[0]), float(times[0])
    if over[-1] + 1 < len(times):
        at = float(times[over[-1] + 1])
        return at, at
    late = times >= times[-1] - 60.0
    fall = float(pending[late][0] - pending[-1]) / max(1.0, float(times[-1] - times[late][0]))
    end = float(times[-1])
    return (end + float(pending[-1]) / fall if fall > 0 else None), end


def _times(checkpoints: Sequence[CheckpointResult]) -> list[float]:
    return known(each.duration_ms for each in checkpoints if each.completed)
