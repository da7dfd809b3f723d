"""Measurements of a real Flink as documents, held to the layout that a comparison goes by.

Whatever else stands in such a document is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from ..errors import FileError
from .checkpoint_times import COMPLETED

Number = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]

Numbers = list[Number | None]


class _Vertex(msgspec.Struct, kw_only=True):
    parallelism: int
    records_in_per_s: Numbers
    bytes_in_per_s: Numbers
    alignment_ms_max_subtask: Number | None
    debloatedBufferSize: Numbers | None = None  # noqa: N815 - Flink's name of the metric


class _Block(msgspec.Struct, kw_only=True):
    from_s: Number
    to_s: Number
    end_to_end_ms: Number | None
    persisted_bytes: Number | None
    vertices: list[_Vertex]


class _PartOfVertex(msgspec.Struct):
    start_delay_ms: Numbers


class _Checkpoint(msgspec.Struct, kw_only=True):
    t: Number
    status: str = COMPLETED
    vertices: list[_PartOfVertex]


class _Run(msgspec.Struct, kw_only=True):
    steady: list[_Block]
    checkpoints: list[_Checkpoint]

    @property
    def windows(self) -> list[tuple[float, float]]:
        return [(block.from_s, block.to_s) for block in self.steady]


class _Measurement(_Run, kw_only=True):
    repetitions: list[_Run] = []


def runs_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the runs of a measurement: the first one and its repetitions, as they stand in it.

    Raises:
        FileError: the document is none, or its runs are not of one job.
    """
    try:
        measured = msgspec.convert(document, _Measurement)
    except (msgspec.ValidationError, RecursionError) as error:
        raise FileError([f"the reference is no measurement: {error}"]) from None
    runs: list[_Run] = [measured, *measured.repetitions]
    if not measured.steady:
        raise FileError(["the reference is no measurement: it has no window"])
    if any(run.windows != measured.windows for run in runs):
        raise FileError(["the reference is no measurement: its repetitions have other windows"])
    if problem := _problem(runs, len(measured.steady[0].vertices)):
        raise FileError([f"the reference is no measurement: {problem}"])
    return [document, *document.get("repetitions", ())]


def _problem(runs: Sequence[_Run], vertices: int) -> str | None:
    """Where the vertices of a job are not as many as elsewhere, or their subtasks."""
    for run in runs:
        counts = [len(block.vertices) for block in run.steady]
        counts += [len(checkpoint.vertices) for checkpoint in run.checkpoints]
        if any(count != vertices for count in counts):
            return f"not everywhere are there {vertices} vertices"
        for vertex in (vertex for block in run.steady for vertex in block.vertices):
            sizes = vertex.debloatedBufferSize
            rates = len(vertex.bytes_in_per_s)
            if sizes and len(sizes) != rates:
                return f"there are {len(sizes)} buffer sizes and {rates} rates of a vertex"
    return None
