"""Interrupts and short calls to Spark: a signal that comes meanwhile is handled when the call is done.

A signal's handler, such as that of Ctrl-C, may raise at any point of the main thread. In the middle of a call
to Java it has Py4J print a traceback, or leaves half an answer on the connection; between the making of a
folder and the note that it is to be deleted, it leaves the folder. Long calls belong into a thread, as in
`run_cancellable`.
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
    """Hold signals that Python handles until the block, which is short, has ended.

    Other threads than the main one are never interrupted, so there it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    handlers = {number: found for number in _HELD if callable(found := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, lambda *signalled: came.append(signalled))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for signalled in came:
            handlers[signal.Signals(signalled[0])](*signalled)
