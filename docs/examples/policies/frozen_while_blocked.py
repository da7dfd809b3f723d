"""A debloating policy that does not lower the count of buffers in use while a channel is blocked.

A subpartition that is blocked for alignment reports a backlog of 0 and sends nothing. So the count of buffers
in use falls towards 0, although as many buffers as before wait behind the barrier. Flink recalculates
nevertheless, so buffers grow during every aligned checkpoint::

    in use           21 21 21 | 15 9 4 1 | 21 21      blocked between the bars
    Flink            21 21 21 | 15 9 4 1 | 21 21
    this policy      21 21 21 | 21 .. 21 | 21 21

Try it with
``PYTHONPATH=docs/examples netstack run FILE --policy policies.frozen_while_blocked:FrozenWhileBlocked``.
"""

from collections.abc import Sequence

from flowcontrol import DebloatedChannel, DebloatSettings, FlinkPolicy


class FrozenWhileBlocked(FlinkPolicy):
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
