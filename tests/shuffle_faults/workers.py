"""What the Python workers of a case do beside the shuffle: say who they are, wait, and read slowly.

They tell by files in the folder of the case, and are told by one there: `GO`, at which whoever waits goes on.
A worker of a later attempt finds it there already.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from netstack import ConnectionLimits, TransportConfig

from .case import SILENCE_S, Case, Fault, Moment
from .rows import input_batches

if TYPE_CHECKING:
    import pyarrow as pa

GO = "go"
TASK, INPUT, HELD = "task-", "input-", "held-"
"""What the names of the files begin with that have the process of a task, that of its input, and say that the
input waits; behind it stands the index of the task."""

_LOOK_S = 0.005
Batches = Iterator["pa.RecordBatch"]


class Announcing(TransportConfig):
    """Settings of a shuffle that tell, when they arrive in a worker, which one that is."""

    folder: Path
    late: int | None
    """Index of the task that waits there until it is told to go on."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (str(self.folder), self.late)


def announcing(case: Case, folder: Path) -> Announcing:
    """Return the settings of the shuffle of a case."""
    config = Announcing(limits=_limits())
    waits = case.fault is Fault.STRANGERS or (case.strikes_process and case.moment is Moment.MEETING)
    object.__setattr__(config, "folder", folder)
    object.__setattr__(config, "late", case.victim if waits else None)
    return config


def _limits() -> ConnectionLimits:
    return ConnectionLimits(keep_alive_s=SILENCE_S, connect_timeout_s=SILENCE_S)


def _arrived(folder: str, late: int | None) -> TransportConfig:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    _tell(Path(folder, f"{TASK}{context.partitionId()}"))
    if context.partitionId() == late:
        wait_to_go(Path(folder))
    return TransportConfig(limits=_limits())


def _tell(file: Path) -> None:
    """Write this process into a file, of which nobody reads a half."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_text(str(os.getpid()))
        partial.replace(file)
    except FileNotFoundError:
        pass  # the case is over


def wait_to_go(folder: Path) -> None:
    """Wait until the case is told to go on, or over."""
    while folder.exists() and not (folder / GO).exists():
        sleep(_LOOK_S)


def making(case: Case, folder: Path) -> Callable[[Batches], Batches]:
    """Return what makes the rows of each partition of the input, and waits where the case says so."""
    path = str(folder)

    def make(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        source, place = context.partitionId(), Path(path)
        _tell(place / f"{INPUT}{source}")
        for _ in batches:
            pass
        given, hold_at = 0, case.hold_after * case.rows[source] if case.held else None
        for batch in input_batches(case, source):
            if hold_at is not None and given >= hold_at:
                _hold(place, source)
                hold_at = None
            yield batch
            given += batch.num_rows
        if hold_at is not None:
            _hold(place, source)

    return make


def _hold(folder: Path, source: int) -> None:
    _tell(folder / f"{HELD}{source}")
    wait_to_go(folder)


def slow(case: Case) -> Callable[[Batches], Batches]:
    """Return a reader that sleeps in one partition, before it has read anything and between batches."""
    sleeps_s, partition = case.pause_s, case.victim

    def read(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        left_s = sleeps_s if context.partitionId() == partition else 0.0
        for batch in batches:
            if left_s > 0:
                sleep(sleeps_s / 4)
                left_s -= sleeps_s / 4
            yield batch

    return read
