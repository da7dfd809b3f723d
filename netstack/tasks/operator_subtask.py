"""Subtasks that read input gates, work on records and write what comes out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from buffers import RecordBlock
from flowcontrol import (
    CheckpointBarrier,
    EndOfData,
    EndOfInputChannelState,
    EndOfOutputChannelState,
    Event,
    decode_event,
)

from ..checkpoints.checkpointed_inputs import CheckpointedInputs
from ..checkpoints.recovery import SubtaskRecovery
from ..exchange.channel import InputBuffer, InputChannel
from ..exchange.gate import InputGate
from ..state.snapshots import StateKind
from ..state.subtask_state import SubtaskState
from ..statistics import SubtaskSample
from .block_in_progress import BlockBeingServed, BlockInProgress
from .environment import Environment
from .operators import NOTHING, Operator, OperatorContext
from .outbox import Outbox
from .samples import with_inputs
from .subtask import Mail, Subtask
from .throttle import Throttle
from .time_account import Waiting


class OperatorSubtask(Subtask):
    """Reads its gates buffer by buffer and spends the service time of each record.

    A subtask without outputs waits once for a whole buffer; mail that comes meanwhile is handled at the
    next end of a record's sleep. With outputs it emits each record when its service is over, and begins
    the next one only while the outputs are available.
    """

    __slots__ = (
        "_buffer_cost",
        "_context",
        "_current",
        "_inputs",
        "_operator",
        "_pause_ends",
        "_pause_records",
        "_record_cost",
        "_records_in",
        "_requested",
        "_served",
        "_throttle",
        "buffers_in",
        "bytes_in",
        "gates",
    )

    def __init__(
        self,
        environment: Environment,
        vertex: int,
        index: int,
        name: str,
        state: SubtaskState,
        operator: Operator,
        context: OperatorContext,
        throttle: Throttle,
    ) -> None:
        super().__init__(environment, vertex, index, name, state)
        costs = environment.costs
        self.gates: list[InputGate] = []
        self.bytes_in = 0
        self.buffers_in = 0
        self._records_in = 0
        self._operator = operator
        self._context = context._replace(trace=self.trace)
        self._throttle = throttle
        self._buffer_cost = costs.consumer_buffer_s * environment.randomness.between(costs.subtask_factor)
        self._record_cost = costs.consumer_record_s
        self._requested: list[CheckpointBarrier] = []
        self._inputs: CheckpointedInputs
        self._served = BlockBeingServed(operator)
        self._current: BlockInProgress | None = None
        self._pause_ends: list[float] = []
        self._pause_records: list[int] = []

    def connect(self, gates: list[InputGate]) -> None:
        """Read from `gates`, whose channels are complete."""
        self.gates = gates
        self._inputs = CheckpointedInputs(self, gates, self.environment.config)

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
        inputs, agenda = self._inputs, self.agenda
        self._operator.open(self._context)
        while inputs.open_channels:
            if self._mail:
                await self._handle_mail()
            if not self.available:
                await self.wait_for_output()
            polled = inputs.poll(agenda.now)
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

    async def _process(self, channel: InputChannel, buffer: InputBuffer) -> None:
        self.bytes_in += buffer.size
        self.buffers_in += 1
        self._inputs.bytes_processed(buffer.size)
        try:
            block = channel.decoder.feed(buffer.payload)
            if self.outputs:
                await self._serve_and_emit(channel, block)
            else:
                await self._serve(channel, block)
        finally:
            buffer.release()

    async def _serve(self, channel: InputChannel, block: RecordBlock) -> None:
        """Spend the service time of all records of `block` in one wait."""
        agenda = self.agenda
        start = agenda.now + self._buffer_cost
        ends, counts = self._throttle.charge_all(len(block), start, self._record_cost)
        self._pause_ends, self._pause_records = ends, counts
        served = self._served
        served.channel, served.block, served.done = channel, block, 0
        await agenda.sleep_until(ends[-1] if ends else start)
        while self._pause_ends and self._pause_ends[-1] > agenda.now:  # a snapshot took its time
            await agenda.sleep_until(self._pause_ends[-1])
        if ends and ends[0] > start:
            self._throttle.overslept(agenda.now - ends[-1])
        served.catch_up(len(block))
        served.channel, served.block = None, NOTHING  # so that its memory is free for the next one
        self._records_in += len(block)
        self._pause_ends, self._pause_records = [], []

    async def _serve_and_emit(self, channel: InputChannel, block: RecordBlock) -> None:
        """Spend the service time of each record of `block`, then emit what comes of it."""
        agenda = self.agenda
        spent = self._buffer_cost
        records, served = len(block), 0
        outbox = Outbox(self, self._operator, block)
        self._current = BlockInProgress(channel, block, outbox)
        while served < records:
            count, pause = self._throttle.charge(records - served, agenda.now)
            served += count
            spent += count * self._record_cost
            if pause:
                await outbox.emit(served - 1)
                due = agenda.now + (spent + pause)
                await agenda.sleep(spent + pause)
                self._throttle.overslept(agenda.now - due)
                spent = 0.0
                if self._mail:
                    await self._handle_mail()
            self._records_in += count
            await outbox.emit(served)
        self._current = None
        if spent:
            await agenda.sleep(spent)

    async def _handle_event(self, channel: InputChannel, event: Event) -> None:
        inputs = self._inputs
        match event:
            case EndOfData():
                await self._end_data(channel)
            case EndOfInputChannelState():
                self._recovered(channel)
            case EndOfOutputChannelState():
                inputs.upstream_recovered(channel)
            case _:
                begun = inputs.handle(channel, event)
                if begun is not None:
                    await self.agenda.sleep(begun.sync_s)
                    inputs.finish(begun)

    async def _end_data(self, channel: InputChannel) -> None:
        """All records of `channel` have been processed; after those of the last one, emit what is left."""
        inputs = self._inputs
        inputs.channels_with_data -= 1
        if inputs.channels_with_data == 0:
            # At least once, records may come again after the end that the restored snapshot knows of.
            if self._recovery is None or not self._recovery.data_ended or self._records_in:
                await self.emit_all(self._operator.finish())
            self.data_ended = True
            self.broadcast(EndOfData())
        channel.acknowledge_all_records()

    def _start_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """The coordinator asks because all upstream tasks have ended; their last events come first."""
        if self._inputs.open_channels:
            self._requested.append(barrier)
        else:
            super()._start_checkpoint(barrier)

    def stall(self, duration: float) -> None:
        """Do nothing for `duration` seconds; the records in progress are done so much later."""
        ends = self._pause_ends
        if not ends:
            super().stall(duration)
        for place in range(bisect_right(ends, self.agenda.now), len(ends)):
            ends[place] += duration

    def unconsumed(self, channel: InputChannel) -> bytes:
        """What of `channel` has been read and not been processed: records, and the begin of one."""
        current = self._served if self._current is None else self._current
        rest = current.rest() if current.channel is channel else b""
        return rest + channel.decoder.pending

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Let the operator catch up with the time, and complete its state."""
        if self._served.channel is not None:
            self._served.catch_up(self.records_in - self._records_in)
        self._operator.before_snapshot(checkpoint_id)

    def start_persisting(self, checkpoint_id: int) -> Iterable[tuple[int, int, bytes]]:
        """Begin to keep what is in flight on the inputs; (gate, channel, data) of what is there."""
        return self._inputs.start_persisting(checkpoint_id)

    def stop_persisting(self, checkpoint_id: int) -> None:
        """Keep no more of what is in flight on the inputs."""
        self._inputs.stop_persisting(checkpoint_id)

    @property
    def _awaits_completion(self) -> bool:
        own = type(self._operator).checkpoint_completed
        return super()._awaits_completion or own is not Operator.checkpoint_completed

    def _checkpoint_completed(self, checkpoint_id: int) -> None:
        self._operator.checkpoint_completed(checkpoint_id)
        super()._checkpoint_completed(checkpoint_id)

    def recover(self, recovery: SubtaskRecovery) -> None:
        """Take the state of a checkpoint over; the data that was in flight comes first."""
        super().recover(recovery)
        data = {(one.exchange, one.channel): one for one in recovery.of(StateKind.INPUT_CHANNEL)}
        for number, gate in enumerate(self.gates):
            for channel in gate.channels:
                handle = data.get((number, channel.index))
                channel.restore(b"" if handle is None else recovery.read(handle))

    def _recovered(self, channel: InputChannel) -> None:
        if self._inputs.recovered(channel) and self.on_running is not None:
            self.on_running()

    def sample(self) -> SubtaskSample:
        """The counters and gauges of this moment."""
        sample = (
            super()
            .sample()
            ._replace(records_in=self.records_in, bytes_in=self.bytes_in, buffers_in=self.buffers_in)
        )
        return with_inputs(sample, self.gates)

    def debloat(self) -> None:
        """Recalculate the buffer sizes of all gates: a timer's mail."""
        for gate in self.gates:
            gate.debloat(self.agenda.now)

    def release(self) -> None:
        """Give all memory back."""
        super().release()
        for gate in self.gates:
            gate.release()
