"""What a setting has to keep to, and which of these it is that no setting keeps to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..reporting.wording import milliseconds
from .measures import Measures

MIN_THROUGHPUT, MAX_CHECKPOINT, MAX_DELAY = "min-throughput", "max-checkpoint", "max-delay"
CHECKPOINTS = "checkpoints complete"
"""Asked of every setting: that checkpoints complete, and none expires."""


class Constraints(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a setting, with every seed; None: nothing."""

    min_throughput: float | None = 0.99
    """Share of the throughput without debloating, with the same seed."""
    max_checkpoint_ms: float | None = None
    """That 95 % of the checkpoints take, from trigger to completion."""
    max_delay_ms: float | None = None
    """Record delay, from emission to processing, 95th percentile."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A constraint that a setting does not keep to, by the seed that is furthest from it."""

    constraint: str
    """`MIN_THROUGHPUT`, `MAX_CHECKPOINT`, `MAX_DELAY` or `CHECKPOINTS`."""
    limit: float
    """A share, milliseconds, or 0 checkpoints that did not complete."""
    value: float | None
    """In the same unit; None where there was nothing to measure."""
    seed: int
    text: str

    @property
    def excess(self) -> float:
        """How far it is from the limit, as a factor above 1; infinite where that cannot be said."""
        if self.value is None or not self.limit:
            return float("inf")
        if self.constraint == MIN_THROUGHPUT:
            return self.limit / self.value if self.value else float("inf")
        return self.value / self.limit


def violations(
    runs: Mapping[int, Measures],
    throughput_shares: Mapping[int, float],
    constraints: Constraints,
    *,
    takes_checkpoints: bool,
) -> list[Violation]:
    """Return what the runs of one setting, by seed, do not keep to: each constraint at most once.

    `throughput_shares` is by seed; where nothing is known of the throughput without debloating it is empty,
    and throughput is not judged.
    """
    found = [_throughput(throughput_shares, constraints.min_throughput)]
    if takes_checkpoints:
        found += [_incomplete(runs), _checkpoint(runs, constraints.max_checkpoint_ms)]
    delays = {seed: measures.record_delay_p95_ms for seed, measures in runs.items()}
    found.append(
        _unmeasured(delays, constraints.max_delay_ms)
        or _at_most(MAX_DELAY, "record delay, 95th percentile", delays, constraints.max_delay_ms)
    )
    return [violation for violation in found if violation is not None]


def binding(found: Sequence[Sequence[Violation]]) -> list[str]:
    """Return the constraints that rule out all settings, given what each one violates; empty: one fits.

    A constraint that every setting violates binds alone. If there is none, one rules out some settings and
    another the rest, and all that are violated anywhere bind together.
    """
    each = [{violation.constraint for violation in one} for one in found]
    if not each or not all(each):
        return []
    everywhere = set.intersection(*each)
    order = (CHECKPOINTS, MAX_CHECKPOINT, MAX_DELAY, MIN_THROUGHPUT)
    return [name for name in order if name in (everywhere or set.union(*each))]


def nearest(found: Mapping[str, Sequence[Violation]]) -> str | None:
    """Return the setting whose worst violation is the smallest; None where there are no settings."""
    return min(found, key=lambda name: max((one.excess for one in found[name]), default=0.0), default=None)


def _throughput(shares: Mapping[int, float], least: float | None) -> Violation | None:
    if least is None or not shares:
        return None
    seed = min(shares, key=lambda one: shares[one])
    share = shares[seed]
    if share >= least:
        return None
    text = f"throughput is {share:.3f} of that without debloating, less than {least:g}"
    return Violation(constraint=MIN_THROUGHPUT, limit=least, value=round(share, 4), seed=seed, text=text)


def _incomplete(runs: Mapping[int, Measures]) -> Violation | None:
    """None complete, or some that expired."""
    for seed, measures in runs.items():
        expired, ended = measures.checkpoints_expired, measures.checkpoints_completed
        if ended and not expired:
            continue
        text = (
            f"{expired} checkpoint{'' if expired == 1 else 's'} expired"
            if expired
            else "no checkpoint completed"
        )
        if not ended and measures.pending_ms is not None:
            text += f"; one had been pending for {milliseconds(measures.pending_ms)} at the end"
        return Violation(constraint=CHECKPOINTS, limit=0.0, value=float(expired), seed=seed, text=text)
    return None


def _checkpoint(runs: Mapping[int, Measures], most: float | None) -> Violation | None:
    """Checkpoints that have not completed count by their age, since they take at least as long."""
    times = {seed: _longest(measures) for seed, measures in runs.items()}
    return _at_most(MAX_CHECKPOINT, "checkpoints, 95th percentile", times, most)


def _longest(measures: Measures) -> float | None:
    if measures.checkpoints_completed:
        return measures.end_to_end_p95_ms
    return measures.pending_ms


def _unmeasured(delays: Mapping[int, float | None], most: float | None) -> Violation | None:
    """A run without a delay, as after a restart, does not show that it keeps to the limit."""
    seed = next((seed for seed, delay in delays.items() if delay is None), None)
    if most is None or seed is None:
        return None
    text = f"record delay could not be measured, so nothing shows that it is at most {milliseconds(most)}"
    return Violation(constraint=MAX_DELAY, limit=most, value=None, seed=seed, text=text)


def _at_most(
    constraint: str, what: str, values: Mapping[int, float | None], most: float | None
) -> Violation | None:
    """None where nothing is asked or there is nothing to judge by."""
    known = {seed: value for seed, value in values.items() if value is not None}
    if most is None or not known:
        return None
    seed = max(known, key=lambda one: known[one])
    if known[seed] <= most:
        return None
    text = f"{what}: {milliseconds(known[seed])}, more than {milliseconds(most)}"
    return Violation(constraint=constraint, limit=most, value=known[seed], seed=seed, text=text)
