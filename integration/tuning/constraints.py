"""Limits for a setting: judge one setting by them, and find those that no setting meets.

Each is judged by the mean over seeds and its interval, so that more seeds make the answer more certain, and a
limit no harder to meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..number_text import milliseconds
from .estimates import Answer, Estimate, estimate
from .measures import Measures

MIN_THROUGHPUT, MAX_CHECKPOINT, MAX_DELAY = "min-throughput", "max-checkpoint", "max-delay"
CHECKPOINTS = "checkpoints complete"
"""Constraint on every setting: some checkpoints complete, and hardly any expires."""
RUNS = "runs end well"
"""Constraint on every setting: none of its runs fails."""

MOST_EXPIRED = 0.05
"""Share of the checkpoints that may expire; matches the 95 % of `max-checkpoint`."""


CLEARLY = 0.05
"""Distance by which a single run has to miss a share of throughput to show that it is missed.

From seed to seed, throughput hardly varies.
"""


class Constraints(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a setting, for means over seeds; None: no limit."""

    min_throughput: float | None = 0.99
    """Least throughput, as a share of that of the present setting with the same seed."""
    max_checkpoint_ms: float | None = None
    """Limit for 95 % of the checkpoints, from trigger to completion."""
    max_delay_ms: float | None = None
    """Record delay, from emission to processing, 95th percentile."""


class Shortfall(msgspec.Struct, frozen=True, kw_only=True):
    """A constraint that a setting does not keep to, or is not shown to keep to."""

    constraint: str
    """`MIN_THROUGHPUT`, `MAX_CHECKPOINT`, `MAX_DELAY`, `CHECKPOINTS` or `RUNS`."""
    limit: float
    """A share, milliseconds, or the share of checkpoints or of runs that may be lost."""
    value: Estimate | None
    """The measured value, in the same unit; None: not measured."""
    kept: Answer
    """"no", or "undecided" where the limit lies within the interval."""
    text: str

    @property
    def excess(self) -> float:
        """Distance from the limit, as a factor above 1; infinite if unknown."""
        if self.value is None or not self.limit:
            return float("inf")
        if self.constraint == MIN_THROUGHPUT:
            return self.limit / self.value.mean if self.value.mean else float("inf")
        return self.value.mean / self.limit


def judge(
    runs: Mapping[int, Measures],
    failed: int,
    throughput_shares: Mapping[int, float | None] | None,
    constraints: Constraints,
    *,
    takes_checkpoints: bool,
) -> list[Shortfall]:
    """Return the constraints that a setting breaks, or is not clearly shown to keep to.

    `runs` are its figures by seed, `failed` the number of runs that have none. `throughput_shares`, by seed,
    are None for the setting that the others are compared with, and then throughput is not judged.
    """
    delays = [run.record_delay_p95_ms for run in runs.values()]
    shortfalls = [_failures(len(runs), failed), _throughput(throughput_shares, constraints.min_throughput)]
    if takes_checkpoints and runs:
        times = [_longest(run) for run in runs.values()]
        shortfalls += [
            _expiry(list(runs.values())),
            _time(MAX_CHECKPOINT, "95 % of checkpoints", times, constraints.max_checkpoint_ms),
        ]
    shortfalls.append(_time(MAX_DELAY, "95 % of records", delays, constraints.max_delay_ms))
    return [shortfall for shortfall in shortfalls if shortfall is not None and shortfall.kept != "yes"]


def too_costly(share: float | None, constraints: Constraints) -> bool:
    """Return whether the throughput of a single run, as a share of the present one, is clearly too low."""
    least = constraints.min_throughput
    return share is not None and least is not None and share < least - CLEARLY


def binding(shortfalls_of_settings: Sequence[Sequence[Shortfall]]) -> list[str]:
    """Return the constraints that rule out all settings, given what each breaks; empty: one fits.

    A constraint that every setting breaks binds alone. If there is none, one rules out some settings and
    another the rest, and all that are broken anywhere bind together.
    """
    each = [{shortfall.constraint for shortfall in shortfalls} for shortfalls in shortfalls_of_settings]
    if not each or not all(each):
        return []
    everywhere = set.intersection(*each)
    order = (RUNS, CHECKPOINTS, MAX_CHECKPOINT, MAX_DELAY, MIN_THROUGHPUT)
    return [name for name in order if name in (everywhere or set.union(*each))]


def nearest(shortfalls_of: Mapping[str, Sequence[Shortfall]]) -> str | None:
    """Return the setting whose largest excess over a limit is the smallest; None if there are no settings."""
    return min(
        shortfalls_of,
        key=lambda name: max((shortfall.excess for shortfall in shortfalls_of[name]), default=0.0),
        default=None,
    )


def _failures(ended: int, failed: int) -> Shortfall | None:
    if not failed:
        return None
    share = estimate([0.0] * ended + [1.0] * failed, 4)
    text = f"{failed} of {ended + failed} runs failed"
    return Shortfall(constraint=RUNS, limit=0.0, value=share, kept="no", text=text)


def _throughput(shares: Mapping[int, float | None] | None, least: float | None) -> Shortfall | None:
    if least is None or shares is None:
        return None
    share = estimate(shares.values(), 4)
    if share is None:
        text = "throughput was not measured"
        return Shortfall(constraint=MIN_THROUGHPUT, limit=least, value=None, kept="undecided", text=text)
    text = f"throughput is {share.mean:.3f} of the original, below the limit of {least:g}"
    kept = "no" if share.runs == 1 and share.mean < least - CLEARLY else share.at_least(least)
    return Shortfall(constraint=MIN_THROUGHPUT, limit=least, value=share, kept=kept, text=text)


def _expiry(runs: Sequence[Measures]) -> Shortfall | None:
    """Return the shortfall if too many checkpoints expired, or none completed."""
    completed = sum(run.checkpoints_completed for run in runs)
    expired = sum(run.checkpoints_expired for run in runs)
    if completed and not expired:
        return None
    shares = [_expired_share(run) for run in runs]
    share = estimate(shares, 4)
    text = f"{expired} of {completed + expired} checkpoints expired" if expired else "no checkpoint completed"
    pending = [run.pending_ms for run in runs if run.pending_ms is not None]
    if not completed and pending:
        text += f"; one had been pending for {milliseconds(max(pending))} at the end"
    kept: Answer = "no" if not completed or share is None else share.at_most(MOST_EXPIRED)
    return Shortfall(constraint=CHECKPOINTS, limit=MOST_EXPIRED, value=share, kept=kept, text=text)


def _expired_share(run: Measures) -> float | None:
    ended = run.checkpoints_completed + run.checkpoints_expired
    return run.checkpoints_expired / ended if ended else None


def _longest(run: Measures) -> float | None:
    """Return the longest time; a pending checkpoint counts by its age, since it takes at least as long."""
    return run.end_to_end_p95_ms if run.checkpoints_completed else run.pending_ms


def _time(constraint: str, what: str, values: Sequence[float | None], most: float | None) -> Shortfall | None:
    """Return the shortfall of a time; a run without the figure, as after a restart, leaves it undecided."""
    if most is None:
        return None
    figure = estimate(values)
    if figure is None or figure.runs < figure.of:
        lacking = "was not measured" if figure is None else f"was measured in {_runs(figure)} only"
        text = f"the time of {what} {lacking}, so the limit of {milliseconds(most)} is not shown to be met"
        return Shortfall(constraint=constraint, limit=most, value=figure, kept="no", text=text)
    text = f"{what} take up to {milliseconds(figure.mean)}, more than {milliseconds(most)}"
    return Shortfall(constraint=constraint, limit=most, value=figure, kept=figure.at_most(most), text=text)


def _runs(figure: Estimate) -> str:
    return f"{figure.runs} of {figure.of} runs"
