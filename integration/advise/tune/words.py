"""Words of `tune`: the recommendation in sentences, and texts for what a choice among settings found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from netstack import CheckpointResult, Scenario, format_duration

from ...base.number_text import milliseconds, size
from ...base.optional_figures import known
from ..diagnose.words import headroom_text
from ..sweeps.end_of_run import SETTLED_CHECKPOINTS
from .choice import SAME_THROUGHPUT, WORTH_SHARE, Broken, Choice, Outcome
from .model_error import ModelError, agrees
from .race import OWN, Race
from .settings import NOW, PRICES, is_large

if TYPE_CHECKING:
    from .recommend import PolicyResult, Recommendation, SettingSummary


NOTEWORTHY = 0.15
"""Minimum reach of an interval over seeds, as a share of the mean, for the advice to mention it."""


def present_text(scenario: Scenario) -> str:
    """Return the present setting as text, such as "debloating off" or "target 1 s, unaligned"."""
    config = scenario.config
    aligned = ", unaligned" if config.takes_unaligned_checkpoints else ""
    if not config.debloat_enabled:
        return f"debloating off{aligned}"
    return f"target {format_duration(config.debloat_target_s)}{aligned}"


def recommendation_words(race: Race, settings: Mapping[str, SettingSummary], choice: Choice) -> list[str]:
    """Return the recommendation in sentences: the verdict, the alternatives, and the open questions."""
    now = settings[NOW]
    if choice.chosen is None:
        return [_nothing_fits(settings, race)]
    chosen = settings[choice.chosen]
    action = chosen.action[0].upper() + chosen.action[1:]
    at_limit = "at the limit, " if race.at_limit is not None else ""
    words = [_keep(settings, race) if chosen is now else f"{action}: {at_limit}{effect(chosen, now)}."]
    words += known([_about_the_limit(race, now, chosen), _about_the_peak(now, chosen)])
    words += known([None if chosen is now else _how_sure(chosen, race.error)])
    words += known(PRICES.get(each) for each in race.settings[choice.chosen].mechanisms)
    words += [alternative_text(kind, settings[name], now) for kind, name in choice.alternatives]
    if undecided := race.undecided():
        words.append(
            f"In some of the runs with {len(chosen.seeds)} seeds, {' or '.join(undecided)} is better; the "
            "mean over all seeds decides."
        )
    if race.left_out:
        words.append(
            f"Not run: {', '.join(race.left_out)}. A longer target already costs too much throughput, and "
            "a shorter one costs at least as much."
        )
    if is_large(race.scenario) and len(chosen.seeds) == 1:
        words.append(
            f"The job has {race.scenario.channels:,} channels, so a run takes long: each setting ran only "
            "once."
        )
    return [*words, *_few_checkpoints(now, chosen)]


def _about_the_limit(race: Race, now: SettingSummary, chosen: SettingSummary) -> str | None:
    """Return a sentence on the job's limit, and on today's load; None: its load changes with time."""
    if race.headroom is None:
        return None
    sentence = headroom_text(race.headroom)
    before, after = now.today.get("end_to_end_ms"), chosen.today.get("end_to_end_ms")
    if before is None or after is None:
        return sentence
    today = f"At today's load, checkpoints take {milliseconds(after.mean)}"
    if chosen is not now:
        today += f" instead of {milliseconds(before.mean)}"
    return f"{sentence} {today}."


def _about_the_peak(now: SettingSummary, chosen: SettingSummary) -> str | None:
    """Return a sentence on the phase of the load with the slowest checkpoints; None: there is one phase."""
    before, after = now.mean("worst_phase_ms"), chosen.mean("worst_phase_ms")
    if now.worst_phase is None or before is None:
        return None
    sentence = f"The slowest checkpoints now are those {now.worst_phase}: they take {milliseconds(before)}"
    if chosen is now or after is None:
        return f"{sentence}."
    return (
        f"{sentence}. With {chosen.name}, the slowest are those {chosen.worst_phase}: {milliseconds(after)}."
    )


def _how_sure(chosen: SettingSummary, error: ModelError) -> str | None:
    """Return a sentence on what a real Flink may show; None: it is as close to the emulation as usual."""
    load = chosen.promised
    time = load.figures.get("end_to_end_ms")
    if time is None:
        return None
    band = error.of_time(time)
    if error.why is None and time.greatest - time.mean <= max(NOTEWORTHY * time.mean, error.more_ms):
        return None
    because = "runs differ" if error.why is None else error.why
    today = "at today's load, " if chosen.today else ""
    times = f"{today}expect checkpoints of {milliseconds(band.low)} to {milliseconds(band.high)}"
    share = load.throughput_share
    if share is None or chosen.today:
        return f"This is less certain than usual, since {because}: {times}."
    shares = error.of_share(share)
    return (
        f"This is less certain than usual, since {because}: {times}, and {100 * shares.low:.0f} to "
        f"{100 * shares.high:.0f} % of the present throughput."
    )


def effect(chosen: SettingSummary, now: SettingSummary, than: str = "") -> str:
    """Return as text how `chosen` compares with `now`: times, throughput, and what else `chosen` costs."""
    takes_checkpoints = chosen.mean("end_to_end_ms") is not None
    what, time = ("checkpoints", "end_to_end_ms") if takes_checkpoints else ("records", "record_delay_ms")
    before = now.mean(time)
    instead = ", and none completes now" if before is None else f" instead of {milliseconds(before)}{than}"
    parts = [f"{what} take {milliseconds(chosen.mean(time))}{instead}", throughput_text(chosen, now)]
    if stored := chosen.mean("persisted_bytes"):
        parts.append(f"each stores {size(stored)} of data in flight")
    delay, before = chosen.mean("record_delay_ms"), now.mean("record_delay_ms")
    if stored and delay is not None and before is not None and delay > 0.8 * before:
        parts.append(f"records still take {milliseconds(delay)}")
    return ", ".join(parts)


def throughput_text(setting: SettingSummary, now: SettingSummary) -> str:
    """Return the throughput of a setting relative to another one, in words."""
    shares = (setting.throughput_share, now.throughput_share)
    if shares[0] is None or shares[1] is None or not shares[1].mean:
        return "throughput unknown"
    share = shares[0].mean / shares[1].mean
    if abs(share - 1) < SAME_THROUGHPUT:
        return "throughput unchanged"
    if share >= 1.5:
        return f"throughput {share:.1f} times as high"
    return f"throughput {100 * abs(share - 1):.1f} % {'lower' if share < 1 else 'higher'}"


def measured_text(now: SettingSummary, checkpoints: Sequence[CheckpointResult]) -> str | None:
    """Return a sentence on the times of a real job's checkpoints beside those of the emulation.

    It warns if they differ by more than the tolerance of a comparison with Flink, and the emulated time is
    outside the range of Flink's checkpoints. Return None if Flink reports no completed checkpoint.
    """
    times = known(each.duration_ms for each in checkpoints if each.completed)
    figure = (now.today or now.figures).get("end_to_end_ms")
    emulated = None if figure is None else figure.mean
    if not times:
        return None
    mean = fmean(times)
    ends = f"{milliseconds(min(times))} to {milliseconds(max(times))}"
    spread = "" if len(times) == 1 else f" on average ({ends})"
    sentence = f"Flink reports that checkpoints take {milliseconds(mean)}{spread}"
    if emulated is None:
        return f"{sentence}; in the emulation of the present setting, none completes."
    if agrees(emulated, times):
        return f"{sentence}; the emulation agrees ({milliseconds(emulated)})."
    return (
        f"Warning: {sentence}, and the emulation says {milliseconds(emulated)}. Figures of other settings "
        "may differ as much from a real job; `netstack validate` shows which quantities differ."
    )


def alternative_text(kind: str, setting: SettingSummary, now: SettingSummary) -> str:
    """Return an alternative in one sentence."""
    return f"{kind[0].upper()}{kind[1:]}: {setting.action}; {effect(setting, now)}."


def _keep(settings: Mapping[str, SettingSummary], race: Race) -> str:
    now = settings[NOW]
    (outcome,) = race.outcomes(among=[race.settings[NOW]])
    if race.is_well(outcome):
        return _nothing_to_change(outcome, race)
    time = now.mean("end_to_end_ms")
    where = "at the limit, " if race.at_limit is not None else ""
    take = f"{where}checkpoints take {milliseconds(time)}"
    if time is None:
        take = f"records take {milliseconds(now.mean('record_delay_ms'))}"
    faster = [
        each
        for each in settings.values()
        if each.broken and each.policy in OWN and each.time_ms < (1 - WORTH_SHARE) * now.time_ms
    ]
    reason = "no other setting is clearly better"
    if faster:
        best = min(faster, key=lambda each: (len(each.broken), each.time_ms))
        reason = f"{best.name} takes {milliseconds(best.time_ms)}, but {best.broken[0]}"
    return f"Keep the present setting ({present_text(race.scenario)}): {take}, and {reason}."


def _nothing_to_change(now: Outcome, race: Race) -> str:
    limits, interval_s = race.constraints, race.scenario.config.checkpoint_interval_s
    share = f"{100 * limits.fast_enough_share:g} % of the interval of {format_duration(interval_s or 0.0)}"
    where = "at the limit, " if race.at_limit is not None else ""
    longest = milliseconds(now.checkpoint_p95_ms)
    return (
        f"Nothing to change: {where}95 % of the checkpoints take at most {longest}, which is less "
        f"than {milliseconds(limits.fast_enough_ms)} and less than {share}. To find faster settings, give a "
        "limit or `only`."
    )


def _nothing_fits(settings: Mapping[str, SettingSummary], race: Race) -> str:
    """Return a sentence that no setting meets the limits, with the setting that violates the fewest."""
    if not settings[NOW].seeds:
        return "No advice: all runs of the present setting failed, so there is nothing to compare with."
    nearest = min(settings.values(), key=lambda each: (len(each.broken), each.time_ms))
    name = "the present setting" if nearest.name == NOW else nearest.name
    return f"No setting keeps to all limits. The nearest is {name}: {'; '.join(nearest.broken)}."


def _few_checkpoints(now: SettingSummary, chosen: SettingSummary) -> list[str]:
    """Return a sentence for each setting with too few checkpoints for reliable times."""
    said = []
    for setting in [now] if chosen is now else [now, chosen]:
        completed, runs = setting.checkpoints_completed, len(setting.seeds)
        if 0 < completed < SETTLED_CHECKPOINTS * runs:
            who, count = "Now" if setting is now else f"With {setting.name}", f"{completed / runs:.0f}"
            said.append(f"{who}, only {count} checkpoints complete in a run, so their times are rough.")
    return said


def _seeds(setting: SettingSummary) -> str:
    return "1 seed shows" if len(setting.seeds) == 1 else f"{len(setting.seeds)} seeds show"


def broken_text(broken: Broken) -> str:
    """Return a violated limit as a clause."""
    name, value, allowed = broken
    if value is None:
        return _UNKNOWN[name]
    match name:
        case "failed":
            return f"{value} of its runs failed"
        case "throughput":
            return f"throughput falls to {100 * value:.1f} %"
        case "expired":
            return f"{100 * value:.0f} % of the checkpoints expire"
        case "checkpoints" | "records":
            times = f"{milliseconds(value)} instead of {milliseconds(allowed)}"
            return f"at today's load, {name} take {times}"
    text = size if name == "stored_bytes" else milliseconds
    return f"{_LIMITED[name]} up to {text(value)}, not {text(allowed)}"


_LIMITED = {
    "checkpoint_p95_ms": "95 % of checkpoints take",
    "delay_p95_ms": "95 % of records take",
    "stored_bytes": "each checkpoint stores",
}
_UNKNOWN = {
    "throughput": "its throughput was not measured",
    "checkpoint_ms": "no checkpoint completes",
    "today": "at today's load, the job does not keep up",
    **{name: f"{what} an unknown amount" for name, what in _LIMITED.items()},
}


def policy_text(result: PolicyResult, before: SettingSummary) -> str:
    """Return in a sentence how another policy compares with the setting chosen for the job's own one."""
    policy, best = result.policy, result.best
    if best is None:
        return f"{policy} is not clearly better."
    than = f" with {'the present setting' if before.name == NOW else before.name}"
    figures = f": with {best.name}, {effect(best, before, than)}"
    match result.verdict:
        case "no rival":
            return f"{policy} is not clearly better{figures}."
        case "no difference":
            found = result.difference
            interval = ""
            if found is not None and found.low is not None:
                interval = (
                    " (95 % interval of the difference with the same seeds: "
                    f"{found.low:.0f} to {found.high:.0f} ms)"
                )
            return f"{policy}: no difference that {_seeds(best)}{figures}{interval}."
        case "loses throughput":
            return f"{policy} is not better at an equal throughput{figures}."
    if result.gain == "record_delay_ms" and best.mean("end_to_end_ms") is not None:
        delays = (best.mean("record_delay_ms"), before.mean("record_delay_ms"))
        figures += f", records take {milliseconds(delays[0])} instead of {milliseconds(delays[1])}"
    return f"{policy} is better{figures}."


def cpu_bound_text(again: Recommendation | None) -> str:
    """Return a sentence on the recommendation if the work is CPU-bound; None: it is the same."""
    if again is None:
        return "It is unknown whether the work of tasks is CPU-bound or waits; the advice is the same."
    lines = f" ({'; '.join(again.configuration)})" if again.configuration else ""
    return (
        "It is unknown whether the work of tasks is CPU-bound or waits. This advice holds if it waits. If it "
        f"is CPU-bound: {again.words[0].removesuffix('.')}{lines}."
    )
