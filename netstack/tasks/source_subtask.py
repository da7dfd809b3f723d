"""Subtasks that read a source and write records, as fast as possible or at a given rate.

A source with a rate reads a log that others fill (`source_log`). A subtask that continues from a checkpoint
first reads the records that have arrived in the meantime.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from typing import Final, NamedTuple

from buffers import RecordBlock
from flowcontrol import MAX_WATERMARK, CheckpointBarrier, EndOfData, PostCheckpointAction

from ..checkpoints.recovery import SubtaskRecovery
from ..engine.agenda import suspend
from ..errors import RecoveryError, SourceError
from ..results.recorder import SubtaskSample
from ..scenarios.scenario import CATCH_UP_S
from ..scenarios.user_code import SourceReader
from ..state.handles import EVENT_TIME, POSITION, SPLITS
from ..state.subtask_state import SubtaskState
from .operators import NOTHING
from .source_log import Pace, SourceLog
from .sources import OpenSplit, Split, SplitReader, skip
from .subtask import Mail, Subtask
from .subtask_environment import Environment
from .time_account import Lateness, Waiting
from .watermarks import SourceWatermarks

BATCH_RECORDS: Final = 20
"""Number of records that a source emits before it checks for mail."""

READ_RECORDS: Final = 512
"""Number of records read from a reader at once."""

STEPS_AHEAD: Final = 100
"""Maximum number of batches that are planned at once."""

MIN_PACE_S: Final = 0.001
"""Minimum time between two wake-ups of a paced source."""


_NOTHING: Final = Waiting.NOTHING  # compiled code need not look up what is final
_OUTPUT: Final = Waiting.OUTPUT
_TIME: Final = Waiting.TIME


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

    The subtask plans its next batches: those that fit into the open buffers, so that other parts of the job
    cannot see when exactly each is written. They are written together, with `write_due`, when an open buffer
    is read or flushed, when mail or a sample is taken, or when the plan ends with a batch that needs a new
    buffer::

        planned   batch 1    batch 2    batch 3    batch 4    needs a buffer
                  4.0 us     24.0 us    44.0 us    64.0 us    84.0 us
        written                           flush: 1, 2, 3      4, and the next batch
    """

    __slots__ = (
        "_batch",
        "_began",
        "_behind",
        "_block",
        "_catch_up",
        "_channels",
        "_drained_for",
        "_dues",
        "_entries",
        "_follows_plan",
        "_holds_for",
        "_index",
        "_legacy",
        "_log",
        "_looks_at",
        "_next_due",
        "_open_split",
        "_own_cost_s",
        "_pace",
        "_pace_began_at",
        "_pace_began_s",
        "_period",
        "_plan_ends_at",
        "_plans_ahead",
        "_rate",
        "_read_records",
        "_reader",
        "_record_cost",
        "_starts",
        "_stops",
        "_waits_for",
        "_watermarks",
        "_working_until",
        "_written",
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
        self._catch_up = max(calls.catch_up_s, MIN_PACE_S)  # what came due between two looks is no delay
        self._watermarks = watermarks
        self._rate = rate
        self._period = 1 / rate if rate > 0 else 0.0
        self._next_due = environment.agenda.now
        self._read_records = 0
        self._block: RecordBlock = NOTHING
        self._channels: list[list[int]] = []
        self._index = 0
        self._working_until = 0.0
        self._holds_for: int | None = None  # a savepoint after which nothing is sent
        self._drained_for: CheckpointBarrier | None = None  # the savepoint that follows the end of the data
        # The planned batches: time, index in the block and next due time after each.
        self._starts: list[float] = []
        self._stops: list[int] = []
        self._dues: list[float] = []
        self._written = 0  # number of planned batches that are written
        self._follows_plan = False
        self._waits_for = _TIME  # what a subtask that follows a plan waits for when it does not work
        self._plan_ends_at = inf
        self._entries: set[float] = set()  # times of the entries on the agenda that end a plan
        self._looks_at = 0.0  # time at which the idle subtask looks for due records; mail does not delay it
        self._plans_ahead = environment.agenda.clock is None  # work takes real time otherwise
        self._own_cost_s = calls.cost_s
        self._record_cost = environment.costs.source_record_s if calls.cost_s is None else calls.cost_s

    async def run(self) -> None:
        """Run until the reader has no more records."""
        agenda = self.agenda
        self._began = True
        self._behind = self._log.begin(agenda.now, self._position, self._rate, self._pace)
        self._follow_log()
        if self.on_running is not None:
            self.on_running()
        self._set_alarm()
        for output in self.outputs:
            output.partition.write_due = self.write_due
        while not self.suspended:
            if self.mail:
                await self.handle_mail()
            elif self._working_until > agenda.now:
                await self._follow_plan()
            elif self._holds_for is not None:
                await self._wait(_TIME)
            elif self._drained_for is not None:
                break
            elif not (self._legacy or self.available):
                await self._follow_plan()
            elif self._index == len(self._block):
                if not self._read():
                    break
            elif self._period and not self._is_due():
                await self._follow_plan()
            else:
                await self._emit_batch()
        if not self.suspended:
            await self._end_data()

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
            self.waiter.wake()

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

    async def _follow_plan(self) -> None:
        """Plan the next batches, and wait until the plan ends, or until mail."""
        waits = _TIME if self._legacy or self.available else _OUTPUT
        self._waits_for, self._follows_plan = waits, True
        at = self._working_until
        if at <= self.agenda.now:
            at = self.agenda.now
            self.times.enter(waits, at)
        self.waiter.prepare()
        if waits is _TIME:
            self._plan(at)
        else:
            self._await_segments()
        await suspend()
        self._write_planned(len(self._starts))
        self._drop_plan()
        self.times.enter(_NOTHING, self.agenda.now)

    def _plan(self, at: float) -> None:
        """Plan the batches from `at` on, when the subtask is free, and schedule the end of the plan."""
        block, batch, cost, period = self._block, self._batch, self._record_cost, self._period
        index, next_due, before = self._index, self._next_due, self._read_records - len(self._block)
        room = self.room(block, self._channels, index) if self._plans_ahead else 0
        for _ in range(STEPS_AHEAD):
            count = min(BATCH_RECORDS, len(block) - index)
            if not count:
                break
            if period:
                due, next_due = self._due_records(at, before + index, next_due)
                if due <= 0:
                    if self._behind:
                        break
                    look = self._next_look(at, next_due)
                    at = self._looks_at if at < self._looks_at < look else look
                    continue
                count = min(count, due)
            if batch > 1:
                count = min(-(-count // batch) * batch, len(block) - index)
            if count > room:
                break
            room -= count
            index += count
            next_due += count * period
            self._starts.append(at)
            self._stops.append(index)
            self._dues.append(next_due)
            at += count * cost
        self._end_plan_at(at)

    def _end_plan_at(self, time: float) -> None:
        self._plan_ends_at = time
        if time not in self._entries:
            self._entries.add(time)
            self.agenda.at(time, self._plan_ends, time)

    def _plan_ends(self, time: float) -> None:
        self._entries.discard(time)
        if time == self._plan_ends_at:
            self.waiter.wake_now()

    def _drop_plan(self) -> None:
        self._follows_plan = False
        self._starts.clear()
        self._stops.clear()
        self._dues.clear()
        self._written = 0
        self._plan_ends_at = inf

    def write_due(self) -> None:
        """Write the planned batches that were due before now, and account for the time until now."""
        if self._follows_plan:
            self._write_planned(bisect_left(self._starts, self.agenda.now, self._written))

    def _write_planned(self, written: int) -> None:
        """Write the planned batches up to number `written`, and account for the time until now."""
        now, starts, times, first = self.agenda.now, self._starts, self.times, self._written
        if written > first:
            self._written = written
            start = self._index
            for place in range(first, written):
                if starts[place] > self._working_until:
                    if times.state is _NOTHING:
                        times.enter(self._waits_for, self._working_until)
                    times.enter(_NOTHING, starts[place])
                self._waits_for = _TIME
                self._working_until = starts[place] + (self._stops[place] - self._index) * self._record_cost
                self._index = self._stops[place]
            self._next_due = self._dues[written - 1]
            self.write_within_room(self._block, self._channels, start, self._index)
            self._mark_emitted(starts[written - 1])
        if now > self._working_until and times.state is _NOTHING:
            times.enter(self._waits_for, self._working_until)

    def _mark_emitted(self, at: float) -> None:
        """Update the event time after a batch that was emitted at a time."""
        if self._watermarks is not None:
            if self._behind and self._period:
                at = min(at, self._log.arrival_s(self._position - 1))
            self._watermarks.emitted(at)

    def post(self, mail: Mail) -> None:
        """Schedule `mail` to be handled after the current batch."""
        if not self._follows_plan:
            super().post(mail)
            return
        self.mail.append(mail)
        self._interrupt(self._wake_up)

    def _interrupt(self, delay: float) -> None:
        """End the plan with the current batch; a subtask that waits is woken after about `delay` seconds."""
        self.write_due()
        now, place = self.agenda.now, self._written
        next_s = self._starts[place] if place < len(self._starts) else self._plan_ends_at
        del self._starts[place:], self._stops[place:], self._dues[place:]
        if self._working_until > now:
            end = self._working_until
        else:
            self._looks_at = next_s
            end = min(next_s, now + delay * self._jitter.draw())
        if end < self._plan_ends_at:
            self._end_plan_at(end)

    def output_available(self) -> None:
        """Resume if the subtask is waiting for its outputs; called when a pool has buffers again."""
        if not self._follows_plan:
            super().output_available()
        elif self._waits_for is _OUTPUT and self._plan_ends_at == inf:
            back_at = max(self.agenda.now, self._segment_at())
            waits = back_at >= self._working_until
            self._plan(back_at + self._wake_up * self._jitter.draw() if waits else self._working_until)

    async def _emit_batch(self) -> None:
        agenda = self.agenda
        start = self._index
        stop = min(start + BATCH_RECORDS, len(self._block))
        if self._period:
            due, self._next_due = self._due_records(agenda.now, self._position, self._next_due)
            stop = min(stop, start + due)
        self._working_until = emitted_at = agenda.now
        if self._batch > 1 or self._legacy:
            await self._emit_calls(stop)
        else:
            self._index = await self.emit(self._block, self._channels, start, stop)
        emitted = self._index - start
        if emitted:
            self._mark_emitted(emitted_at)
        self._working_until += emitted * self._record_cost + self.selection_s()
        self._next_due += emitted * self._period

    async def _emit_calls(self, stop: int) -> None:
        """Emit the records up to `stop` in calls. Each call begins only while the outputs are available."""
        block, channels = self._block, self._channels
        while self._index < stop and (self._legacy or self.available):
            end = min(self._index + self._batch, len(block))
            while self._index < end:
                self._index = await self.emit(block, channels, self._index, end)

    def _is_due(self) -> bool:
        """Whether a record is due now. A source that was behind follows its schedule when none is left."""
        due, self._next_due = self._due_records(self.agenda.now, self._position, self._next_due)
        if due <= 0 and self._behind:
            self._behind = False
            self._next_due = self._log.arrival_s(self._position)
        return due > 0

    def _due_records(self, now: float, position: int, next_due: float) -> tuple[int, float]:
        """Return the number of records that are due at a time and not emitted yet, if the next one is that at
        `position`, and the time at which this one was due, without delays that are not made up.
        """
        if self._pace is not None:
            due = self._pace.due_by(now - self._pace_began_s)
            return due - (position - self._pace_began_at), next_due
        if self._behind:
            return self._log.arrived_by(now) - position, next_due
        lag = now - next_due
        if lag > self._catch_up:
            next_due += lag - self._catch_up
            lag = self._catch_up
        return self._due_after(lag), next_due

    def _due_after(self, lag: float) -> int:
        """Return the number of records that are due at an even rate, `lag` seconds after the next one was."""
        return int(lag / self._period + 1e-9) + 1 if lag >= -1e-12 else 0

    def _next_look(self, now: float, next_due: float) -> float:
        """Return the time at which a source looks for due records again, if none is due now."""
        if self._pace is not None:
            return self._pace_began_s + self._pace.next_due(now - self._pace_began_s)
        return max(next_due, now + MIN_PACE_S) if self._period < MIN_PACE_S else next_due

    def measure_lateness(self, lateness: Lateness) -> None:
        """Update the lateness with the number of records emitted so far."""
        self.write_due()
        work_s = lateness.of_emitting(self._position, self._own_cost_s)
        lateness.measure(self.agenda.now, self.times, work_s, self.checkpoints.snapshots)

    def adapt(self, adaptive: bool) -> None:
        """Switch the adaptive choice of channels on or off, also for the rest of the current block."""
        if self._follows_plan:
            self._interrupt(0.0)
        super().adapt(adaptive)
        self._channels = self.select_channels(self._block)

    def change_rate(self, rate: float, pace: Pace | None) -> None:
        """Emit `rate` records per second from now on (0: as fast as possible); called as mail, after the
        change was announced to the log.
        """
        behind = self._behind or self._pace is not None  # a pace makes up each delay
        self._rate, self._pace = rate, pace
        self._period = 1 / rate if rate > 0 else 0.0
        self._log.change(self.agenda.now, self._position, rate, pace, behind=behind)
        self._follow_log()

    def _follow_log(self) -> None:
        """Follow the latest span of the log."""
        self._pace_began_s, self._pace_began_at = self._log.latest.since_s, self._log.latest.first
        self._next_due = self._log.arrival_s(self._position)

    def _leave_log(self) -> None:
        """Leave the log to the subtask's next execution, without the delays that are not made up."""
        if self._began and not (self._behind and self._period):
            self._log.leave(self._position, max(self._next_due, self.agenda.now - self._catch_up))

    def block(self, duration: float) -> None:
        """Emit nothing during the synchronous part of a snapshot."""
        self._working_until = max(self._working_until, self.agenda.now) + duration

    @property
    def position(self) -> int:
        """Number of records emitted since the beginning of the input."""
        self.write_due()
        return self._position

    @property
    def _position(self) -> int:
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
        self.write_due()
        self._drop_plan()
        super().cancel()

    def sample(self) -> SubtaskSample:
        """Return the current counters and gauges."""
        self.write_due()
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
        self.write_due()
        if self._pace is None and not self._behind:
            return self._due_after(min(self.agenda.now - self._next_due, self._catch_up))
        return max(0, self._log.arrived_by(self.agenda.now) - self._position)

    def release(self) -> None:
        """Release all memory and close the reader."""
        super().release()
        self._leave_log()
        self._reader.close()
