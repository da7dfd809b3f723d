"""Where the time of checkpoints goes, and how much data waits before their barriers.

The phases are those of the subtask that acknowledged last, since it is they that add up to the duration::

    trigger |-- start delay --|-- alignment --|- sync -|-- async --|- acknowledgement -| complete
            data in flight     unequal         state to  state to    messages, and
            before the barrier channels        copy      write       files of the coordinator
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from netstack import VertexSteady

from ..reporting.checkpoint_phases import ALIGNMENT, COMPLETED, PHASES, START_DELAY, last_part
from ..reporting.wording import milliseconds, percent, size
from .finding import known
from .observation import Observation
from .pool_rules import full_readers, subtasks_text


class Phases(NamedTuple):
    """Where the time of a checkpoint goes: medians over checkpoints, in ms."""

    duration_ms: float
    parts: tuple[tuple[str, float], ...]
    """Phase and its time, in the order in which they come."""
    where: str
    """The vertex whose subtask is most often the last one."""

    @property
    def longest(self) -> str:
        """The phase that takes most time."""
        return max(self.parts, key=lambda part: part[1])[0]

    @property
    def text(self) -> str:
        """All phases that can be told from 0."""
        return ", ".join(f"{name} {milliseconds(time)}" for name, time in self.parts if time >= 0.5)


def phases(seen: Observation) -> Phases | None:
    """Return the phases of the window's completed checkpoints; None if none was completed."""
    lasts = [last_part(found) for found in seen.checkpoints if found.status == COMPLETED]
    there = [part for part in lasts if part is not None]
    if there:
        parts = tuple(
            (name, median(part.phases[index] for part in there)) for index, name in enumerate(PHASES)
        )
        where = Counter(part.vertex for part in there).most_common(1)[0][0]
        return Phases(median(part.end_to_end_ms for part in there), parts, where)
    return _phases_of_steady(seen)


def _phases_of_steady(seen: Observation) -> Phases | None:
    """What is left to say where no single checkpoint is known: the slowest subtasks of the slowest vertex."""
    duration = seen.steady.end_to_end_ms
    timed = [vertex for vertex in seen.vertices if vertex.start_delay_ms_max_subtask is not None]
    if duration is None or not timed:
        return None
    last = max(timed, key=_barriers_ms)
    delay, alignment = last.start_delay_ms_max_subtask or 0.0, last.alignment_ms_max_subtask or 0.0
    rest = max(0.0, duration - delay - alignment)
    return Phases(
        duration, ((START_DELAY, delay), (ALIGNMENT, alignment), ("what comes after", rest)), last.name
    )


def data_in_flight(seen: Observation) -> Iterator[str]:
    """How much waits before each vertex, and how long that takes at its rate."""
    for vertex in seen.vertices:
        writers = [writer for _, writer in seen.inputs(vertex)]
        rate = sum(known(vertex.bytes_in_per_s))
        if not writers or not rate:
            continue
        senders = sum(sum(known(writer.outputQueueSize)) for writer in writers)
        full = full_readers(vertex)
        at_receivers = sum(known(vertex.inputQueueSize))
        if full:  # then what the writers hold is for them
            at_receivers = sum(_of(vertex.inputQueueSize, full))
            rate = sum(_of(vertex.bytes_in_per_s, full))
        queued = senders + at_receivers
        if queued and rate:
            whose = subtasks_text(vertex, full) if full else vertex.name
            yield (
                f"{size(queued)} wait before {whose}, {percent(senders / queued)} at the senders: "
                f"{milliseconds(1000 * queued / rate)} at {size(rate)}/s"
            )


def _of(values: Sequence[float | None], subtasks: Sequence[int]) -> list[float]:
    """What is known of some subtasks."""
    return known(value for subtask, value in enumerate(values) if subtask in subtasks)


def _barriers_ms(vertex: VertexSteady) -> float:
    return (vertex.start_delay_ms_max_subtask or 0.0) + (vertex.alignment_ms_max_subtask or 0.0)
