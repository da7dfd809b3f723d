"""The sending side of a connection: writes what its `SendQueue` chooses, as much as the link is ready for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress

from buffers import PipelinedSubpartition
from flowcontrol import (
    AddCredit,
    CancelPartitionRequest,
    ChannelSender,
    Message,
    PartitionRequest,
    RequestListeners,
    SendBuffer,
    SendQueue,
    wire_size,
)

from ..errors import LinkClosedError
from .link import ProducingEnd
from .notifier import Notify
from .stalls import CreditStalls


class _DataNotice:
    """What a subpartition calls: a closure of the two would take five times the memory."""

    __slots__ = ("_end", "_sender")

    def __init__(self, end: ProducerEnd, sender: ChannelSender) -> None:
        self._end = end
        self._sender = sender

    def __call__(self) -> None:
        """There is something to send."""
        self._end.notify_data(self._sender)


class ProducerEnd:
    """The sending side of a connection; `messages` counts what has arrived here.

    `stalls`, if there is one, is shown every channel whose credit or data has changed. A request for a
    partition that is not there waits for it; see `flowcontrol.RequestListeners`.
    """

    def __init__(
        self, end: ProducingEnd, notify: Notify, find: Callable[[int], PipelinedSubpartition]
    ) -> None:
        """`find` gives the subpartition that a channel asks for, or raises a KeyError or IndexError."""
        self.queue = SendQueue()
        self.messages = 0
        self._end = end
        self._notify = notify
        self._find = find
        self._leaving: deque[SendBuffer | None] = deque()
        self._listeners = RequestListeners()
        self._timer_set = False
        self.stalls: CreditStalls | None = None
        end.listen(self)

    def receive(self, message: Message) -> None:
        """Take a message of the consuming end.

        Raises:
            RemoteProtocolError: if it makes no sense here.
        """
        self.messages += 1
        if type(message) is PartitionRequest:
            self._open(message)
        else:
            if type(message) is CancelPartitionRequest:
                self._listeners.take(message.channel)
            self.queue.handle(message)
            if type(message) is AddCredit:
                self._watch(message.channel)
        if not self._leaving or self._end.ready:
            self._write()

    def _open(self, request: PartitionRequest) -> None:
        try:
            subpartition = self._find(request.channel)
        except LookupError:
            self._listeners.wait(request, self._end.now)
            self._set_timer()
            return
        sender = self.queue.open(request, subpartition)
        subpartition.on_data = _DataNotice(self, sender)

    @property
    def awaits_partitions(self) -> bool:
        """Whether requests wait for partitions that were not there."""
        return len(self._listeners) > 0

    def partition_added(self, channel: int) -> None:
        """What `channel` reads can be found from now on: serve it if it was requested before."""
        request = self._listeners.take(channel)
        if request is not None:
            self._open(request)
            if not self._leaving or self._end.ready:
                self._write()

    def _set_timer(self) -> None:
        deadline = self._listeners.deadline
        if deadline is not None and not self._timer_set:
            self._timer_set = True
            self._end.after(max(0.0, deadline - self._end.now), self._time_out)

    def _time_out(self) -> None:
        """Tell the consumers of those partitions that have not come; unless nothing is sent any more."""
        self._timer_set = False
        with suppress(LinkClosedError):
            for error in self._listeners.expire(self._end.now):
                self._end.write(wire_size(error), None, error)
        self._set_timer()

    def notify_data(self, sender: ChannelSender) -> None:
        """Let the network thread look what `sender` has to send; a task has given it something."""
        self._notify(self._data_available, sender)

    def _data_available(self, sender: ChannelSender) -> None:
        self.queue.data_available(sender)
        self._watch(sender.channel)
        if not self._leaving or self._end.ready:
            self._write()

    def _write(self) -> None:
        """Write the next message, and more of them while the link is ready for that."""
        end, next_message = self._end, self.queue.next_message
        while (item := next_message()) is not None:
            message, buffer = item
            self._leaving.append(buffer)
            end.write(wire_size(message), self._written, message)
            self._watch(message.channel)
            if not end.ready:
                break

    def _watch(self, channel: int) -> None:
        if self.stalls is not None:
            sender = self.queue.sender(channel)
            if sender is not None:
                self.stalls.update(sender)

    def _written(self) -> None:
        buffer = self._leaving.popleft()
        if buffer is not None:
            buffer.release()
        if not self._leaving or self._end.ready:
            self._write()

    def close(self) -> None:
        """Release the buffers that are being written and all that waits; the link must have ended."""
        self._listeners.clear()
        while self._leaving:
            buffer = self._leaving.popleft()
            if buffer is not None:
                buffer.release()
        self.queue.close()
