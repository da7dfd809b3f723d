"""A recommendation in sentences: the verdict, the figures behind it, and how certain they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..number_text import SAME_THROUGHPUT, milliseconds, size
from .choice import END_TO_END, LEAST_GAIN, OBJECTIVES, RECORD_DELAY, Choice, breaks_constraint, value
from .constraints import Shortfall, binding, nearest
from .estimates import Estimate
from .pitfalls import Pitfall
from .settling import SETTLED_CHECKPOINTS
from .summaries import OFF, TargetSummary

MOST_RUNS_NAMED = 100
"""Largest number of seeds that a sentence proposes to decide a question."""


def words(
    choice: Choice,
    now: TargetSummary,
    others: Sequence[TargetSummary],
    objective: str,
    pitfalls: Sequence[Pitfall] = (),
) -> list[str]:
    """Return the recommendation in sentences: the verdict first, without intervals, and then its details.

    `others` are the settings compared with `now`, `pitfalls` the pitfalls of the chosen one.
    """
    if choice.kind == "none":
        sentences = [_nothing_fits(now, others)]
    elif choice.kind == "keep":
        sentences = [_keep(now, others, objective), *_price_of_now(now, others, objective)]
    else:
        verdict = _change(choice.setting, now, objective, pitfalls)
        sentences = [verdict, _figures(choice.setting, now, objective), *_besides(choice.setting, objective)]
    sentences += [_open(setting, now, objective) for setting in choice.undecided]
    return [*sentences, *_thin(now, choice.setting)]


def policy_words(
    choice: Choice,
    reference: TargetSummary,
    others: Sequence[TargetSummary],
    objective: str,
    policies: tuple[str, str],
) -> list[str]:
    """Return whether a policy is better than the best setting of the scenario's own one, and the figures.

    `policies` are the names of both: the policy of `others`, and that of `reference`.
    """
    policy, own = policies
    of_own = f"{own} {'without debloating' if reference.target == OFF else f'at {reference.target}'}"
    if choice.kind == "set":
        better = f"{policy} is better than {own}"
        effect = _effect(choice.setting, reference, objective, f" with {of_own}")
        verdict = f"{better}: {_with(choice.setting.target, 'with')} {effect}."
        return [verdict, _figures(choice.setting, reference, objective)]
    measured = [each for each in others if value(each, objective) is not None]
    verdict = f"{policy} is not shown to be better than {own}"
    if measured:
        best = min(measured, key=lambda each: (each.keeps != "yes", _mean(each, objective)))
        verdict += f": {_TAKE[objective]} {milliseconds(_mean(best, objective))} {_with(best.target, 'with')}"
        verdict += "".join(f", but {each.text}" for each in best.shortfalls[:1])
        verdict += f", and {milliseconds(_mean(reference, objective))} with {of_own}"
    return [f"{verdict}.", *(_open(setting, reference, objective) for setting in choice.undecided)]


def with_range(figure: Estimate | None, text: Callable[[float | None], str] = milliseconds) -> str:
    """Return a mean and its interval as text, with "in 3 of 5 runs" if some runs lack the figure."""
    if figure is None:
        return text(None)
    missing = "" if figure.runs == figure.of else f" in {figure.runs} of {figure.of} runs"
    if figure.low is None or figure.high is None:
        return f"{text(figure.mean)}{missing}"
    low, mean, high = text(figure.low), text(figure.mean), text(figure.high)
    if low == high:
        return f"{mean}{missing}"
    number, _, unit = low.partition(" ")
    return f"{mean} ({number if high.partition(' ')[2] == unit else low} to {high}){missing}"


def share_text(share: float | None) -> str:
    """Return a share of throughput as text for a sentence."""
    return "an unknown share" if share is None else f"{share:.3f}"


_TAKE = {END_TO_END: "checkpoints take", RECORD_DELAY: "records take"}


def _change(chosen: TargetSummary, now: TargetSummary, objective: str, pitfalls: Sequence[Pitfall]) -> str:
    """Return the setting and its effect in one sentence, with warnings of pitfalls."""
    do = "Turn debloating off" if chosen.target == OFF else f"Set the debloat target to {chosen.target}"
    shown = ", and ".join(f"{pitfall.what} ({pitfall.name})" for pitfall in pitfalls)
    warned = f"; but {shown}" if shown else ""
    return f"{do}: {_effect(chosen, now, objective)}{warned}."


def _effect(chosen: TargetSummary, now: TargetSummary, objective: str, suffix: str = "") -> str:
    """Return the times of a setting against the present ones, and its throughput."""
    after, before = (milliseconds(_mean(each, objective)) for each in (chosen, now))
    instead = f" instead of {before}{suffix}"
    if value(now, objective) is None:
        instead = ""
    if objective == END_TO_END and now.seeds and not now.checkpoints_completed:
        instead = ", and none completes now"
    rate = chosen.throughput_share
    return f"{_TAKE[objective]} {after}{instead}" + ("" if rate is None else f", {_throughput(rate.mean)}")


def _throughput(share: float) -> str:
    if abs(share - 1) < SAME_THROUGHPUT:
        return "throughput unchanged"
    return f"throughput {100 * abs(share - 1):.1f} % {'lower' if share < 1 else 'higher'}"


def _mean(setting: TargetSummary, objective: str) -> float | None:
    figure = value(setting, objective)
    return None if figure is None else figure.mean


def _figures(chosen: TargetSummary, now: TargetSummary, objective: str) -> str:
    """Return the figures of the verdict with their intervals, and the limits that are broken now."""
    before, rate = value(now, objective), chosen.throughput_share
    text = f"Over {len(chosen.seeds)} seeds, {_TAKE[objective]} {with_range(value(chosen, objective))}"
    text += "" if before is None else f" instead of {with_range(before)}"
    text += "" if rate is None else f", at {with_range(rate, share_text)} of the throughput"
    if breaks_constraint(now):
        text += f". Now: {'; '.join(shortfall.text for shortfall in now.shortfalls)}"
    return f"{text}."


def _keep(now: TargetSummary, others: Sequence[TargetSummary], objective: str) -> str:
    """Return why to keep the present setting: its figure, and the best or the nearest other one."""
    stay = "Keep debloating off" if now.target == OFF else f"Keep the debloat target of {now.target}"
    before = _mean(now, objective)
    if before is None:
        return f"{stay}: the {OBJECTIVES[objective]} was not measured, so no setting is known to be better."
    take = _TAKE[objective]
    times = {each.target: time for each in others if (time := _mean(each, objective)) is not None}
    fitting = [each.target for each in others if each.keeps == "yes" and each.target in times]
    if fitting:
        best = min(fitting, key=lambda target: times[target])
        return (
            f"{stay}: {take} {milliseconds(before)}, and no other setting is shown to be better (the best: "
            f"{milliseconds(times[best])} {_with(best, 'with')})."
        )
    faster = {each.target: each.shortfalls for each in others if times.get(each.target, before) < before}
    closest = nearest(faster)
    if closest is None:
        return f"{stay}: {take} {milliseconds(before)}, and no other setting is shown to meet the limits."
    missed = "; ".join(shortfall.text for shortfall in faster[closest])
    return (
        f"{stay}. {_with(closest)} {take} {milliseconds(times[closest])} instead of {milliseconds(before)}, "
        f"but {missed}."
    )


def _price_of_now(now: TargetSummary, others: Sequence[TargetSummary], objective: str) -> list[str]:
    """Return the throughput that the present setting costs, if another one carries clearly more."""
    more = [
        (setting, setting.throughput_share)
        for setting in others
        if setting.throughput_share is not None and setting.throughput_share.at_least(1 + LEAST_GAIN) == "yes"
    ]
    if not more:
        return []
    setting, share = max(more, key=lambda pair: pair[1].mean)
    return [
        f"{_with(setting.target)} throughput would be {with_range(share, share_text)} of the present one, "
        f"and {_TAKE[objective]} {with_range(value(setting, objective))}."
    ]


def _nothing_fits(now: TargetSummary, others: Sequence[TargetSummary]) -> str:
    """Return the limits that no setting meets, and the figures of the nearest one."""
    if not now.seeds:
        return "No advice: no run of the present setting ended well, so there is nothing to compare with."
    broken = {setting.target: setting.shortfalls for setting in others if setting.seeds}
    binds = binding(list(broken.values()))
    closest = nearest(broken)
    if not binds or closest is None:
        return "No setting is shown to meet the limits, the present one included."
    alone = all({shortfall.constraint for shortfall in each} >= set(binds) for each in broken.values())
    which = ", and none meets ".join(binds) if alone else " and ".join(binds)
    missed = "; ".join(shortfall.text for shortfall in broken[closest])
    return f"No setting meets {which}. {_with(closest)}, which is nearest: {missed}."


def _besides(chosen: TargetSummary, objective: str) -> list[str]:
    sentences = []
    if objective == END_TO_END and chosen.record_delay_ms is not None:
        sentences.append(
            f"Records then take {with_range(chosen.record_delay_ms)} to be processed, with "
            f"{with_range(chosen.in_flight_bytes, size)} in flight."
        )
    if objective == RECORD_DELAY and chosen.end_to_end_ms is not None:
        sentences.append(f"Checkpoints then take {with_range(chosen.end_to_end_ms)}.")
    if objective == END_TO_END and chosen.unaligned_end_to_end_ms is not None:
        sentences.append(
            f"Unaligned checkpoints at this target take {with_range(chosen.unaligned_end_to_end_ms)} "
            f"and store {with_range(chosen.persisted_bytes, size)} of data in flight each; records wait as "
            "long as with aligned ones."
        )
    return sentences + _adaptation(chosen)


def _adaptation(chosen: TargetSummary) -> list[str]:
    if not chosen.step_runs:
        return []
    when = "When the service time of the bottleneck doubles, the queues"
    settled = chosen.adaptation_ms
    if settled is None:
        return [f"{when} settle in none of {chosen.step_runs} runs."]
    return [f"{when} settle within {with_range(settled)}, to the second."]


def _open(setting: TargetSummary, now: TargetSummary, objective: str) -> str:
    """Return the open question about a setting, and the number of runs that would decide it."""
    doubts = [_doubt(shortfall) for shortfall in setting.shortfalls if shortfall.kept == "undecided"]
    if not doubts:
        doubts = [f"it is better than now: {with_range(value(setting, objective))}"]
    needed = [_runs_needed(shortfall) for shortfall in setting.shortfalls if shortfall.kept == "undecided"]
    return (
        f"{_with(setting.target)}, {len(setting.seeds)} seeds do not decide whether "
        f"{', nor whether '.join(doubts)}. {_remedy(needed)}"
    )


def _doubt(shortfall: Shortfall) -> str:
    text = share_text if shortfall.limit <= 1 else milliseconds
    return f"{shortfall.constraint} {text(shortfall.limit)} is met: {with_range(shortfall.value, text)}"


def _runs_needed(shortfall: Shortfall) -> int | None:
    return None if shortfall.value is None else shortfall.value.runs_to_decide(shortfall.limit)


def _remedy(needed: Sequence[int | None]) -> str:
    runs = max((count or MOST_RUNS_NAMED + 1 for count in needed), default=MOST_RUNS_NAMED + 1)
    if not needed:
        return "More seeds or a longer duration may decide it."
    if runs > MOST_RUNS_NAMED:
        return "The figure is too close to the limit; another limit would decide it."
    return f"About {runs} seeds would decide it (`seeds` {runs}), or another limit."


def _thin(*settings: TargetSummary) -> list[str]:
    """Return a sentence for each setting with too few checkpoints for reliable times."""
    few = {
        setting.target: setting.fewest_checkpoints
        for setting in settings
        if setting.fewest_checkpoints is not None and 0 < setting.fewest_checkpoints < SETTLED_CHECKPOINTS
    }
    return [
        f"{_with(target)} some run completed only {count} checkpoints, so the times are rough."
        for target, count in few.items()
    ]


def _with(target: str, word: str = "With") -> str:
    return f"{word}out debloating" if target == OFF else f"{word} a target of {target}"


def left_out_text(left_out: Sequence[str], tried: Sequence[TargetSummary]) -> str:
    """Return the targets that were not run, and the reason; both lists have the shortest target first."""
    last = next((each for each in tried if each.throughput_share is not None), None)
    if last is None or last.throughput_share is None:
        return f"Not run: {', '.join(left_out)}."
    share = f"{last.throughput_share.mean:.3f} of the throughput"
    return (
        f"Not run: {', '.join(left_out)}, since {last.target} leaves only {share}, and a shorter target "
        "cannot leave more. Set `min_throughput` to 0 to run all."
    )
