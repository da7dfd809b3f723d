"""The interface of a debloating policy, which sizes the buffers of a gate.

A gate asks its policy once a period (``taskmanager.network.memory.buffer-debloat.period``)::

    bytes polled, time with work --> throughput --\\
                                                   recalculate() --> (channel, size to announce), ...
    buffers in use, blocked, ... of each channel --/

FLIP-183, Flink's own policy, sums the buffers in use over all channels and announces one size to all.
Another one may count otherwise, average otherwise, or give each channel a size of its own. To write one,
derive a class from `DebloatPolicy` and name it to `register_policy`, or name it where it is wanted as
"package.module:Class". A policy decides from its arguments alone: no clock, no randomness.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import ClassVar, Protocol

from .debloat import BufferDebloater, BufferSizeEMA
from .errors import AnnouncementError

Announcement = tuple[int, int]
"""Place of a channel in its gate, and the size in bytes that its producer is to be asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebloatSettings:
    """Flink's options of debloating and of segments, as a policy gets them."""

    target_s: float = 1.0
    """Target time for the consumption of all waiting data."""
    period_s: float = 0.2
    """Time between two recalculations."""
    max_size: int = 32 << 10
    """Bytes of a segment."""
    min_size: int = 256
    starting_size: int = 1024
    """Bytes of a buffer until the first announcement."""
    threshold_percent: int = 25
    """Least change of a size that is announced, in percent."""
    samples: int = 20
    """Number of sizes in the average."""

    def debloater(self, average: type[BufferSizeEMA] = BufferSizeEMA) -> BufferDebloater:
        """Flink's arithmetic with these settings: average, or another one, bounds and threshold.

        Raises:
            ValueError: if the settings contradict each other.
        """
        return BufferDebloater(
            self.target_s,
            self.max_size,
            self.min_size,
            self.starting_size,
            self.threshold_percent,
            self.samples,
            average,
        )


class DebloatedChannel(Protocol):
    """A channel as a policy sees it; each value is of this moment."""

    @property
    def buffers_in_use(self) -> int:
        """Buffers that wait here, and at the producer as far as is known (Flink's getBuffersInUseCount)."""
        ...

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait here; those at the producer are not known."""
        ...

    @property
    def blocked(self) -> bool:
        """Whether a barrier has come on it and the producer stays silent until alignment is over.

        A blocked producer reports a backlog of 0, whatever waits there.
        """
        ...

    @property
    def released(self) -> bool:
        """Whether it has ended; what is announced to it is dropped."""
        ...


class DebloatPolicy(ABC):
    """Sizes the buffers of one gate; each gate has a policy object of its own.

    `last_announced`: bytes, the smallest size in force, shown as debloatedBufferSize. `estimated_time_s`:
    how long what waits takes to be consumed, shown as estimatedTimeToConsumeBuffersMs. Both are gauges that
    `recalculate` keeps up to date.
    """

    __slots__ = ("estimated_time_s", "last_announced", "settings")

    watches_polls: ClassVar[bool] = False
    """Whether the gate is to call `polled`, which costs a little for each buffer."""

    def __init__(self, settings: DebloatSettings) -> None:
        self.settings = settings
        self.last_announced = settings.starting_size
        self.estimated_time_s = 0.0

    @abstractmethod
    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take one step; returns what is worth announcing, in the order in which it is to be announced.

        A size is a whole number from `settings.min_size` to `settings.max_size`; others fail the job.

        `throughput`: bytes a second polled from the gate since the last step, over the time in which there
        was something to poll. `channels`: all of the gate, in order. `now`: seconds.
        """

    def polled(self, channel: int, size: int) -> None:  # noqa: B027 - few policies want to know
        """A buffer or event of `size` bytes was polled from the channel in that place, in its turn.

        Barriers that overtake have no turn, and may be left out.
        """


def announcements(
    policy: DebloatPolicy, throughput: int, channels: Sequence[DebloatedChannel], now: float
) -> list[Announcement]:
    """Let `policy` take a step; returns what it announces, if that can be announced.

    Raises:
        AnnouncementError: if it returns something else, such as None or sizes that are no whole numbers; if
            there is no channel in a place, or a size is not between those of its settings.
    """
    name = type(policy).__qualname__
    answer = policy.recalculate(throughput, channels, now)
    if answer is None:
        raise AnnouncementError(
            f"{name}.recalculate has returned None; it has to return (place, size) pairs, or ()"
        )
    checked = []
    low, high = policy.settings.min_size, policy.settings.max_size
    for place, size in answer:
        if not 0 <= place < len(channels):
            raise AnnouncementError(
                f"{name} announces to channel {place!r} of {len(channels)}, counted from 0"
            )
        if not low <= size <= high:
            allowed = f"the settings allow {low} to {high}"
            raise AnnouncementError(f"{name} announces {size!r} bytes; {allowed}")
        try:
            checked.append((index(place), index(size)))
        except TypeError:
            raise AnnouncementError(
                f"{name} announces {size!r} bytes to channel {place!r}; both have to be whole numbers"
            ) from None
    return checked


def to_all(size: int, channels: Sequence[DebloatedChannel]) -> Iterator[Announcement]:
    """Announce `size` to every channel."""
    return ((place, size) for place in range(len(channels)))
