"""The cases of flink-benchmarks, as pytest-benchmark runs them: ``pytest benches -k networkThroughput``.

Each function is a case of ``netstack bench``, with its parameters and ways; the work is in
`integration/benchmarks/`.
"""

from __future__ import annotations

from pytest_benchmark.fixture import BenchmarkFixture

from integration import Point

from .points import measure, points_of


@points_of("networkThroughput")
def test_networkThroughput(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("networkLatency1to1")
def test_networkLatency1to1(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("networkSkewedThroughput")
def test_networkSkewedThroughput(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("networkBroadcastThroughput")
def test_networkBroadcastThroughput(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("checkpointSingleInput")
def test_checkpointSingleInput(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)


@points_of("checkpointMultiInput")
def test_checkpointMultiInput(benchmark: BenchmarkFixture, point: Point) -> None:
    measure(benchmark, point)
