"""Runs iterations of a network case on the real clock: writers write, a reader reads all records.

Both ends are in this process, or the writers are in another process, which is controlled by a pipe::

    this process                                     the writers' process
    listen ------------------------- address ------> connect
    read until all has arrived <-- the transport --- write, in each round
                        <----- start of the round --
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from multiprocessing.connection import Connection
from typing import TypeVar

import numpy as np
import trio

from buffers import RecordBlock
from netstack import RoundRobin

from .harness import Iterate
from .transport import BenchTransport, Shape

T = TypeVar("T")

BLOCK_RECORDS = 4096
"""Records that a writer writes at a time."""

RECORD_BYTES = 8
"""Bytes of a record: a number of 64 bits, as in Flink's network benchmarks."""

BLOCKS = 4
"""Number of different blocks that a writer sends in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The transport, the shape of the exchange, and the number of records in an iteration."""

    transport: type[BenchTransport]
    shape: Shape
    records: int
    """Number of records that all writers send together."""
    skewed: bool = False
    """Whether all records go to the first channel, after one record for each channel."""

    @property
    def arrivals(self) -> int:
        """Number of records that arrive at the readers in one iteration."""
        each = self.records // self.shape.writers
        return each * self.shape.writers * (self.shape.channels if self.shape.broadcast else 1)


class Writers:
    """All writers of a plan, at the writing end of the transport."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._each = plan.records // plan.shape.writers
        size = min(BLOCK_RECORDS, self._each)
        rows = np.arange(BLOCKS * size, dtype=">i8").view(np.uint8).reshape(BLOCKS, size, RECORD_BYTES)
        self._blocks = [RecordBlock.from_matrix(block) for block in rows]
        self._rest = [RecordBlock.from_matrix(rows[0][: self._each % size])] if self._each % size else []
        self._selectors = [RoundRobin(plan.shape.channels) for _ in range(plan.shape.writers)]
        self._warm = [0] * plan.shape.writers

    async def write_all(self, transport: BenchTransport) -> float:
        """Send the records of one iteration; returns the time of the first write, by the monotonic clock."""
        begun = time.monotonic()
        async with trio.open_nursery() as nursery:
            for writer in range(self._plan.shape.writers):
                nursery.start_soon(self._write, transport, writer)
        return begun

    async def _write(self, transport: BenchTransport, writer: int) -> None:
        whole = self._each // len(self._blocks[0])
        blocks = cycle(self._blocks)
        for block in [next(blocks) for _ in range(whole)] + self._rest:
            await transport.write(writer, block, self._channels(writer, block))

    def _channels(self, writer: int, block: RecordBlock) -> Sequence[int]:
        shape = self._plan.shape
        if shape.broadcast:
            return ()
        if not self._plan.skewed:
            return self._selectors[writer].select(block)
        first = self._warm[writer]
        self._warm[writer] = min(first + len(block), shape.channels)
        spread = list(range(first, self._warm[writer]))
        return spread + [0] * (len(block) - len(spread))


async def read_all(transport: BenchTransport, arrivals: int) -> float:
    """Read until all records have arrived; returns the time of the last read, by the monotonic clock.

    Raises:
        RuntimeError: more records have arrived than were written.
    """
    arrived = 0
    while arrived < arrivals:
        arrived += await transport.read()
    if arrived > arrivals:
        raise RuntimeError(f"{transport.name}: {arrived} records have arrived, but {arrivals} were written")
    return time.monotonic()


class TrioThread:
    """Thread with a trio program, in which plain functions call coroutines.

    The program keeps running between the calls.
    If a task of `nursery` fails, the program ends, and the waiting call raises the exception of the task.
    """

    nursery: trio.Nursery

    def __init__(self) -> None:
        self._begun: Future[trio.lowlevel.TrioToken] = Future()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="netstack-bench", daemon=True)
        self._thread.start()
        self._token = self._begun.result()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:
            self._error = error

    async def _serve(self) -> None:
        async with trio.open_nursery() as self.nursery:
            self._begun.set_result(trio.lowlevel.current_trio_token())
            await trio.sleep_forever()

    @property
    def runs(self) -> bool:
        """Whether the program still runs."""
        return self._thread.is_alive()

    def call(self, work: Callable[..., Awaitable[T]], *args: object) -> T:
        """Run a coroutine and return its result.

        Raises:
            Exception: the exception of the coroutine, or of the first task of the nursery that failed.
        """
        try:
            return trio.from_thread.run(partial(work, *args), trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            self._thread.join()
            raise _first_of(self._error) from None
        except BaseExceptionGroup as group:
            raise _first_of(group) from group

    def end(self) -> None:
        """Cancel all tasks and wait until the program has ended."""
        try:
            self._token.run_sync_soon(self._cancel)
        except trio.RunFinishedError:
            return
        self._thread.join()

    def _cancel(self) -> None:
        self.nursery.cancel_scope.cancel()


def _first_of(error: BaseException | None) -> BaseException:
    """Return the first cause in a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error or RuntimeError("the benchmark's program has ended")


@contextmanager
def trio_thread() -> Iterator[TrioThread]:
    """Run a trio program while the block runs."""
    thread = TrioThread()
    try:
        yield thread
    finally:
        thread.end()


@contextmanager
def within_process(plan: Plan) -> Iterator[Iterate]:
    """Open both ends in this process; yields the function that performs an iteration."""
    writers = Writers(plan)
    with trio_thread() as thread:
        transport = plan.transport(plan.shape, thread.nursery)

        async def open_both() -> None:
            await transport.connect(await transport.listen())

        async def iterate() -> float:
            begun = time.monotonic()
            ended = begun

            async def read() -> None:
                nonlocal ended
                ended = await read_all(transport, plan.arrivals)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await writers.write_all(transport)
            return ended - begun

        try:
            thread.call(open_both)
            yield lambda: thread.call(iterate)
        finally:
            _close(thread, transport)


@contextmanager
def between_processes(plan: Plan) -> Iterator[Iterate]:
    """Like `within_process`, but with the writers in another process.

    Raises:
        RuntimeError: the transport only works within one process.
    """
    if not plan.transport.between_processes:
        raise RuntimeError(f"{plan.transport.name}: both its ends have to be in one process")
    with ExitStack() as stack:
        thread = stack.enter_context(trio_thread())
        transport = plan.transport(plan.shape, thread.nursery)
        stack.callback(_close, thread, transport)
        address = thread.call(transport.listen)
        pipe = stack.enter_context(_writing_process(plan, address))
        _hear(pipe)
        yield lambda: _round(thread, transport, pipe, plan.arrivals)


def _round(thread: TrioThread, transport: BenchTransport, pipe: Connection, arrivals: int) -> float:
    pipe.send(True)
    ended = thread.call(read_all, transport, arrivals)
    return ended - _hear(pipe)


def _close(thread: TrioThread, transport: BenchTransport) -> None:
    if thread.runs:
        thread.call(transport.close)


def _hear(pipe: Connection) -> float:
    """Return the next time that the process of the writers sends over the pipe.

    Raises:
        RuntimeError: the process has failed or ended.
    """
    try:
        said: float | str = pipe.recv()
    except EOFError:
        raise RuntimeError("the process of the writers has ended; check the memory") from None
    if isinstance(said, str):
        raise RuntimeError(said)
    return said


@contextmanager
def _writing_process(plan: Plan, address: str) -> Iterator[Connection]:
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_writing, args=(plan, address, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()  # the process ends when its pipe is closed
        process.join()


def _writing(plan: Plan, address: str, pipe: Connection) -> None:
    """Run the writers until the pipe is closed; the main function of their process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends it
    try:
        with trio_thread() as thread:
            transport = plan.transport(plan.shape, thread.nursery)
            writers = Writers(plan)
            thread.call(transport.connect, address)
            pipe.send(0.0)
            try:
                while pipe.recv():
                    pipe.send(thread.call(writers.write_all, transport))
            except EOFError:
                return
            finally:
                _close(thread, transport)
    except Exception as error:
        with suppress(OSError):  # the parent process has ended
            pipe.send(f"{plan.transport.name}: {type(error).__name__}: {' '.join(str(error).split())}")
