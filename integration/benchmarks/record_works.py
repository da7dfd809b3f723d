"""Records to bytes and back, against a plain copy of the same bytes in the same run.

Expected on one core: records of one length at 30 % of a plain copy or better each way; records of 1 to 64
bytes at 5 million a second or better each way.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import numpy as np

from buffers import Bytes, RecordBlock, RecordDecoder

from .micro import Work, micro_case

MIB = 1024 * 1024
BUFFER = 32768


def _matrix(nbytes: int, record: int) -> Bytes:
    return np.random.default_rng(1).integers(0, 256, (nbytes // (record + 4), record), dtype=np.uint8)


def _payloads(nbytes: int, longest: int = 64) -> list[bytes]:
    chosen = random.Random(1)
    payloads: list[bytes] = []
    while nbytes > 0:
        payloads.append(chosen.randbytes(chosen.randint(1, longest)))
        nbytes -= len(payloads[-1]) + 4
    return payloads


def _work(step: Callable[[], object], block: RecordBlock) -> Work:
    return Work(step, len(block), block.nbytes)


def encode_one_length(record: int) -> Work:
    """Records of one length, from a matrix; a step returns their block."""
    matrix = _matrix(MIB, record)
    return _work(partial(RecordBlock.from_matrix, matrix), RecordBlock.from_matrix(matrix))


def encode_payloads(nbytes: int) -> Work:
    """Records of 1 to 64 bytes, from a list; a step returns their block."""
    payloads = _payloads(nbytes)
    return _work(partial(RecordBlock.from_payloads, payloads), RecordBlock.from_payloads(payloads))


def encode_lengths(nbytes: int) -> Work:
    """Records of 1 to 64 bytes, from one array and their lengths; a step returns their block."""
    payloads = _payloads(nbytes)
    joined, lengths = b"".join(payloads), np.array([len(payload) for payload in payloads])
    step = partial(RecordBlock.from_lengths, joined, lengths)
    return _work(step, RecordBlock.from_payloads(payloads))


def decode(block: RecordBlock) -> Work:
    """A whole block at once; a step returns it."""
    data = np.array(block.data)
    decoder = RecordDecoder()
    return _work(lambda: decoder.feed(data), block)


def decode_buffers(block: RecordBlock) -> Work:
    """A block that comes in buffers; a step returns how many records came."""
    stream = memoryview(block.data.tobytes())
    buffers = [stream[start : start + BUFFER] for start in range(0, len(stream), BUFFER)]

    def step() -> int:
        decoder = RecordDecoder()
        return sum(len(decoder.feed(buffer)) for buffer in buffers)

    return _work(step, block)


def payloads_of(block: RecordBlock) -> Work:
    """The payloads one by one; a step returns them."""
    return _work(lambda: list(block.payloads()), block)


def _one_length(record: int) -> RecordBlock:
    return RecordBlock.from_matrix(_matrix(MIB, record))


def _any_length(nbytes: int, longest: int = 64) -> RecordBlock:
    return RecordBlock.from_payloads(_payloads(nbytes, longest))


CASES = (
    micro_case(
        "recordEncode",
        "a record to bytes",
        {
            "100 B": lambda: encode_one_length(100),
            "1013 B": lambda: encode_one_length(1013),
            "1-64 B,32 KiB": lambda: encode_payloads(BUFFER),
            "1-64 B,1 MiB": lambda: encode_payloads(MIB),
            "1-64 B,32 KiB,lengths": lambda: encode_lengths(BUFFER),
            "1-64 B,1 MiB,lengths": lambda: encode_lengths(MIB),
        },
    ),
    micro_case(
        "recordDecode",
        "bytes to a record",
        {
            "100 B": lambda: decode(_one_length(100)),
            "1013 B": lambda: decode(_one_length(1013)),
            "100 B,buffers": lambda: decode_buffers(_one_length(100)),
            "1013 B,buffers": lambda: decode_buffers(_one_length(1013)),
            "1-64 B,32 KiB": lambda: decode(_any_length(BUFFER)),
            "1-64 B,1 MiB": lambda: decode(_any_length(MIB)),
            "1-1000 B,32 KiB": lambda: decode(_any_length(BUFFER, 1000)),
            "1-1000 B,1 MiB": lambda: decode(_any_length(MIB, 1000)),
            "1-64 B,1 MiB,buffers": lambda: decode_buffers(_any_length(MIB)),
            "1-64 B,1 MiB,payloads": lambda: payloads_of(_any_length(MIB)),
        },
    ),
)
