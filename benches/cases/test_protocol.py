"""The protocol: frames, barriers, and the round trip of a credit.

Expected on one core at 3 GHz:

- A copy of 32 KiB takes about 1 us. Encoding consists of such a copy and the header, and takes 1.5 to 2.5 us.
  Decoding takes 2 to 4 us for either message; it copies nothing, because the payload is a view. A copy of 29
  bytes takes next to no time, so the ratio for AddCredit has no meaning.
- A barrier takes about a microsecond, and longer if channels are blocked and resumed.
- In the round trip of a credit, a buffer is sent, consumed and recycled, and its credit returns to the
  sender. The round trip includes all parts of both ends except the wire: subpartition, send queue, receiver,
  exclusive and floating buffers. It takes about 10 us, a tenth of which is the copy of 32 KiB.

PYTEST_DONT_REWRITE: the time of asserts counts, and pytest's rewritten ones are slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from buffers import (
    BufferBuilder,
    ChannelBuffers,
    LocalBufferPool,
    NetworkBufferPool,
    PipelinedSubpartition,
    ReceivedBuffer,
)
from flowcontrol import (
    AddCredit,
    Alignment,
    AlternatingAligner,
    BarrierAligner,
    BarrierHandler,
    BarrierTracker,
    BufferResponse,
    ChannelReceiver,
    CheckpointBarrier,
    CheckpointOptions,
    DataType,
    FrameDecoder,
    Message,
    PartitionRequest,
    SendQueue,
    decode_event,
    encode,
    encode_event,
    wire_size,
)

from ..harness import Measure

SEGMENT_BYTES = 32 * 1024
MESSAGES: dict[str, Message] = {
    "response_32k": BufferResponse(
        3, 1, 7, 4, DataType.DATA_BUFFER, False, memoryview(bytearray(range(256)) * (SEGMENT_BYTES // 256))
    ),
    "add_credit": AddCredit(3, 2),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_frameEncode(measure: Measure, message: str) -> None:
    sent = MESSAGES[message]
    measure.steps(partial(encode, sent), copied_bytes=wire_size(sent))


@pytest.mark.parametrize("message", MESSAGES)
def test_frameDecode(measure: Measure, message: str) -> None:
    frame = encode(MESSAGES[message])
    decoder = FrameDecoder()

    def step() -> object:
        decoder.feed(frame)
        return decoder.next_message()

    measure.steps(step, copied_bytes=len(frame))


@pytest.mark.parametrize("message", MESSAGES)
def test_frameSize(measure: Measure, message: str) -> None:
    sent = MESSAGES[message]
    measure.steps(partial(wire_size, sent), copied_bytes=wire_size(sent))


CHANNELS = 100
HANDLERS: dict[str, tuple[Callable[[int], BarrierHandler], CheckpointOptions]] = {
    "ALIGNED": (BarrierAligner, CheckpointOptions()),
    "UNALIGNED": (AlternatingAligner, CheckpointOptions(Alignment.UNALIGNED)),
    "AT_LEAST_ONCE": (BarrierTracker, CheckpointOptions(Alignment.AT_LEAST_ONCE)),
}


@pytest.mark.parametrize("mode", HANDLERS)
def test_barrier(measure: Measure, mode: str) -> None:
    """Measure one checkpoint per step: a barrier from each channel, and the handler's actions."""
    make, options = HANDLERS[mode]
    handler = make(CHANNELS)
    numbers = count(1)

    def step() -> int:
        barrier = CheckpointBarrier(next(numbers), 0.0, options)
        return sum(len(handler.barrier(channel, barrier, 0.0)) for channel in range(CHANNELS))

    measure.steps(step, operations=CHANNELS)


def test_barrierCodec(measure: Measure) -> None:
    barrier = CheckpointBarrier(7, 1.5, CheckpointOptions())
    measure.steps(lambda: decode_event(encode_event(barrier)))


PAYLOAD = memoryview(bytes(SEGMENT_BYTES))


def test_creditRoundTrip(measure: Measure) -> None:
    """Measure the round trip of one buffer per step, through a channel that is always full."""
    memory = NetworkBufferPool(32, SEGMENT_BYTES)
    sending = memory.create_pool(8, 2, 8, subpartitions=1)
    floating = memory.create_pool(8, 1, 8)
    receiver = ChannelReceiver(2)
    channel = ChannelBuffers(memory.request_unpooled(2), floating, receiver.credit, NoNews())
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
        add_buffer(sending, subpartition)
        if credit:
            queue.handle(AddCredit(message.channel, credit))
        return received.size

    for _ in range(4):
        add_buffer(sending, subpartition)
    sender = queue.open(PartitionRequest(channel=1, initial_credit=2), subpartition)
    subpartition.on_data = partial(queue.data_available, sender)
    measure.steps(step, copied_bytes=SEGMENT_BYTES)


def add_buffer(pool: LocalBufferPool, subpartition: PipelinedSubpartition) -> None:
    """Write one whole buffer."""
    segment = pool.request(0)
    assert segment is not None
    builder = BufferBuilder(segment, pool, 0)
    subpartition.add(builder.consumer())
    builder.append(PAYLOAD)
    builder.finish()


class NoNews:
    """Credit listener that ignores notifications, because the benchmark reads the credit at every step."""

    def credit_gained(self) -> None:
        """Do nothing."""
