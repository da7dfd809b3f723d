"""Files that Spark reads and writes: their location, format and columns.

A wrong column is reported without starting Spark. Parquet files have the column names in their footer, CSV
files in the first line. Only Spark knows the columns of JSON, of files on other machines, and of CSV with
further options.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from netstack import SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
"""Spark's formats by extension."""

COMPRESSED = frozenset({".gz", ".bz2", ".zst"})
"""Extensions that follow the extension of the format if a file is compressed. Spark decompresses such files
itself.
"""

OPTIONS = {"csv": {"header": "true", "inferSchema": "true"}}
"""Options of Spark's reader that differ from its defaults, by format."""

WRITE_OPTIONS = {"csv": {"header": "true"}}
"""Options of Spark's writer that differ from its defaults, by format."""

_CORRUPT = "_corrupt_record"
"""The column in which Spark puts lines that are not JSON."""
_GLOB = re.compile(r"([\\\[\]{}*?])")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HARMLESS = frozenset({"nullValue"})
"""Options of Spark's reader that do not change the names of columns."""


def read_files(
    session: SparkSession,
    path: str | Path,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the DataFrame of a file or folder; CSV has a header, and its types are inferred.

    Args:
        session: The Spark session that reads.
        path: A local path, taken literally, or anything with a scheme (``hdfs://``, ``s3a://``).
        format: "parquet", "csv" or "json"; None: by the extension.
        options: Further options of Spark's reader.

    Raises:
        SourceError: There is no such file, its format is unknown, or it is JSON with no object on any line.
    """
    kind = format or file_format(path)
    chosen = {**OPTIONS.get(kind, {}), **(options or {})}
    frame = session.read.format(kind).options(**chosen).load(_spark_path(path))
    if kind == "json" and frame.columns == [_CORRUPT]:
        raise SourceError(
            f"{path}: none of its lines is a JSON object; each row must be one object, on one line"
        )
    return frame


def file_format(path: str | Path) -> str:
    """Return Spark's format for a file, or for the files in a folder, by extension.

    Raises:
        SourceError: There is no such file, or its format is unknown, or a folder holds files of several
            formats, or no files.
    """
    files = data_files(path)
    if not files:
        raise SourceError(f"{path}: the folder contains no data")
    formats = {_format_of(file) for file in files}
    if len(formats) == 1 and (only := formats.pop()) is not None:
        return only
    known = ", ".join(FORMATS)
    if formats - {None}:
        raise SourceError(f"{path}: the folder contains files of several formats; name one with `format`")
    raise SourceError(
        f"{path}: its extension does not show the format (known ones are {known}); name it with `format`"
    )


def require_path(path: str | Path) -> None:
    """Check that a local path exists.

    Raises:
        SourceError: The path does not exist.
    """
    if not has_scheme(path) and not Path(path).expanduser().exists():
        raise SourceError(f"{path}: no such file or folder")


def has_scheme(path: str | Path) -> bool:
    """Return whether a path is in a file system of Spark (``hdfs://``, ``s3a://``), so it is not local."""
    return _SCHEME.match(str(path)) is not None


def require_new_path(path: str | Path) -> None:
    """Check that a local path does not exist yet.

    Raises:
        SourceError: The path exists; it is not changed.
    """
    if not has_scheme(path) and Path(path).expanduser().exists():
        raise SourceError(f"{path}: already exists; delete it, or give another folder")


def write_files(frame: DataFrame, path: str | Path) -> None:
    """Write a DataFrame to a new folder by one Spark job.

    The folder's extension gives the format: CSV, JSON or, by default, Parquet.

    Raises:
        SourceError: The folder exists already.
    """
    require_new_path(path)
    place = str(path) if has_scheme(path) else f"file://{Path(path).expanduser().absolute()}"
    kind = _format_of(Path(path)) or "parquet"
    frame.write.format(kind).options(**WRITE_OPTIONS.get(kind, {})).save(place)


def data_files(path: str | Path) -> list[Path]:
    """Return the files that Spark reads for a local path: the path itself, or the files of a folder.

    Raises:
        SourceError: There is no such path.
    """
    require_path(path)
    local = Path(path).expanduser()
    if not local.is_dir():
        return [local]
    # Spark skips names that begin with _ or a dot.
    inside = [file.relative_to(local) for file in sorted(local.rglob("*")) if file.is_file()]
    return [file for file in inside if not any(part.startswith(("_", ".")) for part in file.parts)]


def _format_of(file: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return FORMATS.get(suffixes[-1]) if suffixes else None


def _spark_path(path: str | Path) -> str:
    if has_scheme(path):
        return str(path)
    return "file://" + _GLOB.sub(r"\\\1", str(Path(path).expanduser().absolute()))


class _UnknownError(Exception):
    """Raised if only Spark can determine the columns."""


def require_columns(
    path: str | Path,
    names: Sequence[str],
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    *,
    as_spark: bool = False,
) -> None:
    """Check that files have columns of these names, as far as that is possible without Spark.

    Args:
        path: A file or folder. `path`, `format` and `options` have the same meaning as in `read_files`.
        names: Names of the key columns.
        as_spark: Whether names are looked up as Spark does: in any case, and with dots for fields of structs.

    Raises:
        SourceError: A column is missing, the file does not exist, or its format is unknown.
    """
    if as_spark:  # only Spark can look up a field of a struct, or a name in quotes
        names = [name for name in names if not any(mark in name for mark in ".`")]
    if not names or has_scheme(path):
        return
    kind = format or file_format(path)
    if options and not options.keys() <= _HARMLESS:
        return

    def spelled(name: str) -> str:
        return name.lower() if as_spark else name

    missing, known = list(names), dict[str, None]()
    try:
        for columns in _columns(Path(path).expanduser(), kind):
            known |= dict.fromkeys(columns)
            there = set(map(spelled, known))
            missing = [name for name in missing if spelled(name) not in there]
            if not missing:
                return
    except (_UnknownError, OSError, UnicodeDecodeError, csv.Error, pa.ArrowException):
        return  # Spark reports the problem of such a file
    if known:
        raise SourceError(
            f"{path}: there is no key column {missing[0]!r}; the columns are: {', '.join(known)}"
        )


def count_rows(path: str | Path, format: str | None = None) -> int | None:
    """Return how many rows local Parquet files have, from their metadata; None for other files.

    Raises:
        SourceError: There is no such file, or its format is unknown.
    """
    if has_scheme(path) or (format or file_format(path)) != "parquet":
        return None
    root = Path(path).expanduser()
    try:
        counts = [int(parquet.read_metadata(root / file).num_rows) for file in data_files(root)]
    except (OSError, pa.ArrowException):
        return None  # Spark reports the problem of such a file
    return sum(counts)


def _columns(path: Path, kind: str) -> Iterator[list[str]]:
    """Yield the column names of each file, and those in folder names such as ``day=1``."""
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
        raise _UnknownError  # Spark renames columns that have no name
    return names
