"""Choice of the best setting, given the figures of the runs of each.

A setting may improve two figures: the checkpoint duration and the delay of records. It may cost two:
throughput, and the in-flight data that each checkpoint stores. Each figure has a distance from its best value
over all settings within the user's limits. The setting with the least sum of distances is chosen: the knee of
the Pareto front. For this, each figure is scaled to its range over these settings:

- Times count by their ratio, down to a tenth of the present time. A shorter time gains nothing more.
- A loss of throughput counts as a share of the loss that the limits allow.
- Stored bytes count as a share of the maximum over all settings, or of `FEW_BYTES` if that is more.

Settings that keep to the limits and are worth a change even with the known error of the emulation come first:
if there are any, no others take part. Settings whose sums differ by less than `TIE` are ties. Among them, the
one that changes the job least is chosen: the fewest mechanisms, then no stored in-flight data, then the
longest debloat target. The present setting stays if no other setting is better by a fifth or by 50 ms, or if
its own sum is clearly smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import NamedTuple

import msgspec

from ...base.optional_figures import known
from .model_error import NO_ERROR, ModelError

SAME_SHARE, SAME_MS = 0.05, 15.0
"""Times count as equal if they differ by less than this share, or by less than this many milliseconds."""
SAME_THROUGHPUT = 0.005
"""Two shares of throughput count as equal if they differ by less than this."""
WORTH_SHARE, WORTH_MS = 0.20, 50.0
"""A change is worth it if a time gets shorter by at least this share, or by at least this many ms.

The old and the new time must also not count as equal (`SAME_SHARE`, `SAME_MS`).
"""
WORTH_THROUGHPUT = 0.05
"""Minimum gain of throughput, as a share, that is worth a change."""
TIE = 0.1
"""Settings whose sums of distances differ by less count as ties."""
FEW_BYTES = 1 << 20
"""Stored in-flight data of a checkpoint that costs little, however much other settings store."""
MOST_EXPIRED = 0.05
"""Maximum share of checkpoints that may expire."""

_WORTHLESS_SHARE = 0.1
"""Share of the present time below which a shorter time gains nothing more."""


class Constraints(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a setting; None: no limit."""

    min_throughput: float = 0.95
    """Minimum throughput, as a share of the throughput of the present setting with the same seed."""
    max_checkpoint_ms: float | None = None
    """Limit for the 95th percentile of checkpoint durations, from trigger to completion."""
    max_delay_ms: float | None = None
    """Limit for the 95th percentile of record delays, from emission to processing."""
    max_stored_bytes: float | None = None
    """Limit for the data in flight that a checkpoint stores."""
    fast_enough_ms: float = 1000.0
    """Checkpoints are fast enough if 95 % of them take less than this; 0: faster ones are always sought."""
    fast_enough_share: float = 0.5
    """They must also take less than this share of the checkpoint interval."""


class Broken(NamedTuple):
    """A limit that a setting violates."""

    limit: str
    """A field of `Outcome`; or what takes longer at today's load, "checkpoints" or "records"; or "today": the
    job does not keep up with today's load."""
    value: float | None = None
    """None: not measured."""
    allowed: float | None = None


class Outcome(NamedTuple):
    """The figures by which settings are compared; None: not measured."""

    name: str
    mechanisms: int
    """Number of mechanisms that the setting changes."""
    target_s: float
    """The debloat target that the setting sets, in seconds; infinite if it sets none."""
    checkpoint_ms: float | None
    checkpoint_p95_ms: float | None
    throughput: float | None
    """Throughput as a share of that of the present setting."""
    delay_ms: float | None
    delay_p95_ms: float | None
    stored_bytes: float | None
    worst_phase_ms: float | None = None
    """Mean checkpoint time in the slowest phase of the load; None: the load has one phase."""
    expired: float | None = None
    """Share of expired checkpoints among those that ended; None: none ended."""
    failed: int = 0
    """Number of failed runs."""
    costs_today: Broken | None = None
    """Cost of the setting at today's load, which is below the job's limit; None: nothing, or not run."""


class Choice(NamedTuple):
    """The chosen setting, and others that a user may prefer."""

    chosen: str | None
    """None: no setting keeps to the limits."""
    alternatives: tuple[tuple[str, str], ...] = ()
    """Up to two settings, each with its advantage over the chosen one."""
    close: frozenset[str] = frozenset()
    """The chosen setting, and settings that are nearly as good by the sum of distances (see the module)."""


def broken_limits(outcome: Outcome, limits: Constraints, *, takes_checkpoints: bool) -> list[Broken]:
    """Return the limits that a setting violates. An unmeasured figure violates its limit."""
    broken = []
    if outcome.failed:
        broken.append(Broken("failed", outcome.failed))
    if outcome.throughput is None or outcome.throughput < limits.min_throughput:
        broken.append(Broken("throughput", outcome.throughput, limits.min_throughput))
    if takes_checkpoints and outcome.checkpoint_ms is None:
        broken.append(Broken("checkpoint_ms"))
    elif takes_checkpoints and outcome.expired is not None and outcome.expired > MOST_EXPIRED:
        broken.append(Broken("expired", outcome.expired, MOST_EXPIRED))
    if outcome.costs_today is not None:
        broken.append(outcome.costs_today)
    limited = {
        "checkpoint_p95_ms": limits.max_checkpoint_ms,
        "delay_p95_ms": limits.max_delay_ms,
        "stored_bytes": limits.max_stored_bytes,
    }
    for figure, limit in limited.items():
        value = getattr(outcome, figure)
        if limit is not None and (value is None or value > limit):
            broken.append(Broken(figure, value, limit))
    return broken


def is_fast_enough(now: Outcome, limits: Constraints, interval_s: float | None) -> bool:
    """Return whether checkpoints are so short that no setting has to change, even at the peak of the load.

    `interval_s`: the checkpoint interval in seconds. Return False without an interval or a measured time.
    """
    if now.checkpoint_p95_ms is None or interval_s is None:
        return False
    slow_ms = max(now.checkpoint_p95_ms, now.worst_phase_ms or 0.0)
    return slow_ms < min(limits.fast_enough_ms, limits.fast_enough_share * 1e3 * interval_s)


def choose(
    outcomes: Sequence[Outcome],
    now: str,
    limits: Constraints,
    *,
    takes_checkpoints: bool,
    error: ModelError = NO_ERROR,
) -> Choice:
    """Return the setting to take; `now` is the name of the present one, which may be chosen too."""

    def fits(outcome: Outcome) -> bool:
        return not broken_limits(outcome, limits, takes_checkpoints=takes_checkpoints)

    fitting = [each for each in outcomes if fits(each)]
    present = next(each for each in outcomes if each.name == now)
    may_stay = present in fitting

    def gains(outcome: Outcome) -> bool:
        return not may_stay or is_worth(outcome, present)

    gaining = [each for each in fitting if each is not present and gains(each)]
    if not gaining:
        return Choice(now if may_stay else None, close=frozenset([now]))
    sure = [each for each in gaining if fits(worst := at_worst(each, error)) and gains(worst)]
    gaining = sure or gaining
    distances = _distances([*gaining, present], present, limits)
    nearest = min(distances[each.name] for each in gaining)
    if may_stay and distances[now] < nearest - TIE:
        return Choice(now, tuple(_alternatives(present, gaining, distances)), frozenset([now]))

    def order(each: Outcome) -> tuple[float | str, ...]:
        return each.mechanisms, bool(each.stored_bytes), -each.target_s, distances[each.name], each.name

    chosen = min((each for each in gaining if distances[each.name] <= nearest + TIE), key=order)
    close = frozenset(each.name for each in gaining if distances[each.name] <= nearest + 2 * TIE)
    return Choice(chosen.name, tuple(_alternatives(chosen, gaining, distances)), close)


def at_worst(outcome: Outcome, error: ModelError) -> Outcome:
    """Return the figures that a setting may have in a real Flink if all are as bad as the error allows."""

    def longer(time: float | None) -> float | None:
        return None if time is None else max(time * error.most, time + error.more_ms)

    return outcome._replace(
        throughput=None if outcome.throughput is None else outcome.throughput - error.lost,
        checkpoint_ms=longer(outcome.checkpoint_ms),
        checkpoint_p95_ms=longer(outcome.checkpoint_p95_ms),
        delay_ms=longer(outcome.delay_ms),
        delay_p95_ms=longer(outcome.delay_p95_ms),
    )


def is_worth(outcome: Outcome, now: Outcome) -> bool:
    """Return whether any figure of a setting is better than now by enough to be worth a change."""
    return (
        _is_clearly_shorter(outcome.checkpoint_ms, now.checkpoint_ms)
        or _is_clearly_shorter(outcome.delay_ms, now.delay_ms)
        or (outcome.throughput is not None and outcome.throughput >= 1 + WORTH_THROUGHPUT)
    )


def is_same(one: Outcome, other: Outcome) -> bool:
    """Return whether a user would notice no difference between two settings."""
    return (
        is_same_time(one.checkpoint_ms, other.checkpoint_ms)
        and is_same_time(one.delay_ms, other.delay_ms)
        and one.throughput is not None
        and other.throughput is not None
        and abs(one.throughput - other.throughput) <= SAME_THROUGHPUT
    )


def is_matched(outcome: Outcome, others: Sequence[Outcome]) -> bool:
    """Return whether one of `others` is as good as `outcome` in every figure, up to small differences."""

    def as_fast(other: float | None, time: float | None) -> bool:
        return time is None or (other is not None and not _is_shorter(time, other))

    return any(
        as_fast(other.checkpoint_ms, outcome.checkpoint_ms)
        and as_fast(other.delay_ms, outcome.delay_ms)
        and (other.throughput or 0.0) >= (outcome.throughput or 0.0) - SAME_THROUGHPUT
        for other in others
    )


def is_same_time(one: float | None, other: float | None) -> bool:
    """Return whether two times count as equal, or both are unknown."""
    if one is None or other is None:
        return one is other
    return not _is_shorter(min(one, other), max(one, other))


def _is_shorter(after: float, before: float) -> bool:
    return before - after > max(SAME_SHARE * before, SAME_MS)


def _is_clearly_shorter(after: float | None, before: float | None) -> bool:
    """Whether a time is shorter by enough to be worth a change."""
    return (
        after is not None
        and before is not None
        and _is_shorter(after, before)
        and before - after >= min(WORTH_SHARE * before, WORTH_MS)
    )


def _alternatives(
    chosen: Outcome, gaining: Sequence[Outcome], distances: Mapping[str, float]
) -> list[tuple[str, str]]:
    """Return at most two alternatives to the chosen setting, each as its advantage and its name.

    Candidates are the best setting that loses no throughput, the best one that stores no in-flight data, and
    the fastest one. Each must be better than the chosen setting in this respect.
    """
    others = [each for each in gaining if each is not chosen]
    stored = chosen.stored_bytes or 0.0
    kinds: Mapping[str, list[Outcome]] = {
        "no loss of throughput": [
            each
            for each in others
            if (chosen.throughput or 0.0) < 1 - SAME_THROUGHPUT <= (each.throughput or 0.0)
        ],
        "nothing more to store": [each for each in others if stored and not each.stored_bytes],
        "fastest": [each for each in others if _is_clearly_shorter(each.checkpoint_ms, chosen.checkpoint_ms)],
    }
    times = {each.name: each.checkpoint_ms or 0.0 for each in others}
    found: dict[str, str] = {}
    for kind, among in kinds.items():
        rank = times if kind == "fastest" else distances
        if among:
            found.setdefault(min(among, key=lambda each: rank[each.name]).name, kind)
    return [(kind, name) for name, kind in found.items()][:2]


def _distances(outcomes: Sequence[Outcome], now: Outcome, limits: Constraints) -> dict[str, float]:
    """Return, by setting, the sum of its distances from the best value of each figure, 0 to 4."""
    most = max(known(each.throughput for each in outcomes), default=1.0)
    least = most * min(limits.min_throughput, 1 - SAME_THROUGHPUT)
    most_stored = max([FEW_BYTES, *known(each.stored_bytes for each in outcomes)])
    checkpoints = _places([each.checkpoint_ms for each in outcomes], now.checkpoint_ms)
    delays = _places([each.delay_ms for each in outcomes], now.delay_ms)
    return {
        each.name: checkpoint
        + delay
        + min(1.0, (most - (each.throughput or 0.0)) / (most - least))
        + (each.stored_bytes or 0.0) / most_stored
        for each, checkpoint, delay in zip(outcomes, checkpoints, delays, strict=True)
    }


def _places(times: Sequence[float | None], now: float | None) -> list[float]:
    """Return the position of each time between the shortest, 0, and the longest, 1, on a logarithmic scale.

    An unknown time counts as the longest.
    """
    if not known(times):
        return [0.0] * len(times)
    least = max(SAME_MS, _WORTHLESS_SHARE * (now or 0.0))
    logs = [None if time is None else log(max(least, time)) for time in times]
    low, high = min(known(logs)), max(known(logs))
    # Range of at least a factor of two, so that times that hardly differ count little.
    extent = max(log(2.0), high - low)
    return [1.0 if each is None else (each - low) / extent for each in logs]
