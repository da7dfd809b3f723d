"""Blank records that are dealt out in turns, noted in their buffers when somebody looks.

A producer that deals out records of one length touches a buffer for each of them, and a thousand buffers
before it comes to the same one again. As long as every open buffer has room, nothing comes of it that anybody
sees, so only how many were dealt is counted. What each buffer has got follows from that::

    first 2, dealt 6   subpartition   0   1   2   3
                       records        1   1   2   2

A deal ends before the first record that would not fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from .buffer import BufferBuilder, Dealing


class Deal(Dealing):
    """Records of `stride` bytes for `builders` in turns, beginning at `first`; `left` more may be dealt.

    `dealt`: how many were, whether the buffers know it or not.
    """

    __slots__ = ("_builders", "_first", "_stride", "dealt", "left")

    def __init__(self, builders: Sequence[BufferBuilder | None], first: int, stride: int, left: int) -> None:
        """There is a builder at each place, which is its `subpartition`."""
        self._builders = builders
        self._first = first
        self._stride = stride
        self.dealt = 0
        self.left = left
        for builder in builders:
            if builder is not None:
                builder.deal, builder.share = self, 0

    @property
    def next_channel(self) -> int:
        """The place of the builder whose turn it is."""
        return (self._first + self.dealt) % len(self._builders)

    def take(self, count: int, channel: int, stride: int) -> bool:
        """Deal `count` records of `stride` bytes, the first of them for `channel`; False if it cannot be."""
        if count > self.left or stride != self._stride or channel != self.next_channel:
            return False
        self.left -= count
        self.dealt += count
        return True

    def settle(self, builder: BufferBuilder) -> None:
        """Bring the position of `builder` up to date."""
        count = len(self._builders)
        place = (builder.subpartition - self._first) % count
        share = (self.dealt - place + count - 1) // count
        builder.position += (share - builder.share) * self._stride
        builder.share = share

    def end(self) -> None:
        """Bring all positions up to date; the buffers are written in other ways from now on."""
        for builder in self._builders:
            if builder is not None:
                self.settle(builder)
                builder.deal = None


def room_in_turns(builders: Sequence[BufferBuilder | None], first: int, stride: int) -> tuple[int, bool]:
    """How many blank records of `stride` bytes fit if dealt out in turns, beginning at `first`.

    As a buffer is closed with the record that fills it, that one does not count. With False the number is
    only how many there are before the first that does not fit, and less than a whole turn.
    """
    count = len(builders)
    least = -1
    for turn in range(count):
        place = first + turn
        builder = builders[place if place < count else place - count]
        if builder is None or builder.blank_stride != stride:
            return turn, False
        room = builder.capacity - builder.position - 1
        if room < stride:
            return turn, False
        fitting = turn + room // stride * count
        if least < 0 or fitting < least:
            least = fitting
    return least, True
