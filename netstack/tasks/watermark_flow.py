"""Watermarks on their way through a task: a source makes them, others read them among their records.

A watermark is handled in its turn, between two records. If it raises the least watermark of all channels,
windows fire, and then it goes on to all channels of all outputs::

    block   a b c |W| d e     serve a b c;  take W: fire windows, send the least watermark on;  serve d e

The rules are those of Flink's AbstractStreamTaskNetworkInput and StatusWatermarkValve, and of the periodic
BoundedOutOfOrdernessWatermarks at a source.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from math import nan
from typing import Any

from buffers import RecordBlock, watermark_at, watermark_places
from flowcontrol import MAX_WATERMARK, NO_WATERMARK, WatermarkValve

from ..engine.agenda import EventClock
from ..exchange.channel import InputChannel
from ..exchange.gate import InputGate
from .event_windows import EventTimeWindows
from .operators import NOTHING
from .serving import RecordByRecord, Serving

PassOn = Callable[[int], Coroutine[Any, None, None]]
"""What a task does with a watermark that has risen."""


class SourceWatermarks:
    """The watermarks of one subtask of a source, every `interval_s`, so far behind its latest record.

    Invariant: what `due` gives rises.
    """

    def __init__(self, clock: EventClock, interval_s: float, out_of_orderness_s: float) -> None:
        self.clock = clock
        self.interval_s = interval_s
        self._behind_ms = round(out_of_orderness_s * 1e3) + 1
        self._latest_ms: int | None = None
        self._sent = NO_WATERMARK

    def emitted(self, at_ms: int) -> None:
        """Records were emitted that bear this time."""
        self._latest_ms = at_ms

    def due(self) -> int | None:
        """The watermark to be sent now; None: nothing new is known."""
        if self._latest_ms is None or self._latest_ms - self._behind_ms <= self._sent:
            return None
        self._sent = self._latest_ms - self._behind_ms
        return self._sent

    def ended(self) -> None:
        """No record follows: the last watermark is sent."""
        self._sent = MAX_WATERMARK

    @property
    def lag_ms(self) -> float:
        """How far the last watermark is behind the clock; NaN before the first one, and after the last."""
        return nan if self._sent in (NO_WATERMARK, MAX_WATERMARK) else self.clock.now_ms - self._sent


class WatermarkFlow:
    """The watermarks of the channels that a subtask reads; `windows` are its own, if it has some.

    Those that come in by a gate stay behind the records before them by its number in `disorders_s`, which is
    in the order of the gates.
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
        """Follow the watermarks of these gates, and let `pass_on` have the least one when it rises."""
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
        """The records that are served next come from a channel: they are ahead of its watermark."""
        if self.windows is not None:
            number = self._numbers[channel]
            watermark = self._valve.of_channel(number)
            known = watermark != NO_WATERMARK
            self.windows.reads_from(watermark + self._ahead_ms[number] if known else None)

    async def take(self, channel: InputChannel, watermark: int) -> None:
        """Take a watermark of a channel, and do what follows from it."""
        risen = self._valve.advance(self._numbers[channel], watermark)
        if risen is not None:
            await self._pass_on(risen)

    @property
    def lag_ms(self) -> float:
        """How far the least watermark is behind the clock; NaN before there is one, and after the last."""
        lowest = self._valve.lowest
        return nan if lowest in (NO_WATERMARK, MAX_WATERMARK) else self.clock.now_ms - lowest


class WatermarkedBuffers:
    """Serves buffers that have watermarks among their records, each in its turn; a `Serving` of another."""

    __slots__ = ("_behind", "_channel", "_flow", "_serving")

    def __init__(self, serving: Serving, flow: WatermarkFlow) -> None:
        self._serving = serving
        self._flow = flow
        self._channel: InputChannel | None = None
        self._behind = NOTHING  # what of the block follows what is being served

    @property
    def records(self) -> int:
        """Records whose service is over."""
        return self._serving.records

    @property
    def pause_ends(self) -> float | None:
        """When a pause ends within what is being served."""
        return self._serving.pause_ends

    async def serve(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Serve the records of one buffer, and take its watermarks."""
        flow, start = self._flow, 0
        self._channel = channel
        for place in watermark_places(block):
            self._behind = block[place:]
            flow.reads(channel)
            await self._serving.serve(channel, block[start:place], spent)
            start, spent = place + 1, 0.0
            await flow.take(channel, watermark_at(block, place))
        self._channel, self._behind = None, NOTHING
        if start < len(block) or spent:
            flow.reads(channel)
            await self._serving.serve(channel, block[start:] if start else block, spent)

    def stall(self, duration: float) -> bool:
        """Be done so much later with the records in progress."""
        return self._serving.stall(duration)

    def catch_up(self) -> None:
        """Let the operator see all records whose service is over."""
        self._serving.catch_up()

    def rest(self, channel: InputChannel) -> bytes:
        """What of `channel` has been read and not been processed: records and watermarks, encoded."""
        behind = self._behind.data.tobytes() if self._channel is channel else b""
        return bytes(self._serving.rest(channel)) + behind


class WatermarkedRecords:
    """Serves records one by one, with watermarks among them, each of which counts as one."""

    __slots__ = ("_behind", "_channel", "_flow", "_part_done", "_serving")

    def __init__(self, serving: RecordByRecord, flow: WatermarkFlow) -> None:
        self._serving = serving
        self._flow = flow
        self._channel: InputChannel | None = None
        self._behind = NOTHING  # begins with a watermark, or is empty
        self._part_done = True

    @property
    def records(self) -> int:
        """Records whose service is over."""
        return self._serving.records

    @property
    def left(self) -> int:
        """Records and watermarks of the buffer that are not served."""
        return self._serving.left + len(self._behind)

    def begin(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Take the records and watermarks of one buffer, to `go_on` with them."""
        places = watermark_places(block)
        first = places[0] if places else len(block)
        self._channel, self._behind, self._part_done = channel, block[first:], False
        self._serving.begin(channel, block[:first], spent)

    async def go_on(self, *, one_record: bool = False) -> bool:
        """Serve what is left of the buffer, or the next record or watermark; returns whether all is done."""
        while True:
            if not self._part_done:
                served = self._serving.left > 0
                self._part_done = await self._serve_part(one_record)
                if not self._part_done or not len(self._behind):
                    return self._part_done
                if one_record and served:
                    return False
            await self._take_next()
            if one_record:
                return False

    async def _serve_part(self, one_record: bool) -> bool:
        """Serve records up to the next watermark, or one of them; returns whether none is left."""
        if self._channel is not None:
            self._flow.reads(self._channel)
        return await self._serving.go_on(one_record=one_record)

    async def _take_next(self) -> None:
        """Take the watermark whose turn it is, and begin with the records behind it."""
        block, channel = self._behind, self._channel
        assert channel is not None
        await self._flow.take(channel, watermark_at(block, 0))
        self.begin(channel, block[1:], 0.0)

    def rest(self, channel: InputChannel) -> bytes:
        """What of `channel` has been read and not been processed: records and watermarks, encoded."""
        behind = self._behind.data.tobytes() if self._channel is channel else b""
        return bytes(self._serving.rest(channel)) + behind
