"""Doors of the network: inputs that are mostly valid with a few errors, and the checks of each reader.

Random bytes would end at the magic. Each input is bytes, the places at which they are cut into reads, and
the longest allowed frame. A check fails with an AssertionError, or with any exception of the code under
test that is no protocol error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from flowcontrol import (
    NEED_DATA,
    AckAllUserRecordsProcessed,
    AddCredit,
    Alignment,
    BacklogAnnouncement,
    BufferHeader,
    BufferResponse,
    CancelCheckpointMarker,
    CancelPartitionRequest,
    CheckpointBarrier,
    CheckpointOptions,
    ClientHandshake,
    CloseRequest,
    ControlPayload,
    DataType,
    EndOfData,
    EndOfInputChannelState,
    EndOfOutputChannelState,
    EndOfPartition,
    ErrorResponse,
    Event,
    EventAnnouncement,
    FrameDecoder,
    FrameReader,
    Handshake,
    HandshakeRefused,
    Identity,
    KeepAlive,
    Message,
    NewBufferSize,
    PartitionRequest,
    RemoteProtocolError,
    ResumeConsumption,
    Secret,
    ServerHandshake,
    decode_event,
    encode,
    encode_event,
    seal,
    unseal,
)

from .door import Arguments, Door
from .mutation import EDGES, OF_BYTES

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


MAGIC = 0xBADC0FFE
LIMITS = (64, 97, 1000, 1100, 4096, 4096, 4096, 4096)
"""The longest frames that are allowed; most inputs fit the last."""

_CORPUS = 400
_IDS = (*range(13), 112, 113, 255)


def _of_the_wire(random: Random, data: bytes) -> Arguments:
    """Bytes with something wrong in nine of ten, cut, with a limit."""
    if random.random() < 0.9:
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            data = random.choice(MUTATIONS)(random, data)
    return data, draw_cuts(random, len(data)), random.choice(LIMITS)


def frames(random: Random) -> Iterator[Arguments]:
    """Streams of frames, and of what looks like one."""
    right = [encode(draw_message(random)) for _ in range(_CORPUS)]
    while True:
        kind = random.random()
        if kind < 0.05:
            data = random.randbytes(random.randrange(80))
        elif kind < 0.2:  # a right header, and a body of right length that is anything
            body = random.randbytes(random.randrange(100))
            data = struct.pack(">IIB", len(body) + 9, MAGIC, random.choice(_IDS)) + body
        else:
            data = b"".join(random.choices(right, k=random.choice((1, 1, 2, 3))))
        yield _of_the_wire(random, data)


def events(random: Random) -> Iterator[Arguments]:
    """Events as bytes."""
    right = [encode_event(draw_event(random)) for _ in range(_CORPUS)]
    while True:
        yield _of_the_wire(random, random.choice(right))


def handshakes(random: Random) -> Iterator[Arguments]:
    """What either end of a handshake may hear."""
    while True:
        yield _of_the_wire(random, random.choice((OF_DIALLER, OF_LISTENER)))


def sealed(random: Random) -> Iterator[Arguments]:
    """A sealed message."""
    while True:
        yield _of_the_wire(random, SEALED)


def draw_cuts(random: Random, length: int) -> list[int]:
    """Where a stream is cut: nowhere, between all of its bytes if they are few, or at some places."""
    kind = random.random()
    if kind < 0.2 or length < 2:
        return []
    if kind < 0.25 and length < 120:
        return list(range(1, length))
    return sorted(random.randrange(length + 1) for _ in range(random.randrange(1, 5)))


def draw_number(random: Random, minimum: int = 0) -> int:
    """A signed number of 32 bits that is not below `minimum`, often one at an edge."""
    number = random.choice(EDGES) if random.random() < 0.5 else random.getrandbits(random.randrange(1, 32))
    return min(max(number, minimum), 2**31 - 1)


def draw_bytes(random: Random) -> bytes:
    """A payload: short, or about as long as what a reader looks ahead, or as a frame may be."""
    sizes = random.choices(
        (range(40), range(1010, 1020), range(900, 1200), range(4000, 4060)), (75, 10, 10, 5)
    )
    return random.randbytes(random.choice(sizes[0]))


def draw_text(random: Random) -> str:
    """A cause: sometimes long, with letters of one to four bytes."""
    size = random.choice((0, 3, 10, 10, 10, 400))
    return "".join(random.choice("aZ \0\u00e4\u20ac\U0001f600") for _ in range(size))


def draw_message(random: Random) -> Message:
    """Any message that can be sent."""
    channel = random.getrandbits(random.choice((8, 128)))
    number = draw_number(random)
    choices: list[Callable[[], Message]] = [
        lambda: BufferResponse(
            channel,
            number,
            random.getrandbits(32) - 2**31,
            draw_number(random),
            random.choice(list(DataType)),
            random.random() < 0.5,
            draw_bytes(random),
        ),
        lambda: ErrorResponse(draw_text(random), random.choice((None, channel))),
        lambda: PartitionRequest(
            channel, number, random.getrandbits(160), random.getrandbits(320), draw_number(random), number
        ),
        lambda: CancelPartitionRequest(channel),
        CloseRequest,
        lambda: AddCredit(channel, draw_number(random, 1)),
        lambda: ResumeConsumption(channel),
        lambda: AckAllUserRecordsProcessed(channel),
        lambda: BacklogAnnouncement(channel, draw_number(random, 1)),
        lambda: NewBufferSize(channel, draw_number(random, 1)),
        KeepAlive,
        lambda: ControlPayload(draw_bytes(random)),
    ]
    return random.choice([*choices, choices[0], choices[0], choices[1]])()


def draw_event(random: Random) -> Event:
    """Any event."""
    number = random.getrandbits(random.randrange(1, 64)) - random.getrandbits(1)
    timeout = random.choice((None, 0.0, 1e-9, 10.0, 1e300))
    options = CheckpointOptions(random.choice(list(Alignment)), timeout)
    barrier = CheckpointBarrier(number, random.choice((0.0, -1.5, 1e300, random.random())), options)
    return random.choice(
        (
            barrier,
            barrier,
            CancelCheckpointMarker(number),
            EndOfData(),
            EndOfPartition(),
            EndOfInputChannelState(),
            EndOfOutputChannelState(),
            EventAnnouncement(barrier, random.getrandbits(32) - 2**31),
        )
    )


def replace_the_length(random: Random, data: bytes) -> bytes:
    length = len(data) + random.choice((-9, -1, 0, 0, 1, 9))
    return max(0, length).to_bytes(4) + data[4:]


def replace_the_id(random: Random, data: bytes) -> bytes:
    return data[:8] + bytes((random.choice(_IDS),)) + data[9:]


MUTATIONS = [*OF_BYTES, replace_the_length, replace_the_length, replace_the_id]

DOORS = [
    Door("frames", frames, check_frames, 14_000, 30),
    Door("event", events, check_event, 60_000, 10),
    Door("handshake", handshakes, check_handshake, 12_000, 7),
    Door("sealed", sealed, check_sealed, 50_000, 1),
]
