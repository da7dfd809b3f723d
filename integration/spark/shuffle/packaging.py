"""One file with what a Spark executor must have to take part in a shuffle.

A task of the shuffle imports our packages, which are plain Python, so Spark can hand them out as they are::

    spark-submit --py-files netstack.zip job.py

What our packages import beyond what Spark itself needs for Arrow (NumPy, pandas, PyArrow) is small, but one
library of it is compiled, and nothing compiled can be imported out of a zip file. With `libraries` it is in
the file too, which Spark then unpacks where each executor runs, and the executors are told to look there::

    spark-submit --archives netstack.zip#files --conf spark.executorEnv.PYTHONPATH=files job.py
"""

from __future__ import annotations

import atexit
import errno
import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

from ...files.writing import written_whole
from ..interrupts import held_interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("buffers", "flowcontrol", "integration", "netstack")
"""Ours, as a task of the shuffle imports them."""

LIBRARIES = ("attrs", "idna", "msgspec", "outcome", "sniffio", "sortedcontainers", "trio")
"""What these import, beside the standard library and what Spark needs for Arrow."""

FILE_NAME = "netstack.zip"

_CACHE = "__pycache__"


def write_package(path: Path, *, libraries: bool = False) -> int:
    """Write our packages to a new zip file and return the number of files in it.

    With `libraries` the file holds those as they are installed here: for this version of Python, on this kind
    of machine, and to be unpacked.

    Raises:
        OSError: The file is already there, or cannot be written.
        ImportError: A library is not installed.
    """
    wanted = [found for package in PACKAGES for found in _files_of_package(package)]
    if libraries:
        wanted += [found for library in LIBRARIES for found in _files_of_library(library)]
    # Not strict: what some installers write is older than a zip file's earliest date, 1980.
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with (
        written_whole(path) as partial,
        ZipFile(partial, "x", ZIP_DEFLATED, strict_timestamps=False) as archive,
    ):
        for file, name in wanted:
            archive.write(file, name)
    return len(wanted)


def send_packages(session: SparkSession) -> None:
    """Hand our packages to all executors of a session, as ``--py-files`` would have done from the start.

    Stages that begin from now on have them. The executors need `LIBRARIES` installed.
    """
    with held_interrupts():
        folder = tempfile.mkdtemp(prefix="netstack-")
        # At the end, since each executor that starts later fetches it.
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, FILE_NAME)
    write_package(path)
    session.sparkContext.addPyFile(str(path))


def _files_of_package(package: str) -> Iterator[tuple[Path, str]]:
    """The files of a package of ours, wherever it is imported from, with their names in the archive."""
    (folder,) = importlib.import_module(package).__path__
    for file in sorted(Path(folder).rglob("*")):
        if file.is_file() and _CACHE not in file.parts:
            yield file, str(Path(package, file.relative_to(folder)))


def _files_of_library(library: str) -> Iterator[tuple[Path, str]]:
    """The files of an installed library, without what it put elsewhere, such as commands."""
    for file in files(library) or ():
        if ".." not in file.parts and _CACHE not in file.parts:
            yield Path(str(file.locate())), str(file)
