"""Signals that wait until something that must not be cut short has ended, or that trio handles.

The handler of a signal, such as Ctrl-C, may raise an exception at any point of the main thread: between the
start of a process and its entry in a list, or within an answer that another process sends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from multiprocessing.connection import wait
from types import FrameType
from typing import ParamSpec, TypeVar

from .stopping import STOP, STOPPING

_P = ParamSpec("_P")
_R = TypeVar("_R")


def ctrl_c_to_trio(run: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return `run`, a function that calls `trio.run`, wrapped so that trio handles signals.

    Ctrl-C and SIGTERM then end the run where trio can cancel a task, not during trio's own bookkeeping.
    """

    @wraps(run)
    def left_to_trio(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        left = STOP.leave_to_trio()
        try:
            return run(*args, **kwargs)
        finally:
            if left:
                STOP.take_back()

    return left_to_trio


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Delay signals that Python handles. They arrive when the block ends, which has to be soon.

    In other threads than the main one, this does nothing, because signals do not interrupt them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    handlers = {number: handler for number in STOPPING if callable(handler := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, lambda *signalled: arrived.append(signalled))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for signalled in arrived:
            handlers[signal.Signals(signalled[0])](*signalled)


@contextmanager
def starting_processes() -> Iterator[None]:
    """Delay signals while the block starts processes. These delay Ctrl-C until they call `begin_worker`.

    New processes inherit which signals are blocked in this thread. For this process, blocking is not enough:
    another thread, such as one of NumPy's linear algebra, may receive the signal.
    """
    with held_interrupts():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_worker(ignored: bool) -> None:
    """Let Ctrl-C end this worker process silently; the main process prints the message.

    If the main process ignores Ctrl-C, as a background process of a shell does, so does the worker. The
    worker also ends when the main process does, even if that was killed.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # no process reads the results any more
