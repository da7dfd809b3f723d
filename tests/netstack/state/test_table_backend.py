"""Keyed state in a store of tables: what it keeps, what its snapshots store, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from flowcontrol import SavepointFormat
from netstack import (
    HandleReader,
    KeyedStateBackend,
    MemoryStorage,
    StateError,
    StateFormat,
    StateHandle,
    StorageError,
    StoredFile,
    TableOptions,
)
from netstack.state.table_backend import TableSettings, TableStateBackend
from tests.netstack.table_model import ModelStores

GROUPS = 8


class Store:
    """Backends over one set of stores, and a storage for their checkpoints."""

    def __init__(self, *, incremental: bool = True, write_buffer: int = 1 << 20) -> None:
        self.stores = ModelStores()
        self.storage = MemoryStorage()
        self.writes: list[str] = []
        self.full = False
        self._settings = TableSettings(self.stores, TableOptions(write_buffer), incremental)

    def backend(
        self, groups: range = range(GROUPS), name: str = "count-0", first_checkpoint: int = 1
    ) -> TableStateBackend:
        settings = self._settings._replace(first_checkpoint=first_checkpoint)
        return TableStateBackend(name, groups, GROUPS, None, settings)

    def checkpoint(
        self, backend: KeyedStateBackend, number: int, *, confirmed: bool = True, inline_up_to: int = 0
    ) -> list[StateHandle]:
        self.writes = []

        def write(name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
            if self.full:
                raise StorageError("no space is left")
            self.writes.append(name)
            return self.storage.write(number, f"count-0-{name}", data, shared=shared)

        handles = backend.snapshot(number).handles(write, inline_up_to)
        if confirmed:
            backend.checkpoint_completed(number)
        return handles

    def read(self) -> HandleReader:
        return HandleReader(self.storage)

    @property
    def open_views(self) -> int:
        return sum(not view.released for store in self.stores.opened for view in store.views)


def count(backend: KeyedStateBackend, keys: Sequence[int]) -> None:
    value, numbers = backend.value("value", 0), backend.list("list")
    total = backend.reducing("total", lambda one, other: one + other)
    mean = backend.aggregating("mean", lambda: [0, 0], added, lambda kept: kept[0] / kept[1])
    for key in keys:
        backend.set_current_key(key, key % GROUPS)
        value.update(value.get() + 1)
        numbers.add_all([key, str(key)])
        total.add(key)
        mean.add(key)
        if key == 13:
            value.clear()


def added(kept: list[int], value: int) -> list[int]:
    kept[0] += value
    kept[1] += 1
    return kept


def contents(backend: KeyedStateBackend) -> list[Any]:
    def plus(one: int, other: int) -> int:
        return one + other

    states = (
        backend.value("value"),
        backend.list("list"),
        backend.reducing("total", plus),
        backend.aggregating("mean", lambda: [0, 0], added, lambda kept: kept[0] / kept[1]),
    )
    return [sorted(state.items()) for state in states]


def on_heap(keys: Sequence[int], groups: range = range(GROUPS)) -> list[Any]:
    backend = KeyedStateBackend(groups, GROUPS)
    count(backend, [key for key in keys if key % GROUPS in groups])
    return contents(backend)


KEYS = [*range(40), *range(10, 20), 13, 5]


def test_states_are_those_of_a_backend_in_memory() -> None:
    backend = Store().backend()
    count(backend, KEYS)
    assert contents(backend) == on_heap(KEYS)
    backend.set_current_key(5, 5)
    assert backend.list("list").get() == [5, "5", 5, "5"]
    backend.list("list").add_all([])
    backend.list("list").update([])
    assert backend.list("list").get() == []
    with pytest.raises(
        StateError, match="state 'value' has the kind value, so it cannot be used with the kind list"
    ):
        backend.list("value")
    with pytest.raises(StateError, match="state 'value': a value of type object cannot be stored as state"):
        backend.value("value").update(object())


def test_a_full_write_buffer_is_flushed() -> None:
    store = Store(write_buffer=300)
    backend, flushes = store.backend(), list[int]()
    backend.on_flush = lambda: flushes.append(len(store.stores.opened[0].tables))
    count(backend, KEYS)
    assert flushes == [4, 8, 12]
    assert store.stores.opened[0].unflushed_bytes() < 300
    assert contents(backend) == on_heap(KEYS)


def test_a_snapshot_is_tables_and_a_catalogue_and_comes_back() -> None:
    store = Store()
    backend = store.backend()
    count(backend, KEYS)
    handles = store.checkpoint(backend, 3)
    assert [(handle.format, handle.key_groups) for handle in handles] == [
        *[(StateFormat.TABLE_FILE, (0, 7))] * 4,
        (StateFormat.CATALOGUE, (0, 7)),
    ]
    assert store.writes == ["1-1-3", "1-2-3", "1-3-3", "1-4-3", "catalogue"]
    assert [handle.file and handle.file.shared for handle in handles] == [True] * 4 + [False]
    restored = store.backend()
    restored.restore(handles, store.read())
    assert contents(restored) == on_heap(KEYS)
    assert store.open_views == 0


def used_again(handles: Sequence[StateHandle]) -> list[StateHandle]:
    """The same handles in a checkpoint for which nothing of it is stored."""
    return [replace(handle, stored_before=True) for handle in handles]


def test_only_what_no_confirmed_checkpoint_has_is_stored_again() -> None:
    store = Store()
    backend = store.backend()
    count(backend, [1])
    store.checkpoint(backend, 1)
    count(backend, [2])
    second = store.checkpoint(backend, 2, confirmed=False)
    assert store.writes == [*(f"1-{number}-2" for number in range(5, 9)), "catalogue"]
    third = store.checkpoint(backend, 3, confirmed=False)
    assert store.writes == [*(f"1-{number}-3" for number in range(5, 9)), "catalogue"]
    assert [handle.name for handle in third] == [handle.name for handle in second]
    backend.checkpoint_aborted(3)
    backend.checkpoint_completed(3)
    fourth = store.checkpoint(backend, 4, confirmed=False)
    assert len(store.writes) == 5
    backend.checkpoint_completed(4)
    backend.checkpoint_completed(2)  # which comes late, and says nothing new
    assert store.checkpoint(backend, 5)[:-1] == used_again(fourth[:-1])
    assert store.writes == ["catalogue"]


def test_full_snapshots_store_all_for_themselves() -> None:
    store = Store(incremental=False)
    backend = store.backend()
    count(backend, [1])
    store.checkpoint(backend, 1)
    handles = store.checkpoint(backend, 2)
    assert len(store.writes) == 5
    assert store.storage.shared_files() == {}
    assert {handle.file and handle.file.path.partition("/")[0] for handle in handles} == {"chk-2"}


def test_restored_files_are_used_again_unless_they_are_another_s() -> None:
    store = Store()
    first = store.backend()
    count(first, KEYS)
    handles = store.checkpoint(first, 1)
    restored = store.backend(first_checkpoint=7)
    restored.restore(handles, store.read())
    again = store.checkpoint(restored, 7)
    assert store.writes == ["catalogue"]
    assert again[:-1] == used_again(handles[:-1])
    count(restored, [1])
    store.checkpoint(restored, 8)
    assert store.writes[0] == "7-5-8"
    other = store.backend(name="count-3")
    other.restore(handles, store.read())
    store.checkpoint(other, 9)
    assert store.writes == ["catalogue"]
    private = Store(incremental=False)
    plain = private.backend()
    count(plain, KEYS)
    unshared = private.checkpoint(plain, 1)
    store.storage.files |= private.storage.files
    borrower = store.backend(name="count-4")
    borrower.restore(unshared, store.read())
    store.checkpoint(borrower, 10)
    assert store.writes == [*(f"count-0-1-{number}-10" for number in range(1, 5)), "catalogue"]


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
@pytest.mark.parametrize("into", [1, 2, 3, 8])
def test_any_range_of_key_groups_comes_back(parts: int, into: int) -> None:
    store, handles = Store(), list[StateHandle]()
    for number, groups in enumerate(ranges(parts), 1):
        backend = store.backend(groups, f"count-{groups.start}")
        count(backend, [key for key in KEYS if key % GROUPS in groups])
        handles += store.checkpoint(backend, number)
    for groups in ranges(into):
        restored = store.backend(groups)
        restored.restore(handles, store.read())
        assert contents(restored) == on_heap(KEYS, groups)
    beside = [opened for opened in store.stores.opened if opened.closed]
    assert len(store.stores.opened) - len(beside) == parts + into


def ranges(parts: int) -> list[range]:
    bounds = [part * GROUPS // parts for part in range(parts + 1)]
    return [range(first, stop) for first, stop in pairwise(bounds)]


def test_state_of_a_backend_in_memory_is_taken_over_but_not_the_other_way_round() -> None:
    store, heap = Store(), KeyedStateBackend(range(GROUPS), GROUPS)
    count(heap, KEYS)
    handles = store.checkpoint(heap, 1)
    backend = store.backend()
    backend.restore(handles, store.read())
    assert contents(backend) == on_heap(KEYS)
    tables = store.checkpoint(backend, 2)
    with pytest.raises(
        StateError, match=r"the keyed state is stored as a table file; set state\.backend\.type to rocksdb"
    ):
        KeyedStateBackend(range(GROUPS), GROUPS).restore(tables, store.read())


def savepoint(
    store: Store, backend: KeyedStateBackend, number: int, layout: SavepointFormat
) -> list[StateHandle]:
    folder = store.storage.savepoint("savepoint")

    def write(name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
        assert not shared, "nobody else may need it"
        return folder.write(number, name, data)

    return backend.snapshot(number, layout).handles(write, 0)


def test_a_canonical_savepoint_is_that_of_a_backend_in_memory_and_both_restore_it() -> None:
    store, heap = Store(), KeyedStateBackend(range(GROUPS), GROUPS)
    backend = store.backend()
    for each in (backend, heap):
        count(each, KEYS)
    snapshot = backend.snapshot(7, SavepointFormat.CANONICAL)
    count(backend, [1, 2, 3])  # while it is stored
    in_memory = Store()
    folder = store.storage.savepoint("savepoint")
    handles = snapshot.handles(lambda name, data, shared=False: folder.write(7, name, data), 0)
    assert handles == savepoint(in_memory, heap, 7, SavepointFormat.CANONICAL)
    assert {handle.format for handle in handles} == {StateFormat.CANONICAL}
    assert store.open_views == 0
    for restored in (KeyedStateBackend(range(GROUPS), GROUPS), Store().backend()):
        restored.restore(handles, HandleReader(folder))
        assert contents(restored) == on_heap(KEYS)


def test_a_native_savepoint_has_files_of_its_own_and_leaves_incremental_checkpoints_alone() -> None:
    store = Store()
    backend = store.backend()
    count(backend, KEYS)
    first = store.checkpoint(backend, 1)
    handles = savepoint(store, backend, 2, SavepointFormat.NATIVE)
    assert {handle.format for handle in handles} == {StateFormat.TABLE_FILE, StateFormat.CATALOGUE}
    assert not any(handle.stored_before for handle in handles)
    backend.checkpoint_completed(2)
    third = store.checkpoint(backend, 3)
    assert third[:-1] == used_again(first[:-1]), "they rest on the checkpoint before"
    restored = store.backend()
    restored.restore(handles, HandleReader(store.storage.savepoint("savepoint")))
    assert contents(restored) == on_heap(KEYS)


def test_small_tables_stand_in_their_handles() -> None:
    store = Store()
    backend = store.backend()
    count(backend, [1])
    handles = store.checkpoint(backend, 1, inline_up_to=10_000)
    assert store.writes == []
    assert [len(handle.inline or b"") for handle in handles[:-1]] == [handle.size for handle in handles[:-1]]
    assert handles[-1].inline is not None
    restored = store.backend()
    restored.restore(handles, store.read())
    assert contents(restored) == on_heap([1])


def test_a_snapshot_that_fails_or_is_released_keeps_nothing() -> None:
    store = Store()
    backend = store.backend()
    count(backend, [1])
    store.full = True
    with pytest.raises(StorageError):
        store.checkpoint(backend, 1)
    backend.checkpoint_completed(1)
    snapshot = backend.snapshot(2)
    snapshot.release()
    snapshot.release()
    assert store.open_views == 0
    store.full = False
    assert len(store.checkpoint(backend, 3)) == len(store.writes) == 5
    backend.close()
    assert store.stores.opened[0].closed


def test_a_backend_that_was_never_used_has_no_store() -> None:
    store = Store()
    backend = store.backend()
    assert store.checkpoint(backend, 1) == []
    backend.close()
    assert store.stores.opened == []


def test_a_catalogue_that_does_not_fit_its_tables_is_refused() -> None:
    store = Store()
    backend = store.backend()
    count(backend, [1])
    handles = store.checkpoint(backend, 1, inline_up_to=10_000)
    for wrong in (handles[1:], handles[:-1], handles[::-1]):
        with pytest.raises(StateError, match="catalogue"):
            store.backend().restore(wrong, store.read())


def with_catalogue(handles: Sequence[StateHandle], fields: Sequence[Any]) -> list[StateHandle]:
    data = msgspec.msgpack.encode(fields)
    return [*handles[:-1], replace(handles[-1], inline=data, size=len(data))]


def test_tables_come_back_with_the_metadata_and_the_names_that_they_had_in_the_store() -> None:
    store = Store()
    backend = store.backend()
    for _ in range(4):
        count(backend, [1, 2, 3])
        backend.store.flush()
    backend.store.compact()
    count(backend, [4])
    handles = store.checkpoint(backend, 1, inline_up_to=10_000)
    layout, states, tables, metadata = msgspec.msgpack.decode(handles[-1].inline or b"")
    assert layout == 3
    assert list(states) == ["list", "mean", "total", "value"]
    assert list(tables) == [handle.name for handle in handles[:-1]]
    restored = store.backend()
    restored.restore(handles, store.read())
    assert [table.name for table in restored.store.view().files] == list(tables.values())
    assert restored.store.view().metadata == metadata
    assert contents(restored) == contents(backend)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({0: 2}, "the catalogue of keyed state has the layout 2, not 3"),
        ({2: {}}, "the catalogue of keyed state lists tables that differ from those in the checkpoint"),
        ({2: [0, 0]}, "cannot be read: Expected `object`, got `array`"),
        ({3: {"levels": 1}}, "cannot be read: Expected `bytes`, got `int`"),
    ],
)
def test_a_catalogue_with_another_layout_or_other_tables_is_refused(
    changed: dict[int, Any], told: str
) -> None:
    store = Store()
    backend = store.backend()
    count(backend, [1])
    handles = store.checkpoint(backend, 1, inline_up_to=10_000)
    fields = msgspec.msgpack.decode(handles[-1].inline or b"")
    for place, value in changed.items():
        fields[place] = value
    with pytest.raises(StateError, match=told):
        store.backend().restore(with_catalogue(handles, fields), store.read())


def test_few_key_groups_of_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netstack.state.table_backend.REMEMBERED_KEYS", 3)
    backend = Store().backend()
    for key in range(10):
        backend.set_current_key(key, 1)
    with pytest.raises(StateError, match="arrived with the key groups 1 and 2"):
        backend.set_current_key(1, 2)
    backend.set_current_key(9, 2)
