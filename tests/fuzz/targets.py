"""What must hold of what reads from the network, whatever the bytes are.

Each check takes an input, the places at which it is cut into reads, and a limit. It fails with an
AssertionError, or with whatever other than a protocol error comes out of the code under test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flowcontrol import (
    NEED_DATA,
    BufferHeader,
    BufferResponse,
    ClientHandshake,
    FrameDecoder,
    FrameReader,
    Handshake,
    HandshakeRefused,
    Identity,
    Message,
    RemoteProtocolError,
    Secret,
    ServerHandshake,
    decode_event,
    encode,
    encode_event,
    seal,
    unseal,
)

LONGEST_LOOKAHEAD = 1024
"""What a FrameReader may hold beside the frame that is arriving."""


class Outcome(NamedTuple):
    """What a stream of bytes came to: messages, then an error, or nothing more for now."""

    messages: list[Message]
    error: RemoteProtocolError | None
    waiting_bytes: int


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """`data`, cut at these places; they are in order."""
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


# Frames, read in two ways.


def check_frames(data: bytes, cuts: Sequence[int], max_frame_bytes: int) -> bool:
    """Both readers give the same for any cut, hold a frame at most, and invent nothing."""
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
    """The peer's fault that `call` finds, if any."""
    try:
        call(*arguments)
    except RemoteProtocolError as error:
        return error
    return None


def same_error(one: Exception | None, other: Exception | None) -> bool:
    return type(one) is type(other) and str(one) == str(other)


def decode(data: bytes, cuts: Sequence[int], max_frame_bytes: int) -> Outcome:
    """What a FrameDecoder makes of it, with all that must hold on the way."""
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
    """An error has changed nothing, so it is there again, and so it is after more bytes."""
    held = decoder.buffered_bytes
    for more in (b"", b"\0" * 9):
        decoder.feed(more)
        held += len(more)
        assert same_error(error, error_of(decoder.next_message))
        assert decoder.buffered_bytes == held


class Sink:
    """Keeps what a FrameReader hands on, and holds it to the limit."""

    def __init__(self, max_frame_bytes: int) -> None:
        self.messages: list[Message] = []
        self._max_frame_bytes = max_frame_bytes
        self._payload: bytearray | None = None

    def place(self, header: BufferHeader) -> memoryview:
        assert self._payload is None
        assert 0 <= header.size <= self._max_frame_bytes
        self._payload = bytearray(header.size)
        return memoryview(self._payload)

    def landed(self, header: BufferHeader) -> None:
        payload, self._payload = self._payload, None
        assert payload is not None
        self.messages.append(
            BufferResponse(
                header.channel,
                header.subpartition,
                header.sequence_number,
                header.backlog,
                header.data_type,
                header.compressed,
                bytes(payload),
            )
        )

    def receive(self, message: Message) -> None:
        assert self._payload is None
        self.messages.append(message)


def check_reader(data: bytes, cuts: Sequence[int], max_frame_bytes: int, expected: Outcome) -> None:
    """A FrameReader comes to the same; it may find fault with the last frame before that is complete."""
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
    """Let each piece arrive in one read, or in several if the reader wants less at once."""
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


# Events.


def check_event(data: bytes, cuts: Sequence[int], max_frame_bytes: int) -> bool:
    """An event is what it is written as, all of it, or it is none."""
    error = error_of(decode_event, data)
    assert same_error(error, error_of(decode_event, memoryview(data)))
    if error is None:
        event = decode_event(data)
        assert decode_event(memoryview(data)) == event
        assert encode_event(event) == data
    return error is None


# Handshakes.

SECRET = Secret(b"the secret of the fuzzer")
_NONCES = bytes(range(32)), bytes(range(32, 64))


def client() -> ClientHandshake:
    """The dialling end of the handshake under test, always the same."""
    return ClientHandshake(SECRET, Identity(700, 3, 1000), _NONCES[0])


def server() -> ServerHandshake:
    """The listening end."""
    return ServerHandshake(SECRET, 3, 1000, _NONCES[1])


def right_messages() -> tuple[bytes, bytes]:
    """What the peer of `client` has to say, and what the peer of `server` has to."""
    one, other = client(), server()
    hello = one.begin()
    challenge = other.receive(hello)
    proof = one.receive(challenge)
    return challenge + other.receive(proof), hello + proof


OF_LISTENER, OF_DIALLER = right_messages()
_MOST_WANTED = 54


def check_handshake(data: bytes, cuts: Sequence[int], max_frame_bytes: int) -> bool:
    """Nobody gets in who does not say exactly what is right, and nobody makes an end keep or say more."""
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
    """What an end says to `data`, how it refuses it, and whether it holds its peer for proven."""
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
    """A refusal is final, and the end that refused wants nothing more."""
    assert (end.wanted, end.proven) == (0, False)
    assert same_error(refusal, error_of(end.receive, b"\0"))


# Sealed messages.

PURPOSE = b"question"
SEALED = seal(SECRET, PURPOSE, b"a greeting of a task")


def check_sealed(data: bytes, cuts: Sequence[int], max_frame_bytes: int) -> bool:
    """Only what was sealed is opened."""
    error = error_of(unseal, SECRET, PURPOSE, data)
    assert (error is None) == (data == SEALED)
    assert error is None or type(error) is HandshakeRefused
    return error is None
