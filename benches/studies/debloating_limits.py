"""Prints tables, some in docs/studies/LIMITS_OF_DEBLOATING.md, that compare debloating with other mechanisms.

Run it with ``python -m benches.studies.debloating_limits``; ``--only SECTION,...`` prints only some of the
tables. It takes a quarter of an hour on two cores; all runs are in virtual time.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from math import ceil
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from buffers import HEADER_BYTES, RecordBlock, gate_buffers, partition_buffers
from integration import load_scenario
from netstack import (
    CheckpointMode,
    GeneratorSpec,
    LinkConditions,
    NetworkConfig,
    Result,
    Scenario,
    SourceObject,
    Vertex,
    emulate,
)

from .. import policies
from ..policies import durations
from ..policy_scenarios import CASES, RECORD_BYTES, SINK, Case, job, sink, source

PROCESSES = 2
SEEDS = 3
ROOT = Path(__file__).parents[2]

# Arithmetic: bytes in flight and their time, with as many producers as consumers.

CONFIG = NetworkConfig()
SEGMENT = CONFIG.segment_bytes
LEAST = CONFIG.min_segment_bytes


def in_use(parallelism: int, exclusive: int = 2, floating: int = 8) -> float:
    """Return the number of buffers that wait for a consumer when all buffers are full.

    These are the buffers of its gate, and its share of the buffers of all partitions: as many as one
    partition has. The open buffer of each channel counts half, because it is half full on average when a
    barrier arrives.
    """
    gate = gate_buffers(parallelism, exclusive, floating, CONFIG.max_required_buffers_per_gate)
    received = parallelism * gate.exclusive_per_channel + gate.total_floating
    return received + in_partition(parallelism, exclusive, floating) - parallelism / 2


def in_partition(parallelism: int, exclusive: int = 2, floating: int = 8) -> int:
    """Return the maximum size of a partition's pool in buffers, with as many producers as consumers."""
    _, most = partition_buffers(parallelism, exclusive, floating)
    return most


def floor_ms(parallelism: int, bytes_per_s: float, size: float = LEAST) -> float:
    """Return the time in ms in which a consumer reads all waiting buffers of `size` bytes.

    With the minimum size, this is the shortest time that debloating can reach.
    """
    return in_use(parallelism) * size / bytes_per_s * 1000


def buffers_of(record_bytes: int) -> int:
    """Return the number of segments that a record takes."""
    return ceil((record_bytes + HEADER_BYTES) / SEGMENT)


def bytes_of_buffer(record_bytes: int, wanted: float) -> float:
    """Return the bytes in a buffer if the announced size is `wanted`.

    A buffer always has room for its first record, up to a segment. A record that needs several buffers fills
    the last of them only in part. Whole segments are filled by several records.
    """
    record = record_bytes + HEADER_BYTES
    return wanted if record <= wanted or wanted >= SEGMENT else record / buffers_of(record_bytes)


def begun(parallelism: int, record_bytes: int) -> float:
    """Return the average data of incomplete records that is outside the pools, in buffers.

    A producer takes overdraft buffers for the rest of its record. A consumer copies the parts of an
    incomplete record, for each channel separately, and returns their buffers.
    """
    missing = (buffers_of(record_bytes) - 1) / 2
    return min(missing, CONFIG.max_overdraft_buffers_per_gate) + parallelism * missing


def waiting_bytes(
    parallelism: int, record_bytes: int, wanted: float, exclusive: int = 2, floating: int = 8
) -> float:
    """Return the bytes that wait for a consumer if the announced size is `wanted`."""
    count = in_use(parallelism, exclusive, floating) + begun(parallelism, record_bytes)
    return count * bytes_of_buffer(record_bytes, wanted)


def delay_ms(
    parallelism: int,
    record_bytes: int,
    bytes_per_s: float,
    wanted: float,
    exclusive: int = 2,
    floating: int = 8,
) -> float:
    """Return the time in ms in which a consumer reads all bytes that wait for it."""
    return waiting_bytes(parallelism, record_bytes, wanted, exclusive, floating) / bytes_per_s * 1000


def wanted_bytes(parallelism: int, bytes_per_s: float, target_s: float | None) -> float:
    """Return the buffer size that FLIP-183 computes for a target; without a target, the size of a segment."""
    if target_s is None:
        return SEGMENT
    return max(LEAST, min(SEGMENT, target_s * bytes_per_s / in_use(parallelism)))


# The jobs on which other mechanisms are compared with debloating.

SMALL_BYTES, LARGE_BYTES, ONE_IN = 200, 20_000, 10
"""Bytes of small and of large records, and the number of records of which one is large."""

_RECORDS = 1000


class MixedReader:
    """Endless reader of records, most of them small. Their sizes repeat after a thousand records."""

    def __init__(self, subtask: int) -> None:
        large = np.random.default_rng(subtask).random(_RECORDS) < 1 / ONE_IN
        small = b"." * SMALL_BYTES
        self._block = RecordBlock.from_payloads([b"." * LARGE_BYTES if each else small for each in large])
        self._position = 0

    def read(self, max_records: int) -> RecordBlock:
        """Return the next records; there is no end."""
        start = self._position % _RECORDS
        stop = min(start + max_records, _RECORDS)
        self._position += stop - start
        return self._block[start:stop]

    def seek(self, position: int) -> None:
        """Continue after the first `position` records."""
        self._position = position

    def close(self) -> None:
        """Do nothing: the reader holds no resources."""


@dataclass(frozen=True)
class MixedSource:
    """Source of records of two sizes."""

    parallelism_hint: int | None = None

    def open(self, subtask: int, parallelism: int) -> MixedReader:
        """Return the reader of a subtask."""
        return MixedReader(subtask)

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """Return zeros: no edge of these jobs distributes records by key."""
        return np.zeros(len(block), dtype=np.int32)


def _steady(name: str) -> Case:
    return next(case for case in CASES if case.scenario.name == name)


def _far(scenario: Scenario) -> Scenario:
    return replace(scenario, link=LinkConditions(latency_s=0.05))


_MIXED = Vertex(name="source", parallelism=2, source=SourceObject(source=MixedSource()))

_MINIMUM = job(
    "minimum-1s", 1.0, source(2, record_bytes=100), sink(2, 50.0), warmup_s=400.0, duration_s=2000.0
)
"""A job whose checkpoints take five minutes each without debloating."""

LIMIT_CASES = (
    Case("two consumers of 200 KB/s, a checkpoint every 10 s", _steady("steady-1s-rare").scenario),
    Case("two consumers of 1 MB/s", _steady("steady-100ms").scenario),
    Case("8 producers, 8 consumers of 500 KB/s", _steady("8x8-300ms").scenario),
    Case("a stage between source and sink", _steady("depth2-200ms").scenario),
    Case("records of 100 B; a consumer takes 50 ms for each", _MINIMUM),
    Case(
        "records of 100 KB, 1 MB/s",
        job("large-records-100ms", 0.1, source(2, record_bytes=100_000), sink(2, 100.0)),
    ),
    Case("nine records of 200 B, one of 20 KB, 1 MB/s", job("mixed-100ms", 0.1, _MIXED, sink(2, 2.0))),
    Case("1 MB/s over links of 50 ms", _far(job("far-100ms", 0.1, source(2), sink(2, 1.0)))),
    Case("one producer is ten times as fast as the other three", _steady("hot-source-200ms").scenario),
    Case("consumers are 25 times as slow for 4 s of every 10 s", _steady("slow-spells-200ms").scenario),
)


# One run of one job under one mechanism.

EXAMPLES = ROOT / "docs" / "examples"


@cache
def example(name: str) -> ModuleType:
    """Return the program ``docs/examples/<name>.py`` as a module.

    Raises:
        FileNotFoundError: if the file does not exist, as outside a checkout.
    """
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Mechanism = Callable[[Scenario, int], Result]
"""Function that runs a scenario with a seed. The scenario debloats, unless the function changes this."""

Settings = dict[str, object]
"""Fields of `NetworkConfig`."""

KIB = 1024


class LimitFigures(msgspec.Struct, frozen=True):
    """Figures of one run, or medians over several runs, measured after the warm-up. Times are in ms."""

    end_to_end_ms: float
    """Median duration of the checkpoints."""
    worst_ms: float
    """Duration of the longest checkpoint."""
    delay_ms: float
    """Median time from the emission of a record until the sink has read it, with a sample each second."""
    records_per_s: float
    """Records per second into all sinks."""
    stored_bytes: float
    """Median of the in-flight data that a checkpoint stores."""
    buffer_bytes: float
    """Buffer size that consumers request at the end of the run; 0 without debloating."""


class Asked(NamedTuple):
    """A run of a scenario, with a mechanism and a seed."""

    scenario: Scenario
    mechanism: str
    seed: int = 1


def figures_of(result: Result) -> LimitFigures:
    """Return the figures of a run.

    Raises:
        ValueError: if no checkpoint was completed after the warm-up, because the run is too short.
    """
    scenario = result.scenario
    if all(at < scenario.warmup_s for at, _ in durations(result)):
        raise ValueError(f"{scenario.name}: no checkpoint within {scenario.duration_s:.0f} s")
    common = policies.figures_of(result, Case("", scenario))
    sink = next(vertex for vertex in result.steady[-1].vertices if vertex.name == SINK)
    stored = [
        one.persisted_bytes
        for one in result.checkpoints
        if one.duration_ms is not None and one.t >= scenario.warmup_s
    ]
    return LimitFigures(
        end_to_end_ms=common.end_to_end_ms,
        worst_ms=common.worst_ms,
        delay_ms=common.delay_ms,
        records_per_s=common.records_per_s,
        stored_bytes=median(stored),
        buffer_bytes=median(size or 0.0 for size in sink.debloatedBufferSize),
    )


def with_config(scenario: Scenario, **values: object) -> Scenario:
    """Return the same job with other settings."""
    return replace(scenario, config=replace(scenario.config, **values))  # type: ignore[arg-type]


def _configured(**values: object) -> Mechanism:
    return lambda scenario, seed: emulate(with_config(scenario, **values), seed=seed)


def fewer(exclusive: int, floating: int, **values: object) -> Mechanism:
    """Return a mechanism that sets the numbers of buffers, and thereby the size of partitions."""
    return _configured(exclusive_buffers_per_channel=exclusive, floating_buffers_per_gate=floating, **values)


def smallest_partitions(scenario: Scenario) -> Scenario:
    """Return the same job with the smallest partitions that Flink allows: subpartitions + 1 buffers."""
    edges = []
    for edge in scenario.edges:
        subpartitions = 1 if edge.ship == "forward" else scenario.vertex(edge.target).parallelism
        edges.append(replace(edge, buffers=replace(edge.buffers, partition=subpartitions + 1)))
    return replace(scenario, edges=tuple(edges))


def _by_bytes(policy: str, *, smallest: bool = False) -> Mechanism:
    def run(scenario: Scenario, seed: int) -> Result:
        chosen = smallest_partitions(scenario) if smallest else scenario
        result = example("credit_by_bytes").by_bytes(chosen, policy, seed)
        assert isinstance(result, Result)
        return result

    return run


def _overtaking(limit: int, **values: object) -> Mechanism:
    def run(scenario: Scenario, seed: int) -> Result:
        result = example("limited_overtaking").run(with_config(scenario, **values), limit, seed)
        assert isinstance(result, Result)
        return result

    return run


OFF: Settings = {"debloat_enabled": False}
UNALIGNED: Settings = {"unaligned_enabled": True}
AT_LEAST_ONCE: Settings = {"checkpoint_mode": CheckpointMode.AT_LEAST_ONCE}


def timeout(seconds: float) -> Settings:
    """Return the settings of checkpoints that turn unaligned after `seconds`."""
    return {"unaligned_enabled": True, "aligned_checkpoint_timeout_s": seconds}


FEWER = {
    f"{exclusive}/{floating}{suffix}": fewer(exclusive, floating, **values)
    for exclusive in (2, 1, 0)
    for floating in (8, 4, 2, 1)
    for suffix, values in ((" buffers", OFF), (" buffers, debloating", {}))
}

MODES: dict[str, Settings] = {
    "aligned": {},
    "unaligned": UNALIGNED,
    "at least once": AT_LEAST_ONCE,
    "timeout 300 ms": timeout(0.3),
}

MECHANISMS: Mapping[str, Mechanism] = {
    **FEWER,
    "credit by bytes": _by_bytes("whole-segments"),
    "credit by bytes, smallest partitions": _by_bytes("whole-segments", smallest=True),
    "credit by bytes, debloating": _by_bytes("flink-and-bytes"),
    **{
        f"overtakes {limit}{suffix}": _overtaking(limit, **values)
        for limit in (0, 1, 2, 3, 4, 6, 12)
        for suffix, values in (("", OFF), (", debloating", {}))
    },
    **{
        f"{mode}{suffix}": _configured(**{**values, **switch})
        for mode, values in MODES.items()
        for suffix, switch in (("", OFF), (", debloating", {}))
    },
    **{
        f"timeout {ms} ms": _configured(**{**timeout(ms / 1000), **OFF})
        for ms in (100, 500, 1000, 2000, 3000)
    },
}


def run(asked: Asked) -> LimitFigures:
    """Run a scenario, and return its figures."""
    return figures_of(MECHANISMS[asked.mechanism](asked.scenario, asked.seed))


def run_all(pool: Executor, asked: Iterable[Asked]) -> Iterator[LimitFigures]:
    """Run all scenarios in the processes of `pool`, and return their figures in order."""
    return pool.map(run, asked)


def medians(found: Iterable[LimitFigures]) -> LimitFigures:
    """Return the medians over the seeds, and the longest checkpoint of all seeds."""
    runs = list(found)
    fields = {name: median(getattr(one, name) for one in runs) for name in LimitFigures.__struct_fields__}
    return LimitFigures(**{**fields, "worst_ms": max(one.worst_ms for one in runs)})


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown. All columns but the first contain numbers."""
    titles = list(head)
    lines = [f"| {' | '.join(titles)} |", "|---|" + "---:|" * (len(titles) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


# Sections 1 to 4: bounds of debloating, and its effect on checkpoints.

SMALL_RECORD = 100
PARALLELISMS = (2, 4, 8, 16, 32)
RATES = (2e3, 20e3, 200e3, 1e6)
MOST_BUFFERS_PER_S = 32_000
"""Maximum emulated rate, in buffers per second. A table cell then takes a minute of processor time."""

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
    """Return a job of sources that send as fast as possible, and consumers that read `bytes_per_s`.

    It runs long enough for stable buffer sizes. Without an `interval_s`, the interval is a quarter of the
    shortest possible time of a checkpoint.
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


def bytes_per_s(figures: LimitFigures, parallelism: int, record_bytes: int) -> float:
    """Return the bytes per second that a consumer has read."""
    return figures.records_per_s * (record_bytes + HEADER_BYTES) / parallelism


def floor(pool: Executor) -> str:
    """Return the table of the shortest checkpoint times, by parallelism and throughput of a consumer."""
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
    head = ["parallelism", "N, buffers"]
    for rate in RATES:
        name = f"{rate / 1e3:.0f} KB/s" if rate < 1e6 else "1 MB/s"
        head += [f"{name}: formula", f"{name}: record delay", f"{name}: end to end"]
    note = f"A checkpoint of the same job with empty queues takes {empty.end_to_end_ms:.0f} ms.\n"
    return table(head, rows) + "\n" + note


def records(pool: Executor) -> str:
    """Return the table of records that are larger than the announced buffers, or than a segment."""
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
    head = ["record size", "formula: a buffer holds, B", "formula: delay, ms"]
    for name in ("", "debloating off: "):
        head += [f"{name}record delay, ms", f"{name}end to end, ms"]
    return table(head, rows)


def unaligned(pool: Executor) -> str:
    """Return the table of the data that unaligned checkpoints store, by target."""
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
            setting = "debloating off" if target is None else f"{target * 1000:.0f} ms"
            rows.append(
                [
                    f"{rate / 1000:,.0f} KB/s, {setting}",
                    f"**{waiting / KIB:,.0f}**",
                    f"{one.stored_bytes / KIB:,.0f}",
                    f"**{delay_ms(2, RECORD_BYTES, measured, wanted):,.0f}**",
                    f"{one.delay_ms:,.0f}",
                    f"{one.end_to_end_ms:.0f}",
                    f"{one.worst_ms:.0f}",
                ]
            )
    head = ("rate of a consumer, target", "formula: stored, KiB", "stored, KiB", "formula: delay, ms")
    return table([*head, "record delay, ms", "end to end, ms", "longest checkpoint, ms"], rows)


def delays(pool: Executor) -> str:
    """Return the table of the time that records wait, by checkpoint mode."""
    rows = []
    for rate, target in ((200e3, 1.0), (1e6, 0.1)):
        scenario = saturated(2, rate, RECORD_BYTES, target, interval_s=2.0, measured_s=40.0)
        often = with_config(scenario, checkpoint_interval_s=0.25)
        names = [f"{mode}{suffix}" for suffix in ("", ", debloating") for mode in MODES]
        asked = [Asked(scenario, name) for name in names]
        labels = [*names, "unaligned, a checkpoint every 250 ms"]
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
    head = ("rate of a consumer, checkpoint mode", "formula: delay, ms", "record delay, ms")
    return table([*head, "end to end, ms", "stored, KiB"], rows)


# Section 5: other mechanisms.

EXCLUSIVE, FLOATING = (2, 1, 0), (8, 4, 2, 1)
LIMITS = (0, 1, 2, 3, 4, 6, 12)
TIMEOUTS_MS = (3000, 2000, 1000, 500, 100)

COMPARED = {
    "debloating off": "aligned",
    "debloating": "aligned, debloating",
    "1/1 buffers": "1/1 buffers",
    "0/1 buffers": "0/1 buffers",
    "0/1 buffers, debloating": "0/1 buffers, debloating",
    "credit by bytes": "credit by bytes",
    "credit by bytes, smallest partitions": "credit by bytes, smallest partitions",
    "credit by bytes, debloating": "credit by bytes, debloating",
    "overtakes 2": "overtakes 2",
    "overtakes 6": "overtakes 6",
    "overtakes 2, debloating": "overtakes 2, debloating",
    "unaligned": "unaligned",
    "unaligned, debloating": "unaligned, debloating",
}
"""Names of the mechanisms, by their titles in the tables."""


def buffer_numbers(pool: Executor) -> str:
    """Return the table of numbers of buffers, with and without debloating, over fast and 50 ms links."""
    near = saturated(2, 1e6, RECORD_BYTES, 0.1, interval_s=2.0, measured_s=30.0)
    far = next(case.scenario for case in LIMIT_CASES if case.scenario.name == "far-100ms")
    cells = [(exclusive, floating) for exclusive in EXCLUSIVE for floating in FLOATING]
    names = [f"{e}/{f} buffers{suffix}" for e, f in cells for suffix in ("", ", debloating")]
    asked = [Asked(scenario, name) for scenario in (near, far) for name in names]
    found = run_all(pool, asked)
    at_near = dict(zip(names, islice(found, len(names)), strict=True))
    at_far = dict(zip(names, found, strict=True))
    best, far_best = at_near[names[0]].records_per_s, at_far[names[0]].records_per_s
    rows = []
    for exclusive, floating in cells:
        name = f"{exclusive}/{floating} buffers"
        off, count = at_near[name], in_use(2, exclusive, floating)
        rows.append(
            [
                f"{exclusive}/{floating}",
                f"{count:.0f}",
                f"**{count * SEGMENT / bytes_per_s(off, 2, RECORD_BYTES) * 1000:,.0f}**",
                f"{off.delay_ms:,.0f}",
                *_short(off, best),
                *_short(at_near[f"{name}, debloating"], best),
                *_short(at_far[name], far_best),
                *_short(at_far[f"{name}, debloating"], far_best),
            ]
        )
    head = ["buffers", "N", "formula, ms", "record delay, ms"]
    for name in ("near", "near, debloating", "far", "far, debloating"):
        head += [f"{name}: end to end, ms", f"{name}: throughput"]
    return table(head, rows)


def _short(one: LimitFigures, best: float) -> tuple[str, str]:
    return f"{one.end_to_end_ms:,.0f}", f"{one.records_per_s / best:.1%}"


def overtaking(pool: Executor) -> str:
    """Return the table of steps from aligned to unaligned checkpoints.

    A step is a number of buffers that a barrier may overtake, or an aligned timeout.
    """
    scenario = saturated(2, 200e3, RECORD_BYTES, 1.0, interval_s=5.0, measured_s=60.0)
    limited = [f"overtakes {limit}{suffix}" for limit in LIMITS for suffix in ("", ", debloating")]
    timeouts = [f"timeout {ms} ms" for ms in TIMEOUTS_MS]
    names = [*limited, *timeouts, "unaligned", "unaligned, debloating"]
    found = dict(zip(names, run_all(pool, [Asked(scenario, name) for name in names]), strict=True))
    rows = []
    for limit in LIMITS:
        off, on = found[f"overtakes {limit}"], found[f"overtakes {limit}, debloating"]
        at_sender = min(2 * limit, in_partition(2))
        at_receiver = min(2 * limit, in_use(2) - in_partition(2))
        left = (in_use(2) - at_sender - at_receiver) * SEGMENT / bytes_per_s(off, 2, RECORD_BYTES)
        stored = 2 * (at_sender + at_receiver) * SEGMENT
        rows.append(
            [
                f"overtakes {limit}",
                f"**{left * 1000:,.0f}**",
                f"**{stored / KIB:,.0f}**",
                *_cost(off),
                *_cost(on),
            ]
        )
    rows += [[name, "", "", *_cost(found[name]), "", "", ""] for name in timeouts]
    rows.append(["unaligned", "", "", *_cost(found["unaligned"]), *_cost(found["unaligned, debloating"])])
    head = ["mechanism", "formula: end to end, ms", "formula: stored, KiB"]
    for name in ("", "debloating: "):
        head += [f"{name}end to end, ms", f"{name}stored, KiB", f"{name}record delay, ms"]
    return table(head, rows)


def _cost(one: LimitFigures) -> list[str]:
    return [f"{one.end_to_end_ms:,.0f}", f"{one.stored_bytes / KIB:,.0f}", f"{one.delay_ms:,.0f}"]


def compared(pool: Executor) -> str:
    """Return the tables that compare all mechanisms on all jobs."""
    seeds = range(1, SEEDS + 1)
    asked = [
        Asked(case.scenario, mechanism, seed)
        for case in LIMIT_CASES
        for mechanism in COMPARED.values()
        for seed in seeds
    ]
    found = iter(run_all(pool, asked))
    by_job = {
        case.scenario.name: {name: medians([next(found) for _ in seeds]) for name in COMPARED}
        for case in LIMIT_CASES
    }
    jobs = [
        (case.scenario.name, case.about, f"{case.scenario.config.debloat_target_s * 1000:.0f}")
        for case in LIMIT_CASES
    ]
    return "\n".join([table(("job", "description", "target, ms"), jobs), *_by_measure(by_job)])


def _by_measure(by_job: dict[str, dict[str, LimitFigures]]) -> Iterator[str]:
    for title, cell in MEASURES.items():
        rows = [
            [name, *(cell(found[name], found["debloating off"]) for found in by_job.values())]
            for name in COMPARED
        ]
        yield f"**{title}**\n\n{table(('mechanism', *by_job), rows)}"


MEASURES: dict[str, Callable[[LimitFigures, LimitFigures], str]] = {
    "End to end, ms": lambda one, _: f"{one.end_to_end_ms:,.0f}",
    "Longest checkpoint, ms": lambda one, _: f"{one.worst_ms:,.0f}",
    "Record delay, ms": lambda one, _: f"{one.delay_ms:,.0f}",
    "Throughput": lambda one, base: f"{one.records_per_s / base.records_per_s:.1%}",
    "Stored, KiB": lambda one, _: f"{one.stored_bytes / KIB:,.0f}",
}
"""Functions that return a cell of the tables that compare all mechanisms, by the title of the table."""


# Section 6: the formulas beside measurements of a real Flink.

REFERENCES = ROOT / "tests" / "data" / "flink-reference"

JOBS = {
    "2x2_2KBs_100B_on1s_minimum": "the floor of section 1",
    "2x2_1MBs_100KB_off": "records of 100 KB",
    "2x2_1MBs_off": "debloating off",
    "2x2_200KBs_off": "debloating off",
    "4x4_1MBs_off": "debloating off",
    "8x8_500KBs_off": "debloating off",
    "2x2_1MBs_bpc0_off": "0/8 buffers",
    "2x2_200KBs_unaligned": "unaligned checkpoints",
    "2x2_200KBs_timeout500ms": "checkpoints unaligned after 500 ms",
}


def flink(_pool: Executor) -> str:
    """Return the table of computed values beside those measured in Flink, for each job."""
    rows = []
    for name, about in JOBS.items():
        scenario = load_scenario(REFERENCES / f"{name}.toml")
        first, last = scenario.vertices[0], scenario.vertices[-1]
        assert isinstance(first.source, GeneratorSpec)
        record, config = first.source.record_bytes, scenario.config
        buffers = config.exclusive_buffers_per_channel, config.floating_buffers_per_gate
        measured = last_windows(name)
        rate = _median_rate(measured[0], last.name)
        wanted = LEAST if config.debloat_enabled else SEGMENT
        waiting = delay_ms(last.parallelism, record, rate, wanted, *buffers)
        overtakes = config.unaligned_enabled
        stored = last.parallelism * waiting_bytes(last.parallelism, record, wanted, *buffers)
        times = sorted(each["end_to_end_ms"] for each in measured)
        rows.append(
            [
                f"`{name}`",
                about,
                "" if overtakes else f"**{waiting:,.0f}**",
                _range(times),
                f"**{stored / KIB:,.0f}**" if overtakes else "",
                _range(sorted(each["persisted_bytes"] / KIB for each in measured)) if overtakes else "",
            ]
        )
    head = (
        "job",
        "case",
        "formula: end to end, ms",
        "Flink: end to end, ms",
        "formula: stored, KiB",
        "Flink: stored, KiB",
    )
    return table(head, rows)


def last_windows(name: str) -> list[dict[str, Any]]:
    """Return the last window of each repetition in a recorded reference."""
    document = msgspec.json.decode((REFERENCES / f"{name}.json").read_bytes())
    return [document["steady"][-1], *(each["steady"][-1] for each in document.get("repetitions", []))]


def _median_rate(steady: dict[str, Any], vertex: str) -> float:
    rates = next(each["bytes_in_per_s"] for each in steady["vertices"] if each["name"] == vertex)
    return float(sorted(rates)[len(rates) // 2])


def _range(values: list[float]) -> str:
    low, high = f"{values[0]:,.0f}", f"{values[-1]:,.0f}"
    return low if low == high else f"{low} to {high}"


SECTIONS: dict[str, Callable[[Executor], str]] = {
    "floor": floor,
    "records": records,
    "unaligned": unaligned,
    "delays": delays,
    "flink": flink,
    "buffers": buffer_numbers,
    "overtaking": overtaking,
    "compared": compared,
}


def main() -> None:
    """Compute the sections, and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    chosen = parser.parse_args().only.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"--only: no such section: {', '.join(sorted(unknown))}; use {', '.join(SECTIONS)}")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        for section in chosen:
            print(f"{section}:\n\n{SECTIONS[section](pool)}", flush=True)


if __name__ == "__main__":
    main()
