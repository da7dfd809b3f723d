"""Operator state that all subtasks are given, or have alike: in memory, and in jobs that come back."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
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
    StateError,
    StateHandle,
    StoredFile,
    Vertex,
)
from netstack.checkpoints.rescaling import distribute
from netstack.state.operator_state import OperatorSnapshot

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
    assert distribute("list", PARTS, subtasks, redistribution) == dealt


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


def test_broadcast_state_of_one_name_is_one_state() -> None:
    backend = OperatorStateBackend()
    first, second = backend.broadcast("rules"), backend.broadcast("rules")
    first["a"] = 1
    second["b"] = 2
    assert dict(first) == dict(second) == {"a": 1, "b": 2}
    del first["a"]
    assert dict(backend.broadcast("rules")) == dict(second) == {"b": 2}
    with pytest.raises(KeyError):
        del second["a"]
    second.clear()
    assert (dict(first), backend.names) == ({}, [])
    first["c"] = 3
    assert (dict(second), backend.names) == ({"c": 3}, ["rules"])


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_a_write_of_broadcast_state_does_not_copy_the_map(with_snapshot: bool) -> None:
    rules = (backend := OperatorStateBackend()).broadcast("rules")
    rules.update((number, [number]) for number in range(2000))
    if with_snapshot:
        backend.snapshot(1)
        rules[0] = [-1]  # this one copies it, for the snapshot
    tracemalloc.start()
    rules[1] = [-2]
    del rules[2]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 2000


def test_a_snapshot_of_broadcast_state_sees_no_later_writes() -> None:
    backend, storage = OperatorStateBackend(), MemoryStorage()
    rules = backend.broadcast("rules")
    rules.update({"a": [1], 2: "b", (3,): None})
    first = backend.snapshot(1)
    backend.broadcast("rules")["a"] = [1, 1]
    second = backend.snapshot(2)
    del rules[2]
    rules["new"] = 4
    third = backend.snapshot(3)
    rules.clear()

    def restored(snapshot: OperatorSnapshot) -> dict[Any, Any]:
        again = OperatorStateBackend()
        again.restore(snapshot.handles(partial(storage.write, 1), 1 << 20), HandleReader(storage))
        return dict(again.broadcast("rules"))

    assert restored(second) == {"a": [1, 1], 2: "b", (3,): None}
    assert restored(first) == {"a": [1], 2: "b", (3,): None}
    assert restored(third) == {"a": [1, 1], (3,): None, "new": 4}
    assert list(restored(backend.snapshot(4))) == []


def test_a_name_has_state_of_one_kind() -> None:
    backend, storage = OperatorStateBackend(), MemoryStorage()
    backend.put("split", [1])
    backend.put("union", [2], Redistribution.UNION)
    backend.broadcast("rules")["a"] = 3
    restored = OperatorStateBackend()
    restored.restore(handles_of(backend, storage), HandleReader(storage))
    for each in (backend, restored):
        with pytest.raises(
            StateError, match="'split' was created as a split list, so it cannot be used as a union list"
        ):
            each.put("split", [4], Redistribution.UNION)
        with pytest.raises(
            StateError, match="'union' was created as a union list, so it cannot be used as a split list"
        ):
            each.put("union", [4], Redistribution.SPLIT)
        with pytest.raises(
            StateError, match="'union' was created as a union list, so it cannot be used as a broadcast state"
        ):
            each.broadcast("union")
        with pytest.raises(
            StateError, match="'rules' was created as a broadcast state, so it cannot be used as a union list"
        ):
            each.put("rules", [4], Redistribution.UNION)
        with pytest.raises(
            StateError, match=r"'rules' is a broadcast state, not a list; use broadcast\('rules'\)"
        ):
            each.put("rules", [4])
        with pytest.raises(StateError, match="'rules' is a broadcast state, not a list"):
            each.get("rules")
        with pytest.raises(StateError, match="'new' is a broadcast state, not a list"):
            each.put("new", [4], Redistribution.BROADCAST)
        each.put("new", [5])  # nothing has been declared
        assert (each.get("split"), each.get("union"), dict(each.broadcast("rules"))) == ([1], [2], {"a": 3})
        assert each.names == ["new", "rules", "split", "union"]


def test_a_list_is_restored_from_many_parts_without_copying_it_for_each() -> None:
    storage, handles = MemoryStorage(), []
    for number in range(1000):
        part = OperatorStateBackend()
        part.put("numbers", [number], Redistribution.UNION)
        handles += part.snapshot(1).handles(partial(storage.write, 1), 1 << 20)
    restored = OperatorStateBackend()
    restored.restore(handles[:-1], HandleReader(storage))
    tracemalloc.start()
    restored.restore(handles[-1:], HandleReader(storage))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert restored.get("numbers") == list(range(1000))
    assert peak_bytes < 8000  # a copy of the list has 8 bytes a value


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
    trio.run(Job(going_on, Agenda(), from_checkpoint=begin).run)
    assert again.keys() == set(range(parallelism))
    for numbers, rules in again.values():
        assert numbers == [0, 1, 2]
        assert rules.keys() == {"largest"}
        assert rules["largest"] > b"050"
    assert len({rules["largest"] for _, rules in again.values()}) == 1
