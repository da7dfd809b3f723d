"""Records to bytes and back, against a plain copy of the same bytes in the same run.

Expected on one core: records of one length at 30 % of a plain copy or better each way; records of 1 to
64 bytes at 5 million a second or better each way. `extra_info` holds what was reached: `of_copy` (1 is as
fast as copying) and `million_records_per_s`, from the fastest round.
"""

from __future__ import annotations

import random
import timeit
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from buffers import Bytes, RecordBlock, RecordDecoder

MIB = 1024 * 1024
BUFFER = 32768


def _seconds_to_copy(data: Bytes) -> float:
    target = np.empty_like(data)
    return min(timeit.repeat(lambda: np.copyto(target, data), number=10, repeat=20)) / 10


def _measure(benchmark: BenchmarkFixture, work: Callable[[], object], block: RecordBlock) -> None:
    benchmark(work)
    if benchmark.stats is None:
        return
    fastest = benchmark.stats.stats.min
    benchmark.extra_info["of_copy"] = round(_seconds_to_copy(np.array(block.data)) / fastest, 3)
    benchmark.extra_info["million_records_per_s"] = round(len(block) / fastest / 1e6, 2)


def _matrix(nbytes: int, record: int) -> Bytes:
    return np.random.default_rng(1).integers(0, 256, (nbytes // (record + 4), record), dtype=np.uint8)


def _payloads(nbytes: int, shortest: int = 1, longest: int = 64) -> list[bytes]:
    chosen = random.Random(1)
    payloads: list[bytes] = []
    while nbytes > 0:
        payloads.append(chosen.randbytes(chosen.randint(shortest, longest)))
        nbytes -= len(payloads[-1]) + 4
    return payloads


def _buffers(block: RecordBlock) -> list[memoryview]:
    stream = memoryview(block.data.tobytes())
    return [stream[start : start + BUFFER] for start in range(0, len(stream), BUFFER)]


@pytest.mark.parametrize("record", [100, 1013])
def test_encode_one_length(benchmark: BenchmarkFixture, record: int) -> None:
    matrix = _matrix(MIB, record)
    _measure(benchmark, lambda: RecordBlock.from_matrix(matrix), RecordBlock.from_matrix(matrix))


@pytest.mark.parametrize("record", [100, 1013])
def test_decode_one_length(benchmark: BenchmarkFixture, record: int) -> None:
    block = RecordBlock.from_matrix(_matrix(MIB, record))
    data = np.array(block.data)
    _measure(benchmark, lambda: RecordDecoder().feed(data), block)


@pytest.mark.parametrize("record", [100, 1013])
def test_decode_one_length_from_buffers(benchmark: BenchmarkFixture, record: int) -> None:
    block = RecordBlock.from_matrix(_matrix(MIB, record))
    buffers = _buffers(block)

    def decode() -> None:
        decoder = RecordDecoder()
        for buffer in buffers:
            decoder.feed(buffer)

    _measure(benchmark, decode, block)


@pytest.mark.parametrize("nbytes", [BUFFER, MIB], ids=["32KiB", "1MiB"])
def test_encode_payloads_of_any_length(benchmark: BenchmarkFixture, nbytes: int) -> None:
    payloads = _payloads(nbytes)
    _measure(benchmark, lambda: RecordBlock.from_payloads(payloads), RecordBlock.from_payloads(payloads))


@pytest.mark.parametrize("nbytes", [BUFFER, MIB], ids=["32KiB", "1MiB"])
def test_encode_lengths(benchmark: BenchmarkFixture, nbytes: int) -> None:
    payloads = _payloads(nbytes)
    joined, lengths = b"".join(payloads), np.array([len(payload) for payload in payloads])
    block = RecordBlock.from_payloads(payloads)
    _measure(benchmark, lambda: RecordBlock.from_lengths(joined, lengths), block)


@pytest.mark.parametrize("nbytes", [BUFFER, MIB], ids=["32KiB", "1MiB"])
@pytest.mark.parametrize("longest", [64, 1000])
def test_decode_any_length(benchmark: BenchmarkFixture, nbytes: int, longest: int) -> None:
    block = RecordBlock.from_payloads(_payloads(nbytes, longest=longest))
    data = np.array(block.data)
    decoder = RecordDecoder()
    _measure(benchmark, lambda: decoder.feed(data), block)


def test_decode_any_length_from_buffers(benchmark: BenchmarkFixture) -> None:
    block = RecordBlock.from_payloads(_payloads(MIB))
    buffers = _buffers(block)

    def decode() -> None:
        decoder = RecordDecoder()
        for buffer in buffers:
            decoder.feed(buffer)

    _measure(benchmark, decode, block)


def test_iterate_over_payloads(benchmark: BenchmarkFixture) -> None:
    block = RecordBlock.from_payloads(_payloads(MIB))
    _measure(benchmark, lambda: list(block.payloads()), block)
