"""Buffers: pools, and the encoding of records.

Expected on one core:

- A request and the return of its segment take less than 1 microsecond. Creating the 512 pools of a 256x256
  job takes less than a second, even if memory is scarce. Creating 100,000 handles of segments takes a tenth
  of a second.
- Records of one length are encoded, and decoded, at 30 % of the speed of a plain copy or faster. Records of 1
  to 64 bytes are encoded, and decoded, at 5 million per second or faster.

PYTEST_DONT_REWRITE: the time of asserts counts, and pytest's rewritten ones are slower.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from buffers import Bytes, LocalBufferPool, MemorySlab, NetworkBufferPool, RecordBlock, RecordDecoder

from ..harness import Measure

SEGMENT_BYTES = 32 * 1024
CHANNELS = 256
PER_CHANNEL = 2
FLOATING = 8
PAIRS = 1000
HANDLES = 100_000


def pool_of(**options: Any) -> LocalBufferPool:
    return NetworkBufferPool(1024, SEGMENT_BYTES).create_pool(100, 10, 100, **options)


@pytest.mark.parametrize("in_use", [0, 20])
def test_poolRequest(measure: Measure, in_use: int) -> None:
    """Measure one request of a segment and its return."""
    pool = pool_of(subpartitions=4, max_buffers_per_channel=10, max_overdraft=5)
    for number in range(in_use):
        pool.request(number % 4)

    def step() -> None:
        request, recycle = pool.request, pool.recycle
        for _ in range(PAIRS):
            segment = request(1)
            assert segment is not None
            recycle(segment, 1)

    measure.steps(step, operations=PAIRS)


def test_poolRequestAll(measure: Measure) -> None:
    """Measure the request of all segments of a pool, including its overdraft, and their return."""
    pool = pool_of(max_overdraft=5)

    def step() -> int:
        taken = []
        while (segment := pool.request()) is not None:
            taken.append(segment)
        for segment in taken:
            pool.recycle(segment)
        return len(taken)

    measure.steps(step, operations=step())


class Keeper:
    """A channel that accepts each segment that the pool offers it."""

    def __init__(self) -> None:
        self.segment: Any = None

    def buffer_available(self, segment: Any) -> bool:
        self.segment = segment
        return True


def test_poolRequestListener(measure: Measure) -> None:
    """Measure the return of a segment while a channel waits for one."""
    pool = NetworkBufferPool(1, SEGMENT_BYTES).create_pool(1, 1, 1)
    keeper = Keeper()
    keeper.segment = pool.request()

    def step() -> None:
        for _ in range(PAIRS):
            pool.add_listener(keeper)
            pool.recycle(keeper.segment)

    measure.steps(step, operations=PAIRS)


@pytest.mark.parametrize("memory", ["plenty", "scarce"])
def test_poolCreate(measure: Measure, memory: str) -> None:
    """Measure the creation of a pool, for a job with 256 producers and 256 consumers."""
    partition = CHANNELS * PER_CHANNEL + FLOATING
    gate = CHANNELS * PER_CHANNEL + FLOATING
    # Scarce: little more than what is guaranteed, so that each new pool takes from all others.
    spared = CHANNELS * (partition - CHANNELS - 1) if memory == "scarce" else 0

    def step() -> NetworkBufferPool:
        network = NetworkBufferPool(CHANNELS * (partition + gate) - spared, SEGMENT_BYTES)
        for _ in range(CHANNELS):
            network.create_pool(
                CHANNELS + 1, CHANNELS + 1, partition, subpartitions=CHANNELS, max_buffers_per_channel=10
            )
            network.create_pool(1, 1, FLOATING)
            network.request_unpooled(CHANNELS * PER_CHANNEL)
        return network

    measure.steps(step, operations=2 * CHANNELS)


def test_poolHandles(measure: Measure) -> None:
    slab = MemorySlab(HANDLES, 32768)
    measure.steps(lambda: [slab.segment(index) for index in range(slab.segments)], operations=HANDLES)


MIB = 1024 * 1024
BUFFER_BYTES = 32768


def matrix_of(nbytes: int, record: int) -> Bytes:
    return np.random.default_rng(1).integers(0, 256, (nbytes // (record + 4), record), dtype=np.uint8)


def payloads_of(nbytes: int, longest: int = 64) -> list[bytes]:
    chosen = random.Random(1)
    payloads: list[bytes] = []
    while nbytes > 0:
        payloads.append(chosen.randbytes(chosen.randint(1, longest)))
        nbytes -= len(payloads[-1]) + 4
    return payloads


def from_lengths(nbytes: int) -> Callable[[], RecordBlock]:
    """Return a function that encodes records of 1 to 64 bytes from one array and their lengths."""
    payloads = payloads_of(nbytes)
    joined, lengths = b"".join(payloads), np.array([len(payload) for payload in payloads])
    return partial(RecordBlock.from_lengths, joined, lengths)


ENCODERS: dict[str, Callable[[], Callable[[], RecordBlock]]] = {
    "100 B": lambda: partial(RecordBlock.from_matrix, matrix_of(MIB, 100)),
    "1013 B": lambda: partial(RecordBlock.from_matrix, matrix_of(MIB, 1013)),
    "1-64 B,32 KiB": lambda: partial(RecordBlock.from_payloads, payloads_of(BUFFER_BYTES)),
    "1-64 B,1 MiB": lambda: partial(RecordBlock.from_payloads, payloads_of(MIB)),
    "1-64 B,32 KiB,lengths": lambda: from_lengths(BUFFER_BYTES),
    "1-64 B,1 MiB,lengths": lambda: from_lengths(MIB),
}


@pytest.mark.parametrize("records", ENCODERS)
def test_recordEncode(measure: Measure, records: str) -> None:
    encode = ENCODERS[records]()
    block = encode()
    measure.steps(encode, operations=len(block), copied_bytes=block.nbytes)


BLOCKS: dict[str, Callable[[], RecordBlock]] = {
    "100 B": lambda: RecordBlock.from_matrix(matrix_of(MIB, 100)),
    "1013 B": lambda: RecordBlock.from_matrix(matrix_of(MIB, 1013)),
    "1-64 B,32 KiB": lambda: RecordBlock.from_payloads(payloads_of(BUFFER_BYTES)),
    "1-64 B,1 MiB": lambda: RecordBlock.from_payloads(payloads_of(MIB)),
    "1-1000 B,32 KiB": lambda: RecordBlock.from_payloads(payloads_of(BUFFER_BYTES, 1000)),
    "1-1000 B,1 MiB": lambda: RecordBlock.from_payloads(payloads_of(MIB, 1000)),
}


@pytest.mark.parametrize("records", BLOCKS)
def test_recordDecode(measure: Measure, records: str) -> None:
    """Measure the decoding of a whole block at once."""
    block = BLOCKS[records]()
    data = np.array(block.data)
    decoder = RecordDecoder()
    measure.steps(lambda: decoder.feed(data), operations=len(block), copied_bytes=block.nbytes)


@pytest.mark.parametrize("records", ["100 B", "1013 B", "1-64 B,1 MiB"])
def test_recordDecodeBuffers(measure: Measure, records: str) -> None:
    """Measure the decoding of a block that arrives in buffers."""
    block = BLOCKS[records]()
    stream = memoryview(block.data.tobytes())
    buffers = [stream[start : start + BUFFER_BYTES] for start in range(0, len(stream), BUFFER_BYTES)]

    def step() -> int:
        decoder = RecordDecoder()
        return sum(len(decoder.feed(buffer)) for buffer in buffers)

    measure.steps(step, operations=len(block), copied_bytes=block.nbytes)


def test_recordPayloads(measure: Measure) -> None:
    block = BLOCKS["1-64 B,1 MiB"]()
    measure.steps(lambda: list(block.payloads()), operations=len(block), copied_bytes=block.nbytes)
