"""Error reports of a running command, as lines on stderr.

Importing this module also imports all modules of a run.
"""

from __future__ import annotations

import errno
import os
import sys

from buffers import InsufficientBuffers
from flowcontrol import AnnouncementError
from netstack import InputError, JobFailedError, SourceError

from ..base.errors import MissingExtraError, OutputError, WorkerError
from ..base.reading import one_line
from ..show.terminal.console import say
from .exit_status import BROKEN_PIPE, FAILED, MISTAKE, failure_text
from .option_names import problems_of, with_options


def report(error: BaseException) -> int:
    """Report an error on stderr and return the exit status. Raise an unexpected error again."""
    match error:
        case BrokenPipeError():
            _drop_stdout()  # the reader of the pipe has ended
            return BROKEN_PIPE
        case JobFailedError():
            say(failure_text(error.result))
            return FAILED
        case InputError():
            for problem in problems_of(error):
                say(problem)
        case AnnouncementError():
            say(f"netstack: {one_line(error)} ({', '.join(error.__notes__)})")
        case MissingExtraError():
            say(str(error))
        case InsufficientBuffers() | OutputError() | SourceError() | WorkerError():
            say(with_options(f"netstack: {one_line(error)}"))
        case MemoryError() | OSError(errno=errno.ENOMEM):
            say("netstack: not enough memory; netstack size computes how much a job needs")
        case OSError():
            _drop_stdout()  # stdout may be the file that could not be written
            say(f"netstack: {_reason(error)}")
        case _:
            raise error
    return MISTAKE


def _reason(error: OSError) -> str:
    """Return the file and the reason. An error that names no file comes from writing stdout."""
    return f"{error.filename or 'stdout'}: {error.strerror}" if error.strerror else str(error)


def _drop_stdout() -> None:
    """Replace stdout by the null device, because the interpreter flushes it at its end, which would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
