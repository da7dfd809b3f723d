"""What scores come to: a mean, and the interval in which it would be measured again.

The interval is that of JMH: the mean plus and minus an *error*, from Student's t distribution with all
repetitions of all forks, at a confidence of 99.9 %. It takes repetitions for independent of each other, which
those of one fork are not quite; forks are there to show what a fresh process changes.

The rule for a regression stands here and nowhere else::

    worse    the two intervals do not overlap, and the mean is worse by more than the threshold
    better   the same in the other direction
    same     anything else

A score of one repetition has no interval, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import hypot, inf, nan, sqrt

CONFIDENCE = 0.999
THRESHOLD_PERCENT = 5.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its error, in the unit of the scores; the error of one score is `nan`."""

    mean: float
    error: float

    @property
    def low(self) -> float:
        """Its lower end."""
        return self.mean - self.error

    @property
    def high(self) -> float:
        """Its upper end."""
        return self.mean + self.error

    @property
    def known(self) -> bool:
        """Whether it has an error at all."""
        return self.error == self.error


def interval_of(scores: Sequence[float]) -> Interval:
    """Return the interval of the mean of some scores.

    Raises:
        ValueError: there is none.
    """
    count = len(scores)
    if not count:
        raise ValueError("no scores")
    mean = sum(scores) / count
    if count == 1:
        return Interval(mean, nan)
    spread = hypot(*(score - mean for score in scores))  # no square of its own, which could be too large
    return Interval(mean, _quantile(count - 1) * spread / sqrt((count - 1) * count))


def _quantile(degrees: int) -> float:
    from scipy.special import stdtrit  # here, since its import takes longer than most of a command

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


class Verdict(StrEnum):
    """What became of a score."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    UNKNOWN = "no interval"


def verdict_of(before: Interval, now: Interval, more_is_better: bool, threshold_percent: float) -> Verdict:
    """Return what the rule says of a score now and one before."""
    if not (before.known and now.known):
        return Verdict.UNKNOWN
    change = change_percent(before, now)
    apart = now.low > before.high or now.high < before.low
    if not apart or abs(change) <= threshold_percent:
        return Verdict.SAME
    return Verdict.BETTER if (change > 0) == more_is_better else Verdict.WORSE


def change_percent(before: Interval, now: Interval) -> float:
    """Return by how much the mean has grown, in percent of what it was."""
    if not before.mean:
        return inf if now.mean else 0.0
    return (now.mean - before.mean) / before.mean * 100
