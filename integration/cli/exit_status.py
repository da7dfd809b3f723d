"""Exit statuses of commands, and the message for a job that failed permanently."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netstack import Result

FAILED = 1
"""A check failed: outside of a tolerance, a failed job, a wrong configuration, a damaged file."""
MISTAKE = 2
"""Mistakes of the user, with a line for each on stderr."""
INTERRUPTED = 130
TERMINATED = 143
BROKEN_PIPE = 1


def failure_text(result: Result) -> str:
    """Return why a job failed permanently, in one line."""
    from ..files.reading import one_line  # here, since who asks for help needs nothing that runs

    name, cause = result.scenario.name, one_line(result.failure)
    return f"netstack: {name}: the job failed for good after {result.emulated_seconds:.1f} s: {cause}"
