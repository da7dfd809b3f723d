"""A recommendation in sentences: what to set, what that costs, and how sure it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from ..comparison.compare import Spread
from ..reporting.wording import milliseconds, size
from .choice import END_TO_END, OBJECTIVES, RECORD_DELAY, value
from .constraints import Violation
from .summaries import OFF, TargetSummary


class Verdict(NamedTuple):
    """What to do."""

    kind: Literal["set", "leave off", "none"]
    target: str | None
    """To be set."""


def words(
    verdict: Verdict,
    baseline: TargetSummary,
    targets: Sequence[TargetSummary],
    objective: str,
    by_seed: Mapping[int, str],
) -> list[str]:
    """Return the recommendation in sentences, the most important one first."""
    chosen = next((one for one in targets if one.target == verdict.target), None)
    if chosen is not None:
        said = [_price(chosen, baseline, objective), *_besides(chosen, objective)]
    elif verdict.kind == "leave off":
        said = [_not_needed(baseline, targets, objective)]
    elif any(one.fits for one in targets):
        said = [f"No target can be chosen: the {OBJECTIVES[objective]} could not be measured."]
    elif not any(one.seeds for one in targets):
        return ["No target can be chosen: no run with debloating ended well."]
    else:
        without = "and neither does the job without debloating"
        if not baseline.seeds:
            without = "and no run without debloating ended well"
        said = [f"No target keeps to the constraints, {without}."]
    return said if len(by_seed) < 2 else [*said, _sureness(by_seed, _outcome(verdict))]


def binding_text(binding: Sequence[str], targets: Sequence[TargetSummary], nearest: str | None) -> str:
    """Return which constraint binds, with the figures of the setting that comes nearest to keeping to it."""
    closest = next(one for one in targets if one.target == nearest)
    shown = "; ".join(_seen(violation) for violation in closest.violations)
    broken = [{violation.constraint for violation in one.violations} for one in targets if one.seeds]
    alone = all(set(binding) <= each for each in broken)
    which = binding[0] if len(binding) == 1 else f"{', '.join(binding[:-1])} and {binding[-1]}"
    verb = "binds" if len(binding) == 1 else "bind, each by itself" if alone else "together bind"
    name = "Without debloating" if nearest == OFF else f"With a target of {nearest}"
    return f"{which[0].upper()}{which[1:]} {verb}. {name}, which comes nearest: {shown}."


def with_range(spread: Spread | None, text: Callable[[float | None], str] = milliseconds) -> str:
    """Return a median with its range over seeds, which is left out where it is not to be seen."""
    if spread is None:
        return text(None)
    least, middle, most = (text(one) for one in (spread.least, spread.median, spread.most))
    if least == most:
        return middle
    number, _, unit = least.partition(" ")
    return f"{middle} ({number if most.partition(' ')[2] == unit else least} to {most})"


def _price(chosen: TargetSummary, baseline: TargetSummary, objective: str) -> str:
    what = "checkpoints take" if objective == END_TO_END else "records are under way for"
    gain = f"{what} {_against(chosen, baseline, objective)}"
    share = chosen.throughput_share
    price = "" if share is None else f", at {share.median:.3f} of the throughput without debloating"
    return f"Set the debloat target to {chosen.target}: {gain}{price}."


def _besides(chosen: TargetSummary, objective: str) -> list[str]:
    said = []
    if objective == END_TO_END and chosen.record_delay_ms is not None:
        said.append(
            f"Records are then under way for {with_range(chosen.record_delay_ms)}, "
            f"with {with_range(chosen.in_flight_bytes, size)} in flight."
        )
    if objective == RECORD_DELAY and chosen.end_to_end_ms is not None:
        said.append(f"Checkpoints then take {with_range(chosen.end_to_end_ms)}.")
    if objective == END_TO_END and chosen.unaligned_end_to_end_ms is not None:
        said.append(
            f"Unaligned checkpoints at this target take {with_range(chosen.unaligned_end_to_end_ms)} "
            f"and store {with_range(chosen.persisted_bytes, size)} of data in flight each; records wait as "
            "long as before."
        )
    if chosen.adaptation_ms is not None:
        said.append(
            f"When the service time of the bottleneck doubles, the queues settle within "
            f"{with_range(chosen.adaptation_ms)}; there is a sample each second."
        )
    if chosen.not_adapted:
        runs = f"{chosen.not_adapted} run{'' if chosen.not_adapted == 1 else 's'}"
        said.append(f"In {runs} where the service time of the bottleneck doubles, the queues did not settle.")
    return said


def _not_needed(baseline: TargetSummary, targets: Sequence[TargetSummary], objective: str) -> str:
    what = OBJECTIVES[objective]
    without = with_range(value(baseline, objective))
    fitting = [(one, spread) for one in targets if one.fits and (spread := value(one, objective))]
    if not fitting:
        return (
            "Leave debloating off: no target keeps to the constraints, and the job does without "
            f"({what}: {without})."
        )
    best, spread = min(fitting, key=lambda pair: pair[1].median)
    return (
        f"Leave debloating off: the {what} is {without} without it and {with_range(spread)} with a target of "
        f"{best.target}, which is the same as far as can be told."
    )


def _against(chosen: TargetSummary, baseline: TargetSummary, name: str) -> str:
    before = value(baseline, name)
    instead = "" if before is None else f" instead of {with_range(before)}"
    if name == END_TO_END and baseline.seeds and not baseline.checkpoints_completed:
        instead = ", where none completed without debloating"
    return f"{with_range(value(chosen, name))}{instead}"


def _outcome(verdict: Verdict) -> str:
    """A verdict as seeds have theirs."""
    return verdict.target or (OFF if verdict.kind == "leave off" else "none")


def _sureness(by_seed: Mapping[int, str], of_all: str) -> str:
    counts = Counter(by_seed.values()).most_common()
    if set(by_seed.values()) == {of_all}:
        return f"Each of the {len(by_seed)} seeds alone leads to the same."
    shown = ", ".join(f"{target} ({count})" for target, count in counts)
    return f"Alone, the {len(by_seed)} seeds lead to: {shown}."


def _seen(violation: Violation) -> str:
    return f"{violation.text} (seed {violation.seed})"
