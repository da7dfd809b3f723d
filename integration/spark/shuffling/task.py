"""The tasks of a shuffle: what the driver sends them, and what each does in a Python worker of Spark's.

In a task there are three threads. One reads the rows of this partition from Spark, cuts them and writes the
pieces; the network runs in the second; Spark's own reads what arrives and hands it on. In the first second of
a stage a fourth waits for Spark to say where the peers are::

    input  -> SourceThread: Cutter -> Transport.write  ==> peers
    output <- ShuffleTask:  Merger <- Transport.read   <== peers

What fails first, fails all: the task that fails tells its peers why before it tells Spark.
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
from ..rendezvous import Meeting, Rendezvous
from ..spark_errors import BEGUN_AGAIN
from ..task_notes import Noting
from ..workers import MapFunction, worker_function
from .blocks import PartitionBlocks
from .layout import Layout
from .pieces import Compression, Cutter, Merger, Pieces
from .placement import PlacementSpec
from .task_reports import TaskReport

if TYPE_CHECKING:
    from pyspark import Accumulator, BarrierTaskContext

ECHO_PAUSE_S = 1.0
"""How long a task that has only heard of a failure keeps it to itself, so that Spark hears of it where it
happened. The peers know already, and Spark ends all tasks of the stage as soon as it hears of one."""

Report = Callable[[list[TaskReport]], None]

_JOIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """All that the tasks of a shuffle have in common."""

    name: str
    """Name of the shuffle."""
    layout: Layout
    """Number of partitions, and of tasks."""
    schema: pa.Schema
    """Columns of the input, the one that was computed for the placement included."""
    placement: PlacementSpec
    config: TransportConfig
    secret: Secret
    """The secret that only the tasks and the driver know: see `rendezvous`."""
    early_bytes: int
    """Most bytes of rows that a task holds before it is connected to its peers."""
    max_memory_bytes: int
    """Most bytes of rows that a task holds where it takes several partitions."""
    compression: Compression | None
    loopback: bool
    """Whether all tasks run on one machine, so that none has to be reached from another."""


def stage_function(spec: StageSpec, reports: Accumulator[Any]) -> MapFunction:
    """Return the function that each task of the stage runs; `reports` takes lists of reports.

    Its name is that of the shuffle, which so stands in the plan.
    """
    run = worker_function(run_task, spec, reports.add, on_one_machine=spec.loopback)
    run.__name__ = spec.name
    return run


def run_task(batches: Iterator[pa.RecordBatch], spec: StageSpec, report: Report) -> Iterator[pa.RecordBatch]:
    """Return the rows of this partition after the shuffle; those of several partitions as blocks.

    Args:
        batches: The rows of this partition before it.
        spec: The stage.
        report: Told at the end what the task has counted.

    Raises:
        ShuffleTaskError: the stage has another number of tasks than planned; or when iterated, if a peer
            fails or cannot be reached. The message is the first cause.
    """
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    tasks = len(context.getTaskInfos())
    if tasks != spec.layout.tasks:
        # Also without rows: Spark keeps what tasks have done that end while it gives their stage up, and runs
        # the others alone; what is for these would be missing.
        raise ShuffleTaskError(
            f"the stage has {tasks} task{'s' * (tasks > 1)}, not {spec.layout.tasks} as when shuffle() was"
            " called: the input or the session's settings have changed since, so call shuffle() again; or"
            f" {BEGUN_AGAIN}, and what failed before is the cause"
        )
    return ShuffleTask(spec, context, batches, report).run()


class ShuffleTask:
    """One of the tasks of a shuffle; to be run once."""

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
        self._merger = _merger(spec, cutter.schema, self._index)
        self._transport = Transport(self._index, layout.tasks, spec.config, host=self._rendezvous.host)
        self._source = SourceThread(batches, cutter, self._transport, spec.early_bytes)

    def run(self) -> Iterator[pa.RecordBatch]:
        """Take part in the shuffle; the rows that are for this partition.

        Raises:
            ShuffleTaskError: A peer has failed, or is not there.
        """
        try:
            meeting = self._connect()
            yield from self._received()
            self._source.join()
            self._transport.close()
            self._rendezvous.finish()
        except BaseException as error:
            cause = self._source.error or error
            self._transport.close(_cause_for_peers(cause, self._index))
            self._source.stop()
            raise _cause_for_spark(cause) from None
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
            self._noting.note(self._merger.rows)
        yield from self._merger.flush()
        self._noting.note(self._merger.rows, last=True)

    def _task_report(self, meeting: Meeting) -> TaskReport:
        return TaskReport(
            self._spec.name,
            meeting.attempt,
            self._context.stageId(),
            self._rendezvous.host,
            self._source.rows,
            self._merger.rows,
            time.monotonic() - self._started,
            _peak_memory_bytes(),
            self._merger.peak_bytes if isinstance(self._merger, PartitionBlocks) else 0,
            self._transport.statistics(),
        )


def _merger(spec: StageSpec, schema: pa.Schema, index: int) -> Merger | PartitionBlocks:
    """What the pieces that arrive become: rows of one partition, or blocks of several."""
    if not spec.layout.several:
        return Merger(schema)
    return PartitionBlocks(
        schema,
        spec.layout.partitions_of(index),
        spec.max_memory_bytes,
        to_all=spec.placement.kind == "broadcast",
        compression=spec.compression,
    )


def _cause_for_peers(cause: BaseException, index: int) -> BaseException:
    """What the peers are told of an error here."""
    if isinstance(cause, GeneratorExit):
        return ShuffleTaskError(f"partition {index} was not read to its end, as limit() and the like do")
    return cause


def _cause_for_spark(cause: BaseException) -> BaseException:
    """What Spark is told of an error here, later if it came from a peer."""
    if not isinstance(cause, TransportError):
        return cause
    if isinstance(cause, ConnectionLostError | PeerFailedError):
        time.sleep(ECHO_PAUSE_S)
    return ShuffleTaskError(cause.problem if isinstance(cause, PeerFailedError) else str(cause))


def _peak_memory_bytes() -> int:
    """The most memory that this worker has had, in all tasks it has run."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


class SourceThread:
    """Sends the rows of batches over a transport; to be started once.

    It begins before the peers are there, since to meet them may take a second. Until then it holds the
    pieces, but not more than a given number of bytes of them.

    Args:
        batches: The input; nobody else reads it.
        cutter: Cuts the input into pieces.
        transport: Listens; is connected when `connected` is called.
        early_bytes: Most bytes held until then, unless a single list of pieces has more.
    """

    def __init__(
        self, batches: Iterator[pa.RecordBatch], cutter: Cutter, transport: Transport, early_bytes: int
    ) -> None:
        self.error: BaseException | None = None
        """Why it ended before its input did; of the transport's errors the reader is told as well."""
        self.rows = 0
        """Rows read so far."""
        self._batches = batches
        self._cutter = cutter
        self._transport = transport
        self._held: deque[Pieces] = deque()
        self._early_bytes = early_bytes
        self._connected = threading.Event()
        self._stopped = False
        # A read from Spark cannot be interrupted: such a thread ends with the process.
        self._thread = threading.Thread(target=self._run, name="netstack-shuffle-source", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def connected(self) -> None:
        """Tell that the peers are there, so that what is held may be written."""
        self._connected.set()

    def join(self) -> None:
        """Wait until all has been written."""
        self._thread.join()

    def stop(self) -> None:
        """Give up, once the transport is closed; wait a moment for the thread to notice."""
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
            pass  # whoever reads from the transport is told as well
        except BaseException as error:
            self._give_up(error)

    def _rows_of_spark(self) -> Iterator[pa.RecordBatch]:
        """Spark may end in the middle of a batch: if nobody wants the rows, or when others failed."""
        try:
            yield from self._batches
        except (OSError, EOFError) as error:
            text = f"the connection ended over which Spark sends its rows: {error}"
            raise ShuffleTaskError(text) from error

    def _give_up(self, error: BaseException) -> None:
        self.error = error
        self._transport.close(error)

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
