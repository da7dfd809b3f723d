"""What a rule is worth beside FLIP-183: ratios of medians over seeds, by scenario and over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, inf, log
from statistics import median
from typing import NamedTuple

from .rules import FLINK, Rule
from .trials import Figures

LEAST_THROUGHPUT = 0.995
"""Of FLIP-183's, that a rule has to reach everywhere."""

SHARE, LEAST_MS = 0.02, 3.0
"""Times that are longer by no more than this are not worse."""

ANNOUNCEMENTS_SHARE, ANNOUNCEMENTS_PER_S = 0.1, 0.05

Runs = Mapping[tuple[str, Rule], Sequence[Figures]]
"""The figures of each seed, by scenario and rule."""


class Against(NamedTuple):
    """A rule beside FLIP-183 on one scenario: each a ratio, below 1 where it is less."""

    end_to_end: float
    worst: float
    delay: float
    throughput: float
    announcements: float
    worse_on: tuple[str, ...]
    """The counts on which it is worse by more than the tolerance."""


class Summary(NamedTuple):
    """A rule over all scenarios: geometric means of ratios, but for the throughput, which is the least."""

    rule: Rule
    end_to_end: float
    worst: float
    delay: float
    least_throughput: float
    announcements: float
    not_worse: int
    """Scenarios on which it is worse on no count."""

    @property
    def objectives(self) -> tuple[float, ...]:
        """Each is the better the smaller it is; throughput counts only below what is asked."""
        lacking = max(0.0, LEAST_THROUGHPUT - self.least_throughput)
        return (self.end_to_end, self.worst, self.delay, self.announcements, lacking)

    @property
    def score(self) -> float:
        """Times alone, by which rows are sorted: the smaller, the better."""
        return self.end_to_end * self.worst * self.delay


def against(rule: Sequence[Figures], flink: Sequence[Figures]) -> Against:
    """Compare a rule with FLIP-183 on one scenario."""
    mine, its = middle(rule), middle(flink)
    worse = [name for name in TIMES if getattr(mine, name) > getattr(its, name) * (1 + SHARE) + LEAST_MS]
    if mine.records_per_s < LEAST_THROUGHPUT * its.records_per_s:
        worse.append("records_per_s")
    allowed = its.announcements_per_s * (1 + ANNOUNCEMENTS_SHARE) + ANNOUNCEMENTS_PER_S
    if mine.announcements_per_s > allowed:
        worse.append("announcements_per_s")
    # Some times are next to 0 ms.
    end_to_end, worst, delay = [(getattr(mine, name) + 1) / (getattr(its, name) + 1) for name in TIMES]
    announcements = (mine.announcements_per_s + ANNOUNCEMENTS_PER_S) / (
        its.announcements_per_s + ANNOUNCEMENTS_PER_S
    )
    return Against(
        end_to_end, worst, delay, mine.records_per_s / its.records_per_s, announcements, tuple(worse)
    )


TIMES = ("end_to_end_ms", "worst_ms", "delay_ms")


def middle(runs: Sequence[Figures]) -> Figures:
    """The median over seeds of each figure, and the longest checkpoint of all."""
    return Figures(
        median(one.end_to_end_ms for one in runs),
        max(one.worst_ms for one in runs),
        median(one.delay_ms for one in runs),
        median(one.records_per_s for one in runs),
        median(one.announcements_per_s for one in runs),
    )


def summary(rule: Rule, runs: Runs, scenarios: Sequence[str]) -> Summary:
    """Compare a rule with FLIP-183 on all scenarios."""
    rows = [against(runs[name, rule], runs[name, FLINK]) for name in scenarios]
    return Summary(
        rule,
        _mean(row.end_to_end for row in rows),
        _mean(row.worst for row in rows),
        _mean(row.delay for row in rows),
        min((row.throughput for row in rows), default=inf),
        _mean(row.announcements for row in rows),
        sum(not row.worse_on for row in rows),
    )


def _mean(ratios: Iterable[float]) -> float:
    logs = [log(ratio) for ratio in ratios]
    return exp(sum(logs) / len(logs))


def front(summaries: Sequence[Summary]) -> list[Summary]:
    """Those that no other beats, being as good on all objectives and better on one; shortest times first."""
    best = [
        one
        for one in summaries
        if not any(_dominates(other.objectives, one.objectives) for other in summaries)
    ]
    return sorted(best, key=lambda one: one.score)


def _dominates(mine: Sequence[float], its: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(mine, its, strict=True)) and any(
        a < b for a, b in zip(mine, its, strict=True)
    )
