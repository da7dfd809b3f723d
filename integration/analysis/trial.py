"""Advice tried out: the same job emulated once more, with other options.

A remedy that is only reckoned may not keep what it promises. Where a run of the job takes no more than
`LONGEST_S` it costs little to see, so whoever gives advice emulates it, and says so.
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

from ..emulating import emulate
from .checkpoint_times import window_times
from .known_values import quotient
from .window_figures import figures_of
from .wording import milliseconds

LONGEST_S = 3.0
"""Seconds that a run may take, by the one that was made before, to be made again for the sake of advice."""


Tried = Callable[[Mapping[str, object]], str | None]
"""Says what other options come to in one window, in words; None: it was not tried, or nothing can be said."""


class Trial(NamedTuple):
    """What came of a run with other options."""

    result: Result
    took_s: float
    """By the clock on the wall."""


def may_be_tried(scenario: Scenario, took_s: float) -> bool:
    """Whether a job can be emulated again as it was: soon, and from nothing but what the scenario says."""
    sources = [vertex.source for vertex in scenario.vertices if vertex.source is not None]
    generated = all(isinstance(source, GeneratorSpec) for source in sources)
    plain = all(vertex.operator is None for vertex in scenario.vertices)
    hashed = all(edge.key_hash is None for edge in scenario.edges)
    return generated and plain and hashed and took_s <= LONGEST_S


def try_out(scenario: Scenario, changes: Mapping[str, object], seed: int | None = None) -> Trial | None:
    """Emulate a scenario with other values of fields of its `NetworkConfig`; checkpoints stay in memory.

    None: the values do not go together, or the job fails with them.
    """
    changed = replace(scenario, config=with_options(scenario.config, changes))
    try:
        check_scenario(changed)
        result = emulate(changed, seed=seed)
    except (InputError, InsufficientBuffers, JobFailedError):
        return None
    return None if result.failure is not None else Trial(result, result.wall_seconds)


def trials(result: Result) -> list[Tried]:
    """Return for each window of a result what tries options out in it; each set of options is run once.

    Nothing is tried of a job that takes long, reads files or objects, failed, ran in real time, or names a
    policy that would have to be imported.
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
    """The checkpoints and the throughput of both, as far as they were measured."""
    was, now = window_times(before, window), window_times(trial.result, window)
    rates = [figures_of(result, window).records_per_s for result in (trial.result, before)]
    share = quotient(rates[0], rates[1])
    if was is None or now is None or share is None:
        return None
    return (
        f"emulated in {trial.took_s:.1f} s: a checkpoint takes {milliseconds(now.end_to_end_ms)} instead of "
        f"{milliseconds(was.end_to_end_ms)}, at {share:.3f} of the throughput"
    )
