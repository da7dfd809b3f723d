"""Settings that a user may change while a job runs: controls, and the changes that they make."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from flowcontrol import POLICIES
from netstack import (
    OPTIONS,
    CheckpointMode,
    GeneratorSpec,
    QuantityError,
    Scenario,
    ScheduledChange,
    Vertex,
    changed,
    format_duration,
    parse_duration,
)

from ..base.errors import UsageError
from ..runs.job_load import at_load, rates_of
from .messages import Change, Control

POLICY, SERVICE, SKEW, RATE, LOAD = "policy", "service", "service_skew", "rate", "load"
"""Keys of controls that are not Flink options."""

_SWITCHES = {
    "debloat_enabled": "Buffer debloating",
    "unaligned_enabled": "Unaligned checkpoints",
    "adaptive_partitioner_enabled": "Adaptive partition selection",
}
_DURATIONS = {
    "debloat_target_s": ("Debloating target", 0.01, 10.0),
    "checkpoint_interval_s": ("Checkpoint interval", 0.1, 60.0),
    "aligned_checkpoint_timeout_s": ("Aligned checkpoint timeout", 0.0, 10.0),
    "checkpoint_timeout_s": ("Checkpoint timeout", 0.1, 600.0),
}
"""Label, minimum and maximum of each slider. A user may type larger values."""

_OF_JOB = {POLICY: "Debloating policy", LOAD: "Load of the sources"}
_OF_VERTEX = {SERVICE: "Cost of a record", SKEW: "Skew of the subtasks", RATE: "Rate"}
_OF_FAULTS = {
    "subtask": "Subtask",
    "task_manager": "Task manager",
    "from_task_manager": "Link between task managers",
    "to_task_manager": "Link between task managers",
    "for": "Duration",
}
_LABELS = (
    {OPTIONS[field].name: label for field, label in _SWITCHES.items()}
    | {OPTIONS[field].name: label for field, (label, _, _) in _DURATIONS.items()}
    | _OF_JOB
    | _OF_VERTEX
    | _OF_FAULTS
)
"""Labels of the fields of the page, by the keys of scenario files."""

_PLACE = re.compile(r"(?:changes|faults)\.\d+\.(?:flink\.)?(.+?): (.*)")
"""Pattern of a message about a change or fault of a scenario. Its groups are the key and the problem."""

_CONSTANT = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")

_MOST_SERVICE_S = 0.1
_MOST_RATE = 100_000.0
_LEAST_LOAD, _MOST_LOAD = 0.25, 4.0
"""Minimum and maximum of the slider of the load. A user may type other factors."""

_SAME_FACTOR = 1e-4
"""Relative difference up to which sources have the same load. Their rates are rounded to six digits."""

_RATES = "records per second, or 0 (as fast as possible); with commas between subtasks, such as 3000, 2000"
_FACTORS = "factors of 0 or more with colons between subtasks, such as 1:1:1:4"


def policies_of(scenario: Scenario, offered: Iterable[str] = ()) -> list[str]:
    """Return the debloating policies to choose from: all built-in ones, those offered, and the job's own.

    The page can choose no other policy. So it cannot name code to import.
    """
    settings = [setting for change in scenario.changes for setting in change.settings]
    named = [str(value) for field, value in settings if field == "debloat_policy"]
    beside = {scenario.config.debloat_policy, *named, *offered} - POLICIES.keys()
    return [*sorted(POLICIES), *sorted(beside)]


def controls_of(scenario: Scenario, policies: Sequence[str], unloaded: Scenario) -> list[Control]:
    """Return the controls of a job, with their values after all its changes.

    `unloaded` has the rates of a load of 1, at the current moment.
    """
    now = reduce(changed, scenario.changes, scenario)
    controls = [_of_load(now, unloaded), *_of_job(now, policies)]
    for vertex in now.vertices:
        controls += _of_vertex(vertex)
    return controls


def _of_job(scenario: Scenario, policies: Sequence[str]) -> Iterator[Control]:
    config = scenario.config
    takes_checkpoints = config.checkpoint_interval_s is not None
    exactly_once = config.checkpoint_mode is CheckpointMode.EXACTLY_ONCE
    in_turns = any(edge.strategy.in_turns for edge in scenario.edges)
    offered = {
        "unaligned_enabled": takes_checkpoints and exactly_once,
        "adaptive_partitioner_enabled": in_turns,
    }
    for field, label in _SWITCHES.items():
        if offered.get(field, True):
            value = "true" if getattr(config, field) else "false"
            yield Control(OPTIONS[field].name, label, "switch", value)
    yield Control(POLICY, _LABELS[POLICY], "choice", config.debloat_policy, choices=list(policies))
    for field, (label, least, most) in _DURATIONS.items():
        if field == "debloat_target_s" or takes_checkpoints:
            value = format_duration(getattr(config, field))
            yield Control(OPTIONS[field].name, label, "duration", value, least=least, most=most)


def _of_load(now: Scenario, unloaded: Scenario) -> Control:
    why_not = why_no_load(unloaded)
    value = "" if why_not else _load_text(now, unloaded)
    return Control(LOAD, _LABELS[LOAD], "load", value, least=_LEAST_LOAD, most=_MOST_LOAD, why_not=why_not)


def why_no_load(scenario: Scenario) -> str | None:
    """Return why the load of a job cannot be multiplied; None: it can."""
    sources = [vertex for vertex in scenario.vertices if vertex.source is not None]
    unlimited = [vertex.name for vertex in sources if not all(rates_of(vertex))]
    if not unlimited:
        return None
    names, one = " and ".join(unlimited), len(unlimited) == 1
    verb, rate = ("emits", "it a rate") if one else ("emit", "them rates")
    return f"{names} {verb} as fast as possible, so there is no rate to multiply; give {rate} first"


def _load_text(now: Scenario, unloaded: Scenario) -> str:
    """Return the factor between the rates of two scenarios; empty: the sources have different factors."""
    factors = [
        rate / own
        for vertex, other in zip(now.vertices, unloaded.vertices, strict=True)
        if vertex.source is not None
        for rate, own in zip(rates_of(vertex), rates_of(other), strict=True)
    ]
    first = factors[0]
    same = first > 0 and all(math.isclose(each, first, rel_tol=_SAME_FACTOR) for each in factors)
    return f"{first:.4g}" if same else ""


def load_changes(unloaded: Scenario, value: str) -> list[ScheduledChange]:
    """Return the changes, without a time, that give all sources a multiple of their rates in a scenario.

    Raises:
        UsageError: the value is not a number above 0, or a source has no rate.
    """
    label = _LABELS[LOAD]
    why_not = why_no_load(unloaded)
    if why_not is not None:
        raise UsageError([f"{label}: {why_not}"])
    try:
        factor = float(value)
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise UsageError([f"{label}: {value!r} is not possible; it must be a number above 0, such as 1.5"])
    return [
        ScheduledChange(at_s=0.0, vertex=vertex.name, rates=vertex.source.rates)
        for vertex in at_load(unloaded, factor).vertices
        if vertex.source is not None
    ]


def _of_vertex(vertex: Vertex) -> Iterator[Control]:
    name = vertex.name
    if isinstance(vertex.source, GeneratorSpec):
        rates = _text_of(vertex.source.rates, ", ")
        yield Control(RATE, _LABELS[RATE], "rate", rates, vertex=name, least=0.0, most=_MOST_RATE)
    elif vertex.source is None:
        cost = _cost_text(vertex.service[-1][1] if vertex.service else 0.0)
        yield Control(
            SERVICE, _LABELS[SERVICE], "duration", cost, vertex=name, least=0.0, most=_MOST_SERVICE_S
        )
        skew = _text_of(vertex.service_skew, ":")
        yield Control(SKEW, _LABELS[SKEW], "factors", skew, vertex=name)


def _text_of(values: tuple[float, ...], separator: str) -> str:
    return separator.join(f"{value:.15g}" for value in values)


def _cost_text(seconds: float) -> str:
    """Return the cost of a record in milliseconds, so that all costs of a job have one unit."""
    return f"{1e3 * seconds:.6g} ms"


def words_of(change: ScheduledChange) -> str:
    """Return a change in the page's words, for the list of events."""
    parts = []
    for field, value in change.settings:
        key, text = POLICY, value
        if field in OPTIONS:
            key, text = OPTIONS[field].name, OPTIONS[field].kind.render(value)
        if isinstance(value, bool):
            text = "on" if value else "off"
        parts.append(f"{_of(key, None)} to {text}")
    of_vertex = {
        SERVICE: None if change.service_s is None else _cost_text(change.service_s),
        SKEW: _text_of(change.service_skew, ":"),
        RATE: f"{_text_of(change.rates, ', ')} records/s" if change.rates else None,
    }
    parts += [f"{_of(key, change.vertex)} to {text}" for key, text in of_vertex.items() if text]
    return "Set " + ", ".join(parts)


def _of(key: str, vertex: str | None) -> str:
    """Return the label of a field, with the name of its vertex."""
    label = _LABELS.get(key, key)
    return label if vertex is None else f"{label} of {vertex}"


def without_constants(text: str) -> str:
    """Return a text in which Flink's constants, such as CHECKPOINT_EXPIRED, are written as words."""
    return _CONSTANT.sub(lambda found: found[0].lower().replace("_", " "), text)


def in_page_words(problem: str) -> str:
    """Return a problem found by the scenario rules, with the label of the field in place of its key."""
    found = _PLACE.fullmatch(problem)
    key, message = found.groups() if found else ("", problem)
    for name, label in _LABELS.items():
        if "." in name:
            message = message.replace(name, label)
    return f"{_LABELS.get(key, key)}: {message}".removeprefix(": ")


def change_of(wanted: Change, policies: Sequence[str]) -> ScheduledChange:
    """Return the change that a page requests, without a time; a policy has to be one of `policies`.

    Raises:
        UsageError: there is no such control, or the value is invalid.
    """
    now, vertex, value = 0.0, wanted.vertex, wanted.value
    fields = {option.name: field for field, option in OPTIONS.items()}
    try:
        if wanted.key == POLICY:
            if value not in policies:
                raise QuantityError(f"{value!r} is not in the list", " or ".join(policies))
            return ScheduledChange(at_s=now, settings=(("debloat_policy", value),))
        if wanted.key == SERVICE:
            return ScheduledChange(at_s=now, vertex=vertex, service_s=parse_duration(value))
        if wanted.key == SKEW:
            return ScheduledChange(at_s=now, vertex=vertex, service_skew=_numbers(value, ":", _FACTORS))
        if wanted.key == RATE:
            return ScheduledChange(at_s=now, vertex=vertex, rates=_numbers(value, ",", _RATES))
        if wanted.key not in fields:
            raise UsageError([f"{wanted.key} is not among the fields of this page. Load the page again."])
        field = fields[wanted.key]
        # A user may write decimals, which Flink does not accept in durations.
        parse = parse_duration if field in _DURATIONS else OPTIONS[field].kind.parse
        return ScheduledChange(at_s=now, settings=((field, parse(value)),))
    except QuantityError as error:
        label = _of(wanted.key, vertex)
        raise UsageError([f"{label}: {error.wrong}; it must be {error.right}"]) from None


def _numbers(text: str, separator: str, right: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(separator))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 <= number < math.inf for number in numbers):
        raise QuantityError(f"{text!r} is not a list of numbers of 0 or more", right)
    return numbers
