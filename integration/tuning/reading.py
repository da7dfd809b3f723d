"""Points whose sources read files: what Spark has read for them is on this machine, and so they run here."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

from netstack import PathSpec, Scenario, read_scenario

from ..runs.sources import open_sources
from .points import Point
from .rows import PointRow
from .running import run_point


def reads_files(point: Point) -> bool:
    """Tell whether a source of a point's scenario reads files."""
    return any("path" in vertex.get("source", {}) for vertex in point.document["vertices"])


def run_reading(points: Sequence[Point]) -> Iterator[PointRow]:
    """Yield the rows of points that read files; neighbours that read the same have it read once.

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
    """Return what puts the open sources of a scenario into another that reads the same files."""

    def prepare(scenario: Scenario) -> Scenario:
        vertices = tuple(
            dataclasses.replace(vertex, source=ready.source, parallelism=ready.parallelism)
            if isinstance(vertex.source, PathSpec)
            else vertex
            for vertex, ready in zip(scenario.vertices, opened.vertices, strict=True)
        )
        return dataclasses.replace(scenario, vertices=vertices)

    return prepare
