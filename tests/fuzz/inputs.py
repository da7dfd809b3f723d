"""Inputs for what reads from the network: mostly right ones with a few things wrong.

Random bytes would end at the magic. Each input is bytes, the places at which they are cut into reads, and the
longest frame that is allowed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from random import Random

from flowcontrol import (
    AckAllUserRecordsProcessed,
    AddCredit,
    Alignment,
    BacklogAnnouncement,
    BufferResponse,
    CancelCheckpointMarker,
    CancelPartitionRequest,
    CheckpointBarrier,
    CheckpointOptions,
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
    KeepAlive,
    Message,
    NewBufferSize,
    PartitionRequest,
    ResumeConsumption,
    encode,
    encode_event,
)

from .door import Arguments, Door
from .mutation import EDGES, OF_BYTES
from .targets import (
    OF_DIALLER,
    OF_LISTENER,
    SEALED,
    check_event,
    check_frames,
    check_handshake,
    check_sealed,
)

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
