"""Map state: a map for each key, in memory, in tables, and as its changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol import SavepointFormat
from netstack import HandleReader, KeyedStateBackend, MemoryStorage, StateError, StateHandle, StoredFile
from netstack.state.changelog import ChangelogBackend
from netstack.state.state_kinds import entry_key, parts_of
from netstack.state.table_backend import TableSettings, TableStateBackend
from netstack.state.value_encoding import encode_value
from tests.netstack.table_model import ModelStores

GROUPS = 4
WAYS = ["memory", "tables", "changelog"]

Contents = dict[int, dict[Any, Any]]


class Subject:
    """A backend, and the state that it should have."""

    def __init__(self, way: str, groups: range = range(GROUPS)) -> None:
        self.storage = MemoryStorage()
        self.number = 0
        self.keyed = KeyedStateBackend(groups, GROUPS)
        if way == "tables":
            settings = TableSettings(ModelStores(), incremental=True)
            self.keyed = TableStateBackend("count-0", groups, GROUPS, None, settings)
        changelog = ChangelogBackend(self.keyed, in_files=False, discard=self.storage.delete)
        self.backend = changelog if way == "changelog" else self.keyed
        self.map = self.keyed.map("map")

    def at(self, key: int) -> Any:
        self.keyed.set_current_key(key, key % GROUPS)
        return self.map

    @property
    def contents(self) -> Contents:
        return dict(self.map.items())

    def stored(self, layout: SavepointFormat | None = None) -> list[StateHandle]:
        self.number += 1

        def write(name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
            return self.storage.write(self.number, name, data, shared=shared)

        snapshot = self.backend.snapshot(self.number, layout)
        self.at(1).put("later", "than the snapshot")
        return snapshot.handles(write, 0)


KEYS = st.integers(0, 6)
IN_MAP = st.one_of(st.integers(-3, 300), st.text(max_size=3), st.binary(max_size=3), st.tuples(KEYS, KEYS))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, IN_MAP, st.one_of(KEYS, st.lists(KEYS, max_size=3))),
        st.tuples(st.just("remove"), KEYS, IN_MAP),
        st.tuples(st.just("clear"), KEYS),
    ),
    max_size=40,
)


def change(subject: Subject, model: Contents, step: tuple[Any, ...]) -> None:
    kept, at = model.setdefault(step[1], {}), subject.at(step[1])
    match step:
        case ("put", _, key, value):
            at.put(key, value)
            kept[key] = value
        case ("remove", _, key):
            at.remove(key)
            kept.pop(key, None)
        case _:
            at.clear()
            kept.clear()
    assert dict(at.entries()) == kept
    assert at.is_empty is not bool(kept)
    if step[0] != "clear":
        assert (step[2] in at) is (step[2] in kept)
        assert at.get(step[2]) == kept.get(step[2])


@pytest.mark.parametrize("way", WAYS)
@given(STEPS)
@settings(deadline=None)
def test_maps_are_those_of_a_dict_and_come_back(way: str, steps: list[tuple[Any, ...]]) -> None:
    subject, model = Subject(way), dict[int, dict[Any, Any]]()
    for step in steps:
        change(subject, model, step)
    expected = {key: kept for key, kept in model.items() if kept}
    assert subject.contents == expected
    handles = subject.stored()
    restored = Subject(way)
    restored.backend.restore(handles, HandleReader(subject.storage))
    assert restored.contents == expected


@pytest.mark.parametrize("into", WAYS)
@pytest.mark.parametrize("way", WAYS)
def test_a_canonical_savepoint_of_any_backend_is_restored_by_any_other_by_key_group(
    way: str, into: str
) -> None:
    subject, maps = (
        Subject(way),
        {key: {f"k{number}": number for number in range(key)} for key in range(1, 9)},
    )
    for key, kept in maps.items():
        subject.at(key).put_all(kept)
    handles = subject.stored(SavepointFormat.CANONICAL)
    halves = [Subject(into, groups) for groups in (range(2), range(2, GROUPS))]
    for half in halves:
        half.backend.restore(handles, HandleReader(subject.storage))
    assert halves[0].contents | halves[1].contents == maps
    assert not halves[0].contents.keys() & halves[1].contents.keys()
    with pytest.raises(StateError, match="key group 3 does not belong to this subtask"):
        halves[0].at(3)


@pytest.mark.parametrize("way", WAYS)
def test_a_large_map_is_changed_entry_by_entry_in_the_order_of_its_keys(way: str) -> None:
    subject = Subject(way)
    for number in (5, 300, 2, -1):
        subject.at(0).put(number, [number])
    assert list(subject.at(0).keys()) == sorted((5, 300, 2, -1), key=encode_value)
    keys = subject.at(0).keys()
    assert list(subject.at(0).values()) == [[key] for key in sorted((5, 300, 2, -1), key=encode_value)]
    for key in keys:
        subject.at(0).remove(key)  # while they are looked at
    assert subject.at(0).is_empty
    subject.at(0).put(1, 1)
    subject.at(0).put(1, None)
    assert subject.contents == {}


def in_memory(subject: Subject) -> Callable[[], Contents]:
    snapshot = subject.keyed.snapshot(9)

    def restored() -> Contents:
        other = Subject("memory")
        handles = snapshot.handles(lambda name, data, shared=False: subject.storage.write(9, name, data), 0)
        other.backend.restore(handles, HandleReader(subject.storage))
        return other.contents

    return restored


def test_a_snapshot_in_memory_keeps_values_that_are_changed_in_place() -> None:
    subject = Subject("memory")
    subject.at(0).put("a", [1])
    snapshot = in_memory(subject)
    subject.at(0).get("a").append(2)
    subject.at(0).put("b", [3])
    assert subject.contents == {0: {"a": [1, 2], "b": [3]}}
    assert snapshot() == {0: {"a": [1]}}


def test_names_of_entries_are_told_apart() -> None:
    for key, in_map in ((b"\0\1key", b"user"), (b"\0\1", b""), (b"\0\1key", b"\0" * 300)):
        assert parts_of(entry_key(key, in_map)) == (key, in_map)
    with pytest.raises(StateError, match="an entry of map state has a damaged key"):
        parts_of(b"\0\1\0\0\0\xff")
    with pytest.raises(StateError, match="an entry of map state has a damaged key"):
        parts_of(b"ab")
