"""Operator state that all subtasks are given, or have alike: in memory, and in jobs that come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import trio

from buffers import RecordBlock
from netstack import (
    Agenda,
    CollectionSource,
    Edge,
    HandleReader,
    InitialCheckpoint,
    Job,
    MemoryStorage,
    NetworkConfig,
    Operator,
    OperatorContext,
    OperatorStateBackend,
    Redistribution,
    Scenario,
    SourceObject,
    StateHandle,
    StoredFile,
    Vertex,
)
from netstack.checkpoints.assignment import deal

PARTS = [(0, [1, 2]), (1, [3]), (2, [])]


@pytest.mark.parametrize(
    ("redistribution", "subtasks", "dealt"),
    [
        (Redistribution.SPLIT, 2, [[1, 2], [3]]),
        (Redistribution.UNION, 2, [[1, 2, 3], [1, 2, 3]]),
        (Redistribution.BROADCAST, 5, [[1, 2], [3], [], [1, 2], [3]]),
    ],
)
def test_who_is_given_what(redistribution: Redistribution, subtasks: int, dealt: list[list[int]]) -> None:
    assert deal("list", PARTS, subtasks, redistribution) == dealt


def handles_of(backend: OperatorStateBackend, storage: MemoryStorage) -> list[StateHandle]:
    def write(name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
        return storage.write(1, name, data, shared=shared)

    return backend.snapshot(1).handles(write, 0)


def test_lists_keep_how_they_are_dealt_out_and_broadcast_state_is_a_map() -> None:
    backend, storage = OperatorStateBackend(), MemoryStorage()
    backend.put("union", [1], Redistribution.UNION)
    rules = backend.broadcast("rules")
    rules["a"] = 1
    rules["b"] = [2]
    del rules["a"]
    backend.put("union", [1, 2])
    handles = handles_of(backend, storage)
    assert {handle.name: handle.redistribution for handle in handles} == {
        "rules": Redistribution.BROADCAST,
        "union": Redistribution.UNION,
    }
    restored = OperatorStateBackend()
    restored.restore(handles, HandleReader(storage))
    assert dict(restored.broadcast("rules")) == {"b": [2]}
    assert len(restored.broadcast("rules")) == 1
    assert {handle.name: handle.redistribution for handle in handles_of(restored, MemoryStorage())} == {
        handle.name: handle.redistribution for handle in handles
    }


Seen = dict[int, tuple[list[int], Mapping[Any, Any]]]


class Notes(Operator):
    """Notes its own number for all, and the largest record so far in a map that all have alike."""

    def __init__(self, subtask: int, opened_with: Seen) -> None:
        self._subtask = subtask
        self._opened_with = opened_with

    def open(self, context: OperatorContext) -> None:
        self._state = context.operator
        self._rules = self._state.broadcast("rules")
        self._opened_with[self._subtask] = self._state.get("numbers"), dict(self._rules)

    def process(self, block: RecordBlock) -> RecordBlock:
        self._rules["largest"] = max(map(bytes, block.payloads()))
        return RecordBlock.from_payloads([])

    def before_snapshot(self, checkpoint_id: int) -> None:
        self._state.put("numbers", [self._subtask], Redistribution.UNION)


def job(parallelism: int, opened_with: Seen) -> Scenario:
    records = CollectionSource([[b"%03d" % number for number in range(200)]])
    return Scenario(
        name="notes",
        duration_s=1.5,
        config=NetworkConfig(checkpoint_interval_s=0.2, buffer_timeout_interval_s=0.01),
        vertices=(
            Vertex(name="rules", source=SourceObject(source=records, rates=(100.0,))),
            Vertex(
                name="notes", parallelism=parallelism, operator=lambda subtask: Notes(subtask, opened_with)
            ),
        ),
        edges=(Edge(source="rules", target="notes", ship="broadcast"),),
    )


@pytest.mark.parametrize("parallelism", [1, 3, 5])
def test_all_are_given_what_all_had_and_the_map_of_one(parallelism: int) -> None:
    storage, first, again = MemoryStorage(), Seen(), Seen()
    trio.run(Job(job(3, first), Agenda(), storage=storage).run)
    assert first == {0: ([], {}), 1: ([], {}), 2: ([], {})}
    number = storage.checkpoints()[-1]
    begin = InitialCheckpoint(storage.load(number), storage, "earlier", number + 1)
    going_on = replace(job(parallelism, again), duration_s=0.1)
    trio.run(Job(going_on, Agenda(), initial=begin).run)
    assert again.keys() == set(range(parallelism))
    for numbers, rules in again.values():
        assert numbers == [0, 1, 2]
        assert rules.keys() == {"largest"}
        assert rules["largest"] > b"050"
    assert len({rules["largest"] for _, rules in again.values()}) == 1
