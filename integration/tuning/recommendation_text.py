"""A recommendation in sentences: what to set, what that changes against now, and how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..number_text import milliseconds, size
from .choice import END_TO_END, LEAST_GAIN, OBJECTIVES, RECORD_DELAY, Choice, breaks_constraint, value
from .constraints import Shortfall
from .estimates import Estimate
from .pitfalls import Pitfall
from .settling import SETTLED_CHECKPOINTS
from .summaries import OFF, TargetSummary

MOST_RUNS_NAMED = 100
"""Most runs that are proposed to decide a question; one that needs more is called undecided."""


def words(
    choice: Choice,
    now: TargetSummary,
    others: Sequence[TargetSummary],
    objective: str,
    pitfalls: Sequence[Pitfall] = (),
) -> list[str]:
    """Return the recommendation in sentences, the most important one first.

    `others` are the settings that were compared with `now`, `pitfalls` those that the chosen one shows.
    """
    if choice.kind == "none":
        sentences = [_nothing_fits(now)]
    elif choice.kind == "keep":
        sentences = [_keep(now, others, objective), *_price_of_now(now, others, objective)]
    else:
        sentences = [_change(choice, now, objective, pitfalls), *_besides(choice.setting, objective)]
    sentences += [_open(setting, now, objective) for setting in choice.undecided]
    return [*sentences, *_thin(now, choice.setting)]


def binding_text(binding: Sequence[str], settings: Sequence[TargetSummary], nearest: str | None) -> str:
    """Return which constraint binds, with the figures of the setting that comes nearest to keeping to it."""
    closest = next(setting for setting in settings if setting.target == nearest)
    shown = "; ".join(shortfall.text for shortfall in closest.shortfalls)
    broken = [
        {shortfall.constraint for shortfall in setting.shortfalls} for setting in settings if setting.seeds
    ]
    alone = all(set(binding) <= each for each in broken)
    which = binding[0] if len(binding) == 1 else f"{', '.join(binding[:-1])} and {binding[-1]}"
    verb = "binds" if len(binding) == 1 else "bind, each by itself" if alone else "together bind"
    return f"{which[0].upper()}{which[1:]} {verb}. {_with(closest.target)}, which comes nearest: {shown}."


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
    """Return a share of throughput as sentences have it."""
    return "an unknown share" if share is None else f"{share:.3f}"


def _change(choice: Choice, now: TargetSummary, objective: str, pitfalls: Sequence[Pitfall]) -> str:
    """Return the setting in one sentence, with its warnings."""
    chosen = choice.setting
    do = "Turn debloating off" if chosen.target == OFF else f"Set the debloat target to {chosen.target}"
    what = "checkpoints take" if objective == END_TO_END else "records are under way for"
    rate = chosen.throughput_share
    price = "" if rate is None else f", at {with_range(rate, share_text)} of the throughput"
    if breaks_constraint(now):
        price += f"; now {'; '.join(shortfall.text for shortfall in now.shortfalls)}"
    shown = ", and ".join(f"{pitfall.what} ({pitfall.name}, below)" for pitfall in pitfalls)
    warned = f"; but {shown}" if shown else ""
    return f"{do}: {what} {_against(chosen, now, objective)}{price}{warned}."


def _against(chosen: TargetSummary, now: TargetSummary, name: str) -> str:
    before = value(now, name)
    instead = "" if before is None else f" instead of {with_range(before)} now"
    if name == END_TO_END and now.seeds and not now.checkpoints_completed:
        instead = ", where none completes now"
    return f"{with_range(value(chosen, name))}{instead}"


def _keep(now: TargetSummary, others: Sequence[TargetSummary], objective: str) -> str:
    """Why to leave things as they are: the present figure, and the best of those that would do."""
    stay = "Leave debloating off" if now.target == OFF else f"Keep the debloat target of {now.target}"
    what = OBJECTIVES[objective]
    if value(now, objective) is None:
        return f"{stay}: the {what} could not be measured, so nothing is known to be better."
    present = f"the {what} is {with_range(value(now, objective))} now"
    fitting = [
        (setting, time)
        for setting in others
        if setting.keeps == "yes" and (time := value(setting, objective))
    ]
    if not fitting:
        return f"{stay}: {present}, and no other setting is shown to keep to the constraints."
    best, time = min(fitting, key=lambda pair: pair[1].mean)
    rate = (
        ""
        if best.throughput_share is None
        else f" at {share_text(best.throughput_share.mean)} of the throughput"
    )
    shown = f"{with_range(time)} {_with(best.target, 'with')}{rate}"
    return f"{stay}: {present}; nothing is shown to be better, the best is {shown}."


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
        f"Throughput would be {with_range(share, share_text)} of what it is now "
        f"{_with(setting.target, 'with')}, where the {OBJECTIVES[objective]} is "
        f"{with_range(value(setting, objective))}."
    ]


def _nothing_fits(now: TargetSummary) -> str:
    if not now.seeds:
        return "Nothing can be advised: no run of the present setting ended well, to compare with."
    return "No setting is shown to keep to the constraints, the present one included."


def _besides(chosen: TargetSummary, objective: str) -> list[str]:
    sentences = []
    if objective == END_TO_END and chosen.record_delay_ms is not None:
        sentences.append(
            f"Records are then under way for {with_range(chosen.record_delay_ms)}, "
            f"with {with_range(chosen.in_flight_bytes, size)} in flight."
        )
    if objective == RECORD_DELAY and chosen.end_to_end_ms is not None:
        sentences.append(f"Checkpoints then take {with_range(chosen.end_to_end_ms)}.")
    if objective == END_TO_END and chosen.unaligned_end_to_end_ms is not None:
        sentences.append(
            f"Unaligned checkpoints at this target take {with_range(chosen.unaligned_end_to_end_ms)} "
            f"and store {with_range(chosen.persisted_bytes, size)} of data in flight each; records wait as "
            "long as before."
        )
    return sentences + _adaptation(chosen)


def _adaptation(chosen: TargetSummary) -> list[str]:
    if not chosen.step_runs:
        return []
    when = "When the service time of the bottleneck doubles, the queues"
    settled = chosen.adaptation_ms
    if settled is None:
        return [f"{when} settle in none of {chosen.step_runs} runs."]
    return [f"{when} settle within {with_range(settled)}; there is a sample each second."]


def _open(setting: TargetSummary, now: TargetSummary, objective: str) -> str:
    """Return the question about a setting that the runs do not decide, and what would decide it."""
    doubts = [_doubt(shortfall) for shortfall in setting.shortfalls if shortfall.kept == "undecided"]
    if not doubts:
        doubts = [f"it is better than now: {with_range(value(setting, objective))}"]
    needed = [_runs_needed(shortfall) for shortfall in setting.shortfalls if shortfall.kept == "undecided"]
    return (
        f"{_with(setting.target)}, {len(setting.seeds)} seeds do not decide whether "
        f"{'; nor whether '.join(doubts)}. {_remedy(needed)}"
    )


def _doubt(shortfall: Shortfall) -> str:
    text = share_text if shortfall.limit <= 1 else milliseconds
    return f"{shortfall.constraint} {text(shortfall.limit)} is kept: {with_range(shortfall.value, text)}"


def _runs_needed(shortfall: Shortfall) -> int | None:
    return None if shortfall.value is None else shortfall.value.runs_to_decide(shortfall.limit)


def _remedy(needed: Sequence[int | None]) -> str:
    runs = max((count or MOST_RUNS_NAMED + 1 for count in needed), default=MOST_RUNS_NAMED + 1)
    if not needed:
        return "More seeds or a longer duration would tell."
    if runs > MOST_RUNS_NAMED:
        return "It lies on the limit, for all that can be told; a limit that is not so near would decide it."
    return f"About {runs} seeds would decide it (`seeds` {runs}), or a limit that is not so near."


def _thin(*settings: TargetSummary) -> list[str]:
    """Settings whose windows hold too few checkpoints to speak of their times."""
    few = {
        setting.target: setting.fewest_checkpoints
        for setting in settings
        if setting.fewest_checkpoints is not None and 0 < setting.fewest_checkpoints < SETTLED_CHECKPOINTS
    }
    return [
        f"{_with(target)} a window holds as few as {count} completed checkpoints, so its times are rough."
        for target, count in few.items()
    ]


def _with(target: str, word: str = "With") -> str:
    return f"{word}out debloating" if target == OFF else f"{word} a target of {target}"


def left_out_text(left_out: Sequence[str], tried: Sequence[TargetSummary]) -> str:
    """Say which targets were not run, and why; both lists have the shortest target first."""
    last = next((each for each in tried if each.throughput_share is not None), None)
    if last is None or last.throughput_share is None:
        return f"Not run: {', '.join(left_out)}."
    share = f"{last.throughput_share.mean:.3f} of the throughput"
    return (
        f"Not run: {', '.join(left_out)}, since {last.target} leaves only {share}, and a shorter target "
        "cannot leave more (`min_throughput` 0 has all run)."
    )
