"""Where the time of checkpoints goes, and how much data waits before their barriers.

Each phase (`analysis.checkpoint_times`) has a cause of its own::

    trigger |-- start delay --|-- alignment --|- sync -|-- async --|- acknowledgement -| complete
            data in flight     unequal         state to  state to    messages, and
            before the barrier channels        copy      write       files of the coordinator
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..checkpoint_times import CheckpointTimes, mean_times
from ..wording import milliseconds, percent, size
from .finding import complete
from .observation import Observation
from .pool_rules import full_readers, subtasks_text

_WORTH_MS = 0.5
"""A phase that takes less cannot be told from 0."""


def phases(seen: Observation) -> CheckpointTimes | None:
    """Return what the window's completed checkpoints took; None if there is none."""
    return mean_times(seen.checkpoints)


def longest(times: CheckpointTimes) -> str:
    """Return the phase that takes most time; `NOT_TOLD` where that may be one that was not measured."""
    return max(times.phases, key=lambda name: times.phases[name])


def phases_text(times: CheckpointTimes) -> str:
    """Return all phases that can be told from 0."""
    return ", ".join(f"{name} {milliseconds(ms)}" for name, ms in times.phases.items() if ms >= _WORTH_MS)


def data_in_flight(seen: Observation) -> Iterator[str]:
    """How much waits before each vertex, and how long that takes at its rate, where all of it is known."""
    for vertex in seen.vertices:
        writers = [writer for _, writer in seen.inputs(vertex)]
        senders = complete(held for writer in writers for held in writer.outputQueueSize)
        full = full_readers(vertex)  # then what the writers hold is for them
        receivers = complete(_of(vertex.inputQueueSize, full))
        rates = complete(_of(vertex.bytes_in_per_s, full))
        if senders is None or receivers is None or rates is None:
            continue
        queued, rate = sum(senders) + sum(receivers), sum(rates)
        if queued and rate:
            whose = subtasks_text(vertex, full) if full else vertex.name
            yield (
                f"{size(queued)} wait before {whose}, {percent(sum(senders) / queued)} at the senders: "
                f"{milliseconds(1000 * queued / rate)} at {size(rate)}/s"
            )


def _of(values: Sequence[float | None], subtasks: Sequence[int]) -> list[float | None]:
    """What there is of some subtasks, of all if none are named."""
    return [value for subtask, value in enumerate(values) if not subtasks or subtask in subtasks]
