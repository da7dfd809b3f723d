"""State of chains that were taken apart, or put together, between a savepoint and the job that goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import trio

from buffers import RecordBlock
from flowcontrol import PostCheckpointAction, SavepointFormat
from netstack import (
    Agenda,
    CheckpointMetadata,
    FileLayout,
    InitialCheckpoint,
    Job,
    MemoryStorage,
    Operator,
    OperatorContext,
    Scenario,
    ScheduledSavepoint,
    TransactionLog,
    Vertex,
    run_distributed,
    transactional_sink,
)
from netstack.checkpoints.metadata import SubtaskSnapshot
from netstack.checkpoints.recovery import rechained
from netstack.scenarios.checkpointed_shape import JobShape, shape_of
from netstack.state.handles import HELD_BACK, PENDING_TRANSACTIONS, POSITION, StateHandle
from netstack.state.state_kinds import StateKind
from netstack.state.value_encoding import encode_value
from tests.netstack.local_cluster import launch_locally
from tests.netstack.whole_jobs import COUNT, MODES, expected, parse, run, sums_job

CHAIN = "sums -> out"


class RunningSums(Operator):
    """Sums by key, and hands the sum so far on at once."""

    keyed = True

    def key_of(self, record: bytes) -> object:
        return parse(record)[0]

    def open(self, context: OperatorContext) -> None:
        self._context = context
        self._sums = context.keyed.reducing("sum", lambda one, other: one + other)

    def process(self, block: RecordBlock) -> RecordBlock:
        context, records = self._context, []
        for payload, group in zip(block.payloads(), context.key_groups(block), strict=True):
            key, number = parse(bytes(payload))
            context.keyed.set_current_key(key, group)
            self._sums.add(number)
            records.append(b"%b %d" % (key, self._sums.get()))
        return RecordBlock.from_payloads(records)


class Chain(Operator):
    """Two operators, the second behind the first."""

    keyed = True

    def __init__(self, first: Operator, second: Operator) -> None:
        self._first, self._second = first, second

    def key_of(self, record: bytes) -> object:
        return self._first.key_of(record)

    def open(self, context: OperatorContext) -> None:
        self._first.open(context)
        self._second.open(context)

    def process(self, block: RecordBlock) -> RecordBlock:
        return self._second.process(self._first.process(block))

    def finish(self) -> RecordBlock:
        self._second.process(self._first.finish())
        return self._second.finish()

    def before_snapshot(self, checkpoint_id: int) -> None:
        self._second.before_snapshot(checkpoint_id)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._second.checkpoint_completed(checkpoint_id)


def apart(log: TransactionLog, **settings: object) -> Scenario:
    scenario = sums_job(log, **settings)  # type: ignore[arg-type]
    numbers, middle, sums, out = scenario.vertices
    return replace(
        scenario, vertices=(numbers, middle, replace(sums, operator=lambda subtask: RunningSums()), out)
    )


def chained(log: TransactionLog, parallelism: int = 2, **settings: object) -> Scenario:
    scenario = apart(log, **settings)
    numbers, middle, sums, _ = scenario.vertices
    sink = transactional_sink(log.commit)
    whole = Vertex(
        name=CHAIN,
        parallelism=parallelism,
        service=sums.service,
        service_skew=sums.service_skew,
        operator=lambda subtask: Chain(RunningSums(), sink(subtask)),
    )
    rebalance, by_key, _ = scenario.edges
    return replace(
        scenario, vertices=(numbers, middle, whole), edges=(rebalance, replace(by_key, target=CHAIN))
    )


def stopped(scenario: Scenario, layout: SavepointFormat = SavepointFormat.CANONICAL) -> InitialCheckpoint:
    storage = MemoryStorage()
    stop = ScheduledSavepoint(at_s=0.7, action=PostCheckpointAction.SUSPEND, format=layout)
    run(replace(scenario, savepoints=(stop,)), storage)
    (folder,) = {path.split("/")[0] for path in storage.files if path.startswith("savepoint-")}
    place = storage.savepoint(folder)
    return InitialCheckpoint(place.metadata, place, folder, place.metadata.checkpoint_id + 1)


def assert_each_record_counts_once(log: TransactionLog) -> None:
    assert len(log.records) == 2 * COUNT
    last: Counter[bytes] = Counter()
    for key, number in map(bytes.split, log.records):
        last[key] = max(last[key], int(number))
    assert sorted(b"%b %d" % item for item in last.items()) == expected()


JOBS = {"taken apart": (chained, apart), "put together": (apart, chained)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", JOBS)
def test_output_is_that_of_one_run(way: str, mode: str) -> None:
    before, after = JOBS[way]
    log = TransactionLog()
    begun = stopped(before(log, **MODES[mode]))
    assert begun.mismatches(shape_of(after(log))) == []
    job = Job(after(log, **MODES[mode]), Agenda(), from_checkpoint=begun)
    trio.run(job.run)
    assert (job.failure, job.restarts) == (None, [])
    assert_each_record_counts_once(log)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_parallelism_may_change_too(parallelism: int) -> None:
    log = TransactionLog()
    begun = stopped(chained(log, parallelism))
    job = Job(apart(log), Agenda(), from_checkpoint=begun)
    trio.run(job.run)
    assert (job.failure, job.restarts) == (None, [])
    assert_each_record_counts_once(log)


def test_over_several_processes() -> None:
    log, storage = TransactionLog(), MemoryStorage()
    begun = stopped(chained(log))
    assert isinstance(begun.storage, FileLayout)
    launch = launch_locally(storage, initial=begun.storage)
    result = run_distributed(replace(apart(log), duration_s=20.0), launch, storage, from_checkpoint=begun)
    assert result.failure is None
    assert_each_record_counts_once(log)


def of(vertex: str, *handles: StateHandle) -> SubtaskSnapshot:
    return SubtaskSnapshot(vertex=vertex, subtask=0, handles=handles)


def list_named(name: str) -> StateHandle:
    data = encode_value([])
    return StateHandle(kind=StateKind.OPERATOR, name=name, size=len(data), inline=data)


KEYED = StateHandle(kind=StateKind.KEYED, name="sum", size=1, inline=b"x")


def metadata_of(*subtasks: SubtaskSnapshot, **parallelism: int) -> CheckpointMetadata:
    names = {snapshot.vertex: 1 for snapshot in subtasks}
    return CheckpointMetadata(
        checkpoint_id=7,
        job="job",
        checkpoint_type="SAVEPOINT",
        triggered_at=0.0,
        completed_at=1.0,
        parallelism=names | parallelism,
        subtasks=subtasks,
    )


def names_of(metadata: CheckpointMetadata, *vertices: str) -> dict[str, list[str]]:
    job = JobShape("job", dict.fromkeys(vertices, 1))
    rechained_one = rechained(metadata, job, MemoryStorage())
    return {each.vertex: [handle.name for handle in each.handles] for each in rechained_one.subtasks}


def test_each_member_is_given_what_is_its_own() -> None:
    lists = [list_named(name) for name in (POSITION, PENDING_TRANSACTIONS, HELD_BACK, "the user's")]
    metadata = metadata_of(of("a -> b -> c", KEYED, *lists))
    assert names_of(metadata, "a", "b -> c") == {
        "a": ["sum", POSITION, HELD_BACK, "the user's"],
        "b -> c": [PENDING_TRANSACTIONS, "the user's"],
    }
    assert names_of(metadata, "a -> b", "c")["c"] == [PENDING_TRANSACTIONS, "the user's"]
    assert list(names_of(metadata, "a", "b", "c")) == ["a", "b", "c"]


def test_what_is_no_other_chain_of_the_same_members_stays() -> None:
    metadata = metadata_of(of("a -> b", KEYED))
    for vertices in (("a -> b",), ("a",), ("b", "x"), ("a -> ", "b"), ("b -> a",)):
        assert list(names_of(metadata, *vertices)) == ["a -> b"]


def test_members_of_another_parallelism_are_not_put_together() -> None:
    both = of("a", KEYED), of("b")
    assert names_of(metadata_of(*both), "a -> b") == {"a -> b": ["sum"]}
    assert list(names_of(metadata_of(*both, b=2), "a -> b")) == ["a", "b"]


def test_records_in_flight_keep_their_exchanges() -> None:
    in_flight = StateHandle(kind=StateKind.INPUT_CHANNEL, size=1, inline=b"x")
    assert list(names_of(metadata_of(of("a -> b", in_flight)), "a", "b")) == ["a -> b"]
