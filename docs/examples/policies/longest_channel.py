"""A debloating policy that counts each channel with data as long as the longest channel.

A gate polls its channels round robin, one buffer at a time. So a barrier behind n buffers of its channel is
polled after n rounds. A round takes one buffer from each of the k channels with data. A checkpoint waits for
the longest channel. If the other channels are refilled meanwhile, k * max(n) buffers are polled before the
barrier of the longest channel. If the queues differ in length, this number is larger than the sum of the
buffers in use::

    ch0 [########]     8 rounds of 3 buffers = 24; the sum is 8 + 2 + 2 = 12
    ch1 [##]
    ch2 [##]

Try it with ``PYTHONPATH=docs/examples netstack run FILE --policy policies.longest_channel:LongestChannel``.
"""

from collections.abc import Sequence

from flowcontrol import DebloatedChannel, DebloatSettings, FlinkPolicy


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


class LongestChannel(FlinkPolicy):
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
