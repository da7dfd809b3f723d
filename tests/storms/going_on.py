"""Runs of a storm that go on from what another one has left, at another parallelism."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from flowcontrol import PostCheckpointAction, SavepointFormat
from netstack import (
    Fault,
    InitialCheckpoint,
    InputError,
    Job,
    NetworkConfig,
    SavepointFolder,
    Scenario,
    ScheduledSavepoint,
    ShipStrategy,
    check_scenario,
)

from .case import KEYED, GoingOn, StormCase, StormVertex, Work
from .storm_estimates import estimate_s
from .troubled_storage import TroubledDirectory, TroubledMemory

Storage = TroubledMemory | TroubledDirectory

MakeJob = Callable[[Scenario, InitialCheckpoint | None], Job]

ScenarioAt = Callable[[Sequence[int]], Scenario]
"""Gives the scenario of a case where its vertices have this parallelism; with none, that of the case."""

_SHARE = 0.35
"""Of the cases in which a job is stopped and gone on with."""

_SHARE_OF_NOTED = 0.7
"""The same where it is known what state with a time-to-live, and operator state, has to be then."""

_PARALLELISMS = (1, 2, 3, 4, 6)

_MAY_BE_REFUSED = ("in-flight records from", "operator state")
"""What a checkpoint may be refused for at another parallelism."""


def draw_going_on(chance: random.Random, case: StormCase) -> GoingOn | None:
    """Return how a case goes on, if it does: not where memory was counted out for the parallelism it has."""
    scarce = case.config.network_memory_max_bytes != NetworkConfig().network_memory_max_bytes
    is_noted = any(vertex.work in (Work.REMEMBER, Work.COUNT) for vertex in case.vertices)
    if scarce or chance.random() > (_SHARE_OF_NOTED if is_noted else _SHARE):
        return None
    numbers = {vertex.name: chance.choice(_PARALLELISMS) for vertex in case.vertices}
    kept = {vertex.name: vertex.parallelism for vertex in case.vertices if _is_fixed(case, vertex)}
    pairs = [(source, target) for source, target, ship in case.edges if ship == ShipStrategy.FORWARD]
    for source, target in pairs:
        numbers[target] = numbers[source]
    if any((numbers | kept)[source] != (numbers | kept)[target] for source, target in pairs):
        kept |= {name: case.vertex(name).parallelism for pair in pairs for name in pair}
    numbers |= kept
    stopped_at_s = estimate_s(case) * chance.uniform(0.01, 0.5)
    savepoint = chance.choice((None, None, None, *SavepointFormat))
    killed = savepoint is None and chance.random() < 0.5
    back = 0 if savepoint is not None or chance.random() < 0.7 else chance.randint(1, 3)
    return GoingOn(
        stopped_at_s=stopped_at_s,
        parallelism=tuple(numbers.values()),
        savepoint=savepoint,
        killed=killed,
        back=back,
    )


def _is_fixed(case: StormCase, vertex: StormVertex) -> bool:
    """Whether the output would be another one, or a key of several subtasks, at another parallelism."""
    ships = {ship for _, ship in case.inputs(vertex)}
    return ShipStrategy.BROADCAST in ships or (vertex.work in KEYED and ships != {ShipStrategy.HASH})


def stopping(scenario: Scenario, going_on: GoingOn) -> Scenario:
    """Return a scenario that is stopped as the case says: by its end, or with a savepoint."""
    if going_on.savepoint is None:
        return replace(scenario, duration_s=going_on.stopped_at_s)
    stop = ScheduledSavepoint(
        at_s=going_on.stopped_at_s, format=going_on.savepoint, action=PostCheckpointAction.SUSPEND
    )
    return replace(scenario, savepoints=(stop,))


def second_run(
    going_on: GoingOn, scenario_at: ScenarioAt, first: Job, found: Storage, make: MakeJob
) -> tuple[Job, list[str]]:
    """Return the job that goes on from what the `first` has left in `found`, and what is wrong with that.

    That is the savepoint that it stopped with, or one of its checkpoints. The job keeps the parallelism of
    the case where the checkpoint says that it must. `make` makes a job of a scenario and a checkpoint.
    """
    location = first.coordinator.stopped_with
    begin = _checkpoint(found, going_on.back) if location is None else _savepoint(found.savepoint(location))
    try:
        scenario = with_possible_faults(scenario_at(going_on.parallelism))
        return make(scenario, begin), []
    except InputError as error:
        return make(scenario_at(()), begin), list(_refused_wrongly(error.problems))


def goes_back(going_on: GoingOn, found: Storage) -> bool:
    """Whether a job does not go on from the last checkpoint that another one has left."""
    return going_on.savepoint is None and going_on.back > 0 and len(found.checkpoints()) > 1


def with_possible_faults(scenario: Scenario) -> Scenario:
    """Return a scenario without faults of subtasks that it does not have."""
    return replace(
        scenario, faults=tuple(fault for fault in scenario.faults if _is_possible(scenario, fault))
    )


def _is_possible(scenario: Scenario, fault: Fault) -> bool:
    try:
        check_scenario(replace(scenario, faults=(fault,)))
    except InputError:
        return False
    return True


def _checkpoint(storage: Storage, back: int) -> InitialCheckpoint | None:
    """Return the complete checkpoint so many places before the last there; None if there is none."""
    complete = storage.checkpoints()
    if not complete:
        return None
    number = complete[max(0, len(complete) - 1 - back)]
    return InitialCheckpoint(storage.load(number), storage, "the run before", complete[-1] + 1)


def _savepoint(folder: SavepointFolder) -> InitialCheckpoint:
    metadata = folder.metadata
    return InitialCheckpoint(metadata, folder, "the savepoint before", metadata.checkpoint_id + 1)


def _refused_wrongly(reasons: Sequence[str]) -> Iterator[str]:
    """Yield each reason for which no checkpoint of the same job should be refused."""
    for reason in reasons:
        if not any(known in reason for known in _MAY_BE_REFUSED):
            yield f"refused for no good reason: {reason}"
