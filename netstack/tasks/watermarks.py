"""Watermarks on their way through a task: a source makes them, others read them among their records.

A watermark is handled in its turn, between two records. If it raises the least watermark of all channels,
windows fire, and then it goes on to all channels of all outputs::

    buffer   a b c |W| d e     serve a b c;  take W: fire windows, send the least watermark on;  serve d e

The rules are those of Flink's AbstractStreamTaskNetworkInput and StatusWatermarkValve, and of the periodic
BoundedOutOfOrdernessWatermarks at a source.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from math import nan
from typing import Any

from flowcontrol import MAX_WATERMARK, NO_WATERMARK, WatermarkValve

from ..engine.agenda import EventClock
from ..exchange.channel import InputChannel
from ..exchange.gate import InputGate
from .emission import EventTimeWindows

PassOn = Callable[[int], Coroutine[Any, None, None]]
"""Callback for a watermark that has risen."""


class SourceWatermarks:
    """Makes the watermarks of one source subtask, one every `interval_s`.

    Each lies `out_of_orderness_s` and 1 ms behind the latest record. Invariant: each value of `due` exceeds
    the one before.
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
        """Lag of the last watermark behind the clock; NaN before the first one, and after the last."""
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
        """Lag of the least watermark behind the clock; NaN before there is one, and after the last."""
        lowest = self._valve.lowest
        return nan if lowest in (NO_WATERMARK, MAX_WATERMARK) else self.clock.now_ms - lowest
