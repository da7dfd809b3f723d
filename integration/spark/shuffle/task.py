"""A task of a shuffle, in a Python worker of Spark's.

There are three threads. One reads the rows of this partition from Spark, cuts them and writes the pieces; the
network runs in the second; Spark's own reads what arrives and hands it on. In the first second of a stage a
fourth waits for Spark to say where the peers are::

    input  -> SourceThread: Cutter -> Transport.write  ==> peers
    output <- ShuffleTask:  Merger <- Transport.read   <== peers

What fails first, fails all: the task that fails tells its peers why before it tells Spark.
"""

from __future__ import annotations

import pickle
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import trio

from netstack import ConnectionLostError, PeerFailedError, Transport, TransportError

from .cutting import Cutter
from .errors import ShuffleTaskError
from .gathering import Merger
from .rendezvous import Meeting, Rendezvous
from .report import TaskReport
from .source_thread import SourceThread
from .stage import StageSpec

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext

ECHO_PAUSE_S = 1.0
"""How long a task that has only heard of a failure keeps it to itself, so that Spark hears of it where it
happened. The peers know already, and Spark ends all tasks of the stage as soon as it hears of one."""

Report = Callable[[list[TaskReport]], None]


def run_task(batches: Iterator[pa.RecordBatch], payload: bytes, report: Report) -> Iterator[pa.RecordBatch]:
    """Return the rows of this partition after the shuffle.

    Args:
        batches: The rows of this partition before it.
        payload: A `StageSpec`, pickled.
        report: Told at the end what the task has counted.

    Raises:
        ShuffleTaskError: when iterated, if a peer fails or cannot be reached; the message is the first cause.
    """
    from pyspark import BarrierTaskContext

    spec: StageSpec = pickle.loads(payload)
    context = BarrierTaskContext.get()
    tasks = len(context.getTaskInfos())
    if tasks != spec.count:
        return _expect_nothing(batches, tasks, spec.count)
    return ShuffleTask(spec, context, batches, report).run()


def _expect_nothing(batches: Iterator[pa.RecordBatch], tasks: int, count: int) -> Iterator[pa.RecordBatch]:
    """Take the end of an input that has other partitions than planned: Spark makes an empty one smaller."""
    for batch in batches:
        if batch.num_rows:
            raise ShuffleTaskError(
                f"the number of partitions of the input is {tasks}, not {count} as when shuffle() was called;"
                " the data or the settings of the session have changed since, so call shuffle() again"
            )
    return iter(())


class ShuffleTask:
    """One of the tasks; to be run once."""

    def __init__(
        self, spec: StageSpec, context: BarrierTaskContext, batches: Iterator[pa.RecordBatch], report: Report
    ) -> None:
        self._spec = spec
        self._context = context
        self._report = report
        self._index = context.partitionId()
        self._rendezvous = Rendezvous(context, spec.secret, loopback=spec.loopback)
        self._started = time.monotonic()
        cutter = Cutter(spec.schema, spec.placement.build(spec.schema, spec.count, self._index))
        self._merger = Merger(cutter.schema)
        self._rows = 0
        self._transport = Transport(self._index, spec.count, spec.config, host=self._rendezvous.host)
        self._source = SourceThread(batches, cutter, self._transport, spec.early_bytes)

    def run(self) -> Iterator[pa.RecordBatch]:
        """Take part in the shuffle; the rows that are for this partition.

        Raises:
            ShuffleTaskError: A peer has failed, or is not there.
        """
        try:
            meeting = self._connect()
            for batch in self._received():
                self._rows += batch.num_rows
                yield batch
            self._source.join()
            self._transport.close()
            self._rendezvous.finish()
        except BaseException as error:
            cause = self._source.error or error
            self._transport.close(_told_to_peers(cause, self._index))
            self._source.stop()
            raise _told_to_spark(cause) from None
        self._report([self._task_report(meeting)])

    def _connect(self) -> Meeting:
        _, port = self._transport.listen()
        self._source.start()
        meeting = trio.run(self._rendezvous.meet, port)
        self._transport.connect(meeting.addresses, meeting.secret)
        self._source.connected()
        return meeting

    def _received(self) -> Iterator[pa.RecordBatch]:
        while (pieces := self._transport.read()) is not None:
            for piece in pieces:
                yield from self._merger.add(piece)
        yield from self._merger.flush()

    def _task_report(self, meeting: Meeting) -> TaskReport:
        return TaskReport(
            self._spec.name,
            meeting.attempt,
            self._context.stageId(),
            self._rendezvous.host,
            self._source.rows,
            self._rows,
            time.monotonic() - self._started,
            _peak_memory_bytes(),
            self._transport.statistics(),
        )


def _told_to_peers(cause: BaseException, index: int) -> BaseException:
    if isinstance(cause, GeneratorExit):
        return ShuffleTaskError(f"partition {index} was not read to its end, as limit() and the like do")
    return cause


def _told_to_spark(cause: BaseException) -> BaseException:
    if not isinstance(cause, TransportError):
        return cause
    if isinstance(cause, ConnectionLostError | PeerFailedError):
        time.sleep(ECHO_PAUSE_S)
    return ShuffleTaskError(cause.problem if isinstance(cause, PeerFailedError) else str(cause))


def _peak_memory_bytes() -> int:
    """The most memory that this worker has had, in all tasks it has run."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
