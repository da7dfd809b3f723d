"""Column names of files, told without Spark, so that a wrong one costs no wait for it.

Parquet has them in each file's footer, CSV in the first line. Of JSON, of files on other machines, and of CSV
read with options of its own, only Spark can tell.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from netstack import SourceError

from .files import data_files, file_format, has_scheme

_HARMLESS = frozenset({"nullValue"})
"""Options of Spark's reader that leave the names of columns as they are."""


class _UnknownError(Exception):
    """Only Spark can tell."""


def require_columns(
    path: str | Path,
    names: Sequence[str],
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    *,
    as_spark: bool = False,
) -> None:
    """Check that files have the columns of these names, as far as that can be told without Spark.

    Args:
        path: A file or folder, as for `read_files`; so are `format` and `options`.
        names: Of key columns.
        as_spark: Whether names are looked up as Spark does: whatever their case, and with dots into structs.

    Raises:
        SourceError: One is in none of the files; or there is no such file, or its format is unknown.
    """
    if as_spark:
        names = [name for name in names if not any(mark in name for mark in ".`")]
    if not names or has_scheme(path):
        return
    kind = format or file_format(path)
    if options and not options.keys() <= _HARMLESS:
        return
    missing, known = list(names), dict[str, None]()
    try:
        for columns in _columns(Path(path).expanduser(), kind):
            known |= dict.fromkeys(columns)
            there = {name.lower() for name in known} if as_spark else known.keys()
            missing = [name for name in missing if (name.lower() if as_spark else name) not in there]
            if not missing:
                return
    except (_UnknownError, OSError, UnicodeDecodeError, csv.Error, pa.ArrowException):
        return  # if something is wrong with the file, Spark says so
    if known:
        raise SourceError(
            f"{path}: there is no key column {missing[0]!r}; the columns are: {', '.join(known)}"
        )


def _columns(path: Path, kind: str) -> Iterator[list[str]]:
    """The names in each file, and in the names of folders, which Spark makes columns of: ``day=1``."""
    for file in data_files(path):
        yield [part.partition("=")[0] for part in file.parts[:-1] if "=" in part]
        whole = path / file if path.is_dir() else file
        if kind == "parquet":
            yield parquet.read_schema(whole).names
        elif kind == "csv":
            yield _header(whole)
        else:
            raise _UnknownError


def _header(file: Path) -> list[str]:
    with pa.input_stream(str(file), compression="detect") as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        names = next((row for row in csv.reader(text) if row), [])
    if not all(names) or len({name.lower() for name in names}) < len(names):
        raise _UnknownError  # Spark gives names of its own to columns that have none, or that of another
    return names
