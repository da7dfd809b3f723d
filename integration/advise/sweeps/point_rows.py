"""Results of the points of a sweep, one row each, as objects, Arrow tables, Spark rows and files.

The measures of a row are columns of their own in a table, so that a user can compute with them.

In the folder each finished point has a Parquet file, named by its key. Together they are a table that Spark,
pandas or DuckDB reads. Files are written atomically. So a sweep can be stopped at any time, and several
sweeps can share a folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from netstack import Result, from_json, to_json

from ...base.writing import written_whole
from ...runs.window_figures import Measures
from .points import Point, Probe

Status = Literal["finished", "failed"]


FOLDER = "points"
"""Name of the subfolder of points in a user's folder."""


class PointRow(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one point."""

    key: str
    name: str
    """Name of the scenario."""
    labels: dict[str, str]
    """The value of each axis, by its name."""
    seed: int
    probe: Probe
    status: Status
    error: str | None = None
    """Reason of the failure, in one line."""
    wall_seconds: float
    """Wall-clock duration of the emulation, in seconds."""
    emulated_seconds: float | None = None
    """Emulated length of the run, which ends once its figures have settled; None without a result."""
    versions: dict[str, str]
    """Versions of the software that ran the point; empty if it did not run."""
    measures: Measures | None = None
    """None if the point failed."""
    result: str | None = None
    """The result as JSON, also for a job that failed permanently; with its series only for a restart."""


def failed_row(point: Point, error: str, wall_seconds: float = 0.0) -> PointRow:
    """Return the row of a point that has no result."""
    return PointRow(
        key=point.key,
        name=point.name,
        labels=point.labels,
        seed=point.seed,
        probe=point.probe,
        status="failed",
        error=error,
        wall_seconds=wall_seconds,
        versions={},
    )


def row_of(
    point: Point, result: Result, *, measures: Measures | None = None, error: str | None = None
) -> PointRow:
    """Return the row of a point with its result: with its measures, or the `error` of a job that failed."""
    return PointRow(
        key=point.key,
        name=point.name,
        labels=point.labels,
        seed=point.seed,
        probe=point.probe,
        status="finished" if error is None else "failed",
        error=error,
        wall_seconds=result.wall_seconds,
        emulated_seconds=result.emulated_seconds,
        versions=result.versions,
        measures=measures,
        result=to_json(_stored(result, point.probe)).decode(),
    )


def _stored(result: Result, probe: Probe) -> Result:
    """Return a result without its series, which only a restart needs: over time it shows the backlog."""
    return result if probe == "restart" else msgspec.structs.replace(result, series=[])


_TEXTS = pa.map_(pa.string(), pa.string())
_SPARK = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", _TEXTS: "map<string,string>"}


def _columns(rows: type[msgspec.Struct]) -> dict[str, pa.DataType]:
    """Return the type of the column for each field that is a number, a text or a table of texts."""
    types = {int: pa.int64(), float: pa.float64(), float | None: pa.float64(), dict[str, str]: _TEXTS}
    return {field.name: types.get(field.type, pa.string()) for field in msgspec.structs.fields(rows)}


_MEASURES = _columns(Measures)
_OWN = {name: kind for name, kind in _columns(PointRow).items() if name != "measures"}

ROW_SCHEMA = pa.schema({**_OWN, **_MEASURES})
"""The columns of rows; all are nullable."""


def spark_schema() -> str:
    """Return the columns of rows as Spark DDL."""
    return ", ".join(f"{field.name} {_SPARK[field.type]}" for field in ROW_SCHEMA)


def to_table(rows: Iterable[PointRow]) -> pa.Table:
    """Return rows as a table."""
    flat = []
    for row in rows:
        values = msgspec.structs.asdict(row)
        measures = values.pop("measures")
        flat.append(values | ({} if measures is None else msgspec.structs.asdict(measures)))
    return pa.Table.from_pylist(flat, ROW_SCHEMA)


def from_table(table: pa.Table) -> list[PointRow]:
    """Return the rows of a table.

    Raises:
        ValueError: its columns differ from ours, as in a table of another version.
    """
    if set(table.schema.names) != set(ROW_SCHEMA.names):
        raise ValueError("the columns differ from those that this version writes")
    rows = []
    for values in table.to_pylist(maps_as_pydicts="lossy"):
        measured = {name: values.pop(name) for name in _MEASURES}
        measures = Measures(**measured) if values["status"] == "finished" else None
        rows.append(PointRow(**values, measures=measures))
    return rows


class PointStore:
    """Rows of points in a folder of the user's, which is created if missing.

    Raises:
        OSError: the folder cannot be created.
    """

    def __init__(self, out: Path) -> None:
        self.folder = out / FOLDER
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, keys: Iterable[str]) -> dict[str, PointRow]:
        """Return the stored rows of finished points by key.

        Failed points are left out, so that they run again.
        """
        rows = (self._read(key) for key in dict.fromkeys(keys))
        return {row.key: row for row in rows if row is not None and row.status == "finished"}

    def write(self, row: PointRow) -> None:
        """Store a row, replacing an earlier one with its key.

        Raises:
            OSError: it cannot be written.
        """
        # Readers of a folder skip names that begin with a dot. Unfinished files have such names.
        with written_whole(self._path(row.key)) as partial:
            pq.write_table(to_table([row]), partial)

    def _read(self, key: str) -> PointRow | None:
        path = self._path(key)
        if not path.exists():
            return None
        try:
            (row,) = from_table(pq.ParquetFile(path).read())
            if row.result is not None:
                from_json(row.result)
        except (ValueError, OSError, pa.ArrowException):  # damaged, or no row of a point: it runs again
            return None
        return row

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.parquet"
