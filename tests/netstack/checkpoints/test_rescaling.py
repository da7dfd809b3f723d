"""Jobs that go on from a checkpoint at another parallelism, with output and state as if they had not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from flowcontrol import PostCheckpointAction
from netstack import (
    AtTime,
    CollectionSource,
    Edge,
    InitialCheckpoint,
    JobFailedError,
    KillSubtask,
    MemoryStorage,
    NetworkConfig,
    Scenario,
    ScenarioError,
    ScheduledSavepoint,
    SourceError,
    SourceObject,
    StateBackendType,
    StateKind,
    SubtaskName,
    TransactionLog,
    Vertex,
    emulate,
    run_distributed,
    transactional_sink,
)
from netstack.scenarios.options import ChangelogStorage
from tests.crossing import crossed
from tests.netstack.local_cluster import launch_locally
from tests.netstack.rescaled_job import expected, final_sums, gone_on, job_of, latest, stopped
from tests.netstack.table_model import ModelStores
from tests.netstack.whole_jobs import EXACTLY_ONCE, MODES, RECOVERIES

PAIRS = [(1, 8), (8, 1), (2, 3), (3, 2), (5, 4)]


@cache
def undisturbed() -> tuple[list[bytes], dict[bytes, int]]:
    log, storage = TransactionLog(), MemoryStorage()
    emulate(job_of(log, 2), storage=storage)
    return sorted(log.records), final_sums(storage)


@crossed(before__after=PAIRS, mode=EXACTLY_ONCE, recovery=RECOVERIES)
def test_output_and_state_are_those_of_a_run_that_went_through(
    mode: str, before: int, after: int, recovery: dict[str, bool]
) -> None:
    log = TransactionLog()
    begin = latest(stopped(job_of(log, before, **MODES[mode]), at=0.4))
    assert 0 < len(log.records) < len(expected())
    assert (begin.metadata.persisted_bytes > 0) == (mode != "aligned")
    result, storage = gone_on(job_of(log, after, **MODES[mode], **recovery), begin)
    assert result.restarts == []
    assert sorted(log.records) == undisturbed()[0] == expected()
    assert final_sums(storage) == undisturbed()[1]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_records_in_flight_of_an_adaptive_exchange_go_in_turns_as_those_of_rebalance(
    before: int, after: int
) -> None:
    log, settings = TransactionLog(), MODES["unaligned"] | {"adaptive_partitioner_enabled": True}
    begin = latest(stopped(job_of(log, before, **settings), at=0.4))
    between = {("numbers", StateKind.OUTPUT_CHANNEL), ("middle", StateKind.INPUT_CHANNEL)}
    in_flight = [
        handle.size
        for snapshot in begin.metadata.subtasks
        for handle in snapshot.handles
        if (snapshot.vertex, handle.kind) in between
    ]
    assert sum(in_flight) > 0
    _, storage = gone_on(job_of(log, after, **settings), begin)
    assert sorted(log.records) == expected()
    assert final_sums(storage) == undisturbed()[1]


@pytest.mark.parametrize(("before", "after"), PAIRS[:2])
def test_at_least_once_nothing_is_lost(before: int, after: int) -> None:
    log, settings = TransactionLog(), MODES["at least once"] | {"checkpoint_interval_s": 0.05}
    begin = latest(stopped(job_of(log, before, **settings), at=0.4))
    _, storage = gone_on(job_of(log, after, **settings), begin)
    assert set(log.records) >= {record for record in expected() if not record.startswith(b"k")}
    exact, found = undisturbed()[1], final_sums(storage)
    assert found.keys() == exact.keys()
    assert all(found[key] >= exact[key] for key in exact)


@crossed(
    before__after=[
        ((2, 3, 2, 2, 2), (2, 3, 5, 2, 2)),  # readers only
        ((2, 3, 2, 2, 2), (2, 1, 2, 2, 2)),  # writers only
        ((3, 2, 4, 1, 2), (1, 3, 2, 4, 2)),
        ((1, 4, 3, 3, 1), (4, 1, 3, 2, 3)),
    ],
    mode=["unaligned", "aligned with timeout"],
    recovery=RECOVERIES,
)
def test_each_vertex_may_change_or_not(
    mode: str, before: tuple[int, ...], after: tuple[int, ...], recovery: dict[str, bool]
) -> None:
    log = TransactionLog()
    begin = latest(stopped(job_of(log, before, **MODES[mode]), at=0.4))
    assert begin.metadata.persisted_bytes > 0
    _, storage = gone_on(job_of(log, after, **MODES[mode], **recovery), begin)
    assert sorted(log.records) == expected()
    assert final_sums(storage) == undisturbed()[1]


@crossed(recovery=RECOVERIES)
def test_it_may_change_again_and_again(recovery: dict[str, bool]) -> None:
    """The splits that sources had begun to read are distributed anew after each change."""
    log, mode = TransactionLog(), MODES["unaligned"] | recovery
    storage = stopped(job_of(log, 3, **mode), at=0.3)
    for parallelism in (2, 5, 1, 4):
        begin = latest(storage)
        storage = stopped(job_of(log, parallelism, **mode), at=0.25, from_checkpoint=begin)
        assert storage.checkpoints()[0] >= begin.next_id
        assert len(log.records) < len(expected())
    _, storage = gone_on(job_of(log, 2, **mode), latest(storage))
    assert sorted(log.records) == expected()
    assert final_sums(storage) == undisturbed()[1]


@crossed(mode=EXACTLY_ONCE, recovery=RECOVERIES)
def test_a_failure_before_the_first_own_checkpoint_deals_it_out_once_more(
    mode: str, recovery: dict[str, bool]
) -> None:
    log = TransactionLog()
    begin = latest(stopped(job_of(log, 3, **MODES[mode]), at=0.4))
    kills = [KillSubtask(when=AtTime(at), subtask=SubtaskName("sums", 1)) for at in (0.03, 0.5)]
    result, storage = gone_on(job_of(log, 2, kills, **MODES[mode], **recovery), begin)
    first, second = result.restarts
    assert first.checkpoint_id == begin.metadata.checkpoint_id
    assert isinstance(second.checkpoint_id, int)
    assert second.checkpoint_id >= begin.next_id
    assert sorted(log.records) == expected()
    assert final_sums(storage) == undisturbed()[1]


@pytest.mark.parametrize("recovery", ["as before 2.3", "with checkpoints"])
def test_over_tcp_too(recovery: str) -> None:
    log, storage = TransactionLog(), MemoryStorage()
    begin = latest(stopped(job_of(log, 2, **MODES["unaligned"]), at=0.4))
    assert isinstance(begin.storage, MemoryStorage)
    scenario = job_of(log, 3, **MODES["unaligned"], **RECOVERIES[recovery])
    launch = launch_locally(storage, initial=begin.storage)
    result = run_distributed(scenario, launch, storage, from_checkpoint=begin)
    assert result.failure is None
    assert sorted(log.records) == expected()
    assert final_sums(storage) == undisturbed()[1]


CHANGELOGS: dict[str, dict[str, Any]] = {
    "in memory": {"changelog_enabled": True, "changelog_storage": ChangelogStorage.MEMORY},
    "in files": {"changelog_enabled": True, "changelog_storage": ChangelogStorage.FILESYSTEM},
    "with a base": {"changelog_enabled": True, "materialize_interval_s": 0.1},
}


@crossed(before__after=[(2, 3), (3, 1)], changelog=list(CHANGELOGS))
def test_a_log_is_replayed_where_its_keys_are_now(changelog: str, before: int, after: int) -> None:
    log, settings = TransactionLog(), CHANGELOGS[changelog]
    begin = latest(stopped(job_of(log, before, **settings), at=0.4))
    formats = {
        handle.format.value
        for snapshot in begin.metadata.subtasks
        if snapshot.vertex == "sums"
        for handle in snapshot.handles
    }
    assert "log" in formats
    assert ("canonical" in formats) == (changelog == "with a base")
    _, storage = gone_on(job_of(log, after), begin)  # without one from now on
    assert sorted(log.records) == expected()
    assert final_sums(storage) == undisturbed()[1]


TABLES: dict[str, Any] = {"state_backend": StateBackendType.ROCKSDB}


@crossed(before__after=[(2, 3), (3, 1)], incremental=[False, True])
def test_tables_are_copied_range_by_range(incremental: bool, before: int, after: int) -> None:
    log, settings = TransactionLog(), TABLES | {"incremental_checkpoints": incremental}
    begin = latest(stopped(job_of(log, before, **settings), at=0.4, tables=ModelStores()))
    _, storage = gone_on(job_of(log, after, **settings), begin, tables=ModelStores())
    assert sorted(log.records) == expected()
    paths = {file.path for number in storage.checkpoints() for file in storage.load(number).files.values()}
    assert not paths & begin.metadata.files.keys()


def test_state_of_one_backend_goes_to_another_where_its_layout_is_canonical() -> None:
    log = TransactionLog()
    begin = latest(stopped(job_of(log, 2), at=0.4))
    _, storage = gone_on(job_of(log, 3, **TABLES), begin, tables=ModelStores())
    assert sorted(log.records) == expected()
    with pytest.raises(
        JobFailedError, match=r"set state\.backend\.type to rocksdb, since hashmap cannot restore that format"
    ):
        gone_on(job_of(TransactionLog(), 2), latest(storage))


@pytest.mark.parametrize("backend", [TABLES, {}], ids=["rocksdb", "hashmap"])
def test_a_canonical_savepoint_is_for_every_backend_and_parallelism(backend: dict[str, Any]) -> None:
    log = TransactionLog()
    savepoints = (ScheduledSavepoint(at_s=0.3, action=PostCheckpointAction.SUSPEND),)
    storage = MemoryStorage()
    before, after = (TABLES, {}) if backend else ({}, TABLES)
    emulate(replace(job_of(log, 2, **before), savepoints=savepoints), storage=storage, tables=ModelStores())
    folder = storage.savepoint(next(path for path in storage.files if path.startswith("save")).split("/")[0])
    metadata = folder.metadata
    begin = InitialCheckpoint(metadata, folder, "savepoint", metadata.checkpoint_id + 1)
    found = MemoryStorage()
    emulate(job_of(log, 3, **after), storage=found, from_checkpoint=begin, tables=ModelStores())
    assert sorted(log.records) == expected()
    if not after:
        assert final_sums(found) == undisturbed()[1]


@crossed(
    before__after=[(2, 3), (3, 1)],
    base={"hashmap": {}, "rocksdb": TABLES},
    changelog={"without a log": {}, "with a log": CHANGELOGS["with a base"]},
)
def test_a_log_is_replayed_into_tables(
    base: dict[str, Any], changelog: dict[str, Any], before: int, after: int
) -> None:
    log, earlier = TransactionLog(), CHANGELOGS["with a base"] | base
    begin = latest(stopped(job_of(log, before, **earlier), at=0.4, tables=ModelStores()))
    gone_on(job_of(log, after, **TABLES, **changelog), begin, tables=ModelStores())
    assert sorted(log.records) == expected()


def test_the_number_of_key_groups_stays_that_of_the_first_run() -> None:
    log, mode = TransactionLog(), MODES["unaligned"]
    begin = latest(stopped(job_of(log, (2, 2, 100, 2, 2), **mode), at=0.4))
    assert begin.metadata.max_parallelism_of("sums") == 256
    begin = latest(stopped(job_of(log, 2, **mode), at=0.3, from_checkpoint=begin))
    assert begin.metadata.max_parallelism == {"sums": 256}
    begin = latest(stopped(job_of(log, (2, 2, 150, 2, 2), **mode), at=4.0, from_checkpoint=begin))
    assert begin.metadata.max_parallelism == {}  # as it follows from 150 again
    gone_on(job_of(log, 3, **mode), begin)
    assert sorted(log.records) == expected()


def test_it_stays_so_where_more_subtasks_would_have_more() -> None:
    log, mode = TransactionLog(), MODES["unaligned"]
    begin = latest(stopped(job_of(log, 2, **mode), at=0.4))
    _, storage = gone_on(job_of(log, (2, 2, 100, 2, 2), **mode), begin)
    assert storage.load(storage.checkpoints()[-1]).max_parallelism == {"sums": 128}
    assert sorted(log.records) == expected()


def test_more_subtasks_than_key_groups_are_refused() -> None:
    begin = latest(stopped(job_of(TransactionLog(), 2), at=0.4))
    with pytest.raises(ScenarioError) as refused:
        gone_on(job_of(TransactionLog(), (129, 200, 129, 129, 2)), begin)
    text = (
        " has parallelism 129 in the job, but the maximum parallelism of its state in the checkpoint is "
        "128; lower the parallelism to at most 128"
    )
    assert [problem.partition(": ")[2] for problem in refused.value.problems] == [
        f"{name}{text}"
        for name in ("numbers", "sums")  # the others have none
    ]


class Cut(CollectionSource):
    """Reads nothing but its own cut."""

    def open_split(self, subtask: int, parallelism: int) -> Any:
        raise SourceError(f"part {subtask} of {parallelism} is nowhere to be found")


def test_a_source_that_cannot_read_the_old_parts_says_so() -> None:
    begin = latest(stopped(job_of(TransactionLog(), 2), at=0.4))
    scenario = job_of(TransactionLog(), 3)
    source = SourceObject(source=Cut([[b"1"]]))
    numbers, *others = scenario.vertices
    scenario = replace(scenario, vertices=(replace(numbers, source=source), *others))
    with pytest.raises(JobFailedError) as failed:
        gone_on(scenario, begin)
    number = begin.metadata.checkpoint_id
    assert str(failed.value) == (
        f"checkpoint {number} cannot be restored: source numbers[0]: part 0 of 2 is nowhere to be "
        "found; there is no other checkpoint to restore"
    )


def two_inputs(log: TransactionLog, ship: str, parallelism: int, joined: int, **more: Any) -> Scenario:
    """A fast source and a slow one into a task that a barrier reaches over one input before the other."""

    def source(name: str, rate: float, parallelism: int) -> Vertex:
        partitions = [[b"%s %d %d" % (name.encode(), part, n) for n in range(80)] for part in range(4)]
        given = SourceObject(source=CollectionSource(partitions), rates=(rate,))
        return Vertex(name=name, parallelism=parallelism, source=given)

    config: dict[str, Any] = {
        "checkpoint_interval_s": 0.1,
        "unaligned_enabled": True,
        "segment_bytes": 1024,
        "min_segment_bytes": 64,
        "exclusive_buffers_per_channel": 1,
        "floating_buffers_per_gate": 1,
    }
    return Scenario(
        name="two inputs",
        duration_s=60.0,
        config=NetworkConfig(**(config | more)),
        vertices=(
            source("left", 0.0, 2),
            source("right", 100.0, parallelism),
            Vertex(name="join", parallelism=joined, service=((0.0, 0.004),)),
            Vertex(name="out", operator=transactional_sink(log.commit)),
        ),
        edges=(
            Edge(source="left", target="join", ship="rebalance"),
            Edge(source="right", target="join", ship=ship),
            Edge(source="join", target="out", ship="rebalance"),
        ),
    )


def in_flight_to_join(begin: InitialCheckpoint) -> set[int]:
    """The inputs of `join` that have data in flight, by their numbers."""
    return {
        handle.exchange
        for snapshot in begin.metadata.subtasks
        for handle in snapshot.handles
        if handle.size and handle.kind.value == "input channel" and snapshot.vertex == "join"
    }


@crossed(joined=[2, 3], ship__copies=[("forward", 1), ("rescale", 1), ("broadcast", 2)])
def test_one_exchange_that_nothing_overtakes_keeps_the_others_aligned(
    ship: str, copies: int, joined: int
) -> None:
    log = TransactionLog()
    begin = latest(stopped(two_inputs(log, ship, 2, 2), at=1.0))
    assert in_flight_to_join(begin) == set(), "with rebalance there is"
    gone_on(two_inputs(log, ship, joined, joined), begin)
    found = Counter(log.records)
    assert len(found) == 640
    left, right = (
        {found[record] for record in found if record.startswith(name)} for name in (b"left", b"right")
    )
    assert left == {1}
    assert right == ({copies} if ship != "broadcast" else {2, joined})


@pytest.fixture
def _overtaken_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in checkpoints of earlier versions, whose barriers overtook beside such an exchange."""
    monkeypatch.setattr("netstack.jobs.build.aligned_readers", lambda exchanges: set())


def with_right_in_flight(log: TransactionLog, ship: str, parallelism: int) -> InitialCheckpoint:
    begin = latest(stopped(two_inputs(log, ship, parallelism, 2), at=1.0))
    assert 1 in in_flight_to_join(begin)
    return begin


@pytest.mark.parametrize(("ship", "parallelism"), [("forward", 2), ("rescale", 4)])
@pytest.mark.usefixtures("_overtaken_everywhere")
def test_pointwise_exchanges_with_data_in_flight_are_refused(ship: str, parallelism: int) -> None:
    begin = with_right_in_flight(TransactionLog(), ship, parallelism)
    with pytest.raises(ScenarioError) as refused:
        gone_on(two_inputs(TransactionLog(), ship, 3, 3), begin)
    assert refused.value.problems == (
        f"earlier: the checkpoint has in-flight records of the {ship} exchange from right to join, which "
        "cannot be redistributed to another parallelism; restore an aligned checkpoint, or keep the "
        "parallelism",
    )


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.usefixtures("_overtaken_everywhere")
def test_a_broadcast_in_flight_goes_on_for_each_reader(parallelism: int) -> None:
    log = TransactionLog()
    begin = with_right_in_flight(log, "broadcast", 2)
    gone_on(two_inputs(log, "broadcast", parallelism, 2), begin)
    found = Counter(log.records)
    assert {number for record, number in found.items() if record.startswith(b"right")} == {2}
    assert {number for record, number in found.items() if record.startswith(b"left")} == {1}
    assert len(found) == 640


@pytest.mark.usefixtures("_overtaken_everywhere")
def test_a_new_reader_of_a_broadcast_sees_what_the_one_before_it_had_not() -> None:
    log = TransactionLog()
    begin = with_right_in_flight(log, "broadcast", 2)
    gone_on(two_inputs(log, "broadcast", 2, 4), begin)
    found = Counter(record for record in log.records if record.startswith(b"right"))
    assert len(found) == 320
    assert set(found.values()) <= {2, 3, 4}
    assert {number for record, number in found.items() if record.endswith(b" 79")} == {4}


@crossed(parallelism=[1, 3], mode=EXACTLY_ONCE)
def test_windows_keep_their_records(mode: str, parallelism: int) -> None:
    log = TransactionLog()
    begin = latest(stopped(windows(log, 2, MODES[mode]), at=0.5))
    assert begin.metadata.has_records
    gone_on(windows(log, parallelism, MODES[mode]), begin)
    assert Counter(log.records) == Counter(b"%d %d" % (part, n) for part in range(2) for n in range(300))


def windows(log: TransactionLog, parallelism: int, settings: dict[str, Any]) -> Scenario:
    """Windows of 120 ms of event time behind a source, and what commits them."""
    partitions = [[b"%d %d" % (part, n) for n in range(300)] for part in range(2)]
    source = SourceObject(source=CollectionSource(partitions), rates=(300.0,), out_of_orderness_s=0.0)
    window = Vertex(
        name="window",
        parallelism=parallelism,
        service=((0.0, 0.001),),
        emit_every_s=0.12,
        emit_by="event_time",
    )
    return Scenario(
        name="windows",
        duration_s=60.0,
        config=NetworkConfig(
            checkpoint_interval_s=0.05,
            segment_bytes=1024,
            exclusive_buffers_per_channel=1,
            floating_buffers_per_gate=2,
            auto_watermark_interval_s=0.02,
            **settings,
        ),
        vertices=(
            Vertex(name="source", parallelism=2, source=source),
            window,
            Vertex(name="out", parallelism=2, operator=transactional_sink(log.commit)),
        ),
        edges=(
            Edge(source="source", target="window", ship="hash"),
            Edge(source="window", target="out", ship="rebalance"),
        ),
    )
