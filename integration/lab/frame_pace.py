"""When the next frame is due: as often as a page can show one, as long as the emulation keeps its time.

What frames cost is counted in processor time: on a machine that has much else to do, a process gets a small
part of each second, and by the clock on the wall frames would take all of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic, process_time

FRAMES_PER_S = 20

SHARE_OF_FRAMES = 0.12
"""Of the processor time, what making and sending frames may take while the emulation could use it."""

LONGEST_S = 1.0
"""Without a frame, a page would seem to stand still: so it gets one, be the processor ever so busy."""

_PATIENCE = 4.0
"""Nor has it to wait longer than so many times what the emulation has before a costly frame."""


class FramePace:
    """Says when a frame is due, and is told what the last one took.

    `wall` and `cpu` are the time on the wall and that of this process on processors, in seconds.
    """

    def __init__(
        self, wall: Callable[[], float] = monotonic, cpu: Callable[[], float] = process_time
    ) -> None:
        self._wall, self._cpu = wall, cpu
        self._seen_at, self._seen_cpu_s = -math.inf, -math.inf
        self._rest_s = 0.0  # processor time that the emulation has first

    @property
    def waits_s(self) -> float:
        """How long there is no frame, whatever else there is to do."""
        return max(0.0, self._seen_at + 1 / FRAMES_PER_S - self._wall())

    def is_due(self, *, busy: bool) -> bool:
        """Whether it is time for a frame; `busy` is whether the emulation could do more at once."""
        if self.waits_s > 0:
            return False
        rested = self._cpu() - self._seen_cpu_s >= self._rest_s
        longest_s = max(LONGEST_S, _PATIENCE * self._rest_s)
        return rested or not busy or self._wall() - self._seen_at >= longest_s

    def took(self, cpu_s: float) -> None:
        """Take note of what the frame took that has just been sent, in processor time."""
        self._seen_at, self._seen_cpu_s = self._wall(), self._cpu()
        self._rest_s = cpu_s * (1 / SHARE_OF_FRAMES - 1)
