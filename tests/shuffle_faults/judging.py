"""What a shuffle under a fault may come to: which causes explain that it has failed, and how soon."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .case import LIMIT_S, SILENCE_S, Case, Fault, Moment

_DIED = "Python worker exited unexpectedly"
_EXECUTOR_LOST = (
    "ExecutorLostFailure|Executor heartbeat timed out|[Cc]ommand exited with code 137"
    "|lost, for example with an executor"
)
_FULL = "Spark cannot store the data between two stages in .*: File too large"


def has_to_be_right(case: Case) -> bool:
    """Tell whether a shuffle has no reason to fail: nothing is lost, and nobody silent for too long."""
    if case.fault is Fault.PAUSED_WORKER:
        return case.of_input or case.pause_s < SILENCE_S
    return case.fault in (Fault.NONE, Fault.SLOW_READER, Fault.STRANGERS)


def problem_with_failure(case: Case, said: str, tasks: set[int], after_s: float | None) -> str:
    """Say what is wrong with a failure; empty: it is as it should be.

    Args:
        case: The case.
        said: What the user sees.
        tasks: Those whose workers were struck.
        after_s: Seconds since the fault; None: there has been none.
    """
    if has_to_be_right(case):
        return f"failed for no reason: {said}"
    if after_s is None:
        return f"failed before the fault: {said}"
    if not any(re.search(cause, said) for cause in _causes(case, tasks)):
        return f"names another cause: {said}"
    return f"failed after {after_s:.1f} s: {said}" if after_s > LIMIT_S else ""


def _causes(case: Case, tasks: set[int]) -> Iterator[str]:
    """Patterns of what may be said: what has happened itself, or to whom, as the peers have seen it."""
    whom = f"task ({'|'.join(map(str, sorted(tasks)))})"
    lost = rf"{whom} at \S+: the connection (ended|broke)"
    if case.fault is Fault.FULL_DISK:
        yield _FULL
    elif case.fault is Fault.KILLED_WORKER:
        yield _DIED
        if not case.of_input:
            yield lost
    elif case.fault in (Fault.STOPPED_WORKER, Fault.PAUSED_WORKER):
        yield rf"{whom} at \S+: no message arrived for {SILENCE_S:g} s"
        if case.moment is Moment.MEETING:
            yield rf" before {whom} had arrived"
    else:
        yield _EXECUTOR_LOST
        if case.fault is Fault.KILLED_EXECUTOR:
            yield lost
