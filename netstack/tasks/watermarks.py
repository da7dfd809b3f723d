"""Watermarks of tasks, created by sources and read by other tasks among their records; event-time windows.

A watermark is handled in its turn, between two records. If it raises the lowest watermark of all channels,
windows fire. Then the new lowest watermark is sent to all channels of all outputs::

    buffer   a b c |W| d e     serve a b c;  take W: fire windows, send the lowest watermark on;  serve d e

An event-time window holds records back until a watermark passes the end of the window. Records have no
timestamps. The event time of a record is the last watermark before it in its channel::

    channel    a b |W 9.8 s| c d e |W 10.0 s| f g         windows of 10 s, no disorder
    window        0 to 10 s: a b c d e          10 to 20 s: f g

No record is lost, since a window fires at a watermark that follows all of its records. The more frequent the
watermarks, the more exact are the borders of windows.

The rules are those of Flink's AbstractStreamTaskNetworkInput, StatusWatermarkValve and EventTimeTrigger, and
of the periodic BoundedOutOfOrdernessWatermarks at a source.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from math import nan
from typing import Any

from buffers import RecordBlock, RecordDecoder
from flowcontrol import MAX_WATERMARK, NO_WATERMARK, WatermarkValve

from ..engine.event_clock import EventClock
from ..engine.randomness import Draws
from ..exchange.channel import InputChannel
from ..exchange.gate import InputGate
from .synthetic_output import HeldBack


class EventTimeWindows(HeldBack):
    """Records held back in event-time windows of `size_s` seconds; the end in ms identifies a window."""

    def __init__(self, size_s: float) -> None:
        super().__init__()
        self._size_ms = round(size_s * 1e3)
        self._windows: dict[int, list[RecordBlock]] = {}
        self._watermark = NO_WATERMARK
        self._end = self._size_ms

    def reads_from(self, event_time_ms: int | None) -> None:
        """Set the event time of the records added next. This time selects their window.

        No record is late: if the event time is unknown (None), or its window has already fired, the records
        go to the first window that has not fired.
        """
        earliest = max(0, self._watermark + 1, event_time_ms or 0)
        self._end = (earliest // self._size_ms + 1) * self._size_ms

    def add(self, block: RecordBlock) -> None:
        """Add the records of a block to the current window."""
        if len(block):
            self._windows.setdefault(self._end, []).append(block)

    def take_until(self, watermark: int) -> list[RecordBlock]:
        """Remove and return the records of each window that a watermark has passed, earliest window first.

        A window without records does not fire.
        """
        self._watermark = max(self._watermark, watermark)
        passed = sorted(end for end in self._windows if end - 1 <= watermark)
        return [RecordBlock.concat(self._windows.pop(end)) for end in passed]

    def take(self) -> RecordBlock:
        """Remove and return all records of all windows, earliest first, at the end of the input."""
        windows, self._windows = self._windows, {}
        return RecordBlock.concat([block for end in sorted(windows) for block in windows[end]])

    @property
    def encoded(self) -> list[Any]:
        """The held-back records and the last watermark, in the form in which they are stored as state."""
        self._windows = {end: [RecordBlock.concat(blocks)] for end, blocks in sorted(self._windows.items())}
        windows = {end: blocks[0].data.tobytes() for end, blocks in self._windows.items()}
        return [{"watermark": self._watermark, "windows": windows}]

    def restore(self, encoded: list[Any]) -> None:
        """Add records from restored state."""
        for state in encoded:
            self._watermark = max(self._watermark, state["watermark"])
            for end, data in state["windows"].items():
                self._windows.setdefault(end, []).append(RecordDecoder().feed(memoryview(data)))


class WindowsOfKeys(EventTimeWindows):
    """Windows that emit one record for each key with records in them, as an aggregation does.

    The key of a record is one of `keys` at random, drawn from `chance`. The record emitted is the first one
    of its key.
    """

    def __init__(self, size_s: float, keys: int, chance: Draws) -> None:
        super().__init__(size_s)
        self._keys = keys
        self._chance = chance
        self._first: dict[int, dict[int, RecordBlock]] = {}  # by end of the window and key

    def add(self, block: RecordBlock) -> None:
        """Add the records of a block to the current window."""
        for place in range(len(block)):
            key = int(self._keys * self._chance.draw())
            records = self._first.setdefault(self._end, {})
            if key not in records:
                records[key] = block.take([place])

    def take_until(self, watermark: int) -> list[RecordBlock]:
        """Remove and return the records of each window that a watermark has passed, earliest window first."""
        self._watermark = max(self._watermark, watermark)
        passed = sorted(end for end in self._first if end - 1 <= watermark)
        return [RecordBlock.concat(list(self._first.pop(end).values())) for end in passed]

    def take(self) -> RecordBlock:
        """Remove and return all records of all windows, earliest first, at the end of the input."""
        return RecordBlock.concat(self.take_until(MAX_WATERMARK))

    @property
    def encoded(self) -> list[Any]:
        """The held-back records and the last watermark, in the form in which they are stored as state."""
        windows = {
            end: {key: record.data.tobytes() for key, record in records.items()}
            for end, records in self._first.items()
        }
        return [{"watermark": self._watermark, "windows": windows}]

    def restore(self, encoded: list[Any]) -> None:
        """Add records from restored state."""
        for state in encoded:
            self._watermark = max(self._watermark, state["watermark"])
            for end, records in state["windows"].items():
                decoded = {key: RecordDecoder().feed(memoryview(data)) for key, data in records.items()}
                self._first[end] = decoded | self._first.get(end, {})


PassOn = Callable[[int], Coroutine[Any, None, None]]
"""Callback for a watermark that has risen."""


class SourceWatermarks:
    """Creates the watermarks of one source subtask, one every `interval_s`.

    Each is `out_of_orderness_s` plus 1 ms behind the latest record. Invariant: the values of `due` strictly
    increase.
    """

    def __init__(self, clock: EventClock, interval_s: float, out_of_orderness_s: float) -> None:
        self.clock = clock
        self.interval_s = interval_s
        self._behind_ms = round(out_of_orderness_s * 1e3) + 1
        self._latest_ms: int | None = None
        self._sent = NO_WATERMARK

    def emitted(self, at: float) -> None:
        """Note that records were emitted that belong to this time of the run, in seconds."""
        self._latest_ms = self.clock.at_ms(at)

    def due(self) -> int | None:
        """Return the watermark to send now; None if it is not higher than the last one."""
        if self._latest_ms is None or self._latest_ms - self._behind_ms <= self._sent:
            return None
        self._sent = self._latest_ms - self._behind_ms
        return self._sent

    def ended(self) -> None:
        """Record that the last watermark has been sent; no record follows."""
        self._sent = MAX_WATERMARK

    @property
    def lag_ms(self) -> float:
        """Lag of the last watermark behind the clock; NaN before the first and after the last one."""
        return nan if self._sent in (NO_WATERMARK, MAX_WATERMARK) else self.clock.now_ms - self._sent


class WatermarkFlow:
    """The watermarks of the channels that a subtask reads, and its own `windows`, if any.

    `disorders_s` holds, for each gate in order, the lag of its watermarks behind the preceding records.
    """

    def __init__(
        self, clock: EventClock, windows: EventTimeWindows | None, disorders_s: Sequence[float]
    ) -> None:
        self.clock = clock
        self.windows = windows
        self._disorders_ms = [round(disorder_s * 1e3) for disorder_s in disorders_s]
        self._pass_on: PassOn
        self._valve: WatermarkValve
        self._numbers: dict[InputChannel, int] = {}
        self._ahead_ms: list[int] = []

    def connect(self, gates: Sequence[InputGate], pass_on: PassOn) -> None:
        """Follow the watermarks of these gates.

        When the lowest watermark rises, `pass_on` is called with it.
        """
        channels = [channel for gate in gates for channel in gate.channels]
        self._numbers = {channel: number for number, channel in enumerate(channels)}
        self._ahead_ms = [
            disorder_ms + 1
            for gate, disorder_ms in zip(gates, self._disorders_ms, strict=True)
            for _ in gate.channels
        ]
        self._valve = WatermarkValve(len(channels))
        self._pass_on = pass_on

    def reads(self, channel: InputChannel) -> None:
        """Set the channel of the records processed next. Their event time is derived from the channel's
        watermark.
        """
        if self.windows is not None:
            number = self._numbers[channel]
            watermark = self._valve.of_channel(number)
            known = watermark != NO_WATERMARK
            self.windows.reads_from(watermark + self._ahead_ms[number] if known else None)

    async def take(self, channel: InputChannel, watermark: int) -> None:
        """Process a watermark of a channel."""
        risen = self._valve.advance(self._numbers[channel], watermark)
        if risen is not None:
            await self._pass_on(risen)

    @property
    def lag_ms(self) -> float:
        """Lag of the lowest watermark behind the clock; NaN before the first and after the last one."""
        lowest = self._valve.lowest
        return nan if lowest in (NO_WATERMARK, MAX_WATERMARK) else self.clock.now_ms - lowest
