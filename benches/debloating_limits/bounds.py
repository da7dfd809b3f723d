"""Sections 1 to 4: what bounds debloating, and what it leaves to checkpoints; formulas beside emulations."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace

from buffers import HEADER_BYTES
from netstack import Scenario

from ..policy_scenarios import RECORD_BYTES, job, sink, source
from .formulas import bytes_of_buffer, delay_ms, floor_ms, in_use, waiting_bytes, wanted_bytes
from .measure import KIB, MODES, Asked, Figures, run_all, table, with_config

SMALL_RECORD = 100
PARALLELISMS = (2, 4, 8, 16, 32)
RATES = (2e3, 20e3, 200e3, 1e6)
MOST_BUFFERS_PER_S = 32_000
"""More are not emulated: a minute of processor time for each cell of a table."""

RECORDS = (1000, 4000, 16_000, 32_000, 64_000, 128_000, 256_000, 1_000_000)
TARGETS_S = (1.0, 0.3, 0.1, 0.03)


def saturated(
    parallelism: int,
    bytes_per_s: float,
    record_bytes: int,
    target_s: float,
    *,
    interval_s: float | None = None,
    measured_s: float = 5.0,
) -> Scenario:
    """Sources as fast as possible, and consumers of so many bytes a second; long enough to settle.

    Without an `interval_s`, there are four checkpoints in the shortest time that is possible.
    """
    service_ms = (record_bytes + HEADER_BYTES) / bytes_per_s * 1000
    starting_s = in_use(parallelism) * max(1024, record_bytes) / bytes_per_s
    floor_s = max(target_s, floor_ms(parallelism, bytes_per_s) / 1000)
    warmup_s = 5.0 + 2.5 * max(starting_s, floor_s)
    return job(
        f"{parallelism}x{parallelism}, {bytes_per_s:.0f} B/s, {record_bytes} B",
        target_s,
        source(parallelism, record_bytes=record_bytes),
        sink(parallelism, service_ms),
        warmup_s=warmup_s,
        duration_s=warmup_s + max(measured_s, 8 * floor_s, 4 * starting_s),
        interval_s=interval_s or max(0.25, floor_s / 4),
    )


def bytes_per_s(figures: Figures, parallelism: int, record_bytes: int) -> float:
    """What a consumer has read."""
    return figures.records_per_s * (record_bytes + HEADER_BYTES) / parallelism


def floor(pool: Executor) -> str:
    """The shortest time, by parallelism and throughput of a consumer."""
    idle = saturated(2, 20e3, SMALL_RECORD, 0.001)
    vertices = (source(2, 10.0, record_bytes=SMALL_RECORD), *idle.vertices[1:])
    cells = [
        (parallelism, rate)
        for parallelism in PARALLELISMS
        for rate in RATES
        if parallelism * rate / 256 <= MOST_BUFFERS_PER_S
    ]
    asked = [Asked(saturated(*cell, SMALL_RECORD, 0.001), "aligned, debloating") for cell in cells]
    empty, *found = run_all(pool, [Asked(replace(idle, vertices=vertices), "aligned, debloating"), *asked])
    by_cell = dict(zip(cells, found, strict=True))
    rows = []
    for parallelism in PARALLELISMS:
        row = [f"{parallelism}", f"{in_use(parallelism):.0f}"]
        for rate in RATES:
            one = by_cell.get((parallelism, rate))
            if one is None:
                row += [f"{floor_ms(parallelism, rate):.0f}", "", ""]
                continue
            formula = floor_ms(parallelism, bytes_per_s(one, parallelism, SMALL_RECORD))
            row += [f"**{formula:.0f}**", f"{one.delay_ms:.0f}", f"{one.end_to_end_ms:.0f}"]
        rows.append(row)
    head = ["parallelism", "buffers"]
    for rate in RATES:
        name = f"{rate / 1e3:.0f} KB/s" if rate < 1e6 else "1 MB/s"
        head += [f"{name}: formula", "record delay", "end to end"]
    note = f"A checkpoint of the same job with empty queues takes {empty.end_to_end_ms:.0f} ms.\n"
    return table(head, rows) + "\n" + note


def records(pool: Executor) -> str:
    """Records that are larger than the buffers that are asked for, and than a segment."""
    rate, target_s = 1e6, 0.1
    asked = [
        Asked(saturated(2, rate, size, target_s, measured_s=20.0), "aligned, debloating") for size in RECORDS
    ]
    off = [one._replace(mechanism="aligned") for one in asked]
    found = list(run_all(pool, [*asked, *off]))
    rows = []
    for size, on, without in zip(RECORDS, found, found[len(asked) :], strict=False):
        measured = bytes_per_s(on, 2, size)
        wanted = wanted_bytes(2, measured, target_s)
        rows.append(
            [
                f"{size / 1000:,.0f} KB",
                f"{bytes_of_buffer(size, wanted):,.0f}",
                f"**{delay_ms(2, size, measured, wanted):,.0f}**",
                f"{on.delay_ms:,.0f}",
                f"{on.end_to_end_ms:,.0f}",
                f"{without.delay_ms:,.0f}",
                f"{without.end_to_end_ms:,.0f}",
            ]
        )
    head = ("records of", "a buffer holds, B", "formula, ms", "record delay, ms", "end to end, ms")
    return table([*head, "off: record delay", "off: end to end"], rows)


def unaligned(pool: Executor) -> str:
    """Unaligned checkpoints: what they store, by target."""
    rows = []
    for rate in (200e3, 1e6):
        targets = (None, *TARGETS_S)
        asked = [
            Asked(
                saturated(2, rate, RECORD_BYTES, target or 1.0, interval_s=2.0, measured_s=40.0),
                "unaligned" if target is None else "unaligned, debloating",
            )
            for target in targets
        ]
        for target, one in zip(targets, run_all(pool, asked), strict=True):
            measured = bytes_per_s(one, 2, RECORD_BYTES)
            wanted = wanted_bytes(2, measured, target)
            waiting = 2 * waiting_bytes(2, RECORD_BYTES, wanted)
            rows.append(
                [
                    f"{rate / 1000:,.0f} KB/s, {'off' if target is None else f'{target * 1000:.0f} ms'}",
                    f"**{waiting / KIB:,.0f}**",
                    f"{one.stored_bytes / KIB:,.0f}",
                    f"**{delay_ms(2, RECORD_BYTES, measured, wanted):,.0f}**",
                    f"{one.delay_ms:,.0f}",
                    f"{one.end_to_end_ms:.0f}",
                    f"{one.worst_ms:.0f}",
                ]
            )
    head = ("consumers of, target", "formula: stored, KiB", "stored, KiB", "formula: delay, ms")
    return table([*head, "record delay, ms", "end to end, ms", "worst, ms"], rows)


def delays(pool: Executor) -> str:
    """The time that records wait, in each mode of checkpoints."""
    rows = []
    for rate, target in ((200e3, 1.0), (1e6, 0.1)):
        scenario = saturated(2, rate, RECORD_BYTES, target, interval_s=2.0, measured_s=40.0)
        often = with_config(scenario, checkpoint_interval_s=0.25)
        names = [f"{mode}{suffix}" for suffix in ("", ", debloating") for mode in MODES]
        asked = [Asked(scenario, name) for name in names]
        labels = [*names, "unaligned, each 250 ms"]
        for label, one in zip(labels, run_all(pool, [*asked, Asked(often, "unaligned")]), strict=True):
            measured = bytes_per_s(one, 2, RECORD_BYTES)
            on = target if "debloating" in label else None
            waiting_ms = delay_ms(2, RECORD_BYTES, measured, wanted_bytes(2, measured, on))
            rows.append(
                [
                    f"{rate / 1000:,.0f} KB/s, {label}" + (f" {target * 1000:.0f} ms" if on else ""),
                    f"**{waiting_ms:,.0f}**",
                    f"{one.delay_ms:,.0f}",
                    f"{one.end_to_end_ms:,.0f}",
                    f"{one.stored_bytes / KIB:,.0f}",
                ]
            )
    return table(("consumers of", "formula, ms", "record delay, ms", "end to end, ms", "stored, KiB"), rows)
