"""Rules on checkpoints: the phase that takes the time and its cause, failures, and deadlocks.

Each phase (`figures.checkpoint_times`) has a cause of its own::

    trigger |-- start delay --|-- alignment --|- sync -|-- async --|- acknowledgement -| complete
            data in flight     unequal         state to  state to    messages, and
            before the barrier channels        copy      write       files of the coordinator
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from netstack import CheckpointResult, VertexSteady, standstills

from ...base.number_text import bytes_per_second, counted, milliseconds, percent, size
from ...base.optional_figures import complete, known
from ...runs.checkpoint_times import (
    ACKNOWLEDGEMENT,
    ALIGNMENT,
    ASYNC,
    START_DELAY,
    SYNC,
    CheckpointTimes,
    mean_times,
)
from .back_pressure_rules import full_readers, subtasks_text
from .findings import (
    BACK_PRESSURED,
    HIGHLY_BACK_PRESSURED,
    NO_PAUSE,
    Finding,
    Observation,
    Severity,
    bytes_waiting,
    is_busy,
    may_overtake,
    of_subtasks,
    parallelisms,
    share_of_interval,
    span_percent,
)

BARRIERS_WAIT = "long-start-delay"
"""Name of the rule for barriers that wait behind in-flight data. Debloating is the remedy."""

_WORTH_MS = 0.5
"""A phase shorter than this, in ms, counts as 0."""

SHORT_MS = 200.0
"""A checkpoint shorter than this, in ms, is no problem, whatever its phases."""

LONG_SHARE = 0.5
"""A checkpoint that takes at least this share of the interval is a problem."""

LONG_MS = 10_000.0
"""Without an interval, a checkpoint that takes at least this many ms is a problem."""

VARYING = 2.0
"""Durations vary if the second longest is at least this multiple of the second shortest."""

UNEVEN = 4.0
"""Durations count as uneven if the longest is at least this multiple of the median."""


def phases(view: Observation) -> CheckpointTimes | None:
    """Return the mean times of the window's completed checkpoints; None if there is none."""
    return mean_times(view.checkpoints)


def data_in_flight(view: Observation) -> Iterator[str]:
    """Yield the data queued before each vertex and the time to consume it, where both are known."""
    for vertex in view.vertices:
        full = full_readers(vertex)  # queues of the writers, if any, wait for these subtasks
        waits = bytes_waiting(view, vertex, full)
        rates = complete(of_subtasks(vertex.bytes_in_per_s, full))
        if waits is None or rates is None:
            continue
        rate = sum(rates)
        if waits.bytes and rate:
            whose = subtasks_text(vertex, full) if full else vertex.name
            share = waits.sender_share
            where = "" if share is None else f", {percent(share)} of it at the senders"
            yield (
                f"{size(waits.bytes)} of data waits before {whose}{where}: at {bytes_per_second(rate)}, "
                f"that takes {milliseconds(1000 * waits.bytes / rate)}"
            )


def uneven(view: Observation) -> Iterator[Finding]:
    """Find that some checkpoints take far longer than most. Averages hide this."""
    usual, slowest = view.steady.end_to_end_ms, view.steady.end_to_end_ms_max
    if usual is None or slowest is None or not _is_uneven(view):
        return
    times = sorted(checkpoint.duration_ms or 0.0 for checkpoint in _long_ones(view))
    took = f"the longest took {milliseconds(slowest)}"
    if times:
        least, most = milliseconds(times[0]), milliseconds(times[-1])
        lengths = most if least == most else f"{least} to {most}"
        took = f"{len(times)} of {counted(view.steady.checkpoints, 'checkpoint')} took {lengths}"
    took_ms = _durations_ms(view)
    bursts = list(_bursts(view))
    says = "Some checkpoints take far longer than most"
    if bursts:
        at_once = ", ".join(f"{writer.name} emits more than {reader.name} reads" for writer, reader in bursts)
        says += f": they fall into bursts, in which {at_once}"
    yield Finding(
        rule="uneven-checkpoints",
        severity=_severity(view, slowest),
        where="checkpoints",
        says=f"{says}.",
        evidence=[
            f"{took}; half of all checkpoints took at most {milliseconds(usual)}"
            + (f", and 95 % at most {milliseconds(_percentile_95(took_ms))}" if took_ms else ""),
            *(
                f"{writer.name} is back-pressured {span_percent(writer.backpressured_ms_per_s)} of its time, "
                f"and {reader.name}, for which it waits, is busy {span_percent(reader.busy_ms_per_s)}"
                for writer, reader in bursts
            ),
        ],
        next=[step for writer, reader in bursts for step in _smooth(view, writer, reader)]
        or ["Check the load at the times of the long checkpoints: data waits only then."],
    )


def _smooth(view: Observation, writer: VertexSteady, reader: VertexSteady) -> list[str]:
    """Return the advice against bursts of a writer's output."""
    parallel = f"Raise the parallelism of {reader.name}, so that it reads a burst faster."
    if not view.inputs(writer):
        return [f"Check the input of {writer.name}: it arrives in bursts.", parallel]
    return [
        f"Let {writer.name} emit in smaller portions: spread the times at which windows and timers fire. "
        "Buffer options change little, since a task handles no barrier while it emits a portion.",
        parallel,
    ]


def _is_uneven(view: Observation) -> bool:
    usual, slowest = view.steady.end_to_end_ms, view.steady.end_to_end_ms_max
    return usual is not None and slowest is not None and slowest >= max(UNEVEN * usual, SHORT_MS)


def _long_ones(view: Observation) -> list[CheckpointResult]:
    """Return the completed checkpoints that take far longer than most; empty if the durations are even."""
    least = max(UNEVEN * (view.steady.end_to_end_ms or 0.0), SHORT_MS)
    return [each for each in view.checkpoints if each.completed and (each.duration_ms or 0.0) >= least]


def _durations_ms(view: Observation) -> list[float]:
    """Return the durations of the completed checkpoints, shortest first."""
    return sorted(known(each.duration_ms for each in view.checkpoints if each.completed))


def _percentile_95(values: Sequence[float]) -> float:
    return float(np.percentile(values, 95))


def _spread(durations_ms: Sequence[float]) -> tuple[str, str]:
    """Return the slow end of several durations, and a sentence if they differ much; empty where not apt.

    One fast and one slow checkpoint are ignored, so that a sentence needs two of each kind.
    """
    if len(durations_ms) < 2:
        return "", ""
    slowest = durations_ms[-1]
    slow_end = f" (95 %: {milliseconds(_percentile_95(durations_ms))}, slowest {milliseconds(slowest)})"
    if len(durations_ms) < 4 or durations_ms[-2] < max(VARYING * durations_ms[1], SHORT_MS):
        return slow_end, ""
    return slow_end, (
        f" They took between {milliseconds(durations_ms[0])} and {milliseconds(slowest)}: the load or the "
        "cost of a record changes, and means hide this."
    )


def _bursts(view: Observation) -> Iterator[tuple[VertexSteady, VertexSteady]]:
    """Yield writers that sometimes wait for a reader that has capacity and is not back-pressured."""
    for writer in view.vertices:
        waiting = complete(writer.backpressured_ms_per_s) or [0.0]
        if not 1000 * BACK_PRESSURED <= max(waiting) < 1000 * HIGHLY_BACK_PRESSURED:
            continue
        for _, reader in view.outputs(writer):
            if is_busy(reader) is False and view.is_back_pressured(reader) is False:
                yield writer, reader


def slow_phase(view: Observation) -> Iterator[Finding]:
    """Find the phase that takes most of a checkpoint, or of the long checkpoints if only some are long."""
    long_ones = _long_ones(view) if _is_uneven(view) else []
    times = mean_times(long_ones) or phases(view)
    if times is None:
        return
    of_which = f", on average over the {len(long_ones)} checkpoints that took long" if long_ones else ""
    slow_end, varying = ("", "") if long_ones else _spread(_durations_ms(view))
    took = f"{milliseconds(times.end_to_end_ms)} from trigger to completion{of_which}"
    shown = ", ".join(f"{name} {milliseconds(ms)}" for name, ms in times.phases.items() if ms >= _WORTH_MS)
    evidence = [f"{took}: {shown}"]
    if times.end_to_end_ms < SHORT_MS:
        yield Finding(
            rule="checkpoints-short",
            severity="fine",
            where="checkpoints",
            says=f"Checkpoints take {milliseconds(times.end_to_end_ms)}{slow_end}, which is short.{varying}",
            evidence=evidence,
        )
        return
    phase = max(times.phases, key=lambda name: times.phases[name])
    if phase not in _MEANING:  # the time of phases that were not measured
        return
    means, steps = _MEANING[phase]
    who = "Long checkpoints" if long_ones else "Checkpoints"
    has_queues = phase in (START_DELAY, ALIGNMENT) and not long_ones  # queues are medians of the window
    yield Finding(
        rule=f"long-{phase.replace(' ', '-')}",
        severity=_severity(view, times.end_to_end_ms),
        where=f"checkpoints, at {times.vertex}",
        says=f"{who} take {milliseconds(times.end_to_end_ms)}{slow_end}, mostly {means}.{varying}",
        evidence=[*evidence, *(data_in_flight(view) if has_queues else [])],
        next=_next(view, phase, steps),
    )


_MEANING: dict[str, tuple[str, list[str]]] = {
    START_DELAY: (
        "start delay: barriers wait behind queued data",
        [],
    ),
    ALIGNMENT: (
        "alignment: the first barrier of a task arrives long before its last one",
        ["Look for skew among the writers: barriers are slow in full channels and fast in empty ones."],
    ),
    SYNC: (
        "the synchronous part, during which the operator processes nothing",
        ["Look for large operator or heap state, and for work in snapshotState()."],
    ),
    ASYNC: (
        "the asynchronous part, which writes state to the storage",
        [
            "Take incremental checkpoints, or spread the state over more subtasks.",
            "Check the throughput of the storage.",
        ],
    ),
    ACKNOWLEDGEMENT: (
        "acknowledgement: messages to the coordinator, and the files that the coordinator writes",
        ["Check the load, the network and the storage of the job manager."],
    ),
}


def _next(view: Observation, phase: str, steps: Sequence[str]) -> list[str]:
    if phase not in (START_DELAY, ALIGNMENT):
        return list(steps)
    config = view.config
    if _is_uneven(view) and any(_bursts(view)):
        return [*steps, "Smooth the bursts first: barriers wait until a burst is read."]
    if any(full_readers(vertex) for vertex in view.vertices):
        steps = [*steps, "Fix the skew first: barriers wait in the channels of the slow subtasks."]
    if config.takes_unaligned_checkpoints and config.aligned_checkpoint_timeout_s == 0:
        return [
            *steps,
            "Look for a task that handles its barrier late, although barriers overtake data: one long "
            "record, a window that fires, or a source that does not yield.",
        ]
    calm = view.no_back_pressure
    if calm:
        return [
            *steps,
            "Check when the sources emit barriers: no task is back-pressured, so little data waits "
            "before barriers.",
        ]
    if calm is None:
        unknown = view.may_wait(view.vertices)
        steps = [
            *steps,
            f"Check first whether {unknown} is back-pressured, which is not reported. Only if so:",
        ]
    overtaking = [_overtake(view)] if may_overtake(view.exchanges, view.vertices) else []
    return [*steps, _let_less_wait(view), *overtaking]


def _let_less_wait(view: Observation) -> str:
    config = view.config
    if config.debloat_enabled:
        advice = f"Set a debloat target below {milliseconds(1000 * config.debloat_target_s)}"
        changes: dict[str, object] = {"debloat_target_s": config.debloat_target_s / 2}
        what = f"with half of it, {milliseconds(500 * config.debloat_target_s)}, "
    else:
        advice, changes = "Turn on buffer debloating", {"debloat_enabled": True}
        what = f"with a target of {milliseconds(1000 * config.debloat_target_s)}, "
    return (
        f"{advice}{view.tried_text(changes, what)}. `netstack tune` finds the best target and what it costs."
    )


def _overtake(view: Observation) -> str:
    result = view.tried_text({"unaligned_enabled": True, "aligned_checkpoint_timeout_s": 0.0})
    return f"Or take unaligned checkpoints{result}, from the start or after an aligned timeout."


def _severity(view: Observation, duration_ms: float) -> Severity:
    interval = view.config.checkpoint_interval_s
    long = share_of_interval(duration_ms, interval) >= LONG_SHARE if interval else duration_ms >= LONG_MS
    return "problem" if long else "notice"


def late_source(view: Observation) -> Iterator[Finding]:
    """Find sources that emit their barrier late, which buffers cannot explain."""
    for vertex in view.vertices:
        delay = vertex.start_delay_ms_max_subtask
        if view.inputs(vertex) or delay is None or delay < SHORT_MS:
            continue
        yield Finding(
            rule="late-source",
            severity="notice",
            where=vertex.name,
            says="The source emits its barrier late.",
            evidence=[f"{milliseconds(delay)} from the trigger to the barrier, at the slowest subtask"],
            next=[
                f"Look for a long call or a lock in {vertex.name}: its thread is busy or blocked when the "
                "trigger arrives."
            ],
        )


def back_to_back(view: Observation) -> Iterator[Finding]:
    """Find that checkpoints take nearly their interval or longer, so that there is no pause between them."""
    for took_ms, interval in without_pause(view):
        longer = share_of_interval(took_ms, interval) > 1
        says = (
            "A checkpoint takes longer than the interval, so the next one begins as soon as it ends"
            if longer
            else "A checkpoint takes nearly the whole interval, so the next one begins soon after it ends"
        )
        yield Finding(
            rule="back-to-back",
            severity="problem",
            where="checkpoints",
            says=f"{says}, and channels are blocked most of the time.",
            evidence=[
                f"a checkpoint takes {milliseconds(took_ms)}, and the interval is "
                f"{milliseconds(1000 * interval)}"
            ],
            next=[
                "Set a longer execution.checkpointing.interval, or an execution.checkpointing.min-pause, "
                "until checkpoints are faster. Under debloating, each checkpoint drains the buffers, which "
                "grow again.",
            ],
        )


def without_pause(view: Observation) -> Iterator[tuple[float, float]]:
    """Yield the duration of a checkpoint in ms and the interval in s, if nearly no pause is left."""
    interval, times = view.config.checkpoint_interval_s, phases(view)
    if interval and times is not None and share_of_interval(times.end_to_end_ms, interval) >= NO_PAUSE:
        yield times.end_to_end_ms, interval


def failed(view: Observation) -> Iterator[Finding]:
    """Find failed checkpoints, by reason."""
    reasons = Counter(str(checkpoint.failure) for checkpoint in view.checkpoints if checkpoint.failed)
    if not reasons:
        return
    evidence = [f"{counted(count, 'time')}: {reason}" for reason, count in reasons.most_common()]
    steps = [
        "Find the slow phase of the checkpoints that expired: they took longer than "
        "execution.checkpointing.timeout."
    ]
    at_once = view.config.max_concurrent_checkpoints
    if at_once > 1 and any("expired" in reason.lower() for reason in reasons):  # also in Flink's own message
        evidence.append(f"up to {at_once} checkpoints may be in progress at once")
        steps.append(
            "Set execution.checkpointing.max-concurrent-checkpoints to 1: a task takes one checkpoint "
            "after another, so each waits for those before it, and all of them may expire."
        )
    yield Finding(
        rule="failed-checkpoints",
        severity="problem",
        where="checkpoints",
        says=f"{sum(reasons.values())} of {counted(len(view.checkpoints), 'checkpoint')} failed.",
        evidence=evidence,
        next=steps,
    )


def stores_data_in_flight(view: Observation) -> Iterator[Finding]:
    """Find that unaligned checkpoints store much data in flight."""
    stored = view.steady.persisted_bytes
    if not stored or stored < 1 << 20:
        return
    yield Finding(
        rule="data-in-flight-stored",
        severity="notice",
        where="checkpoints",
        says="Barriers overtake data, and each checkpoint stores the data that they overtake.",
        evidence=[f"each checkpoint stores {size(stored)} of data in flight"],
        next=[
            "Use buffer debloating: with less data in flight, each checkpoint stores less and recovery "
            "reads less."
        ],
    )


def stands_still(view: Observation) -> Iterator[Finding]:
    """Find shapes of a job that unaligned checkpoints can deadlock (`netstack.standstills`).

    Jobs with aligned checkpoints are checked too, because users often switch to unaligned ones when
    checkpoints are slow. Some shapes can deadlock only after a checkpoint has expired. These are
    reported if a checkpoint has failed and Flink is older than 2.3.
    """
    overtakes = view.config.takes_unaligned_checkpoints
    has_failed = overtakes and any(each.failed for each in view.checkpoints)
    after_timeout = has_failed and view.config.aligned_checkpoint_timeout_s > 0
    if view.scenario is not None and view.scenario.barriers_pass_blocked:
        after_timeout = False
    seen: set[tuple[str, str]] = set()
    for late, blocked, joins, at_once in standstills(view.exchanges, parallelisms(view.vertices)):
        if (blocked, joins) in seen or not (at_once or after_timeout):
            continue
        seen.add((blocked, joins))
        can = "can" if overtakes else "could"
        when = "" if at_once else " after one has expired"
        keep = "Or keep aligned checkpoints: set execution.checkpointing.unaligned.enabled to false"
        if not at_once:
            keep += (
                ", take unaligned ones without execution.checkpointing.aligned-checkpoint-timeout, "
                "or use Flink 2.3"
            )
        yield Finding(
            rule="standstill",
            severity="problem" if has_failed else "notice",
            where=joins,
            says=f"Unaligned checkpoints {can} deadlock the job{when}: {joins} reads nothing from {blocked} "
            f"until the barriers of {late} arrive. But these barriers are queued behind data for {blocked}, "
            f"and {blocked} cannot take the data until {joins} reads from it again.",
            evidence=[f"barriers do not overtake data on the way into {late}, nor into {joins}"],
            next=[
                f"Use rebalance() or keyBy() for each input of {joins} that is forward, rescale or "
                "broadcast, so that barriers overtake data there.",
                f"{keep}.",
            ],
        )
