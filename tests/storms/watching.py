"""Rules that hold at any moment of a run, checked every 20 emulated milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from buffers import BufferConsumer
from flowcontrol import ChannelSender
from netstack import Job, RemoteInputChannel

INTERVAL_S = 0.02
"""Time between two checks."""


class Broken(AssertionError):  # noqa: N818 - the name says what happened to the rule
    """A rule does not hold in the middle of a run."""


class Watch:
    """Checks a job while it runs: credit, announced backlog, and data that waits to be flushed."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._attempt: Any = None
        self._unflushed: dict[BufferConsumer, tuple[float, int]] = {}
        self._senders: dict[int, ChannelSender] = {}
        job.agenda.keep(INTERVAL_S, self._check)

    def _check(self) -> None:
        job = self._job
        job.agenda.keep(job.agenda.now + INTERVAL_S, self._check)
        attempt = job.attempt
        if attempt is not self._attempt:
            self._attempt = attempt
            self._unflushed.clear()
            self._senders.clear()
        if attempt is None:
            return
        now = job.agenda.now
        idle = all(link.under_way == 0 and link.blocked_until() <= now for link in attempt.links.values())
        for channel in _channels(attempt):
            _check_credit(channel)
            sender = self._sender_of(channel)
            if sender is not None and not (channel.blocked or channel.released):
                _check_both_ends(channel, sender, idle=idle)
        self._check_flushed(now)

    def _sender_of(self, channel: RemoteInputChannel) -> ChannelSender | None:
        number = channel.channel_id
        if number not in self._senders:
            for producer in self._attempt.builder.connections.producers:
                if (sender := producer.queue.sender(number)) is not None:
                    self._senders[number] = sender
        return self._senders.get(number)

    def _check_flushed(self, now: float) -> None:
        """Check that no data waits longer than the buffer timeout without a flush.

        Raises:
            Broken: if some does.
        """
        timeout = self._job.scenario.config.buffer_timeout_s
        if timeout is None:
            return
        before, self._unflushed = self._unflushed, {}
        for subtask in self._attempt.subtasks:
            for output in subtask.outputs:
                for part in output.partition.subpartitions:
                    queue = part._queue
                    if len(queue) != 1 or queue[0].is_event or part._flush_requested or part.blocked:
                        continue
                    consumer = queue[0]
                    if not consumer.unread:
                        continue
                    read = consumer._read
                    since, read_then = before.get(consumer, (now, read))
                    if read != read_then:
                        since = now
                    if now > since + 2 * timeout + INTERVAL_S:
                        text = f"{subtask} has {consumer.unread} bytes for subpartition {part.index}"
                        raise Broken(f"{text}, which no flush has announced for {now - since:.3f} s")
                    self._unflushed[consumer] = since, read


def _channels(attempt: Any) -> Iterator[RemoteInputChannel]:
    for subtask in attempt.subtasks:
        for gate in getattr(subtask, "gates", ()):
            yield from gate.remote_channels


def _check_credit(channel: RemoteInputChannel) -> None:
    """Check that a channel has as many free buffers as credit.

    Raises:
        Broken: if it has not.
    """
    credit, buffers = channel.receiver.credit, channel.buffers
    worth = credit.outstanding + credit.unannounced
    free = buffers.reserved + len(buffers._exclusive) + len(buffers._floating)
    blocked = channel.receiver.state.name == "BLOCKED" and not buffers.exclusive_total
    if free != (0 if blocked else worth) and not buffers.released:
        raise Broken(f"channel {channel.channel_id} has {free} free buffers, and credit for {worth}")


def _check_both_ends(channel: RemoteInputChannel, sender: ChannelSender, *, idle: bool) -> None:
    """Check that a sender has no more credit than its receiver has announced, nor less if no message is on
    its way, and that the receiver does not expect more buffers than there are.

    Raises:
        Broken: if a rule does not hold.
    """
    known, has = channel.receiver.credit.outstanding, sender.credit.available
    if sender.credit.initial and (has > known or (idle and has != known)):
        raise Broken(f"channel {channel.channel_id}: credit for {has} at the sender, {known} at the receiver")
    queue: Any = sender.view
    waiting = sum(not item.is_event for item in queue._queue)
    on_their_way = queue._sequence - channel.receiver.expected_sequence
    announced = channel.buffers.announced_backlog
    if announced > waiting + on_their_way + 1:
        text = f"channel {channel.channel_id}: the receiver expects {announced} buffers"
        raise Broken(f"{text}, but {waiting} wait at the sender and {on_their_way} are on their way")
