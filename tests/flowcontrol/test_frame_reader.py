"""Frames read straight to where they belong: the same messages as `FrameDecoder` gives, in any portions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import (
    NEED_DATA,
    AddCredit,
    BacklogAnnouncement,
    BadMagic,
    BufferHeader,
    BufferResponse,
    CloseRequest,
    ControlPayload,
    DataType,
    ErrorResponse,
    FrameDecoder,
    FrameReader,
    FrameTooLong,
    KeepAlive,
    MalformedFrame,
    Message,
    NewBufferSize,
    PartitionRequest,
    RemoteProtocolError,
    UnknownMessage,
    encode,
)


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


def feed(reader: FrameReader, stream: bytes, portions: Sequence[int] = ()) -> None:
    """Let `stream` arrive in reads of at most these sizes, then of any size."""
    left = memoryview(stream)
    sizes = list(portions)
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


CHANNELS = st.integers(0, 2**128 - 1)
COUNTS = st.integers(1, 2**31 - 1)
RESPONSES = st.builds(
    BufferResponse,
    CHANNELS,
    st.integers(0, 100),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 100),
    st.sampled_from(DataType),
    st.booleans(),
    st.binary(max_size=40) | st.integers(0, 5000).map(bytes),
)
MESSAGES = st.one_of(
    RESPONSES,
    st.builds(AddCredit, CHANNELS, COUNTS),
    st.builds(BacklogAnnouncement, CHANNELS, COUNTS),
    st.builds(NewBufferSize, CHANNELS, COUNTS),
    st.builds(PartitionRequest, CHANNELS, st.integers(0, 100)),
    st.builds(ErrorResponse, st.text(max_size=2000), st.none() | CHANNELS),
    st.builds(ControlPayload, st.binary(max_size=20) | st.integers(0, 3000).map(bytes)),
    st.just(KeepAlive()),
    st.just(CloseRequest()),
)


@given(st.lists(MESSAGES, max_size=8), st.lists(st.integers(1, 3000), max_size=40))
def test_any_portions_give_the_messages_that_were_encoded(
    messages: list[Message], portions: list[int]
) -> None:
    collector = Collector()
    reader = FrameReader(collector)
    feed(reader, b"".join(map(encode, messages)), portions)
    assert collector.messages == messages
    assert reader.between_frames


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.data())
def test_a_stream_that_ends_within_a_frame_says_so(messages: list[Message], data: st.DataObject) -> None:
    stream = b"".join(map(encode, messages))
    ends = {0}
    for message in messages:
        ends.add(max(ends) + len(encode(message)))
    cut = data.draw(st.integers(0, len(stream)))
    reader = FrameReader(Collector())
    feed(reader, stream[:cut])
    assert reader.between_frames == (cut in ends)


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
    stream = encode(response) * 3
    reader = FrameReader(Collector())
    reads = 0
    left = memoryview(stream)
    while left:
        count = 0
        for buffer in reader.buffers():
            part = left[: len(buffer)]
            buffer[: len(part)] = part
            left = left[len(part) :]
            count += len(part)
        reader.advance(count)
        reads += 1
    assert reads == 4


BAD = {
    "magic": (b"\0\0\0\x09\0\0\0\0\x05", BadMagic),
    "id": (b"\0\0\0\x09\xba\xdc\x0f\xfe\x63", UnknownMessage),
    "length": (b"\xff\xff\xff\xff\xba\xdc\x0f\xfe\x00", FrameTooLong),
    "short": (b"\0\0\0\x08\xba\xdc\x0f\xfe\x05", MalformedFrame),
    "credit 0": (encode(AddCredit(1, 5)).replace(b"\0\0\0\x05", b"\0\0\0\0"), MalformedFrame),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("portion", [1, 7, 1000])
def test_what_is_no_message_is_refused_as_by_the_decoder(name: str, portion: int) -> None:
    stream, error = BAD[name]
    valid = encode(AddCredit(9, 1))
    collector = Collector()
    with pytest.raises(error) as refused:
        feed(FrameReader(collector), valid + stream, [portion] * 100)
    assert collector.messages == [AddCredit(9, 1)]
    decoder = FrameDecoder()
    decoder.feed(stream)
    with pytest.raises(error) as expected:
        assert decoder.next_message() is not NEED_DATA
    assert str(refused.value) == str(expected.value)


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
