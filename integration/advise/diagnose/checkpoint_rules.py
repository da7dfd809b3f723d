"""Rules on checkpoints: the phase that takes the time and its cause, failures, and deadlocks.

Each phase (`runs.checkpoint_times`) has a cause of its own::

    trigger |-- start delay --|-- alignment --|- sync -|-- async --|- acknowledgement -| complete
            data in flight     unequal         state to  state to    messages, and
            before the barrier channels        copy      write       files of the coordinator
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from netstack import CheckpointResult, VertexSteady, standstills

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
from .back_pressure_rules import full_readers
from .conditions import BACK_PRESSURED, HIGHLY_BACK_PRESSURED, NO_PAUSE, is_busy, share_of_interval
from .findings import Found, Rule, Severity, Words, rule
from .observation import DataWaiting, Observation, bytes_waiting, may_overtake, of_subtasks, parallelisms
from .words import (
    Line,
    advice_on_bursts,
    burst_times,
    data_waiting,
    failure_reasons,
    let_less_wait,
    times_of_uneven,
    unless,
    when,
)

BARRIERS_WAIT = "long-start-delay"
"""Name of the rule for barriers that wait behind in-flight data. Debloating is the remedy."""

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


def data_in_flight(view: Observation) -> Iterator[tuple[VertexSteady, list[int], DataWaiting, float]]:
    """Yield the data queued before each vertex, where it and the rate of its readers are known.

    Each has the vertex, its subtasks for which the data waits (empty: all), the data, and the bytes per
    second that these subtasks read.
    """
    for vertex in view.vertices:
        full = full_readers(vertex)  # queues of the writers, if any, wait for these subtasks
        waits = bytes_waiting(view, vertex, full)
        rates = complete(of_subtasks(vertex.bytes_in_per_s, full))
        if waits is not None and rates is not None and waits.bytes and sum(rates):
            yield vertex, full, waits, sum(rates)


@rule(
    "uneven-checkpoints",
    "notice",
    says="Some checkpoints take far longer than most{bursts:in bursts}.",
    evidence=[times_of_uneven, burst_times],
    next=[
        advice_on_bursts,
        unless("bursts", "Check the load at the times of the long checkpoints: data waits only then."),
    ],
)
def uneven(view: Observation) -> Iterator[Found]:
    """Find that some checkpoints take far longer than most. Averages hide this."""
    usual, slowest = view.steady.end_to_end_ms, view.steady.end_to_end_ms_max
    if usual is None or slowest is None or not _is_uneven(view):
        return
    yield Found(
        "checkpoints",
        severity=_severity(view, slowest),
        usual=usual,
        slowest=slowest,
        long_ms=sorted(checkpoint.duration_ms or 0.0 for checkpoint in _long_ones(view)),
        durations_ms=_durations_ms(view),
        bursts=list(_bursts(view)),
    )


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


def _vary(durations_ms: Sequence[float]) -> bool:
    """Whether durations, shortest first, differ much. One fast and one slow checkpoint are ignored."""
    return len(durations_ms) >= 4 and durations_ms[-2] >= max(VARYING * durations_ms[1], SHORT_MS)


def _bursts(view: Observation) -> Iterator[tuple[VertexSteady, VertexSteady]]:
    """Yield writers that sometimes wait for a reader that has capacity and is not back-pressured."""
    for writer in view.vertices:
        waiting = complete(writer.backpressured_ms_per_s) or [0.0]
        if not 1000 * BACK_PRESSURED <= max(waiting) < 1000 * HIGHLY_BACK_PRESSURED:
            continue
        for _, reader in view.outputs(writer):
            if is_busy(reader) is False and view.is_back_pressured(reader) is False:
                yield writer, reader


def _slow_phase(view: Observation) -> Iterator[Found]:
    """Find the phase that takes most of a checkpoint, or of the long checkpoints if only some are long.

    The case is the phase, or False if checkpoints are short.
    """
    long_ones = _long_ones(view) if _is_uneven(view) else []
    times = mean_times(long_ones) or phases(view)
    if times is None:
        return
    phase = max(times.phases, key=lambda name: times.phases[name])
    waits = phase in (START_DELAY, ALIGNMENT)
    is_short = times.end_to_end_ms < SHORT_MS
    durations_ms = [] if long_ones else _durations_ms(view)
    yield Found(
        "checkpoints" if is_short else f"checkpoints, at {times.vertex}",
        False if is_short else phase,
        severity=None if is_short else _severity(view, times.end_to_end_ms),
        times=times,
        long_ones=len(long_ones),
        durations_ms=durations_ms,
        varying_ms=durations_ms if _vary(durations_ms) else [],
        # queues are medians of the window
        waiting=list(data_in_flight(view)) if waits and not long_ones and not is_short else [],
        **(_causes(view) if waits and not is_short else {}),
    )


_DURATION = "{times.end_to_end_ms:ms} from trigger to completion{long_ones:of which}: {times.phases:phases}"


def _causes(view: Observation) -> dict[str, object]:
    """Return why barriers wait, as values for `_LET_BARRIERS_PASS`."""
    config, calm = view.config, view.no_back_pressure
    in_bursts = _is_uneven(view) and any(_bursts(view))
    late = not in_bursts and config.takes_unaligned_checkpoints and config.aligned_checkpoint_timeout_s == 0
    may_help = not in_bursts and not late and not calm
    overtakes = may_help and may_overtake(view.exchanges, view.vertices)
    lower = {"debloat_target_s": config.debloat_target_s / 2}
    less = lower if config.debloat_enabled else {"debloat_enabled": True}
    unaligned = {"unaligned_enabled": True, "aligned_checkpoint_timeout_s": 0.0}
    return {
        "in_bursts": in_bursts,
        "skewed": not in_bursts and any(full_readers(vertex) for vertex in view.vertices),
        "late": late,
        "calm": not in_bursts and not late and calm,
        "unknown": view.may_wait(view.vertices) if may_help and calm is None else None,
        "may_help": may_help,
        "with_less": view.tried(less) if may_help else None,
        "overtakes": overtakes,
        "with_unaligned": view.tried(unaligned) if overtakes else None,
    }


_LET_BARRIERS_PASS: Sequence[Line] = (
    when("in_bursts", "Smooth the bursts first: barriers wait until a burst is read."),
    when("skewed", "Fix the skew first: barriers wait in the channels of the slow subtasks."),
    when(
        "late",
        "Look for a task that handles its barrier late, although barriers overtake data: one long record, a "
        "window that fires, or a source that does not yield.",
    ),
    when(
        "calm",
        "Check when the sources emit barriers: no task is back-pressured, so little data waits before "
        "barriers.",
    ),
    when(
        "unknown",
        "Check first whether {unknown:any of} is back-pressured, which is not reported. Only if so:",
    ),
    let_less_wait,
    when(
        "overtakes",
        "Or take unaligned checkpoints{with_unaligned:in brackets}, from the start or after an aligned "
        "timeout.",
    ),
)


def _slow(phase: str, means: str, steps: Sequence[Line]) -> Words:
    return Words(
        f"long-{phase.replace(' ', '-')}",
        "notice",
        case=phase,
        says="{long_ones:Long checkpoints|Checkpoints} take {times.end_to_end_ms:ms}{durations_ms:slow end}, "
        f"mostly {means}.{{varying_ms:varying}}",
        evidence=[_DURATION, data_waiting],
        next=steps,
    )


slow_phase = Rule(
    _slow_phase,
    Words(
        "checkpoints-short",
        "fine",
        case=False,
        says="Checkpoints take {times.end_to_end_ms:ms}{durations_ms:slow end}, which is "
        "short.{varying_ms:varying}",
        evidence=[_DURATION],
    ),
    _slow(START_DELAY, "start delay: barriers wait behind queued data", _LET_BARRIERS_PASS),
    _slow(
        ALIGNMENT,
        "alignment: the first barrier of a task arrives long before its last one",
        [
            "Look for skew among the writers: barriers are slow in full channels and fast in empty ones.",
            *_LET_BARRIERS_PASS,
        ],
    ),
    _slow(
        SYNC,
        "the synchronous part, during which the operator processes nothing",
        ["Look for large operator or heap state, and for work in snapshotState()."],
    ),
    _slow(
        ASYNC,
        "the asynchronous part, which writes state to the storage",
        [
            "Take incremental checkpoints, or spread the state over more subtasks.",
            "Check the throughput of the storage.",
        ],
    ),
    _slow(
        ACKNOWLEDGEMENT,
        "acknowledgement: messages to the coordinator, and the files that the coordinator writes",
        ["Check the load, the network and the storage of the job manager."],
    ),
)


def _severity(view: Observation, duration_ms: float) -> Severity:
    interval = view.config.checkpoint_interval_s
    long = share_of_interval(duration_ms, interval) >= LONG_SHARE if interval else duration_ms >= LONG_MS
    return "problem" if long else "notice"


@rule(
    "late-source",
    "notice",
    says="The source emits its barrier late.",
    evidence=["{delay_ms:ms} from the trigger to the barrier, at the slowest subtask"],
    next=[
        "Look for a long call or a lock in {where}: its thread is busy or blocked when the trigger arrives."
    ],
)
def late_source(view: Observation) -> Iterator[Found]:
    """Find sources that emit their barrier late, which buffers cannot explain."""
    for vertex in view.vertices:
        delay = vertex.start_delay_ms_max_subtask
        if not view.inputs(vertex) and delay is not None and delay >= SHORT_MS:
            yield Found(vertex.name, delay_ms=delay)


@rule(
    "back-to-back",
    "problem",
    says="{longer:A checkpoint takes longer than the interval, so the next one begins as soon as it ends|"
    "A checkpoint takes nearly the whole interval, so the next one begins soon after it ends}, and "
    "channels are blocked most of the time.",
    evidence=["a checkpoint takes {took_ms:ms}, and the interval is {interval_ms:ms}"],
    next=[
        "Set a longer execution.checkpointing.interval, or an execution.checkpointing.min-pause, until "
        "checkpoints are faster. Under debloating, each checkpoint drains the buffers, which grow again."
    ],
)
def back_to_back(view: Observation) -> Iterator[Found]:
    """Find that checkpoints take nearly their interval or longer, so that there is no pause between them."""
    interval, times = view.config.checkpoint_interval_s, phases(view)
    if not interval or times is None:
        return
    share = share_of_interval(times.end_to_end_ms, interval)
    if share >= NO_PAUSE:
        yield Found(
            "checkpoints",
            took_ms=times.end_to_end_ms,
            interval_ms=1000 * interval,
            longer=share > 1,
            weight=times.end_to_end_ms / interval,
        )


@rule(
    "failed-checkpoints",
    "problem",
    says="{failed} of {checkpoints:checkpoints} failed.",
    evidence=[
        failure_reasons,
        when(
            "concurrent",
            "up to {view.config.max_concurrent_checkpoints} checkpoints may be in progress at once",
        ),
    ],
    next=[
        "Find the slow phase of the checkpoints that expired: they took longer than "
        "execution.checkpointing.timeout.",
        when(
            "concurrent",
            "Set execution.checkpointing.max-concurrent-checkpoints to 1: a task takes one checkpoint "
            "after another, so each waits for those before it, and all of them may expire.",
        ),
    ],
)
def failed(view: Observation) -> Iterator[Found]:
    """Find failed checkpoints, by reason."""
    reasons = Counter(str(checkpoint.failure) for checkpoint in view.checkpoints if checkpoint.failed)
    if reasons:
        expired = any("expired" in reason.lower() for reason in reasons)  # also in Flink's own message
        yield Found(
            "checkpoints",
            reasons=reasons.most_common(),
            failed=sum(reasons.values()),
            checkpoints=len(view.checkpoints),
            concurrent=expired and view.config.max_concurrent_checkpoints > 1,
        )


@rule(
    "data-in-flight-stored",
    "notice",
    says="Barriers overtake data, and each checkpoint stores the data that they overtake.",
    evidence=["each checkpoint stores {stored:size} of data in flight"],
    next=[
        "Use buffer debloating: with less data in flight, each checkpoint stores less and recovery reads "
        "less."
    ],
)
def stores_data_in_flight(view: Observation) -> Iterator[Found]:
    """Find that unaligned checkpoints store much data in flight."""
    stored = view.steady.persisted_bytes
    if stored and stored >= 1 << 20:
        yield Found("checkpoints", stored=stored)


@rule(
    "standstill",
    "notice",
    says="Unaligned checkpoints {overtakes:can|could} deadlock the job{at_once:| after one has expired}: "
    "{where} reads nothing from {blocked} until the barriers of {late} arrive. But these barriers are "
    "queued behind data for {blocked}, and {blocked} cannot take the data until {where} reads from it "
    "again.",
    evidence=["barriers do not overtake data on the way into {late}, nor into {where}"],
    next=[
        "Use rebalance() or keyBy() for each input of {where} that is forward, rescale or broadcast, so "
        "that barriers overtake data there.",
        "Or keep aligned checkpoints: set execution.checkpointing.unaligned.enabled to false"
        "{at_once:|, take unaligned ones without execution.checkpointing.aligned-checkpoint-timeout, or "
        "use Flink 2.3}.",
    ],
)
def stands_still(view: Observation) -> Iterator[Found]:
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
        if (blocked, joins) not in seen and (at_once or after_timeout):
            seen.add((blocked, joins))
            yield Found(
                joins,
                severity="problem" if has_failed else "notice",
                late=late,
                blocked=blocked,
                at_once=at_once,
                overtakes=overtakes,
            )


RULES = (stands_still, uneven, slow_phase, late_source, back_to_back, failed, stores_data_in_flight)
"""Rules on checkpoints, in the order of their findings."""
