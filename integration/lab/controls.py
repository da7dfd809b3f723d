"""Settings that a user may change while a job runs: controls, and the changes that they make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce

from flowcontrol import POLICIES
from netstack import (
    OPTIONS,
    CheckpointMode,
    GeneratorSpec,
    NetworkConfig,
    QuantityError,
    Scenario,
    ScheduledChange,
    Vertex,
    changed,
    format_duration,
    parse_duration,
)

from ..errors import UsageError
from .messages import Change, Control

POLICY, SERVICE, SKEW, RATE = "policy", "service", "service_skew", "rate"
"""Keys of controls that are not Flink options."""

_SWITCHES = {"debloat_enabled": "Buffer debloating", "unaligned_enabled": "Unaligned checkpoints"}
_DURATIONS = {
    "debloat_target_s": ("Debloating target", 0.01, 10.0),
    "checkpoint_interval_s": ("Checkpoint interval", 0.1, 60.0),
    "aligned_checkpoint_timeout_s": ("Aligned checkpoint timeout", 0.0, 10.0),
    "checkpoint_timeout_s": ("Checkpoint timeout", 0.1, 600.0),
}
"""Label, minimum and maximum of the sliders; a user may type larger values."""

_LEAST_SERVICE_S, _MOST_SERVICE_S = 0.0, 0.1
_MOST_RATE = 100_000.0


def scenario_now(scenario: Scenario) -> Scenario:
    """Return a scenario with all of its changes applied."""
    return reduce(changed, scenario.changes, scenario)


def policies_of(scenario: Scenario, offered: Iterable[str] = ()) -> list[str]:
    """Return the debloating policies to choose from: all built-in ones, those offered, and the job's own.

    Other policies are refused, so that a page cannot name code to import.
    """
    settings = [setting for change in scenario.changes for setting in change.settings]
    named = [str(value) for field, value in settings if field == "debloat_policy"]
    beside = {scenario.config.debloat_policy, *named, *offered} - POLICIES.keys()
    return [*sorted(POLICIES), *sorted(beside)]


def controls_of(scenario: Scenario, policies: Sequence[str]) -> list[Control]:
    """Return the controls of a job, with their values after all its changes."""
    now = scenario_now(scenario)
    controls = list(_of_job(now.config, policies))
    for vertex in now.vertices:
        controls += _of_vertex(vertex)
    return controls


def _of_job(config: NetworkConfig, policies: Sequence[str]) -> Iterator[Control]:
    takes_checkpoints = config.checkpoint_interval_s is not None
    exactly_once = config.checkpoint_mode is CheckpointMode.EXACTLY_ONCE
    for field, label in _SWITCHES.items():
        if field == "debloat_enabled" or (takes_checkpoints and exactly_once):
            value = "true" if getattr(config, field) else "false"
            yield Control(OPTIONS[field].name, label, "switch", value)
    yield Control(POLICY, "Debloating policy", "choice", config.debloat_policy, choices=list(policies))
    for field, (label, least, most) in _DURATIONS.items():
        if field == "debloat_target_s" or takes_checkpoints:
            value = format_duration(getattr(config, field))
            yield Control(OPTIONS[field].name, label, "duration", value, least=least, most=most)


def _of_vertex(vertex: Vertex) -> Iterator[Control]:
    name = vertex.name
    if isinstance(vertex.source, GeneratorSpec):
        rates = _numbers(vertex.source.rates)
        yield Control(RATE, "Rate", "rate", rates, vertex=name, least=0.0, most=_MOST_RATE)
    elif vertex.source is None:
        cost = format_duration(vertex.service[-1][1] if vertex.service else 0.0)
        yield Control(
            SERVICE,
            "Cost of a record",
            "duration",
            cost,
            vertex=name,
            least=_LEAST_SERVICE_S,
            most=_MOST_SERVICE_S,
        )
        yield Control(SKEW, "Skew of the subtasks", "factors", _numbers(vertex.service_skew), vertex=name)


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.15g}" for value in values)


def change_of(wanted: Change, policies: Sequence[str]) -> ScheduledChange:
    """Return the change that a page requests, without its time; a policy has to be one of `policies`.

    Raises:
        UsageError: there is no such control, or the value is invalid.
    """
    try:
        if wanted.key == POLICY:
            return _policy(wanted, policies)
        return _OF_KEY.get(wanted.key, _option)(wanted)
    except QuantityError as error:
        raise UsageError([f"{wanted.key}: {error.wrong}; it must be {error.right}"]) from None


def _option(wanted: Change) -> ScheduledChange:
    fields = {option.name: field for field, option in OPTIONS.items()}
    if wanted.key not in fields:
        raise UsageError([f"{wanted.key} cannot be changed here"])
    field = fields[wanted.key]
    return ScheduledChange(at_s=0.0, settings=((field, OPTIONS[field].kind.parse(wanted.value)),))


def _policy(wanted: Change, policies: Sequence[str]) -> ScheduledChange:
    if wanted.value not in policies:
        raise QuantityError(f"{wanted.value!r} is not offered here", " or ".join(policies))
    return ScheduledChange(at_s=0.0, settings=(("debloat_policy", wanted.value),))


def _service(wanted: Change) -> ScheduledChange:
    return ScheduledChange(at_s=0.0, vertex=wanted.vertex, service_s=parse_duration(wanted.value))


def _skew(wanted: Change) -> ScheduledChange:
    return ScheduledChange(at_s=0.0, vertex=wanted.vertex, service_skew=_read_numbers(wanted.value))


def _rate(wanted: Change) -> ScheduledChange:
    return ScheduledChange(at_s=0.0, vertex=wanted.vertex, rates=_read_numbers(wanted.value))


_OF_KEY: dict[str, Callable[[Change], ScheduledChange]] = {
    SERVICE: _service,
    SKEW: _skew,
    RATE: _rate,
}


def _read_numbers(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 <= number < math.inf for number in numbers):
        raise QuantityError(f"{text!r} is no list of numbers", "numbers from 0, separated by commas")
    return numbers
