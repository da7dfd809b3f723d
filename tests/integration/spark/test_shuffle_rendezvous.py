"""Meetings of tasks, and the handling of their input until they have met."""

from __future__ import annotations

import gc
import socket
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
import trio

from flowcontrol import Secret
from integration.base.errors import MeetingError
from integration.spark.rendezvous import Meeting, Rendezvous
from integration.spark.shuffling.pieces import Cutter, Merger
from integration.spark.shuffling.placement import column_placement, rebalance_placement
from integration.spark.shuffling.task import SourceThread
from netstack import PeerFailedError, Transport, fresh_secret
from tests.netstack.shuffle.test_transport import opened

COUNT = 3
GIVEN = Secret(b"what the driver has made")


class Held:
    """Stands for what PySpark has open while it waits for Spark."""


class Stage:
    """What a barrier stage of Spark does for its tasks: in the end, it shows each what all have said."""

    def __init__(self, hosts: Sequence[str] = ("127.0.0.1:4711",) * COUNT, first: int = 70) -> None:
        self.hosts = hosts
        self.first = first
        self.said = [""] * len(hosts)
        self.answers = threading.Event()
        self.held = weakref.WeakSet[Held]()
        self.failure: Exception | None = None
        self.expect(len(hosts))

    def expect(self, tasks: int) -> None:
        """Let so many tasks say something before there is an answer."""
        self._all = threading.Barrier(tasks)

    def gather(self, partition: int, message: str) -> list[str]:
        held = Held()
        self.held.add(held)
        self.said[partition] = message
        self._all.wait()
        self.answers.wait()
        if self.failure is not None:
            raise type(self.failure)(*self.failure.args)
        return list(self.said)


class Context:
    """The part of a BarrierTaskContext that the tasks use."""

    def __init__(self, stage: Stage, partition: int, number: int | None = None) -> None:
        self._stage = stage
        self._partition = partition
        self._number = stage.first + partition if number is None else number

    def partitionId(self) -> int:  # noqa: N802 - the names are Spark's
        return self._partition

    def stageId(self) -> int:  # noqa: N802
        return 5

    def taskAttemptId(self) -> int:  # noqa: N802
        return self._number

    def allGather(self, message: str) -> list[str]:  # noqa: N802
        return self._stage.gather(self._partition, message)

    def getTaskInfos(self) -> list[Any]:  # noqa: N802
        return [type("BarrierTaskInfo", (), {"address": host}) for host in self._stage.hosts]


def rendezvous(context: Context, secret: Secret = GIVEN, *, loopback: bool = False) -> Rendezvous:
    spark: Any = context
    return Rendezvous(spark, secret, loopback=loopback)


def meet(stage: Stage, contexts: Sequence[Context] | None = None) -> list[Meeting]:
    """Let all tasks meet; Spark answers when they have, unless it is said to before."""
    tasks = [rendezvous(context) for context in contexts or [Context(stage, index) for index in range(COUNT)]]
    with ThreadPoolExecutor(COUNT) as threads:
        meetings = list(threads.map(lambda task: trio.run(task.meet, 4000 + tasks.index(task)), tasks))
    stage.answers.set()
    for task in tasks:
        task.finish()
    return meetings


def secrets_of(meetings: Sequence[Meeting]) -> set[bytes]:
    return {meeting.secret.sign(b"x") for meeting in meetings}


def test_the_tasks_meet_before_spark_answers() -> None:
    meetings = meet(Stage())
    here = "127.0.0.1"
    assert all(meeting.addresses == [(here, 4000), (here, 4001), (here, 4002)] for meeting in meetings)
    assert len(secrets_of(meetings)) == 1
    assert len({meeting.attempt for meeting in meetings}) == 1


def test_what_spark_answers_is_the_same() -> None:
    """Without an agreed port, as where tasks are numbered out of order, it is Spark that tells."""
    stage = Stage()
    stage.answers.set()
    contexts = [Context(stage, index, number) for index, number in enumerate((72, 70, 71))]
    meetings = meet(stage, contexts)
    assert [port for _, port in meetings[0].addresses] == [4000, 4001, 4002]
    assert len(secrets_of(meetings)) == len({meeting.attempt for meeting in meetings}) == 1


def test_one_task_may_have_its_answer_and_the_others_none() -> None:
    """Tasks 0 and 2 agree on a port that task 1 does not know; Spark tells the others a little later."""
    stage = Stage()
    contexts = [Context(stage, index, number) for index, number in enumerate((70, 99, 72))]
    told = threading.Timer(0.2, stage.answers.set)
    told.start()
    meetings = meet(stage, contexts)
    assert len(secrets_of(meetings)) == 1


def test_taken_ports_make_it_slower_and_not_wrong() -> None:
    ports = rendezvous(Context(Stage(), 0)).agreed_ports()
    assert len(set(ports)) == 3
    sockets = [socket.create_server(("127.0.0.1", port)) for port in ports]
    try:
        stage = Stage()
        stage.answers.set()
        assert len(secrets_of(meet(stage))) == 1
    finally:
        for each in sockets:
            each.close()
    with socket.create_server(("127.0.0.1", ports[0])):  # the next one will do
        assert len(secrets_of(meet(Stage()))) == 1


def test_the_failure_of_spark_is_the_failure_of_the_task() -> None:
    stage = Stage()
    stage.failure = RuntimeError("the stage was killed")
    stage.answers.set()
    contexts = [Context(stage, index, number) for index, number in enumerate((9, 99, 999))]
    with pytest.raises(RuntimeError, match="the stage was killed"):
        meet(stage, contexts)


@pytest.mark.parametrize(
    ("absent", "said"), [((2,), "task 2 had"), ((1, 2), "tasks 1, 2 had"), ((0,), "task 0 had")]
)
def test_who_has_not_come_is_named_when_spark_gives_up(absent: tuple[int, ...], said: str) -> None:
    """PySpark turns what Spark says into the end of a file. Task 0 speaks first, if it is there."""
    stage = Stage()
    stage.failure = EOFError()
    present = [index for index in range(COUNT) if index not in absent]
    stage.expect(len(present))
    gives_up = threading.Timer(0.5, stage.answers.set)
    gives_up.start()
    outcomes: list[str] = []

    def meet_in_vain(index: int) -> None:
        with pytest.raises(MeetingError) as raised:
            trio.run(rendezvous(Context(stage, index)).meet, 4000 + index)
        outcomes.append(str(raised.value))

    with ThreadPoolExecutor(COUNT) as threads:
        list(threads.map(meet_in_vain, present))
    assert f"before {said} arrived (spark.barrier.sync.timeout)" in outcomes[0]
    assert len(outcomes) == len(present)


def test_the_log_says_whom_a_task_waits_for_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where rows are cached: their tasks are over at once, and Spark waits for them without end."""
    monkeypatch.setattr("integration.spark.rendezvous.LONG_S", 0.1)
    stage = Stage()
    stage.failure = EOFError()
    stage.expect(2)
    threading.Timer(0.5, stage.answers.set).start()

    def meet_in_vain(index: int) -> None:
        with pytest.raises(MeetingError):
            trio.run(rendezvous(Context(stage, index)).meet, 4000 + index)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(meet_in_vain, (0, 2)))
    waiting = [record for record in caplog.records if record.name == "netstack.spark"]  # not of connections
    assert {record.getMessage().partition(";")[0] for record in waiting} == {
        "task 0 of stage 5 waits for task 1",
        "task 2 of stage 5 waits for others",
    }
    caplog.clear()
    meet(Stage())
    assert not caplog.records


class Ended(Context):
    """Of a task for which Spark has ended the barrier."""

    def allGather(self, message: str) -> list[str]:  # noqa: N802
        raise EOFError


def test_a_task_that_comes_when_spark_has_just_given_up_is_still_met() -> None:
    stage, late = Stage(), threading.Event()
    tasks = [rendezvous(context) for context in (Context(stage, 0), Ended(stage, 1), Ended(stage, 2))]

    def meet_one(index: int) -> Meeting:
        if index == 2:
            late.wait()
        return trio.run(tasks[index].meet, 4000 + index)

    comes = threading.Timer(0.3, late.set)
    comes.start()
    stage.expect(1)
    with ThreadPoolExecutor(COUNT) as threads:
        meetings = list(threads.map(meet_one, range(COUNT)))
    stage.answers.set()
    assert len(secrets_of(meetings)) == 1


def test_nothing_of_pyspark_is_held_by_its_failure() -> None:
    """A worker that waits for its next task collects no cycles."""
    stage = Stage(["127.0.0.1:4711"])
    stage.failure = EOFError()
    task = rendezvous(Context(stage, 0))
    gc.disable()
    try:
        trio.run(task.meet, 4000)
        assert len(stage.held) == 1
        stage.answers.set()
        task.finish()
        assert len(stage.held) == 0
    finally:
        gc.enable()


def test_each_attempt_has_a_secret_of_its_own_that_nobody_says() -> None:
    stages = [Stage(), Stage()]
    meetings = [meet(stage)[2] for stage in stages]
    assert len(secrets_of(meetings)) == 2
    assert meetings[0].attempt != meetings[1].attempt
    key = b"what the driver has made"
    for text in (*stages[0].said, repr(meetings[0]), meetings[0].attempt):
        assert key.decode() not in text
        assert key.hex() not in text


def test_the_port_is_another_for_each_stage_attempt_and_secret() -> None:
    tasks = [
        rendezvous(Context(Stage(), 0)),
        rendezvous(Context(Stage(first=80), 0)),
        rendezvous(Context(Stage(), 0), Secret(b"of another shuffle")),
    ]
    assert len({tuple(task.agreed_ports()) for task in tasks}) == 3
    same = [rendezvous(Context(Stage(), index)) for index in range(COUNT)]
    assert len({tuple(task.agreed_ports()) for task in same}) == 1


def test_a_port_that_is_drawn_twice_is_tried_once() -> None:
    drawn = [rendezvous(Context(Stage(first=first), 0)).agreed_ports() for first in range(12_000)]
    assert all(len(set(ports)) == len(ports) for ports in drawn)
    assert any(len(ports) < 3 for ports in drawn)


def test_a_task_listens_where_spark_reaches_its_executor() -> None:
    stage = Stage(["127.0.0.1:4711", "node-7.example:39001", "[2001:db8::7]:39001"])
    tasks = [rendezvous(Context(stage, partition)) for partition in range(COUNT)]
    assert [task.host for task in tasks] == ["127.0.0.1", "node-7.example", "2001:db8::7"]
    assert rendezvous(Context(stage, 1), loopback=True).host == "127.0.0.1"


ROWS_OF_BATCH, BATCHES = 1 << 15, 16


class Input:
    """Batches of 256 KiB; notes an error if one is taken too many before the peers are there."""

    def __init__(self, most_before: int) -> None:
        self.connected = False
        self.reached = threading.Event()
        self._most_before = most_before

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number in range(BATCHES):
            if number == self._most_before:
                self.reached.set()
            assert self.connected or number <= self._most_before
            first = number * ROWS_OF_BATCH
            yield pa.RecordBatch.from_pydict({"id": range(first, first + ROWS_OF_BATCH)})


@pytest.mark.parametrize("early_batches", [4, 8])
def test_before_the_peers_are_there_a_task_holds_so_much_of_its_input_and_no_more(early_batches: int) -> None:
    schema, size = pa.schema([("id", pa.int64())]), ROWS_OF_BATCH * 8
    batches = Input(early_batches)  # each is cut when the next one comes
    with Transport(0, 1) as transport:
        cutter = Cutter(schema, rebalance_placement(1), gather_bytes=size)
        source = SourceThread(iter(batches), cutter, transport, early_batches * size - 1)
        address = transport.listen()
        source.start()
        assert batches.reached.wait()
        batches.connected = True
        transport.connect([address], fresh_secret())
        source.connected()
        merger, ids = Merger(cutter.schema), []
        while (pieces := transport.read()) is not None:
            for piece in pieces:
                ids += [batch.column(0).to_numpy() for batch in merger.add(piece)]
        ids += [batch.column(0).to_numpy() for batch in merger.flush()]
        source.join()
        assert source.error is None
        assert source.rows == sum(map(len, ids)) == BATCHES * ROWS_OF_BATCH
        assert [int(part[0]) for part in ids] == sorted(int(part[0]) for part in ids)


def test_a_source_that_is_stopped_before_its_peers_are_there_ends() -> None:
    with Transport(0, 1) as transport:
        size = ROWS_OF_BATCH * 8
        cutter = Cutter(pa.schema([("id", pa.int64())]), rebalance_placement(1), gather_bytes=size)
        batches = Input(1)
        source = SourceThread(iter(batches), cutter, transport, 1)
        transport.listen()
        source.start()
        assert batches.reached.wait()
        transport.close(RuntimeError("no peers"))
        source.stop()
        source.join()


def test_an_error_of_the_input_ends_the_exchange() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        raise ValueError("no input")
        yield

    with Transport(0, 1) as transport:
        cutter = Cutter(pa.schema([("id", pa.int64())]), rebalance_placement(1))
        source = SourceThread(failing(), cutter, transport, 1)
        transport.connect([transport.listen()], fresh_secret())
        source.start()
        with pytest.raises(Exception, match=r"no input|has been closed"):  # the cause, or too late for it
            transport.read()
        source.stop()
        assert repr(source.error) == "ValueError('no input')"


def test_rows_that_end_in_the_middle_of_a_batch_are_said_to_come_from_spark() -> None:
    def cut_off() -> Iterator[pa.RecordBatch]:
        yield from ()
        raise OSError("Expected to be able to read 10 bytes for message body, got 2")

    with Transport(0, 1) as transport:
        cutter = Cutter(pa.schema([("id", pa.int64())]), rebalance_placement(1))
        source = SourceThread(cut_off(), cutter, transport, 1)
        source.start()
        source.join()
        assert str(source.error).startswith("the connection over which Spark sends its rows ended: Expected")


def test_an_error_of_a_task_is_told_to_its_peers() -> None:
    schema = pa.schema([("target", pa.int32())])
    failing, peer = opened(2)
    cutter = Cutter(schema, column_placement(schema, "target", 2))
    source = SourceThread(iter([pa.record_batch([[9]], schema)]), cutter, failing, 1)
    source.start()
    source.connected()
    source.join()
    with pytest.raises(PeerFailedError, match=r"the target partition 9 must be from 0 to 1"):
        peer.read()
    peer.close()
