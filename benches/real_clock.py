"""Measures up to which load a real-time run keeps up, in one process and over Spark; prints Markdown tables.

Run it with ``python -m benches.real_clock`` (seven minutes). Four sources send as fast as possible to four
consumers, whose service time gives the wanted load. In one process, a run keeps up if it does not end late.
Over TCP, it keeps up if its consumers read as much as the emulated ones. A second table compares emulated and
measured delays of docs/examples/two_sources.toml.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from statistics import mean

from integration import load_scenario
from integration.spark import run_on_spark, spark_session
from netstack import Result, Scenario, emulate

from .jobs import job

CONSUMERS = 4
DURATION_S = 12.0
WARMUP_S = 4.0
LATE = 0.01
"""Maximum lateness of a run that keeps up: the share of its time (one process) or records (TCP)."""

SERVICES_US = (50, 20, 10, 6, 5, 4, 3)
SERVICES_ON_SPARK_US = (1000, 100, 50, 20, 10, 6, 4)
TWO_SOURCES = Path(__file__).parents[1] / "docs" / "examples" / "two_sources.toml"
SEEDS = (1, 2, 3, 4, 5)


def loaded(service_us: int) -> Scenario:
    """Return the job whose consumers take `service_us` microseconds for a record."""
    return replace(job(CONSUMERS, DURATION_S, service_s=service_us * 1e-6), warmup_s=WARMUP_S)


def heading(title: str) -> None:
    """Print the heading of a table."""
    print(f"\n| {title}: requested records/s | buffers/s | records/s | late by | keeps up |")
    print("|---:|---:|---:|---:|---|")


def line(service_us: int, result: Result, late: float) -> str:
    """Return a row of the table of loads."""
    seconds = result.emulated_seconds
    return (
        f"| {1e6 * CONSUMERS / service_us:,.0f} | {result.work.buffers / seconds:,.0f} "
        f"| {result.work.records / seconds:,.0f} | {late:.1%} | {'yes' if late <= LATE else 'no'} |"
    )


def behind(result: Result) -> float:
    """Return the lateness at the end of a run in one process, as a share of the run."""
    assert isinstance(result.behind_s, float)
    return result.behind_s / result.emulated_seconds


def records_per_s(result: Result) -> float:
    """Return the records per second that the consumers read after the start."""
    rates = [rate for rate in result.steady[-1].vertices[-1].records_in_per_s if rate is not None]
    assert len(rates) == CONSUMERS
    return sum(rates)


def end_to_end_ms(result: Result) -> float:
    """Return the median duration of the checkpoints in the last window, in milliseconds."""
    median = result.steady[-1].end_to_end_ms
    assert median is not None
    return median


def compared(name: str, emulated_ms: float, measured_ms: float) -> str:
    """Return a row with an emulated and a measured time."""
    return f"| {name} | {emulated_ms:.0f} ms | {measured_ms:.0f} ms | {measured_ms / emulated_ms:.2f} |"


def main() -> None:
    """Print the tables."""
    print(f"Python {sys.version.split()[0]}, {CONSUMERS} sources and {CONSUMERS} consumers")
    heading("in one process")
    for service_us in SERVICES_US:
        result = emulate(loaded(service_us), real_time=True)
        print(line(service_us, result, behind(result)), flush=True)
    heading("over TCP, two tasks of Spark")
    spark_session("local[4]")
    for service_us in SERVICES_ON_SPARK_US:
        scenario = loaded(service_us)
        result = run_on_spark(scenario)
        late = max(0.0, 1.0 - records_per_s(result) / records_per_s(emulate(scenario)))
        print(line(service_us, result, late), flush=True)
    print(
        "\n| two_sources, seed | end to end, emulated | end to end, measured | ratio |\n|---:|---:|---:|---:|"
    )
    runs = []
    for seed in SEEDS:
        scenario = replace(load_scenario(TWO_SOURCES), seed=seed)
        runs.append((end_to_end_ms(emulate(scenario)), end_to_end_ms(run_on_spark(scenario))))
        print(compared(str(seed), *runs[-1]), flush=True)
    print(compared("mean", *map(mean, zip(*runs, strict=True))))


if __name__ == "__main__":
    main()
