"""Frames read straight to where they belong; tests/fuzz compares the errors with those of `FrameDecoder`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowcontrol import (
    AddCredit,
    BufferHeader,
    BufferResponse,
    ControlPayload,
    DataType,
    ErrorResponse,
    FrameReader,
    FrameTooLong,
    Message,
    RemoteProtocolError,
    encode,
)
from tests.flowcontrol.test_frames import any_message


class Collector:
    """Gives each payload memory of its own and keeps all that arrives."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.placed: list[memoryview] = []

    def place(self, header: BufferHeader) -> memoryview:
        self.placed.append(memoryview(bytearray(header.size)))
        return self.placed[-1]

    def landed(self, header: BufferHeader) -> None:
        self.messages.append(
            BufferResponse(
                header.channel,
                header.subpartition,
                header.sequence_number,
                header.backlog,
                header.data_type,
                header.compressed,
                bytes(self.placed[-1]),
            )
        )

    def receive(self, message: Message) -> None:
        self.messages.append(message)


def feed(reader: FrameReader, stream: bytes, portions: Sequence[int] = ()) -> int:
    """Let `stream` arrive in reads of at most these sizes, then of any size; returns how many there were."""
    left = memoryview(stream)
    sizes, reads = list(portions), 0
    while left:
        wanted = sizes.pop(0) if sizes else len(left)
        count = 0
        for buffer in reader.buffers():
            part = left[: min(len(buffer), wanted - count)]
            buffer[: len(part)] = part
            left = left[len(part) :]
            count += len(part)
        assert count > 0
        reader.advance(count)
        reads += 1
    return reads


LONG: list[Message] = [
    BufferResponse(1, 0, 0, 0, DataType.DATA_BUFFER, False, bytes(range(250)) * 8),
    ErrorResponse("\u00e4" * 700),
    ControlPayload(bytes(range(250)) * 12),
    AddCredit(1, 1),
]


@example(LONG, [7, 1000, 30, 1] * 10)
@given(st.lists(any_message, max_size=8), st.lists(st.integers(1, 3000), max_size=40))
def test_any_portions_give_the_messages_that_were_encoded(
    messages: list[Message], portions: list[int]
) -> None:
    collector = Collector()
    reader = FrameReader(collector)
    feed(reader, b"".join(map(encode, messages)), portions)
    assert collector.messages == messages
    assert reader.between_frames


def test_all_but_the_first_bytes_of_a_payload_are_read_to_their_place() -> None:
    collector = Collector()
    reader = FrameReader(collector)
    stream = encode(BufferResponse(1, 0, 0, 0, DataType.DATA_BUFFER, False, bytes(32768)))
    feed(reader, stream[:100])
    (rest, _), (segment,) = reader.buffers(), collector.placed
    assert rest.obj is segment.obj
    assert len(rest) == 32768 - (100 - (len(stream) - 32768))


def test_the_payload_and_the_next_header_come_with_one_read() -> None:
    response = BufferResponse(1, 0, 0, 0, DataType.DATA_BUFFER, False, bytes(32768))
    assert feed(FrameReader(Collector()), encode(response) * 3) == 4


def test_a_frame_may_be_as_long_as_the_limit_and_no_longer() -> None:
    stream = encode(ControlPayload(bytes(991)))
    feed(FrameReader(Collector(), max_frame_bytes=1000), stream)
    with pytest.raises(FrameTooLong):
        feed(FrameReader(Collector(), max_frame_bytes=999), stream)


def test_a_buffer_that_may_not_come_is_refused_before_its_payload() -> None:
    class Refusing(Collector):
        def place(self, header: BufferHeader) -> memoryview:
            raise RemoteProtocolError(f"not channel {header.channel}")

    stream = encode(BufferResponse(7, 0, 0, 0, DataType.DATA_BUFFER, False, bytes(1000)))
    with pytest.raises(RemoteProtocolError, match="channel 7"):
        feed(FrameReader(Refusing()), stream[:50])
