"""Whole jobs whose state is turned into bytes while their tasks go on changing it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from netstack import (
    CheckpointMetadata,
    CollectionSource,
    Edge,
    HandleReader,
    KeyedOperator,
    KeyedStateBackend,
    MemoryStorage,
    NetworkConfig,
    Scenario,
    SourceObject,
    StateKind,
    StoredFile,
    Vertex,
    emulate,
)
from netstack.state.keyed_state import decode_table
from netstack.state.state_kinds import parts_of
from netstack.state.value_encoding import decode_value

STATES = ("value", "list", "map", "sum")
KEYS = 30
COUNT = 3000


class Shadowed(KeyedOperator):
    """Changes state of several kinds in place, and the like of it in a dict, which it copies at barriers."""

    def __init__(self) -> None:
        self.shadow: dict[str, dict[int, Any]] = {name: {} for name in STATES}
        self.at_barrier: dict[int, dict[str, dict[int, Any]]] = {}
        self.changes = 0
        self.changes_at: dict[int, int] = {}

    def declare(self, state: KeyedStateBackend) -> None:
        self._value, self._list, self._map = state.value("value"), state.list("list"), state.map("map")
        self._sum = state.aggregating("sum", list, _appended, len)

    def key_of(self, record: bytes) -> object:
        return int(record) % KEYS

    def process_record(self, record: bytes) -> Iterable[bytes]:
        number = int(record)
        self.changes += 1
        kept = self._value.get() or {"last": []}
        kept["last"] = [*kept["last"][-3:], number]
        kept["all"] = kept.get("all", 0) + 1
        self._value.update(kept)
        self._list.add(number)
        if number % 7 == 0:
            self._list.clear()
        self._sum.add(number)
        if number % 4 in self._map and number % 3 == 0:
            self._map.remove(number % 4)
        else:
            self._map.put(number % 4, [number])
        self._follow(number)
        return []

    def _follow(self, number: int) -> None:
        key, other, shadow = number % KEYS, number % 4, self.shadow
        before = shadow["value"].get(key, {"last": [], "all": 0})
        shadow["value"][key] = {"last": [*before["last"][-3:], number], "all": before["all"] + 1}
        shadow["list"].setdefault(key, []).append(number)
        if number % 7 == 0:
            del shadow["list"][key]
        shadow["sum"].setdefault(key, []).append(number)
        entries = shadow["map"].setdefault(key, {})
        if other in entries and number % 3 == 0:
            del entries[other]
            if not entries:
                del shadow["map"][key]
        else:
            entries[other] = [number]

    def before_snapshot(self, checkpoint_id: int) -> None:
        self.at_barrier[checkpoint_id] = copy.deepcopy(self.shadow)
        self.changes_at[checkpoint_id] = self.changes


def _appended(accumulator: list[int], value: int) -> list[int]:
    accumulator.append(value)
    return accumulator


class Watched(MemoryStorage):
    """Looks at each completed checkpoint: its state, and how far the task was when it was written."""

    def __init__(self, operator: Shadowed) -> None:
        super().__init__()
        self._operator = operator
        self.changes_when_written: dict[int, int] = {}
        self.stored: dict[int, dict[str, dict[int, Any]]] = {}

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        if name.endswith("-keyed"):
            self.changes_when_written[checkpoint_id] = self._operator.changes
        return super().write(checkpoint_id, name, data, shared=shared)

    def complete(self, metadata: CheckpointMetadata) -> None:
        super().complete(metadata)
        read, states = HandleReader(self), {name: dict[int, Any]() for name in STATES}
        for snapshot in metadata.subtasks:
            for handle in snapshot.handles:
                if handle.kind is StateKind.KEYED:
                    _, entries = decode_table(read(handle))
                    for key, value in entries:
                        if handle.name == "map":
                            owner, in_map = parts_of(key)
                            of_key = decode_value(owner[2:])
                            states["map"].setdefault(of_key, {})[decode_value(in_map)] = value
                        else:
                            states[handle.name][decode_value(key[2:])] = value
        self.stored[metadata.checkpoint_id] = states


def test_what_is_stored_is_the_state_at_the_barrier_whatever_is_written_meanwhile() -> None:
    operator = Shadowed()
    storage = Watched(operator)
    numbers = [b"%d" % number for number in range(COUNT)]
    source = SourceObject(source=CollectionSource([numbers]), rates=(1500.0,))
    scenario = Scenario(
        name="while stored",
        duration_s=5.0,
        vertices=(
            Vertex(name="numbers", source=source),
            Vertex(name="keep", operator=lambda subtask: operator),
        ),
        edges=(Edge(source="numbers", target="keep", ship="hash"),),
        config=NetworkConfig(
            checkpoint_interval_s=0.1, state_memory_threshold_bytes=0, buffer_timeout_interval_s=0.0
        ),
    )
    emulate(scenario, storage=storage)
    for number, states in storage.stored.items():
        assert states == operator.at_barrier[number]
    later = [
        changes - operator.changes_at[number] for number, changes in storage.changes_when_written.items()
    ]
    assert sum(count > 0 for count in later) > 10
