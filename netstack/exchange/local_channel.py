"""The receiving end of a channel within one task manager."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from buffers import BufferSlice, Content, EventBuffer, PipelinedSubpartition, RecoveredBuffer, content_of
from flowcontrol import LocalProtocolError

from .channel import InputChannel, Item, barrier_in

if TYPE_CHECKING:
    from .gate import InputGate


class LocalInputChannel(InputChannel):
    """A channel whose producer is in the same task manager; it reads the subpartition directly.

    It needs no credit and has no buffers, so a buffer "arrives" when it is polled. Data queued in the
    subpartition counts as in-flight data of the producer. A barrier with a timeout is not announced; after
    the timeout, the producer turns it unaligned. The rules are those of Flink's LocalInputChannel.
    """

    __slots__ = ("_recovered", "_subpartition")

    def __init__(
        self, gate: InputGate, index: int, channel_id: int, subpartition: PipelinedSubpartition
    ) -> None:
        super().__init__(gate, index, channel_id)
        self._subpartition = subpartition
        self._recovered: deque[RecoveredBuffer | EventBuffer] = deque()

    def request(self, subpartition: int) -> None:
        """Register for notifications of the subpartition."""
        self._subpartition.on_data = self._check_data
        self._subpartition.on_priority = self._check_priority
        self._check_priority()
        self._check_data()

    def _check_data(self) -> None:
        if not self.queued and self._subpartition.can_send(1):
            self.gate.data_arrived(self)

    def _check_priority(self) -> None:
        if self._subpartition.has_priority:
            self.gate.priority_arrived(self)

    def poll(self) -> tuple[Item | None, bool]:
        """Return the next item, or None, and whether another item can be polled after it.

        Raises the error with which the channel has failed.
        """
        if self._failure is not None:
            raise self._failure
        recovered = self._recovered
        if recovered and not self.has_priority:
            item = recovered.popleft()
            return item, bool(recovered) or (self._requested and self._subpartition.can_send(1))
        polled = self._subpartition.poll()
        if polled is None:
            return None, False
        buffer = polled.buffer
        if isinstance(buffer, EventBuffer):
            arrived = barrier_in(buffer)
            if arrived is not None:
                self.barrier.arrive(arrived.checkpoint_id, None)
            return buffer, polled.more_available or bool(recovered)
        assert isinstance(buffer, BufferSlice)
        barrier = self._barrier
        if barrier is not None and barrier.persisting is not None and self.persist is not None:
            self.persist(barrier.persisting, self, content_of(buffer.payload))
        return buffer, polled.more_available

    @property
    def has_priority(self) -> bool:
        """Whether the next item is a priority event, which also overtakes recovered data."""
        return self._subpartition.has_priority and self._requested

    @property
    def _requested(self) -> bool:
        return self._subpartition.on_data is not None

    def resume(self) -> None:
        """Unblock the subpartition after a barrier."""
        self._subpartition.resume()
        self._check_priority()
        self._check_data()

    def prioritize(self, sequence_number: int) -> None:
        """Raise an error: a local channel announces no barriers.

        Raises:
            LocalProtocolError: always.
        """
        raise LocalProtocolError(
            f"a local channel announces no events, but channel {self.channel_id} was given the "
            f"announcement {sequence_number}"
        )

    def start_persisting(self, checkpoint_id: int) -> list[Content]:
        """Begin to persist data for a checkpoint; returns copies of the recovered data that is queued here.
        This is the only in-flight data on this side. All of it belongs to the checkpoint, even if the barrier
        has overtaken it.
        """
        if not self.barrier.start(checkpoint_id):
            return []
        return [content_of(item.payload) for item in self._recovered if not item.is_event]

    def _queue_recovered(self, item: RecoveredBuffer | EventBuffer) -> None:
        self._recovered.append(item)

    def announce_buffer_size(self, size: int) -> None:
        """Limit the size of new buffers."""
        self._subpartition.set_buffer_size(size)

    def acknowledge_all_records(self) -> None:
        """Inform the producer that its last record has been processed."""
        self._subpartition.acknowledge_all_records()

    @property
    def queue_length(self) -> int:
        """Number of buffers and events in the subpartition, plus recovered ones."""
        return len(self._subpartition) + len(self._recovered)

    @property
    def queued_bytes(self) -> int:
        """Recovered bytes.

        As in Flink's LocalInputChannel, bytes in the subpartition count at the producer.
        """
        return sum(item.size for item in self._recovered)

    @property
    def buffers_in_use(self) -> int:
        """Number of queued buffers and events, recovered ones included, as debloating counts them."""
        return self.queue_length

    @property
    def blocked(self) -> bool:
        """Whether a blocking barrier was polled and the subpartition was not resumed since."""
        return self._subpartition.blocked

    def release(self) -> None:
        """Unregister from the subpartition; the producer drops its queue."""
        self._subpartition.on_data = self._subpartition.on_priority = None
        self._recovered.clear()
