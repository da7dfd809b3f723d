"""The stage of a shuffle: what is sent to its workers, in one string of bytes."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flowcontrol import Secret
from netstack import TransportConfig

from .shipping import MapFunction, shipped
from .targets import PlacementSpec

if TYPE_CHECKING:
    from pyspark import Accumulator


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


def stage_function(spec: StageSpec, reports: Accumulator[Any]) -> MapFunction:
    """Return the function that each task of the stage runs; `reports` takes lists of reports.

    Its name is that of the shuffle, which so stands in the plan.
    """
    run = shipped(
        "integration.spark.shuffle.task",
        "run_task",
        pickle.dumps(spec),
        reports.add,
        on_one_machine=spec.loopback,
    )
    run.__name__ = spec.name
    return run
