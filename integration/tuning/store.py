"""The finished points of a sweep, in a folder: one Parquet file each, named by the key of the point.

Together they are a table that Spark, pandas or DuckDB reads. A file appears whole or not at all, so that a
sweep can be stopped at any time and several may share a folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..files.writing import written_whole
from .rows import PointRow, from_table, to_table

FOLDER = "points"
"""Where points lie in the folder that a user names."""


class PointStore:
    """Rows of points below a folder of the user's, which is made if it is not there.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, out: Path) -> None:
        self.folder = out / FOLDER
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, keys: Iterable[str]) -> dict[str, PointRow]:
        """Return the finished rows that are there of those keys; one that failed is to be run again."""
        rows = (self._read(key) for key in dict.fromkeys(keys))
        return {row.key: row for row in rows if row is not None and row.status == "finished"}

    def write(self, row: PointRow) -> None:
        """Keep a row, in place of an earlier one of its key.

        Raises:
            OSError: it cannot be written.
        """
        # Readers of a folder leave out what begins with a dot, as what is being written does.
        with written_whole(self._path(row.key)) as partial:
            pq.write_table(to_table([row]), partial)

    def _read(self, key: str) -> PointRow | None:
        path = self._path(key)
        if not path.exists():
            return None
        try:
            (row,) = from_table(pq.ParquetFile(path).read())
        except (ValueError, OSError, pa.ArrowException):  # not ours, or damaged: it is run again
            return None
        return row

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.parquet"
