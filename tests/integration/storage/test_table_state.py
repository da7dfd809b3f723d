"""Whole jobs that keep their state in RocksDB: what their checkpoints store, and what comes back of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from integration.base.errors import MissingExtraError
from integration.runs.emulating import emulate
from integration.storage import table_stores
from netstack import (
    Agenda,
    AtTime,
    CheckpointMetadata,
    DropMessages,
    FailUpload,
    Fault,
    FillStorage,
    InitialCheckpoint,
    InputError,
    Job,
    KeyedStateBackend,
    MemoryStorage,
    Scenario,
    StateBackendType,
    TransactionLog,
)
from netstack import emulate as plain_emulate
from tests.integration.missing_extras import take_away
from tests.integration.storage.state_job import (
    CountingStorage,
    Replace,
    every_2s,
    fingerprint,
    run,
    state_job,
)
from tests.netstack import rescaled_job
from tests.netstack.whole_jobs import EXACTLY_ONCE, MODES, expected, kill, sums_job

pytestmark = pytest.mark.long

TABLES = {"state_backend": StateBackendType.ROCKSDB}
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("incremental", [False, True], ids=["full", "incremental"])
def test_two_processes_store_as_much_and_measure_the_same(incremental: bool) -> None:
    code = (
        f"from tests.integration.storage.state_job import fingerprint; print(fingerprint(3, {incremental}))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True, timeout=300
    )
    assert other.stdout.strip() == fingerprint(3, incremental) != fingerprint(4, incremental)


def run_sums(
    log: TransactionLog, faults: Sequence[Fault], storage: MemoryStorage, **settings: Any
) -> tuple[Scenario, Job]:
    scenario = sums_job(log, faults, state_backend=StateBackendType.ROCKSDB, **settings)
    with table_stores(scenario) as tables:
        job = Job(scenario, Agenda(), storage=storage, tables=tables)
        trio.run(job.run)
    assert job.leaked_segments == 0
    return scenario, job


@pytest.mark.parametrize("incremental", [False, True], ids=["full", "incremental"])
@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_a_job_that_is_killed_gives_what_it_gives_unharmed(mode: str, incremental: bool) -> None:
    log, storage = TransactionLog(), MemoryStorage()
    faults = (kill("sums", 0, 0.4), kill("sums", 1, 1.0), kill("middle", 0, 1.6))
    _, job = run_sums(log, faults, storage, incremental_checkpoints=incremental, **MODES[mode])
    assert sorted(log.records) == expected()
    assert [restart.checkpoint_id is not None for restart in job.restarts] == [True] * 3
    assert files_of(storage.load(storage.checkpoints()[-1])) == stored(storage)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1)])
@pytest.mark.parametrize("incremental", [False, True], ids=["full", "incremental"])
def test_a_job_goes_on_at_another_parallelism(incremental: bool, before: int, after: int) -> None:
    log, settings = TransactionLog(), {"incremental_checkpoints": incremental} | TABLES
    with table_stores(rescaled_job.job_of(log, before, **settings)) as tables:
        earlier = rescaled_job.stopped(rescaled_job.job_of(log, before, **settings), 0.4, tables=tables)
    begin = rescaled_job.latest(earlier)
    with table_stores(rescaled_job.job_of(log, after, **settings)) as tables:
        rescaled_job.gone_on(rescaled_job.job_of(log, after, **settings), begin, tables=tables)
    assert sorted(log.records) == rescaled_job.expected()


def files_of(metadata: CheckpointMetadata) -> set[str]:
    return {path for path in metadata.files if path.startswith("shared/")}


def stored(storage: MemoryStorage) -> set[str]:
    return {path for path in storage.files if path.startswith("shared/")}


TROUBLE: dict[str, list[Fault]] = {
    "uploads fail": [FailUpload(when=AtTime(at), for_s=0.1) for at in (0.3, 0.8, 1.4)],
    "storage is full": [FillStorage(when=AtTime(at), for_s=0.1) for at in (0.3, 0.8, 1.4)],
    **{
        f"{messages} is lost": [
            DropMessages(when=AtTime(at), messages=messages, for_s=0.2) for at in (0.3, 0.9)
        ]
        for messages in ("acknowledge", "completed")
    },
    "all at once": [
        FailUpload(when=AtTime(0.3), for_s=0.1),
        DropMessages(when=AtTime(0.35), messages="aborted", for_s=0.3),
        DropMessages(when=AtTime(0.5), messages="completed", for_s=0.4),
        kill("sums", 0, 0.8),
        DropMessages(when=AtTime(0.9), messages="acknowledge", for_s=0.2, vertex="sums", subtask=1),
        kill("sums", 1, 1.25),
        FillStorage(when=AtTime(1.5), for_s=0.1),
    ],
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_checkpoints_that_fail_leave_nothing_behind_and_break_no_later_one(trouble: str) -> None:
    log, storage = TransactionLog(), MemoryStorage()
    settings: dict[str, Any] = {"checkpoint_timeout_s": 0.3, "retained_checkpoints": 3}
    _, job = run_sums(log, TROUBLE[trouble], storage, incremental_checkpoints=True, **settings)
    assert sorted(log.records) == expected()
    kept = [storage.load(number) for number in storage.checkpoints()]
    assert len(kept) == 3
    assert set().union(*map(files_of, kept)) == stored(storage) != set()
    for metadata in kept:
        for file in metadata.files.values():
            storage.verify(file)
    assert all(restart.unusable_checkpoint_id is None for restart in job.restarts)


def test_a_table_is_not_used_again_before_its_checkpoint_is_confirmed() -> None:
    """If no checkpoint is confirmed, each one stores every table again; storage keeps one copy."""
    storage = CountingStorage()
    lost = DropMessages(when=AtTime(0.0), messages="completed", for_s=60.0)
    scenario = state_job(every_2s(0.3, 3), incremental_checkpoints=True)
    emulate(replace(scenario, faults=(lost,)), storage=storage)
    sizes = storage.sizes()
    assert [each.stored for each in sizes] == [each.state for each in sizes]
    for number in storage.checkpoints():
        assert storage.written[number] == len(storage.load(number).files)
    names = {path for number in storage.checkpoints() for path in files_of(storage.load(number))}
    assert names == stored(storage)
    assert len(names) == 2 * 3


def test_a_run_goes_on_from_another_s_checkpoint_without_using_its_files() -> None:
    there, _ = run(state_job(every_2s(0.3, 2), incremental_checkpoints=True))
    before = dict(there.files)
    initial = InitialCheckpoint(there.load(2), there, "there", next_id=10)
    here = CountingStorage()
    emulate(state_job(every_2s(0.3, 2), incremental_checkpoints=True), storage=here, from_checkpoint=initial)
    assert here.checkpoints() == [10, 11]
    assert there.files == before
    for number in here.checkpoints():
        assert files_of(here.load(number)) <= stored(here)
    assert here.sizes()[0].stored == here.sizes()[0].state > there.sizes()[1].state
    assert here.sizes()[1].stored < here.sizes()[1].state / 2


class Failing(Replace):
    def process_record(self, record: bytes) -> list[bytes]:
        raise KeyboardInterrupt


class Ending(Replace):
    """Has to be given its folder."""

    folder: Path
    seen: list[str]

    def declare(self, state: KeyedStateBackend) -> None:
        super().declare(state)
        self.seen += [path.name for path in self.folder.glob("netstack-tables-*/*")]


@pytest.mark.parametrize("ends_badly", [False, True], ids=["well", "interrupted"])
def test_nothing_is_left_of_the_tables_however_a_run_ends(tmp_path: Path, ends_badly: bool) -> None:
    folder = tmp_path / "not there yet"
    scenario = state_job(every_2s(0.2, 2), rocksdb_localdir=str(folder))
    Ending.folder, Ending.seen = folder, []
    change_operator(scenario, Failing if ends_badly else Ending)
    if ends_badly:
        with pytest.raises(KeyboardInterrupt):
            emulate(scenario)
    else:
        emulate(scenario)
        assert Ending.seen == ["0", "0", "1"]
    assert list(folder.iterdir()) == []


def change_operator(scenario: Scenario, operator: type[Replace]) -> None:
    object.__setattr__(scenario.vertices[1], "operator", operator)


def test_without_the_package_a_run_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(monkeypatch, "rocksdb")
    with pytest.raises(MissingExtraError) as caught:
        emulate(state_job(every_2s(0.2, 1)))
    message = "flink.state.backend.type: rocksdb needs RocksDB: pip install 'netstack[rocksdb]'"
    assert str(caught.value) == message


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"flink.state.backend.rocksdb.localdir: .*/file"):
        emulate(state_job(every_2s(0.2, 1), rocksdb_localdir=str(tmp_path / "file")))


def test_a_library_user_has_to_bring_stores() -> None:
    with pytest.raises(
        InputError,
        match=r"needs table stores; pass `tables`, opened with integration\.storage\.table_stores",
    ):
        plain_emulate(state_job(every_2s(0.2, 1)))
