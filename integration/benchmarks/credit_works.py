"""One credit's round trip: a buffer out, its memory consumed and recycled, the credit back.

Everything of both ends takes part but the wire: subpartition, send queue, receiver, exclusive and floating
buffers. Expected magnitude: 10 microseconds, of which the copy of 32 KiB is a tenth.
"""

from __future__ import annotations

from functools import partial

from buffers import (
    BufferBuilder,
    ChannelBuffers,
    LocalBufferPool,
    NetworkBufferPool,
    PipelinedSubpartition,
    ReceivedBuffer,
)
from flowcontrol import AddCredit, BufferResponse, ChannelReceiver, PartitionRequest, SendQueue

from .micro import Work, micro_case

SEGMENT_BYTES = 32768
PAYLOAD = memoryview(bytes(SEGMENT_BYTES))


def _add_buffer(pool: LocalBufferPool, subpartition: PipelinedSubpartition) -> None:
    """Write one whole buffer."""
    segment = pool.request(0)
    assert segment is not None
    builder = BufferBuilder(segment, pool, 0)
    subpartition.add(builder.consumer())
    builder.append(PAYLOAD)
    builder.finish()


class _Untold:
    """Asks for the credit itself, at every step."""

    def credit_gained(self) -> None:
        """Nothing to do."""


def round_trip() -> Work:
    """A channel that is always full; each step moves one buffer through it and returns its size in bytes."""
    memory = NetworkBufferPool(32, SEGMENT_BYTES)
    sending = memory.create_pool(8, 2, 8, subpartitions=1)
    floating = memory.create_pool(8, 1, 8)
    receiver = ChannelReceiver(2)
    channel = ChannelBuffers(memory.request_unpooled(2), floating, receiver.credit, _Untold())
    subpartition = PipelinedSubpartition(0)
    queue = SendQueue()

    def step() -> int:
        item = queue.next_message()
        assert item is not None
        message, buffer = item
        assert isinstance(message, BufferResponse)
        assert buffer is not None
        receiver.accept(message.sequence_number, message.backlog, message.data_type)
        taken = channel.take()
        assert taken is not None
        segment, recycler = taken
        received = ReceivedBuffer(segment, recycler, len(message.payload))
        segment.memory[: received.size] = bytes(message.payload)
        buffer.release()
        channel.report_backlog(message.backlog)
        received.release()
        credit = receiver.credit.take()
        _add_buffer(sending, subpartition)
        if credit:
            queue.handle(AddCredit(message.channel, credit))
        return received.size

    for _ in range(4):
        _add_buffer(sending, subpartition)
    sender = queue.open(PartitionRequest(channel=1, initial_credit=2), subpartition)
    subpartition.on_data = partial(queue.data_available, sender)
    return Work(step, copied_bytes=SEGMENT_BYTES)


CASES = (micro_case("creditRoundTrip", "a buffer of 32 KiB and its credit", {"": round_trip}),)
