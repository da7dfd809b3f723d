"""Trials of advice: emulate the same job once more, with other options.

Advice that rests on an estimate may be wrong. So commands emulate the job with their advice and report the
outcome, if a run of the job takes at most `LONGEST_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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

from ..comparison.checkpoint_times import window_times
from ..comparison.window_figures import figures_of
from ..emulating import emulate
from ..number_text import milliseconds
from ..optional_figures import quotient

LONGEST_S = 3.0
"""Further runs are made only if the first run took at most this long, in seconds of wall-clock time."""


Tried = Callable[[Mapping[str, object]], str | None]
"""Function that describes the outcome of other options in one window. None: not tried, or unknown."""


class Trial(NamedTuple):
    """The result of a run with other options."""

    result: Result
    took_s: float
    """Wall-clock duration of the run, in seconds."""


def may_be_tried(scenario: Scenario, took_s: float) -> bool:
    """Whether a job can be emulated again: its run is short, and needs only the scenario."""
    sources = [vertex.source for vertex in scenario.vertices if vertex.source is not None]
    generated = all(isinstance(source, GeneratorSpec) for source in sources)
    plain = all(vertex.operator is None for vertex in scenario.vertices)
    hashed = all(edge.key_hash is None for edge in scenario.edges)
    return generated and plain and hashed and took_s <= LONGEST_S


def try_out(scenario: Scenario, changes: Mapping[str, object], seed: int | None = None) -> Trial | None:
    """Emulate a scenario with other values of fields of its `NetworkConfig`; checkpoints stay in memory.

    Return None if the values contradict each other, or the job fails with them.
    """
    changed = replace(scenario, config=with_options(scenario.config, changes))
    try:
        check_scenario(changed)
        result = emulate(changed, seed=seed)
    except (InputError, InsufficientBuffers, JobFailedError):
        return None
    return None if result.failure is not None else Trial(result, result.wall_seconds)


def trials(result: Result) -> list[Tried]:
    """Return a function for each window of a result, which tries options. Each set of options runs once.

    The functions try nothing if the job took too long, reads files, contains Python objects, failed, ran in
    real time, or names a debloat policy that must be imported.
    """
    windows = range(len(result.steady))
    scenario = result.scenario
    plain = result.clock == "virtual" and result.failure is None
    if not plain or ":" in scenario.config.debloat_policy or not may_be_tried(scenario, result.wall_seconds):
        return [_untried for _ in windows]
    runs: dict[tuple[tuple[str, object], ...], Trial | None] = {}

    def tried_in(window: int) -> Tried:
        def tried(changes: Mapping[str, object]) -> str | None:
            key = tuple(sorted(changes.items()))
            if key not in runs:
                runs[key] = try_out(scenario, changes, result.seed)
            trial = runs[key]
            return None if trial is None else _text(result, trial, window)

        return tried

    return [tried_in(window) for window in windows]


def _untried(changes: Mapping[str, object]) -> None:
    return None


def _text(before: Result, trial: Trial, window: int) -> str | None:
    """Return the checkpoint times and throughput of both runs, if they were measured."""
    was, now = window_times(before, window), window_times(trial.result, window)
    rates = [figures_of(result, window).records_per_s for result in (trial.result, before)]
    share = quotient(rates[0], rates[1])
    if was is None or now is None or share is None:
        return None
    return (
        f"emulated in {trial.took_s:.1f} s: a checkpoint takes {milliseconds(now.end_to_end_ms)} instead of "
        f"{milliseconds(was.end_to_end_ms)}, {_throughput(share)}"
    )


def _throughput(share: float) -> str:
    """Return a throughput relative to the previous one: as a factor above 1.1, else in percent."""
    if share > 1.1:
        return f"with {share:.1f} times the throughput"
    return f"at {100 * share:.1f} % of the throughput"
