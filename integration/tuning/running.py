"""Runs a point: here, or in a Python worker of Spark's, where whatever goes wrong becomes a row too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from netstack import JobFailedError, Result, Scenario, read_scenario, to_json

from ..emulating import emulate
from ..spark.workers import MapFunction, worker_function
from .measures import measure
from .points import Point
from .probes import step_at_s
from .rows import PointRow, failed_row, points_of, to_table

if TYPE_CHECKING:
    from pyspark import Accumulator

Arrived = Callable[[list[bytes]], None]
"""Told of rows that are finished, each as MessagePack."""


def sweep_function(arrivals: Accumulator[list[bytes]], on_one_machine: bool) -> MapFunction:
    """Return the function that Spark runs over points; `arrivals` gets each row when its task ends."""
    return worker_function(run_points, arrivals.add, on_one_machine=on_one_machine)


def run_points(batches: Iterable[pa.RecordBatch], arrived: Arrived) -> Iterator[pa.RecordBatch]:
    """Run the points of some batches, and yield their rows one by one."""
    for batch in batches:
        for point in points_of(batch):
            row = run_point(point)
            arrived([msgspec.msgpack.encode(row)])
            yield from to_table([row]).to_batches()


def run_point(point: Point, prepare: Callable[[Scenario], Scenario] = lambda scenario: scenario) -> PointRow:
    """Run a point and return its row, which says why if there is no result; only Ctrl-C is passed on.

    `prepare` is given the scenario before it is run, to put in sources that are open.
    """
    started = perf_counter()
    try:
        scenario = read_scenario(point.document)
        result = emulate(prepare(scenario))
        step = step_at_s(scenario) if point.probe == "step" else None
        return _row(point, result, step)
    except JobFailedError as error:
        return _failed_for_good(point, error.result)
    except Exception as error:  # whatever it is, the other points have nothing to do with it
        text = " ".join(str(error).split())
        return failed_row(point, text or type(error).__name__, perf_counter() - started)


def _row(point: Point, result: Result, step: float | None) -> PointRow:
    return PointRow(
        key=point.key,
        name=point.name,
        labels=point.labels,
        seed=point.seed,
        probe=point.probe,
        status="finished",
        wall_seconds=result.wall_seconds,
        versions=result.versions,
        measures=measure(result, step_at_s=step),
        result=_without_series(result),
    )


def _failed_for_good(point: Point, result: Result) -> PointRow:
    cause = " ".join(str(result.failure).split())
    row = failed_row(point, f"the job failed for good after {result.emulated_seconds:.1f} s: {cause}")
    return msgspec.structs.replace(
        row,
        wall_seconds=result.wall_seconds,
        versions=result.versions,
        result=_without_series(result),
    )


def _without_series(result: Result) -> str:
    return to_json(msgspec.structs.replace(result, series=[])).decode()
