"""Windows that fire by event time: what a vertex holds back until a watermark passes their end.

Records bear no timestamps here. What is known of one is the watermark before it in its channel, which says
that its source had emitted the ones before it by then, so it counts as emitted at that moment::

    channel    a b |W 9.8 s| c d e |W 10.0 s| f g         windows of 10 s, no disorder
    window        0 to 10 s: a b c d e          10 to 20 s: f g

A window loses nothing by that, since it fires at a watermark that is behind all of its records; its border
is as exact as watermarks are frequent. The rules are those of Flink's event-time windows (EventTimeTrigger).
"""

from __future__ import annotations

from typing import Any

from buffers import RecordBlock, RecordDecoder
from flowcontrol import NO_WATERMARK

from .emission import HeldBack


class EventTimeWindows(HeldBack):
    """Records by the end of their window, in milliseconds of event time.

    `size_s` is that of a window.
    """

    def __init__(self, size_s: float) -> None:
        super().__init__()
        self._size_ms = round(size_s * 1e3)
        self._windows: dict[int, list[RecordBlock]] = {}
        self._watermark = NO_WATERMARK
        self._end = self._size_ms

    def reads_from(self, event_time_ms: int | None) -> None:
        """The records that are added next count as of this time, or of the first window that has not fired.

        The latter where nothing is known of them (None), or that window is later: no record is late.
        """
        earliest = max(0, self._watermark + 1, event_time_ms or 0)
        self._end = (earliest // self._size_ms + 1) * self._size_ms

    def add(self, block: RecordBlock) -> None:
        """Keep the records of a block in their window."""
        if len(block):
            self._windows.setdefault(self._end, []).append(block)

    def take_until(self, watermark: int) -> list[RecordBlock]:
        """The records of each window that a watermark has passed, the earliest first; they are kept no more.

        A window of which there is no record does not fire.
        """
        self._watermark = max(self._watermark, watermark)
        passed = sorted(end for end in self._windows if end - 1 <= watermark)
        return [RecordBlock.concat(self._windows.pop(end)) for end in passed]

    def take(self) -> RecordBlock:
        """All records of all windows, the earliest first: the input has ended."""
        windows, self._windows = self._windows, {}
        return RecordBlock.concat([block for end in sorted(windows) for block in windows[end]])

    @property
    def encoded(self) -> list[Any]:
        """What is kept now, and how far event time has come, as state."""
        self._windows = {end: [RecordBlock.concat(blocks)] for end, blocks in sorted(self._windows.items())}
        windows = {end: blocks[0].data.tobytes() for end, blocks in self._windows.items()}
        return [{"watermark": self._watermark, "windows": windows}]

    def restore(self, encoded: list[Any]) -> None:
        """Keep what was state."""
        for state in encoded:
            self._watermark = max(self._watermark, state["watermark"])
            for end, data in state["windows"].items():
                self._windows.setdefault(end, []).append(RecordDecoder().feed(memoryview(data)))
