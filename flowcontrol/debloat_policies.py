"""Debloating policies: Flink's own (FLIP-183), and the best one that we know (docs/studies/POLICIES.md).

Both divide the bytes of a target time by a count of buffers.

**Blocked channels.** A subpartition that is blocked for alignment reports a backlog of 0 and sends nothing.
So the count of buffers in use falls towards 0, although as many buffers as before wait behind the barrier.
The measured throughput covers only the channels whose barrier has not arrived yet. Flink recalculates
nevertheless, so buffers grow during every aligned checkpoint. `LongestWhenUnblockedPolicy` does not
recalculate then::

    in use           21 21 21 | 15 9 4 1 | 21 21      blocked between the bars
    Flink            21 21 21 | 15 9 4 1 | 21 21
    when unblocked   21 21 21 |          | 21 21

**The longest channel.** A gate polls its channels round robin, one buffer at a time. So a barrier behind n
buffers of its channel is polled after n rounds. A round takes one buffer from each of the k channels with
data. A checkpoint waits for the longest channel. If the other channels are refilled meanwhile, k * max(n)
buffers are polled before the barrier of the longest channel. If the queues differ in length, this number is
larger than the sum of the buffers in use::

    ch0 [########]     8 rounds of 3 buffers = 24; the sum is 8 + 2 + 2 = 12
    ch1 [##]
    ch2 [##]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from .debloat_policy import Announcement, DebloatedChannel, DebloatPolicy, DebloatSettings, to_all

__all__ = ["POLICIES", "FlinkPolicy", "LongestWhenUnblockedPolicy", "register_policy"]


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


class LongestWhenUnblockedPolicy(FlinkPolicy):
    """FLIP-183, but no step while a channel is blocked, and each channel with data counts as the longest one.

    A skipped step announces nothing and leaves the average and the gauges unchanged.
    """

    __slots__ = ()

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take one step of the moving average, if no channel is blocked."""
        if any(channel.blocked for channel in channels):
            return ()
        return super().recalculate(throughput, channels, now)

    def buffers_in_use(self, channels: Sequence[DebloatedChannel]) -> int:
        """Return the number of channels with data, times the buffers in use of the longest channel."""
        counts = [channel.buffers_in_use for channel in channels]
        return sum(count > 0 for count in counts) * max(counts, default=0)


_policies: dict[str, type[DebloatPolicy]] = {
    "flink": FlinkPolicy,
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
