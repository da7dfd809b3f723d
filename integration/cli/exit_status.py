"""Exit statuses of commands, and which error has which status and message.

After a signal, the status is 128 and the number of the signal (`integration.base.stopping`).
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from .option_names import naming_options, problems_of

if TYPE_CHECKING:
    from netstack import Result

FAILED = 1
"""A check failed: a value outside of its tolerance, a failed job, a wrong configuration, a damaged file."""
MISTAKE = 2
"""The user made mistakes; stderr has a line for each."""
BROKEN_PIPE = 141
"""The reader of a pipe ended, as after SIGPIPE; 1 would be a failed check."""


def failure_text(result: Result) -> str:
    """Return the reason why a job failed permanently, in one line."""
    from ..base.reading import one_line  # imported here, because help needs nothing that runs a job

    name, cause = result.scenario.name, one_line(result.failure)
    return f"netstack: {name}: the job failed for good after {result.emulated_seconds:.1f} s: {cause}"


def report(error: BaseException) -> int:
    """Report an error on stderr and return the exit status. Raise an unexpected error again."""
    # Imported here, because help needs nothing that runs a job.
    from buffers import InsufficientBuffers
    from flowcontrol import AnnouncementError
    from netstack import InputError, JobFailedError, SourceError

    from ..base.errors import MissingExtraError, OutputError, WorkerError
    from ..base.reading import one_line
    from ..show.terminal.console import say

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
            say(naming_options(f"netstack: {one_line(error)}"))
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
