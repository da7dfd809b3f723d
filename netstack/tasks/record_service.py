"""The service of the records that a task reads: it spends their time, then emits their output.

Without outputs a task waits once for a whole buffer, and the operator sees the records at the end. With
outputs it serves and emits record by record, as it may begin the next one only while the outputs are
available. A snapshot that is taken meanwhile keeps what is left of the block in progress.
"""

from __future__ import annotations

from typing import Protocol

from buffers import Content, RecordBlock

from ..engine.agenda import Agenda
from ..exchange.channel import InputChannel
from .operators import NOTHING, Operator
from .service_time import Pauses, Throttle
from .subtask import Subtask


class Outbox:
    """The output of one block of input records, emitted up to a given input record.

    `position`: input records that are done with, their output written. A snapshot may be taken whenever the
    subtask waits for its outputs between two of them, so an operator with state sees a record only when
    its turn has come; one without is given the whole block at once.
    """

    __slots__ = ("_ahead", "_block", "_channels", "_operator", "_subtask", "position")

    def __init__(self, subtask: Subtask, operator: Operator, block: RecordBlock) -> None:
        self.position = 0
        self._subtask = subtask
        self._operator = operator
        self._ahead = operator.one_to_one
        self._block = operator.process(block) if self._ahead and len(block) else block
        self._channels = subtask.select_channels(self._block) if self._ahead else []

    async def emit(self, records: int) -> None:
        """Emit the output of the first `records` input records, as far as it has not been emitted."""
        if self._ahead:
            await self._emit_ready(records)
            return
        if self.position == records:
            return
        if self._operator.emits_later and self._subtask.available:  # and so it is after each of them
            self._operator.process(self._block[self.position : records])
            self.position = records
        while self.position < records:
            await self._process_next()
            if not self._subtask.available:
                await self._subtask.wait_for_output()

    async def _emit_ready(self, records: int) -> None:
        """Emit records one by one: each only while the outputs are available."""
        subtask = self._subtask
        while self.position < records:
            self.position = await subtask.emit(self._block, self._channels, self.position, records)
            if not subtask.available:
                await subtask.wait_for_output()

    async def _process_next(self) -> None:
        """Process one record and emit all its output; mail has to wait meanwhile."""
        start = self.position
        output = self._operator.process(self._block[start : start + 1])
        if len(output):
            await self._subtask.emit_all(output)
        self.position = start + 1


class Serving(Protocol):
    """A way to serve the records of a buffer; all times are in seconds."""

    @property
    def records(self) -> int:
        """Records whose service is over."""
        ...

    @property
    def pause_ends(self) -> float | None:
        """End of the current pause within the buffer being served; None: there is none to wait for."""
        ...

    async def serve(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Serve the records of one buffer, for which `spent` seconds are to pass besides."""
        ...

    def stall(self, duration: float) -> bool:
        """Be done so much later with the records in progress; False: there is none whose time is set."""
        ...

    def catch_up(self) -> None:
        """Let the operator see all records whose service is over."""
        ...

    def rest(self, channel: InputChannel) -> Content:
        """The records of `channel` that have been read and not been processed, encoded."""
        ...


class WholeBuffers:
    """Waits once for all records of a buffer; the operator sees them at the end, or up to a snapshot."""

    __slots__ = (
        "_agenda",
        "_block",
        "_channel",
        "_operator",
        "_pauses",
        "_record_cost",
        "_seen",
        "_served",
        "_throttle",
    )

    def __init__(self, agenda: Agenda, operator: Operator, throttle: Throttle, record_cost: float) -> None:
        self._agenda = agenda
        self._operator = operator
        self._throttle = throttle
        self._record_cost = record_cost
        self._channel: InputChannel | None = None  # None between two blocks
        self._block = NOTHING
        self._seen = 0  # records of the block that the operator has seen
        self._served = 0
        self._pauses: Pauses | None = None

    @property
    def records(self) -> int:
        """Records whose service is over."""
        pauses = self._pauses
        return self._served + (0 if pauses is None else pauses.records_by(self._agenda.now))

    @property
    def pause_ends(self) -> float | None:
        """The end of the current pause, unless it is the last of the buffer."""
        return None if self._pauses is None else self._pauses.end_within(self._agenda.now)

    async def serve(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Serve all records in one wait."""
        agenda, count = self._agenda, len(block)
        start = agenda.now + spent
        pauses = self._throttle.charge_all(count, start, self._record_cost)
        ends = pauses.ends
        if ends:
            self._pauses = pauses
        self._channel, self._block, self._seen = channel, block, 0
        await agenda.sleep_until(ends[-1] if ends else start)
        while ends and ends[-1] > agenda.now:  # a snapshot took its time
            await agenda.sleep_until(ends[-1])
        if ends and ends[0] > start:
            self._throttle.overslept(agenda.now - ends[-1])
        self._show(count)
        self._channel, self._block = None, NOTHING  # so that its memory is free for the next one
        self._served += count
        self._pauses = None

    def _show(self, records: int) -> None:
        """Let the operator see the first `records` records of the block, as far as it has not."""
        seen, block = self._seen, self._block
        if records > seen:
            self._operator.process(block[seen:records] if seen or records < len(block) else block)
            self._seen = records

    def stall(self, duration: float) -> bool:
        """End the pauses that are still to come so much later."""
        if self._pauses is None:
            return False
        self._pauses.put_off(self._agenda.now, duration)
        return True

    def catch_up(self) -> None:
        """Let the operator see the records of the pauses that are over."""
        if self._channel is not None:
            self._show(self.records - self._served)

    def rest(self, channel: InputChannel) -> Content:
        """The records of the buffer that the operator has not seen, encoded."""
        return self._block[self._seen :].content if self._channel is channel else b""


class RecordByRecord:
    """Emits the output of each record when its service is over, and handles mail in between."""

    __slots__ = (
        "_block",
        "_channel",
        "_count",
        "_operator",
        "_outbox",
        "_record_cost",
        "_served",
        "_spend",
        "_spent",
        "_subtask",
        "_throttle",
        "records",
    )

    def __init__(self, subtask: Subtask, operator: Operator, throttle: Throttle, record_cost: float) -> None:
        self.records = 0
        self._subtask = subtask
        self._operator = operator
        self._throttle = throttle
        self._record_cost = record_cost
        self._spend = subtask.agenda.sleep if throttle.cores is None else throttle.cores.work
        self._channel: InputChannel | None = None  # None between two blocks
        self._block = NOTHING
        self._outbox: Outbox
        self._count = self._served = 0
        self._spent = 0.0

    @property
    def pause_ends(self) -> None:
        """Mail is handled between any two records."""
        return None

    async def serve(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Spend the service time of each record of `block`, then emit its output."""
        self.begin(channel, block, spent)
        await self.go_on()

    def begin(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Take the records of one buffer, to `go_on` with them."""
        self._outbox = Outbox(self._subtask, self._operator, block)
        self._channel, self._block = channel, block
        self._count, self._served, self._spent = len(block), 0, spent

    @property
    def left(self) -> int:
        """Records of the buffer that are not served."""
        return self._count - self._served

    async def go_on(self, *, one_record: bool = False) -> bool:
        """Serve what is left of the buffer, or the next record of it; returns whether all is done."""
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
            self.records += count
            await outbox.emit(self._served)
            if one_record and self._served < count_of_block:
                return False
        self._channel = None
        if self._spent:
            await self._spend(self._spent)
        return True

    def stall(self, duration: float) -> bool:
        """No record has a time at which it will be done."""
        return False

    def catch_up(self) -> None:
        """The operator sees each record in its turn."""

    def rest(self, channel: InputChannel) -> Content:
        """The records whose output is not written yet, encoded."""
        return self._block[self._outbox.position :].content if self._channel is channel else b""
