"""Opens the files that a scenario's sources read, for as long as the scenario runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from netstack import (
    FROM_SOURCE,
    PathSpec,
    Scenario,
    SourceError,
    SourceObject,
    Vertex,
    check_scenario,
    vertex_key,
)


@contextmanager
def open_sources(scenario: Scenario) -> Iterator[Scenario]:
    """Give a scenario whose paths Spark has read; the copies are deleted when the block ends.

    A vertex without a parallelism of its own gets one subtask for each of Spark's partitions. Scenarios
    without paths come back as they are, and start no Spark.

    Raises:
        SourceError: files that cannot be read, a missing column, no Java; one line that names the vertex.
        ScenarioError: the parallelism that a source turned out to have does not fit the rest.
    """
    with ExitStack() as stack:
        vertices = tuple(_opened(vertex, stack) for vertex in scenario.vertices)
        ready = dataclasses.replace(scenario, vertices=vertices)
        check_scenario(ready)
        yield ready


def reads_paths(scenario: Scenario) -> bool:
    """Return whether a source of a scenario has yet to be opened."""
    return any(isinstance(vertex.source, PathSpec) for vertex in scenario.vertices)


def _opened(vertex: Vertex, stack: ExitStack) -> Vertex:
    spec = vertex.source
    if not isinstance(spec, PathSpec):
        return vertex
    # Here, so that only those who read paths need Spark.
    from ..spark.spark_source import SparkSource

    wanted = None if vertex.parallelism == FROM_SOURCE else vertex.parallelism
    key = list(spec.key) if spec.key else None
    source = stack.enter_context(
        SparkSource(spec.path, key, parallelism=wanted, repeat=spec.repeat, format=spec.format)
    )
    try:
        source.prepare()
    except SourceError as error:
        raise SourceError(f"{vertex_key(vertex.name, 'source')}: {error}") from error
    return dataclasses.replace(
        vertex,
        parallelism=source.parallelism_hint,
        source=SourceObject(source=source, rates=spec.rates, spec=spec),
    )
