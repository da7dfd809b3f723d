"""How tasks find each other, and what one does with its input until they have."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from flowcontrol import Secret
from integration.shuffle.cutting import Cutter
from integration.shuffle.gathering import Merger
from integration.shuffle.placement import RebalancePlacement
from integration.shuffle.rendezvous import Meeting, SecretToCome, meet, own_host
from integration.shuffle.source_thread import SourceThread
from netstack import Transport, fresh_secret

COUNT = 3


class Stage:
    """What a barrier stage of Spark does for its tasks: it shows each what all have said."""

    def __init__(self, hosts: list[str]) -> None:
        self.said = [""] * len(hosts)
        self.hosts = hosts
        self._all = threading.Barrier(len(hosts))

    def gather(self, partition: int, message: str) -> list[str]:
        self.said[partition] = message
        self._all.wait()
        return list(self.said)


class Context:
    """The part of a BarrierTaskContext that the tasks use."""

    def __init__(self, stage: Stage, partition: int) -> None:
        self._stage = stage
        self._partition = partition

    def partitionId(self) -> int:  # noqa: N802 - the names are Spark's
        return self._partition

    def allGather(self, message: str) -> list[str]:  # noqa: N802
        return self._stage.gather(self._partition, message)

    def getTaskInfos(self) -> list[Any]:  # noqa: N802
        return [type("BarrierTaskInfo", (), {"address": host}) for host in self._stage.hosts]


def meet_all(stage: Stage) -> list[Meeting]:
    def task(partition: int) -> Meeting:
        context: Any = Context(stage, partition)
        return meet(context, (f"host{partition}", 4000 + partition))

    with ThreadPoolExecutor(COUNT) as threads:
        return list(threads.map(task, range(COUNT)))


def test_all_tasks_learn_the_addresses_and_one_secret() -> None:
    meetings = meet_all(Stage(["host"] * COUNT))
    assert all(
        meeting.addresses == [("host0", 4000), ("host1", 4001), ("host2", 4002)] for meeting in meetings
    )
    assert len({meeting.secret.sign(b"x") for meeting in meetings}) == 1
    assert len({meeting.attempt for meeting in meetings}) == 1


def test_each_attempt_has_its_own_secret_which_task_0_tells() -> None:
    first, second = Stage(["host"] * COUNT), Stage(["host"] * COUNT)
    meetings = [meet_all(stage)[2] for stage in (first, second)]
    assert meetings[0].secret.sign(b"x") != meetings[1].secret.sign(b"x")
    assert meetings[0].attempt != meetings[1].attempt
    assert [bool(json.loads(message)["secret"]) for message in first.said] == [True, False, False]
    told = json.loads(first.said[0])["secret"]
    assert told not in repr(meetings[0])
    assert told not in meetings[0].attempt


def test_a_task_listens_where_spark_reaches_its_executor() -> None:
    stage = Stage(["127.0.0.1:4711", "node-7.example:39001", "[2001:db8::7]:39001"])
    contexts: list[Any] = [Context(stage, partition) for partition in range(COUNT)]
    assert [own_host(context) for context in contexts] == ["127.0.0.1", "node-7.example", "2001:db8::7"]


def test_a_secret_to_come_proves_nothing_until_it_has_come() -> None:
    known, to_come = fresh_secret(), SecretToCome()
    assert to_come.sign(b"x") not in (known.sign(b"x"), SecretToCome().sign(b"x"))
    to_come.reveal(known)
    assert to_come.sign(b"x") == known.sign(b"x")
    assert repr(to_come) == repr(Secret(b"0123456789abcdef"))


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
    with Transport(0, 1, fresh_secret()) as transport:
        cutter = Cutter(schema, RebalancePlacement(1), gather_bytes=size)
        source = SourceThread(iter(batches), cutter, transport, early_batches * size - 1)
        address = transport.listen()
        source.start()
        assert batches.reached.wait()
        batches.connected = True
        transport.connect([address])
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
    with Transport(0, 1, fresh_secret()) as transport:
        size = ROWS_OF_BATCH * 8
        cutter = Cutter(pa.schema([("id", pa.int64())]), RebalancePlacement(1), gather_bytes=size)
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

    with Transport(0, 1, fresh_secret()) as transport:
        cutter = Cutter(pa.schema([("id", pa.int64())]), RebalancePlacement(1))
        source = SourceThread(failing(), cutter, transport, 1)
        transport.connect([transport.listen()])
        source.start()
        with pytest.raises(Exception, match=r"no input|has been closed"):  # the cause, or too late for it
            transport.read()
        source.stop()
        assert repr(source.error) == "ValueError('no input')"
