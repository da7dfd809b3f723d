"""Measures the speed of emulated jobs in buffers per second; prints tables as Markdown.

Run it with ``python -m benches.jobs``, or through ``make bench``. Each line of the table is the best of a few
runs in this process, on one core, in processor time. Its last column does not depend on the machine: it is
the number of entries of the agenda that run for each buffer received over a link.

``python -m benches.jobs speed`` prints only its first line, within ten seconds: the speed of a 4x4 job
relative to that of a bare heap of events. This ratio depends little on the machine, so it shows whether the
code has become slower. Compare plain Python with plain Python, and compiled with compiled (``make fast``).

``python -m benches.jobs million`` instead runs a job of 1000x1000 subtasks, with a million channels, for ten
emulated seconds with checkpoints. It runs at two loads, each in its own process. With a compiled core this
takes about a minute.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from statistics import median
from time import perf_counter, process_time

import trio

from netstack import (
    Agenda,
    Edge,
    GeneratorSpec,
    Job,
    NetworkConfig,
    Result,
    Scenario,
    Vertex,
    core_is_compiled,
    emulate,
    run_job,
)

RUNS = 3
"""Runs of each case of the table; the fastest counts."""

ROUNDS = 9
"""Runs of the job, each followed by a run of the bare heap, of which `speed` takes the median."""

EVENTS = 100_000
"""Events of each run of the bare heap."""

WAITING = 30
"""Entries that wait on the bare heap, about as many as in a 4x4 job."""


def job(
    parallelism: int,
    duration_s: float,
    *,
    record_bytes: int = 1013,
    service_s: float = 0.001,
    ship: str = "rebalance",
    target_s: float | None = None,
    interval_s: float | None = 2.0,
    unaligned: bool = False,
) -> Scenario:
    """Return a job of sources that send as fast as possible to as many consumers.

    With the default size of records and service time, each consumer reads about 1 MB/s.
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
            Vertex(name="source", parallelism=parallelism, source=GeneratorSpec(record_bytes=record_bytes)),
            Vertex(name="stage1", parallelism=parallelism, service=((0.0, service_s),)),
        ),
        edges=(Edge(source="source", target="stage1", ship=ship),),
    )


def with_sink(scenario: Scenario) -> Scenario:
    """Return the job with a third vertex, which reads the records that the second one emits."""
    stage = scenario.vertices[-1]
    return replace(
        scenario,
        vertices=(*scenario.vertices, Vertex(name="sink", parallelism=stage.parallelism)),
        edges=(*scenario.edges, Edge(source=stage.name, target="sink", ship="rebalance")),
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
    Case("4x4, 1 MB/s, records of 100 B", job(4, 46.0, record_bytes=96, service_s=0.0001)),
    Case("4x4, 1 MB/s, vertex in the middle", with_sink(job(4, 46.0))),
    Case("4x4, 1 MB/s, debloat target 100 ms", job(4, 23.0, target_s=0.1)),
    Case("4x4, 1 MB/s, records by hash, debloat target 100 ms", job(4, 23.0, ship="hash", target_s=0.1)),
    Case("2x2, 5 MB/s, debloating off", job(2, 20.0, service_s=0.0002)),
    Case("16x16, 1 MB/s, debloating off", job(16, 12.0)),
    Case("64x64, 1 MB/s, debloating off", job(64, 10.0)),
)


def timed(scenario: Scenario) -> tuple[float, Result]:
    """Return the processor time of a run in seconds, and its result."""
    begun = process_time()
    result = emulate(scenario)
    return process_time() - begun, result


def bare_heap_s() -> float:
    """Return the processor time of `EVENTS` events of a bare heap, in seconds.

    As the agenda does, it takes the next entry from a heap and calls its callback, which adds an entry.
    """

    heap: list[tuple[float, int, Callable[[float], None], tuple[()]]] = []
    serial = 0

    def event(time: float) -> None:
        nonlocal serial
        serial += 1
        heappush(heap, (time + 1.0 + serial % 7, serial, event, ()))

    for _ in range(WAITING):
        event(0.0)
    begun = process_time()
    for _ in range(EVENTS):
        time, _, callback, arguments = heappop(heap)
        callback(time, *arguments)
    return process_time() - begun


def speed() -> str:
    """Return a line with the speed of a 4x4 job, relative to that of a bare heap of events.

    Both take turns, so that a change of the machine's speed changes both. The ratio is the median.
    """
    scenario = job(4, 23.0)
    buffers_s, events_s = list[float](), list[float]()
    for _ in range(ROUNDS):
        seconds, result = timed(scenario)
        buffers_s.append(result.work.buffers / seconds)
        events_s.append(EVENTS / bare_heap_s())
    ratio = median(buffers / events for buffers, events in zip(buffers_s, events_s, strict=True))
    core = "compiled" if core_is_compiled() else "plain"
    return (
        f"4x4, {core}, Python {sys.version.split()[0]}: {1000 * ratio:.1f} buffers per 1,000 events "
        f"of a bare heap ({median(buffers_s):,.0f} buffers/s, {median(events_s):,.0f} events/s "
        "of processor time)"
    )


def entries_per_buffer(scenario: Scenario) -> float:
    """Return how many entries of the agenda run for each buffer received over a link, lines included."""
    entries = 0

    def count() -> None:
        nonlocal entries
        entries += 1

    async def buffers() -> int:
        agenda = Agenda()
        agenda.between = count
        running = Job(scenario, agenda)
        await running.run()
        return running.work.buffers

    received = trio.run(buffers)
    return entries / received


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
    print(f"{speed()}\n")
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
    print(f"{speed()}\n")
    print(
        "| job | buffers | processor time, s | buffers/s | records/s | emulated s for each s "
        "| entries of the agenda for each buffer |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for case in CASES:
        used, result = min((timed(case.scenario) for _ in range(RUNS)), key=lambda run: run[0])
        print(
            f"| {case.name} | {result.work.buffers:,} | {used:.2f} | {result.work.buffers / used:,.0f} "
            f"| {result.work.records / used:,.0f} | {result.emulated_seconds / used:.1f} "
            f"| {entries_per_buffer(case.scenario):.1f} |",
            flush=True,
        )
    print(f"\n256x256 idle channels: started in {seconds:.1f} s, {channel:,.0f} bytes for each channel.")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["million"]:
            million()
        case ["speed"]:
            print(speed())
        case _:
            main()
