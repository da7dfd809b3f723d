"""How a task spends the service time of the records that it reads.

Without outputs it waits once for a whole buffer, and the operator sees the records at the end. With outputs
it serves and emits record by record, as it may begin the next one only while the outputs are available. A
snapshot that is taken meanwhile keeps what is left of the block in progress.
"""

from __future__ import annotations

from typing import Protocol

from buffers import Content, RecordBlock

from ..engine.agenda import Agenda
from ..exchange.channel import InputChannel
from .operators import NOTHING, Operator
from .outbox import Outbox
from .subtask import Subtask
from .throttle import Pauses, Throttle


class Serving(Protocol):
    """A way to serve the records of a buffer; all times are in seconds."""

    @property
    def records(self) -> int:
        """Records whose service is over."""
        ...

    @property
    def pause_ends(self) -> float | None:
        """When a pause ends within the buffer being served; None: there is none to wait for."""
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


class _BlockInProgress:
    """A block whose records are emitted one after the other, and how far that has come."""

    __slots__ = ("_block", "_outbox", "channel")

    def __init__(self, channel: InputChannel, block: RecordBlock, outbox: Outbox) -> None:
        self.channel: InputChannel | None = channel
        self._block = block
        self._outbox = outbox

    def rest(self) -> Content:
        """The records whose output is not written yet, encoded."""
        return self._block[self._outbox.position :].content


class _BlockBeingServed:
    """A block whose records go nowhere: the operator sees them all at the end, or up to a snapshot.

    One object serves for all blocks of a subtask, one after the other: its user sets `block`, and `done`,
    the records that the operator has seen, back to 0. `channel` is None in between.
    """

    __slots__ = ("_operator", "block", "channel", "done")

    def __init__(self, operator: Operator) -> None:
        self.channel: InputChannel | None = None
        self.block = NOTHING
        self.done = 0
        self._operator = operator

    def catch_up(self, records: int) -> None:
        """Let the operator see the first `records` records, as far as it has not."""
        if records > self.done:
            seen_now = (
                self.block[self.done : records] if self.done or records < len(self.block) else self.block
            )
            self._operator.process(seen_now)
            self.done = records

    def rest(self) -> Content:
        """The records that the operator has not seen, encoded."""
        return self.block[self.done :].content


class WholeBuffers:
    """Waits once for all records of a buffer."""

    __slots__ = ("_agenda", "_block", "_pauses", "_record_cost", "_served", "_throttle")

    def __init__(self, agenda: Agenda, operator: Operator, throttle: Throttle, record_cost: float) -> None:
        self._agenda = agenda
        self._throttle = throttle
        self._record_cost = record_cost
        self._block = _BlockBeingServed(operator)
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
        agenda, served = self._agenda, self._block
        start = agenda.now + spent
        pauses = self._throttle.charge_all(len(block), start, self._record_cost)
        ends = pauses.ends
        if ends:
            self._pauses = pauses
        served.channel, served.block, served.done = channel, block, 0
        await agenda.sleep_until(ends[-1] if ends else start)
        while ends and ends[-1] > agenda.now:  # a snapshot took its time
            await agenda.sleep_until(ends[-1])
        if ends and ends[0] > start:
            self._throttle.overslept(agenda.now - ends[-1])
        served.catch_up(len(block))
        served.channel, served.block = None, NOTHING  # so that its memory is free for the next one
        self._served += len(block)
        self._pauses = None

    def stall(self, duration: float) -> bool:
        """End the pauses that are still to come so much later."""
        if self._pauses is None:
            return False
        self._pauses.put_off(self._agenda.now, duration)
        return True

    def catch_up(self) -> None:
        """Let the operator see the records of the pauses that are over."""
        if self._block.channel is not None:
            self._block.catch_up(self.records - self._served)

    def rest(self, channel: InputChannel) -> Content:
        """What the operator has not seen of the buffer."""
        return self._block.rest() if self._block.channel is channel else b""


class RecordByRecord:
    """Emits what comes of each record when its service is over, and handles mail in between."""

    __slots__ = (
        "_block",
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
        self._block: _BlockInProgress | None = None
        self._outbox: Outbox
        self._count = self._served = 0
        self._spent = 0.0

    @property
    def pause_ends(self) -> None:
        """Mail is handled between any two records."""
        return None

    async def serve(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Spend the service time of each record of `block`, then emit what comes of it."""
        self.begin(channel, block, spent)
        await self.go_on()

    def begin(self, channel: InputChannel, block: RecordBlock, spent: float) -> None:
        """Take the records of one buffer, to `go_on` with them."""
        self._outbox = Outbox(self._subtask, self._operator, block)
        self._block = _BlockInProgress(channel, block, self._outbox)
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
        self._block = None
        if self._spent:
            await self._spend(self._spent)
        return True

    def stall(self, duration: float) -> bool:
        """No record has a time at which it will be done."""
        return False

    def catch_up(self) -> None:
        """The operator sees each record in its turn."""

    def rest(self, channel: InputChannel) -> Content:
        """The records whose output is not written yet."""
        block = self._block
        return block.rest() if block is not None and block.channel is channel else b""
