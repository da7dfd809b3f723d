"""Signals that wait until something that must not be cut short has ended.

The handler of a signal, such as Ctrl-C, may raise an exception at any point of the main thread: between the
start of a process and its entry in a list, or within an answer that another process sends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Delay signals that Python handles. They arrive when the block ends, which has to be soon.

    In other threads than the main one, this does nothing, because signals do not interrupt them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    handlers = {number: handler for number in _HELD if callable(handler := signal.getsignal(number))}
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
    """Delay signals while the block starts processes. These delay Ctrl-C until they call `take_ctrl_c`.

    New processes inherit which signals are blocked in this thread. For this process, blocking is not enough:
    another thread, such as one of NumPy's linear algebra, may receive the signal.
    """
    with held_interrupts():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def take_ctrl_c(ignored: bool) -> None:
    """Let Ctrl-C end this worker process silently; the main process prints the message.

    If the main process ignores Ctrl-C, as a background process of a shell does, so does the worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
