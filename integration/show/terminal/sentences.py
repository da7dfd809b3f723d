"""Sentences about runs: figures of a window, comparison of two runs, lateness, faults and restarts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from typing import NamedTuple

from msgspec import UNSET

from netstack import (
    CheckpointResult,
    CheckpointType,
    FaultResult,
    RestartResult,
    Result,
    Scenario,
    StartResult,
    format_duration,
)

from ...base.number_text import NOTABLE_CHANGE, digits, figure, milliseconds, percent, size
from ...base.optional_figures import quotient
from ...runs.window_figures import WindowFigures

SAME_TIME = 1.05
"""Two times with a smaller ratio count as equal."""

_LAST = "for the subtask that acknowledged last, the first barrier"

SEEN = 0.02
"""Parts of a duration are mentioned from this share on."""


def describe(run: WindowFigures) -> str:
    """Return the figures of a window in one sentence."""
    if run.end_to_end_ms is None:
        return f"No checkpoint completed in {_length(run)}; throughput was {_rate(run)}."
    took = f"A checkpoint took {milliseconds(run.end_to_end_ms)}"
    return f"{_with_parts(took, run)}; throughput was {_rate(run)}."


def compare(off: WindowFigures, on: WindowFigures) -> str:
    """Return the effect of debloating between two runs of one job in one sentence."""
    if off.end_to_end_ms is None or on.end_to_end_ms is None:
        return f"{_without_checkpoints(off, on)}; {_throughput_change(off, on)}."
    change = _checkpoint_change(off.end_to_end_ms, on.end_to_end_ms)
    return f"{_with_parts(change, off, on)}; {_throughput_change(off, on)}."


def _with_parts(took: str, *runs: WindowFigures) -> str:
    """Append the parts of a checkpoint's duration and the data in flight to the beginning of a sentence.

    Of two runs, the figures are "A instead of B", or "A as before" if both texts are equal.
    """

    def text(of: Callable[[WindowFigures], str]) -> str:
        now = of(runs[-1])
        if len(runs) == 1:
            return now
        before = of(runs[0])
        return f"{now} as before" if before == now else f"{now} instead of {before}"

    parts = [took]
    if all(run.start_delay_ms is not None and run.alignment_ms is not None for run in runs):
        parts[0] += f": {_LAST} came after {text(lambda run: milliseconds(run.start_delay_ms))}"
        later = f"{text(lambda run: milliseconds(run.alignment_ms))} later"
        if len(runs) == 1 and (runs[0].alignment_ms or 0.0) < 0.5:
            later = "at the same time"
        parts.append(f"the last one {later}")
        shares = [quotient(run.after_barriers_ms, run.end_to_end_ms) or 0.0 for run in runs]
        if all(run.after_barriers_ms is not None for run in runs) and max(shares) >= SEEN:
            rest = text(lambda run: milliseconds(run.after_barriers_ms))
            parts.append(f"its snapshot and acknowledgement took {rest}")
    share = runs[-1].sender_share
    if share is not None and runs[0].sender_share is not None:
        most, end = (share, "senders") if share >= 0.5 else (1 - share, "receivers")
        in_flight = text(lambda run: size(run.in_flight_bytes))
        parts.append(f"with {in_flight} in flight, {percent(most)} of it waiting at the {end}")
    return ", ".join(parts)


def _checkpoint_change(off_ms: float, on_ms: float) -> str:
    was, now = milliseconds(off_ms), milliseconds(on_ms)
    factor = max(off_ms, on_ms) / max(min(off_ms, on_ms), 1e-9)
    if factor < SAME_TIME:
        return f"Debloating changed next to nothing: a checkpoint took {now} with it and {was} without it"
    if on_ms < off_ms:
        return f"With debloating a checkpoint took {now} instead of {was}, {digits(factor)} times as fast"
    return (
        f"Debloating did not help: a checkpoint took {now} instead of {was}, {digits(factor)} times as long"
    )


def _without_checkpoints(off: WindowFigures, on: WindowFigures) -> str:
    if off.end_to_end_ms is None and on.end_to_end_ms is None:
        return f"No checkpoint completed in {_length(off)}, with or without debloating"
    if off.end_to_end_ms is None:
        lacking, other, run, took_ms = "Without", "with", off, on.end_to_end_ms
    else:
        lacking, other, run, took_ms = "With", "without", on, off.end_to_end_ms
    return (
        f"{lacking} debloating no checkpoint completed in {_length(run)}; {other} debloating a checkpoint "
        f"took {milliseconds(took_ms)}"
    )


def _throughput_change(off: WindowFigures, on: WindowFigures) -> str:
    change = quotient(on.throughput_per_s, off.throughput_per_s)
    if change is None:
        return "throughput cannot be compared"
    if abs(change - 1) < NOTABLE_CHANGE:
        return f"throughput stayed at {_rate(on)}"
    verb = "fell" if change < 1 else "rose"
    return f"throughput {verb} by {100 * abs(change - 1):.1f} % to {_rate(on)}"


def _rate(run: WindowFigures) -> str:
    return "unknown" if run.throughput_per_s is None else f"{digits(run.throughput_per_s)} records/s"


def _length(run: WindowFigures) -> str:
    return f"{digits(run.to_s - run.from_s)} s"


TOO_LATE = 0.01
"""A real-time run is reported as late if its delay is at least this share of its length."""

_SO = (
    "so times may be too long and rates too low; give the machine less to do, or run in virtual time, "
    "where its speed does not matter."
)


def fell_behind(result: Result) -> Iterator[str]:
    """Yield sentences on the lateness of a real-time run, the effect on its figures, and the remedy."""
    parts = result.task_managers_behind_s
    if parts is UNSET:
        parts = {} if result.behind_s is UNSET else {"": result.behind_s}
    late = {
        name: behind_s
        for name, behind_s in parts.items()
        if behind_s is not None and behind_s > TOO_LATE * result.emulated_seconds
    }
    if late:
        by = f"by {'up to ' if len(late) > 1 else ''}{max(late.values()):.2g} s of"
        share = f"{by} {figure(result.emulated_seconds)} s"
        fact = f"{_named(list(late))} fell behind the clock {share}"
        yield f"{fact}, {_SO}"
    unknown = [name for name, behind_s in parts.items() if behind_s is None]
    if unknown:
        it_was = "it was" if len(unknown) == 1 else "they were"
        fact = f"{_named(unknown)} ended without reporting how far {it_was} behind the clock"
        yield f"{fact}, {_SO}"


def _named(task_managers: list[str]) -> str:
    if task_managers == [""]:  # for a run in one process
        return "This machine"
    plural = "s" if len(task_managers) > 1 else ""
    return f"The process{'es' if plural else ''} of task manager{plural} {', '.join(task_managers)}"


UNKNOWN = "unknown reason"

_REPEATED = "; sinks commit again what they have committed since that checkpoint"


class Incident(NamedTuple):
    """An event of a job at `t` seconds: its kind and its description."""

    t: float
    what: str
    text: str


def incidents(result: Result) -> list[Incident]:
    """Return the start, changes, savepoints, faults, restarts and final failure of a run, by time."""
    listed = [] if result.started_from is UNSET else [Incident(0.0, "start", _start(result.started_from))]
    listed += changes(result)
    listed += [
        Incident(each.t, "savepoint", _savepoint(each, each.savepoint, result.scenario))
        for each in result.checkpoints
        if each.savepoint is not UNSET
    ]
    listed += [
        Incident(fault.t, fault.kind.replace("_", " "), fault.what + _without_effect(fault, result))
        for fault in result.faults
    ]
    faults = {(fault.t, fault.what) for fault in result.faults}
    went_back = False  # whether a restart has abandoned a checkpoint, and no later one has restored another
    for restart in result.restarts:
        text = _recovery(restart)
        if (restart.failed_at, restart.cause) not in faults:
            text = f"{restart.cause}; {text}"
        if went_back and restart.checkpoint_id is not None:
            text += _REPEATED
            went_back = False
        listed.append(Incident(restart.failed_at, "failure", text))
        went_back = went_back or restart.unusable_checkpoint_id is not UNSET
    if result.failure is not None:
        listed.append(Incident(result.emulated_seconds, "end of the job", result.failure))
    return sorted(listed, key=lambda incident: incident.t)  # a stable sort: a fault comes before its effects


def changes(result: Result) -> list[Incident]:
    """Return the changes of options, rates and service times that took effect in a run, by time.

    Steps of a service time after the first count as changes, unless a change of the vertex's service replaced
    them.
    """
    scenario = result.scenario
    replaced_at: dict[str | None, float] = {}
    for change in scenario.changes:
        if change.service_s is not None:
            replaced_at[change.vertex] = min(change.at_s, replaced_at.get(change.vertex, change.at_s))
    found = [Incident(change.at_s, "change", str(change)) for change in scenario.changes]
    for vertex in scenario.vertices:
        found += [
            Incident(at, "change", f"{vertex.name}: service is {format_duration(cost)}")
            for at, cost in vertex.service[1:]
            if at < replaced_at.get(vertex.name, inf)
        ]
    effective = [each for each in found if each.t < result.emulated_seconds]
    return sorted(effective, key=lambda change: change.t)


def _savepoint(savepoint: CheckpointResult, location: str, scenario: Scenario) -> str:
    if savepoint.duration_ms is None:
        failure = savepoint.failure
        return "not complete at the end of the run" if failure is None else f"failed: {failure}"
    stopped = savepoint.checkpoint_type == CheckpointType.SYNC_SAVEPOINT
    took = f"{size(savepoint.state_bytes)} in {milliseconds(savepoint.duration_ms)}"
    end = ", and the job stopped with it" if stopped else ""
    return f"{took}: {_as_given(location, scenario)}{end}"


def _as_given(location: str, scenario: Scenario) -> str:
    """Return the path of a savepoint, with its folder as the scenario gives it.

    A location is absolute, or relative to the folder of checkpoints. It stays absolute if the run had another
    working directory than this process, as a relative path would then be wrong.
    """
    config = scenario.config
    folder, _, name = location.rpartition("/")
    if not folder:
        return os.path.join(config.checkpoint_dir or "", name)
    for given in (*(each.directory for each in scenario.savepoints), config.savepoint_dir):
        if given and os.path.abspath(given) == folder:
            return os.path.join(given, name)
    return location


def down_times(result: Result) -> list[tuple[float, float]]:
    """Return for each failure when tasks were down: since, until (at most their next failure or the end)."""
    times = []
    for place, restart in enumerate(result.restarts):
        until = restart.running_at
        if until is None:
            later = result.restarts[place + 1 :]
            again = (each.failed_at for each in later if each.tasks is UNSET or each.tasks == restart.tasks)
            until = next(again, result.emulated_seconds)
        times.append((restart.failed_at, until))
    return times


def _total_down_s(result: Result) -> float:
    """Return the seconds in which tasks were down. Overlapping times count once."""
    total, counted_until = 0.0, 0.0
    for since, until in down_times(result):
        total += max(0.0, until - max(since, counted_until))
        counted_until = max(counted_until, until)
    return total


def never_fired(result: Result) -> str | None:
    """Return the number and kinds of the scenario's faults that never fired; None if all did."""
    given = Counter(fault.kind for fault in result.scenario.faults)
    left = given - Counter(fault.kind for fault in result.faults)
    return f"{left.total()} of {given.total()} faults never occurred: {_list(left)}" if left else None


def are_plain(result: Result) -> bool:
    """Whether all checkpoints have Flink's ordinary type, none failed, and no fault left one incomplete."""
    if result.faults and any(not checkpoint.completed for checkpoint in result.checkpoints):
        return False
    return all(
        not checkpoint.failed and checkpoint.checkpoint_type == CheckpointType.CHECKPOINT
        for checkpoint in result.checkpoints
    )


def checkpoints_by_end(result: Result) -> str:
    """Return the number of checkpoints by outcome, with types and reasons for failures."""
    types = Counter(checkpoint.checkpoint_type for checkpoint in result.checkpoints if checkpoint.completed)
    failures = _failures(result)
    parts = [f"{types.total()} complete"]
    if types.keys() - {CheckpointType.CHECKPOINT}:
        parts[0] += f" ({_list(types)})"
    if failures:
        parts.append(f"{failures.total()} failed ({_list(failures)})")
    in_progress = len(result.checkpoints) - types.total() - failures.total()
    parts += [f"{in_progress} had not ended"] if in_progress else []
    return ", ".join(parts)


def what_went_wrong(result: Result) -> Iterator[str]:
    """Yield sentences about failures of the job and of its checkpoints."""
    end_s = result.emulated_seconds
    if result.restarts:
        total = _total_down_s(result)
        share = percent(total / max(end_s, total))
        whole = all(restart.tasks is UNSET for restart in result.restarts)
        what = "The job failed {} and was" if whole else "Tasks failed {}, and the job or a part of it was"
        count = len(result.restarts)
        failed = what.format({1: "once", 2: "twice"}.get(count, f"{count} times"))
        yield f"{failed} down for {milliseconds(1000 * total)}, {share} of the time."
    if result.failure is not None:
        yield f"After {end_s:.1f} s it failed for good: {result.failure}."
    if failures := _failures(result):
        yield f"{failures.total()} of {len(result.checkpoints)} checkpoints failed: {_list(failures)}."
    unfired = never_fired(result)
    if unfired is not None:
        yield f"{unfired}."


def price(result: Result) -> str | None:
    """Return the cost of unaligned checkpoints in the last window; None if they store no in-flight data."""
    persisted = result.steady[-1].persisted_bytes if result.steady else None
    if not persisted:
        return None
    ms, measured = restore_ms(result)
    if measured:
        restoring = f"to read it back and to process it took up to {milliseconds(ms)}."
    else:
        restoring = (
            f"to read it back would take {milliseconds(ms)} (an estimate: bytes divided by the download "
            "rate); to process it takes longer."
        )
    return f"A checkpoint stored {size(persisted)} of data in flight. After a failure, {restoring}"


def restore_ms(result: Result) -> tuple[float, bool]:
    """Return the time to restore a checkpoint's in-flight data, and whether the time was measured.

    A measured time is that of the longest restart from a checkpoint with such data. An estimated time is for
    reading the bytes of a checkpoint of the last window.
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


def _without_effect(fault: FaultResult, result: Result) -> str:
    """Return a text for a kill without effect, because its tasks were already down; else an empty text."""
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
        return ", without effect, since the job was down"
    # Which tasks a task manager runs is not known here.
    killed = fault.what.removeprefix("subtask ").removesuffix(" is killed")
    was_down = any(_includes(name, killed) for restart in down for name in restart.tasks or ())
    return ", without effect, since it was down" if was_down else ""


def _includes(name: str, subtask: str) -> bool:
    """Whether the name of a vertex, or of some of its subtasks, includes a subtask."""
    vertex, _, indices = name.partition("[")
    killed, _, index = subtask.partition("[")
    return vertex == killed and (not indices or index.rstrip("]") in indices.rstrip("]").split(", "))


def _start(start: StartResult) -> str:
    text = f"continued from {start.path} ({size(start.restored_bytes)})"
    if start.running_at is None:
        return f"{text}, but was not running before the next failure or the end"
    return f"{text}, running after {milliseconds(1000 * start.running_at)}"


def _recovery(restart: RestartResult) -> str:
    alone = "" if restart.tasks is UNSET else f"{', '.join(restart.tasks)} alone: "
    if restart.restarted_at is None:
        return f"{alone}not restarted before the end"
    if restart.unusable_checkpoint_id is not UNSET:
        return f"{alone}restarting from checkpoint {restart.unusable_checkpoint_id} failed"
    if restart.checkpoint_id is None:
        text = "restarted from the beginning, since no checkpoint was complete"
    else:
        text = f"restored checkpoint {restart.checkpoint_id} ({size(restart.restored_bytes)}"
        if restart.running_at is not None and restart.running_at > restart.restarted_at:
            text += f" in {milliseconds(1000 * (restart.running_at - restart.restarted_at))}"
        text += ")"
    if restart.running_at is None:
        return f"{alone}{text}, but was not running again before the next failure or the end"
    return f"{alone}{text}, down for {milliseconds(1000 * (restart.running_at - restart.failed_at))}"


def _failures(result: Result) -> Counter[str]:
    """Return the number of failed checkpoints by reason."""
    return Counter(each.failure or UNKNOWN for each in result.checkpoints if each.failed)


def _list(kinds: Counter[str]) -> str:
    """Return the kinds with their counts, most frequent first. A single kind has no count."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
