"""Inputs for the targets: mostly right ones with a few things wrong, since random bytes end at the magic.

All come from a seed, so a piece of a long run can be run again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import NamedTuple

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

from .targets import OF_DIALLER, OF_LISTENER, SEALED

MAGIC = 0xBADC0FFE
LIMITS = (64, 97, 1000, 1100, 4096, 4096, 4096, 4096)
"""The longest frames that are allowed; most inputs fit the last."""

_CORPUS = 400
_IDS = (*range(13), 112, 113, 255)
_EDGES = [0, 1, 2, 8, 9, 43, 97, 1023, 1024, 1025, 4095, 4096, 4097, 2**31 - 1, 2**31, 2**32 - 1]
_EDGES_BYTES = [edge.to_bytes(4) for edge in _EDGES]


class Input(NamedTuple):
    """One input of a target: bytes, where they are cut, and the longest frame that is allowed."""

    target: str
    data: bytes
    cuts: list[int]
    max_frame_bytes: int


class Inputs:
    """An endless sequence of inputs from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self._frames = [encode(draw_message(random)) for _ in range(_CORPUS)]
        self._events = [encode_event(draw_event(random)) for _ in range(_CORPUS)]

    def next(self) -> Input:
        """The next one: about three of four are frames."""
        random = self._random
        kind = random.random()
        if kind < 0.76:
            target, data = "frames", self._stream()
        elif kind < 0.88:
            target, data = "event", random.choice(self._events)
        elif kind < 0.89:
            target, data = "sealed", SEALED
        else:
            target, data = "handshake", random.choice((OF_DIALLER, OF_LISTENER))
        if random.random() < 0.9:
            for _ in range(random.choice((1, 1, 1, 2, 3))):
                data = random.choice(MUTATIONS)(random, data)
        return Input(target, data, draw_cuts(random, len(data)), random.choice(LIMITS))

    def _stream(self) -> bytes:
        random = self._random
        kind = random.random()
        if kind < 0.05:
            return random.randbytes(random.randrange(80))
        if kind < 0.2:  # a right header, and a body of right length that is anything
            body = random.randbytes(random.randrange(100))
            return struct.pack(">IIB", len(body) + 9, MAGIC, random.choice(_IDS)) + body
        return b"".join(random.choices(self._frames, k=random.choice((1, 1, 2, 3))))


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
    number = random.choice(_EDGES) if random.random() < 0.5 else random.getrandbits(random.randrange(1, 32))
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


# Mutations: each returns other bytes than it got, or, rarely, the same.


def flip_a_bit(random: Random, data: bytes) -> bytes:
    if not data:
        return b"\0"
    changed = bytearray(data)
    changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def replace_a_byte(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice((b"\0", b"\xff", b"\x7f", b"\x80", random.randbytes(1))) + data[at + 1 :]


def replace_a_number(random: Random, data: bytes) -> bytes:
    at = random.randrange(max(1, len(data) - 3))
    return data[:at] + random.choice(_EDGES_BYTES) + data[at + 4 :]


def replace_the_length(random: Random, data: bytes) -> bytes:
    length = len(data) + random.choice((-9, -1, 0, 0, 1, 9))
    return max(0, length).to_bytes(4) + data[4:]


def replace_the_id(random: Random, data: bytes) -> bytes:
    return data[:8] + bytes((random.choice(_IDS),)) + data[9:]


def truncate(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def remove_some(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data) + 1)
    return data[:start] + data[start + random.choice((1, 1, 2, 4, 9, 30)) :]


def insert_some(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.randbytes(random.choice((1, 1, 2, 4, 9, 30))) + data[at:]


def repeat_some(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data) + 1)
    end = start + random.randrange(60)
    return data[:end] + data[start:end] + data[end:]


def grow(random: Random, data: bytes) -> bytes:
    return data + bytes(random.choice((1, 9, 1024, 1025, 4096)))


MUTATIONS = [
    flip_a_bit,
    flip_a_bit,
    flip_a_bit,
    replace_a_byte,
    replace_a_byte,
    replace_a_number,
    replace_a_number,
    replace_the_length,
    replace_the_length,
    replace_the_id,
    truncate,
    truncate,
    remove_some,
    insert_some,
    repeat_some,
    grow,
]
"""Those that stand here more than once are used more often."""
