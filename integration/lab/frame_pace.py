"""When the next frame is due: as often as a page can show one, as long as the emulation keeps its time.

What frames cost is counted in processor time: on a machine that has much else to do, a process gets a small
part of each second, and by the clock on the wall frames would take all of that.
"""

from __future__ import annotations

from time import monotonic, process_time

FRAMES_PER_S = 20

SHARE_OF_FRAMES = 0.15
"""Of the processor time, what making and sending frames may take while the emulation could use it."""

LONGEST_S = 0.5
"""Without a frame, a page would seem to stand still."""


class FramePace:
    """Says when a frame is due, and is told what the last one took."""

    def __init__(self) -> None:
        self._seen_at = -1.0
        self._seen_cpu_s = 0.0
        self._rest_s = 0.0  # processor time that the emulation has first

    @property
    def waits_s(self) -> float:
        """How long there is no frame, whatever else there is to do."""
        return max(0.0, self._seen_at + 1 / FRAMES_PER_S - monotonic())

    def is_due(self, *, busy: bool) -> bool:
        """Whether it is time for a frame; `busy` is whether the emulation could do more at once."""
        if self.waits_s > 0:
            return False
        rested = process_time() - self._seen_cpu_s >= self._rest_s
        return rested or not busy or monotonic() - self._seen_at >= LONGEST_S

    def took(self, cpu_s: float) -> None:
        """Take note of what the frame took that has just been sent, in processor time."""
        self._seen_at, self._seen_cpu_s = monotonic(), process_time()
        self._rest_s = cpu_s * (1 / SHARE_OF_FRAMES - 1)
