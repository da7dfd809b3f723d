"""Runs of a storm that go on from what another one has left, at another parallelism."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from flowcontrol import PostCheckpointAction, SavepointFormat
from netstack import (
    Agenda,
    Fault,
    InitialCheckpoint,
    Job,
    MemoryStorage,
    NetworkConfig,
    SavepointFolder,
    Scenario,
    ScenarioError,
    ScheduledSavepoint,
    Trace,
    check_scenario,
)

from .case import KEYED, GoingOn, StormCase, StormVertex, estimate_s

ScenarioAt = Callable[[Sequence[int]], Scenario]
"""Gives the scenario of a case where its vertices have this parallelism; with none, that of the case."""

_SHARE = 0.35
"""Of the cases in which a job is stopped and gone on with."""

_PARALLELISMS = (1, 2, 3, 4, 6)

_MAY_BE_REFUSED = ("records in flight from", "operator state")
"""What a checkpoint may be refused for at another parallelism."""


def draw_going_on(chance: random.Random, case: StormCase) -> GoingOn | None:
    """Return how a case goes on, if it does: not where memory was counted out for the parallelism it has."""
    scarce = case.config.network_memory_max_bytes != NetworkConfig().network_memory_max_bytes
    if scarce or chance.random() > _SHARE:
        return None
    numbers = {vertex.name: chance.choice(_PARALLELISMS) for vertex in case.vertices}
    kept = {vertex.name: vertex.parallelism for vertex in case.vertices if _is_fixed(case, vertex)}
    pairs = [(source, target) for source, target, ship in case.edges if ship == "forward"]
    for source, target in pairs:
        numbers[target] = numbers[source]
    if any((numbers | kept)[source] != (numbers | kept)[target] for source, target in pairs):
        kept |= {name: case.vertex(name).parallelism for pair in pairs for name in pair}
    numbers |= kept
    stopped_at_s = estimate_s(case) * chance.uniform(0.01, 0.5)
    savepoint = chance.choice((None, None, None, *SavepointFormat))
    return GoingOn(stopped_at_s=stopped_at_s, parallelism=tuple(numbers.values()), savepoint=savepoint)


def _is_fixed(case: StormCase, vertex: StormVertex) -> bool:
    """Whether the output would be another one, or a key of several subtasks, at another parallelism."""
    ships = {ship for _, ship in case.inputs(vertex)}
    return "broadcast" in ships or (vertex.work in KEYED and ships != {"hash"})


def stopping(scenario: Scenario, going_on: GoingOn) -> Scenario:
    """Return a scenario that is stopped as the case says: by its end, or with a savepoint."""
    if going_on.savepoint is None:
        return replace(scenario, duration_s=going_on.stopped_at_s)
    stop = ScheduledSavepoint(
        at_s=going_on.stopped_at_s, format=going_on.savepoint, action=PostCheckpointAction.SUSPEND
    )
    return replace(scenario, savepoints=(stop,))


def second_run(
    going_on: GoingOn,
    scenario_at: ScenarioAt,
    first: Job,
    found: MemoryStorage,
    storage: MemoryStorage,
    trace: Trace | None = None,
) -> tuple[Job, list[str]]:
    """Return the job that goes on from what the `first` has left in `found`, and what is wrong with that.

    That is the savepoint that it stopped with, or its last checkpoint. The job keeps the parallelism of the
    case where the checkpoint says that it must.
    """
    location = first.coordinator.stopped_with
    begin = _last_checkpoint(found) if location is None else _savepoint(found.savepoint(location))
    try:
        scenario = with_possible_faults(scenario_at(going_on.parallelism))
        return Job(scenario, Agenda(), storage=storage, initial=begin, trace=trace), []
    except ScenarioError as error:
        job = Job(scenario_at(()), Agenda(), storage=storage, initial=begin, trace=trace)
        return job, list(_refused_wrongly(error.problems))


def with_possible_faults(scenario: Scenario) -> Scenario:
    """Return a scenario without faults of subtasks that it does not have."""
    return replace(
        scenario, faults=tuple(fault for fault in scenario.faults if _is_possible(scenario, fault))
    )


def _is_possible(scenario: Scenario, fault: Fault) -> bool:
    try:
        check_scenario(replace(scenario, faults=(fault,)))
    except ScenarioError:
        return False
    return True


def _last_checkpoint(storage: MemoryStorage) -> InitialCheckpoint | None:
    """Return the last complete checkpoint there; None if there is none."""
    complete = storage.checkpoints()
    if not complete:
        return None
    return InitialCheckpoint(storage.load(complete[-1]), storage, "the run before", complete[-1] + 1)


def _savepoint(folder: SavepointFolder) -> InitialCheckpoint:
    metadata = folder.metadata
    return InitialCheckpoint(metadata, folder, "the savepoint before", metadata.checkpoint_id + 1)


def _refused_wrongly(reasons: Sequence[str]) -> Iterator[str]:
    """Yield each reason for which no checkpoint of the same job should be refused."""
    for reason in reasons:
        if not any(known in reason for known in _MAY_BE_REFUSED):
            yield f"refused for no good reason: {reason}"
