"""Choice of a setting that is better than the present one, by a stated rule; and the knee of the curve.

A setting is recommended only where the runs show that it keeps to the constraints and is better than the
present setting. Undecided settings are listed, so that more seeds can be run for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from .constraints import MIN_THROUGHPUT, RUNS
from .estimates import Answer, Estimate
from .summaries import OFF, TargetSummary, target_s

END_TO_END, RECORD_DELAY = "end_to_end_ms", "record_delay_ms"
OBJECTIVES = {
    END_TO_END: "end-to-end time of checkpoints",
    RECORD_DELAY: "record delay",
}
"""Quantity to minimise: a field of `TargetSummary`, in words."""
_SHARES = {END_TO_END: "end_to_end_share", RECORD_DELAY: "record_delay_share"}

SAME_SHARE = 0.10
SAME_MS = 15.0
"""Times that differ by less than the larger of these two count as equal: emulation is no more precise."""
LEAST_GAIN = 0.01
"""Share by which throughput has to grow for that alone to make a setting better."""

MOST_OF_GAIN = 0.9
"""Share of the best setting's gain that counts as all of it: the rest would cost throughput."""

RULE = (
    "Candidates are the settings that meet the limits and are better than the present one, by their 95 % "
    "intervals: a smaller {objective}, or more throughput at the same. Of the candidates that bring nine "
    "tenths of the gain of the best one, or are within 10 % or 15 ms of it, the longest target is chosen: it "
    "changes buffers least."
)

LEAST_PRICE = 0.005
"""Throughput has to vary by more than this share over the targets for there to be a trade-off."""
LEAST_BEND = 0.1
"""Least distance of a knee from the straight line between the curve's ends, as a share of its extent."""


class Choice(NamedTuple):
    """Setting to take, and questions that the runs leave open."""

    kind: Literal["set", "turn off", "keep", "none"]
    """Advice: "set" a target, "turn off" debloating, or "keep" the present setting.

    "keep": no setting is shown to be better; "none": no setting, the present one included, keeps to the
    constraints.
    """
    setting: TargetSummary
    """The chosen setting, or the present one."""
    undecided: tuple[TargetSummary, ...]
    """Settings that more runs may show to meet the constraints and to be better."""


def choose(now: TargetSummary, others: Sequence[TargetSummary], objective: str) -> Choice:
    """Choose between the present setting, `now`, and the others, by the rule of this module."""
    standing = [(setting, _stands(setting, now, objective)) for setting in others]
    doubtful = _beside_doubt([*others, now])
    shown = [setting for setting, answer in standing if answer == "yes" and setting.target not in doubtful]
    hopeful = [setting for setting, answer in standing if answer == "undecided"]
    if not shown:
        return Choice("none" if breaks_constraint(now) or not now.seeds else "keep", now, tuple(hopeful))
    chosen = _longest_of_the_best(shown, now, objective)
    instead = [
        setting
        for setting in hopeful
        if _longest_of_the_best([*shown, setting], now, objective) is not chosen
    ]
    return Choice("turn off" if chosen.target == OFF else "set", chosen, tuple(instead))


def same_or_less(time: float, best: float) -> bool:
    """Whether a time in ms is at most another, within the precision of an emulation."""
    return time <= max(best * (1 + SAME_SHARE), best + SAME_MS)


def _longest_of_the_best(
    settings: Sequence[TargetSummary], now: TargetSummary, objective: str
) -> TargetSummary:
    """Return the longest target whose gain is nearly that of the best one."""
    best = min(_mean(setting, objective) for setting in settings)
    before = value(now, objective)
    nearly = best if before is None else before.mean - MOST_OF_GAIN * (before.mean - best)
    good = [
        setting
        for setting in settings
        if same_or_less(mean := _mean(setting, objective), best) or mean <= nearly
    ]
    return max(good, key=lambda setting: target_s(setting.target))


def value(summary: TargetSummary, objective: str) -> Estimate | None:
    """Return the figure of a target for one of the `OBJECTIVES`."""
    figure = getattr(summary, objective)
    return figure if isinstance(figure, Estimate) else None


def is_better(setting: TargetSummary, now: TargetSummary, objective: str) -> Answer:
    """Return whether a setting is better than the present one.

    It is better if its times are shorter, or its throughput is greater at the same times. If the present
    setting breaks a constraint, every setting that keeps to all of them is better. A figure that was not
    measured counts for neither.
    """
    before, after = value(now, objective), value(setting, objective)
    share: Estimate | None = getattr(setting, _SHARES[objective])
    if after is None:
        return "no"
    if not now.seeds:
        return "no"
    if breaks_constraint(now):
        return "yes"
    if before is None or share is None or not before.mean:
        return "no"
    margin = max(SAME_SHARE, SAME_MS / before.mean)
    faster = share.at_most(1 / (1 + margin)) if after.mean < before.mean else "no"
    as_fast = share.at_most(1 + margin) if same_or_less(after.mean, before.mean) else "no"
    rate = setting.throughput_share
    more = rate.at_least(1 + LEAST_GAIN) if rate is not None else "no"
    return _either(faster, _both(as_fast, more))


def may_be_decided(setting: TargetSummary, now: TargetSummary, objective: str, runs: int) -> bool:
    """Return whether this number of runs may decide the open questions about a setting."""
    doubts = [shortfall for shortfall in setting.shortfalls if shortfall.kept == "undecided"]
    if doubts:
        return all(doubt.value is None or doubt.value.may_decide(doubt.limit, runs) for doubt in doubts)
    before = value(now, objective)
    margin = SAME_SHARE if before is None or not before.mean else max(SAME_SHARE, SAME_MS / before.mean)
    questions = (
        (getattr(setting, _SHARES[objective]), 1 / (1 + margin)),
        (setting.throughput_share, 1 + LEAST_GAIN),
    )
    return any(figure is None or figure.may_decide(limit, runs) for figure, limit in questions)


def breaks_constraint(now: TargetSummary) -> bool:
    """Return whether the present setting clearly breaks a constraint; a failed run does not show it."""
    return any(shortfall.kept == "no" and shortfall.constraint != RUNS for shortfall in now.shortfalls)


def _both(*answers: Answer) -> Answer:
    return "no" if "no" in answers else "undecided" if "undecided" in answers else "yes"


def _either(*answers: Answer) -> Answer:
    return "yes" if "yes" in answers else "undecided" if "undecided" in answers else "no"


def knee(summaries: Sequence[TargetSummary], objective: str) -> tuple[str | None, str]:
    """Return the target at the knee of the curve of the objective against throughput, and why, in words.

    Both are scaled to the curve's extent; the knee is the point that lies farthest below the straight line
    between the two ends. None where throughput hardly varies, or the curve hardly bends.
    """
    points = [
        (setting.target, time.mean, 1.0 - setting.throughput_share.mean)
        for setting in summaries
        if setting.throughput_share is not None and (time := value(setting, objective)) is not None
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
        return None, "the curve is straight: each step costs about the same throughput"
    return target, f"shorter targets cost more throughput for each ms gained; all of them {100 * price:.1f} %"


def _beside_doubt(summaries: Sequence[TargetSummary]) -> set[str]:
    """Return the targets whose next longer one is not shown to keep the throughput.

    A shorter target has smaller buffers and cannot cost less: where it seems to, that is chance.
    """
    targets = sorted(
        (setting for setting in summaries if setting.target != OFF),
        key=lambda setting: target_s(setting.target),
    )
    return {
        shorter.target
        for shorter, longer in pairwise(targets)
        if any(shortfall.constraint == MIN_THROUGHPUT for shortfall in longer.shortfalls)
    }


def _stands(setting: TargetSummary, now: TargetSummary, objective: str) -> Answer:
    """Whether a setting keeps to the constraints and is better than now."""
    return _both(setting.keeps, is_better(setting, now, objective))


def _mean(setting: TargetSummary, objective: str) -> float:
    time = value(setting, objective)
    assert time is not None, "a setting without times is not better than another"
    return time.mean
