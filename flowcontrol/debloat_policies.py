"""Debloating policies: Flink's own (FLIP-183), and policies to compare with it.

All policies except `PerChannelPolicy` divide the bytes of a target time by a count of buffers. They differ in
this count:

| policy | count |
|---|---|
| `FlinkPolicy` | the buffers in use of all channels |
| `FrozenWhileBlockedPolicy` | as `FlinkPolicy`, but not lowered while a channel is blocked for alignment |
| `BurstPolicy` | as `FrozenWhileBlockedPolicy`, but falling slowly from its peak |
| `LongestChannelPolicy` | the number of channels with data, times the buffers in use of the longest channel |
| `LongestWhenUnblockedPolicy` | as `LongestChannelPolicy`; no recalculation while a channel is blocked |

**Blocked channels.** A subpartition that is blocked for alignment reports a backlog of 0 and sends nothing.
So the count of buffers in use falls towards 0, although as many buffers as before wait behind the barrier.
The measured throughput covers only the channels whose barrier has not arrived yet. Flink recalculates
nevertheless, so buffers grow during every aligned checkpoint::

    in use           21 21 21 | 15 9 4 1 | 21 21      blocked between the bars
    Flink            21 21 21 | 15 9 4 1 | 21 21
    frozen           21 21 21 | 21 .. 21 | 21 21
    when unblocked   21 21 21 |          | 21 21

**The longest channel.** A gate polls its channels round robin, one buffer at a time. So a barrier behind n
buffers of its channel is polled after n rounds. A round takes one buffer from each of the k channels with
data. A checkpoint waits for the longest channel. If the other channels are refilled meanwhile, k * max(n)
buffers are polled before the barrier of the longest channel. If the queues differ in length, this number is
larger than the sum of the buffers in use::

    ch0 [########]     8 rounds of 3 buffers = 24; the sum is 8 + 2 + 2 = 12
    ch1 [##]
    ch2 [##]

**Bursts.** A moving average over 20 periods of 200 ms takes about two seconds to halve a size, while a burst
fills all buffers within milliseconds. Flink also divides by the buffers that are in use *now*. So while
queues are empty, buffers grow to whole segments, and the next burst fills these segments. `BurstPolicy`
remembers the peak of the count, and lowers a size at once if it is much too large. It grows buffers as slowly
as Flink, since a buffer that is too small for a while costs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from .debloat import BufferDebloater, BufferSizeEMA
from .debloat_policy import Announcement, DebloatedChannel, DebloatPolicy, DebloatSettings, to_all
from .throughput import MILLIS_PER_SECOND


class FlinkPolicy(DebloatPolicy):
    """FLIP-183 as in Flink (BufferDebloater), described in the module `flowcontrol.debloat`.

    A policy that only differs in the count of buffers overrides `buffers_in_use`.
    """

    __slots__ = ("_debloater",)

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self._debloater = settings.debloater()

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take one step of the moving average; announce one size to all channels if it changed enough."""
        debloater = self._debloater
        size = debloater.recalculate(throughput, self.buffers_in_use(channels))
        self.last_announced = debloater.last_announced
        self.estimated_time_s = debloater.estimated_time_s
        return () if size is None else to_all(size, channels)

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """Return the number of buffers among which the bytes of the target time are divided."""
        in_use = 0
        for channel in channels:
            in_use += channel.buffers_in_use
        return in_use


class FrozenWhileBlockedPolicy(FlinkPolicy):
    """FLIP-183, but the count of buffers in use does not fall while a channel is blocked for alignment."""

    __slots__ = ("_before",)

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self._before = 0

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """Return Flink's count; while a channel is blocked, at least the count from before it was blocked."""
        in_use = super().buffers_in_use(channels)
        if any(channel.blocked for channel in channels):
            return max(in_use, self._before)
        self._before = in_use
        return in_use


PEAK_HALF_LIFE_S = 30.0
"""Time in seconds in which the remembered peak of the count falls to half."""

JUMP = 0.25
"""A size drops at once if it exceeds the desired size by more than this fraction of itself.

The value is Flink's default threshold for announcements.
"""


class BurstPolicy(FrozenWhileBlockedPolicy):
    """FLIP-183, but the count falls slowly from its peak, and a size that is much too large drops at once.

    Like `FrozenWhileBlockedPolicy`, it does not lower the count while a channel is blocked.
    """

    __slots__ = ("_in_use", "_kept", "_peak")

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self._debloater = settings.debloater(_JumpingEMA)
        self._kept = 0.5 ** (settings.period_s / PEAK_HALF_LIFE_S)
        self._in_use = 0
        self._peak = 0.0

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take one step; the estimated time uses the current count of buffers in use, not the peak."""
        announced = super().recalculate(throughput, channels, now)
        in_use = max(1, self._in_use)
        milliseconds = self.last_announced * in_use * MILLIS_PER_SECOND // max(1, throughput)
        self.estimated_time_s = milliseconds / MILLIS_PER_SECOND
        return announced

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """Return the buffers in use, or their decayed peak if that is higher."""
        self._in_use = super().buffers_in_use(channels)
        self._peak = max(self._in_use, self._peak * self._kept)
        return round(self._peak)


class _JumpingEMA(BufferSizeEMA):
    """Moving average that drops to the desired size at once if the size is too large by more than `JUMP`."""

    __slots__ = ("_average_alpha",)

    def __init__(self, starting_size: int, max_size: int, min_size: int, samples: int) -> None:
        super().__init__(starting_size, max_size, min_size, samples)
        self._average_alpha = self.alpha

    def calculate(self, total_bytes: int, buffers: int) -> int:
        too_large = buffers > 0 and total_bytes / buffers < self._size * (1 - JUMP)
        self.alpha = 1.0 if too_large else self._average_alpha
        return super().calculate(total_bytes, buffers)


def frozen_counts(channels: Sequence[DebloatedChannel], before: dict[int, int]) -> list[int]:
    """Return the buffers in use of each channel; a blocked channel has at least its count from `before`.

    `before` maps the index of each channel to its last count while it was not blocked; this function updates
    it.
    """
    counts = []
    for place, channel in enumerate(channels):
        count = channel.buffers_in_use
        if channel.blocked:
            count = max(count, before.get(place, 0))
        else:
            before[place] = count
        counts.append(count)
    return counts


class LongestChannelPolicy(FlinkPolicy):
    """FLIP-183, but each channel with data counts as many buffers as the longest channel.

    The count of a channel is not lowered while it is blocked for alignment.
    """

    __slots__ = ("_before",)

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self._before: dict[int, int] = {}

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """Return the number of channels with data, times the count of the longest channel."""
        counts = frozen_counts(channels, self._before)
        return sum(count > 0 for count in counts) * max(counts, default=0)


class LongestWhenUnblockedPolicy(LongestChannelPolicy):
    """As `LongestChannelPolicy`, but without recalculation while a channel is blocked.

    A skipped recalculation announces nothing and leaves the average and the gauges unchanged.
    """

    __slots__ = ()

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take one step of the moving average, if no channel is blocked."""
        if any(channel.blocked for channel in channels):
            return ()
        return super().recalculate(throughput, channels, now)


class PerChannelPolicy(DebloatPolicy):
    """FLIP-183 for each channel separately, with a moving average, a threshold and a size per channel.

    A fast channel with a long queue gets smaller buffers than a slow channel. A channel's share of the gate's
    throughput is its share of the *buffers* polled. A share by bytes, as in Little's law, would amplify
    itself. Channels are polled round robin, so a channel with larger buffers would get more of the
    throughput, and then still larger buffers.

    A channel's size stays as it is while nothing is polled from it. The count of a channel is not lowered
    while it is blocked for alignment.
    """

    __slots__ = ("_before", "_debloaters", "_polled")

    watches_polls = True

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        settings.debloater()  # raises now if the settings contradict each other
        self._debloaters: dict[int, BufferDebloater] = {}
        self._polled: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def polled(self, channel: int, size: int) -> None:
        """Count one buffer polled from `channel`."""
        self._polled[channel] = self._polled.get(channel, 0) + 1

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take one step for each channel that was polled since the last recalculation."""
        polled, self._polled = self._polled, {}
        total = sum(polled.values())
        announced = []
        for place, in_use in enumerate(frozen_counts(channels, self._before)):
            if place in polled:
                size = self._debloater(place).recalculate(throughput * polled[place] // total, in_use)
                if size is not None:
                    announced.append((place, size))
        in_force = [
            debloater for place, debloater in self._debloaters.items() if not channels[place].released
        ]
        self.last_announced = min(
            [debloater.last_announced for debloater in in_force], default=self.last_announced
        )
        self.estimated_time_s = max([debloater.estimated_time_s for debloater in in_force], default=0.0)
        return announced

    def _debloater(self, place: int) -> BufferDebloater:
        if place not in self._debloaters:
            self._debloaters[place] = self.settings.debloater()
        return self._debloaters[place]


_policies: dict[str, type[DebloatPolicy]] = {
    "flink": FlinkPolicy,
    "frozen-while-blocked": FrozenWhileBlockedPolicy,
    "longest-channel": LongestChannelPolicy,
    "per-channel": PerChannelPolicy,
    "burst": BurstPolicy,
    "longest-when-unblocked": LongestWhenUnblockedPolicy,
}

POLICIES: Mapping[str, type[DebloatPolicy]] = MappingProxyType(_policies)
"""All registered policies by name; "flink" is the default."""


def register_policy(name: str, policy: type[DebloatPolicy]) -> None:
    """Register a policy under `name` in this process.

    Raises:
        ValueError: if another policy has the name, or it contains ":", which is reserved for import paths.
        TypeError: if `policy` is not a class derived from `DebloatPolicy`.
    """
    if not (isinstance(policy, type) and issubclass(policy, DebloatPolicy)):
        raise TypeError(f"{policy!r} is not a class derived from DebloatPolicy")
    if not name or ":" in name:
        raise ValueError(
            f"{name!r} cannot be the name of a policy; a name needs at least one letter, and no ':'"
        )
    if _policies.setdefault(name, policy) is not policy:
        raise ValueError(
            f"the name {name!r} is taken by another policy, {_policies[name].__qualname__}; choose "
            "another name"
        )
