"""Trials of advice: emulate the same job once more, with other options.

Advice that rests on an estimate may be wrong. So commands emulate the job with their advice and report the
outcome, if a run of the job takes at most `LONGEST_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

from buffers import InsufficientBuffers
from netstack import (
    GeneratorSpec,
    InputError,
    JobFailedError,
    Result,
    Scenario,
    check_scenario,
    with_options,
)

from ...base.optional_figures import quotient
from ...runs.checkpoint_times import window_times
from ...runs.emulating import emulate
from ...runs.window_figures import figures_of

LONGEST_S = 3.0
"""Further runs are made only if the first run took at most this long, in seconds of wall-clock time."""


class Outcome(NamedTuple):
    """Outcome of a trial in one window."""

    wall_seconds: float
    before_ms: float
    """Duration of a checkpoint with the present options."""
    after_ms: float
    throughput_share: float
    """Throughput as a share of the present one."""


Tried = Callable[[Mapping[str, object]], Outcome | None]
"""Function that emulates a job with other options. None: not tried, or unknown."""


def may_run_again(result: Result) -> bool:
    """Whether a run can be repeated, from its scenario alone.

    It must not be if the job failed, ran in real time, or names a debloat policy that must be imported: a
    stored file must not choose code to run.
    """
    scenario = result.scenario
    sources = [vertex.source for vertex in scenario.vertices if vertex.source is not None]
    return (
        result.clock == "virtual"
        and result.failure is None
        and ":" not in scenario.config.debloat_policy
        and all(isinstance(source, GeneratorSpec) for source in sources)
        and all(vertex.operator is None for vertex in scenario.vertices)
        and all(edge.key_hash is None for edge in scenario.edges)
    )


def try_out(scenario: Scenario, changes: Mapping[str, object], seed: int | None = None) -> Result | None:
    """Emulate a scenario with other values of fields of its `NetworkConfig`; checkpoints stay in memory.

    Return None if the values contradict each other, or the job fails with them.
    """
    changed = replace(scenario, config=with_options(scenario.config, changes))
    try:
        check_scenario(changed)
        result = emulate(changed, seed=seed)
    except (InputError, InsufficientBuffers, JobFailedError):
        return None
    return None if result.failure is not None else result


def trials(result: Result) -> list[Tried]:
    """Return a function for each window of a result, which tries options. Each set of options runs once.

    The functions try nothing if the job took too long, reads files, contains Python objects, failed, ran in
    real time, or names a debloat policy that must be imported.
    """
    scenario = result.scenario
    may_try = may_run_again(result) and result.wall_seconds <= LONGEST_S

    @cache
    def run(changes: tuple[tuple[str, object], ...]) -> Result | None:
        return try_out(scenario, dict(changes), result.seed)

    def tried(window: int, changes: Mapping[str, object]) -> Outcome | None:
        after = run(tuple(changes.items())) if may_try else None
        return None if after is None else _outcome(result, after, window)

    return [partial(tried, window) for window in range(len(result.steady))]


def _outcome(before: Result, after: Result, window: int) -> Outcome | None:
    """Return the checkpoint times and throughput of both runs, if they were measured."""
    was, now = window_times(before, window), window_times(after, window)
    rates = [figures_of(result, window).throughput_per_s for result in (after, before)]
    share = quotient(rates[0], rates[1])
    if was is None or now is None or share is None:
        return None
    return Outcome(after.wall_seconds, was.end_to_end_ms, now.end_to_end_ms, share)
