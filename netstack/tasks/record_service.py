"""Processing of the records that a task reads: service time and output.

A task without outputs waits once for a whole buffer, and the operator gets the records at the end. A task
with outputs processes and emits record by record, since it may begin the next record only while the outputs
are available. A snapshot in between stores the unprocessed rest of the block.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import inf

from buffers import Content, RecordBlock

from ..exchange.channel import InputChannel
from .operators import NOTHING, Operator
from .service_time import Pauses, Throttle
from .subtask import Mail, Subtask
from .subtask_environment import Environment


class Outbox:
    """The output of one block of input records, emitted up to a given input record.

    `position`: number of input records whose output has been written. A snapshot may be taken whenever the
    subtask waits for its outputs between two records. So an operator with state gets each record only when
    the record is due. An operator without state gets the whole block at once.
    """

    __slots__ = ("_ahead", "_block", "_channels", "_operator", "_subtask", "position")

    def __init__(self, subtask: Subtask, operator: Operator, block: RecordBlock) -> None:
        self.position = 0
        self._subtask = subtask
        self._operator = operator
        self._ahead = operator.one_to_one
        self._block = operator.process(block) if self._ahead and len(block) else block
        self._channels = subtask.select_channels(self._block) if self._ahead else []

    @property
    def room(self) -> int:
        """Number of next records whose output fits into the open buffers of all exchanges; 0 if the output
        is not known yet.
        """
        return self._subtask.room(self._block, self._channels, self.position) if self._ahead else 0

    def write(self, records: int) -> None:
        """Write the output of the first `records` input records; the open buffers must have room for it."""
        self._subtask.write_within_room(self._block, self._channels, self.position, records)
        self.position = records

    async def emit(self, records: int) -> None:
        """Emit the output of the first `records` input records that has not been emitted yet."""
        subtask, operator, block = self._subtask, self._operator, self._block
        ahead = self._ahead
        if not ahead and self.position < records and operator.emits_later and subtask.available:
            operator.process(block[self.position : records])  # the outputs stay available
            self.position = records
        while self.position < records:
            start = self.position
            if ahead:
                self.position = await subtask.emit(block, self._channels, start, records)
            else:  # one record with all its output; mail is not handled meanwhile
                output = operator.process(block[start : start + 1])
                if len(output):
                    await subtask.emit_all(output)
                self.position = start + 1
            if not subtask.available:
                await subtask.wait_for_output()


class WholeBuffers:
    """Spends the service time of a whole buffer in one wait.

    The operator gets the records at the end, or before a snapshot.
    """

    __slots__ = (
        "_agenda",
        "_block",
        "_channel",
        "_operator",
        "_passed",
        "_pauses",
        "_record_cost",
        "_scope",
        "_served",
        "_throttle",
    )

    def __init__(self, environment: Environment, operator: Operator, throttle: Throttle) -> None:
        self._agenda = environment.agenda
        self._scope = environment.scope
        self._operator = operator
        self._throttle = throttle
        self._record_cost = environment.costs.consumer_record_s
        self._channel: InputChannel | None = None  # None between two blocks
        self._block = NOTHING
        self._passed = 0  # records of the block passed to the operator
        self._served = 0
        self._pauses: Pauses | None = None

    @property
    def records(self) -> int:
        """Number of records whose service is finished."""
        pauses = self._pauses
        return self._served + (0 if pauses is None else pauses.records_by(self._agenda.now))

    def take_mail(self, mail: Mail) -> bool:
        """Handle `mail` at the end of the current pause within the buffer; returns False if there is no pause
        to wait for.
        """
        end = None if self._pauses is None else self._pauses.end_within(self._agenda.now)
        if end is None:
            return False
        self._scope.at(end, mail)
        return True

    def write_due(self) -> None:
        """Do nothing: the subtask has no outputs."""

    async def serve(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Process the records of one buffer in one wait; the buffer itself costs `spent` seconds."""
        agenda, count = self._agenda, len(block)
        start = agenda.now + spent
        pauses = self._throttle.charge_all(count, start, self._record_cost)
        ends = pauses.ends
        if ends:
            self._pauses = pauses
        self._channel, self._block, self._passed = channel, block, 0
        await agenda.sleep_until(ends[-1] if ends else start)
        while ends and ends[-1] > agenda.now:  # a snapshot took time
            await agenda.sleep_until(ends[-1])
        if ends and ends[0] > start:
            self._throttle.overslept(agenda.now - ends[-1])
        self._pass_on(count)
        self._channel, self._block = None, NOTHING  # frees the memory for the next block
        self._served += count
        self._pauses = None

    def _pass_on(self, records: int) -> None:
        """Pass the records of the block up to number `records` to the operator, unless passed before."""
        passed, block = self._passed, self._block
        if records > passed:
            self._operator.process(block[passed:records] if passed or records < len(block) else block)
            self._passed = records

    def block(self, duration: float) -> bool:
        """Delay the end of the remaining pauses by `duration` seconds; returns False if there are none."""
        if self._pauses is None:
            return False
        self._pauses.put_off(self._agenda.now, duration)
        return True

    def catch_up(self) -> None:
        """Pass the records of finished pauses to the operator."""
        if self._channel is not None:
            self._pass_on(self.records - self._served)

    def rest(self, channel: InputChannel) -> Content:
        """Return the encoded records of the buffer that were not passed to the operator."""
        return self._block[self._passed :].content if self._channel is channel else b""


class RecordByRecord:
    """Emits the output of each record when its service is finished, and handles mail in between.

    If the output of a buffer is known when it is read, its pauses are planned ahead. The outputs that are due
    are written together, with `write_due`, when an open buffer is read or flushed, when mail or a sample is
    taken, or when an output needs a new buffer.
    """

    __slots__ = (
        "_block",
        "_channel",
        "_count",
        "_done",
        "_finished",
        "_operator",
        "_outbox",
        "_plans_ahead",
        "_record_cost",
        "_records",
        "_served",
        "_spend",
        "_spent",
        "_stops",
        "_subtask",
        "_throttle",
        "_times",
        "_until",
    )

    def __init__(self, subtask: Subtask, operator: Operator, throttle: Throttle) -> None:
        self._records = 0
        self._subtask = subtask
        self._operator = operator
        self._throttle = throttle
        self._record_cost = subtask.environment.costs.consumer_record_s
        self._spend = subtask.agenda.sleep if throttle.cores is None else throttle.cores.work
        self._plans_ahead = throttle.cores is None and subtask.agenda.clock is None
        self._channel: InputChannel | None = None  # None between two blocks
        self._block = NOTHING
        self._outbox: Outbox
        self._count = self._served = 0
        self._spent = 0.0
        # The plan: at each time, the number of records whose output is written and that of finished records.
        self._times: list[float] = []
        self._stops: list[int] = []
        self._finished: list[int] = []
        self._done = 0  # number of times that are over
        self._until = inf  # end of the wait while nothing but planned outputs is written; infinity: no wait

    @property
    def records(self) -> int:
        """Number of records whose service is finished."""
        if self._until == inf:
            return self._records
        passed = bisect_right(self._times, self._subtask.agenda.now)
        return self._records - self._finished[self._done - 1] + self._finished[passed - 1]

    def take_mail(self, mail: Mail) -> bool:
        """Handle `mail` at the end of the current pause within the buffer; returns False if mail is handled
        between any two records.
        """
        if self._until == inf:
            return False
        self.write_due()
        self._subtask.mail.append(mail)
        end = self._times[bisect_left(self._times, self._subtask.agenda.now, self._done)]
        if end < self._until:
            self._resume_at(end)
        return True

    def _resume_at(self, time: float) -> None:
        self._until = time
        self._subtask.agenda.at(time, self._resume, time)

    def _resume(self, time: float) -> None:
        if time == self._until:
            self._subtask.waiter.wake_now()

    def write_due(self) -> None:
        """Write the planned outputs that were due before now."""
        if self._until < inf:
            due = bisect_left(self._times, self._subtask.agenda.now, self._done)
            if due > self._done:
                self._outbox.write(self._stops[due - 1])
                self._pass(due)

    def _pass(self, done: int) -> None:
        """Count the records that are finished by planned times up to number `done`."""
        self._records += self._finished[done - 1] - (self._finished[self._done - 1] if self._done else 0)
        self._done = done

    async def _follow_plan(self) -> None:
        """Process the buffer with all pauses planned ahead."""
        subtask, outbox, times, stops = self._subtask, self._outbox, self._times, self._stops
        agenda = subtask.agenda
        self._plan(self._throttle.charge_all(self._count, agenda.now + self._spent, self._record_cost))
        while self._done < len(times):
            now, done = agenda.now, self._done
            if times[done] > now:
                within = bisect_right(stops, outbox.position + outbox.room, done)
                self._resume_at(times[min(within, len(times) - 1)])
                await subtask.waiter.wait()
                self.write_due()
                self._until = inf
            else:
                if done and subtask.mail:
                    await subtask.handle_mail()
                self._pass(done + 1)
                await outbox.emit(stops[done])
                late = agenda.now - now
                if late:  # what is left begins later
                    times[done + 1 :] = [time + late for time in times[done + 1 :]]
        times.clear()
        stops.clear()
        self._finished.clear()
        self._done = 0
        self._channel = None

    def _plan(self, pauses: Pauses) -> None:
        """Plan the outputs of a buffer: the last record of a pause is emitted at its end, the records before
        it at its beginning.
        """
        ends, counts, last = pauses.ends, pauses.counts, len(pauses.ends) - 1
        self._times.append(self._subtask.agenda.now)
        self._times.extend(ends)
        self._stops.extend([count - 1 for count in counts])
        self._stops.append(counts[last])
        self._finished.append(0)
        self._finished.extend(counts)
        if pauses.ends_early:
            self._stops[last] = self._finished[last] = counts[last]

    async def serve(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Spend the service time of each record of `block`, then emit its output."""
        self.begin(channel, block, spent)
        await self.go_on()

    def begin(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Set the records of one buffer, for `go_on`."""
        self._outbox = Outbox(self._subtask, self._operator, block)
        self._channel, self._block = channel, block
        self._count, self._served, self._spent = len(block), 0, spent

    @property
    def left(self) -> int:
        """Number of records of the buffer that have not been processed."""
        return self._count - self._served

    async def go_on(self, *, one_record: bool = False) -> bool:
        """Process the rest of the buffer, or its next record only; returns whether the buffer is finished."""
        if self._plans_ahead and not one_record and self._count and self._operator.one_to_one:
            await self._follow_plan()
            return True
        subtask, throttle, outbox = self._subtask, self._throttle, self._outbox
        agenda, count_of_block = subtask.agenda, self._count
        while self._served < count_of_block:
            count, pause = throttle.charge(1 if one_record else count_of_block - self._served, agenda.now)
            self._served += count
            self._spent += count * self._record_cost
            if pause:
                await outbox.emit(self._served - 1)
                due = agenda.now + (self._spent + pause)
                await self._spend(self._spent + pause)
                throttle.overslept(agenda.now - due)
                self._spent = 0.0
                if subtask.mail and not one_record:
                    await subtask.handle_mail()
            self._records += count
            await outbox.emit(self._served)
            if one_record and self._served < count_of_block:
                return False
        self._channel = None
        if self._spent:
            await self._spend(self._spent)
        return True

    def block(self, duration: float) -> bool:
        """Return False: no finish times are planned ahead, so the subtask itself has to block."""
        return False

    def catch_up(self) -> None:
        """Do nothing: the operator already has all records that are due."""

    def rest(self, channel: InputChannel) -> Content:
        """Return the encoded records whose output has not been written yet."""
        return self._block[self._outbox.position :].content if self._channel is channel else b""


Serving = WholeBuffers | RecordByRecord
"""A way to process the records of a buffer; all times are in seconds."""
