"""Rules for events of a run: faults, changes, and checkpoints that users request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from .changes import CHANGEABLE, ScheduledChange
from .config import OPTIONS, CheckpointMode
from .config_rules import Problem, option_problems, policy_problems
from .fault import (
    MESSAGES,
    AtTime,
    ChannelItem,
    CutLink,
    DelayMessages,
    DropMessages,
    FailUpload,
    Fault,
    FillStorage,
    KillSubtask,
    KillTaskManager,
    OnAcknowledgement,
    OnChannel,
    SubtaskName,
)
from .quantities import time_text
from .scenario import SHIPS, Edge, Scenario, changed
from .tables import did_you_mean
from .topology import consumers_of_producers

MOST_RECORDS_PER_S = 1e9
"""Highest rate of a source's subtask."""

_NO_CHECKPOINTS = "there are no checkpoints; give execution.checkpointing.interval or checkpoints_at"


def fault_key(number: int, field: str = "") -> str:
    """Return where a fault, or a field of one, is; faults are numbered from 0."""
    return f"faults.{number}.{field}".removesuffix(".")


def fault_problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield what is wrong with the faults of a scenario, and with when users ask for checkpoints."""
    for number, at in enumerate(scenario.manual_checkpoints_s):
        if not 0 <= at < scenario.duration_s:
            yield f"checkpoints_at[{number}]", f"is {time_text(at)}; {_within(scenario)}"
    for number, savepoint in enumerate(scenario.savepoints):
        if not 0 <= savepoint.at_s < scenario.duration_s:
            yield f"savepoints_at[{number}]", f"is {time_text(savepoint.at_s)}; {_within(scenario)}"
    for number, fault in enumerate(scenario.faults):
        for field, message in _about_fault(scenario, fault):
            yield fault_key(number, field), message


def _about_fault(scenario: Scenario, fault: Fault) -> Iterator[Problem]:
    yield from _about_moment(scenario, fault)
    yield from _about_times(fault)
    if isinstance(fault, KillSubtask):
        yield from _about_subtask(scenario, fault.subtask, "vertex", "subtask")
    elif isinstance(fault, KillTaskManager):
        yield from _about_manager(scenario, "task_manager", fault.task_manager)
    elif isinstance(fault, CutLink):
        yield from _about_link(scenario, fault)
    elif isinstance(fault, DelayMessages | DropMessages):
        yield from _about_messages(scenario, fault)
    needs_checkpoints = isinstance(fault, DelayMessages | DropMessages | FailUpload | FillStorage)
    if needs_checkpoints and not scenario.takes_checkpoints:
        yield "kind", f"is {fault.kind}, but {_NO_CHECKPOINTS}"


def _about_moment(scenario: Scenario, fault: Fault) -> Iterator[Problem]:
    when = fault.when
    if isinstance(when, AtTime):
        if not 0 <= when.time_s < scenario.duration_s:
            yield "at", f"is {time_text(when.time_s)}; {_within(scenario)}"
        return
    if when.number < 1:
        yield "number", f"is {when.number}; the first is number 1"
    if isinstance(when, OnAcknowledgement):
        names = ("vertex", "subtask") if _is_target(fault, when.subtask) else ("from", "from_subtask")
        if names[0] == "from":  # else that subtask is checked as the target
            yield from _about_subtask(scenario, when.subtask, *names)
    else:
        yield from _about_channel(scenario, when)
    counts_checkpoints = isinstance(when, OnAcknowledgement) or when.item is ChannelItem.BARRIER
    if counts_checkpoints and not scenario.takes_checkpoints:
        what = "acknowledgement" if isinstance(when, OnAcknowledgement) else when.item
        yield "on", f"is {what}, but {_NO_CHECKPOINTS}"


def _is_target(fault: Fault, subtask: SubtaskName) -> bool:
    return isinstance(fault, KillSubtask) and fault.subtask == subtask


def _about_times(fault: Fault) -> Iterator[Problem]:
    times = [("for", getattr(fault, "for_s", None)), ("delay", getattr(fault, "delay_s", None))]
    for key, value in times:
        if value is not None and not 0 < value < math.inf:
            yield key, f"is {time_text(value)}; it must be more than 0 s"


def _about_channel(scenario: Scenario, when: OnChannel) -> Iterator[Problem]:
    source = list(_about_subtask(scenario, when.source, "from", "from_subtask"))
    target = list(_about_subtask(scenario, when.target, "to", "to_subtask"))
    yield from source + target
    if source or target:
        return
    edges = [
        edge
        for edge in scenario.edges
        if (edge.source, edge.target) == (when.source.vertex, when.target.vertex)
    ]
    if not edges:
        reached = [edge.target for edge in scenario.edges if edge.source == when.source.vertex]
        text = f"no edge leads there from {when.source.vertex}; {did_you_mean(when.target.vertex, reached)}"
        yield "to", text if reached else f"no edge leads out of {when.source.vertex}; name another channel"
    elif not any(_connects(scenario, edge, when) for edge in edges):
        text = f"{edges[0].ship} has no channel from {when.source} to {when.target}; name one of another pair"
        yield "to_subtask", text


def _connects(scenario: Scenario, edge: Edge, when: OnChannel) -> bool:
    producers = scenario.vertex(edge.source).parallelism
    consumers = scenario.vertex(edge.target).parallelism
    if edge.ship not in SHIPS or not producers or not consumers:
        return True  # a mistake of the edge's own, or a path that has yet to be opened
    reached = consumers_of_producers(edge.ship, producers, consumers)
    return when.target.subtask in reached[when.source.subtask]


def _about_subtask(scenario: Scenario, name: SubtaskName, vertex_key: str, key: str) -> Iterator[Problem]:
    yield from (problems := list(_about_vertex(scenario, name.vertex, vertex_key)))
    if not problems:
        yield from _about_index(scenario, name.vertex, name.subtask, key)


def _about_vertex(scenario: Scenario, name: str, key: str) -> Iterator[Problem]:
    names = [vertex.name for vertex in scenario.vertices]
    if name not in names:
        yield key, f"no vertex is named {name!r}; {did_you_mean(name, names)}"


def _about_index(scenario: Scenario, vertex: str, subtask: int, key: str) -> Iterator[Problem]:
    count = scenario.vertex(vertex).parallelism
    if subtask < 0 or 0 < count <= subtask:  # 0: how many there are is known when the path has been opened
        there = f"{vertex} has the subtasks 0 to {count - 1}" if count else "the first is subtask 0"
        yield key, f"is {subtask}; {there}"


def _about_manager(scenario: Scenario, key: str, name: str) -> Iterator[Problem]:
    managers = scenario.task_managers
    if name not in managers:
        yield key, f"no task manager is named {name!r}; {did_you_mean(name, managers)}"


def _about_link(scenario: Scenario, fault: CutLink) -> Iterator[Problem]:
    ends = (("from_task_manager", fault.from_task_manager), ("to_task_manager", fault.to_task_manager))
    wrong = [problem for key, name in ends for problem in _about_manager(scenario, key, name)]
    yield from wrong
    if not wrong and (fault.from_task_manager, fault.to_task_manager) not in set(_links(scenario)):
        links = ", ".join(f"{source} to {target}" for source, target in dict.fromkeys(_links(scenario)))
        text = f"no records go there over a link from {fault.from_task_manager}"
        yield "to_task_manager", f"{text}; the links are {links or 'none'}"


def _links(scenario: Scenario) -> Iterable[tuple[str, str]]:
    names = {vertex.name for vertex in scenario.vertices}
    for edge in scenario.edges:
        if {edge.source, edge.target} <= names and edge.ship in SHIPS:
            yield from (ends for ends in scenario.channel_ends(edge) if ends[0] != ends[1])


def _about_messages(scenario: Scenario, fault: DelayMessages | DropMessages) -> Iterator[Problem]:
    if fault.messages not in MESSAGES:
        yield "messages", f"{fault.messages!r} is unknown; {did_you_mean(fault.messages, MESSAGES)}"
    if fault.vertex is None:
        if fault.subtask is not None:
            yield "subtask", "is given without a vertex; name the vertex too"
    elif fault.subtask is None:
        yield from _about_vertex(scenario, fault.vertex, "vertex")
    else:
        yield from _about_subtask(scenario, SubtaskName(fault.vertex, fault.subtask), "vertex", "subtask")


def _within(scenario: Scenario) -> str:
    return f"it must be from 0 s to before the end, {time_text(scenario.duration_s)}"


def rate_problems(rates: Sequence[float]) -> Iterator[str]:
    """Yield what is wrong with the rates of a source, from its beginning or from a change on."""
    if any(not 0 <= rate <= MOST_RECORDS_PER_S for rate in rates):
        most = f"{MOST_RECORDS_PER_S:g} records per second at most"
        yield f"is {list(rates)}; a rate is 0 (as fast as possible) or more, {most}"


def change_key(number: int, field: str = "") -> str:
    """Return where a change, or a field of one, is; changes are numbered from 0."""
    return f"changes.{number}.{field}".removesuffix(".")


def change_problems(scenario: Scenario, *, to_run: bool = True) -> Iterator[Problem]:
    """Yield what is wrong with the changes of a scenario.

    Whether a policy exists is checked with `to_run` only, since that imports it.
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
    yield from _about_changed_settings(scenario, change)
    if change.vertex is None and of_vertex:
        yield "vertex", "is missing; name the vertex whose service or rate changes"
    elif change.vertex is not None:
        yield from _about_changed_vertex(scenario, change, change.vertex)


def _about_changed_settings(scenario: Scenario, change: ScheduledChange) -> Iterator[Problem]:
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


def _about_changed_vertex(scenario: Scenario, change: ScheduledChange, name: str) -> Iterator[Problem]:
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
