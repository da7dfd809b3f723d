"""Runs a point, in this process or in a Python worker of Spark. A failed run gives a row with its error.

Points whose sources read files run in this process, because Spark collects the file contents on this machine.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from netstack import JobFailedError, PathSpec, Scenario, read_scenario

from ...base.reading import one_line
from ...runs.emulating import emulate
from ...runs.measures import as_one_window, load_phases, measure
from ...runs.seeds import open_sources
from ...spark.python_workers import MapFunction, worker_function
from .end_of_run import EndOnceSettled
from .point_rows import PointRow, failed_row, row_of
from .points import Point, step_at_s
from .restart_drill import EndOnceCaughtUp

if TYPE_CHECKING:
    from pyspark import Accumulator

Arrived = Callable[[list[bytes]], None]
"""Callback with finished rows, each as MessagePack."""


def sweep_function(arrivals: Accumulator[list[bytes]], on_one_machine: bool) -> MapFunction:
    """Return the function that Spark runs over points; its points and rows are MessagePack.

    `arrivals` gets each row when its task ends.
    """
    return worker_function(run_points, arrivals.add, on_one_machine=on_one_machine)


def run_points(points: Iterable[bytes], arrived: Arrived) -> Iterator[bytes]:
    """Run points and yield their rows one by one."""
    for document in points:
        row = msgspec.msgpack.encode(run_point(msgspec.msgpack.decode(document, type=Point)))
        arrived([row])
        yield row


def run_point(point: Point, prepare: Callable[[Scenario], Scenario] = lambda scenario: scenario) -> PointRow:
    """Run a point and return its row, with the error if it failed; only Ctrl-C is raised.

    The run ends when its figures have settled (`settling`); one whose load changes has its full length.
    `prepare` gets the scenario before the run and can replace its sources by open ones.
    """
    started = perf_counter()
    try:
        planned = read_scenario(point.document)
        phases, scenario = load_phases(planned), as_one_window(planned)
        step = step_at_s(scenario) if point.probe == "step" else None
        end: EndOnceCaughtUp | EndOnceSettled | None = None
        if point.probe == "restart":
            end = EndOnceCaughtUp(scenario)
        elif point.probe == "main" and not phases:
            end = EndOnceSettled(scenario)
        result = emulate(prepare(scenario), end_of_run=end)
        return row_of(point, result, measures=measure(result, phases=phases, step_at_s=step))
    except JobFailedError as error:
        after_s, cause = error.result.emulated_seconds, one_line(error.result.failure)
        text = f"the job failed for good after {after_s:.1f} s: {cause}"
        return row_of(point, error.result, error=text)
    except Exception as error:  # any error: the other points must still run
        text = one_line(error) or type(error).__name__
        return failed_row(point, text, perf_counter() - started)


def reads_files(point: Point) -> bool:
    """Return whether a source of a point's scenario reads files."""
    return any("path" in vertex.get("source", {}) for vertex in point.document["vertices"])


def run_reading(points: Sequence[Point]) -> Iterator[PointRow]:
    """Yield the rows of points that read files; adjacent points that read the same files share one reading.

    Raises:
        SourceError: a file cannot be read.
        ScenarioError: the parallelism that a source turned out to have does not fit the rest.
    """
    for _, group in itertools.groupby(points, _what_it_reads):
        same = list(group)
        with open_sources(read_scenario(same[0].document)) as opened:
            for point in same:
                yield run_point(point, _with_sources_of(opened))


def _what_it_reads(point: Point) -> list[tuple[object, ...]]:
    return [
        (vertex.name, vertex.source, vertex.parallelism)
        for vertex in read_scenario(point.document).vertices
        if isinstance(vertex.source, PathSpec)
    ]


def _with_sources_of(opened: Scenario) -> Callable[[Scenario], Scenario]:
    """Return a function that replaces a scenario's sources by the open ones for the same files."""

    def prepare(scenario: Scenario) -> Scenario:
        vertices = tuple(
            dataclasses.replace(vertex, source=ready.source, parallelism=ready.parallelism)
            if isinstance(vertex.source, PathSpec)
            else vertex
            for vertex, ready in zip(scenario.vertices, opened.vertices, strict=True)
        )
        return dataclasses.replace(scenario, vertices=vertices)

    return prepare
