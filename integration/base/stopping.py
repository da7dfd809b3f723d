"""Handling of Ctrl-C, SIGTERM and SIGHUP: an orderly exit at any moment of a command.

The effect of a signal depends on the state of the process::

    starting   nothing has been created yet: the process prints a line and ends at once
    working    `Stopped` is raised in the main thread; open files and connections are closed
    ending     the result has been printed: the first signal is ignored while the interpreter ends

`Stopped` is lost if a finalizer, a weak reference's callback or the import of a compiled module swallows the
exception. Then it is raised again, until the command receives it. A second signal within
`PATIENCE_S` is ignored, because both may have one cause: a supervisor may forward Ctrl-C, or signal both a
process and its group. A signal after that time also interrupts the cleanup.

This module imports next to nothing, because every command imports it first.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from _thread import get_ident
from collections.abc import Callable
from time import monotonic
from types import FrameType

PATIENCE_S = 1.0
"""Seconds after a signal in which further signals are ignored."""

AGAIN_S = 0.01
"""Seconds after which a lost exception is raised again."""

LINE = "netstack: stopped"

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that stop a command: Ctrl-C, a supervisor, and a closed terminal."""

_FATAL = 128
"""Exit status of a process that a signal ended, less the number of the signal, as shells report it."""


class Stopped(KeyboardInterrupt):
    """A signal has asked the command to stop. `lost` is called when the exception is garbage-collected."""

    def __init__(self, lost: Callable[[], None]) -> None:
        super().__init__()
        self._lost = lost

    def __del__(self) -> None:
        self._lost()


class StopSignals:
    """Signal handling of this process. Python's defaults apply until `install`."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._asked: int | None = None
        self._asked_at = 0.0
        self._working = self._ending = self._lost = False
        self._thread = get_ident()
        self._report: Callable[[sys.UnraisableHookArgs], object] = sys.unraisablehook

    def install(self) -> None:
        """Handle the signals. Until `work_begins`, they end the process. nohup still ignores SIGHUP."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # A shell ignores Ctrl-C for background processes. A blocked signal stays ignored, and trio works.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        for number in STOPPING:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self.handle)
        signal.signal(signal.SIGALRM, self._raise_again)
        self._report, sys.unraisablehook = sys.unraisablehook, self._swallowed
        atexit.register(_be_deaf)  # functions registered first run last

    def work_begins(self) -> None:
        """Begin to raise `Stopped` when a signal arrives."""
        self._working = True

    def end(self, error: BaseException | None = None) -> int | None:
        """Stop raising `Stopped`, and return the exit status if a signal arrived, else None.

        `error` is the exception that ended the command. A `KeyboardInterrupt` counts as Ctrl-C. After a
        signal, any other exception counts as a consequence of the signal.
        """
        self._ending = True
        self._working = False
        if self._asked is None and not _is_ctrl_c(error):
            return None
        return _FATAL + (self._asked or signal.SIGINT)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """End the process, raise `Stopped`, or ignore the signal, as the module describes."""
        late = self._asked is None or self._clock() - self._asked_at >= PATIENCE_S
        if not late and not self._lost:
            return
        new = self._asked is None
        self._asked, self._asked_at = self._asked or number, self._clock()
        if self._working:
            self._raise(frame)
        elif not (self._ending and new):
            if not self._ending:
                os.write(2, f"{LINE}\n".encode())
            os._exit(_FATAL + (self._asked or signal.SIGINT))

    def leave_to_trio(self) -> bool:
        """Restore Python's own handler of Ctrl-C, because `trio.run` replaces no other handler.

        Return whether the caller has to call `take_back` afterwards.
        """
        ours = signal.getsignal(signal.SIGINT) == self.handle
        if not (self._working and ours and get_ident() == self._thread):
            return False
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return True

    def take_back(self) -> None:
        """Undo `leave_to_trio`, so that Ctrl-C is handled here again."""
        signal.signal(signal.SIGINT, self.handle)

    def _raise(self, frame: FrameType | None) -> None:
        ctrl_c = signal.getsignal(signal.SIGINT)
        if ctrl_c != self.handle and callable(ctrl_c):  # trio's handler, which raises where it does no harm
            ctrl_c(signal.SIGINT, frame)
        else:
            self._lost = False
            raise Stopped(self._ask_again)

    def _raise_again(self, number: int, frame: FrameType | None) -> None:
        if self._working:
            self._raise(frame)

    def _ask_again(self) -> None:
        if self._working:
            self._lost = True
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)

    def _swallowed(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Raise a lost exception of Ctrl-C again; report any other unraisable exception."""
        if self._working and _is_ctrl_c(unraisable.exc_value):
            self._ask_again()
        else:
            self._report(unraisable)


STOP = StopSignals()
"""The signal handling of this process."""


def _is_ctrl_c(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def _be_deaf() -> None:
    """Ignore signals while the interpreter ends, because they would print a traceback."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
