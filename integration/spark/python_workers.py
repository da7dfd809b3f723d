"""Spark's Python workers: distributing our code to them, running it, and their reports.

A task imports our packages. They are plain Python, so Spark can distribute them in one file::

    spark-submit --py-files netstack.zip job.py

Our packages import further libraries, besides those that Spark itself needs for Arrow (NumPy, pandas,
PyArrow). These are small, but one of them is compiled, and compiled modules cannot be imported from a zip
file. With `libraries` the file contains them too. Spark then unpacks the file on each executor, whose Python
path has to include the folder::

    spark-submit --archives netstack.zip#files --conf spark.executorEnv.PYTHONPATH=files job.py

The function that Spark sends to a worker refers to our function by name only. Before the call, the packages
of the worker are compared with those of the driver.

Spark only reports on a task that has ended. If all tasks run on the driver's machine, each can report one
number while it runs. The driver makes a folder, and passes its name to the tasks as a local property of
Spark's jobs. Each task keeps a file with one number in that folder::

    driver: netstack-notes-x1/  <- 3-0, 3-1, ...: stage and partition, 8 bytes each
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata, resources
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zipfile import ZIP_DEFLATED, ZipFile

from ..base.signals import held_interrupts
from ..base.writing import written_whole
from .driver import is_local

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext, TaskContext
    from pyspark.sql import SparkSession

PACKAGES = ("buffers", "flowcontrol", "integration", "netstack")
"""Our packages that a task imports."""

LIBRARIES = ("attrs", "idna", "msgspec", "outcome", "sniffio", "sortedcontainers", "trio")
"""Libraries that our packages import in a task, besides those that Spark needs for Arrow."""

FILE_NAME = "netstack.zip"

_CACHE = "__pycache__"

MapFunction = Callable[[Iterable[Any]], Iterator[Any]]
"""A function that Spark runs over a partition: Arrow batches of rows, or elements of an RDD."""

_V = TypeVar("_V")

_sending = threading.Lock()
"""Lock that is held while packages are sent, so that two threads do not both send them to a context."""

_REMEDY = (
    "let PYSPARK_PYTHON name a Python that has netstack, on each machine, or send its packages with "
    "--py-files (the command `netstack package netstack.zip` writes that file)"
)


def write_package(path: Path, *, libraries: bool = False) -> int:
    """Write our packages to a new zip file and return the number of files in it.

    With `libraries` the file also contains `LIBRARIES` as installed here. Such a file only fits this version
    of Python on this kind of machine, and must be unpacked.

    Raises:
        OSError: The file exists already, or cannot be written.
        ImportError: A library is not installed.
    """
    entries = [entry for package in PACKAGES for entry in _files_of_package(package)]
    if libraries:
        entries += [entry for library in LIBRARIES for entry in _files_of_library(library)]
    # Not strict, because some installers write dates before 1980, the earliest date of a zip file.
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with (
        written_whole(path) as partial,
        ZipFile(partial, "x", ZIP_DEFLATED, strict_timestamps=False) as archive,
    ):
        for file, name in entries:
            archive.write(file, name)
    return len(entries)


def send_packages(session: SparkSession) -> None:
    """Send our packages to all executors of a session, as ``--py-files`` does at the start.

    Stages that begin from now on can import them. The executors need `LIBRARIES` installed. A Spark context
    receives the packages once: further calls do nothing. If the user has sent a file of this name, no call
    does anything. In a local session the driver runs all tasks, so nothing is sent.
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
    """Yield the files of one of our packages, and their names in the archive."""
    (folder,) = importlib.import_module(package).__path__
    for file in sorted(Path(folder).rglob("*")):
        # Compiled modules cannot be imported from a zip file, and only fit this machine's Python.
        if file.is_file() and _CACHE not in file.parts and not file.name.endswith(EXTENSION_SUFFIXES[0]):
            yield file, str(Path(package, file.relative_to(folder)))


def _files_of_library(library: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of an installed library, except those outside its folder, such as commands."""
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
    """Return a text that is equal in two processes only if both run the same version of our code.

    It is the digest of the sources or, if both processes are on one machine, the paths of the packages.
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
    """Return an accumulator to which workers add lists. In the driver, `take` adds each list to `value`.

    The lists of a task arrive once the task has succeeded.
    """
    from pyspark.accumulators import AccumulatorParam, AddingAccumulatorParam

    class AtDriver(AccumulatorParam[Any]):
        """Receives, in the driver, the lists that workers add. Workers get a class of Spark in its place."""

        def __reduce__(self) -> tuple[type, tuple[list[object]]]:
            return AddingAccumulatorParam, ([],)

        def zero(self, value: Any) -> Any:
            return []

        def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802 - the name is Spark's
            take(value1, value2)
            return value1

    return context.accumulator(value, AtDriver())


def worker_function(work: Callable[..., Any], *arguments: object, on_one_machine: bool) -> MapFunction:
    """Return a function for a Spark worker, which calls `work` with a partition and `arguments`. `work` must
    be a function in one of our modules.

    The returned function is pickled by value, and checks our packages before it imports them. So a worker
    that lacks them, or has another version, can report that.
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
                raise RuntimeError(f"{here} has another version of netstack than the driver; {remedy}")
            function = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            raise RuntimeError(f"{here} has no module {error.name!r}; {remedy}") from None
        output: Iterator[Any] = function(partition, *pickle.loads(payload))
        return output

    return run


PROPERTY = "netstack.notes"
"""Spark's local property with the path of the folder of notes."""

NOTE_EVERY_S = 0.5
"""Minimum time in seconds between two notes of a task."""

_NUMBER = struct.Struct("<d")
_PARTIAL = ".partial"


class TaskNotes:
    """The driver's side of the numbers that tasks report while they run, each in a file of `folder`.

    Without a folder tasks cannot report, because some run on other machines.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @property
    def possible(self) -> bool:
        """Whether tasks can report numbers."""
        return self._folder is not None

    def ask(self, session: SparkSession) -> None:
        """Request numbers from the tasks of all jobs that this thread submits from now on."""
        if self._folder is not None:
            session.sparkContext.setLocalProperty(PROPERTY, str(self._folder))

    def numbers(self) -> list[float]:
        """Return the latest number of each task that has reported one."""
        if self._folder is None:
            return []
        files = [file for file in self._folder.iterdir() if not file.name.endswith(_PARTIAL)]
        return [_NUMBER.unpack(file.read_bytes())[0] for file in files]


@contextmanager
def task_notes(session: SparkSession) -> Iterator[TaskNotes]:
    """Yield notes for the jobs of the block. Their folder is deleted afterwards."""
    with held_interrupts():
        local = is_local(session)
    if not local:
        yield TaskNotes(None)
        return
    # A cancelled task may write once more while the folder is deleted.
    with tempfile.TemporaryDirectory(prefix="netstack-notes-", ignore_cleanup_errors=True) as folder:
        yield TaskNotes(Path(folder))


class Noting:
    """A task's side of `TaskNotes`. It reports nothing unless the driver has requested it."""

    def __init__(self, context: TaskContext) -> None:
        folder = context.getLocalProperty(PROPERTY)
        name = f"{context.stageId()}-{context.partitionId()}"
        self._file = Path(folder, name) if folder else None
        self._due = 0.0

    def note(self, number: float, *, last: bool = False) -> None:
        """Report a number. Skip it if another was reported shortly before, unless this is the last."""
        if self._file is None or (time.monotonic() < self._due and not last):
            return
        self._due = time.monotonic() + NOTE_EVERY_S
        partial = self._file.with_name(self._file.name + _PARTIAL)
        with suppress(OSError):  # the driver has ended, or has deleted the folder
            partial.write_bytes(_NUMBER.pack(number))
            os.replace(partial, self._file)
