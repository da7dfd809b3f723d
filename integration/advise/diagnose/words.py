"""Words for what `diagnose` found: values as text, templates, and longer texts that depend on several values.

A template is text with named values in braces, as for `str.format`. After a colon stands a form: a name of
`FORMS`, a format of Python, or a choice for a condition, "yes|no"::

    {where} waits {delay_ms:ms}; {is_long:that is long|that is short}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Any

import numpy as np

from netstack import VertexSteady

from ...base.number_text import bytes_per_second, counted, digits, milliseconds, percent, size
from ...base.optional_figures import Values, complete, known
from .conditions import BACK_PRESSURED, HIGHLY_BACK_PRESSURED, costs_ms, share

if TYPE_CHECKING:
    from .headroom import Headroom
    from .observation import Observation
    from .trial import Outcome

Named = Mapping[str, Any]
"""Values by name."""

Line = str | Callable[[Named], Iterable[str]]
"""A template, or a function that returns the lines for some values."""

Bursts = Sequence[tuple[VertexSteady, VertexSteady]]
"""Writers that emit bursts, each with its reader."""


def fill(template: str, values: Named) -> str:
    """Return a template with its values."""
    return _TEMPLATES.vformat(template, (), values)


def lines(words: Iterable[Line], values: Named) -> list[str]:
    """Return the text of some lines; empty lines are left out."""
    texts: list[str] = []
    for line in words:
        texts += [fill(line, values)] if isinstance(line, str) else line(values)
    return [text for text in texts if text]


def when(name: str, line: str) -> Line:
    """Return a line that is left out unless a value is true."""
    return lambda values: [fill(line, values)] if values[name] else []


def unless(name: str, line: str) -> Line:
    """Return a line that is left out if a value is true."""
    return lambda values: [] if values[name] else [fill(line, values)]


_WORTH_MS = 0.5
"""A phase shorter than this, in ms, is left out."""


class _Templates(Formatter):
    def format_field(self, value: Any, form: str) -> str:
        if form in FORMS:
            return FORMS[form](value)
        if "|" in form:
            yes, no = form.split("|")
            return yes if value else no
        return format(value, form)


_TEMPLATES = _Templates()


def span(values: Values, form: str = ".2f", scale: float = 1.0) -> str:
    """Return the range of the known values as text: "min-max", or one number if both look the same."""
    listed = list(values)
    ordered = sorted(known(listed))
    if not ordered:
        return "unknown"
    low, high = f"{ordered[0] * scale:{form}}", f"{ordered[-1] * scale:{form}}"
    text = low if low == high else f"{low}-{high}"
    return text if len(ordered) == len(listed) else f"{text} in {len(ordered)} of {len(listed)} subtasks"


def span_percent(ms_per_s: Values) -> str:
    """Return times in ms per second as percentages, "99 %", or "24-100 %" over several subtasks."""
    capped = [None if time is None else min(time, 1000.0) for time in ms_per_s]
    low, _, rest = span(capped, ".0f", 0.1).partition(" in ")
    return low if low == "unknown" else f"{low} %" + (f" in {rest}" if rest else "")


def subtasks_text(vertex: VertexSteady, subtasks: Sequence[int]) -> str:
    """Return the names of some subtasks, or their number if there are many."""
    if len(subtasks) > 3:
        return f"{len(subtasks)} subtasks of {vertex.name}"
    return ", ".join(f"{vertex.name}[{index}]" for index in subtasks)


def _any_of(names: Sequence[str]) -> str:
    return " or ".join(names) if len(names) <= 3 else f"one of {len(names)} vertices"


def _writers_pressure(writers: Sequence[VertexSteady]) -> str:
    """Return the back-pressured time of writers, each with Flink's name for its level."""
    reported = [writer for writer in writers if known(writer.backpressured_ms_per_s)]
    texts = (
        f"{writer.name} {span_percent(writer.backpressured_ms_per_s)} ({_back_pressure_level(writer)})"
        for writer in reported
    )
    return ", ".join(texts) or "as Flink reports"


def _back_pressure_level(vertex: VertexSteady) -> str:
    """Return Flink's name for a vertex's back-pressure level."""
    pressed = share(vertex.backpressured_ms_per_s) or 0.0
    if pressed < BACK_PRESSURED:
        return "OK"
    return "HIGH" if pressed >= HIGHLY_BACK_PRESSURED else "LOW"


def _rate_and_cost(vertex: VertexSteady) -> str:
    """Return the record rate of a vertex and its cost per record; empty if the rate is unknown."""
    rates, costs = complete(vertex.records_in_per_s), costs_ms(vertex)
    if rates is None:
        return ""
    return f"reads {digits(sum(rates))} records/s" + (f", at {span(costs)} ms per record" if costs else "")


def _outcome(outcome: Outcome) -> str:
    """Return the checkpoint times and throughput of a trial."""
    change = f"at {100 * outcome.throughput_share:.1f} % of the throughput"
    if outcome.throughput_share > 1.1:
        change = f"with {outcome.throughput_share:.1f} times the throughput"
    return (
        f"emulated in {outcome.wall_seconds:.1f} s: a checkpoint takes {milliseconds(outcome.after_ms)} "
        f"instead of {milliseconds(outcome.before_ms)}, {change}"
    )


def _missed(view: Observation) -> str:
    """Return the duration of a checkpoint and the target, as the end of a sentence."""
    target = milliseconds(view.target_ms)
    if view.scenario is not None and not view.scenario.takes_checkpoints:
        return f"the target is {target}"
    took = view.steady.end_to_end_ms
    what = "no checkpoint completes" if took is None else f"a checkpoint takes {milliseconds(took)}"
    return f"{what} against a target of {target}"


def _worst(view: Observation) -> str:
    """Return the durations of a typical and of the longest checkpoint, as the end of a sentence."""
    usual, longest = view.steady.end_to_end_ms, view.steady.end_to_end_ms_max
    if usual is None or longest is None:
        return _missed(view)
    return (
        f"a checkpoint takes {milliseconds(usual)}, but up to {milliseconds(longest)}, against a target "
        f"of {milliseconds(view.target_ms)}"
    )


def _slowest(vertex: VertexSteady) -> str:
    """Return the start delay of the slowest subtask, as part of a sentence; empty if unknown."""
    slowest, mean = vertex.start_delay_ms_max_subtask, vertex.start_delay_ms_mean_subtask
    if slowest is None:
        return ""
    return (
        f"; the barrier reaches the slowest subtask after {milliseconds(slowest)}, and a subtask after "
        f"{milliseconds(mean)} on average"
    )


def _in_bursts(bursts: Bursts) -> str:
    """Return a clause on the bursts into which checkpoints fall; empty: there are none."""
    at_once = ", ".join(f"{writer.name} emits more than {reader.name} reads" for writer, reader in bursts)
    return f": they fall into bursts, in which {at_once}" if bursts else ""


def _slow_end(durations_ms: Sequence[float]) -> str:
    """Return the slow end of several durations, shortest first; empty for a single one."""
    if len(durations_ms) < 2:
        return ""
    return f" (95 %: {milliseconds(_percentile_95(durations_ms))}, slowest {milliseconds(durations_ms[-1])})"


def _percentile_95(values: Sequence[float]) -> float:
    return float(np.percentile(values, 95))


def _varying(durations_ms: Sequence[float]) -> str:
    """Return a sentence on durations that differ much, shortest first; empty: there are none."""
    if not durations_ms:
        return ""
    return (
        f" They took between {milliseconds(durations_ms[0])} and {milliseconds(durations_ms[-1])}: the load "
        "or the cost of a record changes, and means hide this."
    )


def _phases(phases: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {milliseconds(ms)}" for name, ms in phases.items() if ms >= _WORTH_MS)


def _two_sizes(sizes: Sequence[float | None]) -> str:
    """Return the smallest and the largest size of buffers, as part of a sentence; empty if unknown."""
    listed = known(sizes)
    return f", with buffers of {size(min(listed))} and of {size(max(listed))}" if listed else ""


FORMS: dict[str, Callable[[Any], str]] = {
    "ms": milliseconds,
    "size": size,
    "rate": bytes_per_second,
    "percent": percent,
    "digits": digits,
    "span": span,
    "whole span": lambda values: span(values, ",.0f"),
    "percent span": span_percent,
    "each": lambda values: ", ".join("?" if value is None else f"{value:.2f}" for value in values),
    "subtasks": lambda pair: subtasks_text(*pair),
    "checkpoints": lambda count: counted(count, "checkpoint"),
    "bursts": lambda count: counted(count, "burst"),
    "cases": lambda count: counted(count, "case"),
    "any of": _any_of,
    "pressure": _writers_pressure,
    "output pools": lambda writers: ", ".join(f"{each.name} {span(each.outPoolUsage)}" for each in writers),
    "rate and cost": _rate_and_cost,
    "in brackets": lambda outcome: "" if outcome is None else f" ({_outcome(outcome)})",
    "in bursts": _in_bursts,
    "of which": lambda count: f", on average over the {count} checkpoints that took long" if count else "",
    "phases": _phases,
    "slow end": _slow_end,
    "varying": _varying,
    "two sizes": _two_sizes,
    "missed": _missed,
    "worst": _worst,
    "slowest": _slowest,
}
"""Functions that return a value as text, by the name of the form."""


def limits(values: Named) -> Iterator[str]:
    """Yield a line for each limit of an exchange, or a line that none is known."""
    if not values["limits"]:
        if values["view"].link is None:
            yield "the round trip time is not reported, so this limit is unknown: buffers x size / round trip"
        else:
            yield "either this link has no limit by credit and bandwidth, or its limits are unknown"
    for used, bytes_per_s, credit in values["limits"]:
        rate = bytes_per_second(bytes_per_s)
        if credit is None:
            yield f"{percent(used)} of the bandwidth of {rate} is used"
        else:
            buffers, buffer_bytes, round_trip_ms = credit
            yield (
                f"{buffers} buffers of {size(buffer_bytes)} in a round trip of {milliseconds(round_trip_ms)} "
                f"allow a subtask at most {rate}; it reads {percent(used)} of that"
            )


def data_waiting(values: Named) -> Iterator[str]:
    """Yield a line on the data queued before each vertex, and the time to consume it."""
    for vertex, subtasks, waits, rate in values["waiting"]:
        whose = subtasks_text(vertex, subtasks) if subtasks else vertex.name
        share = waits.sender_share
        where = "" if share is None else f", {percent(share)} of it at the senders"
        yield (
            f"{size(waits.bytes)} of data waits before {whose}{where}: at {bytes_per_second(rate)}, that "
            f"takes {milliseconds(1000 * waits.bytes / rate)}"
        )


def times_of_uneven(values: Named) -> Iterator[str]:
    """Yield a line on the long checkpoints, beside most others."""
    long_ms, durations_ms = values["long_ms"], values["durations_ms"]
    took = f"the longest took {milliseconds(values['slowest'])}"
    if long_ms:
        least, most = milliseconds(long_ms[0]), milliseconds(long_ms[-1])
        lengths = most if least == most else f"{least} to {most}"
        took = f"{len(long_ms)} of {counted(values['view'].steady.checkpoints, 'checkpoint')} took {lengths}"
    yield f"{took}; half of all checkpoints took at most {milliseconds(values['usual'])}" + (
        f", and 95 % at most {milliseconds(_percentile_95(durations_ms))}" if durations_ms else ""
    )


def burst_times(values: Named) -> Iterator[str]:
    """Yield a line on the times of each writer that emits bursts, and of its reader."""
    for writer, reader in values["bursts"]:
        yield (
            f"{writer.name} is back-pressured {span_percent(writer.backpressured_ms_per_s)} of its time, and "
            f"{reader.name}, for which it waits, is busy {span_percent(reader.busy_ms_per_s)}"
        )


def advice_on_bursts(values: Named) -> Iterator[str]:
    """Yield the advice against bursts of each writer's output."""
    for writer, reader in values["bursts"]:
        if values["view"].inputs(writer):
            yield (
                f"Let {writer.name} emit in smaller portions: spread the times at which windows and timers "
                "fire. Buffer options change little, since a task handles no barrier while it emits a "
                "portion."
            )
        else:
            yield f"Check the input of {writer.name}: it arrives in bursts."
        yield f"Raise the parallelism of {reader.name}, so that it reads a burst faster."


def failure_reasons(values: Named) -> Iterator[str]:
    """Yield a line for each reason of failed checkpoints."""
    for reason, count in values["reasons"]:
        yield f"{counted(count, 'time')}: {reason}"


def let_less_wait(values: Named) -> Iterator[str]:
    """Yield the advice to let less data wait, if it may help, with its outcome."""
    if not values["may_help"]:
        return
    target, outcome = values["view"].target_ms, values["with_less"]
    advice, what = "Turn on buffer debloating", f"with a target of {milliseconds(target)}, "
    if values["view"].config.debloat_enabled:
        advice = f"Set a debloat target below {milliseconds(target)}"
        what = f"with half of it, {milliseconds(target / 2)}, "
    tried = "" if outcome is None else f" ({what}{_outcome(outcome)})"
    yield f"{advice}{tried}. `netstack tune` finds the best target and what it costs."


def headroom_text(headroom: Headroom) -> str:
    """Return the headroom in one sentence."""
    first, limit = headroom.bottleneck.vertex, headroom.limit
    if not headroom.is_bounded:
        return f"No vertex reaches its limit at up to {limit:.3g} times today's load."
    if headroom.has_room:
        return f"{first} is the first to reach its limit, at {limit:.3g} times today's load."
    if headroom.keeps_up:
        return f"The job is at its limit: {first} cannot take more than today's load."
    return f"The job does not keep up: {first} can take {limit:.2g} times today's load."


def cpu_bound_text(headroom: Headroom, if_cpu_bound: Headroom | None) -> str | None:
    """Return a sentence on the limit if work is CPU-bound; None: this is known, or changes little."""
    if if_cpu_bound is None or not headroom.is_bounded or not headroom.differs(if_cpu_bound):
        return None
    return (
        "It is unknown whether the work of tasks is CPU-bound or waits. If it is CPU-bound, the limit is at "
        f"{if_cpu_bound.limit:.3g} times today's load (at {if_cpu_bound.bottleneck.vertex})."
    )
