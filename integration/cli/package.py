"""The command ``netstack package``."""

from __future__ import annotations

from pathlib import Path

from ..analysis.wording import size
from ..report.output import OutputError, say
from ..spark.workers import write_package
from .arguments import Flag


def package(file: Path, /, *, libraries: Flag = False) -> int:
    """Write the file from which Spark's executors get what a shuffle needs.

    Args:
        file: Where to write; the name ends in .zip, and nothing is there yet.
        libraries: For --archives, with all that is needed beside NumPy, pandas, PyArrow; without: --py-files.
    """
    if file.suffix != ".zip":
        raise OutputError(f"{file}: the name has to end in .zip, by which Spark knows what it is")
    if file.exists():
        raise OutputError(f"{file}: is there already; delete it, or name another file")
    try:
        written = write_package(file, libraries=libraries)
    except OSError as error:
        raise OutputError(f"{file}: cannot be written: {error.strerror}") from None
    say(f"wrote {file}: {written} files, {size(file.stat().st_size)}")
    return 0
