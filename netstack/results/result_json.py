"""Encoding and decoding of results as JSON documents.

Decoding checks that a result fits its scenario: lists over vertices have the scenario's vertices, and no list
over subtasks is too long. Readers rely on the positions of vertices and subtasks in lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..errors import ScenarioError
from ..scenarios.documents import Document, read_scenario, scenario_document
from ..scenarios.options import PRESETS
from .result import SCHEMA, Result, Run, Series, VertexCheckpoint, VertexSteady

__all__ = ["from_json", "to_json"]


class _Document(Run[Document], frozen=True, kw_only=True):
    """A result with its scenario as a document, as in JSON."""


def to_json(result: Result) -> bytes:
    """Encode a result; equal results give equal bytes."""
    values: dict[str, Any] = msgspec.structs.asdict(result)
    return msgspec.json.encode(_Document(**values | {"scenario": scenario_document(result.scenario)}))


def from_json(document: bytes | str) -> Result:
    """Decode a result.

    Objects named in its scenario are not imported, so the result may be from an untrusted origin.

    Raises:
        ValueError: if it is not JSON, not a result of this schema, its scenario is invalid, or it does not
            fit that scenario; the message says where.
    """
    decoded = msgspec.json.decode(document, type=_Document)
    if decoded.schema != SCHEMA:
        raise ValueError(
            f"the document has the schema {decoded.schema!r}, but this version reads only {SCHEMA!r}"
        )
    try:
        scenario = read_scenario(decoded.scenario, to_run=False)
    except ScenarioError as error:
        problems = "; ".join(error.problems)
        raise ValueError(f"the scenario in the result is not valid: {problems}") from None
    result = Result(**msgspec.structs.asdict(decoded) | {"scenario": scenario})
    problem = next(_problems(result), None)
    if problem is not None:
        raise ValueError(f"the result is not valid: {problem}")
    return result


def _problems(result: Result) -> Iterator[str]:
    if result.preset not in PRESETS:
        yield f"preset: {result.preset!r} is unknown"
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
    """Yield mistakes in a list of vertices, which must follow the scenario's order, sources first."""
    names = [vertex.name for vertex in vertices]
    if names and names != list(subtasks):
        yield f"{key}.vertices: are {', '.join(names)}, but the scenario has {', '.join(subtasks)}"
        return
    for vertex in vertices:
        for field, values in _lists(vertex):
            if len(values) not in (0, subtasks[vertex.name]):
                where = f"{key}.vertices.{vertex.name}.{field}"
                yield (
                    f"{where}: has {len(values)} values, but the vertex has {subtasks[vertex.name]} subtasks"
                )


def _about_series(key: str, series: Series, subtasks: dict[str, int]) -> Iterator[str]:
    if series.vertex not in subtasks:
        yield f"{key}.vertex: {series.vertex!r} is not a vertex of the scenario"
        return
    for field, values in _lists(series):
        if field == "t":
            continue
        if len(values) not in (0, subtasks[series.vertex]):
            yield (
                f"{key}.{field}: has {len(values)} values, but the vertex has {subtasks[series.vertex]} "
                "subtasks"
            )
        elif any(len(samples) != len(series.t) for samples in values):
            yield f"{key}.{field}: does not have one sample for each time"


def _lists(values: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the fields that are lists, with their values."""
    for field in values.__struct_fields__:
        value = getattr(values, field)
        if isinstance(value, list):
            yield field, value
