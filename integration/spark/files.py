"""Files that Spark reads: which format, which options, and what goes wrong in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

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
"""Which of Spark's formats an extension stands for."""

COMPRESSED = frozenset({".gz", ".bz2", ".zst"})
"""Extensions that may follow: Spark unpacks such files itself."""

OPTIONS = {"csv": {"header": "true", "inferSchema": "true"}}
"""How Spark reads a format, where its own defaults are not it."""

WRITE_OPTIONS = {"csv": {"header": "true"}}
"""How Spark writes it."""

MAX_MESSAGE = 300
"""Characters of Spark's own message that are passed on."""

_CALL = re.compile(r"^An error occurred while calling \S+\n: ")
_JAVA_CLASS = re.compile(r"^(?:[a-zA-Z_]\w*\.)+[A-Z][\w$]*: ")
_TRACE = re.compile(r"\n\s*at |\n== SQL|\s*JVM stacktrace|\s*SQLSTATE: ")
_BARRIER = re.compile(r"^Job aborted due to stage failure: .*? barrier task .*? finished unsuccessfully\.\s*")
_CORRUPT = "_corrupt_record"
"""The column in which Spark puts lines that are no JSON."""

_WORKER = "thrown from the Python worker"
_GLOB = re.compile(r"([\\\[\]{}*?])")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


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
        format: "parquet", "csv" or "json"; None goes by the extension.
        options: Options of Spark's reader, beside those.

    Raises:
        SourceError: There is no such file, its format is unknown, or it is JSON with no object on any line.
    """
    found = format or file_format(path)
    chosen = {**OPTIONS.get(found, {}), **(options or {})}
    frame = session.read.format(found).options(**chosen).load(_spark_path(path))
    if found == "json" and frame.columns == [_CORRUPT]:
        raise SourceError(f"{path}: no line of it is a JSON object; each row must be one, on one line")
    return frame


def file_format(path: str | Path) -> str:
    """Return Spark's format for a file, or for the files in a folder, by extension.

    Raises:
        SourceError: There is no such file, or its format is unknown, or a folder holds several or none.
    """
    files = data_files(path)
    if not files:
        raise SourceError(f"{path}: the folder holds no data")
    formats = {_format_of(file) for file in files}
    if len(formats) == 1 and (only := formats.pop()) is not None:
        return only
    known = ", ".join(FORMATS)
    if formats - {None}:
        raise SourceError(f"{path}: the folder holds files of several formats; name one with format")
    raise SourceError(f"{path}: the format is not known by the extension ({known}); name it with format")


def require_path(path: str | Path) -> None:
    """Check that a local path is there.

    Raises:
        SourceError: It is not.
    """
    if not has_scheme(path) and not Path(path).expanduser().exists():
        raise SourceError(f"{path}: no such file or folder")


def has_scheme(path: str | Path) -> bool:
    """Tell whether a path is for Spark's file systems (``hdfs://``, ``s3a://``) and not for this one."""
    return _SCHEME.match(str(path)) is not None


def require_new_path(path: str | Path) -> None:
    """Check that nothing is at a local path yet.

    Raises:
        SourceError: Something is, and stays as it is.
    """
    if not has_scheme(path) and Path(path).expanduser().exists():
        raise SourceError(f"{path}: is there already; delete it, or name another folder")


def write_files(frame: DataFrame, path: str | Path) -> None:
    """Write a DataFrame to a new folder: CSV or JSON where its name ends so, else Parquet; one Spark job.

    Raises:
        SourceError: Something is there already.
    """
    require_new_path(path)
    place = str(path) if has_scheme(path) else f"file://{Path(path).expanduser().absolute()}"
    chosen = _format_of(Path(path)) or "parquet"
    frame.write.format(chosen).options(**WRITE_OPTIONS.get(chosen, {})).save(place)


def one_line(error: BaseException) -> str:
    """Return in one line what an error of Spark says: the message, without class names and stack traces."""
    text = _JAVA_CLASS.sub("", _CALL.sub("", str(error)))
    _, python, traceback = text.partition(_WORKER)
    if python:
        text = _TRACE.split(traceback)[0].strip().splitlines()[-1]
    message = " ".join(_JAVA_CLASS.sub("", _TRACE.split(_BARRIER.sub("", text))[0]).split())
    if len(message) > MAX_MESSAGE:
        message = message[:MAX_MESSAGE].rstrip() + " ..."
    return message or type(error).__name__


def data_files(path: str | Path) -> list[Path]:
    """Return the files that Spark reads of a local path: itself, or what is in the folder, relative to that.

    Raises:
        SourceError: Nothing is there.
    """
    require_path(path)
    local = Path(path).expanduser()
    if not local.is_dir():
        return [local]
    # Names that begin with _ or . are none of Spark's data.
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
