"""Frame codec: a 32 KiB BufferResponse and an AddCredit, each way, beside a copy of the same bytes.

Expected on one core at 3 GHz: copying 32 KiB takes about 1 us, so encoding, which is that copy and
0.5 us for the header, takes 1.5 to 2.5 us. Decoding copies nothing, the payload is a view: 2 to 4 us
for either message, all of it Python. Each case prints its ratio to the copy as `extra_info`; a copy of
29 bytes costs nothing, so the ratio says nothing for AddCredit, whose 1 to 3 us are what counts.
"""

from __future__ import annotations

from timeit import repeat

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from flowcontrol import AddCredit, BufferResponse, DataType, FrameDecoder, Message, encode, wire_size

PAYLOAD_BYTES = 32 * 1024
COPIES = 2000
MESSAGES: dict[str, Message] = {
    "response_32k": BufferResponse(
        3, 1, 7, 4, DataType.DATA_BUFFER, False, memoryview(bytearray(range(256)) * (PAYLOAD_BYTES // 256))
    ),
    "add_credit": AddCredit(3, 2),
}
CASES = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)


def note_ratio(benchmark: BenchmarkFixture, frame: bytes) -> None:
    """Measure a copy of `frame` and note what the benchmark took in multiples of it."""
    source = memoryview(frame)
    copy_s = min(repeat(lambda: bytes(source), number=COPIES, repeat=5)) / COPIES
    benchmark.extra_info["copy_us"] = round(copy_s * 1e6, 3)
    benchmark.extra_info["frame_bytes"] = len(frame)
    if benchmark.stats is not None:  # absent where benchmarks are disabled and only run once
        benchmark.extra_info["times_a_copy"] = round(benchmark.stats.stats.min / copy_s, 2)


@CASES
def test_encode(benchmark: BenchmarkFixture, message: Message) -> None:
    frame = benchmark(encode, message)

    assert len(frame) == wire_size(message)
    note_ratio(benchmark, frame)


@CASES
def test_decode(benchmark: BenchmarkFixture, message: Message) -> None:
    frame = encode(message)
    decoder = FrameDecoder()

    def decode() -> object:
        decoder.feed(frame)
        return decoder.next_message()

    assert benchmark(decode) == message
    note_ratio(benchmark, frame)


@CASES
def test_wire_size(benchmark: BenchmarkFixture, message: Message) -> None:
    assert benchmark(wire_size, message) == len(encode(message))
