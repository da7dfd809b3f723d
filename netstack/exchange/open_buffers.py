"""The buffers of a result partition that are being written: one for each subpartition, or one for all."""

from __future__ import annotations

from collections.abc import Sequence

from buffers import (
    BufferBuilder,
    Deal,
    LocalBufferPool,
    MemorySegment,
    PipelinedSubpartition,
    room_in_turns,
)

ALL = -1
"""The channel of a record that goes to every subpartition."""


class OpenBuffers:
    """At most one open buffer for each channel; `unicast` has those of the subpartitions, by index.

    Invariant: an open buffer has room; there is never one for `ALL` beside another. Whoever writes to those
    of `unicast` by himself ends the deal before.
    """

    def __init__(self, pool: LocalBufferPool, subpartitions: Sequence[PipelinedSubpartition]) -> None:
        self.unicast: list[BufferBuilder | None] = [None] * len(subpartitions)
        self._pool = pool
        self._subpartitions = subpartitions
        self._broadcast: BufferBuilder | None = None
        self._deal: Deal | None = None
        self._no_deal_for = 0  # records, before it is of use to ask again whether there is room in turns

    def deal(self, stride: int, channel: int, count: int) -> bool:
        """Deal out `count` blank records of `stride` bytes in turns, if there is room for all of them.

        The first goes to `channel`. False: nothing was written.
        """
        deal = self._deal
        if deal is not None:
            if deal.take(count, channel, stride):
                return True
            self.end_deal()
        if self._no_deal_for > 0 or not stride:
            self._no_deal_for -= count
            return False
        room, whole_turns = room_in_turns(self.unicast, channel, stride)
        if not whole_turns or room < count:
            self._no_deal_for = room - count
            return False
        self._deal = deal = Deal(self.unicast, channel, stride, room)
        return deal.take(count, channel, stride)

    def deal_more(self, stride: int, count: int) -> bool:
        """Deal out more behind the last ones, if a deal goes on that has room for all of them."""
        deal = self._deal
        return deal is not None and deal.take(count, deal.next_channel, stride)

    def end_deal(self) -> None:
        """Let all buffers know what they hold, before they are used otherwise."""
        if self._deal is not None:
            self._deal.end()
            self._deal = None

    def get(self, channel: int) -> BufferBuilder | None:
        """The open buffer for `channel`; buffers of the other way of writing are finished first."""
        self.end_deal()
        if channel == ALL:
            if self._broadcast is None:
                self._finish_unicast()
            return self._broadcast
        if self._broadcast is not None:
            self.close(ALL, self._broadcast)
        return self.unicast[channel]

    def new(self, channel: int, segment: MemorySegment) -> BufferBuilder:
        """Open a buffer in `segment`; it is still to be published."""
        builder = BufferBuilder(segment, self._pool, channel)
        if channel == ALL:
            self._broadcast = builder
        else:
            self.unicast[channel] = builder
        return builder

    def publish(self, channel: int, builder: BufferBuilder, minimum: int) -> None:
        """Queue the reading half of `builder` and trim it to the size that is wanted for new buffers.

        It keeps room for `minimum` bytes.
        """
        if channel == ALL:
            wanted = min([s.add(builder.consumer()) for s in self._subpartitions])
        else:
            wanted = self._subpartitions[channel].add(builder.consumer())
        if wanted > 0:
            builder.trim(max(wanted, minimum))

    def close(self, channel: int, builder: BufferBuilder) -> None:
        """Write no more into `builder`."""
        builder.finish()
        if channel == ALL:
            self._broadcast = None
        else:
            self.unicast[channel] = None

    def finish(self) -> None:
        """Write no more into any of them."""
        self.end_deal()
        if self._broadcast is not None:
            self.close(ALL, self._broadcast)
        self._finish_unicast()

    def _finish_unicast(self) -> None:
        for channel, builder in enumerate(self.unicast):
            if builder is not None:
                self.close(channel, builder)
