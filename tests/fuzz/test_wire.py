"""Doors of the network: streams of frames, events, handshakes and sealed messages, cut into reads."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from flowcontrol import (
    NEED_DATA,
    Alignment,
    BufferHeader,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointOptions,
    EndOfData,
    EndOfInputChannelState,
    EndOfOutputChannelState,
    EndOfPartition,
    EventAnnouncement,
    FrameDecoder,
    FrameReader,
    Handshake,
    HandshakeRefused,
    Message,
    RemoteProtocolError,
    decode_event,
    encode,
    encode_event,
    seal,
    unseal,
)
from tests.flowcontrol.test_frame_reader import Collector
from tests.flowcontrol.test_frames import any_message
from tests.flowcontrol.test_handshake import SECRET, client, server, transcript

from .damage import cuts, damaged, door, pieces

LONGEST_LOOKAHEAD = 1024
"""Bytes that a FrameReader may hold beside the frame that is arriving."""

LIMITS = st.sampled_from((4096, 4096, 4096, 64, 97, 1000, 1100))
"""The longest frames that are allowed."""

MAGIC = 0xBADC0FFE
LOOSE_FRAMES = st.builds(
    lambda number, body: struct.pack(">IIB", len(body) + 9, MAGIC, number) + body,
    st.sampled_from((*range(13), 112, 113, 255)),
    st.binary(max_size=100),
)
"""Valid headers with any body."""

STREAMS = st.lists(
    any_message.map(encode) | any_message.map(encode) | LOOSE_FRAMES, min_size=1, max_size=3
).map(b"".join)

NUMBERS = st.integers(-(2**63), 2**63 - 1)
BARRIERS = st.builds(
    CheckpointBarrier,
    NUMBERS,
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(CheckpointOptions, st.sampled_from(Alignment), st.none() | st.floats(0, 1e300)),
)
EVENTS = st.one_of(
    BARRIERS,
    st.builds(CancelCheckpointMarker, NUMBERS),
    st.builds(EventAnnouncement, BARRIERS, st.integers(-(2**31), 2**31 - 1)),
    st.sampled_from((EndOfData(), EndOfPartition(), EndOfInputChannelState(), EndOfOutputChannelState())),
)


@st.composite
def with_cuts(draw: st.DrawFn, data: st.SearchStrategy[bytes]) -> tuple[bytes, list[int]]:
    """Bytes, and the places at which they are cut."""
    stream = draw(data)
    return stream, draw(cuts(stream))


@st.composite
def frames(draw: st.DrawFn) -> tuple[bytes, list[int], int]:
    """A damaged stream of frames, often with another length in its first header."""
    data = draw(damaged(STREAMS))
    if draw(st.sampled_from((False, False, True))):
        data = max(0, len(data) + draw(st.sampled_from((-9, -1, 0, 1, 9)))).to_bytes(4) + data[4:]
    return *draw(with_cuts(st.just(data))), draw(LIMITS)


class Outcome(NamedTuple):
    """Messages of a stream, the error that ends it, and the bytes of an incomplete frame."""

    messages: list[Message]
    error: RemoteProtocolError | None
    waiting_bytes: int


@door(frames(), 4)
def test_frames(data: bytes, cuts: Sequence[int], max_frame_bytes: int) -> bool:
    """Both readers give the same messages for any cuts, and hold one frame at most."""
    whole = decode(data, (), max_frame_bytes)
    parts = decode(data, cuts, max_frame_bytes)
    assert whole.messages == parts.messages
    assert same_error(whole.error, parts.error)
    taken = b"".join(map(encode, whole.messages))
    assert data.startswith(taken)
    if whole.error is None:
        assert whole.waiting_bytes == parts.waiting_bytes == len(data) - len(taken)
    check_reader(data, cuts, max_frame_bytes, whole)
    return whole.error is None


def error_of(call: Callable[..., object], *arguments: object) -> RemoteProtocolError | None:
    """Return the protocol error that `call` raises, if any."""
    try:
        call(*arguments)
    except RemoteProtocolError as error:
        return error
    return None


def same_error(one: Exception | None, other: Exception | None) -> bool:
    return type(one) is type(other) and str(one) == str(other)


def decode(data: bytes, cuts: Sequence[int], max_frame_bytes: int) -> Outcome:
    """Decode a stream with a FrameDecoder, and check the bytes that it holds."""
    decoder = FrameDecoder(max_frame_bytes)
    messages: list[Message] = []
    for piece in pieces(data, cuts):
        decoder.feed(piece)
        try:
            while (message := decoder.next_message()) is not NEED_DATA:
                messages.append(message)
        except RemoteProtocolError as error:
            check_stays_broken(decoder, error)
            return Outcome(messages, error, decoder.buffered_bytes)
        assert decoder.buffered_bytes < max(max_frame_bytes, 9)
    return Outcome(messages, None, decoder.buffered_bytes)


def check_stays_broken(decoder: FrameDecoder, error: RemoteProtocolError) -> None:
    """Check that an error occurs again, also after more bytes."""
    held = decoder.buffered_bytes
    for more in (b"", b"\0" * 9):
        decoder.feed(more)
        held += len(more)
        assert same_error(error, error_of(decoder.next_message))
        assert decoder.buffered_bytes == held


class Sink(Collector):
    """Collects messages, and checks that no payload exceeds the limit."""

    def __init__(self, max_frame_bytes: int) -> None:
        super().__init__()
        self._max_frame_bytes = max_frame_bytes

    def place(self, header: BufferHeader) -> memoryview:
        assert 0 <= header.size <= self._max_frame_bytes
        return super().place(header)


def check_reader(data: bytes, cuts: Sequence[int], max_frame_bytes: int, expected: Outcome) -> None:
    """Check that a FrameReader gives the same; it may refuse the last frame before that is complete."""
    sink = Sink(max_frame_bytes)
    reader = FrameReader(sink, max_frame_bytes)
    error = error_of(read, reader, pieces(data, cuts), max_frame_bytes)
    assert sink.messages == expected.messages
    if error is None or expected.error is not None:
        assert same_error(error, expected.error)
        assert error is not None or reader.between_frames == (expected.waiting_bytes == 0)
    else:
        rest = data[len(data) - expected.waiting_bytes :]
        completed = rest.ljust(int.from_bytes(rest[:4]), b"\0")
        assert same_error(error, decode(completed, (), max_frame_bytes).error)


def read(reader: FrameReader, arriving: Sequence[bytes], max_frame_bytes: int) -> None:
    """Let each piece arrive in one read, or in several if the reader accepts less at once."""
    for piece in arriving:
        view = memoryview(piece)
        while view:
            buffers = reader.buffers()
            assert sum(map(len, buffers)) <= max_frame_bytes + LONGEST_LOOKAHEAD
            count = 0
            for buffer in buffers:
                part = view[: len(buffer)]
                buffer[: len(part)] = part
                view = view[len(part) :]
                count += len(part)
            assert count
            reader.advance(count)


@door(damaged(EVENTS.map(encode_event)), 2)
def test_events(data: bytes) -> bool:
    """An event is encoded to the bytes from which it was read, or is refused."""
    error = error_of(decode_event, data)
    assert same_error(error, error_of(decode_event, memoryview(data)))
    if error is None:
        event = decode_event(data)
        assert decode_event(memoryview(data)) == event
        assert encode_event(event) == data
    return error is None


OF_DIALLER, OF_LISTENER = b"".join(transcript().of_client), b"".join(transcript().of_server)
_MOST_WANTED = 54


@door(with_cuts(damaged(st.sampled_from((OF_DIALLER, OF_LISTENER)))))
def test_handshakes(data: bytes, cuts: Sequence[int]) -> bool:
    """A peer is proven only by the right bytes, and cannot make an end keep or send more."""
    let_in = False
    for make, right in ((client, OF_LISTENER), (server, OF_DIALLER)):
        whole = shake(make(), data, ())
        assert whole == shake(make(), data, cuts)
        _, refusal, proven = whole
        wrong = data[: len(right)] != right[: len(data)]
        assert proven == data.startswith(right)
        assert wrong or not refusal
        assert not wrong or refusal or len(data) < len(right)
        let_in |= proven
    return let_in


def shake(end: Handshake, data: bytes, cuts: Sequence[int]) -> tuple[bytes, str, bool]:
    """Return the answer of an end to `data`, its refusal, and whether its peer is proven."""
    said = end.begin()
    for piece in pieces(data, cuts):
        left = piece
        while left and end.wanted:
            assert end.wanted <= _MOST_WANTED
            part, left = left[: end.wanted], left[end.wanted :]
            try:
                said += end.receive(part)
            except HandshakeRefused as refusal:
                check_stays_refused(end, refusal)
                return said, str(refusal), end.proven
    assert len(said) <= len(OF_DIALLER)
    return said, "", end.proven


def check_stays_refused(end: Handshake, refusal: HandshakeRefused) -> None:
    """Check that a refusal is final, and that the end expects no more bytes."""
    assert (end.wanted, end.proven) == (0, False)
    assert same_error(refusal, error_of(end.receive, b"\0"))


PURPOSE = b"question"
SEALED = seal(SECRET, PURPOSE, b"a greeting of a task")


@door(damaged(st.just(SEALED)))
def test_sealed_messages(data: bytes) -> bool:
    """Only the sealed message is opened."""
    error = error_of(unseal, SECRET, PURPOSE, data)
    assert (error is None) == (data == SEALED)
    assert error is None or type(error) is HandshakeRefused
    return error is None
