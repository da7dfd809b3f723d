"""An input gate that tells what it hands to its task, for faults that wait for the n-th of something."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from buffers import LocalBufferPool
from flowcontrol import CheckpointBarrier, DebloatPolicy, decode_event

from ..exchange.channel import InputChannel
from ..exchange.gate import InputGate, Item
from ..scenarios.fault import ChannelItem

Tap = Callable[[ChannelItem], None]
"""Is told of each data buffer and each barrier of one channel, just before the task gets it."""

Watched = Callable[[str, str, int], Mapping[int, Tap]]
"""Gives the taps of a gate by the producer's index; asked with producing and reading vertex, and subtask."""


class TappedGate(InputGate):
    """An `InputGate` some of whose channels are watched; gates that nobody watches stay plain ones."""

    def __init__(
        self,
        name: str,
        floating: LocalBufferPool,
        debloater: DebloatPolicy | None,
        on_data: Callable[[], None],
    ) -> None:
        super().__init__(name, floating, debloater, on_data)
        self._taps: dict[InputChannel, Tap] = {}

    def watch(self, channel: InputChannel, tap: Tap) -> None:
        """Tell `tap` of what `channel` hands to the task from now on."""
        self._taps[channel] = tap

    def poll(self, now: float) -> tuple[InputChannel, Item] | None:
        """Take the next buffer or event as `InputGate` does, and tell of it."""
        urgent = self.poll_priority(now) if self.priority_readable else None
        return self._tell(super().poll(now)) if urgent is None else urgent

    def poll_priority(self, now: float) -> tuple[InputChannel, Item] | None:
        """Take the next priority event as `InputGate` does, and tell of it."""
        return self._tell(super().poll_priority(now))

    def _tell(self, polled: tuple[InputChannel, Item] | None) -> tuple[InputChannel, Item] | None:
        if polled is not None:
            channel, item = polled
            tap = self._taps.get(channel)
            if tap is not None and (what := _counted(item)) is not None:
                tap(what)
        return polled


def _counted(item: Item) -> ChannelItem | None:
    if not item.is_event:
        return ChannelItem.BUFFER
    return ChannelItem.BARRIER if isinstance(decode_event(bytes(item.payload)), CheckpointBarrier) else None
