"""How commands end: their exit status, and the line for a job that failed for good."""

from __future__ import annotations

from netstack import Result

FAILED = 1
"""A comparison is outside its tolerance, a job failed for good, a storm went wrong."""
MISTAKE = 2
"""A mistake of whoever typed, with a line for each on stderr."""
INTERRUPTED = 130
TERMINATED = 143
BROKEN_PIPE = 1


def failure_text(result: Result) -> str:
    """Return why a job failed for good, in one line."""
    name, cause = result.scenario["name"], " ".join(str(result.failure).split())
    return f"netstack: {name}: the job failed for good after {result.emulated_seconds:.1f} s: {cause}"
