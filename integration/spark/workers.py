"""How our code gets to Spark's Python workers, how it is run there, and how they answer beside their rows.

A task imports our packages, which are plain Python, so Spark can hand them out as they are, in one file::

    spark-submit --py-files netstack.zip job.py

What our packages import beyond what Spark itself needs for Arrow (NumPy, pandas, PyArrow) is small, but one
library of it is compiled, and nothing compiled can be imported out of a zip file. With `libraries` it is in
the file too, which Spark then unpacks where each executor runs, and the executors are told to look there::

    spark-submit --archives netstack.zip#files --conf spark.executorEnv.PYTHONPATH=files job.py

What a worker is told to run has our function by name only. Before it is called, the worker's packages are
compared with the driver's.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import metadata, resources
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zipfile import ZIP_DEFLATED, ZipFile

from ..files.writing import written_whole
from .interrupts import held_interrupts
from .masters import is_local

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

PACKAGES = ("buffers", "flowcontrol", "integration", "netstack")
"""Our packages, as a task imports them."""

LIBRARIES = ("attrs", "idna", "msgspec", "outcome", "sniffio", "sortedcontainers", "trio")
"""What our packages import in a task, beside the standard library and what Spark needs for Arrow."""

FILE_NAME = "netstack.zip"

_CACHE = "__pycache__"

MapFunction = Callable[[Iterable[Any]], Iterator[Any]]
"""What Spark runs over what is in a partition: batches of rows in Arrow, or elements of an RDD."""

_V = TypeVar("_V")

_sending = threading.Lock()
"""Held while a context gets our packages, so that two threads do not send them both."""

_REMEDY = (
    "let PYSPARK_PYTHON name a Python that has netstack, on each machine, or send our packages with"
    " --py-files (the command `netstack package netstack.zip` writes that file)"
)


def write_package(path: Path, *, libraries: bool = False) -> int:
    """Write our packages to a new zip file and return the number of files in it.

    With `libraries` the file holds those as they are installed here: for this version of Python, on this kind
    of machine, and to be unpacked.

    Raises:
        OSError: The file is already there, or cannot be written.
        ImportError: A library is not installed.
    """
    wanted = [entry for package in PACKAGES for entry in _files_of_package(package)]
    if libraries:
        wanted += [entry for library in LIBRARIES for entry in _files_of_library(library)]
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
    """Send our packages to all executors of a session, as ``--py-files`` would have done from the start.

    Stages that begin from now on have them. The executors need `LIBRARIES` installed. A Spark context gets
    them once: further calls change nothing, nor does the first one if the user has sent a file of this name.
    In a local session, where the driver runs all tasks, it does nothing.
    """
    if is_local(session):
        return
    from pyspark import SparkFiles

    context = session.sparkContext
    with held_interrupts(), _sending:
        if FILE_NAME in (context._python_includes or ()):
            return
        # Each executor that starts later fetches the file. Spark deletes the folder when the context stops.
        path = Path(tempfile.mkdtemp(prefix="netstack-", dir=SparkFiles.getRootDirectory()), FILE_NAME)
        write_package(path)
        context.addPyFile(str(path))


def _files_of_package(package: str) -> Iterator[tuple[Path, str]]:
    """The files of a package of ours, wherever it is imported from, with their names in the archive."""
    (folder,) = importlib.import_module(package).__path__
    for file in sorted(Path(folder).rglob("*")):
        # Compiled modules cannot be loaded from a zip file, and are for this machine's Python.
        if file.is_file() and _CACHE not in file.parts and not file.name.endswith(EXTENSION_SUFFIXES[0]):
            yield file, str(Path(package, file.relative_to(folder)))


def _files_of_library(library: str) -> Iterator[tuple[Path, str]]:
    """The files of an installed library, without what it put elsewhere, such as commands."""
    for file in metadata.files(library) or ():
        if ".." not in file.parts and _CACHE not in file.parts:
            yield Path(str(file.locate())), str(file)


@cache
def code_digest() -> str:
    """Return a digest of the sources of all our packages, in folders or in a zip file."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for name, module in _modules(resources.files(package), package):
            digest.update(f"{name}\n".encode())
            digest.update(module.read_bytes())
    return digest.hexdigest()


def code_version(on_one_machine: bool) -> str:
    """Return what is the same in two processes only if they run the same code of ours.

    It is the digest of the sources; or, if both processes are on one machine, the places of the packages.
    """
    if on_one_machine:
        return " ".join(str(resources.files(package)) for package in PACKAGES)
    return code_digest()


def _modules(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _modules(entry, f"{name}.{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{name}.{entry.name}", entry


def driver_accumulator(
    context: SparkContext, value: _V, take: Callable[[_V, list[Any]], object]
) -> Accumulator[Any]:
    """Return an accumulator to which workers add lists; at the driver `take` puts each into its `value`.

    The lists of a task come when it has succeeded.
    """
    from pyspark.accumulators import AccumulatorParam, AddingAccumulatorParam

    class AtDriver(AccumulatorParam[Any]):
        """Takes lists at the driver; goes to a worker as a parameter that is Spark's own."""

        def __reduce__(self) -> tuple[type, tuple[list[object]]]:
            return AddingAccumulatorParam, ([],)

        def zero(self, value: Any) -> Any:
            return []

        def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802 - the name is Spark's
            take(value1, value2)
            return value1

    return context.accumulator(value, AtDriver())


def worker_function(work: Callable[..., Any], *arguments: object, on_one_machine: bool) -> MapFunction:
    """Return what calls `work`, a function of one of our modules, in a worker: with a partition, `arguments`.

    It travels by value and refers to nothing of ours before it has looked, so a worker whose Python lacks our
    packages, or has others, gets as far as saying so.
    """
    from pyspark import cloudpickle

    payload: bytes = cloudpickle.dumps(arguments)  # type: ignore[no-untyped-call]
    ours, module, name = __name__, work.__module__, work.__qualname__
    version, remedy = code_version(on_one_machine), _REMEDY

    def run(partition: Iterable[Any]) -> Iterator[Any]:
        import importlib
        import pickle
        import sys

        here = f"the Python of this worker, {sys.executable},"
        try:
            version_here = importlib.import_module(ours).code_version(on_one_machine)
            if version_here != version:
                raise RuntimeError(f"{here} has another netstack than the driver; {remedy}")
            function = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            raise RuntimeError(f"{here} has no module {error.name!r}; {remedy}") from None
        output: Iterator[Any] = function(partition, *pickle.loads(payload))
        return output

    return run
