"""A change of the protocol: credit by bytes, where Flink gives it by buffers.

Flink's receiver has a credit for every free buffer, however much such a buffer will hold. Here it keeps
credit back while what waits in a channel, and what is still to come for the credit that it has given, is as
much as the channel's part of ``target * throughput``. Buffers stay whole segments. The target is that of
debloating, and so is the throughput: the gate measures it for its policy, and two policies below keep it.

``python docs/examples/credit_by_bytes.py`` in a checkout emulates one job in both ways, with debloating
beside them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from buffers import ChannelBuffers, LocalBufferPool, MemorySegment
from flowcontrol import POLICIES, DebloatPolicy, DebloatSettings, FlinkPolicy, register_policy, to_all
from integration import load_scenario
from netstack import Result, Scenario, emulate
from netstack.exchange import remote_channel

ROOT = Path(__file__).parents[2]
SCENARIO = ROOT / "tests/data/flink-reference/2x2_1MBs_on100ms.toml"

WHOLE_SEGMENTS = "whole-segments"
"""The policy that only measures."""

DEBLOATED = "flink-and-bytes"
"""The policy that sizes buffers as Flink does, and measures."""


class Budget:
    """Bytes that may wait for a gate: its throughput times a target time, averaged as in Flink."""

    def __init__(self, settings: DebloatSettings) -> None:
        self._target_s = settings.target_s
        self._alpha = 2.0 / (settings.samples + 1)
        self.size: float | None = None

    def learn(self, throughput: int) -> None:
        """Bytes a second, over the last period; without any there is nothing to learn."""
        if throughput:
            now = throughput * self._target_s
            self.size = now if self.size is None else self.size + self._alpha * (now - self.size)


class WholeSegments(DebloatPolicy):
    """Leaves buffers as large as segments, and keeps the budget."""

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self.budget = Budget(settings)

    def recalculate(self, throughput: int, channels: Any, now: float) -> Iterable[tuple[int, int]]:
        """Announce whole segments once, since producers begin with small buffers."""
        self.budget.learn(throughput)
        if self.last_announced == self.settings.max_size:
            return ()
        self.last_announced = self.settings.max_size
        return to_all(self.last_announced, channels)


class FlinkAndBytes(FlinkPolicy):
    """Sizes buffers as Flink does, and keeps the budget."""

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self.budget = Budget(settings)

    def recalculate(self, throughput: int, channels: Any, now: float) -> Iterable[tuple[int, int]]:
        """One step of Flink's."""
        self.budget.learn(throughput)
        return super().recalculate(throughput, channels, now)


class _ByWayOf:
    """Gives a floating segment back to its pool, and lets the channel look whether it may give credit."""

    __slots__ = ("_channel",)

    def __init__(self, channel: BuffersByBytes) -> None:
        self._channel = channel

    def recycle(self, segment: MemorySegment, subpartition: int = -1) -> None:
        """Its data has been processed."""
        self._channel.pool.recycle(segment, subpartition)
        self._channel.grant()


class BuffersByBytes(ChannelBuffers):
    """Buffers of a channel that keeps credit back while enough bytes wait, or are on their way.

    Invariant: ``available == granted + kept_back``; a channel in which nothing waits has a credit, if it has
    a free buffer.
    """

    __slots__ = ("_home", "_mean", "kept_back")

    def __init__(
        self, exclusive: Sequence[MemorySegment], pool: LocalBufferPool, *more: Any, **named: Any
    ) -> None:
        super().__init__(exclusive, pool, *more, **named)
        self.kept_back = 0
        self._mean = 0.0
        self._home = _ByWayOf(self)

    @property
    def granted(self) -> int:
        """Credit for which nothing has come yet."""
        return self.available - self.kept_back

    def take(self) -> tuple[MemorySegment, Any] | None:
        """Data has come."""
        taken = super().take()
        return (taken[0], self._home) if taken is not None and taken[1] is self.pool else taken

    def report_backlog(self, backlog: int) -> None:
        """A buffer has come, and tells what waits behind it."""
        super().report_backlog(backlog)
        self.grant()

    def _borrow(self) -> int:
        return 0 if self.kept_back else super()._borrow()

    def buffer_available(self, segment: MemorySegment) -> bool:
        """Its turn in the pool's line has come; a channel that keeps credit back needs no more buffers."""
        if self.kept_back:
            self.waiting = False
            return False
        return super().buffer_available(segment)

    def recycle(self, segment: MemorySegment, subpartition: int = -1) -> None:
        """The data of an exclusive segment has been processed."""
        super().recycle(segment, subpartition)
        self.grant()

    def _return_floating(self) -> None:
        super()._return_floating()
        self.kept_back = min(self.kept_back, self.available)

    def _gain(self, buffers: int) -> None:
        self.kept_back += buffers
        self.grant()

    def grant(self) -> None:
        """Give the credit that bytes allow; owed bytes are as many for each buffer as in those that wait."""
        if self.released or not self.kept_back:
            return
        allowed = self._allowed()
        given = max(0, min(self.kept_back, allowed - self.granted))
        self.kept_back -= given
        super()._gain(given)

    def _allowed(self) -> int:
        """Greatest credit at once."""
        channel: Any = self.owner
        events = channel.queued_events  # no call follows when the last of them has been polled
        waiting = channel.queued_bytes - sum(event.size for event in events)
        if waiting:
            self._mean = waiting / (channel.queue_length - len(events))
        budget = channel.gate.debloater.budget.size
        if budget is None or not self._mean:
            return max(1, self.exclusive_total)
        part = budget / max(1, sum(each.buffers_in_use > 0 for each in channel.gate.channels))
        at_sender = max(0, self.announced_backlog - self.granted) * self._mean
        return max(int((part - waiting - at_sender) / self._mean), 0 if waiting else 1)


@contextmanager
def credit_by_bytes() -> Iterator[None]:
    """Let the channels of all jobs in the block grant credit so; they need one of the policies above."""
    usual = remote_channel.ChannelBuffers
    for name, policy in ((WHOLE_SEGMENTS, WholeSegments), (DEBLOATED, FlinkAndBytes)):
        if name not in POLICIES:  # this file may have been loaded before
            register_policy(name, policy)
    remote_channel.ChannelBuffers = BuffersByBytes  # type: ignore[misc]
    try:
        yield
    finally:
        remote_channel.ChannelBuffers = usual  # type: ignore[misc]


def by_bytes(scenario: Scenario, policy: str = WHOLE_SEGMENTS, seed: int = 1) -> Result:
    """Emulate a scenario that has debloating on, with credit by bytes."""
    with credit_by_bytes():
        config = replace(scenario.config, debloat_policy=policy)
        return emulate(replace(scenario, config=config), seed=seed)


def without_debloating(scenario: Scenario) -> Scenario:
    """The same job with whole segments, and credit by buffers."""
    return replace(scenario, config=replace(scenario.config, debloat_enabled=False))


def main() -> None:
    """Print how long checkpoints take."""
    scenario = load_scenario(SCENARIO)
    runs = {
        "credit by buffers, whole segments": emulate(without_debloating(scenario)),
        "credit by bytes, whole segments": by_bytes(scenario),
        "credit by buffers, debloated": emulate(scenario),
        "credit by bytes, debloated": by_bytes(scenario, DEBLOATED),
    }
    for name, result in runs.items():
        print(f"{name}: {result.steady[-1].end_to_end_ms:.0f} ms")


if __name__ == "__main__":
    sys.exit(main())
