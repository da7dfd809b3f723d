"""Subtasks that read a source and write records, as fast as possible or at a given rate.

A source with a rate reads a log that others fill (`source_log`). A subtask that continues from a checkpoint
first reads the records that have arrived in the meantime.
"""

from __future__ import annotations

from typing import NamedTuple

from buffers import RecordBlock
from flowcontrol import MAX_WATERMARK, CheckpointBarrier, EndOfData, PostCheckpointAction

from ..checkpoints.recovery import SubtaskRecovery
from ..engine.agenda import Routine, suspend
from ..errors import RecoveryError, SourceError
from ..exchange.partition import ResultPartition
from ..results.recorder import SubtaskSample
from ..scenarios.scenario import CATCH_UP_S
from ..scenarios.user_code import SourceReader
from ..state.handles import EVENT_TIME, POSITION, SPLITS
from ..state.subtask_state import SubtaskState
from .operators import NOTHING
from .source_log import Pace, SourceLog
from .sources import OpenSplit, Split, SplitReader, skip
from .subtask import Subtask
from .subtask_environment import Environment
from .time_account import Lateness, Waiting
from .watermarks import SourceWatermarks

BATCH_RECORDS = 20
"""Number of records that a source emits before it checks for mail."""

READ_RECORDS = 512
"""Number of records read from a reader at once."""

MIN_PACE_S = 0.001
"""Minimum time between two wake-ups of a paced source."""


class Calls(NamedTuple):
    """Settings for the calls with which a subtask reads its source.

    A call returns `batch` records. All of them are written, even if outputs become unavailable. A call of a
    `legacy` source (a SourceFunction in a SourceStreamTask) even begins while outputs are unavailable. A
    record takes `cost_s` seconds; None: the cost in the cost model. A source with an even rate that is late
    because of its outputs catches up at most `catch_up_s` of its schedule. It does not make up for the rest
    of the delay. A delay by a restart is made up as a whole.
    """

    batch: int = 1
    legacy: bool = False
    cost_s: float | None = None
    catch_up_s: float = CATCH_UP_S


ONE_BY_ONE = Calls()
"""One call for each record."""


class SourceSubtask(Subtask):
    """Subtask that emits the records of a reader, at a given rate or as fast as its outputs allow.

    `rate` is in records per second; 0: as fast as possible. `pace` returns the times at which records are
    due; None: even intervals. `log` counts the records that have arrived at this rate. With `watermarks` the
    subtask sends watermarks, even while it waits for its outputs. After a savepoint that stops the job, it
    sends nothing. If a restored checkpoint assigns splits that other subtasks had begun, `open_split` opens
    them; without `open_split`, such an assignment is an error. The rules are those of Flink's SourceOperator
    in a StreamTask.
    """

    __slots__ = (
        "_batch",
        "_began",
        "_behind",
        "_block",
        "_catch_up",
        "_channels",
        "_drained_for",
        "_holds_for",
        "_index",
        "_legacy",
        "_log",
        "_next_due",
        "_only_partition",
        "_open_split",
        "_own_cost_s",
        "_pace",
        "_pace_began_at",
        "_pace_began_s",
        "_period",
        "_rate",
        "_read_records",
        "_reader",
        "_record_cost",
        "_routine",
        "_timer",
        "_watermarks",
        "_working_until",
    )

    def __init__(
        self,
        environment: Environment,
        vertex: int,
        index: int,
        name: str,
        state: SubtaskState,
        reader: SourceReader,
        rate: float,
        log: SourceLog,
        pace: Pace | None = None,
        calls: Calls = ONE_BY_ONE,
        watermarks: SourceWatermarks | None = None,
        open_split: OpenSplit | None = None,
    ) -> None:
        super().__init__(environment, vertex, index, name, state)
        self._log = log
        self._log.reopen()
        self._began = False
        self._behind = False  # whether records are left that arrived before the subtask began
        self._reader: SourceReader | SplitReader = reader
        self._open_split = open_split
        self._pace = pace
        self._pace_began_s = 0.0
        self._pace_began_at = 0  # position in the input
        self._batch = calls.batch
        self._legacy = calls.legacy
        self._catch_up = calls.catch_up_s
        self._watermarks = watermarks
        self._rate = rate
        self._period = 1 / rate if rate > 0 else 0.0
        self._next_due = environment.agenda.now
        self._read_records = 0
        self._timer = 0.0  # time of the latest alarm; mail must not set another one for the same record
        self._block: RecordBlock = NOTHING
        self._channels: list[list[int]] = []
        self._index = 0
        self._working_until = 0.0
        self._holds_for: int | None = None  # a savepoint after which nothing is sent
        self._drained_for: CheckpointBarrier | None = None  # the savepoint that follows the end of the data
        self._routine: Routine | None = None
        self._only_partition: ResultPartition | None = None  # if no other condition has to be checked
        self._own_cost_s = calls.cost_s
        self._record_cost = environment.costs.source_record_s if calls.cost_s is None else calls.cost_s

    async def run(self) -> None:
        """Run until the reader has no more records."""
        agenda = self.agenda
        self._began = True
        self._behind = self._log.begin(agenda.now, self.position, self._rate, self._pace)
        self._follow_log()
        if self.on_running is not None:
            self.on_running()
        self._set_alarm()
        self._routine = agenda.current
        self._only_partition = self._plain_output()
        while not self.suspended:
            if self._is_free and (self._legacy or self.available):
                if self._only_partition is None:
                    await self._emit_batch()
                    continue
                start, self._working_until = self._index, agenda.now
                stop = min(start + BATCH_RECORDS, len(self._block))
                self._index = self._only_partition.write(self._block, self._channels[0], start, stop)
                if self._only_partition.blocked:
                    await self._complete_record(self._only_partition)
                self._working_until += (self._index - start) * self._record_cost + self.selection_s()
            elif self.mail:
                await self.handle_mail()
            elif self._working_until > agenda.now:
                if self._only_partition is None:
                    await agenda.sleep_until(self._working_until)
                else:
                    agenda.at_increasing(self._working_until, self._emit_next)
                    await suspend()
            elif self._holds_for is not None:
                await self._wait(Waiting.TIME)
            elif self._drained_for is not None:
                break
            elif not (self._legacy or self.available):
                await self._wait(Waiting.OUTPUT)
            elif not self._read():
                break
        if not self.suspended:
            await self._end_data()

    @property
    def _is_free(self) -> bool:
        """Whether the subtask may emit the next records of the block once its outputs are available."""
        return (
            self._index < len(self._block)
            and not self.mail
            and self._working_until <= self.agenda.now
            and self._holds_for is None
            and self._drained_for is None
        )

    async def _end_data(self) -> None:
        """Send the end of data after the last record, and end."""
        if self._watermarks is not None:
            self._watermarks.ended()
            await self.emit_watermark(MAX_WATERMARK)
        self.data_ended = True
        self.broadcast(EndOfData())
        if self._drained_for is not None:
            self.checkpoints.trigger(self._drained_for)
        await self._end()

    def _start_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Begin a checkpoint. For a savepoint that drains the job, end the data first.

        The trigger of a savepoint may arrive after the savepoint was aborted; the source then continues.
        """
        savepoint = barrier.options.savepoint
        stops = savepoint is not None and savepoint.stops and not self.data_ended
        if savepoint is not None and stops and not self.checkpoints.is_over(barrier.checkpoint_id):
            if savepoint.action is PostCheckpointAction.TERMINATE:
                self._drained_for = barrier
                return
            self._holds_for = barrier.checkpoint_id
        super()._start_checkpoint(barrier)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Abort a checkpoint. If the subtask had stopped emitting for it, continue to emit."""
        super().checkpoint_aborted(checkpoint_id)
        if checkpoint_id == self._holds_for:
            self._holds_for = None
            self._waiter.wake()

    def _set_alarm(self) -> None:
        """Schedule the next watermark after the interval."""
        if self._watermarks is not None:
            self.environment.scope.after(self._watermarks.interval_s, self._alarm)

    def _request_emission(self) -> None:
        self._emission_due = self._holds_for is None

    async def _emit_periodically(self) -> None:
        """Send a watermark if it has risen."""
        if self._watermarks is not None and not self.data_ended:
            watermark = self._watermarks.due()
            if watermark is not None:
                await self.emit_watermark(watermark)

    def _read(self) -> bool:
        """Read the next block; returns False at the end of the input."""
        if self.lateness is not None:
            self.measure_lateness(self.lateness)
        if self._recovery is not None and self._recovery.data_ended:
            return False
        block = self._reader.read(READ_RECORDS)
        if block is None:
            return False
        self._read_records += len(block)
        self._block = block
        self._index = 0
        self._channels = self.select_channels(block)
        return True

    def _plain_output(self) -> ResultPartition | None:
        """Return the only output of a subtask that emits single records without a rate or watermarks; else
        None.
        """
        if self._period or self._batch > 1 or self._legacy or self._watermarks is not None:
            return None
        single = len(self.outputs) == 1 and self.outputs[0].selector is not None
        return self.outputs[0].partition if single else None

    def _emit_next(self) -> None:
        """Emit more records, now that the time for the last ones has passed.

        If there is other work, resume the routine instead.
        """
        agenda, partition = self.agenda, self._only_partition
        if self._routine is None:
            return  # cancelled
        count = min(BATCH_RECORDS, len(self._block) - self._index)
        if (
            partition is not None
            and self._is_free
            and partition.pool.available
            and partition.write_more_in_turns(self._block.stride, count)
        ):
            self._index += count
            self._working_until = agenda.now + count * self._record_cost
            agenda.at_increasing(self._working_until, self._emit_next)
        else:
            agenda.step(self._routine)

    async def _emit_batch(self) -> None:
        agenda = self.agenda
        start = self._index
        stop = min(start + BATCH_RECORDS, len(self._block))
        if self._period:
            stop = min(stop, start + self._due_records())
            if stop <= start:  # a previous call returned more records than were due
                await self._wait_until_due()
                return
        self._working_until = agenda.now
        emitted_at = agenda.now
        if self._batch > 1 or self._legacy:
            await self._emit_calls(stop)
        else:
            self._index = await self.emit(self._block, self._channels, start, stop)
        emitted = self._index - start
        if emitted and self._watermarks is not None:
            if self._behind and self._period:
                emitted_at = min(emitted_at, self._log.arrival_s(self.position - 1))
            self._watermarks.emitted(emitted_at)
        self._working_until += emitted * self._record_cost + self.selection_s()
        self._next_due += emitted * self._period

    async def _emit_calls(self, stop: int) -> None:
        """Emit the records up to `stop` in calls. Each call begins only while the outputs are available."""
        block, channels = self._block, self._channels
        while self._index < stop and (self._legacy or self.available):
            end = min(self._index + self._batch, len(block))
            while self._index < end:
                self._index = await self.emit(block, channels, self._index, end)

    def _due_records(self) -> int:
        """Return the number of records that are due now, and not emitted yet."""
        if self._pace is not None:
            due = self._pace.due_by(self.agenda.now - self._pace_began_s)
            return due - (self.position - self._pace_began_at)
        if self._behind:
            return self._log.arrived_by(self.agenda.now) - self.position
        lag = self.agenda.now - self._next_due
        if lag > self._catch_up:
            self._next_due += lag - self._catch_up
            lag = self._catch_up
        return self._due_after(lag)

    def _due_after(self, lag: float) -> int:
        """Return the number of records that are due at an even rate, `lag` seconds after the next one was."""
        return int(lag / self._period + 1e-9) + 1 if lag >= -1e-12 else 0

    async def _wait_until_due(self) -> None:
        """Wait until the next record is due, or for mail."""
        agenda = self.agenda
        if self._behind:
            self._behind = False
            self._next_due = self._log.arrival_s(self.position)
        due = self._next_due
        if self._pace is not None:
            due = self._pace_began_s + self._pace.next_due(agenda.now - self._pace_began_s)
        elif self._period < MIN_PACE_S:
            due = max(due, agenda.now + MIN_PACE_S)
        if self._timer <= agenda.now or due < self._timer:
            self._timer = due
            agenda.at(due, self._waiter.wake)
        await self._wait(Waiting.TIME)

    def measure_lateness(self, lateness: Lateness) -> None:
        """Update the lateness with the number of records emitted so far."""
        work_s = lateness.of_emitting(self.position, self._own_cost_s)
        lateness.measure(self.agenda.now, self.times, work_s, self.checkpoints.snapshots)

    def adapt(self, adaptive: bool) -> None:
        """Switch the adaptive choice of channels on or off, also for the rest of the current block."""
        super().adapt(adaptive)
        self._channels = self.select_channels(self._block)

    def change_rate(self, rate: float, pace: Pace | None) -> None:
        """Emit `rate` records per second from now on (0: as fast as possible); called as mail, after the
        change was announced to the log.
        """
        behind = self._behind or self._pace is not None  # a pace makes up each delay
        self._rate, self._pace = rate, pace
        self._period = 1 / rate if rate > 0 else 0.0
        self._only_partition = self._plain_output()
        self._log.change(self.agenda.now, self.position, rate, pace, behind=behind)
        self._follow_log()

    def _follow_log(self) -> None:
        """Follow the latest span of the log."""
        self._pace_began_s, self._pace_began_at = self._log.latest.since_s, self._log.latest.first
        self._next_due = self._log.arrival_s(self.position)

    def _leave_log(self) -> None:
        """Leave the log to the subtask's next execution, without the delays that are not made up."""
        if self._began and not (self._behind and self._period):
            self._log.leave(self.position, max(self._next_due, self.agenda.now - self._catch_up))

    def block(self, duration: float) -> None:
        """Emit nothing during the synchronous part of a snapshot."""
        self._working_until = max(self._working_until, self.agenda.now) + duration

    @property
    def position(self) -> int:
        """Number of records emitted since the beginning of the input."""
        return self._read_records - (len(self._block) - self._index)

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Store the position in the input, which is the state of a source."""
        if isinstance(self._reader, SplitReader):
            splits = self._reader.splits(len(self._block) - self._index)
            self.state.operator.put(SPLITS, list(map(list, splits)))
        else:
            self.state.operator.put(POSITION, [self.position])
        if self._watermarks is not None:
            self.state.operator.put(EVENT_TIME, [self._watermarks.clock.now_ms])
        self.trace(f"stores its position: {self.position} records sent", checkpoint_id)

    def recover(self, recovery: SubtaskRecovery) -> None:
        """Restore the state of a checkpoint, and continue reading at its position."""
        super().recover(recovery)
        for position in self.state.operator.get(POSITION):
            skip(self._reader, position)
            self._read_records = position
            self.trace(f"continues after record {position}")
        self._read_splits([Split(*split) for split in self.state.operator.get(SPLITS)])
        if self._watermarks is not None:
            for reached_ms in self.state.operator.get(EVENT_TIME):
                self._watermarks.clock.go_on_from(reached_ms)

    def _read_splits(self, splits: list[Split]) -> None:
        """Read these splits, if any, instead of the subtask's own input."""
        if not splits:
            return
        try:
            if self._open_split is None:
                raise SourceError(
                    "splits of the checkpoint cannot be restored, since a subtask of this source reads only "
                    "its own part"
                )
            reader = SplitReader(splits, self._open_split)
        except SourceError as error:
            raise RecoveryError(f"source {self}: {error}") from error
        self._reader.close()
        self._reader = reader
        self._read_records = sum(split.position for split in splits)
        for part, of, position in splits:
            self.trace(f"continues after record {position} of part {part} of {of}")

    def cancel(self) -> None:
        """Cancel the subtask. The caller has closed its routine."""
        super().cancel()
        self._routine = None

    def sample(self) -> SubtaskSample:
        """Return the current counters and gauges."""
        sample, watermarks = super().sample(), self._watermarks
        pending = self.pending_records
        if pending is not None:
            sample = sample._replace(pending_records=pending)
        return sample if watermarks is None else sample._replace(watermark_lag_ms=watermarks.lag_ms)

    @property
    def catches_up(self) -> bool:
        """Whether records are left that arrived while the subtask was down or read older ones."""
        return self._began and self._behind and self._period > 0 and not self.data_ended

    @property
    def pending_records(self) -> int | None:
        """Number of records that have arrived and were not read, as Flink's pendingRecords.

        None: the subtask has no rate, or does not read yet.
        """
        if not (self._period and self._began):
            return None
        if self.data_ended:
            return 0
        if self._pace is None and not self._behind:
            return self._due_after(min(self.agenda.now - self._next_due, self._catch_up))
        return max(0, self._log.arrived_by(self.agenda.now) - self.position)

    def release(self) -> None:
        """Release all memory and close the reader."""
        super().release()
        self._leave_log()
        self._routine = None
        self._reader.close()
