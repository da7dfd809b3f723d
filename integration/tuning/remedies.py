"""Remedies other than debloating, each with its reason in the figures of the sweep.

A figure is measured if the sweep has such a run, else estimated; `reruns` emulates estimated ones where
possible. Most remedies change buffers: their timeout, number or least size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from netstack import (
    OPTIONS,
    GeneratorSpec,
    Result,
    Scenario,
    format_duration,
    format_size,
    from_json,
    is_before,
)

from ..comparison.window_figures import consumers
from ..diagnosis.back_pressure_rules import slow_reader_in_turns
from ..diagnosis.observation import (
    BUSY,
    NO_PAUSE,
    at_minimum,
    is_larger,
    may_overtake,
    observations,
    share,
    share_of_interval,
)
from ..number_text import digits, milliseconds, percent, size
from ..optional_figures import known
from ..sizing.job_size import wire_bytes
from .constraints import CHECKPOINTS, MAX_CHECKPOINT, MAX_DELAY, MIN_THROUGHPUT, Constraints, Shortfall
from .summaries import OFF, TargetSummary, target_s

if TYPE_CHECKING:
    from .point_rows import PointRow

_LEAST_TARGET_MS = 5.0
_LEAST_TIMEOUT_MS = 50.0
_LEAST_SEGMENT = 4096
_OVERDRAFT = 20
_OLD = "flink-1.20"

_PAUSE_FACTOR = 5


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A change to try instead of, or beside, a debloat target."""

    name: str
    why: str
    measured: bool = False
    """Whether a run of the sweep shows it; otherwise it is estimated, or emulated afterwards."""
    configuration: list[str] = []
    """Lines for Flink's configuration file."""
    target: str | None = None
    """The debloat target to combine it with, if its lines set none; None: it works with any."""
    emulated_s: float | None = None
    """Emulated seconds of the run that verified it; None: no such run."""


@dataclass(frozen=True, slots=True)
class Case:
    """Input of the rules: the figures of a sweep, and the constraints that rule out all its settings."""

    scenario: Scenario
    """The job, with the values of all axes but the target."""
    rows: Sequence[PointRow]
    baseline: TargetSummary
    targets: Sequence[TargetSummary]
    """All targets, shortest first."""
    constraints: Constraints
    binding: Sequence[str]
    """The constraints that rule out all targets; empty if one fits."""
    now: TargetSummary

    @property
    def too_slow(self) -> bool:
        """Whether checkpoints or records take too long at every target."""
        return bool({MAX_CHECKPOINT, MAX_DELAY, CHECKPOINTS} & set(self.binding))

    @property
    def leaves_no_pause(self) -> bool:
        """Whether checkpoints now follow one another without a pause, which alone justifies remedies."""
        return _leaves_no_pause(self, self.now)

    def shortfall(self, name: str) -> Shortfall | None:
        """Return the shortfall of the setting that misses a constraint by least."""
        shortfalls = [
            each for target in self.targets for each in target.shortfalls if each.constraint == name
        ]
        return min(shortfalls, key=lambda shortfall: shortfall.excess, default=None)

    @property
    def shortest(self) -> TargetSummary | None:
        """The shortest target that was measured."""
        return next((summary for summary in self.targets if summary.seeds), None)


def line(field: str, text: str) -> str:
    """Return a line of Flink's configuration file, for a field of `NetworkConfig`."""
    return f"{OPTIONS[field].name}: {text}"


def _shorter_target(case: Case) -> Iterator[Remedy]:
    """Propose a shorter target than the sweep has, if buffer sizes had room and throughput was kept."""
    shortest = case.shortest
    if shortest is None or not case.too_slow or _at_floor(case, shortest):
        return
    slow = _slow(shortest)
    if not slow or MIN_THROUGHPUT in [shortfall.constraint for shortfall in shortest.shortfalls]:
        return
    target_ms = target_s(shortest.target) * 1e3 / max(shortfall.excess for shortfall in slow)
    if target_ms < _LEAST_TARGET_MS:
        return
    text = f"{math.floor(target_ms)} ms"
    yield Remedy(
        name="a shorter target",
        why=f"{shortest.target} is the shortest that was tried and kept the throughput; by proportion "
        f"{text} may be enough, which is not tried",
        configuration=[line("debloat_target_s", text)],
    )


def _longer_target(case: Case) -> Iterator[Remedy]:
    """Propose a longer target than the sweep has, if all of them cost too much throughput."""
    measured = [summary for summary in case.targets if summary.throughput_share is not None]
    if MIN_THROUGHPUT not in case.binding or not measured:
        return
    longest = measured[-1]
    assert longest.throughput_share is not None
    text = format_duration(2 * target_s(longest.target))
    yield Remedy(
        name="a longer target",
        why=f"each buffer costs its reader the same, however small; at {longest.target}, the longest target "
        f"tried, throughput is {longest.throughput_share.mean:.3f} of what it is now",
        configuration=[line("debloat_target_s", text)],
    )


def _fewer_buffers(case: Case) -> Iterator[Remedy]:
    """Propose fewer buffers, if buffers already have their minimum size."""
    shortest = case.shortest
    if shortest is None or not case.too_slow or not _at_floor(case, shortest):
        return
    least, held = format_size(case.scenario.config.min_segment_bytes), shortest.in_flight_bytes
    holding = "" if held is None else f", and still hold {size(held.mean)}"
    name, lines = "fewer channels", list[str]()
    how = "Flink 2 fixes their number for each channel, so fewer channels hold less"
    if case.scenario.preset == _OLD:
        name, how = "fewer buffers", "fewer of them hold less"
        lines = [line("exclusive_buffers_per_channel", "1"), line("floating_buffers_per_gate", "4")]
    yield Remedy(
        name=name,
        why=f"with a target of {shortest.target} buffers are at their minimum of {least}{holding}; {how}",
        configuration=lines,
        target=shortest.target,
    )


def _smaller_segments(case: Case) -> Iterator[Remedy]:
    """Propose smaller segments without debloating, if that fixes the only limit that no debloating breaks."""
    slow = _slow(case.baseline)
    if not case.too_slow or not slow or len(slow) < len(case.baseline.shortfalls):
        return
    excess = max(shortfall.excess for shortfall in slow)
    segment = case.scenario.config.segment_bytes
    wanted = 1 << math.floor(math.log2(segment / excess)) if excess < segment else 0
    if wanted < _LEAST_SEGMENT or wanted == segment:
        return
    yield Remedy(
        name="smaller buffers",
        why=f"without debloating the limit is missed by a factor of {digits(excess)}, and what is in flight "
        f"is proportional to the size of segments, {format_size(segment)}",
        configuration=[line("debloat_enabled", "false"), line("segment_bytes", format_size(wanted))],
    )


def _large_records(case: Case) -> Iterator[Remedy]:
    """Propose overdraft, or a larger minimum, if records do not fit into debloated buffers."""
    sources = [vertex for vertex in case.scenario.vertices if isinstance(vertex.source, GeneratorSpec)]
    record = max(map(wire_bytes, sources), default=0)
    costly = [
        (summary.debloated_buffer_min_bytes.least, summary.target)
        for summary in case.targets
        if summary.debloated_buffer_min_bytes is not None
        and any(shortfall.constraint == MIN_THROUGHPUT for shortfall in summary.shortfalls)
    ]
    if MIN_THROUGHPUT not in case.binding or not costly or not is_larger(record, min(costly)[0]):
        return
    smallest, target = min(costly)
    config = case.scenario.config
    why = f"records of {size(record)} take several buffers of {size(smallest)} each"
    if case.scenario.preset == _OLD and config.max_overdraft_buffers_per_gate < _OVERDRAFT:
        yield Remedy(
            name="overdraft buffers",
            why=f"{why}; overdraft lets a record be finished at once",
            configuration=[line("max_overdraft_buffers_per_gate", str(_OVERDRAFT))],
            target=target,
        )
    if record <= config.segment_bytes:
        least = f"{math.ceil(record / 1024)} kb"
        yield Remedy(
            name="a larger minimum size",
            why=f"{why}; with a minimum of {least} one is enough",
            configuration=[line("min_segment_bytes", least)],
            target=target,
        )


def _slow(summary: TargetSummary) -> list[Shortfall]:
    """Return the time limits that a setting breaks."""
    return [each for each in summary.shortfalls if each.constraint in (MAX_CHECKPOINT, MAX_DELAY)]


def _at_floor(case: Case, summary: TargetSummary) -> bool:
    """Whether the buffers of a target have their minimum size."""
    smallest = summary.debloated_buffer_min_bytes
    return smallest is not None and at_minimum(smallest.mean, case.scenario.config)


def _unaligned(case: Case) -> Iterator[Remedy]:
    """Propose unaligned checkpoints, at once or after a timeout, if the probes show that they are fast."""
    binds = {MAX_CHECKPOINT, CHECKPOINTS} & set(case.binding)
    if not (binds or case.leaves_no_pause) or not may_overtake(case.scenario.edges, case.scenario.vertices):
        return
    limit = case.constraints.max_checkpoint_ms
    if not binds and case.now.end_to_end_ms is not None:
        limit = min(case.now.end_to_end_ms.mean / 2, limit or math.inf)  # less is hardly worth the change
    quick = [
        (summary, summary.unaligned_end_to_end_p95_ms.greatest)
        for summary in case.targets
        if summary.unaligned_end_to_end_p95_ms is not None
        and (limit is None or summary.unaligned_end_to_end_p95_ms.greatest <= limit)
    ]
    if not quick:
        return
    target, time = max(quick, key=lambda pair: target_s(pair[0].target))
    persisted, delayed = target.persisted_bytes, target.record_delay_ms
    stored = "" if persisted is None else f" and store {size(persisted.mean)} each"
    delay = "" if delayed is None else f"; records wait {milliseconds(delayed.mean)}"
    nothing = f", so this does not help with {MAX_DELAY}" if MAX_DELAY in case.binding else ""
    yield Remedy(
        name="unaligned checkpoints",
        why=f"with a target of {target.target} 95 % of them take at most {milliseconds(time)}{stored}{delay} "
        f"as with aligned ones{nothing}",
        measured=True,
        configuration=[line("unaligned_enabled", "true")],
    )
    if binds and limit is not None and limit - time >= _LEAST_TIMEOUT_MS:
        yield _aligned_with_timeout(target.target, limit - time, time)


def _aligned_with_timeout(target: str, left_ms: float, overtaking_ms: float) -> Remedy:
    """Return the remedy of aligned checkpoints that become unaligned after a timeout."""
    timeout = f"{math.floor(left_ms / 10) * 10} ms"
    return Remedy(
        name="aligned checkpoints with a timeout",
        why=f"they stay aligned and store no data in flight while queues are short; a barrier that is not "
        f"aligned after {timeout} overtakes, which takes another {milliseconds(overtaking_ms)}",
        configuration=[line("unaligned_enabled", "true"), line("aligned_checkpoint_timeout_s", timeout)],
        target=target,
    )


def _parallelism(case: Case) -> Iterator[Remedy]:
    """Propose more subtasks for the bottleneck vertex."""
    if not case.too_slow and not case.leaves_no_pause:
        return
    name, busy = _busiest(case.rows)
    if busy < BUSY:
        return
    broken = known(case.shortfall(constraint) for constraint in case.binding)
    factors = [shortfall.excess for shortfall in broken if math.isfinite(shortfall.excess)]
    need = f"; the limit needs about {digits(max(factors))} times its rate" if factors else ""
    yield Remedy(
        name="more parallelism",
        why=f"{name} is busy {percent(busy)} of the time, and data in flight drains at its rate{need}",
    )


def _pauses(case: Case) -> Iterator[Remedy]:
    """Propose a longer interval, if checkpoints follow one another without a pause."""
    interval = case.scenario.config.checkpoint_interval_s
    if interval is None or not (MAX_CHECKPOINT in case.binding or case.leaves_no_pause):
        return
    followed = [case.now] if case.leaves_no_pause and not case.binding else case.targets
    times = [
        (summary.end_to_end_ms.mean, summary.target)
        for summary in followed
        if summary.end_to_end_ms is not None and not _at_floor(case, summary)
    ]
    shortest, target = min(times, default=(0.0, ""))
    if share_of_interval(shortest, interval) < NO_PAUSE:
        return
    debloated = target != OFF
    misled = "; debloating sees no backlog in blocked channels, so their buffers grow"
    yield Remedy(
        name="a longer checkpoint interval",
        why=f"checkpoints take {milliseconds(shortest)} at an interval of {milliseconds(interval * 1e3)}, so "
        f"there is no pause between them{misled if debloated else ''}",
        configuration=[line("checkpoint_interval_s", f"{math.ceil(interval * _PAUSE_FACTOR)} s")],
        target=target if debloated else None,
    )


def _leaves_no_pause(case: Case, summary: TargetSummary) -> bool:
    interval, took = case.scenario.config.checkpoint_interval_s, summary.end_to_end_ms
    return bool(interval and took and share_of_interval(took.mean, interval) >= NO_PAUSE)


def _state(case: Case) -> Iterator[Remedy]:
    """Propose smaller or incremental snapshots, if they take most of the time."""
    state, whole = case.baseline.state_ms, case.baseline.end_to_end_ms
    if state is None or whole is None or not whole.mean or state.mean < whole.mean / 2:
        return
    yield Remedy(
        name="smaller or incremental snapshots",
        why=f"the snapshot of the subtask that acknowledges last takes {milliseconds(state.mean)} of the "
        f"{milliseconds(whole.mean)} of a checkpoint, independent of buffers",
        measured=True,
    )


def _adaptive(case: Case, target: str | None = None) -> Iterator[Remedy]:
    """Propose adaptive partition selection, if a slow subtask holds back others that get as many records."""
    result = _first_result(case.rows)
    findings = [] if result is None else slow_reader_in_turns(observations(result)[-1])
    for finding in findings:
        version = " of Flink 2.3" if is_before(case.scenario.preset, "2.3") else ""
        yield Remedy(
            name=f"adaptive partition selection{version}",
            why=f"{finding.where}: {finding.evidence[0]}; it changes the order of records",
            configuration=[line("adaptive_partitioner_enabled", "true")],
            target=target,
        )
        return  # the option is one of the job


_RULES: tuple[Callable[[Case], Iterator[Remedy]], ...] = (
    _adaptive,
    _unaligned,
    _shorter_target,
    _longer_target,
    _fewer_buffers,
    _smaller_segments,
    _parallelism,
    _large_records,
    _pauses,
    _state,
)


def remedies(case: Case) -> list[Remedy]:
    """Return the remedies where constraints rule out all targets, or no target is better than now."""
    return [remedy for rule in _RULES for remedy in rule(case)]


def remedies_beside(case: Case, target: str | None) -> list[Remedy]:
    """Return the remedies that help together with the advised target; None: without debloating."""
    return list(_adaptive(case, target))


def _busiest(rows: Sequence[PointRow]) -> tuple[str, float]:
    """Return the busiest vertex with input, and its busy share of time, from the first result."""
    result = _first_result(rows)
    if result is None:
        return "", 0.0
    shares = [
        (busy, vertex.name)
        for vertex in consumers(result, result.steady[-1])
        if (busy := share(vertex.busy_ms_per_s)) is not None
    ]
    most, name = max(shares, default=(0.0, ""))
    return name, most


def _first_result(rows: Sequence[PointRow]) -> Result | None:
    """Return the result of the first finished run that kept it."""
    ended = [row for row in rows if row.probe in ("main", "baseline") and row.status == "finished"]
    texts = [row.result for row in ended if row.result is not None]
    return from_json(texts[0]) if texts else None
