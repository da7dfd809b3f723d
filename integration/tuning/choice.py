"""Which target to take: the stated rule, how sure the seeds are of it, and where the curve has its knee."""

from __future__ import annotations

from collections.abc import Sequence

from ..comparison.compare import Spread
from .summaries import TargetSummary, target_s

END_TO_END, RECORD_DELAY = "end_to_end_ms", "record_delay_ms"
OBJECTIVES = {
    END_TO_END: "end-to-end time of checkpoints",
    RECORD_DELAY: "record delay",
}
"""What is to be small: a field of `TargetSummary`, in words."""

SAME_SHARE = 0.10
SAME_MS = 15.0
"""Times that differ by less than the larger of these two are the same: no emulation is surer than that."""

RULE = (
    "Of the targets that keep to the constraints with every seed, the one with the smallest median "
    "{objective}; of those that equal it (within 10 %, 15 ms or its range over seeds) the longest, which "
    "disturbs least."
)

LEAST_PRICE = 0.005
"""Throughput has to vary by more than this share over the targets for there to be a trade-off."""
LEAST_BEND = 0.1
"""How far the knee has to lie from the straight line between the curve's ends, as a share of its extent."""


def choose(summaries: Sequence[TargetSummary], objective: str) -> TargetSummary | None:
    """Return the summary that the rule picks; None where none fits or none has the objective measured."""
    fitting = [(one, spread) for one in summaries if one.fits and (spread := value(one, objective))]
    if not fitting:
        return None
    _, best = min(fitting, key=lambda pair: pair[1].median)
    equal = [one for one, spread in fitting if equals(spread, best)]
    return max(equal, key=lambda one: target_s(one.target))


def equals(spread: Spread, best: Spread) -> bool:
    """Whether a time is no longer than another one that is the best, as far as can be told."""
    return spread.median <= max(best.median * (1 + SAME_SHARE), best.median + SAME_MS, best.most)


def value(summary: TargetSummary, objective: str) -> Spread | None:
    """Return one of the `OBJECTIVES` of a target."""
    found = getattr(summary, objective)
    return found if isinstance(found, Spread) else None


def knee(summaries: Sequence[TargetSummary], objective: str) -> tuple[str | None, str]:
    """Return the target at the knee of the curve of the objective against throughput, and why, in words.

    Both are scaled to the curve's extent; the knee is the point that lies farthest below the straight line
    between the two ends. None where throughput hardly varies, or the curve hardly bends.
    """
    points = [
        (one.target, spread.median, 1.0 - one.throughput_share.median)
        for one in summaries
        if one.throughput_share is not None and (spread := value(one, objective)) is not None
    ]
    if len(points) < 3:
        return None, "fewer than three targets were measured"
    times, losses = [point[1] for point in points], [point[2] for point in points]
    price = max(losses) - min(losses)
    if price < LEAST_PRICE:
        return None, f"throughput is the same for all targets, within {100 * LEAST_PRICE:g} %"
    if max(times) - min(times) < SAME_MS:
        return None, f"the {OBJECTIVES[objective]} is the same for all targets, within {SAME_MS:g} ms"
    bends = [
        (1.0 - (time - min(times)) / (max(times) - min(times)) - (loss - min(losses)) / price, target)
        for target, time, loss in points
    ]
    bend, target = max(bends)
    if bend < LEAST_BEND:
        return None, "the curve is straight: each step costs as much throughput as the one before"
    return target, f"below it, time costs more throughput: {100 * price:.1f} % over all targets"
