"""The cases of this project, as pytest-benchmark runs them: ``pytest benches -k recordDecode``.

Each function is a case of ``netstack bench``, with its parameters and ways; the work is in
`integration/benchmarks/`.
"""

from __future__ import annotations

from pytest_benchmark.fixture import BenchmarkFixture

from integration import Point

from .points import measure, points_of


@points_of("creditRoundTrip")
def test_creditRoundTrip(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("frameEncode")
def test_frameEncode(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("frameDecode")
def test_frameDecode(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("frameSize")
def test_frameSize(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("poolRequest")
def test_poolRequest(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("poolCreate")
def test_poolCreate(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("poolHandles")
def test_poolHandles(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("recordEncode")
def test_recordEncode(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("recordDecode")
def test_recordDecode(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("rowEncode")
def test_rowEncode(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("rowDecode")
def test_rowDecode(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("rowKeyHash")
def test_rowKeyHash(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("barrier")
def test_barrier(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("stateCount")
def test_stateCount(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("stateSnapshot")
def test_stateSnapshot(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("recovery")
def test_recovery(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)
