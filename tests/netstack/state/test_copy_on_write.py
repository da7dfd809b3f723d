import copy
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from netstack.state.copy_on_write import CopyOnWriteMap, MapSnapshot

KEYS = st.integers(0, 4)


def filled(**entries: Any) -> CopyOnWriteMap[str, Any]:
    table: CopyOnWriteMap[str, Any] = CopyOnWriteMap()
    for key, value in entries.items():
        table.put(key, value)
    return table


def test_a_snapshot_keeps_what_is_overwritten_and_nothing_else() -> None:
    table = filled(a=1, b=2, c=3)
    snapshot = table.snapshot()
    assert snapshot.saved == {}
    table.put("a", 7)
    table.put("a", 8)
    table.remove("b")
    table.remove("z")
    table.put("d", 4)
    assert snapshot.saved.keys() == {"a", "b", "d"}
    assert snapshot.items() == [("a", 1), ("b", 2), ("c", 3)]
    assert [(key, table.get(key)) for key in table] == [("a", 8), ("c", 3), ("d", 4)]


def test_a_value_is_copied_once_when_it_is_first_asked_for() -> None:
    original = [[1], (2, [3]), {"k": [4]}]
    table = filled(a=original)
    assert table.get("a") is original
    snapshot = table.snapshot()
    live = table.get("a")
    assert live is not original
    live[0].append(9)
    live[1][1].append(9)
    live[2]["k"].append(9)
    assert table.get("a") is live
    assert snapshot.items() == [("a", [[1], (2, [3]), {"k": [4]}])]
    snapshot.release()
    assert table.get("a") is live


def test_released_snapshots_cost_nothing() -> None:
    table = filled(a=1, b=[2])
    first, second = table.snapshot(), table.snapshot()
    first.release()
    first.release()
    second.release()
    assert not table._open
    table.put("a", 3)
    kept = table.get("b")
    assert kept is table.get("b")
    assert (first.saved, second.saved) == ({}, {})
    with pytest.raises(RuntimeError, match="a snapshot was read after it had been released"):
        first.items()


def test_an_older_snapshot_outlives_a_newer_one() -> None:
    table = filled(a=1, b=1)
    older = table.snapshot()
    table.put("a", 2)
    newer = table.snapshot()
    table.put("a", 3)
    table.put("b", 3)
    assert older.saved == {"a": 1}
    newer.release()
    assert older.items() == [("a", 1), ("b", 1)]
    table.put("b", 4)
    assert older.items() == [("a", 1), ("b", 1)]


class Model(RuleBasedStateMachine):
    """Any number of snapshots show what a deep copy at their moment shows, whatever happens later."""

    snapshots = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        self.table: CopyOnWriteMap[int, Any] = CopyOnWriteMap()
        self.model: dict[int, Any] = {}
        self.open: list[tuple[MapSnapshot[int, Any], dict[int, Any]]] = []

    @rule(key=KEYS, value=st.integers() | st.lists(st.integers(), max_size=2))
    def put(self, key: int, value: Any) -> None:
        self.table.put(key, copy.deepcopy(value))
        self.model[key] = value

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        self.table.remove(key)
        self.model.pop(key, None)

    @rule(key=KEYS, value=st.integers())
    def append(self, key: int, value: int) -> None:
        values = self.table.get(key)
        if isinstance(values, list):
            values.append(value)
            self.model[key] = [*self.model[key], value]

    @rule(target=snapshots)
    def take(self) -> MapSnapshot[int, Any]:
        snapshot = self.table.snapshot()
        self.open.append((snapshot, copy.deepcopy(self.model)))
        return snapshot

    @rule(snapshot=consumes(snapshots))
    def release(self, snapshot: MapSnapshot[int, Any]) -> None:
        snapshot.release()
        self.open = [pair for pair in self.open if pair[0] is not snapshot]

    @invariant()
    def snapshots_show_their_moment(self) -> None:
        for snapshot, expected in self.open:
            assert snapshot.items() == sorted(expected.items())

    @invariant()
    def the_map_is_current(self) -> None:
        assert dict(entries_of(self.table)) == self.model
        assert len(self.table) == len(self.model)
        assert len(self.table._open) == len(self.open)


def entries_of(table: CopyOnWriteMap[int, Any]) -> list[tuple[int, Any]]:
    """Read a map without touching it, unlike `get`."""
    return list(table._entries.items())


Model.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestModel = Model.TestCase
