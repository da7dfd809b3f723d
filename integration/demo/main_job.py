"""The main job: rows that Spark reads, keyed, into consumers that are too slow.

::

    source 0   as fast as possible  --+
    source 1   as fast as possible    |  hash by key   consumer 0   busiest key, always behind
    source 2   a tenth of a pace    --+--------------> consumer 1..3
    source 3   a tenth of a pace    --+

The skew of the key overloads one consumer, so its queues are full and a barrier waits long behind them. The
paced sources' channels are nearly empty, so their barriers come early and wait for the others: alignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor, log10
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from netstack import (
    DEFAULT_PRESET,
    PRESETS,
    Edge,
    PathSpec,
    Result,
    Scenario,
    SourceError,
    Vertex,
    with_options,
)

from ..analysis.wording import percent
from ..report.tables import Fact, job_facts
from ..spark.spark_source import SparkSource
from ..spark.spool import open_spooled

PARALLELISM = 4
"""Subtasks of the source and of the consumer."""

CONSUMER_BYTES_PER_S = 250_000
"""What a consumer works off; the cost of a record follows from its size."""

MIN_COST_S = 150e-6
"""Least cost of a record: with short records the emulation would have too many of them to be quick."""

PACED_SHARE = 0.1
"""The rate of a paced source by that of a consumer."""

CHECKPOINT_INTERVAL_S = 2.0

WARMUP_SHARE = 1 / 3
"""Part of a run that is not measured: buffer sizes have to settle first."""

OFF, ON = "debloating off", "debloating on"
"""The names of the two runs."""

_SAMPLE_RECORDS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """What can be chosen about the job."""

    path: Path
    name: str
    """What to call the data."""
    key: str
    options: Mapping[str, str] | None = None
    """Options of Spark's reader."""
    duration_s: float = 90.0
    """Emulated seconds of each of the two runs."""
    target_s: float = 1.0
    """The time that debloating aims at."""
    seed: int = 1
    repartition: bool = False
    """Whether to deal the rows out evenly, rather than leave them as Spark cuts the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What the rows are like."""

    rows: int
    partitions: int
    record_bytes: float
    """Mean of a record, with its length header."""
    keys: int
    """Different values of the key."""
    top_key: str
    """The most frequent value of the key."""
    top_share: float
    """The share of the rows that have the most frequent key, 0 to 1."""


def spark_source(settings: DemoSettings) -> SparkSource:
    """Return the source that both runs read; its rows are spooled at `prepare`, and deleted at `close`."""
    parallelism = PARALLELISM if settings.repartition else None
    return SparkSource(
        settings.path, settings.key, parallelism=parallelism, repeat=True, options=settings.options
    )


def measure_data(source: SparkSource, settings: DemoSettings) -> Data:
    """Return what the rows of a source are like.

    Raises:
        SourceError: There are no rows.
    """
    spool = source.prepare()
    if not spool.rows:
        raise SourceError(f"{settings.path}: there are no rows")
    keys = Counter[str]()
    for file in spool.files:
        if file is not None:
            keys.update(_count_keys(file, settings.key))
    top_key, top_rows = keys.most_common(1)[0]
    return Data(
        rows=spool.rows,
        partitions=spool.partitions,
        record_bytes=_record_bytes(source),
        keys=len(keys),
        top_key=top_key,
        top_share=top_rows / spool.rows,
    )


def demo_scenarios(source: SparkSource, data: Data, settings: DemoSettings) -> dict[str, Scenario]:
    """Return the job without debloating and with it, all else equal, by the name of the run."""
    off = _scenario(source, data, settings)
    config = with_options(off.config, {"debloat_enabled": True, "debloat_target_s": settings.target_s})
    return {OFF: off, ON: replace(off, config=config)}


def demo_facts(settings: DemoSettings, data: Data, result: Result) -> list[Fact]:
    """Return what the job is, line by line: the data, its skew, and what one of the runs says of the rest."""
    spread = f"{data.rows:,} rows of {data.record_bytes:.0f} bytes in {data.partitions} Spark partitions"
    skew = (
        f"{settings.key} has {data.keys:,} values; {percent(data.top_share)} of the rows have {data.top_key}"
    )
    facts = [("Data", f"{settings.name}, {spread}"), ("Key", skew + _busiest(result))]
    return facts + job_facts(result, origins=False)


def _scenario(source: SparkSource, data: Data, settings: DemoSettings) -> Scenario:
    cost = _two_digits(max(data.record_bytes / CONSUMER_BYTES_PER_S, MIN_COST_S))
    pace = _two_digits(PACED_SHARE / cost)
    config = with_options(
        PRESETS[DEFAULT_PRESET], {"debloat_enabled": False, "checkpoint_interval_s": CHECKPOINT_INTERVAL_S}
    )
    spec = PathSpec(path=str(settings.path), key=(settings.key,), repeat=True, rates=(0.0, 0.0, pace, pace))
    return Scenario(
        name="demo",
        duration_s=settings.duration_s,
        warmup_s=round(settings.duration_s * WARMUP_SHARE, 3),
        seed=settings.seed,
        config=config,
        vertices=(
            Vertex(
                name="source",
                parallelism=PARALLELISM,
                source=spec.opened(source),
            ),
            Vertex(name="consumer", parallelism=PARALLELISM, service=((0.0, cost),)),
        ),
        edges=(Edge(source="source", target="consumer", ship="hash"),),
    )


def _busiest(result: Result) -> str:
    rates = [rate or 0.0 for rate in result.steady[-1].vertices[-1].records_in_per_s]
    return (
        f"; the busiest consumer gets {percent(max(rates) / sum(rates))} of the records" if any(rates) else ""
    )


def _record_bytes(source: SparkSource) -> float:
    """The mean of the first records, from the first partition that has any."""
    for subtask in range(PARALLELISM):
        reader = source.open(subtask, PARALLELISM)
        block = reader.read(_SAMPLE_RECORDS)
        reader.close()
        if block is not None:
            return block.span(0, len(block)) / len(block)
    raise SourceError("there are no rows")


def _count_keys(file: Path, key: str) -> dict[str, int]:
    with open_spooled(file) as spooled:
        column = pa.chunked_array(
            [spooled.get_batch(index).column(key) for index in range(spooled.num_record_batches)]
        )
        return {str(pair["values"]): pair["counts"] for pair in pc.value_counts(column).to_pylist()}


def _two_digits(value: float) -> float:
    """Round to two significant digits: scenarios are read by people."""
    return round(value, 1 - floor(log10(value)))
