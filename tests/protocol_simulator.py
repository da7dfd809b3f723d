"""Both ends of a connection, joined by a fake wire.

A `MachinePair` has what a producing and a consuming task manager have between a record and a record::

    write -> Output: builder, subpartition -> SendQueue == to_consumer ==> Input: receiver, buffers -> read
                                                  ^ <== to_producer === |

Nothing moves by itself: each step of a message is a call, so a test chooses every interleaving. `settle` does
whatever is left to do, `check` asserts what must hold between any two steps.
"""

from __future__ import annotations

from collections import deque

import msgspec

from buffers import (
    BufferBuilder,
    ChannelBuffers,
    EventBuffer,
    EventConsumer,
    LocalBufferPool,
    NetworkBufferPool,
    PipelinedSubpartition,
    ReceivedBuffer,
    RecordBlock,
    RecordDecoder,
)
from flowcontrol import (
    BLOCKING_TYPES,
    EVENT_TYPES,
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    ChannelReceiver,
    ChannelSender,
    CheckpointBarrier,
    Event,
    PartitionRequest,
    ReceiverState,
    ResumeConsumption,
    SendQueue,
    data_type_of,
    decode_event,
    encode_event,
)

PRODUCER_SEGMENTS = 1024
"""Enough that a test never waits for memory at the producing end."""


class Output:
    """The producing end of one channel; `written` holds the payloads and events in their order."""

    def __init__(self, index: int, pool: LocalBufferPool, exclusive: int) -> None:
        self.subpartition = PipelinedSubpartition(index, receiver_exclusive=exclusive)
        self.written: list[bytes | Event] = []
        self._pool = pool
        self._builder: BufferBuilder | None = None

    def write(self, payload: bytes) -> None:
        """Add a record, as a result partition does: a buffer is queued before its first record is in it."""
        self.written.append(payload)
        rest = RecordBlock.from_payloads([payload]).encoded(0)
        if self._builder is None:
            self._builder = self._new_builder()
            self.subpartition.add(self._builder.consumer())
        rest = rest[self._builder.append(rest) :]
        while rest:
            self.finish_builder()
            self._builder = self._new_builder()
            rest = rest[self._builder.append(rest) :]
            self.subpartition.add(self._builder.consumer())
        if self._builder.room == 0:
            self.finish_builder()

    def _new_builder(self) -> BufferBuilder:
        segment = self._pool.request()
        assert segment is not None, "give the producing end of the test more segments"
        return BufferBuilder(segment, self._pool)

    def finish_builder(self) -> None:
        if self._builder is not None:
            self._builder.finish()
            self._builder = None

    def add_event(self, event: Event) -> None:
        self.written.append(event)
        self.finish_builder()
        self.subpartition.add(EventConsumer(EventBuffer(encode_event(event), data_type_of(event))))


class Input:
    """The consuming end of one channel; `read` holds what was consumed, in its order."""

    def __init__(self, channel: int, buffers: ChannelBuffers, receiver: ChannelReceiver) -> None:
        self.channel = channel
        self.buffers = buffers
        self.receiver = receiver
        self.queue: deque[ReceivedBuffer | EventBuffer] = deque()
        self.read: list[bytes | Event] = []
        self.at_barrier = False
        self.data_received = 0
        self.credit_announced = receiver.credit.initial
        self.credit_revoked = 0
        self._decoder = RecordDecoder()

    def receive(self, message: BufferResponse) -> None:
        """Take an arrived message; the order of these steps is part of the protocol."""
        self.receiver.accept(message.sequence_number, message.backlog, message.data_type)
        if message.data_type in EVENT_TYPES:
            self.queue.append(EventBuffer(bytes(message.payload), message.data_type))
            if message.data_type in BLOCKING_TYPES:
                self.buffers.block()
        else:
            self.data_received += 1
            taken = self.buffers.take()
            assert taken is not None, "data arrived and there is no buffer for it"
            buffer = ReceivedBuffer(*taken, len(message.payload))
            buffer.payload[:] = message.payload
            self.queue.append(buffer)
        self.buffers.report_backlog(message.backlog)

    @property
    def data_queued(self) -> int:
        return sum(not item.is_event for item in self.queue)

    def consume(self) -> None:
        """Read one buffer or event and recycle it."""
        item = self.queue.popleft()
        if isinstance(item, EventBuffer):
            event = decode_event(item.payload)
            self.read.append(event)
            self.at_barrier = isinstance(event, CheckpointBarrier)
        else:
            self.read.extend(bytes(payload) for payload in self._decoder.feed(item.payload).payloads())
        item.release()


class CreditDue:
    """Notes the number of a channel when there is credit to announce."""

    def __init__(self, due: list[int] | deque[int], channel: int) -> None:
        self._due = due
        self._channel = channel

    def credit_gained(self) -> None:
        self._due.append(self._channel)


class MachinePair:
    """`channels` channels over one connection, whose consuming ends share one floating pool."""

    def __init__(
        self, channels: int = 1, *, exclusive: int = 2, floating: int = 8, segment_size: int = 32
    ) -> None:
        self.exclusive = exclusive
        self.producer_memory = NetworkBufferPool(PRODUCER_SEGMENTS, segment_size)
        self.consumer_memory = NetworkBufferPool(channels * exclusive + floating, segment_size)
        self.output_pool = self.producer_memory.create_pool(PRODUCER_SEGMENTS, 1, PRODUCER_SEGMENTS)
        self.floating = self.consumer_memory.create_pool(floating, 1, floating)
        self.queue = SendQueue()
        self.to_consumer: deque[BufferResponse | BacklogAnnouncement] = deque()
        self.to_producer: deque[AddCredit | ResumeConsumption] = deque()
        self.credit_due: deque[int] = deque()
        self.data_sent = [0] * channels
        self.credit_granted = [exclusive] * channels
        self.outputs = [Output(channel, self.output_pool, exclusive) for channel in range(channels)]
        self.inputs = [self._input(channel) for channel in range(channels)]
        self.senders = [self._open(channel) for channel in range(channels)]

    def _input(self, channel: int) -> Input:
        receiver = ChannelReceiver(self.exclusive)
        segments = self.consumer_memory.request_unpooled(self.exclusive)
        buffers = ChannelBuffers(
            segments, self.floating, receiver.credit, CreditDue(self.credit_due, channel)
        )
        return Input(channel, buffers, receiver)

    def _open(self, channel: int) -> ChannelSender:
        subpartition = self.outputs[channel].subpartition
        sender = self.queue.open(PartitionRequest(channel, self.exclusive), subpartition)
        subpartition.on_data = lambda: self.queue.data_available(sender)
        return sender

    def transmit(self) -> bool:
        """The producing end writes one message; False if it has none."""
        item = self.queue.next_message()
        if item is None:
            return False
        message, buffer = item
        if isinstance(message, BufferResponse):
            assert buffer is not None
            self.data_sent[message.channel] += not buffer.is_event
            # As it arrives: with bytes of its own, since the segment behind it is recycled.
            message = msgspec.structs.replace(message, payload=bytes(message.payload))
            buffer.release()
        self.to_consumer.append(message)
        return True

    def announce(self) -> bool:
        """The consuming end writes the credit of the channel that gained first; False if there is none."""
        if not self.credit_due:
            return False
        channel = self.credit_due.popleft()
        credit = self.inputs[channel].receiver.credit.take()
        if credit:
            self.inputs[channel].credit_announced += credit
            self.to_producer.append(AddCredit(channel, credit))
        return True

    def resume(self, channel: int) -> None:
        """The consuming end lets a channel go on behind the barrier that it has read."""
        end = self.inputs[channel]
        end.at_barrier = False
        if self.exclusive == 0:
            end.credit_revoked += end.receiver.credit.outstanding
        end.receiver.resume()
        self.to_producer.append(ResumeConsumption(channel))

    def deliver_to_consumer(self) -> bool:
        """The oldest message to the consuming end arrives; False if none is on its way."""
        if not self.to_consumer:
            return False
        message = self.to_consumer.popleft()
        if isinstance(message, BacklogAnnouncement):
            self.inputs[message.channel].buffers.report_backlog(message.backlog)
        else:
            self.inputs[message.channel].receive(message)
        return True

    def deliver_to_producer(self) -> bool:
        """The oldest message to the producing end arrives; False if none is on its way."""
        if not self.to_producer:
            return False
        message = self.to_producer.popleft()
        self.queue.handle(message)
        self.credit_granted[message.channel] += message.credit if isinstance(message, AddCredit) else 0
        return True

    def settle(self, *, consume: bool = True) -> None:
        """Do all there is to do until nothing moves; without `consume`, what arrives stays in its buffers."""
        while self.move() or (consume and self._consume_one()):
            self.check()

    def move(self) -> bool:
        """Take one step of what is on its way, without consuming anything; False if all is quiet."""
        return self.transmit() or self.deliver_to_consumer() or self.announce() or self.deliver_to_producer()

    def _consume_one(self) -> bool:
        for end in self.inputs:
            if end.queue:
                end.consume()
                return True
            if end.at_barrier:
                self.resume(end.channel)
                return True
        return False

    def check(self) -> None:
        """Assert what holds between any two steps."""
        for channel in range(len(self.inputs)):
            self._check_producing_end(channel)
            self._check_consuming_end(self.inputs[channel])
            self._check_credit_is_conserved(channel)
        in_use = sum(end.data_queued for end in self.inputs)
        free = sum(end.buffers.available for end in self.inputs)
        total = self.exclusive * len(self.inputs) + self.floating.requested - self.floating.free
        assert in_use + free == total

    def _check_producing_end(self, channel: int) -> None:
        credit = self.senders[channel].credit
        assert credit.available >= 0
        assert credit.granted == self.credit_granted[channel]
        assert credit.granted == self.data_sent[channel] + credit.available + credit.revoked

    def _check_consuming_end(self, end: Input) -> None:
        credit = end.receiver.credit
        assert end.credit_announced == end.data_received + credit.outstanding + end.credit_revoked
        assert credit.unannounced >= 0
        if self.exclusive == 0 and end.receiver.state is ReceiverState.BLOCKED:
            assert end.buffers.available == 0
        else:
            assert end.buffers.available == credit.outstanding + credit.unannounced

    def _check_credit_is_conserved(self, channel: int) -> None:
        """What the consuming end takes for outstanding is at the producing end or on its way."""
        usable = self.senders[channel].credit.available
        for message in self.to_producer:
            if message.channel == channel and isinstance(message, AddCredit):
                usable += message.credit
            elif message.channel == channel and self.exclusive == 0:
                usable = 0  # a resumption revokes what is there when it arrives
        for response in self.to_consumer:
            if isinstance(response, BufferResponse) and response.data_type not in EVENT_TYPES:
                usable += response.channel == channel
        assert usable == self.inputs[channel].receiver.credit.outstanding

    def close(self) -> None:
        """Give all memory back, as the end of a job does."""
        self.queue.close()
        for output in self.outputs:
            output.finish_builder()
        for end in self.inputs:
            while end.queue:
                end.queue.popleft().release()
            end.receiver.release()
            end.buffers.release()
        self.output_pool.lazy_destroy()
        self.floating.lazy_destroy()

    @property
    def leaked_segments(self) -> int:
        """Segments that were not returned."""
        return self.producer_memory.used + self.consumer_memory.used
