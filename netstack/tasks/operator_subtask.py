"""Subtasks that read input gates, process records and write the output."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from math import floor
from typing import Any, Final

from buffers import Content, EventBuffer, RecordBlock, encode_behind, split_at_watermarks
from flowcontrol import (
    CheckpointBarrier,
    EndOfData,
    EndOfInputChannelState,
    EndOfOutputChannelState,
    Event,
)

from ..checkpoints.recovery import SubtaskRecovery
from ..exchange.channel import InputBuffer, InputChannel, Item
from ..exchange.gate import InputGate, UnionGate
from ..results.recorder import SubtaskSample
from ..state.handles import EVENT_TIME, HELD_BACK
from ..state.state_kinds import StateKind
from ..state.subtask_state import SubtaskState
from .input_barriers import InputBarriers
from .operators import Operator, OperatorContext
from .record_service import RecordByRecord, Serving, WholeBuffers
from .service_time import Throttle
from .state_work import state_times
from .subtask import Mail, Subtask, with_inputs
from .subtask_environment import Environment
from .synthetic_output import HeldBack
from .time_account import Lateness, Waiting
from .watermarks import WatermarkFlow

_INPUT: Final = Waiting.INPUT  # compiled code need not look up what is final


class OperatorSubtask(Subtask):
    """Subtask that reads its gates buffer by buffer and spends the service time of each record.

    A subtask without outputs processes all records of a buffer in one wait. Mail that arrives meanwhile is
    handled at the end of the current sleep. A subtask with outputs, or whose work occupies a core, emits each
    record when its service is finished. It begins the next record only while the outputs are available.
    Records in `held_back` are emitted periodically, or by watermarks if `watermarks` is set before `connect`.
    `firing` holds the cost of each of them; None: they cost nothing.
    Unless a checkpoint is restored, the subtask begins with a debt of `behind_s` seconds of work. With
    debloating, it works off the debt only when its buffers have stopped growing. Buffers are small at first,
    so the producers would wait for this subtask, and it would not fall behind the others.
    """

    __slots__ = (
        "_behind_s",
        "_buffer_cost",
        "_context",
        "_emit_every_s",
        "_firing",
        "_parts",
        "_parts_of",
        "_poll",
        "_recovered_outputs",
        "_recovering",
        "_requested",
        "_serving",
        "_state_times",
        "_steps_without_growth",
        "_with_data",
        "barriers",
        "buffers_in",
        "bytes_in",
        "gates",
        "held_back",
        "operator",
        "throttle",
        "watermarks",
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
        held_back: HeldBack | None = None,
        emit_every_s: float = 0.0,
        behind_s: float = 0.0,
        firing: Throttle | None = None,
    ) -> None:
        super().__init__(environment, vertex, index, name, state)
        costs = environment.costs
        self.gates: list[InputGate] = []
        self.bytes_in = 0
        self.buffers_in = 0
        self.operator = operator
        self._context = context._replace(trace=self.trace)
        self._buffer_cost = costs.consumer_buffer_s * environment.randomness.between(
            costs.subtask_factor, "buffer cost", str(self)
        )
        self._state_times = state_times(state, costs)
        self._requested: list[CheckpointBarrier] = []
        self._poll: Callable[[float], tuple[InputChannel, Item] | None]
        self._with_data = 0
        self._recovering = 0
        self._recovered_outputs: dict[object, set[int]] = {}  # by gate: channels that have this end
        self.throttle = throttle
        self.held_back = held_back
        self._emit_every_s = emit_every_s
        self._behind_s = behind_s
        self._firing = firing
        self._steps_without_growth = 0
        self.watermarks: WatermarkFlow | None = None
        self._parts: list[tuple[RecordBlock, int | None]] = []  # of the buffer in progress, with watermarks
        self._parts_of: InputChannel | None = None
        self.barriers: InputBarriers
        self._serving: Serving = WholeBuffers(environment, operator, throttle)

    def connect(self, gates: list[InputGate]) -> None:
        """Set the gates to read from. Their channels and the outputs must exist already."""
        self.gates = gates
        if self.outputs or self.throttle.cores is not None:
            self._serving = RecordByRecord(self, self.operator, self.throttle)
            for output in self.outputs:
                output.partition.write_due = self._serving.write_due
        if self.watermarks is not None:
            self.watermarks.connect(gates, self._advance_event_time)
        self.barriers = InputBarriers(self, gates)
        self._with_data = len(self.barriers.channels)
        # With one gate its poll is called directly, since it runs once per buffer.
        self._poll = gates[0].poll if len(gates) == 1 else UnionGate(gates).poll

    def data_arrived(self) -> None:
        """Resume if the subtask is waiting for input: a gate has become readable."""
        if self.times.state is _INPUT:
            self.waiter.wake(self._wake_up * self._jitter.draw())

    def post(self, mail: Mail) -> None:
        """Schedule `mail` to be handled between two records, or at the end of the current sleep within a
        buffer.
        """
        if not self._serving.take_mail(mail):
            super().post(mail)  # in the last sleep of a buffer, the mail is handled before the next poll

    def cancel(self) -> None:
        """Cancel the partition requests.

        The caller has closed the routine, so the subtask cannot be woken any more.
        """
        super().cancel()
        for gate in self.gates:
            gate.cancel()

    @property
    def records_in(self) -> int:
        """Number of records whose service is finished."""
        return self._serving.records

    async def run(self) -> None:
        """Run until every channel has ended."""
        self._open()
        if self._recovery is not None:
            self._behind_s = 0.0
        elif self._behind_s and not self.environment.config.debloat_enabled:
            await self.agenda.sleep(self._behind_s)
            self._behind_s = 0.0
        if self._recovering and self.environment.config.checkpoints_during_recovery:
            # All partitions are requested while recovered data is still queued in front of new data.
            self._recovering = 0
            for gate in self.gates:
                gate.request_partitions()
            if self.on_running is not None:
                self.on_running()
        await self._read()
        if self.suspended:
            return
        for barrier in self._requested:
            self._start_checkpoint(barrier)
        await self._end()

    def _open(self) -> None:
        if self._state_times is not None:
            self._state_times.owed_s()  # the restore has taken its time already
        for operator in self._operators:
            operator.open(self._context)
        if self.held_back is not None:
            self.held_back.restore(self._context.operator.get(HELD_BACK))
        if self._emit_every_s:
            self._set_alarm()

    async def _read(self) -> None:
        """Read and process all input."""
        handler = self.barriers.handler
        while handler.open_channels and not self.suspended:
            if self.lateness is not None:
                self.measure_lateness(self.lateness)
            if self.mail:
                await self.handle_mail()
                if self.suspended:
                    return
            if not self.available:
                await self.wait_for_output()
            work = self._next_work()
            if work is None:
                await self._wait(_INPUT)
            else:
                await work

    def _next_work(self) -> Coroutine[Any, Any, None] | None:
        """Return the processing of the next buffer or event; None if no gate has one."""
        polled = self._poll(self.agenda.now)
        if polled is None:
            return None
        channel, item = polled
        if isinstance(item, EventBuffer):
            return self._handle_event(channel, item.event)
        return self._process(channel, item)

    @property
    def _service_s(self) -> float:
        """Total service time of all records so far."""
        return self.throttle.charged_s + self._fired_s

    @property
    def _fired_s(self) -> float:
        """Total cost of the records of windows so far."""
        return 0.0 if self._firing is None else self._firing.charged_s

    def measure_lateness(self, lateness: Lateness) -> None:
        """Update the lateness with the amount of data read so far."""
        work_s = lateness.of_reading(self.buffers_in, self.records_in) + self._service_s
        lateness.measure(self.agenda.now, self.times, work_s, self.checkpoints.snapshots)

    def _count(self, buffer: InputBuffer) -> None:
        self.bytes_in += buffer.size
        self.buffers_in += 1
        self.barriers.handler.bytes_processed(buffer.size)

    def _cost_of_buffer(self) -> float:
        """Return the cost of a buffer besides its records, in seconds.

        It includes the cost of state accesses and of load comparisons since the last buffer.
        """
        times, cost = self._state_times, self._buffer_cost + self.selection_s()
        return cost if times is None else cost + times.owed_s()

    def _set_alarm(self) -> None:
        """Schedule the emission of held-back records at the next multiple of the period."""
        period = self._emit_every_s
        self.environment.scope.at((floor(self.agenda.now / period + 1e-9) + 1) * period, self._alarm)

    async def _emit_periodically(self) -> None:
        """Emit the held-back records."""
        if self.held_back is not None:
            await self._fire(self.held_back.take())

    async def _advance_event_time(self, watermark: int) -> None:
        """Fire windows because the lowest watermark of all channels has risen, then send this watermark
        downstream.
        """
        if self.watermarks is not None and self.watermarks.windows is not None:
            for block in self.watermarks.windows.take_until(watermark):
                await self._fire(block)
        await self.emit_watermark(watermark)

    async def _fire(self, block: RecordBlock) -> None:
        """Emit the records of a window; nothing else is handled until all have been emitted, as in the loop
        of Flink's InternalTimerServiceImpl over the timers that have passed.
        """
        firing, emitted = self._firing, 0
        while firing is not None and emitted < len(block):
            count, pause = firing.charge(len(block) - emitted, self.agenda.now)
            if pause:
                await self.emit_all(block[emitted : emitted + count - 1])
                due = self.agenda.now + pause
                emitted += count - 1
                count = 1
                await (self.agenda.sleep(pause) if firing.cores is None else firing.cores.work(pause))
                firing.overslept(self.agenda.now - due)
            await self.emit_all(block[emitted : emitted + count])
            emitted += count
        await self.emit_all(block[emitted:])

    async def _process(self, channel: InputChannel, buffer: InputBuffer) -> None:
        self._count(buffer)
        try:
            block = channel.decoder.feed(buffer.payload)
            if self.watermarks is None:
                await self._serving.serve(channel, block, self._cost_of_buffer())
            else:
                await self._serve_parts(self.watermarks, channel, block, self._cost_of_buffer())
        finally:
            buffer.release()

    async def _serve_parts(
        self, flow: WatermarkFlow, channel: InputChannel, block: RecordBlock, spent: float
    ) -> None:
        """Process the records of a buffer, and its watermarks between them."""
        self._parts_of, self._parts = channel, split_at_watermarks(block)
        while self._parts:
            records, watermark = self._parts[0]
            flow.reads(channel)
            if watermark is not None or len(records) or spent:
                await self._serving.serve(channel, records, spent)
            if watermark is not None:
                await flow.take(channel, watermark)
            spent = 0.0
            del self._parts[0]

    async def _handle_event(self, channel: InputChannel, event: Event) -> None:
        match event:
            case EndOfData():
                await self._end_data(channel)
            case EndOfInputChannelState():
                self._end_recovered_input(channel)
            case EndOfOutputChannelState():
                self._end_recovered_output(channel)
            case _:
                if self.barriers.handle(channel, event):
                    await self._pass_blocked_time()

    async def _end_data(self, channel: InputChannel) -> None:
        """Handle the end of `channel`'s data; after the last channel, emit the operator's final output."""
        self._with_data -= 1
        if self._with_data == 0:
            if not self.had_ended:
                await self.emit_all(self.operator.finish())
            self.data_ended = True
            self.broadcast(EndOfData())
        channel.acknowledge_all_records()

    def _start_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Begin a checkpoint that the coordinator has triggered because all upstream tasks have ended."""
        if self.barriers.handler.open_channels:
            self._requested.append(barrier)
        else:
            super()._start_checkpoint(barrier)

    def block(self, duration: float) -> None:
        """Do nothing for `duration` seconds; the records in progress are delayed by this time."""
        if not self._serving.block(duration):
            super().block(duration)

    def unconsumed(self, channel: InputChannel) -> list[Content]:
        """Return the data of `channel` that has been read but not processed."""
        behind = encode_behind(self._parts) if channel is self._parts_of else b""
        return [self._serving.rest(channel), behind, channel.partial_record]

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Update the operator to the current time, and complete its state."""
        self._serving.catch_up()
        for operator in self._operators:
            operator.before_snapshot(checkpoint_id)
        if self.held_back is not None:
            self._context.operator.put(HELD_BACK, self.held_back.encoded)
        if self.watermarks is not None:
            self._context.operator.put(EVENT_TIME, [self.watermarks.clock.now_ms])

    @property
    def _operators(self) -> Iterable[Operator]:
        """All operators of the subtask."""
        return (self.operator,)

    @property
    def _awaits_completion(self) -> bool:
        return super()._awaits_completion or self.operator.hears_of_completion

    def _checkpoint_completed(self, checkpoint_id: int) -> None:
        self.operator.checkpoint_completed(checkpoint_id)
        super()._checkpoint_completed(checkpoint_id)

    def recover(self, recovery: SubtaskRecovery) -> None:
        """Restore the state of a checkpoint. The task processes the recovered in-flight data first.

        New data and checkpoints wait until then, unless checkpoints are taken during recovery.
        """
        super().recover(recovery)
        self._recovering = len(self.gates)
        if self.watermarks is not None:
            for reached_ms in self.state.operator.get(EVENT_TIME):
                self.watermarks.clock.go_on_from(reached_ms)
        marks_end = not self.environment.config.checkpoints_during_recovery
        data = {(handle.exchange, handle.channel): handle for handle in recovery.of(StateKind.INPUT_CHANNEL)}
        for number, gate in enumerate(self.gates):
            for channel in gate.channels:
                handle = data.get((number, channel.index))
                channel.restore(b"" if handle is None else recovery.read(handle), marks_end=marks_end)

    @property
    def had_ended(self) -> bool:
        """Whether the subtask had ended before the checkpoint and no record has arrived since.

        With at-least-once, records can arrive after a restart.
        """
        return super().had_ended and not self.records_in

    def _end_recovered_input(self, channel: InputChannel) -> None:
        """Handle the end of `channel`'s own recovered data; with the last one of a gate, request new data."""
        if channel.gate.recovered(channel):
            channel.gate.request_partitions()
            self._recovering -= 1
            if self._recovering == 0 and self.on_running is not None:
                self.on_running()

    def _end_recovered_output(self, channel: InputChannel) -> None:
        """Handle the end of a producer's recovered data.

        All channels of a gate stay blocked until each of them has received this end.
        """
        gate = channel.gate
        reached = self._recovered_outputs.setdefault(gate, set())
        reached.add(channel.index)
        if len(reached) == len(gate.channels):
            reached.clear()
            for other in gate.channels:
                other.resume()

    def sample(self) -> SubtaskSample:
        """Return the current counters and gauges."""
        self._serving.write_due()
        sample = with_inputs(super().sample(), self.gates)._replace(
            records_in=self.records_in, bytes_in=self.bytes_in, buffers_in=self.buffers_in
        )
        if self.watermarks is not None:
            sample = sample._replace(watermark_lag_ms=self.watermarks.lag_ms)
        return sample

    def debloat(self) -> None:
        """Recalculate the buffer sizes of all gates; called as mail of a timer.

        Does nothing while recovered in-flight data is being read. At that time no partition has been
        requested, so an announced size would not reach the producers, and an unchanged size is not announced
        again. (Flink's StreamTask begins when all gates have recovered.)
        """
        if self._recovering:
            return
        before = [gate.size_in_force for gate in self.gates]
        for gate in self.gates:
            gate.debloat(self.agenda.now)
        if self._behind_s:
            grown = any(gate.size_in_force > size for gate, size in zip(self.gates, before, strict=True))
            self._steps_without_growth = 0 if grown else self._steps_without_growth + 1
            policies = [gate.debloater for gate in self.gates if gate.debloater is not None]
            steps_to_grow = max([policy.settings.steps_to_grow for policy in policies], default=0)
            if self._steps_without_growth > steps_to_grow:
                self.block(self._behind_s)
                self._behind_s = 0.0

    def release(self) -> None:
        """Release all memory."""
        super().release()
        for gate in self.gates:
            gate.release()
