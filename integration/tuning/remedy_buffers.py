"""Remedies that change buffers: how long they may take, how many there are, how small they may be."""

from __future__ import annotations

import math
from collections.abc import Iterator

from netstack import GeneratorSpec, Scenario, format_duration, format_size

from ..analysis.wording import digits, size
from .constraints import MAX_CHECKPOINT, MAX_DELAY, MIN_THROUGHPUT
from .remedy_case import Case, Remedy, line
from .summaries import TargetSummary, target_s

_LEAST_TARGET_MS = 5.0
_LEAST_SEGMENT = 4096
_OVERDRAFT = 20
_OLD = "flink-1.20"
_HEADER_BYTES = 4


def shorter_target(case: Case) -> Iterator[Remedy]:
    """A target below those of the sweep, where sizes still had room and throughput was kept."""
    shortest = case.shortest
    if shortest is None or not case.too_slow or at_floor(case, shortest):
        return
    broken = {one.constraint: one for one in shortest.shortfalls}
    slow = [one for name, one in broken.items() if name in (MAX_CHECKPOINT, MAX_DELAY)]
    if MIN_THROUGHPUT in broken or not slow:
        return
    target_ms = target_s(shortest.target) * 1e3 / max(one.excess for one in slow)
    if target_ms < _LEAST_TARGET_MS:
        return
    text = f"{math.floor(target_ms)} ms"
    yield Remedy(
        name="a shorter target",
        why=f"{shortest.target} is the shortest that was tried and kept the throughput; by proportion "
        f"{text} might do: try it in a sweep",
        measured=False,
        configuration=[line("debloat_target_s", text)],
    )


def longer_target(case: Case) -> Iterator[Remedy]:
    """A longer target than any of those tried, where all of them cost too much throughput."""
    tried = [one for one in case.targets if one.throughput_share is not None]
    if MIN_THROUGHPUT not in case.binding or not tried:
        return
    longest = tried[-1]
    assert longest.throughput_share is not None
    text = format_duration(2 * target_s(longest.target))
    yield Remedy(
        name="a longer target",
        why=f"every buffer costs its reader the same, however small; at {longest.target}, the longest target "
        f"tried, throughput is {longest.throughput_share.mean:.3f} of what it is now: try "
        "longer ones",
        measured=False,
        configuration=[line("debloat_target_s", text)],
    )


def fewer_buffers(case: Case) -> Iterator[Remedy]:
    """Where buffers are as small as they may be, only their number is left."""
    shortest = case.shortest
    if shortest is None or not case.too_slow or not at_floor(case, shortest):
        return
    least = format_size(case.scenario.config.min_segment_bytes)
    held = (
        "" if shortest.in_flight_bytes is None else f", and still hold {size(shortest.in_flight_bytes.mean)}"
    )
    old = case.scenario.preset == _OLD
    how = (
        "fewer of them hold less"
        if old
        else "Flink 2 fixes their number for a channel, so fewer channels hold less"
    )
    lines = (
        [line("exclusive_buffers_per_channel", "1"), line("floating_buffers_per_gate", "4")] if old else []
    )
    yield Remedy(
        name="fewer buffers" if old else "fewer channels",
        why=f"with a target of {shortest.target} buffers are at their minimum of {least}{held}; {how}",
        measured=False,
        configuration=lines,
        target=shortest.target,
    )


def smaller_segments(case: Case) -> Iterator[Remedy]:
    """Without debloating, where that alone breaks only what smaller segments mend."""
    slow = [one for one in case.baseline.shortfalls if one.constraint in (MAX_CHECKPOINT, MAX_DELAY)]
    if not case.too_slow or not slow or len(slow) < len(case.baseline.shortfalls):
        return
    excess = max(one.excess for one in slow)
    segment = case.scenario.config.segment_bytes
    wanted = 1 << math.floor(math.log2(segment / excess)) if excess < segment else 0
    if wanted < _LEAST_SEGMENT or wanted == segment:
        return
    yield Remedy(
        name="smaller buffers",
        why=f"without debloating the limit is missed by a factor of {digits(excess)}, and what is in flight "
        f"goes with the size of segments, {format_size(segment)}",
        measured=False,
        configuration=[line("debloat_enabled", "false"), line("segment_bytes", format_size(wanted))],
    )


def large_records(case: Case) -> Iterator[Remedy]:
    """Overdraft, or a larger minimum, where records do not fit into debloated buffers."""
    record = max(_record_sizes(case.scenario), default=0)
    costly = [
        (one.debloated_buffer_min_bytes.least, one.target)
        for one in case.targets
        if one.debloated_buffer_min_bytes is not None
        and any(shortfall.constraint == MIN_THROUGHPUT for shortfall in one.shortfalls)
    ]
    if MIN_THROUGHPUT not in case.binding or not costly or min(costly)[0] >= record:
        return
    smallest, target = min(costly)
    config = case.scenario.config
    why = f"records of {size(record)} take several buffers of {size(smallest)} each"
    if case.scenario.preset == _OLD and config.max_overdraft_buffers_per_gate < _OVERDRAFT:
        yield Remedy(
            name="overdraft buffers",
            why=f"{why}; overdraft lets a record be finished at once",
            measured=False,
            configuration=[line("max_overdraft_buffers_per_gate", str(_OVERDRAFT))],
            target=target,
        )
    if record <= config.segment_bytes:
        least = f"{math.ceil(record / 1024)} kb"
        yield Remedy(
            name="a larger minimum size",
            why=f"{why}; with a minimum of {least} one is enough",
            measured=False,
            configuration=[line("min_segment_bytes", least)],
            target=target,
        )


def at_floor(case: Case, summary: TargetSummary) -> bool:
    """Whether buffers of a target have become as small as they may be."""
    smallest = summary.debloated_buffer_min_bytes
    return smallest is not None and smallest.mean <= 1.05 * case.scenario.config.min_segment_bytes


def _record_sizes(scenario: Scenario) -> Iterator[int]:
    for vertex in scenario.vertices:
        if isinstance(vertex.source, GeneratorSpec):
            yield vertex.source.record_bytes + _HEADER_BYTES
