"""Tasks of a shuffle: the specification from the driver, and the work of each task in a Python worker.

A task has three threads. The first reads the rows of its partition from Spark, cuts them and writes the
pieces. The second runs the network. The third, Spark's own, reads arriving rows and yields them. During the
first second of a stage, a fourth thread waits for Spark to report the addresses of the peers::

    input  -> SourceThread: Cutter -> Transport.write  ==> peers
    output <- ShuffleTask:  Merger <- Transport.read   <== peers

The first failure fails all tasks. A task that fails reports the cause to its peers before it reports to
Spark.
"""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import trio

from flowcontrol import Secret
from netstack import ConnectionLostError, PeerFailedError, Transport, TransportConfig, TransportError

from ...errors import ShuffleTaskError
from ..failure_causes import BEGUN_AGAIN
from ..rendezvous import Meeting, Rendezvous
from ..workers import MapFunction, Noting, worker_function
from .blocks import PartitionBlocks
from .pieces import Compression, Cutter, Layout, Merger, Pieces
from .placement import PlacementSpec
from .reports import TaskReport

if TYPE_CHECKING:
    from pyspark import Accumulator, BarrierTaskContext

ECHO_PAUSE_S = 1.0
"""Seconds before a task reports a peer's failure to Spark.

Spark ends all tasks of the stage after the first report. The pause lets the task that failed report first: it
reports the cause to its peers before it reports to Spark.
"""

Report = Callable[[list[TaskReport]], None]

_JOIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """Specification of a shuffle, the same for all its tasks."""

    name: str
    """Name of the shuffle."""
    layout: Layout
    """Number of partitions, and of tasks."""
    schema: pa.Schema
    """Columns of the input, including one that is computed for the placement."""
    placement: PlacementSpec
    config: TransportConfig
    secret: Secret
    """Secret of the tasks and the driver: see `rendezvous`."""
    early_bytes: int
    """Maximum bytes of rows that a task holds before it is connected to its peers."""
    max_memory_bytes: int
    """Maximum bytes of rows that a task with several partitions holds."""
    compression: Compression | None
    loopback: bool
    """Whether all tasks run on one machine."""


def stage_function(spec: StageSpec, reports: Accumulator[Any]) -> MapFunction:
    """Return the function that each task of the stage runs; `reports` takes lists of reports.

    The function has the shuffle's name, so that the plan contains this name.
    """
    run = worker_function(run_task, spec, reports.add, on_one_machine=spec.loopback)
    run.__name__ = spec.name
    return run


def run_task(batches: Iterator[pa.RecordBatch], spec: StageSpec, report: Report) -> Iterator[pa.RecordBatch]:
    """Return the rows of this partition after the shuffle, or the blocks of several partitions.

    Args:
        batches: The rows of this partition before the shuffle.
        spec: The stage.
        report: Called at the end with the statistics of the task.

    Raises:
        ShuffleTaskError: The stage has more or fewer tasks than planned; or, when iterated, a peer has
            failed or cannot be reached. The message is the first cause.
    """
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    tasks = len(context.getTaskInfos())
    if tasks != spec.layout.tasks:
        # Also without rows: Spark keeps the output of tasks that end while it aborts their stage, and only
        # runs the other tasks again, which would then miss rows.
        raise ShuffleTaskError(
            f"the stage has {tasks} task{'s' * (tasks > 1)}, but {spec.layout.tasks} were planned when "
            "shuffle() was called: either the input or the session's settings have changed since, so "
            f"call shuffle() again; or {BEGUN_AGAIN}, because of an earlier failure"
        )
    return ShuffleTask(spec, context, batches, report).run()


class ShuffleTask:
    """Task of a shuffle. Each instance runs once."""

    def __init__(
        self, spec: StageSpec, context: BarrierTaskContext, batches: Iterator[pa.RecordBatch], report: Report
    ) -> None:
        self._spec = spec
        self._context = context
        self._report = report
        self._noting = Noting(context)
        self._index = context.partitionId()
        self._rendezvous = Rendezvous(context, spec.secret, loopback=spec.loopback)
        self._started = time.monotonic()
        layout = spec.layout
        placement = spec.placement.build(spec.schema, layout.partitions, self._index)
        cutter = Cutter(spec.schema, placement, tasks=layout.tasks, compression=spec.compression)
        self._merger: Merger | PartitionBlocks
        if layout.several:
            self._merger = PartitionBlocks(
                cutter.schema,
                layout.partitions_of(self._index),
                spec.max_memory_bytes,
                to_all=spec.placement.kind == "broadcast",
                compression=spec.compression,
            )
        else:
            self._merger = Merger(cutter.schema)
        self._transport = Transport(self._index, layout.tasks, spec.config, host=self._rendezvous.host)
        self._source = SourceThread(batches, cutter, self._transport, spec.early_bytes)

    def run(self) -> Iterator[pa.RecordBatch]:
        """Run the shuffle and yield the rows of this partition.

        Raises:
            ShuffleTaskError: A peer has failed, or cannot be reached.
        """
        try:
            _, port = self._transport.listen()
            self._source.start()
            meeting = trio.run(self._rendezvous.meet, port)
            self._transport.connect(meeting.addresses, meeting.secret)
            self._source.connected()
            while (pieces := self._transport.read()) is not None:
                for piece in pieces:
                    yield from self._merger.add(piece)
                self._noting.note(self._merger.rows)
            yield from self._merger.flush()
            self._noting.note(self._merger.rows, last=True)
            self._source.join()
            self._transport.close()
            self._rendezvous.finish()
        except BaseException as error:
            cause = self._source.error or error
            self._transport.close(_cause_for_peers(cause, self._index))
            self._source.stop()
            raise _cause_for_spark(cause) from None
        self._report([self._task_report(meeting)])

    def _task_report(self, meeting: Meeting) -> TaskReport:
        peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return TaskReport(
            self._spec.name,
            meeting.attempt,
            self._context.stageId(),
            self._rendezvous.host,
            self._source.rows,
            self._merger.rows,
            time.monotonic() - self._started,
            peak_memory if sys.platform == "darwin" else peak_memory << 10,
            self._merger.peak_bytes if isinstance(self._merger, PartitionBlocks) else 0,
            self._transport.statistics(),
        )


def _cause_for_peers(cause: BaseException, index: int) -> BaseException:
    """Return the error to report to the peers: Python's GeneratorExit would not say why the task ended."""
    if isinstance(cause, GeneratorExit):
        return ShuffleTaskError(f"the rows of partition {index} were not all read, as happens with limit()")
    return cause


def _cause_for_spark(cause: BaseException) -> BaseException:
    """Return the error to report to Spark, after a delay if it came from a peer."""
    if not isinstance(cause, TransportError):
        return cause
    if isinstance(cause, ConnectionLostError | PeerFailedError):
        time.sleep(ECHO_PAUSE_S)
    return ShuffleTaskError(cause.problem if isinstance(cause, PeerFailedError) else str(cause))


class SourceThread:
    """Sends the rows of batches over a transport; to be started once.

    The thread begins before the peers are connected, which may take a second. Until then it holds the pieces,
    up to a number of bytes.

    Args:
        batches: The input, which has no other reader.
        cutter: Cuts the input into pieces.
        transport: The transport; it listens, and `connected` says when it is connected.
        early_bytes: Maximum bytes held until the transport is connected, unless a single list of pieces has
            more.
    """

    def __init__(
        self, batches: Iterator[pa.RecordBatch], cutter: Cutter, transport: Transport, early_bytes: int
    ) -> None:
        self.error: BaseException | None = None
        """The error that ended the thread early; not a transport's error, which the reader gets as well."""
        self.rows = 0
        """Rows read so far."""
        self._batches = batches
        self._cutter = cutter
        self._transport = transport
        self._held: deque[Pieces] = deque()
        self._early_bytes = early_bytes
        self._connected = threading.Event()
        self._stopped = False
        # A read from Spark cannot be interrupted. Such a thread ends with the process.
        self._thread = threading.Thread(target=self._run, name="netstack-shuffle-source", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def connected(self) -> None:
        """Report that the peers are connected, so that held pieces can be written."""
        self._connected.set()

    def join(self) -> None:
        """Wait until everything has been written."""
        self._thread.join()

    def stop(self) -> None:
        """Stop, once the transport is closed. Wait briefly for the thread to notice."""
        self._stopped = True
        self._connected.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            for batch in self._rows_of_spark():
                self.rows += batch.num_rows
                for pieces in self._cutter.add(batch):
                    self._send(pieces)
            self._send(self._cutter.flush())
            self._write_held()
            if not self._stopped:
                self._transport.finish_writing()
        except TransportError:
            pass  # the reader of the transport also gets this error
        except BaseException as error:
            self.error = error
            self._transport.close(error)

    def _rows_of_spark(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Spark may end within a batch if rows are not needed or other tasks have failed."""
        try:
            yield from self._batches
        except (OSError, EOFError) as error:
            text = f"the connection over which Spark sends its rows ended: {error}"
            raise ShuffleTaskError(text) from error

    def _send(self, pieces: Pieces) -> None:
        if self._connected.is_set():
            self._write_held()
            self._write(pieces)
            return
        self._held.append(pieces)
        self._early_bytes -= sum(len(piece) for _, piece in pieces)
        if self._early_bytes <= 0:
            self._write_held()

    def _write_held(self) -> None:
        self._connected.wait()
        while self._held:
            self._write(self._held.popleft())

    def _write(self, pieces: Pieces) -> None:
        if pieces and not self._stopped:
            self._transport.write(pieces)
