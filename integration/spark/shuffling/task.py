"""Tasks of a shuffle: the specification from the driver, and the work of each task in a Python worker.

A task has three threads. The first reads the rows of its partition from Spark, cuts them and writes the
pieces. The second runs the network. The third, Spark's own, reads arriving rows and yields them. During the
first second of a stage, a fourth thread waits for Spark to report the addresses of the peers::

    input  -> SourceThread: Cutter -> Transport.write  ==> peers
    output <- run_task:     Merger <- Transport.read   <== peers

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

from ...base.errors import ShuffleTaskError
from ..failure_causes import STAGE_RESTARTED
from ..python_workers import MapFunction, Noting, worker_function
from ..rendezvous import Rendezvous
from .blocks import PartitionBlocks
from .pieces import Compression, Cutter, Layout, Merger, Pieces
from .placement import PlacementSpec
from .reports import PartitionReport, TaskReport

if TYPE_CHECKING:
    from pyspark import Accumulator

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


def import_only(partition: Iterator[Any]) -> Iterator[Any]:
    """Yield nothing: a worker that calls this function can import what `run_task` needs."""
    yield from ()


def run_task(batches: Iterator[pa.RecordBatch], spec: StageSpec, report: Report) -> Iterator[pa.RecordBatch]:
    """Yield the rows of this partition after the shuffle, or the blocks of several partitions.

    `batches` are the rows before the shuffle. `report` gets the statistics of the task at the end.

    Raises:
        ShuffleTaskError: The stage has more or fewer tasks than planned, or a peer has failed or cannot be
            reached. The message is the first cause.
    """
    from pyspark import BarrierTaskContext

    started = time.monotonic()
    context, layout = BarrierTaskContext.get(), spec.layout
    index, tasks = context.partitionId(), len(context.getTaskInfos())
    if tasks != layout.tasks:
        # Also without rows: Spark keeps the output of tasks that end while it aborts their stage, and only
        # runs the other tasks again, which would then miss rows.
        raise ShuffleTaskError(
            f"the stage has {tasks} task{'s' * (tasks > 1)}, but {layout.tasks} were planned when "
            "shuffle() was called: either the input or the session's settings have changed since, so "
            f"call shuffle() again; or {STAGE_RESTARTED}, because of an earlier failure"
        )
    rendezvous = Rendezvous(context, spec.secret, loopback=spec.loopback)
    placement = spec.placement.build(spec.schema, layout.partitions, index)
    cutter = Cutter(spec.schema, placement, tasks=layout.tasks, compression=spec.compression)
    merger: Merger | PartitionBlocks = Merger(cutter.schema)
    if layout.several:
        merger = PartitionBlocks(
            cutter.schema,
            layout.partitions_of(index),
            spec.max_memory_bytes,
            to_all=spec.placement.kind == "broadcast",
            compression=spec.compression,
        )
    transport = Transport(index, layout.tasks, spec.config, host=rendezvous.host)
    source = SourceThread(batches, cutter, transport, spec.early_bytes)
    noting = Noting(context)
    try:
        _, port = transport.listen()
        source.start()
        meeting = trio.run(rendezvous.meet, port)
        transport.connect(meeting.addresses, meeting.secret)
        source.connected()
        while (pieces := transport.read()) is not None:
            for piece in pieces:
                yield from merger.add(piece)
            noting.note(merger.rows)
        yield from merger.flush()
        noting.note(merger.rows, last=True)
        source.join()
        transport.close()
        rendezvous.finish()
    except BaseException as error:
        cause = source.error or error
        transport.close(_cause_for_peers(cause, index))
        source.stop()
        raise _cause_for_spark(cause) from None
    peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    of_task = TaskReport(
        shuffle=spec.name,
        attempt=meeting.attempt,
        stage=context.stageId(),
        host=rendezvous.host,
        rows_read=source.rows,
        rows=merger.rows,
        seconds=time.monotonic() - started,
        worker_memory_bytes=peak_memory if sys.platform == "darwin" else peak_memory << 10,
        peak_held_bytes=merger.peak_bytes if isinstance(merger, PartitionBlocks) else 0,
        transport=transport.statistics(),
        partitions=_partition_reports(merger, index),
    )
    report([of_task])


def _partition_reports(merger: Merger | PartitionBlocks, index: int) -> list[PartitionReport]:
    """Return the counts of the partitions of task `index`, which has one with a `Merger`."""
    if isinstance(merger, Merger):
        return [PartitionReport(index, merger.rows, merger.bytes)]
    counts = zip(merger.partition_rows.items(), merger.partition_bytes.values(), strict=True)
    return [PartitionReport(partition, rows, size) for (partition, rows), size in counts]


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

    The thread begins before the peers of the transport are connected, which may take a second. Until the call
    of `connected` it holds the pieces, up to `early_bytes`, unless a single list of pieces has more.
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
