"""Subtasks that read input gates, work on records and write what comes out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import nan

from buffers import RecordBlock
from flowcontrol import (
    Abort,
    BarrierAligner,
    BarrierHandler,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    Event,
    Resume,
    Trigger,
    decode_event,
)

from .gate import InputGate, Item
from .input_channel import InputBuffer, InputChannel
from .operators import Operator
from .outbox import Outbox
from .statistics import SubtaskSample
from .subtask import Acknowledgement, Environment, Mail, Subtask, Waiting
from .throttle import Throttle


class OperatorSubtask(Subtask):
    """Reads its gates buffer by buffer and spends the service time of each record.

    A subtask without outputs waits once for a whole buffer; mail that comes meanwhile is handled at the
    next end of a record's sleep. With outputs it emits each record when its service is over, and begins
    the next one only while the outputs are available.
    """

    def __init__(
        self,
        environment: Environment,
        vertex: int,
        index: int,
        operator: Operator,
        throttle: Throttle,
    ) -> None:
        super().__init__(environment, vertex, index)
        costs = environment.costs
        self.gates: list[InputGate] = []
        self.bytes_in = 0
        self.buffers_in = 0
        self._records_in = 0
        self._operator = operator
        self._throttle = throttle
        self._buffer_cost = costs.consumer_buffer_s * environment.randomness.between(costs.subtask_factor)
        self._record_cost = costs.consumer_record_s
        self._gate_turn = 0
        self._open_channels = 0
        self._channels_with_data = 0
        self._requested: list[CheckpointBarrier] = []
        self._aligner: BarrierHandler
        self._channels: list[InputChannel] = []
        self._pause_ends: list[float] = []
        self._pause_records: list[int] = []

    def connect(self, gates: list[InputGate]) -> None:
        """Read from `gates`, whose channels are complete."""
        self.gates = gates
        self._channels = [channel for gate in gates for channel in gate.channels]
        self._open_channels = self._channels_with_data = len(self._channels)
        self._numbers = {id(channel): number for number, channel in enumerate(self._channels)}
        self._aligner = BarrierAligner(
            self._open_channels,
            checkpoints_after_tasks_finish=self.environment.checkpoints_after_tasks_finish,
        )

    def data_arrived(self) -> None:
        """A gate has become readable: go on if that is what is waited for."""
        if self._waiting is Waiting.INPUT:
            self._waiter.wake(self._wake_up * self._jitter())

    def post(self, mail: Mail) -> None:
        """Have `mail` handled between two records; within a buffer at the end of the current sleep."""
        ends = self._pause_ends
        place = bisect_left(ends, self.agenda.now)
        if place < len(ends) - 1:
            self.agenda.at(ends[place], mail)
        else:  # nothing to wake in the last sleep of a buffer: the mail is handled before the next poll
            super().post(mail)

    @property
    def records_in(self) -> int:
        """Records whose service is over."""
        ends = self._pause_ends
        if not ends:
            return self._records_in
        passed = bisect_right(ends, self.agenda.now)
        return self._records_in + (self._pause_records[passed - 1] if passed else 0)

    async def run(self) -> None:
        """Work until every channel has ended."""
        while self._open_channels:
            if self._mail:
                self._handle_mail()
            if not self.available:
                await self.wait_for_output()
            polled = self._poll()
            if polled is None:
                await self._wait(Waiting.INPUT)
            else:
                channel, item = polled
                if item.is_event:
                    await self._handle_event(channel, decode_event(item.payload))
                else:
                    await self._process(channel, item)  # type: ignore[arg-type]
        for barrier in self._requested:
            self._start_checkpoint(barrier)
        await self._end()

    def _poll(self) -> tuple[InputChannel, Item] | None:
        """The next item of the gate whose turn it is."""
        gates = self.gates
        now = self.agenda.now
        for _ in gates:
            gate = gates[self._gate_turn]
            self._gate_turn = (self._gate_turn + 1) % len(gates)
            polled = gate.poll(now)
            if polled is not None:
                return polled
        return None

    async def _process(self, channel: InputChannel, buffer: InputBuffer) -> None:
        self.bytes_in += buffer.size
        self.buffers_in += 1
        self._aligner.bytes_processed(buffer.size)
        try:
            block = channel.decoder.feed(buffer.payload)
            if self.outputs:
                await self._serve_and_emit(block)
            else:
                await self._serve(block)
        finally:
            buffer.release()

    async def _serve(self, block: RecordBlock) -> None:
        """Spend the service time of all records of `block` in one wait."""
        agenda = self.agenda
        start = agenda.now + self._buffer_cost
        ends, counts = self._throttle.charge_all(len(block), start, self._record_cost)
        self._pause_ends, self._pause_records = ends, counts
        await agenda.sleep_until(ends[-1] if ends else start)
        if len(block):
            self._operator.process(block)
        self._records_in += len(block)
        self._pause_ends, self._pause_records = [], []

    async def _serve_and_emit(self, block: RecordBlock) -> None:
        """Spend the service time of each record of `block`, then emit what comes of it."""
        agenda = self.agenda
        spent = self._buffer_cost
        records, served = len(block), 0
        outbox = Outbox(self, self._operator, block)
        while served < records:
            count, pause = self._throttle.charge(records - served, agenda.now)
            served += count
            spent += count * self._record_cost
            if pause:
                await outbox.emit(served - 1)
                await agenda.sleep(spent + pause)
                spent = 0.0
                if self._mail:
                    self._handle_mail()
            self._records_in += count
            await outbox.emit(served)
        if spent:
            await agenda.sleep(spent)

    async def emit_all(self, block: RecordBlock) -> None:
        """Emit a block whose records count as one: outputs are not waited for in between."""
        if len(block):
            channels = self.select_channels(block)
            start = 0
            while start < len(block):
                start = await self.emit(block, channels, start, len(block))

    async def _handle_event(self, channel: InputChannel, event: Event) -> None:
        number = self._numbers[id(channel)]
        now = self.agenda.now
        if isinstance(event, CheckpointBarrier):
            actions = self._aligner.barrier(number, event, now)
        elif isinstance(event, CancelCheckpointMarker):
            actions = self._aligner.cancel(number, event.checkpoint_id, now)
        elif isinstance(event, EndOfPartition):
            self._open_channels -= 1
            actions = self._aligner.end_of_partition(number, now)
        else:
            await self._end_data(channel)
            actions = []
        report: Acknowledgement | None = None
        for action in actions:
            if isinstance(action, Trigger):
                report = await self._snapshot(action)
            elif isinstance(action, Resume):
                self._channels[action.channel].resume()
            elif isinstance(action, Abort):
                self._broadcast(CancelCheckpointMarker(action.checkpoint_id))
                self.environment.coordinator.decline(action.checkpoint_id)
        if report is not None:
            self.environment.coordinator.acknowledge(self, report)

    async def _snapshot(self, trigger: Trigger) -> Acknowledgement:
        sync = self._forward_barrier(trigger.barrier)
        await self.agenda.sleep(sync)
        return Acknowledgement(trigger.barrier.checkpoint_id, trigger.metrics, sync)

    async def _end_data(self, channel: InputChannel) -> None:
        """All records of `channel` have been processed; after those of the last one, emit what is left."""
        self._channels_with_data -= 1
        if self._channels_with_data == 0:
            await self.emit_all(self._operator.finish())
            self._broadcast(EndOfData())
        channel.acknowledge_all_records()

    def _start_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """The coordinator asks because all upstream tasks have ended; their last events come first."""
        if self._open_channels:
            self._requested.append(barrier)
        else:
            super()._start_checkpoint(barrier)

    def sample(self) -> SubtaskSample:
        """The counters and gauges of this moment."""
        usage = [gate.pool_usage for gate in self.gates]
        total = sum(total for _, total in usage)
        debloaters = [gate.debloater for gate in self.gates if gate.debloater is not None]
        return (
            super()
            .sample()
            ._replace(
                records_in=self.records_in,
                bytes_in=self.bytes_in,
                buffers_in=self.buffers_in,
                debloated_buffer_size=min([d.last_announced for d in debloaters], default=nan),
                estimated_time_to_consume_ms=max(
                    [d.estimated_time_s * 1000 for d in debloaters], default=nan
                ),
                input_queue_length=sum(gate.queue_length for gate in self.gates),
                input_queue_size=sum(gate.queued_bytes for gate in self.gates),
                in_pool_usage=sum(used for used, _ in usage) / total if total else 0.0,
            )
        )

    def debloat(self) -> None:
        """Recalculate the buffer sizes of all gates: a timer's mail."""
        for gate in self.gates:
            gate.debloat(self.agenda.now)

    def release(self) -> None:
        """Give all memory back."""
        super().release()
        for gate in self.gates:
            gate.release()
