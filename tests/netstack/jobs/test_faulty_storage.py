"""A checkpoint storage that refuses to write for a while."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from buffers import BlankBytes, Pieces
from netstack.checkpoints.storage import MemoryStorage, write_pieces
from netstack.engine.agenda import Agenda
from netstack.errors import StorageError
from netstack.jobs.fault_injector import FaultyStorage, StorageCondition
from netstack.state.snapshots import CheckpointMetadata


def metadata(checkpoint_id: int) -> CheckpointMetadata:
    return CheckpointMetadata(
        checkpoint_id=checkpoint_id,
        job="job",
        checkpoint_type="CHECKPOINT",
        triggered_at=1.0,
        completed_at=2.0,
        parallelism={},
        subtasks=(),
    )


class Faulty:
    """A storage in memory, its condition, and the clock that both go by."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.memory = MemoryStorage()
        self.condition = StorageCondition(self.agenda)
        self.storage = FaultyStorage(self.memory, self.condition)

    def writes(self, now: float) -> tuple[bool, bool]:
        """Whether a file and whether metadata can be written at a time."""
        self.agenda.now = now
        checkpoint_id = int(now * 10)
        return (
            self._works(lambda: self._write_both(checkpoint_id)),
            self._works(lambda: self.storage.complete(metadata(checkpoint_id))),
        )

    def _write_both(self, checkpoint_id: int) -> None:
        """Write a file, and one of blank data: both or none of them."""
        try:
            write_pieces(self.storage, checkpoint_id, "channels", Pieces([BlankBytes(0, 90, 9)]))
        finally:
            self.storage.write(checkpoint_id, "state", b"abc")

    def _works(self, write: Callable[[], object]) -> bool:
        before = len(self.memory.files)
        try:
            write()
        except StorageError:
            assert len(self.memory.files) == before
            return False
        return True


def test_it_writes_reads_and_deletes_what_the_storage_inside_does() -> None:
    faulty = Faulty()
    file = faulty.storage.write(1, "state", b"abc")
    blank = Pieces([BlankBytes(0, 90, 9)])
    in_flight = write_pieces(faulty.storage, 1, "channels", blank)
    assert (faulty.memory.files[in_flight.path], faulty.storage.read(in_flight)) == (blank, bytes(blank))
    shared = faulty.storage.write(1, "common", b"abc", shared=True)
    assert shared.shared
    assert faulty.storage.read(file) == b"abc"
    assert faulty.storage.checkpoints() == []
    faulty.storage.complete(metadata(1))
    assert faulty.storage.checkpoints() == [1]
    assert faulty.storage.load(1) == metadata(1)
    faulty.storage.delete([shared])
    faulty.storage.discard(1)
    assert faulty.memory.files == {}


def test_uploads_fail_until_a_time_and_metadata_does_not() -> None:
    faulty = Faulty()
    faulty.condition.fail_uploads(2.0)
    assert [faulty.writes(now) for now in (1.0, 1.9, 2.0)] == [(False, True), (False, True), (True, True)]


def test_nothing_fits_into_a_full_storage() -> None:
    faulty = Faulty()
    faulty.condition.fill(2.0)
    assert [faulty.writes(now) for now in (1.0, 2.0)] == [(False, False), (True, True)]


def test_the_longer_of_two_faults_counts() -> None:
    faulty = Faulty()
    faulty.condition.fill(inf)
    faulty.condition.fill(1.0)
    faulty.condition.fail_uploads(inf)
    assert faulty.writes(1e9) == (False, False)


def test_a_full_storage_can_be_read_and_cleaned_up() -> None:
    faulty = Faulty()
    file = faulty.storage.write(1, "state", b"abc")
    faulty.storage.complete(metadata(1))
    faulty.condition.fill(inf)
    assert faulty.storage.read(file) == b"abc"
    assert faulty.storage.load(1).checkpoint_id == 1
    faulty.storage.discard(1)
    assert faulty.memory.files == {}


def test_the_message_names_the_file_and_the_reason() -> None:
    faulty = Faulty()
    faulty.condition.fail_uploads(1.0)
    with pytest.raises(StorageError, match=r"^chk-7/state cannot be written: the upload failed$"):
        faulty.storage.write(7, "state", b"")
    faulty.condition.fill(inf)
    with pytest.raises(StorageError, match=r"^chk-7/_metadata cannot be written: no space is left$"):
        faulty.storage.complete(metadata(7))
