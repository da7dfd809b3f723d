"""Measures the speed of emulated jobs in buffers per second; prints tables as Markdown.

Run it with ``python -m benches.jobs``, or through ``make bench``. Each line is the best of a few runs in this
process, on one core. The module also measures the time of a fixed piece of pure Python, to compare figures of
different machines. A server core of 2024 without compilation emulates about 23,000 buffers per second at 4x4,
and 18,000 at 64x64.

``python -m benches.jobs million`` instead runs a job of 1000x1000 subtasks, with a million channels, for ten
emulated seconds with checkpoints. It runs at two loads, each in its own process. With a compiled core (``make
fast``) this takes about a minute.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time

import trio

from netstack import (
    Edge,
    GeneratorSpec,
    NetworkConfig,
    Result,
    Scenario,
    Vertex,
    emulate,
    run_job,
)

RUNS = 3
RECORD_BYTES = 1013


def job(
    parallelism: int,
    duration_s: float,
    *,
    service_s: float = 0.001,
    ship: str = "rebalance",
    target_s: float | None = None,
    interval_s: float | None = 2.0,
    unaligned: bool = False,
) -> Scenario:
    """Return a job of sources that send as fast as possible to as many consumers.

    With the default service time, each consumer reads about 1 MB/s.
    """
    config = NetworkConfig(
        checkpoint_interval_s=interval_s,
        unaligned_enabled=unaligned,
        debloat_enabled=target_s is not None,
        debloat_target_s=target_s or 1.0,
    )
    return Scenario(
        name=f"{parallelism}x{parallelism}",
        duration_s=duration_s,
        config=config,
        vertices=(
            Vertex(name="source", parallelism=parallelism, source=GeneratorSpec(record_bytes=RECORD_BYTES)),
            Vertex(name="stage1", parallelism=parallelism, service=((0.0, service_s),)),
        ),
        edges=(Edge(source="source", target="stage1", ship=ship),),
    )


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    name: str
    scenario: Scenario


CASES = (
    Case("4x4, 1 MB/s, debloating off", job(4, 46.0)),
    Case("4x4, 1 MB/s, no checkpoints", job(4, 46.0, interval_s=None)),
    Case("4x4, 1 MB/s, unaligned checkpoints", job(4, 46.0, unaligned=True)),
    Case("4x4, 1 MB/s, debloat target 100 ms", job(4, 23.0, target_s=0.1)),
    Case("4x4, 1 MB/s, records by hash, debloat target 100 ms", job(4, 23.0, ship="hash", target_s=0.1)),
    Case("2x2, 5 MB/s, debloating off", job(2, 20.0, service_s=0.0002)),
    Case("16x16, 1 MB/s, debloating off", job(16, 12.0)),
    Case("64x64, 1 MB/s, debloating off", job(64, 10.0)),
)


def yardstick() -> float:
    """Return the seconds that a fixed piece of pure Python takes."""

    def work() -> int:
        total = 0
        for number in range(2_000_000):
            total += number & 7
        return total

    return best(work)


def best(work: Callable[[], object]) -> float:
    """Return the shortest time of a few runs, in seconds."""
    times = []
    for _ in range(RUNS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def fastest(scenario: Scenario) -> Result:
    """Return the result of the fastest of a few runs."""
    return min((emulate(scenario) for _ in range(RUNS)), key=lambda result: result.wall_seconds)


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes (Linux)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def start_up(parallelism: int) -> tuple[float, float]:
    """Return the seconds to start a job of idle channels, and the bytes of each channel while it runs."""
    idle = Scenario(
        name="idle",
        duration_s=4.0,
        vertices=(
            Vertex(
                name="source",
                parallelism=parallelism,
                source=GeneratorSpec(record_bytes=8, rates=(1e-6,)),
            ),
            Vertex(name="stage1", parallelism=parallelism),
        ),
        edges=(Edge(source="source", target="stage1", ship="rebalance"),),
    )
    before = resident_bytes()
    peak = before

    def look(_: float) -> None:
        nonlocal peak
        peak = max(peak, resident_bytes())

    start = perf_counter()
    trio.run(lambda: run_job(idle, progress=look, real_time=False))
    return perf_counter() - start, (peak - before) / parallelism**2


@dataclass(frozen=True)
class Large:
    """A case with a million channels, which runs once."""

    name: str
    service_s: float


LARGE_PARALLELISM, LARGE_DURATION_S = 1000, 10.0

LARGE = (
    Large("1 MB/s for each consumer", 0.001),
    Large("10 MB/s for each consumer", 0.0001),
)


def run_large(case: Large) -> str:
    """Return the line of the table for a job.

    Call it in a new process, because it measures the memory of the process.
    """
    begun, used = perf_counter(), process_time()
    started: list[float] = []

    def look(_: float) -> None:
        if not started:  # the first sample is taken when all channels exist
            started.append(perf_counter() - begun)

    scenario = job(LARGE_PARALLELISM, LARGE_DURATION_S, service_s=case.service_s)
    result = trio.run(lambda: run_job(scenario, progress=look, real_time=False))
    wall, used = perf_counter() - begun, process_time() - used
    buffers = result.work.buffers
    completed = sum(checkpoint.completed for checkpoint in result.checkpoints)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 2**30
    return (
        f"| {case.name} | {started[0]:.1f} | {peak:.2f} | {completed} | {buffers:,} "
        f"| {wall:.1f} | {used:.1f} | {buffers / wall:,.0f} | {buffers / used:,.0f} |"
    )


def million() -> None:
    """Print the table of the largest jobs."""
    print(f"Pure-Python yardstick: {yardstick() * 1000:.0f} ms; Python {sys.version.split()[0]}\n")
    print(f"{LARGE_PARALLELISM}x{LARGE_PARALLELISM}, {LARGE_DURATION_S:g} emulated seconds:\n")
    print(
        "| load | time to start, s | most memory, GiB | checkpoints | buffers "
        "| wall time, s | processor time, s | buffers/s of wall time | buffers/s of processor time |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for case in LARGE:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.apply(run_large, (case,)), flush=True)


def main() -> None:
    """Print the tables."""
    seconds, channel = start_up(256)  # first, before other jobs leave memory allocated
    scale = yardstick()
    print(f"Pure-Python yardstick: {scale * 1000:.0f} ms; Python {sys.version.split()[0]}\n")
    print("| job | buffers | wall time, s | buffers/s | records/s | emulated s for each s of wall time |")
    print("|---|---:|---:|---:|---:|---:|")
    for case in CASES:
        result = fastest(case.scenario)
        wall = result.wall_seconds
        print(
            f"| {case.name} | {result.work.buffers:,} | {wall:.2f} | {result.work.buffers / wall:,.0f} "
            f"| {result.work.records / wall:,.0f} | {result.emulated_seconds / wall:.1f} |"
        )
    print(f"\n256x256 idle channels: started in {seconds:.1f} s, {channel:,.0f} bytes for each channel.")


if __name__ == "__main__":
    million() if sys.argv[1:] == ["million"] else main()
