"""The stage of a shuffle: what is sent to the workers, and the function that a worker begins with.

That function travels by value and refers to nothing of ours, so a worker whose Python lacks our packages
gets as far as saying so. All else is in one string of bytes, which only a worker that has them opens.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flowcontrol import Secret
from netstack import TransportConfig

from .targets import PlacementSpec
from .version import code_version

if TYPE_CHECKING:
    from pyspark import Accumulator

MapFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """All that the tasks of a shuffle have in common."""

    name: str
    """Of the shuffle."""
    count: int
    """Number of partitions, and of tasks."""
    schema: pa.Schema
    """Columns of the input, the one that was computed for the placement included."""
    placement: PlacementSpec
    config: TransportConfig
    secret: Secret
    """What only the tasks and the driver know: see `rendezvous`."""
    early_bytes: int
    """Most bytes of rows that a task holds before it is connected to its peers."""
    loopback: bool
    """Whether all tasks run on one machine, so that none has to be reached from another."""


def shipped(spec: StageSpec, reports: Accumulator[Any]) -> MapFunction:
    """Return the function that Spark sends to the workers.

    Its name is that of the shuffle, which so stands in the plan. `reports` takes lists of reports.
    """
    payload, on_one_machine, version = pickle.dumps(spec), spec.loopback, code_version(spec.loopback)

    def run_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib
        import sys

        here = f"the Python of this worker, {sys.executable},"
        remedy = (
            "let PYSPARK_PYTHON name a Python that has netstack, on each machine, or send our packages with"
            " --py-files (the command `netstack package netstack.zip` writes that file)"
        )
        try:
            task = importlib.import_module("integration.shuffle.task")
        except ModuleNotFoundError as error:
            raise RuntimeError(f"{here} has no module {error.name!r}; {remedy}") from None
        if task.code_version(on_one_machine) != version:
            raise RuntimeError(f"{here} has another netstack than the driver; {remedy}")
        output: Iterator[pa.RecordBatch] = task.run_task(payload, batches, reports.add)
        return output

    run_task.__name__ = spec.name
    return run_task
