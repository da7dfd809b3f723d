"""Which completed checkpoints are kept, who uses shared files, and when files go."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from netstack.checkpoints.completed_store import CompletedCheckpointStore, SharedStateRegistry
from netstack.checkpoints.metadata import CheckpointMetadata, SubtaskSnapshot
from netstack.checkpoints.recovery import InitialCheckpoint
from netstack.checkpoints.storage import MemoryStorage
from netstack.errors import StorageError
from netstack.state.handles import StateFormat, StateHandle, StoredFile
from netstack.state.state_kinds import StateKind


class FailingStorage(MemoryStorage):
    """A storage that can be made to fail; `calls` lists the completions and deletions of checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: set[str] = set()
        self.calls: list[str] = []

    def complete(self, metadata: CheckpointMetadata) -> None:
        self._called("complete", metadata.checkpoint_id)
        super().complete(metadata)

    def discard(self, checkpoint_id: int) -> None:
        self._called("discard", checkpoint_id)
        super().discard(checkpoint_id)

    def _called(self, what: str, checkpoint_id: int) -> None:
        if what in self.broken:
            raise StorageError(f"cannot {what} {checkpoint_id}")
        self.calls.append(f"{what} {checkpoint_id}")


def metadata_of(checkpoint_id: int, files: Iterable[StoredFile] = ()) -> CheckpointMetadata:
    handles = tuple(StateHandle(kind=StateKind.KEYED, size=file.size, file=file) for file in files)
    snapshot = SubtaskSnapshot(vertex="count", subtask=0, handles=handles)
    return CheckpointMetadata(
        checkpoint_id=checkpoint_id,
        job="test",
        checkpoint_type="CHECKPOINT",
        triggered_at=0.0,
        completed_at=1.0,
        parallelism={"count": 2},
        subtasks=(snapshot,),
    )


def test_the_newest_are_kept_and_an_older_one_goes_after_the_newer_one_is_complete() -> None:
    storage = FailingStorage()
    store = CompletedCheckpointStore(storage, 2)
    assert store.latest is None
    for number in (1, 2, 3, 5):
        store.add(metadata_of(number))
    assert [kept.checkpoint_id for kept in store.checkpoints] == [3, 5] == storage.checkpoints()
    assert store.latest == metadata_of(5)
    assert storage.calls == ["complete 1", "complete 2", "complete 3", "discard 1", "complete 5", "discard 2"]


def test_one_that_cannot_be_completed_changes_nothing() -> None:
    storage = FailingStorage()
    store = CompletedCheckpointStore(storage, 1)
    store.add(metadata_of(1))
    storage.broken = {"complete"}
    with pytest.raises(StorageError, match="cannot complete 2"):
        store.add(metadata_of(2))
    assert store.latest == metadata_of(1)
    assert storage.checkpoints() == [1]


def test_one_that_cannot_be_deleted_is_left_where_it_is() -> None:
    storage = FailingStorage()
    store = CompletedCheckpointStore(storage, 1)
    store.add(metadata_of(1))
    storage.broken = {"discard"}
    store.add(metadata_of(2))
    assert [kept.checkpoint_id for kept in store.checkpoints] == [2]
    assert storage.checkpoints() == [1, 2]


def test_shared_files_stay_as_long_as_a_checkpoint_needs_them() -> None:
    storage = MemoryStorage()
    store = CompletedCheckpointStore(storage, 1)
    old, both, failed = (storage.write(1, name, b"x", shared=True) for name in ("old", "both", "failed"))
    store.add(metadata_of(1, [old, both]))
    store.discard(2, [both, failed])
    assert sorted(storage.shared_files()) == ["shared/both", "shared/old"]
    store.add(metadata_of(3, [both]))
    assert sorted(storage.shared_files()) == ["shared/both"]


def table_of(checkpoint_id: int, name: str, file: StoredFile, subtask: int = 0) -> CheckpointMetadata:
    handle = StateHandle(
        kind=StateKind.KEYED, format=StateFormat.TABLE_FILE, name=name, size=file.size, file=file
    )
    snapshot = SubtaskSnapshot(vertex="count", subtask=subtask, handles=(handle,))
    return replace(metadata_of(checkpoint_id), subtasks=(snapshot,))


def test_tables_of_two_subtasks_are_two_though_they_have_one_name() -> None:
    """As those of task managers in different processes may."""
    storage = MemoryStorage()
    store = CompletedCheckpointStore(storage, 2)
    first, second = (storage.write(1, name, name.encode(), shared=True) for name in ("first", "second"))
    store.add(table_of(1, "table", first))
    store.add(table_of(2, "table", second, subtask=1))
    assert storage.load(2).files == {"shared/second": second}
    assert sorted(storage.shared_files()) == ["shared/first", "shared/second"]


def test_a_table_that_was_stored_twice_is_kept_once() -> None:
    storage = FailingStorage()
    store = CompletedCheckpointStore(storage, 2)
    first, again, third = (storage.write(1, name, b"x", shared=True) for name in ("first", "again", "third"))
    store.add(table_of(1, "table", first))
    store.add(table_of(2, "table", again))
    assert sorted(storage.shared_files()) == ["shared/first", "shared/third"]
    assert storage.load(2).files == {"shared/first": first}
    storage.broken = {"complete"}
    with pytest.raises(StorageError, match="cannot complete 3"):
        store.add(table_of(3, "table", third))
    store.discard(3, [third])
    assert sorted(storage.shared_files()) == ["shared/first"]
    storage.broken = set()
    # Its writer has heard that 2 is complete, and takes the file that it stored for it to be there.
    store.add(table_of(4, "table", again))
    store.add(metadata_of(5))
    assert sorted(storage.shared_files()) == ["shared/first"]
    store.add(metadata_of(6))
    assert storage.shared_files() == {}


def test_what_an_earlier_store_has_left_is_known() -> None:
    storage = MemoryStorage()
    shared = storage.write(1, "shared", b"x", shared=True)
    foreign = storage.write(1, "foreign", b"x", shared=True)
    initial = InitialCheckpoint(table_of(1, "other", foreign), storage, "chk-1", 2)
    store = CompletedCheckpointStore(storage, 1, [table_of(2, "table", shared)], initial=initial)
    store.discard(3, [shared])
    own = storage.write(3, "own", b"x", shared=True)
    store.add(table_of(3, "other", own))
    assert storage.load(3).files == {own.path: own}
    store.add(table_of(4, "table", shared))
    assert sorted(storage.shared_files()) == ["shared/foreign", "shared/own", "shared/shared"]
    store.add(metadata_of(5))
    assert sorted(storage.shared_files()) == ["shared/foreign", "shared/shared"]
    store.add(metadata_of(6))
    assert sorted(storage.shared_files()) == ["shared/foreign"]


def test_files_that_came_too_late_are_deleted_unless_a_checkpoint_has_them() -> None:
    storage = MemoryStorage()
    store = CompletedCheckpointStore(storage, 1)
    mine, late = storage.write(1, "mine", b"m"), storage.write(1, "late", b"l")
    store.add(metadata_of(1, [mine]))
    store.delete_unused([mine, late])
    assert sorted(storage.contents(1)) == ["chk-1/_metadata", "chk-1/mine"]


def file_of(key: str, stored_for: int = 0) -> StoredFile:
    return StoredFile(path=f"shared/{key}-{stored_for}", size=1, checksum="", shared=True)


def test_the_first_file_of_a_key_stays_and_a_later_one_is_named_as_its_duplicate() -> None:
    registry = SharedStateRegistry()
    first, second = file_of("a", 1), file_of("a", 2)
    assert registry.register(1, [("a", first)]) == {}
    assert registry.register(2, [("a", second)]) == {second.path: first}
    assert (registry.has(first), registry.has(second)) == (True, False)
    assert registry.unregister(1) == []
    assert registry.unregister(2) == [first]
    assert not registry.has(first)
    assert registry.register(3, [("a", second)]) == {}
    assert registry.users("a") == {3}
    assert registry.users("b") == set()


CHECKPOINTS = st.lists(st.tuples(st.sets(st.integers(0, 6)), st.booleans()), max_size=20)
"""Of each, the keys of its files, and whether it stores them anew or uses what is there."""


@given(CHECKPOINTS, st.integers(1, 4))
def test_a_file_goes_when_its_last_user_is_older_than_the_oldest_retained(
    checkpoints: list[tuple[set[int], bool]], retained: int
) -> None:
    registry = SharedStateRegistry()
    there: dict[str, StoredFile] = {}  # the file of each key that is stored
    last_used: dict[str, int] = {}
    kept: list[int] = []
    for number, (numbers, anew) in enumerate(checkpoints, 1):
        keys = [str(key) for key in sorted(numbers)]
        files = [(key, file_of(key, number) if anew or key not in there else there[key]) for key in keys]
        duplicates = registry.register(number, files)
        assert duplicates == {
            file.path: there[key] for key, file in files if key in there and there[key] != file
        }
        for key, file in files:
            there.setdefault(key, file)
            last_used[key] = number
        kept.append(number)
        if len(kept) > retained:
            deleted = registry.unregister(kept.pop(0))
            gone = {key: file for key, file in there.items() if last_used[key] < kept[0]}
            assert sorted(file.path for file in deleted) == sorted(file.path for file in gone.values())
            there = {key: file for key, file in there.items() if key not in gone}
        assert all(registry.has(file) for file in there.values())
        assert {key: max(registry.users(key)) for key in there} == {key: last_used[key] for key in there}
