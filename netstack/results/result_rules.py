"""What a result has to say to be one of its scenario: the same vertices everywhere, and no subtask too many.

Whoever reads results goes by the places of vertices and subtasks in their lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..scenarios.config import PRESETS
from .result import Result, Series, VertexCheckpoint, VertexSteady


def result_problem(result: Result) -> str | None:
    """Return what is wrong with a result, in one line; None where nothing is."""
    return next(_problems(result), None)


def _problems(result: Result) -> Iterator[str]:
    if result.preset not in PRESETS:
        yield f"preset: {result.preset!r} is none"
    vertices = sorted(result.scenario.vertices, key=lambda vertex: vertex.source is None)
    subtasks = {vertex.name: vertex.parallelism for vertex in vertices}
    for place, checkpoint in enumerate(result.checkpoints):
        yield from _about_vertices(f"checkpoints.{place}", checkpoint.vertices, subtasks)
    for place, steady in enumerate(result.steady):
        yield from _about_vertices(f"steady.{place}", steady.vertices, subtasks)
    for place, series in enumerate(result.series):
        yield from _about_series(f"series.{place}", series, subtasks)


def _about_vertices(
    key: str, vertices: Sequence[VertexCheckpoint | VertexSteady], subtasks: dict[str, int]
) -> Iterator[str]:
    """Vertices stand in the order of the scenario, sources first; of a checkpoint, or in a window."""
    names = [vertex.name for vertex in vertices]
    if names and names != list(subtasks):
        yield f"{key}.vertices: are {', '.join(names)}; those of the scenario are {', '.join(subtasks)}"
        return
    for vertex in vertices:
        for field, values in _lists(vertex):
            if len(values) not in (0, subtasks[vertex.name]):
                where = f"{key}.vertices.{vertex.name}.{field}"
                yield f"{where}: has {len(values)} values for {subtasks[vertex.name]} subtasks"


def _about_series(key: str, series: Series, subtasks: dict[str, int]) -> Iterator[str]:
    if series.vertex not in subtasks:
        yield f"{key}.vertex: {series.vertex!r} is none of the scenario"
        return
    for field, values in _lists(series):
        if field == "t":
            continue
        if len(values) not in (0, subtasks[series.vertex]):
            yield f"{key}.{field}: has {len(values)} values for {subtasks[series.vertex]} subtasks"
        elif any(len(samples) != len(series.t) for samples in values):
            yield f"{key}.{field}: has not as many samples as there are times"


def _lists(values: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """The fields that are lists, with their values."""
    for field in values.__struct_fields__:
        value = getattr(values, field)
        if isinstance(value, list):
            yield field, value
