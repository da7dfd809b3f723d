"""What a step of advice would bring, by emulating it: for results whose job can be run again at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from netstack import Result, ScenarioError, read_scenario

from ..checkpoint_times import window_times
from ..findings import find, quotient
from ..trial import Trial, may_be_tried, try_out
from ..wording import milliseconds

Tried = Callable[[Mapping[str, object]], str | None]
"""Says what other options come to in one window, in words; None: it was not tried, or nothing can be said."""


def trials(result: Result) -> list[Tried]:
    """Return for each window of a result what tries options out in it; each set of options is run once.

    Nothing is tried of a job that takes long, reads files or objects, failed, ran in real time, or names a
    policy that would have to be imported.
    """
    windows = range(len(result.steady))
    policy = str(result.scenario.get("policy", ""))
    plain = result.clock == "virtual" and result.failure is None and ":" not in policy
    try:
        scenario = read_scenario(result.scenario) if plain else None
    except ScenarioError:
        scenario = None
    if scenario is None or not may_be_tried(scenario, result.wall_seconds):
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
    rates = [find(result, window).records_per_s for result in (trial.result, before)]
    share = quotient(rates[0], rates[1])
    if was is None or now is None or share is None:
        return None
    return (
        f"emulated in {trial.took_s:.1f} s: a checkpoint takes {milliseconds(now.end_to_end_ms)} instead of "
        f"{milliseconds(was.end_to_end_ms)}, at {share:.3f} of the throughput"
    )
