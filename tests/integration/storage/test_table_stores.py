"""What a table store has to do, for real RocksDB and for the model that other tests use in its place."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.storage.rocksdb import RocksStore, RocksStores
from netstack import StateError, TableOptions, TableStore, TableStores
from tests.netstack.table_model import ModelStores

OPTIONS = TableOptions()
MANY_LEVELS = TableOptions(target_file_bytes=20_000, level_base_bytes=60_000)


@pytest.fixture(params=["rocksdb", "model"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TableStores]:
    if request.param == "model":
        yield ModelStores()
    else:
        opened = RocksStores(tmp_path / "stores")
        yield opened
        opened.close()


def entries(store: TableStore, name: str) -> list[tuple[bytes, bytes]]:
    return list(store.family(name).items())


def write(store: TableStore, name: str, first: int, stop: int, value: bytes = b"v") -> None:
    for number in range(first, stop):
        store.family(name).put(b"%06d" % number, value)


def churn(store: TableStore, rounds: int, seed: int, compacts: bool = True) -> dict[bytes, bytes]:
    """Write, remove and flush at random, compacting as soon as the store wants to; returns what is kept."""
    drawn, kept, family = random.Random(seed), dict[bytes, bytes](), store.family("a")
    for _ in range(rounds):
        for _ in range(200):
            key = b"%04d" % drawn.randrange(1500)
            if drawn.random() < 0.1:
                family.remove(key)
                kept.pop(key, None)
            else:
                kept[key] = drawn.randbytes(50)
                family.put(key, kept[key])
        store.flush()
        if compacts and store.wants_compaction():
            store.compact()
    return dict(sorted(kept.items()))


def sizes(store: TableStore) -> dict[str, int]:
    view = store.view()
    found = {file.name: file.size for file in view.files}
    view.release()
    return found


def copy(store: TableStore, other: TableStore) -> None:
    """Restore a view of a store in another one."""
    view = store.view()
    other.restore([(file.name, file.read()) for file in view.files], view.metadata)
    view.release()


def test_entries_are_those_that_were_written_last_in_the_order_of_their_keys(stores: TableStores) -> None:
    store = stores.open("s", OPTIONS)
    kept = churn(store, 10, seed=1)
    family = store.family("a")
    assert entries(store, "a") == list(kept.items())
    assert [family.get(key) for key in kept] == list(kept.values())
    assert family.get(b"nothing") is None
    family.put(b"0000", b"unflushed")
    assert family.get(b"0000") == b"unflushed"
    assert list(family.items(b"0100", b"0200")) == [
        (key, value) for key, value in kept.items() if b"0100" <= key < b"0200"
    ]
    assert entries(store, "b") == []


def test_a_flush_writes_one_file_for_each_family_that_was_written_to(stores: TableStores) -> None:
    store = stores.open("s", OPTIONS)
    write(store, "a", 0, 100)
    write(store, "b", 0, 100)
    assert store.unflushed_bytes() >= 200 * 7
    written = store.flush()
    assert store.unflushed_bytes() == 0
    before = sizes(store)
    assert len(before) == 2
    assert written == sum(before.values())
    assert store.flush() == 0
    write(store, "b", 0, 1)
    written = store.flush()
    (new,) = sizes(store).keys() - before.keys()
    assert written == sizes(store)[new]


def test_the_fourth_file_of_level_0_is_merged(stores: TableStores) -> None:
    store = stores.open("s", OPTIONS)
    for number in range(4):
        assert not store.wants_compaction()
        write(store, "a", 0, 100, b"%d" % number)
        store.flush()
    assert store.wants_compaction()
    view = store.view()
    before, bytes_of = sizes(store), [file.read() for file in view.files]
    moved = store.compact()
    assert not store.wants_compaction()
    after = sizes(store)
    assert len(after) == 1
    assert after.keys().isdisjoint(before)
    assert moved == sum(before.values()) + sum(after.values())
    assert [file.read() for file in view.files] == bytes_of
    write(store, "a", 0, 10, b"later")
    store.flush()
    assert len(sizes(store)) == 2
    assert [value for _, value in entries(store, "a")] == [b"later"] * 10 + [b"3"] * 90
    view.release()
    view.release()


def test_what_is_restored_is_what_was_there_and_goes_on(stores: TableStores) -> None:
    store = stores.open("s", OPTIONS)
    kept = churn(store, 7, seed=2)
    write(store, "b", 0, 10)
    store.flush()
    other = stores.open("t", OPTIONS)
    copy(store, other)
    assert sizes(other) == sizes(store)
    assert entries(other, "a") == list(kept.items())
    assert len(entries(other, "b")) == 10
    other.family("a").put(b"0001", b"newest")
    other.flush()
    assert sizes(store).items() < sizes(other).items()
    while other.wants_compaction():
        other.compact()
    assert entries(other, "a") == list((kept | {b"0001": b"newest"}).items())


def test_files_with_the_same_entries_are_merged_for_each_family(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s", OPTIONS)
    for number in range(4):
        for name in "abc":
            write(store, name, 0, 20, b"%d" % number)
        store.flush()
    store.compact()
    assert len(sizes(store)) == 3
    assert [entries(store, name)[0][1] for name in "abc"] == [b"3"] * 3
    store.close()


def test_a_file_that_is_moved_to_another_level_is_neither_read_nor_written(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s", OPTIONS)
    for key in (b"a", b"b", b"c", b"d"):
        store.family("a").put(key, b"1")
        store.flush()
    before = sizes(store)
    assert store.wants_compaction()
    assert store.compact() == 0
    assert not store.wants_compaction()
    assert sizes(store) == before
    store.close()


@pytest.mark.parametrize("options", [OPTIONS, MANY_LEVELS], ids=["one level", "many"])
def test_the_same_calls_give_the_same_sizes(options: TableOptions, tmp_path: Path) -> None:
    found = []
    for number in range(2):
        # The second database has given away so many file numbers that they have another length.
        store = RocksStore(tmp_path / str(number), options)
        more = 150 * number
        for _ in range(more):
            store._wait_for_compactions()
        churn(store, 40, seed=3)
        restored = RocksStore(tmp_path / f"r{number}", options)
        copy(store, restored)
        moved = list[Any](churn(restored, 3, seed=4, compacts=False).items())
        moved.append(restored.compact())
        views = [store.view(), restored.view()]
        found.append(([(view.metadata_size, [file.size for file in view.files]) for view in views], moved))
        store.close()
        restored.close()
    assert found[0] == found[1]


def test_a_view_has_the_metadata_that_rocksdb_needs(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s", OPTIONS)
    write(store, "a", 0, 100)
    store.flush()
    view = store.view()
    assert [name.partition("-")[0] for name in view.metadata] == ["CURRENT", "MANIFEST", "OPTIONS"]
    assert view.metadata["CURRENT"].decode().strip() in view.metadata
    (options,) = (data for name, data in view.metadata.items() if name.startswith("OPTIONS"))
    assert view.metadata_size == len(options)
    store.close()


def test_a_view_keeps_its_files_until_it_is_released_and_a_store_its_folder_until_it_is_closed(
    tmp_path: Path,
) -> None:
    store = RocksStore(tmp_path / "s", OPTIONS)
    churn(store, 3, seed=5, compacts=False)
    view = store.view()
    churn(store, 1, seed=6)
    assert [file.name in sizes(store) for file in view.files] == [False] * 3
    assert all(file.read() for file in view.files)
    view.release()
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["db"]
    store.close()
    store.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StateError, match="a table store was used after it had been closed"):
        store.flush()


def test_files_that_are_no_database_are_refused_in_one_line(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s", OPTIONS)
    write(store, "a", 0, 100)
    store.flush()
    view = store.view()
    metadata = view.metadata
    ((name, good),) = ((file.name, file.read()) for file in view.files)
    store.close()
    manifest = next(each for each in metadata if each.startswith("MANIFEST"))
    spoilt = bytes([metadata[manifest][40] ^ 1])
    for files, described in (
        ([(name, b"")], metadata),
        ([(name, b"x" * len(good))], metadata),
        ([(name, good[:-1])], metadata),
        ([], metadata),
        ([(name, good), ("999999.sst", good)], metadata),
        ([("../elsewhere.sst", good)], metadata),
        ([(name, good)], {}),
        ([(name, good)], {**metadata, "../elsewhere": b""}),
        ([(name, good)], {**metadata, manifest: b"x" * 500}),
        (
            [(name, good)],
            {**metadata, manifest: metadata[manifest][:40] + spoilt + metadata[manifest][41:]},
        ),
    ):
        broken = RocksStore(tmp_path / "b" / "store", OPTIONS)
        with pytest.raises(StateError, match="table files cannot be restored") as caught:
            broken.restore(files, described)
        assert "\n" not in str(caught.value)
        broken.close()
        assert list((tmp_path / "b").iterdir()) == []
