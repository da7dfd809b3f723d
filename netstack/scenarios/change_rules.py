"""Which changes of a running job make sense: what they name is there, and may change."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .changed import changed
from .changes import CHANGEABLE, ScheduledChange
from .config import OPTIONS, CheckpointMode
from .config_rules import Problem, did_you_mean, option_problems, policy_problems, time_text
from .flow_rules import rate_problems
from .scenario import Scenario


def change_key(number: int, field: str = "") -> str:
    """Return where a change, or a field of one, is; changes are numbered from 0."""
    return f"changes.{number}.{field}".removesuffix(".")


def change_problems(scenario: Scenario, *, to_run: bool = True) -> Iterator[Problem]:
    """Yield what is wrong with the changes of a scenario.

    Whether a policy is there is looked at with `to_run` only, since that imports it.
    """
    current = scenario
    for number, change in sorted(enumerate(scenario.changes), key=lambda each: each[1].at_s):
        for field, message in _about_change(scenario, change):
            yield change_key(number, field), message
        before, current = current, changed(current, change)
        problems = set(option_problems(current.config)) - set(option_problems(before.config))
        if to_run and change.of_debloating and not problems:
            problems = set(policy_problems(current.config))
        for field, message in sorted(problems):
            yield change_key(number, field), message


def _about_change(scenario: Scenario, change: ScheduledChange) -> Iterator[Problem]:
    if not 0 <= change.at_s < scenario.duration_s:
        end = time_text(scenario.duration_s)
        yield "at", f"is {time_text(change.at_s)}; it must be from 0 s to before the end of the run, {end}"
    of_vertex = change.service_s is not None or bool(change.service_skew or change.rates)
    if not (change.settings or of_vertex):
        yield "", "changes nothing; give it flink, policy, or a vertex with service, service_skew or rate"
    yield from _about_settings(scenario, change)
    if change.vertex is None and of_vertex:
        yield "vertex", "is missing; name the vertex whose service or rate changes"
    elif change.vertex is not None:
        yield from _about_vertex(scenario, change, change.vertex)


def _about_settings(scenario: Scenario, change: ScheduledChange) -> Iterator[Problem]:
    for field, _ in change.settings:
        if field not in CHANGEABLE:
            name = OPTIONS[field].name
            options = ", ".join(OPTIONS[each].name for each in CHANGEABLE if each in OPTIONS)
            yield f"flink.{name}", f"cannot change while a job runs; these can: {options}"
    if change.of_checkpoints and scenario.config.checkpoint_interval_s is None:
        text = "the job takes no checkpoints; give it execution.checkpointing.interval from its beginning"
        yield "flink", text
    overtakes = ("unaligned_enabled", True) in change.settings
    if overtakes and scenario.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
        yield "flink", "unaligned checkpoints need a job that runs EXACTLY_ONCE, and this one does not"


def _about_vertex(scenario: Scenario, change: ScheduledChange, name: str) -> Iterator[Problem]:
    names = [vertex.name for vertex in scenario.vertices]
    if name not in names:
        yield "vertex", f"{name!r} is unknown; {did_you_mean(name, names)}"
        return
    vertex = scenario.vertex(name)
    if vertex.source is None and change.rates:
        yield "rate", f"{name} is no source; change its service"
    if vertex.source is not None and (change.service_s is not None or change.service_skew):
        yield "service", f"{name} is a source; change its rate"
    if change.service_s is not None and not 0 <= change.service_s < math.inf:
        yield "service", f"is {time_text(change.service_s)}; it must be 0 s or more"
    if not all(0 <= factor < math.inf for factor in change.service_skew):
        yield "service_skew", f"is {list(change.service_skew)}; each must be 0 or more"
    for message in rate_problems(change.rates):
        yield "rate", message
