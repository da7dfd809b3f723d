"""Subtasks with several inputs, such as joins.

Inputs with data are read round robin, one record or event at a time. So a quiet input waits for at most one
record of a busy input. While a barrier blocks one input, its data queues up. Afterwards two inputs take
turns, so this data and the next barrier behind it are read only half as fast. The rules are those of Flink's
StreamMultipleInputProcessor, which does not read batches of records in tasks with several inputs
(TwoInputStreamTask, MultipleInputStreamTask).
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from buffers import Content, EventBuffer, RecordBlock, encode_behind, split_at_watermarks

from ..exchange.channel import InputBuffer, InputChannel, Item
from ..exchange.gate import InputGate, UnionGate
from .operator_subtask import OperatorSubtask
from .operators import Operator
from .record_service import RecordByRecord
from .service_time import Throttle


class GateWork(NamedTuple):
    """Operator and service time for the records of a gate, and the index of the gate's input."""

    input: int
    operator: Operator
    throttle: Throttle


@dataclass(slots=True, eq=False)
class BufferInProgress:
    """A buffer that is being read record by record.

    `parts` holds its unprocessed parts; `serving` processes the first part. Each part except the last ends
    with a watermark, which is processed when `records_served` is True.
    """

    channel: InputChannel
    buffer: InputBuffer
    parts: list[tuple[RecordBlock, int | None]]
    serving: RecordByRecord
    records_served: bool = False

    def begin_part(self, spent: float) -> None:
        """Begin to process the first part; the buffer itself costs `spent` seconds."""
        self.serving.begin(self.channel, self.parts[0][0], spent)
        self.records_served = False


class TaskInput(UnionGate):
    """One input of a task: a gate or a union of gates, and the buffer that is `in_progress`, if any."""

    def __init__(self) -> None:
        super().__init__([])
        self.servings: dict[InputGate, RecordByRecord] = {}
        self.in_progress: BufferInProgress | None = None
        self._polled_last = False

    @property
    def readable(self) -> bool:
        """Whether there may be data to read; True until a poll returns nothing."""
        return self.in_progress is not None or self._polled_last or any(gate.readable for gate in self.gates)

    def poll(self, now: float) -> tuple[InputChannel, Item] | None:
        """Return the next item, from the gates in turn; None if no gate has one."""
        polled = super().poll(now)
        self._polled_last = polled is not None
        return polled


class MultipleInputSubtask(OperatorSubtask):
    """Subtask that reads its inputs round robin.

    `works` holds the operator and throttle for each gate's records.
    """

    __slots__ = ("_task_inputs", "_turn", "_works")

    _works: Sequence[GateWork]

    def reads(self, works: Sequence[GateWork]) -> None:
        """Set the operators and throttles for the records of each gate, in the order of the gates."""
        self._works = works
        self._task_inputs: list[TaskInput] = []
        self._turn = -1  # the input that was read last

    def connect(self, gates: list[InputGate]) -> None:
        """Set the gates to read from. Their channels and the outputs must exist already."""
        super().connect(gates)
        inputs: dict[int, TaskInput] = {}
        for gate, work in zip(gates, self._works, strict=True):
            task_input = inputs.setdefault(work.input, TaskInput())
            task_input.gates.append(gate)
            task_input.servings[gate] = RecordByRecord(self, work.operator, work.throttle)
        self._task_inputs = [inputs[number] for number in sorted(inputs)]

    @property
    def records_in(self) -> int:
        """Number of records whose service is finished."""
        return sum(serving.records for each in self._task_inputs for serving in each.servings.values())

    @property
    def _service_s(self) -> float:
        service_s = self._fired_s
        for throttle in dict.fromkeys(work.throttle for work in self._works):
            service_s += throttle.charged_s
        return service_s

    @property
    def _operators(self) -> Iterable[Operator]:
        """The operators of the task and of its edges, without duplicates."""
        return dict.fromkeys([self.operator, *(work.operator for work in self._works)])

    def _next_work(self) -> Coroutine[Any, Any, None] | None:
        """Return the processing of the next record or event, from the input that is next in turn and has
        data; None if no input has data.
        """
        inputs = self._task_inputs
        for _ in inputs:
            self._turn = (self._turn + 1) % len(inputs)
            if inputs[self._turn].readable:
                return self._read_one(inputs[self._turn])
        return None

    async def _read_one(self, task_input: TaskInput) -> None:
        """Read the next record or event of an input."""
        while not await self._serve(task_input):
            polled = task_input.poll(self.agenda.now)
            if polled is None:
                return
            channel, item = polled
            if isinstance(item, EventBuffer):
                await self._handle_event(channel, item.event)
                return
            self._begin(task_input, channel, item)

    def _begin(self, task_input: TaskInput, channel: InputChannel, buffer: InputBuffer) -> None:
        self._count(buffer)
        block = channel.decoder.feed(buffer.payload)
        parts: list[tuple[RecordBlock, int | None]] = [(block, None)]
        if self.watermarks is not None:
            parts = split_at_watermarks(block)
        reading = BufferInProgress(channel, buffer, parts, task_input.servings[channel.gate])
        task_input.in_progress = reading
        reading.begin_part(self._cost_of_buffer())

    async def _serve(self, task_input: TaskInput) -> bool:
        """Process the next record or watermark of an input's buffer; returns False if none is left in it."""
        reading = task_input.in_progress
        if reading is None:
            return False
        flow, watermark = self.watermarks, reading.parts[0][1]
        has_record = reading.serving.left > 0
        if not reading.records_served:
            if flow is not None:
                flow.reads(reading.channel)
            reading.records_served = await reading.serving.go_on(one_record=True)
        if flow is not None and watermark is not None:
            if reading.records_served and not has_record:
                await flow.take(reading.channel, watermark)
                del reading.parts[0]
                reading.begin_part(0.0)
            return True
        if reading.records_served:
            task_input.in_progress = None
            reading.buffer.release()
        return has_record

    def unconsumed(self, channel: InputChannel) -> list[Content]:
        """Return the data of `channel` that has been read but not processed."""
        gate, partial_records = channel.gate, list[Content]()
        for task_input in self._task_inputs:
            if gate in task_input.servings:
                partial_records.append(task_input.servings[gate].rest(channel))
                reading = task_input.in_progress
                if reading is not None and reading.channel is channel:
                    partial_records.append(encode_behind(reading.parts))
        return [*partial_records, channel.partial_record]

    def release(self) -> None:
        """Release all memory."""
        for task_input in self._task_inputs:
            if task_input.in_progress is not None:
                task_input.in_progress.buffer.release()
        super().release()
