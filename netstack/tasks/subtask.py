"""Base of all subtasks: one thread of control with a mailbox, outputs and a time account.

A subtask does one thing at a time. It reads only while it can write, and it handles mail (timers, requests of
the coordinator) only between two records, never during a sleep. The rules are those of Flink's StreamTask and
its mailbox.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import nan
from typing import Final

from buffers import RecordBlock, encode_watermark
from flowcontrol import CheckpointBarrier, EndOfPartition, Event

from ..checkpoints.pending_checkpoint import UpstreamTask
from ..checkpoints.recovery import SubtaskRecovery, restore_partitions
from ..engine.agenda import Routine, Waiter, suspend
from ..exchange.gate import InputGate
from ..exchange.partition import ALL, LEFT_OUT, ResultPartition
from ..exchange.selectors import Fraction, RoundRobin
from ..results.recorder import SubtaskSample
from ..results.trace import restored_text
from ..state.subtask_state import SubtaskState
from .subtask_environment import Environment, Output
from .task_checkpoints import TaskCheckpoints
from .time_account import Lateness, TimeAccount, Waiting

Mail = Callable[[], None]

_NOTHING: Final = Waiting.NOTHING  # compiled code need not look up what is final
_OUTPUT: Final = Waiting.OUTPUT


class Subtask:
    """One parallel instance of a vertex.

    `vertex`, `name` and `index` identify the subtask. Each record is written to all `outputs`, in order.
    `upstream`: the subtasks that it reads from. `readers`: for each output, the reading vertex and, for each
    subpartition, the index of the reading subtask. `data_ended`: whether the last record has been processed.
    `suspended`: whether the savepoint that stops the job without draining is complete. `mail` is handled
    after the current record.
    """

    __slots__ = (
        "_blocked_s",
        "_emission_due",
        "_final_checkpoint_completed",
        "_jitter",
        "_recovery",
        "_restoring",
        "_wake_up",
        "agenda",
        "checkpoints",
        "data_ended",
        "ended",
        "environment",
        "index",
        "lateness",
        "mail",
        "name",
        "on_opening",
        "on_running",
        "outputs",
        "readers",
        "state",
        "suspended",
        "times",
        "upstream",
        "vertex",
        "waiter",
    )

    def __init__(
        self, environment: Environment, vertex: int, index: int, name: str, state: SubtaskState
    ) -> None:
        self.environment = environment
        self.agenda = environment.agenda
        self.vertex = vertex
        self.index = index
        self.name = name
        self.state = state
        self.outputs: list[Output] = []
        self.upstream: list[UpstreamTask] = []
        self.readers: list[tuple[str, Sequence[int]]] = []
        self.times = TimeAccount()
        self.lateness = None if environment.judged_by is None else Lateness(environment.judged_by)
        self.data_ended = False
        self.suspended = False
        self.ended = False
        self.checkpoints = TaskCheckpoints(self)
        self.on_opening: Callable[[], None] | None = None
        self.on_running: Callable[[], None] | None = None
        self._recovery: SubtaskRecovery | None = None
        self._restoring: Iterator[None] | None = None
        self.mail: deque[Mail] = deque()
        self.waiter = Waiter(self.agenda)
        self._blocked_s = 0.0
        self._emission_due = False
        self._final_checkpoint_completed = False
        self._wake_up = environment.costs.wake_up_s
        self._jitter = environment.randomness.jitter("wake-up", str(self))

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"

    @property
    def last_checkpoint(self) -> int:
        """Id of the last checkpoint whose barrier the subtask has sent."""
        return self.checkpoints.last

    def behind_s(self, held_up_s: float) -> float | None:
        """Return the seconds by which the task lags behind the wall clock; None if this is not measured.

        `held_up_s`: total time for which the subtask's process could not run entries of the agenda that were
        due.
        """
        if self.lateness is None:
            return None
        if self.times.state is not _NOTHING:
            self.times.add_until(self.agenda.now)
            self.measure_lateness(self.lateness)
        return self.lateness.behind_s(held_up_s)

    def measure_lateness(self, lateness: Lateness) -> None:
        """Update the lateness with the work done so far; called while no record is in progress."""
        raise NotImplementedError

    async def run(self) -> None:
        """Run until the input has ended or the job is cancelled."""
        raise NotImplementedError

    def begin(self) -> Routine:
        """Return the routine of the subtask: the rest of a recovery that waits for memory, if any, then
        `run`.
        """
        return self.run() if self._restoring is None else self._recover_and_run(self._restoring)

    async def _recover_and_run(self, restoring: Iterator[None]) -> None:
        while not next(restoring, True):
            await self._wait(_OUTPUT)
        await self.run()

    def post(self, mail: Mail) -> None:
        """Schedule `mail` to be handled as soon as possible, between two records."""
        self.mail.append(mail)
        self.waiter.wake(self._wake_up * self._jitter.draw())

    def output_available(self) -> None:
        """Resume if the subtask is waiting for its outputs; called when a pool has buffers again."""
        if self.times.state is _OUTPUT:
            returned_in = max(0.0, self._segment_at() - self.agenda.now)
            self.waiter.wake(returned_in + self._wake_up * self._jitter.draw())

    def _segment_at(self) -> float:
        """Return the time at which the latest segment that the subtask has waited for is back."""
        return max([output.partition.pool.freed_at for output in self.outputs])

    def _collect(self) -> None:
        """Take back all segments whose bytes have left."""
        now = self.agenda.now
        for output in self.outputs:
            output.partition.pool.collect(now)

    def _await_segments(self) -> None:
        """Ask all exhausted pools for the next segment that returns."""
        for output in self.outputs:
            pool = output.partition.pool
            if not pool.available:
                pool.await_return()

    @property
    def available(self) -> bool:
        """Whether all outputs can take another record."""
        for output in self.outputs:  # noqa: SIM110 - a generator costs twice as much, once a record
            if not output.partition.pool.available:
                return False
        return True

    async def handle_mail(self) -> None:
        """Handle all mail, including mail that arrives while a snapshot is being taken.

        Then emit the output of a timer, if one is due.
        """
        while True:
            while self.mail or self._blocked_s:
                while self.mail:
                    self.mail.popleft()()
                if self._blocked_s:
                    await self._pass_blocked_time()
            if not self._emission_due:
                return
            self._emission_due = False
            await self._emit_periodically()

    def _set_alarm(self) -> None:
        """Schedule the next `_alarm`, if the subtask has periodic output."""

    def _alarm(self) -> None:
        if not self.data_ended:
            self.post(self._request_emission)
            self._set_alarm()

    def _request_emission(self) -> None:
        """Let the output of a timer follow, unless the subtask has stopped with a savepoint.

        After a restore from the savepoint this output is emitted again. Consumers that have stopped would
        not read it.
        """
        self._emission_due = self.checkpoints.stops_with is None or self.checkpoints.drains

    async def _emit_periodically(self) -> None:
        """Emit the output of a timer; called between two records, after an `_alarm`."""

    def block(self, duration: float) -> None:
        """Do nothing for `duration` seconds, after the mail or event that is being handled."""
        self._blocked_s += duration

    async def _pass_blocked_time(self) -> None:
        duration, self._blocked_s = self._blocked_s, 0.0
        await self.agenda.sleep(duration)

    async def _wait(self, reason: Waiting) -> None:
        """Wait once, for `reason` or for mail."""
        self.times.enter(reason, self.agenda.now)
        self.waiter.prepare()
        if reason is _OUTPUT:
            self._await_segments()
        await suspend()
        self.times.enter(_NOTHING, self.agenda.now)

    async def wait_for_output(self) -> None:
        """Wait until the outputs can take another record; mail is handled meanwhile."""
        self._collect()
        while not (self.available or self.suspended):
            if not self.mail:  # mail may have arrived while a record was being written
                await self._wait(_OUTPUT)
            if self.mail:
                await self.handle_mail()

    async def _complete_record(self, partition: ResultPartition) -> None:
        """Wait until a partly written record is complete; mail is not handled meanwhile."""
        self._collect()
        while not partition.go_on():
            await self._wait(_OUTPUT)

    async def emit(self, block: RecordBlock, channels: list[list[int]], start: int, stop: int) -> int:
        """Write records until the outputs become unavailable; returns the index of the first unwritten
        record.
        """
        self._collect()
        if len(self.outputs) == 1:
            return await self._emit_to(0, block, channels[0], start, stop)
        while start < stop:
            for number in range(len(self.outputs)):
                if not channels[number] or channels[number][start] != LEFT_OUT:
                    await self._emit_to(number, block, channels[number], start, start + 1)
            start += 1
            if not self.available:
                break
        return start

    def room(self, block: RecordBlock, channels: list[list[int]], start: int) -> int:
        """Return how many records of `block` from `start` on fit into the open buffers of all outputs."""
        stop = len(block)
        for number, output in enumerate(self.outputs):
            if start < stop:
                stop = start + output.partition.room(block, channels[number], start, stop)
        return stop - start

    def write_within_room(self, block: RecordBlock, channels: list[list[int]], start: int, stop: int) -> None:
        """Write records for which the open buffers have room."""
        for number, (partition, selector) in enumerate(self.outputs):
            if selector is None:
                partition.broadcast(block, start, stop)
            elif len(self.outputs) == 1 or LEFT_OUT not in channels[number]:
                partition.write(block, channels[number], start, stop)
            else:
                for index in range(start, stop):
                    if channels[number][index] != LEFT_OUT:
                        partition.write(block, channels[number], index, index + 1)

    async def emit_all(self, block: RecordBlock) -> None:
        """Emit all records of a block without waiting for available outputs in between."""
        if len(block):
            channels = self.select_channels(block)
            start = 0
            while start < len(block):
                start = await self.emit(block, channels, start, len(block))

    async def _emit_to(
        self, number: int, block: RecordBlock, channels: list[int], start: int, stop: int
    ) -> int:
        partition, selector = self.outputs[number]
        if selector is None:
            index = partition.broadcast(block, start, stop)
        else:
            index = partition.write(block, channels, start, stop)
        if partition.blocked:
            await self._complete_record(partition)
        return index

    async def emit_watermark(self, watermark: int) -> None:
        """Send a watermark to all channels of all outputs, after all written records.

        As in Flink's ChannelSelectorRecordWriter, each channel gets its own copy, in its open buffer.
        """
        element = memoryview(encode_watermark(watermark))
        self._collect()
        for partition, selector in self.outputs:
            channels = (ALL,) if selector is None else range(len(partition.subpartitions))
            for channel in channels:
                partition.write_element(channel, element)
                if partition.blocked:
                    await self._complete_record(partition)
            if self.environment.config.buffer_timeout_s == 0:
                partition.flush()

    def adapt(self, adaptive: bool) -> None:
        """Switch the round-robin exchanges to choosing channels by load, or back."""
        for _, selector in self.outputs:
            turns = selector.selector if isinstance(selector, Fraction) else selector
            if isinstance(turns, RoundRobin):
                turns.adaptive = adaptive

    def selection_s(self) -> float:
        """Return the time for comparing loads of subpartitions since the last call, in seconds."""
        comparisons = 0
        for output in self.outputs:
            comparisons += output.partition.compared
            output.partition.compared = 0
        return comparisons * self.environment.costs.adaptive_look_s

    def select_channels(self, block: RecordBlock) -> list[list[int]]:
        """Return the channel of each record of `block`, for each output."""
        return [[] if output.selector is None else output.selector.select(block) for output in self.outputs]

    def broadcast(self, event: Event) -> None:
        """Send `event` to all consumers, after all written records."""
        for output in self.outputs:
            output.partition.broadcast_event(event)

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Start the checkpoint of `barrier`, as requested by the coordinator; handled as mail."""
        self.post(partial(self._start_checkpoint, barrier))

    def _start_checkpoint(self, barrier: CheckpointBarrier) -> None:
        self.checkpoints.trigger(barrier)

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Complete the state before it is snapshotted."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Process the completion of a checkpoint; handled as mail if the subtask waits for it."""
        self.state.checkpoint_completed(checkpoint_id)
        if self._awaits_completion:
            self.post(partial(self._checkpoint_completed, checkpoint_id))

    @property
    def _awaits_completion(self) -> bool:
        """Whether this subtask waits for its final checkpoint, or for the savepoint that stops the job."""
        return self.checkpoints.final is not None or self.checkpoints.stops_with is not None

    def _checkpoint_completed(self, checkpoint_id: int) -> None:
        final = self.checkpoints.final
        if checkpoint_id == self.checkpoints.stops_with and not self.checkpoints.drains:
            self.suspended = True
        if final is not None and checkpoint_id >= final:
            self._final_checkpoint_completed = True
            self.consumer_acknowledged()

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Abort a checkpoint, as requested by the coordinator."""
        self.checkpoints.abort(checkpoint_id)

    def recover(self, recovery: SubtaskRecovery) -> None:
        """Restore the state of a checkpoint; called before all other methods."""
        self._recovery = recovery
        self.state.restore(recovery.state_handles, recovery.read)
        restoring = restore_partitions([output.partition for output in self.outputs], recovery)
        if not next(restoring, True):
            self._restoring = restoring
        if self.traced:
            restored = recovery.snapshot
            self.trace(restored_text(restored.size, restored.persisted_bytes), recovery.checkpoint_id)

    @property
    def had_ended(self) -> bool:
        """Whether the subtask had processed its last record before the restored checkpoint."""
        return self._recovery is not None and self._recovery.data_ended

    @property
    def recovered_from(self) -> int | None:
        """Id of the restored checkpoint; None if the subtask started without state."""
        return None if self._recovery is None else self._recovery.checkpoint_id

    @property
    def traced(self) -> bool:
        """Whether the job has a trace."""
        return self.environment.trace is not None

    def trace(self, text: str, checkpoint_id: int | None = None) -> None:
        """Add a text to the trace of the job, if the job has a trace."""
        if self.environment.trace is not None:
            self.environment.trace(self.agenda.now, str(self), text, checkpoint_id)

    async def _end(self) -> None:
        """Wait until all consumers have processed all records and the final checkpoint is complete.

        Checkpoints continue meanwhile, so that a checkpoint covers all work of this subtask (FLIP-147).
        """
        if self.environment.config.checkpoints_after_tasks_finish:
            while not (self._may_end or self.suspended):
                if not self.mail:  # mail may have arrived while the last events were handled
                    await self._wait(Waiting.CONSUMERS)
                await self.handle_mail()
        if self.suspended:
            return
        self.broadcast(EndOfPartition())
        for output in self.outputs:
            output.partition.finish()

    @property
    def _may_end(self) -> bool:
        checkpoints = self.environment.config.checkpoint_interval_s is not None or self.checkpoints.drains
        if checkpoints and not self._final_checkpoint_completed:
            return False
        return all(output.partition.acknowledged for output in self.outputs)

    def consumer_acknowledged(self) -> None:
        """Resume if the subtask waits for acknowledgements and all consumers have acknowledged."""
        if self.times.state is Waiting.CONSUMERS and self._may_end:
            self.waiter.wake(self._wake_up * self._jitter.draw())

    def sample(self) -> SubtaskSample:
        """Return the current counters and gauges."""
        self._collect()
        busy, idle, backpressured = self.times.until(self.agenda.now)
        partitions = [output.partition for output in self.outputs]
        size = sum([partition.pool.size for partition in partitions])
        queued = [partition.queued for partition in partitions]
        return SubtaskSample(
            records_out=sum([partition.records_out for partition in partitions]),
            bytes_out=sum([partition.bytes_out for partition in partitions]),
            buffers_out=sum([each.buffers_out for each in queued]),
            busy_s=busy,
            backpressured_s=backpressured,
            idle_s=idle,
            output_queue_length=sum([each.length for each in queued]),
            output_queue_size=sum([each.size for each in queued]),
            out_pool_usage=sum([partition.pool.used for partition in partitions]) / size if size else 0.0,
        )

    def cancel(self) -> None:
        """Cancel the subtask. The caller has closed its routine, and calls `release` afterwards."""
        self.waiter.forget()
        self.checkpoints.release()  # before its outputs, whose barriers count as sent when they are released

    def release(self) -> None:
        """Release all memory, and the state's resources outside memory."""
        self.checkpoints.release()
        self.state.close()
        for output in self.outputs:
            output.partition.release()


def with_inputs(sample: SubtaskSample, gates: Sequence[InputGate]) -> SubtaskSample:
    """Return a sample of a subtask with the gauges of its input gates added."""
    figures = [gate.figures for gate in gates]
    exclusive, floating = [each.exclusive for each in figures], [each.floating for each in figures]
    debloaters = [gate.debloater for gate in gates if gate.debloater is not None]
    return sample._replace(
        debloated_buffer_size=min([d.last_announced for d in debloaters], default=nan),
        estimated_time_to_consume_ms=max([d.estimated_time_s * 1000 for d in debloaters], default=nan),
        input_queue_length=sum(each.queue_length for each in figures),
        input_queue_size=sum(each.queued_bytes for each in figures),
        in_pool_usage=_usage([*exclusive, *floating]),
        exclusive_buffers_usage=_usage(exclusive),
        floating_buffers_usage=_usage(floating),
    )


def _usage(pools: Sequence[tuple[int, int]]) -> float:
    """Return the fraction of buffers that are in use; 0 if there are no buffers, as in Flink's gauges."""
    total = sum(total for _, total in pools)
    return sum(used for used, _ in pools) / total if total else 0.0
