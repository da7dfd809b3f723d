"""The interface of a debloating policy, which sizes the buffers of a gate.

A gate asks its policy once a period (``taskmanager.network.memory.buffer-debloat.period``)::

    bytes polled, time with work --> throughput --\\
                                                   recalculate() --> (channel, size to announce), ...
    buffers in use, blocked, ... of each channel --/

FLIP-183, Flink's own policy, sums the buffers in use over all channels and announces one size to all
channels. Other policies may count or average differently, or give each channel its own size. To write a
policy, derive a class from `DebloatPolicy`. Pass it to `register_policy`, or refer to it in a scenario as
"package.module:Class". A policy decides from its arguments alone, without a clock or randomness.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import ClassVar, Protocol

from .debloat import BufferDebloater, BufferSizeEMA
from .errors import AnnouncementError

__all__ = ["Announcement", "DebloatPolicy", "DebloatSettings", "DebloatedChannel", "announcements", "to_all"]

Announcement = tuple[int, int]
"""Index of a channel in its gate, and the buffer size in bytes to request from its producer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebloatSettings:
    """Flink's options for debloating and segments, as passed to a policy."""

    target_s: float = 1.0
    """Target time to consume all in-flight data."""
    period_s: float = 0.2
    """Time between two recalculations."""
    max_size: int = 32 << 10
    """Bytes of a segment."""
    min_size: int = 256
    starting_size: int = 1024
    """Bytes of a buffer until the first announcement."""
    threshold_percent: int = 25
    """Minimum change of a size for an announcement, in percent."""
    samples: int = 20
    """Number of samples in the moving average."""

    @property
    def steps_to_grow(self) -> int:
        """Number of steps from one announcement to the next while the size grows as fast as it can."""
        return max(
            1, math.ceil(math.log1p(self.threshold_percent / 100) / math.log1p(2 / (self.samples + 1)))
        )

    def debloater(self, average: type[BufferSizeEMA] = BufferSizeEMA) -> BufferDebloater:
        """Return Flink's calculation with these settings; `average` is the class of the moving average.

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
    """The properties of a channel that a policy uses; all values are current."""

    @property
    def buffers_in_use(self) -> int:
        """Buffers queued at the gate, plus the backlog that the producer has reported (Flink's
        getBuffersInUseCount).
        """
        ...

    @property
    def queued_bytes(self) -> int:
        """Bytes queued at the gate. Bytes queued at the producer are not known."""
        ...

    @property
    def blocked(self) -> bool:
        """Whether a barrier has arrived and the producer sends nothing until the alignment is over.

        The producer of a blocked channel reports a backlog of 0, however many buffers wait there.
        """
        ...

    @property
    def released(self) -> bool:
        """Whether the channel has ended, so that announcements to it are dropped."""
        ...


class DebloatPolicy(ABC):
    """Sizes the buffers of one gate; each gate has a policy object of its own.

    `last_announced`: the smallest size in force, in bytes; shown as debloatedBufferSize. `estimated_time_s`:
    the time to consume the queued data; shown as estimatedTimeToConsumeBuffersMs. `recalculate` updates both
    gauges.
    """

    __slots__ = ("estimated_time_s", "last_announced", "settings")

    watches_polls: ClassVar[bool] = False
    """Whether the gate calls `polled`, which adds a small cost for each buffer."""

    def __init__(self, settings: DebloatSettings) -> None:
        self.settings = settings
        self.last_announced = settings.starting_size
        self.estimated_time_s = 0.0

    @abstractmethod
    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take one step; returns the sizes to announce, in the order in which the gate announces them.

        A size is an integer from `settings.min_size` to `settings.max_size`; any other value fails the job.
        `throughput`: bytes per second polled from the gate since the last step, counting only the time in
        which there was data to poll. `channels`: all channels of the gate, in order. `now`: seconds.
        """

    def polled(self, channel: int, size: int) -> None:  # noqa: B027 - few policies need it
        """Record that a buffer or event of `size` bytes was polled from the channel with index `channel`.

        The gate may omit the call for barriers that overtake data.
        """


def announcements(
    policy: DebloatPolicy, throughput: int, channels: Sequence[DebloatedChannel], now: float
) -> list[Announcement]:
    """Run one step of `policy`; returns its announcements after checking them and the gauges of the policy.

    If the step fails, the gauges keep their values, since the job reads them once more at its end.

    Raises:
        AnnouncementError: if the policy does not return pairs of integers, if a channel index does not exist,
            if a size is outside the limits of the settings, or if a gauge of the policy is not a number.
    """
    before = policy.last_announced, policy.estimated_time_s
    try:
        checked = _checked(policy, policy.recalculate(throughput, channels, now), channels)
        gauges = _gauges(policy)
    except Exception:
        policy.last_announced, policy.estimated_time_s = before
        raise
    policy.last_announced, policy.estimated_time_s = gauges
    return checked


def _checked(
    policy: DebloatPolicy, answer: Iterable[Announcement] | None, channels: Sequence[DebloatedChannel]
) -> list[Announcement]:
    name = type(policy).__qualname__
    if answer is None:
        raise AnnouncementError(
            f"{name}.recalculate has returned None; it has to return (channel index, size) pairs, or ()"
        )
    checked = []
    low, high = policy.settings.min_size, policy.settings.max_size
    for place, size in answer:
        if not 0 <= place < len(channels):
            raise AnnouncementError(
                f"{name} announces a size to channel {place!r}, but the gate has only {len(channels)} "
                "channels, counted from 0"
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


def _gauges(policy: DebloatPolicy) -> tuple[int, float]:
    """Return `last_announced` and `estimated_time_s` of a policy.

    Raises:
        AnnouncementError: the first one is no whole number, or the second one no number.
    """
    name = type(policy).__qualname__
    try:
        size = index(policy.last_announced)
    except TypeError:
        wrong = f"{name}.last_announced is {policy.last_announced!r}"
        raise AnnouncementError(f"{wrong}; it has to be a whole number of bytes") from None
    try:
        return size, float(policy.estimated_time_s)
    except (TypeError, ValueError):
        wrong = f"{name}.estimated_time_s is {policy.estimated_time_s!r}"
        raise AnnouncementError(f"{wrong}; it has to be a number of seconds") from None


def to_all(size: int, channels: Sequence[DebloatedChannel]) -> Iterator[Announcement]:
    """Announce `size` to every channel."""
    return ((place, size) for place in range(len(channels)))
