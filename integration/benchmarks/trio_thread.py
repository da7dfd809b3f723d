"""A trio program in a thread, so that a benchmark's iterations are plain calls between which it goes on."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import trio

T = TypeVar("T")


class TrioThread:
    """Runs coroutines for whoever calls, in one trio program with one nursery.

    If a task of `nursery` fails, the program ends, and the call that waits raises what the task did.
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
        """Whether it can still be called."""
        return self._thread.is_alive()

    def call(self, work: Callable[..., Awaitable[T]], *args: object) -> T:
        """Let the program do something, and wait for it.

        Raises:
            Exception: what it raised, or the first task of the nursery that failed meanwhile.
        """
        try:
            return trio.from_thread.run(partial(work, *args), trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            self._thread.join()
            raise _first_of(self._error) from None
        except BaseExceptionGroup as group:
            raise _first_of(group) from group

    def end(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        try:
            self._token.run_sync_soon(self._cancel)
        except trio.RunFinishedError:
            return
        self._thread.join()

    def _cancel(self) -> None:
        self.nursery.cancel_scope.cancel()


def _first_of(error: BaseException | None) -> BaseException:
    """The first cause in a group of errors."""
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
