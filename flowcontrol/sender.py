"""The sending end of a connection: decides which channel sends its next buffer.

Channels with items to send are in one queue, each at most once. The first channel sends a single message, and
goes to the tail if it can send more. So the channels share the wire buffer by buffer::

    data arrives, credit arrives, consumption resumes
                  |
                  v  sendable?          next_message()
              [ ready: ch3, ch0, ch7 ] ---------------> BufferResponse of ch3 -> the wire
                  ^                                          |
                  +---------- more to send? ----------------+

A channel is *sendable* if data is available and it has credit, or if its next item is an event. A channel
that was opened with an initial credit of 0 sends its backlog first (BacklogAnnouncement). Otherwise its
receiver would not know that it has to request floating buffers. The rules are those of Flink's
CreditBasedSequenceNumberingViewReader and PartitionRequestQueue.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from .credit import CreditLedger
from .errors import LocalProtocolError, RemoteProtocolError
from .events import DataType
from .messages import (
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    DescribedBytes,
    Message,
    NewBufferSize,
    PartitionRequest,
    ResumeConsumption,
    ToOpenChannel,
)

__all__ = ["ChannelSender", "Polled", "SendBuffer", "SendQueue", "SubpartitionView"]


class SendBuffer(Protocol):
    """A buffer to send; the sender releases it after it has been sent."""

    @property
    def data_type(self) -> DataType:
        """Type of the data or event."""
        ...

    @property
    def is_event(self) -> bool:
        """Whether the buffer is an event, which needs no credit."""
        ...

    @property
    def payload(self) -> memoryview | DescribedBytes:
        """The bytes to send."""
        ...

    def release(self) -> None:
        """Return the memory."""
        ...


class Polled:
    """One item taken from a subpartition.

    `backlog`: number of data buffers left. `more_available`: whether another item can be polled at once;
    `next_is_event`: whether the next item is an event. `sequence_number`: position in the subpartition,
    events included.
    """

    # Not a NamedTuple: its constructor is interpreted, too slow for an object that every buffer needs.
    __slots__ = ("backlog", "buffer", "more_available", "next_is_event", "sequence_number")

    def __init__(
        self,
        buffer: SendBuffer,
        backlog: int,
        more_available: bool,
        next_is_event: bool,
        sequence_number: int,
    ) -> None:
        self.buffer = buffer
        self.backlog = backlog
        self.more_available = more_available
        self.next_is_event = next_is_event
        self.sequence_number = sequence_number


class SubpartitionView(Protocol):
    """The subpartition that a channel sends from.

    `blocked`: whether a blocking barrier was sent, so that no item may follow until `resume`.
    """

    __slots__ = ()

    index: int
    blocked: bool

    def poll(self) -> Polled | None:
        """Remove and return the next item, or None."""
        ...

    def can_send(self, credit: int) -> bool:
        """Whether the next item may be sent with this credit."""
        ...

    @property
    def backlog(self) -> int:
        """Number of queued data buffers."""
        ...

    def resume(self) -> None:
        """Unblock after a barrier."""
        ...

    def set_buffer_size(self, size: int) -> None:
        """Limit the size in bytes of buffers added from now on."""
        ...

    def acknowledge_all_records(self) -> None:
        """Record that the consumer has processed all records before the end of data."""
        ...

    def release(self) -> None:
        """Drop all queued items."""
        ...


class ChannelSender:
    """The sending end of one channel: its subpartition and its credit."""

    __slots__ = ("channel", "credit", "queued", "view")

    def __init__(self, channel: int, view: SubpartitionView, initial_credit: int) -> None:
        self.channel = channel
        self.view = view
        self.credit = CreditLedger(initial_credit)
        self.queued = False

    @property
    def sendable(self) -> bool:
        """Whether the next item may be sent now."""
        return self.view.can_send(self.credit.available)

    @property
    def announces_backlog(self) -> bool:
        """Whether the backlog must be announced, because without credit no buffer can report it."""
        credit = self.credit
        return credit.initial == 0 and credit.available == 0 and self.view.backlog > 0


class SendQueue:
    """All channels of one connection, and the order in which they send."""

    def __init__(self) -> None:
        self._senders: dict[int, ChannelSender] = {}
        self._ready: deque[ChannelSender] = deque()
        self._announcements: deque[BacklogAnnouncement] = deque()

    def open(self, request: PartitionRequest, view: SubpartitionView) -> ChannelSender:
        """Open the channel of `request` for `view`, and queue it if data is available.

        Raises:
            RemoteProtocolError: if the channel is open already.
        """
        if request.channel in self._senders:
            raise RemoteProtocolError(f"channel {request.channel} was requested twice")
        sender = ChannelSender(request.channel, view, request.initial_credit)
        self._senders[request.channel] = sender
        self.data_available(sender)
        return sender

    def sender(self, channel: int) -> ChannelSender | None:
        """Return the sending end of `channel`, or None if it is not open."""
        return self._senders.get(channel)

    def data_available(self, sender: ChannelSender) -> None:
        """Queue `sender` if it is sendable. Otherwise, queue an announcement of its backlog if necessary."""
        if sender.queued:
            return
        if sender.sendable:
            sender.queued = True
            self._ready.append(sender)
        elif sender.announces_backlog:
            self._announcements.append(BacklogAnnouncement(sender.channel, sender.view.backlog))

    def handle(self, message: Message) -> None:
        """Apply a message of the receiver.

        Raises:
            RemoteProtocolError: if the channel is not open, if the message resumes a channel that is not
                blocked, or if receivers do not send this message. The state is unchanged.
        """
        if not isinstance(message, ToOpenChannel):
            raise RemoteProtocolError(f"a receiver must not send {type(message).__name__}")
        sender = self._senders.get(message.channel)
        if sender is not None:
            self._apply(sender, message)
        elif not isinstance(message, (NewBufferSize, CancelPartitionRequest)):
            # A NewBufferSize may arrive before the request is served, and a channel may be cancelled twice.
            raise RemoteProtocolError(f"{type(message).__name__} arrived for a channel that is not open")

    @property
    def has_messages(self) -> bool:
        """Whether a channel is queued or a backlog is to be announced."""
        return bool(self._ready or self._announcements)

    def next_message(self) -> tuple[BacklogAnnouncement | BufferResponse, SendBuffer | None] | None:
        """Return the next message to write, and the buffer to release after writing; None if no message is
        queued.
        """
        if self._announcements:
            return self._announcements.popleft(), None
        ready = self._ready
        while ready:
            sender = ready.popleft()
            if not sender.queued:  # cancelled
                continue
            sender.queued = False
            polled = sender.view.poll()
            if polled is not None:
                return self._respond(sender, polled), polled.buffer
        return None

    def _respond(self, sender: ChannelSender, polled: Polled) -> BufferResponse:
        buffer = polled.buffer
        if not buffer.is_event:
            sender.credit.spend()
        if polled.more_available and (sender.credit.available > 0 or polled.next_is_event):
            sender.queued = True
            self._ready.append(sender)
        return BufferResponse(
            sender.channel,
            sender.view.index,
            polled.sequence_number,
            polled.backlog,
            buffer.data_type,
            False,
            buffer.payload,
        )

    def _apply(self, sender: ChannelSender, message: ToOpenChannel) -> None:
        match message:
            case AddCredit():
                sender.credit.grant(message.credit)
                self.data_available(sender)
            case ResumeConsumption():
                if not sender.view.blocked:
                    raise RemoteProtocolError(
                        f"a request to resume arrived for channel {sender.channel}, which is not blocked"
                    )
                if sender.credit.initial == 0:
                    sender.credit.revoke()
                sender.view.resume()
                self.data_available(sender)
            case NewBufferSize():
                sender.view.set_buffer_size(message.size)
            case AckAllUserRecordsProcessed():
                sender.view.acknowledge_all_records()
            case CancelPartitionRequest():
                self.cancel(sender)

    def cancel(self, sender: ChannelSender) -> None:
        """Close the channel of `sender` and release its queued buffers."""
        if self._senders.pop(sender.channel, None) is None:
            raise LocalProtocolError(f"channel {sender.channel} is not open")
        sender.queued = False  # `next_message` skips it; removing it from the queue would be slow
        if self._announcements:
            stale = [pending for pending in self._announcements if pending.channel == sender.channel]
            for announcement in stale:
                self._announcements.remove(announcement)
        sender.view.release()

    def close(self) -> None:
        """Cancel every channel."""
        self._announcements.clear()
        for sender in list(self._senders.values()):
            self.cancel(sender)
        self._ready.clear()
