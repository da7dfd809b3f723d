"""What a table store has to do, for real RocksDB and for the model that other tests use in its place."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.storage.rocksdb import RocksStore, RocksStores, _switch
from integration.storage.rocksdb_edits import _properties, family_of, normalised
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
            store.compact().install()
    return dict(sorted(kept.items()))


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
    view = store.view()
    assert written == sum(file.size for file in view.files) == sum(len(file.read()) for file in view.files)
    assert [(file.number, file.level) for file in view.files] == [(1, 0), (2, 0)]
    assert store.flush() == 0
    write(store, "b", 0, 1)
    store.flush()
    assert [file.number for file in store.view().files] == [1, 2, 3]


def test_the_fourth_file_of_level_0_is_merged_and_shows_when_it_is_installed(stores: TableStores) -> None:
    store = stores.open("s", OPTIONS)
    for number in range(4):
        assert not store.wants_compaction()
        write(store, "a", 0, 100, b"%d" % number)
        store.flush()
    assert store.wants_compaction()
    before = store.view()
    bytes_of = [file.read() for file in before.files]
    compaction = store.compact()
    assert not store.wants_compaction()
    assert [file.number for file in store.view().files] == [1, 2, 3, 4]
    write(store, "a", 0, 10, b"later")
    store.flush()
    assert [file.number for file in store.view().files] == [1, 2, 3, 4, 6]
    compaction.install()
    after = store.view()
    assert [(file.number, file.level) for file in after.files] == [(5, 1), (6, 0)]
    assert compaction.bytes_read == sum(map(len, bytes_of))
    assert compaction.bytes_written == after.files[0].size < compaction.bytes_read
    assert [file.read() for file in before.files] == bytes_of
    assert [value for _, value in entries(store, "a")] == [b"later"] * 10 + [b"3"] * 90
    before.release()
    before.release()


def test_what_is_restored_is_what_was_there_and_goes_on(stores: TableStores) -> None:
    store = stores.open("s", OPTIONS)
    kept = churn(store, 7, seed=2)
    write(store, "b", 0, 10)
    store.flush()
    files = store.view().files
    other = stores.open("t", OPTIONS)
    numbers = other.restore([file.read() for file in files], [file.level for file in files])
    assert [file.number for file in other.view().files] == numbers == list(range(1, len(files) + 1))
    assert [file.read() for file in other.view().files] == [file.read() for file in files]
    assert [file.level for file in other.view().files] == [file.level for file in files]
    assert entries(other, "a") == list(kept.items())
    assert len(entries(other, "b")) == 10
    other.family("a").put(b"0001", b"newest")
    other.flush()
    while other.wants_compaction():
        other.compact().install()
    assert entries(other, "a") == list((kept | {b"0001": b"newest"}).items())


def flushed(store: RocksStore, **values: str) -> bytes:
    """Put values and flush; returns the new file."""
    for key, value in values.items():
        store.family("a").put(key.encode(), value.encode())
    store.flush()
    return store.view().files[-1].read()


def test_a_file_that_a_merge_left_alone_still_hides_older_entries_in_what_was_merged(tmp_path: Path) -> None:
    """In one level the merged file, whose last entry is the newest of all, would hide the other one."""
    store = RocksStore(tmp_path / "s", OPTIONS)
    base = flushed(store, a="1", z="1")
    first = flushed(store, p="1", q="old")
    left_alone = flushed(store, q="new")
    last = flushed(store, o="1", r="1")
    store.close()

    merging = RocksStore(tmp_path / "m", TableOptions(level0_files=2))
    merging.restore([base, first, last], [2, 0, 0])
    assert merging.wants_compaction()
    merging.compact().install()
    (deepest, merged) = merging.view().files
    assert (deepest.level, merged.level) == (2, 1)

    restored = RocksStore(tmp_path / "r", OPTIONS)
    restored.restore([base, left_alone, merged.read()], [2, 0, 1])
    assert [restored.family("a").get(key) for key in (b"a", b"o", b"p", b"q", b"z")] == [
        *(b"1", b"1", b"1", b"new", b"1")
    ]
    assert dict(restored.family("a").items())[b"q"] == b"new"
    merging.close()
    restored.close()


def test_levels_are_found_in_a_manifest_of_several_blocks(tmp_path: Path) -> None:
    """Each of these has 32 KiB, and records go on from one to the next."""
    store, restored = (RocksStore(tmp_path / name, OPTIONS) for name in "sr")
    keys = [f"{number:02}".ljust(1500, "k") for number in range(40)]
    files = [flushed(store, **{key: key[:2]}) for key in keys]
    levels = [number % 6 + 1 for number in range(40)]
    restored.restore(files, levels)
    assert [file.level for file in restored.view().files] == levels
    assert [restored.family("a").get(key.encode()) for key in keys] == [key[:2].encode() for key in keys]
    assert max(path.stat().st_size for path in (tmp_path / "r" / "db").glob("MANIFEST-*")) > 3 << 15
    store.close()
    restored.close()


def test_files_at_levels_where_they_cannot_stand_are_refused_in_one_line(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s", OPTIONS)
    files = [flushed(store, a=str(number), b="1") for number in range(3)]
    store.close()
    for wrong in ([6, 6, 0], [7, 0, 0], [200, 0, 0]):
        broken = RocksStore(tmp_path / "b", OPTIONS)
        with pytest.raises(StateError, match="table files cannot be restored") as caught:
            broken.restore(files, wrong)
        assert "\n" not in str(caught.value)
        broken.close()


def test_a_file_that_is_moved_shows_at_its_new_level_when_the_compaction_is_installed(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s", OPTIONS)
    for key in "abcd":
        flushed(store, **{key: "1"})
    compaction = store.compact()
    assert [file.level for file in store.view().files] == [0, 0, 0, 0]
    compaction.install()
    assert sorted(file.level for file in store.view().files) != [0, 0, 0, 0]
    assert (compaction.bytes_read, compaction.bytes_written) == (0, 0)
    store.close()


@pytest.mark.parametrize("options", [OPTIONS, MANY_LEVELS], ids=["one level", "many"])
def test_the_same_calls_give_the_same_bytes(options: TableOptions, tmp_path: Path) -> None:
    found = []
    for number in range(2):
        store = RocksStore(tmp_path / str(number), options)
        churn(store, 40, seed=3)
        view = store.view()
        found.append(([(file.number, file.level, file.read()) for file in view.files], view.options))
        restored = RocksStore(tmp_path / f"r{number}", options)
        restored.restore([file.read() for file in view.files], [file.level for file in view.files])
        churn(restored, 10, seed=4)
        after = restored.view()
        found[-1] += ([(file.number, file.level, file.read()) for file in after.files], after.options)
        store.close()
        restored.close()
    assert found[0] == found[1]
    levels = {level for _, level, _ in found[0][0]}
    assert (2 in levels) == (options is MANY_LEVELS)


def test_bytes_do_not_depend_on_how_many_files_there_were_before(tmp_path: Path) -> None:
    """Numbers of files, which RocksDB's threads take as well, are one byte long up to 127, and then two."""
    found = []
    for more in (0, 150):
        store = RocksStore(tmp_path / str(more), OPTIONS)
        store.family("a")
        for _ in range(more):  # each takes a number for its file of options
            _switch([store.family("a").rocks], automatic=False)
        write(store, "a", 0, 30)
        store.flush()
        (file,) = store.view().files
        found.append((file.size, file.read()))
        store.close()
    assert found[0] == found[1]
    size, data = found[0]
    assert size == len(data)
    other = RocksStore(tmp_path / "other", OPTIONS)
    other.restore([data], [0])
    assert len(entries(other, "a")) == 30
    other.close()


def test_files_are_numbered_by_family(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s", OPTIONS)
    for name in ("b", "c", "a"):
        write(store, name, 0, 10)
    store.flush()
    assert [family_of(file.read()) for file in store.view().files] == ["a", "b", "c"]
    store.close()


def links_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_a_file_stays_as_long_as_a_view_has_it_and_the_folder_as_long_as_the_store(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s", OPTIONS)
    churn(store, 3, seed=5, compacts=False)
    view = store.view()
    churn(store, 1, seed=6)
    assert links_in(tmp_path / "s") == ["1", "2", "3", "5"]
    assert len(view.files[0].read()) == view.files[0].size
    view.release()
    assert links_in(tmp_path / "s") == ["5"]
    store.close()
    store.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StateError, match="a table store was used after it had been closed"):
        store.flush()


def test_files_that_are_none_are_refused_in_one_line(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "s", OPTIONS)
    write(store, "a", 0, 100)
    store.flush()
    good = store.view().files[0].read()
    store.close()
    assert family_of(good) == "a"
    assert normalised(good) == good
    for bad in (b"", b"x" * 500, good[:-1], good[:200] + good[-53:], good[-53:]):
        with pytest.raises(StateError) as caught:
            family_of(bad)
        assert "\n" not in str(caught.value)
        broken = RocksStore(tmp_path / "b", OPTIONS)
        with pytest.raises(StateError):
            broken.restore([bad], [0])
        broken.close()


def test_what_a_damaged_table_file_says_of_itself_is_not_believed(tmp_path: Path) -> None:
    """Lengths that lead beyond the file, a name that is no text, a number that has no end, or no bytes."""
    store = RocksStore(tmp_path / "s", OPTIONS)
    write(store, "some family", 0, 3)
    store.flush()
    good = store.view().files[0].read()
    store.close()
    name, start, size = next(each for each in _properties(good) if each[0].endswith(b"db.identity"))
    # Before the end of the name that is its own stand how much of it is shared, that, and the value's length.
    length = max(at for at in range(start) if good[at] == size and good[at - 1] == start - at - 1)
    assert name.endswith(good[length + 1 : start])
    for bad in (
        good[:length] + b"\x7f" + good[length + 1 :],
        good[: length - 1] + b"\xff" * 12 + good[length + 11 :],
        good.replace(b"some family", b"some\xfffamily"),
        good[:-52] + b"\xff" * 20 + good[-32:],
        good[:-48] + b"\xff" * 9 + b"\x01" + good[-38:],
    ):
        with pytest.raises(StateError):
            _properties_read(bad)


def _properties_read(table: bytes) -> None:
    normalised(table)
    family_of(table)
