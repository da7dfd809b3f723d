"""Checkpoints that cannot be restored: told as such, an older one instead, or the end of the job."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec import UNSET

from netstack import (
    AtTime,
    CollectionSource,
    DamagedFileError,
    Edge,
    InitialCheckpoint,
    JobFailedError,
    KeyedOperator,
    KeyedStateBackend,
    KillSubtask,
    MemoryStorage,
    NetworkConfig,
    RestartStrategy,
    Result,
    Scenario,
    SourceObject,
    StoredFile,
    SubtaskName,
    TransactionLog,
    Vertex,
    emulate,
    run_distributed,
    transactional_sink,
)
from tests.netstack.local_cluster import launch_locally

COUNT = 400


class SpoiltStorage(MemoryStorage):
    """Loses the files of the newest complete checkpoints, as many as `spoilt` says, when any is read."""

    def __init__(self, spoilt: int) -> None:
        super().__init__()
        self._spoilt = spoilt
        self.unreadable: list[int] = []

    def read(self, file: StoredFile) -> bytes:
        if not self.unreadable:
            self.unreadable = self.checkpoints()[-self._spoilt :]
        if any(file.path.startswith(f"chk-{number}/") for number in self.unreadable):
            raise DamagedFileError(f"{file.path} does not have the checksum of the bytes that were written")
        return super().read(file)


class Count(KeyedOperator):
    """Counts records by their first byte."""

    def declare(self, state: KeyedStateBackend) -> None:
        self._seen = state.value("seen", default=0)

    def key_of(self, record: bytes) -> object:
        return record[:1]

    def process_record(self, record: bytes) -> list[bytes]:
        self._seen.update(self._seen.get() + 1)
        return [record]


def job(log: TransactionLog, kill_at: float = 1.0, **settings: Any) -> Scenario:
    config: dict[str, Any] = {
        "checkpoint_interval_s": 0.15,
        "state_memory_threshold_bytes": 0,
        "restart_strategy": RestartStrategy.FIXED_DELAY,
        "restart_attempts": 1000,
        "restart_delay_s": 0.05,
        "retained_checkpoints": 3,
        "buffer_timeout_interval_s": 0.01,
    }
    numbers = CollectionSource([[b"%d" % number for number in range(COUNT)]])
    return Scenario(
        name="spoilt",
        duration_s=20.0,
        config=NetworkConfig(**(config | settings)),
        vertices=(
            Vertex(name="numbers", source=SourceObject(source=numbers, rates=(200.0,))),
            Vertex(name="count", operator=lambda subtask: Count()),
            Vertex(name="out", operator=transactional_sink(log.commit)),
        ),
        edges=(Edge(source="numbers", target="count"), Edge(source="count", target="out")),
        faults=(KillSubtask(when=AtTime(kill_at), subtask=SubtaskName("count", 0)),),
    )


def run_from(storage: MemoryStorage, scenario: Scenario, *, distributed: bool) -> Result:
    if distributed:
        return run_distributed(scenario, launch_locally(storage), storage)
    return emulate(scenario, storage=storage)


@pytest.mark.parametrize("distributed", [False, True])
def test_the_next_older_checkpoint_is_restored_instead(distributed: bool) -> None:
    log, storage = TransactionLog(), SpoiltStorage(2)
    result = run_from(storage, job(log), distributed=distributed)
    third, second, first = (*reversed(storage.unreadable), storage.unreadable[0] - 1)
    assert result.failure is None
    assert [restart.unusable_checkpoint_id for restart in result.restarts] == [third, second, UNSET]
    assert [restart.checkpoint_id for restart in result.restarts] == [None, None, first]
    assert result.restarts[0].running_at is None
    for restart, unusable in zip(result.restarts[1:], (third, second), strict=True):
        assert restart.cause.startswith(f"checkpoint {unusable} cannot be restored: chk-{unusable}/")
        assert restart.cause.endswith(" does not have the checksum of the bytes that were written")
    # What was committed with the two that were passed over comes again; nothing is lost.
    output = Counter(log.records)
    assert output.keys() == {b"%d" % number for number in range(COUNT)}
    assert max(output.values()) == 2


@pytest.mark.parametrize("distributed", [False, True])
def test_where_no_checkpoint_is_left_the_job_has_failed(distributed: bool) -> None:
    storage = SpoiltStorage(3)
    with pytest.raises(JobFailedError) as failed:
        run_from(storage, job(TransactionLog()), distributed=distributed)
    result, oldest = failed.value.result, storage.unreadable[0]
    assert str(failed.value).startswith(f"checkpoint {oldest} cannot be restored: ")
    assert str(failed.value).endswith("; there is no other checkpoint to restore")
    assert [restart.checkpoint_id for restart in result.restarts] == [None, None, None]
    assert result.emulated_seconds < 5.0


def test_restores_that_fail_count_as_restarts() -> None:
    settings: dict[str, Any] = {"restart_strategy": RestartStrategy.FIXED_DELAY, "restart_attempts": 1}
    with pytest.raises(JobFailedError, match=r"restored: .* \(restarted 1 times, as often as is allowed\)"):
        emulate(job(TransactionLog(), **settings), storage=SpoiltStorage(2))


class WrongStorage(MemoryStorage):
    """Gives back other bytes of keyed state than were written, as if they had been written so."""

    def read(self, file: StoredFile) -> bytes:
        return b"\xc1" if file.path.endswith("-keyed") else super().read(file)


def test_state_that_makes_no_sense_cannot_be_restored() -> None:
    with pytest.raises(JobFailedError, match=r"^checkpoint \d+ cannot be restored: chk-.* keyed state"):
        emulate(job(TransactionLog(), retained_checkpoints=1), storage=WrongStorage())


def initial(storage: MemoryStorage) -> InitialCheckpoint:
    last = storage.checkpoints()[-1]
    return InitialCheckpoint(storage.load(last), storage, "earlier", last + 1)


@pytest.mark.parametrize("distributed", [False, True])
def test_a_run_goes_on_from_a_checkpoint_of_another_and_leaves_it_there(distributed: bool) -> None:
    log, earlier, storage = TransactionLog(), MemoryStorage(), MemoryStorage()
    settings: dict[str, Any] = {"restart_strategy": RestartStrategy.NONE, "retained_checkpoints": 1}
    with pytest.raises(JobFailedError):
        emulate(job(log, kill_at=1.0, **settings), storage=earlier)
    assert 0 < len(log.records) < COUNT
    files, begin = dict(earlier.files), initial(earlier)
    settings["restart_strategy"] = RestartStrategy.FIXED_DELAY
    scenario = job(log, kill_at=0.02, **settings)  # before it has a checkpoint of its own
    if distributed:
        scenario = job(log, kill_at=0.5, **settings)
        result = run_distributed(
            scenario, launch_locally(storage, initial=earlier), storage, from_checkpoint=begin
        )
    else:
        result = emulate(scenario, storage=storage, from_checkpoint=begin)
    assert sorted(log.records) == sorted(b"%d" % number for number in range(COUNT))
    start = result.started_from
    assert start is not UNSET
    assert (start.checkpoint_id, start.path) == (begin.metadata.checkpoint_id, "earlier")
    assert start.running_at is not None
    (restart,) = result.restarts
    assert restart.checkpoint_id == begin.metadata.checkpoint_id or distributed
    assert all(checkpoint.id >= begin.next_id for checkpoint in result.checkpoints)
    assert earlier.files == files
    assert len(storage.checkpoints()) == 1
