"""Looks at a run while it goes on: credit at both ends, buffer sizes that were asked for, pools of memory.

A look is taken every few milliseconds, between two entries of the agenda, and when the run ends; in paranoid
mode also after every single entry. Neighbours, pools of other jobs in the same task managers, come and go
meanwhile, so that pools have to shrink and may grow again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from buffers import InsufficientBuffers, LocalBufferPool
from flowcontrol import ChannelSender
from netstack import Job, RemoteInputChannel

from .case import Neighbour, StormCase
from .draw_job import EventTimes
from .operators import Broken
from .step_rules import (
    Overtaking,
    PoolRules,
    SizesInForce,
    check_machines,
    check_mail,
    check_shrunk,
    look_behind_timeouts,
    watch_turns,
)

LOOKS_S = 0.03
"""From one look to the next, in emulated seconds."""

FIRST_LOOKS_S = tuple(0.003 * 1.35**number for number in range(12))
"""More of them at first, when most goes on."""


class Watch:
    """Looks at one job; `neighbours_kept` are the segments that neighbours had when their attempt ended."""

    def __init__(self, case: StormCase, *, paranoid: bool = False) -> None:
        self._case = case
        self._paranoid = paranoid
        self._job: Job
        self._attempt: object = None
        self._forget()
        self._senders: dict[int, ChannelSender] = {}
        self._channels: list[RemoteInputChannel] = []
        self._neighbours: list[tuple[LocalBufferPool, object]] = []

    def _forget(self) -> None:
        self._backlogs: dict[RemoteInputChannel, tuple[int, int, int]] = {}
        self._pools = PoolRules(closely=self._paranoid)
        self._sizes = SizesInForce(self._case, 0.0 if self._paranoid else LOOKS_S)

    def begin(self, job: Job) -> None:
        """Look at a job that is about to run."""
        self._job = job
        agenda = job.agenda
        look_behind_timeouts(self._case, job, self.look)
        for at in FIRST_LOOKS_S:
            agenda.keep(at, self.look)
        agenda.keep(LOOKS_S, self._again)
        for neighbour in self._case.neighbours:
            agenda.keep(neighbour.comes_at_s, self._come, neighbour)
        if self._paranoid:
            agenda.between = self.look

    def _again(self) -> None:
        self.look()
        self._job.agenda.keep(self._job.agenda.now + LOOKS_S, self._again)

    def at_end(self, now: float) -> None:
        """The run ends now, or another second is over."""
        self.look()

    def look(self) -> None:
        """Check what has to hold at any time.

        Raises:
            Broken: it does not.
        """
        attempt = self._job.attempt
        if attempt is None:
            return
        if attempt is not self._attempt:
            self._attempt = attempt
            self._senders.clear()
            self._channels = list(channels_of(self._job))
            self._forget()
            self._overtaking = Overtaking(self._case, self._job)
            self._event_times = EventTimes(self._case, attempt)
            check_key_groups(attempt)
        may_owe = attempt.builder._rebuilding
        for name, pool in attempt.builder.pools.items():
            self._pools.check(name, pool, may_owe=may_owe)
        check_mail(attempt)
        watch_turns(attempt, overtakes=self._case.config.takes_unaligned_checkpoints)
        check_credit(self._channels)
        now = self._job.agenda.now
        idle = all(link.under_way == 0 and link.blocked_until() <= now for link in attempt.links.values())
        self._check_both_ends(idle=idle)
        self._overtaking.check(attempt)
        self._event_times.check(attempt, idle=idle)
        self._sizes.check(attempt, now, self._sender_of)
        if self._paranoid:
            check_machines(attempt)

    def _check_both_ends(self, *, idle: bool) -> None:
        """Compare what both ends of each channel know: credit, and the data that waits at the sender.

        No sender has more credit than its receiver knows of, and just as much if nothing is under way. No
        receiver counts on more data than there is, nor on less than was there behind the last buffer.
        """
        backlogs = self._backlogs
        for channel in self._channels:
            sender = self._sender_of(channel)
            if sender is None or channel.blocked or channel.released:
                backlogs.pop(channel, None)
                continue
            known, has = channel.receiver.credit.outstanding, sender.credit.available
            if sender.credit.initial and (has > known or (idle and has != known)):
                text = f"channel {number_of(channel)}: its sender has credit for {has} buffers"
                raise Broken(f"{text}, and its receiver has announced {known} that were not used")
            backlogs[channel] = self._check_backlog(channel, sender, backlogs.get(channel))

    def _check_backlog(
        self, channel: RemoteInputChannel, sender: ChannelSender, before: tuple[int, int, int] | None
    ) -> tuple[int, int, int]:
        """Compare the backlog that a receiver counts on with the queue; `before` is from the look before.

        Returns the number of items and of data buffers that were sent so far, and of items ever queued.
        """
        queue: Any = sender.view
        waits, sent = sum(not item.is_event for item in queue._queue), queue._sequence
        under_way = sent - channel.receiver.expected_sequence
        announced = channel.buffers.announced_backlog
        # An open buffer that was told may be finished without anything more, and is not sent then.
        if announced > waits + under_way + 1:
            text = f"channel {number_of(channel)}: its receiver counts on {announced} buffers"
            raise Broken(f"{text}, and {waits} wait at its sender, {under_way} are under way")
        here = sent, sender.credit.spent, queue.total_buffers
        if before is not None and not under_way and not queue.blocked:
            items, data, added = (now - then for now, then in zip(here, before, strict=True))
            # Only data was sent, so it told the backlog, which may leave out the buffer that is open.
            if items == data > 0 and announced < waits - added - 1:
                text = f"channel {number_of(channel)}: its receiver counts on {announced} buffers"
                raise Broken(f"{text}, and {waits} wait at its sender, {added} of them since the last look")
        return here

    def _sender_of(self, channel: RemoteInputChannel) -> ChannelSender | None:
        number = channel.channel_id
        if number not in self._senders:
            attempt = self._job.attempt
            assert attempt is not None
            for producer in attempt.builder.connections.producers:
                sender = producer.queue.sender(number)
                if sender is not None:
                    self._senders[number] = sender
        return self._senders.get(number)

    def _come(self, neighbour: Neighbour) -> None:
        attempt = self._job.attempt
        if attempt is None or neighbour.task_manager not in attempt.builder.pools:
            return
        pool = attempt.builder.pools[neighbour.task_manager]
        wanted = neighbour.segments
        before = {each: each.requested for each in pool.pools}
        try:
            own = pool.create_pool(wanted, wanted, wanted)
        except InsufficientBuffers:
            return
        check_shrunk(neighbour.task_manager, before)
        self._neighbours.append((own, attempt))
        self._job.agenda.keep(self._job.agenda.now + neighbour.stays_s, self._go, own, attempt)

    def _go(self, own: LocalBufferPool, attempt: object) -> None:
        if self._job.attempt is attempt:
            self._neighbours.remove((own, attempt))
            own.lazy_destroy()

    @property
    def neighbours_kept(self) -> int:
        """Segments of the neighbours whose task managers were gone before they were."""
        return sum(own.requested for own, _ in self._neighbours)


def channels_of(job: Job) -> Iterator[RemoteInputChannel]:
    """All channels over links of the attempt that runs."""
    for subtask in () if job.attempt is None else job.attempt.subtasks:
        for gate in getattr(subtask, "gates", ()):
            yield from gate.remote_channels


def check_key_groups(attempt: Any) -> None:
    """Each key group is one subtask's.

    Raises:
        Broken: one is nobody's, or belongs to two.
    """
    for subtasks in attempt.builder.subtasks:
        keyed = [each.state.keyed for each in subtasks if getattr(each, "state", None) is not None]
        if len(keyed) == len(subtasks) and keyed:
            groups = sorted(group for each in keyed for group in each.key_groups)
            if groups != list(range(keyed[0].max_parallelism)):
                ranges = [(each.key_groups.start, each.key_groups.stop - 1) for each in keyed]
                raise Broken(f"the key groups of {subtasks[0].name} are dealt out as {ranges}")


def check_credit(channels: Iterable[RemoteInputChannel]) -> None:
    """Between two entries of the agenda, free buffers and credit are the same at each receiving channel.

    Buffers are counted one by one, and so is what waits.

    Raises:
        Broken: they are not.
    """
    for channel in channels:
        credit, buffers, queue = channel.receiver.credit, channel.buffers, channel._queue
        worth = credit.outstanding + credit.unannounced
        free = buffers.reserved + len(buffers._exclusive) + len(buffers._floating)
        blocked = channel.receiver.state.name == "BLOCKED" and not buffers.exclusive_total
        arrived = 0 if queue is None else len(queue._items) + len(queue._priority)
        waits = arrived + max(0, buffers.required - credit.initial)
        if channel.buffers_in_use != waits:
            text = f"channel {number_of(channel)}: debloating counts {channel.buffers_in_use} buffers"
            raise Broken(f"{text}, and {waits} wait at both ends")
        if free != (0 if blocked else worth) and not buffers.released:
            state = channel.receiver.state.name.lower()
            text = f"channel {number_of(channel)} ({state}) has {free} free buffers"
            raise Broken(f"{text}, and credit for {worth}")


def number_of(channel: RemoteInputChannel) -> str:
    """Which channel it is."""
    return f"{channel.channel_id}, {channel.index} of its gate"
