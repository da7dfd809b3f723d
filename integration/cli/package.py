"""The command ``netstack package``."""

from __future__ import annotations

from pathlib import Path

from ..base.errors import OutputError
from ..base.number_text import size
from ..show.terminal.console import say
from ..spark.python_workers import write_package
from .arguments import Flag


def package(file: Path, /, *, libraries: Flag = False) -> int:
    """Write the file that gives Spark's executors the packages for a shuffle.

    Args:
        file: Name of the new file; it must end in .zip.
        libraries: Include all libraries except NumPy, pandas and PyArrow. With this option, pass the file to
            Spark by --archives, otherwise by --py-files.
    """
    if file.suffix != ".zip":
        raise OutputError(f"{file}: the name must end in .zip, as Spark requires")
    if file.exists():
        raise OutputError(f"{file}: already exists; delete it, or give another name")
    try:
        written = write_package(file, libraries=libraries)
    except OSError as error:
        raise OutputError(f"{file}: cannot be written: {error.strerror}") from None
    say(f"wrote {file}: {written} files, {size(file.stat().st_size)}")
    return 0
