"""Numbers that tasks tell the driver while they run, where all of them run on its machine.

What Spark itself tells of a task comes when that is over. So the driver makes a folder, whose name goes to
the tasks as a local property of Spark's jobs, and each task keeps a file of one number in it::

    driver: netstack-notes-x1/  <- 3-0, 3-1, ...: stage and partition, 8 bytes each
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .interrupts import held_interrupts
from .masters import is_local

if TYPE_CHECKING:
    from pyspark import TaskContext
    from pyspark.sql import SparkSession

PROPERTY = "netstack.notes"
"""The local property that names the folder."""

NOTE_EVERY_S = 0.5
"""Least time in seconds between two notes of a task."""

_NUMBER = struct.Struct("<d")
_PARTIAL = ".partial"


class TaskNotes:
    """What tasks have noted, as the driver reads it.

    Args:
        folder: Where they note it; None: nowhere, since some run on other machines.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @property
    def possible(self) -> bool:
        """Whether tasks can note anything."""
        return self._folder is not None

    def ask(self, session: SparkSession) -> None:
        """Have the tasks of all jobs note that this thread gives Spark from now on."""
        if self._folder is not None:
            session.sparkContext.setLocalProperty(PROPERTY, str(self._folder))

    def numbers(self) -> list[float]:
        """Return the latest number of each task that has noted one."""
        if self._folder is None:
            return []
        files = [file for file in self._folder.iterdir() if not file.name.endswith(_PARTIAL)]
        return [_NUMBER.unpack(file.read_bytes())[0] for file in files]


@contextmanager
def task_notes(session: SparkSession) -> Iterator[TaskNotes]:
    """Give notes for the jobs of the block; their folder is gone afterwards."""
    with held_interrupts():
        local = is_local(session)
    if not local:
        yield TaskNotes(None)
        return
    # A task that is cancelled may note once more while the folder goes.
    with tempfile.TemporaryDirectory(prefix="netstack-notes-", ignore_cleanup_errors=True) as folder:
        yield TaskNotes(Path(folder))


class Noting:
    """What a task notes: nothing, unless the driver has asked.

    Args:
        context: Spark's.
    """

    def __init__(self, context: TaskContext) -> None:
        folder = context.getLocalProperty(PROPERTY)
        name = f"{context.stageId()}-{context.partitionId()}"
        self._file = Path(folder, name) if folder else None
        self._due = 0.0

    def note(self, number: float, *, last: bool = False) -> None:
        """Note a number, unless another is only just noted and this is not the last."""
        if self._file is None or (time.monotonic() < self._due and not last):
            return
        self._due = time.monotonic() + NOTE_EVERY_S
        partial = self._file.with_name(self._file.name + _PARTIAL)
        with suppress(OSError):  # the driver has gone, or no longer wants to know
            partial.write_bytes(_NUMBER.pack(number))
            os.replace(partial, self._file)
