"""The inputs of a task: the gates of each input, and the buffer that is being read.

A task with one input processes whole buffers. The inputs of a join take turns, one record or event at a time,
so a quiet input waits for at most one record of a busy input. While a barrier blocks one input, its data
queues up. Afterwards two inputs take turns, so this data and the next barrier behind it are read only half as
fast. The rules are those of Flink's StreamMultipleInputProcessor, which does not read batches of records in
tasks with several inputs (TwoInputStreamTask, MultipleInputStreamTask).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from buffers import RecordBlock, split_at_watermarks

from ..exchange.channel import InputBuffer, InputChannel, Item
from ..exchange.gate import InputGate, UnionGate
from .operators import NOTHING, Operator
from .record_service import Serving
from .service_time import Throttle


class GateWork(NamedTuple):
    """Operator and service time for the records of a gate, and the index of the gate's input."""

    input: int
    operator: Operator
    throttle: Throttle


class ReadableGates(UnionGate):
    """Gates of an input that takes turns with others; polled only if they may have data."""

    def __init__(self, gates: list[InputGate]) -> None:
        super().__init__(gates)
        self._polled_last = False

    def poll(self, now: float) -> tuple[InputChannel, Item] | None:
        """Return the next item, from the gates in turn; None if no gate has one."""
        if not self._polled_last and not any(gate.readable for gate in self.gates):
            return None
        polled = super().poll(now)
        self._polled_last = polled is not None
        return polled


class TaskInput:
    """One input of a task: a gate or a union of gates, and the buffer in progress, if any.

    `poll` returns the next item of the gates. `channel`: the channel of the buffer in progress; None between
    two buffers. `parts`: the unprocessed parts of this buffer. Each part except the last ends with a
    watermark. `serving` processes the records of the first part; `records_served`: whether it has finished.
    """

    __slots__ = (
        "buffer",
        "channel",
        "in_turns",
        "parts",
        "poll",
        "records",
        "records_served",
        "serving",
        "servings",
        "watermark",
    )

    def __init__(self, servings: Mapping[InputGate, Serving], *, in_turns: bool) -> None:
        gates = list(servings)
        self.in_turns = in_turns
        self.poll = ReadableGates(gates).poll if in_turns else UnionGate(gates).poll
        if len(gates) == 1 and not in_turns:
            self.poll = gates[0].poll  # called directly, since it runs once per buffer
        self.channel: InputChannel | None = None
        self.buffer: InputBuffer
        self.parts: list[tuple[RecordBlock, int | None]] = []
        self.records = NOTHING
        self.watermark: int | None = None
        self.servings = servings
        self.serving = servings[gates[0]]
        self.records_served = False

    def begin(self, channel: InputChannel, buffer: InputBuffer, split: bool, spent: float) -> None:
        """Begin to process a buffer, which itself costs `spent` seconds; `split`: at its watermarks."""
        self.channel, self.buffer = channel, buffer
        self.records = channel.decoder.feed(buffer.payload)
        self.records_served = False
        if split:
            self.parts = split_at_watermarks(self.records)
            self.records, self.watermark = self.parts[0]
            self.records_served = not spent and self._is_over
        self.serving = self.servings[channel.gate]
        self.serving.begin(channel, self.records, spent)

    def next_part(self) -> None:
        """Drop the first part, and begin the next one."""
        del self.parts[0]
        self.records, self.watermark = self.parts[0]
        self.records_served = self._is_over
        if self.channel is not None:
            self.serving.begin(self.channel, self.records, 0.0)

    @property
    def _is_over(self) -> bool:
        """Whether neither a record nor a watermark is left in the buffer."""
        return self.watermark is None and not len(self.records)

    def end(self) -> None:
        """Release the buffer in progress, if any."""
        if self.channel is not None:
            self.channel = None
            self.parts.clear()
            self.records = NOTHING  # frees the memory for the next block
            self.buffer.release()
