"""Exit statuses of commands, and the message for a job that failed permanently.

After a signal, the status is 128 and the number of the signal (`integration.base.stopping`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
