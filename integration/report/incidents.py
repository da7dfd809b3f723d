"""What went wrong in a run, in words: faults, restarts, checkpoints that failed, and what came of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from netstack import (
    CheckpointResult,
    FaultResult,
    RestartResult,
    Result,
    StartResult,
)

from ..analysis.checkpoint_times import COMPLETED, FAILED, PLAIN_TYPE, SYNC_SAVEPOINT, of_status
from ..analysis.wording import milliseconds, percent, size

UNKNOWN = "unknown reason"

_REPEATED = "; what sinks have committed since that checkpoint comes again"


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happened to a job at `t` seconds: what it was, and what there is to say about it."""

    t: float
    what: str
    text: str


def incidents(result: Result) -> list[Incident]:
    """Return what a run began with, the savepoints, the faults that fired and the restarts, by time."""
    listed = [] if result.started_from is UNSET else [Incident(0.0, "start", _start(result.started_from))]
    listed += [
        Incident(each.t, "savepoint", _savepoint(each, each.savepoint, result.scenario.config.checkpoint_dir))
        for each in result.checkpoints
        if each.savepoint is not UNSET
    ]
    listed += [
        Incident(fault.t, fault.kind.replace("_", " "), fault.what + _lost(fault, result))
        for fault in result.faults
    ]
    faults = {(fault.t, fault.what) for fault in result.faults}
    went_back = False
    for restart in result.restarts:
        known = (restart.failed_at, restart.cause) in faults
        cause = "" if known else f"{restart.cause}; "
        again = _REPEATED if went_back and restart.checkpoint_id is not None else ""
        text = cause + _recovery(restart) + again
        listed.append(Incident(restart.failed_at, "failure", text))
        went_back = restart.unusable_checkpoint_id is not UNSET or (went_back and not again)
    if result.failure is not None:
        listed.append(Incident(result.emulated_seconds, "end of the job", result.failure))
    return sorted(listed, key=lambda incident: incident.t)  # stable: a fault stands before what it does


def _savepoint(savepoint: CheckpointResult, location: str, beside: str | None) -> str:
    if savepoint.duration_ms is None:
        return "not complete at the end" if savepoint.failure is None else f"failed: {savepoint.failure}"
    took = f"{size(savepoint.state_bytes)} in {milliseconds(savepoint.duration_ms)}"
    end = ", with which the job stopped" if savepoint.checkpoint_type == SYNC_SAVEPOINT else ""
    return f"{took}: {os.path.join(beside or '', location)}{end}"


def down_times(result: Result) -> list[tuple[float, float]]:
    """Return from when to when tasks were down after each failure, at most to their next one or the end."""
    return [(restart.failed_at, _down_until(result, place)) for place, restart in enumerate(result.restarts)]


def _down_until(result: Result, place: int) -> float:
    restart, later = result.restarts[place], result.restarts[place + 1 :]
    if restart.running_at is not None:
        return restart.running_at
    again = (each.failed_at for each in later if each.tasks is UNSET or each.tasks == restart.tasks)
    return next(again, result.emulated_seconds)


def _time_in(intervals: Sequence[tuple[float, float]]) -> float:
    """Seconds that are in one of the intervals, or in several of them, which are in order of their begins."""
    total, counted_until = 0.0, 0.0
    for since, until in intervals:
        total += max(0.0, until - max(since, counted_until))
        counted_until = max(counted_until, until)
    return total


def never_fired(result: Result) -> str | None:
    """Return how many faults of the scenario did not come to fire, and of which kinds; None if all did."""
    given = Counter(fault.kind for fault in result.scenario.faults)
    left = given - Counter(fault.kind for fault in result.faults)
    return f"{left.total()} of {given.total()} faults never fired: {_list(left)}" if left else None


def are_plain(result: Result) -> bool:
    """Whether no checkpoint failed, all are of Flink's ordinary type, and none may hang on a fault."""
    if result.faults and any(checkpoint.status != COMPLETED for checkpoint in result.checkpoints):
        return False
    return all(
        checkpoint.status != FAILED and checkpoint.checkpoint_type == PLAIN_TYPE
        for checkpoint in result.checkpoints
    )


def checkpoints_by_end(result: Result) -> str:
    """Return how many checkpoints there were, of which types, and why some failed."""
    completed, failed = of_status(result, COMPLETED), of_status(result, FAILED)
    going_on = len(result.checkpoints) - len(completed) - len(failed)
    types = Counter(checkpoint.checkpoint_type for checkpoint in completed)
    parts = [_counted(len(completed), "complete", types if set(types) - {PLAIN_TYPE} else Counter())]
    parts += [_counted(len(failed), "failed", _reasons(failed))] if failed else []
    parts += [f"{going_on} not ended"] if going_on else []
    return ", ".join(parts)


def what_went_wrong(result: Result) -> Iterator[str]:
    """Yield sentences about failures of the job and of checkpoints; none if all went well."""
    end_s = result.emulated_seconds
    if result.restarts:
        total = _time_in(down_times(result))
        share = percent(total / max(end_s, total))
        whole = all(restart.tasks is UNSET for restart in result.restarts)
        what = "The job failed {} and was" if whole else "Tasks failed {}, and the job or a part of it was"
        failures = what.format(_times(len(result.restarts)))
        yield f"{failures} down for {milliseconds(1000 * total)}, {share} of the time."
    if result.failure is not None:
        yield f"After {end_s:.1f} s it failed for good: {result.failure}."
    failed = of_status(result, FAILED)
    if failed:
        yield f"{len(failed)} of {len(result.checkpoints)} checkpoints failed: {_list(_reasons(failed))}."
    unfired = never_fired(result)
    if unfired is not None:
        yield f"{unfired}."


def price(result: Result) -> str | None:
    """Return what unaligned checkpoints cost a run in its last window; None if the median overtakes nothing.

    The time to restore them is as measured where a restart did so, else an estimate, said to be one.
    """
    persisted = result.steady[-1].persisted_bytes if result.steady else None
    if not persisted:
        return None
    return f"A checkpoint stored {size(persisted)} of data in flight. {_restoring(result)}"


def restore_ms(result: Result) -> tuple[float, bool]:
    """Return how long restoring the data in flight of a checkpoint takes, and whether that was measured.

    What was measured is the longest restart from a checkpoint that had such data, and what is estimated is
    the time to read as many bytes as a checkpoint of the last window had.
    """
    measured = [
        1000 * (restart.running_at - restart.restarted_at)
        for restart in result.restarts
        if restart.persisted_bytes and restart.running_at is not None and restart.restarted_at is not None
    ]
    if measured:
        return max(measured), True
    rate = result.scenario.costs.download_rate_bytes_per_s
    return 1000 * (result.steady[-1].persisted_bytes or 0.0) / rate, False


def _restoring(result: Result) -> str:
    ms, measured = restore_ms(result)
    if measured:
        return f"After a failure it took up to {milliseconds(ms)} to read it back and to work it off."
    return (
        f"After a failure it would take {milliseconds(ms)} to read it back (an estimate: bytes by the "
        "download rate), and longer to work it off."
    )


def _lost(fault: FaultResult, result: Result) -> str:
    """What to say of a kill that met nobody, because its tasks were waiting for their restart."""
    failures = {(restart.failed_at, restart.cause) for restart in result.restarts}
    ended = result.failure is not None and fault.t >= result.emulated_seconds
    if not fault.kind.startswith("kill") or (fault.t, fault.what) in failures or ended:
        return ""
    down = [
        restart
        for restart in result.restarts
        if restart.failed_at < fault.t and (restart.restarted_at is None or fault.t <= restart.restarted_at)
    ]
    if any(restart.tasks is UNSET for restart in down):
        return ", without effect: the job is down"
    # Of a task manager it is not known which tasks it has.
    killed = fault.what.removeprefix("subtask ").removesuffix(" is killed")
    names = (name for restart in down for name in restart.tasks or ())
    return ", without effect: it is down" if any(_includes(name, killed) for name in names) else ""


def _includes(name: str, subtask: str) -> bool:
    """Whether the name of a vertex, or of some of its subtasks, is one for that subtask, too."""
    vertex, _, indices = name.partition("[")
    killed, _, index = subtask.partition("[")
    return vertex == killed and (not indices or index.rstrip("]") in indices.rstrip("]").split(", "))


def _start(start: StartResult) -> str:
    text = f"went on from {start.path} ({size(start.restored_bytes)})"
    if start.running_at is None:
        return f"{text}, not running before the next failure or the end"
    return f"{text}, running after {milliseconds(1000 * start.running_at)}"


def _recovery(restart: RestartResult) -> str:
    text = _recovery_of_all(restart)
    return text if restart.tasks is UNSET else f"{', '.join(restart.tasks)} alone: {text}"


def _recovery_of_all(restart: RestartResult) -> str:
    if restart.restarted_at is None:
        return "not restarted before the end"
    if restart.unusable_checkpoint_id is not UNSET:
        return f"restarted from checkpoint {restart.unusable_checkpoint_id}, in vain"
    if restart.checkpoint_id is None:
        text = "began anew, as no checkpoint was complete"
    else:
        text = f"restored checkpoint {restart.checkpoint_id} ({size(restart.restored_bytes)}"
        if restart.running_at is not None and restart.running_at > restart.restarted_at:
            text += f" in {milliseconds(1000 * (restart.running_at - restart.restarted_at))}"
        text += ")"
    if restart.running_at is None:
        return f"{text}, not running again before the next failure or the end"
    return f"{text}, down for {milliseconds(1000 * (restart.running_at - restart.failed_at))}"


def _reasons(failed: list[CheckpointResult]) -> Counter[str]:
    return Counter(checkpoint.failure or UNKNOWN for checkpoint in failed)


def _counted(count: int, what: str, kinds: Counter[str]) -> str:
    return f"{count} {what} ({_list(kinds)})" if kinds else f"{count} {what}"


def _list(kinds: Counter[str]) -> str:
    """Kinds with their counts, the most frequent first; a single kind needs no count."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
