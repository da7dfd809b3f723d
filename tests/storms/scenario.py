"""The scenario of a case: its vertices, and sources that read memory, files or computed records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import (
    CollectionSource,
    Edge,
    NetworkConfig,
    Scenario,
    Source,
    SourceObject,
    SourceReader,
    Vertex,
)

from .case import Reading, StormCase, StormVertex, Work
from .draw_job import sends_watermarks
from .operators import Commit, Witness, key_hash, operator_of, records_of
from .step_rules import CHECKED_POLICY


def scenario_of(
    case: StormCase, commit: Commit, witness: Witness, folder: Path, parallelism: Sequence[int] = ()
) -> Scenario:
    """The scenario of a case, whose sinks hand what is final to `commit`; sources have files in `folder`.

    `parallelism` is that of each vertex, where it is not the case's; the records stay the same.
    """
    return Scenario(
        name=f"storm {case.seed}",
        duration_s=case.duration_s,
        vertices=tuple(
            replace(_vertex(case, vertex, commit, witness, folder), parallelism=subtasks)
            for vertex, subtasks in zip(
                case.vertices, parallelism or [each.parallelism for each in case.vertices], strict=True
            )
        ),
        edges=tuple(_edges(case)),
        seed=case.seed,
        preset=case.preset,
        config=_config(case),
        costs=case.costs,
        link=case.link,
        faults=case.faults,
        manual_checkpoints_s=case.manual_checkpoints_s,
    )


def _config(case: StormCase) -> NetworkConfig:
    if case.config.debloat_enabled and case.config.debloat_policy == "flink":
        return replace(case.config, debloat_policy=CHECKED_POLICY)
    return case.config


def _edges(case: StormCase) -> list[Edge]:
    edges, inputs = list[Edge](), dict[str, int]()
    for source, target, ship in case.edges:
        number = inputs[target] = inputs.get(target, -1) + 1
        fraction = float(case.fraction(source, target))
        edge = Edge(source=source, target=target, ship=ship, key_hash=key_hash, fraction=fraction)
        if (reader := case.vertex(target)).apart:
            edge = replace(edge, input=number)
            if reader.work is Work.EMIT:
                edge = replace(edge, selectivity=float(reader.selectivity))
            if reader.work in (Work.PASS, Work.EMIT):
                edge = replace(edge, service=((0.0, reader.service_s * (1 + number)),))
        edges.append(edge)
    return edges


def _vertex(case: StormCase, vertex: StormVertex, commit: Commit, witness: Witness, folder: Path) -> Vertex:
    if vertex.work is Work.SOURCE:
        source = SourceObject(
            source=source_of_records(case, vertex, folder),
            rates=vertex.rates,
            out_of_orderness_s=vertex.out_of_orderness_s if sends_watermarks(case, vertex) else None,
        )
        return Vertex(
            name=vertex.name, parallelism=vertex.parallelism, task_manager=vertex.task_manager, source=source
        )
    return Vertex(
        name=vertex.name,
        parallelism=vertex.parallelism,
        task_manager=vertex.task_manager,
        service=_service(vertex),
        service_skew=vertex.service_skew,
        service_mode=vertex.service_mode,
        operator=operator_of(case, vertex, commit, witness),
        selectivity=1.0 if vertex.apart else float(vertex.selectivity),
        emission="random" if vertex.at_random else "regular",
        emit_every_s=vertex.emit_every_s or None,
        emit_by="event_time" if vertex.by_event_time else "processing_time",
    )


def _service(vertex: StormVertex) -> tuple[tuple[float, float], ...]:
    if not vertex.service_s:
        return ()
    changes = [(at, vertex.service_s * factor) for at, factor in vertex.service_steps]
    return ((0.0, vertex.service_s), *changes)


_BLOCK_RECORDS = 16
"""Records that are computed or read at once."""


def source_of_records(case: StormCase, vertex: StormVertex, folder: Path) -> Source:
    """Return what a source of a case reads; files lie in the folder."""
    partitions = [records_of(case, vertex, subtask) for subtask in range(vertex.parallelism)]
    match vertex.reading:
        case Reading.MEMORY:
            return CollectionSource(partitions, key_hash)
        case Reading.COMPUTED:
            return ComputedSource(partitions)
        case _:
            forward_only = vertex.reading is Reading.FORWARD_ONLY
            return FileSource(folder / vertex.name, partitions, seeks=not forward_only)


class _PartitionedSource:
    """A source of which a subtask reads every so many partitions, one after the other."""

    def __init__(self, partitions: Sequence[Sequence[bytes]]) -> None:
        self._counts = [len(records) for records in partitions]

    @property
    def parallelism_hint(self) -> int:
        """One subtask for each partition."""
        return len(self._counts)

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """The hash code of each record's key."""
        return key_hash(block)


class ComputedSource(_PartitionedSource):
    """Makes each block when it is asked for it, from the position alone."""

    def __init__(self, partitions: Sequence[Sequence[bytes]]) -> None:
        super().__init__(partitions)
        self._partitions = partitions

    def open(self, subtask: int, parallelism: int) -> SourceReader:
        """Return the reader of one subtask."""
        return ComputedReader([each for part in self._partitions[subtask::parallelism] for each in part])


class ComputedReader:
    """Gives a few records at a time, each block a new one."""

    def __init__(self, records: Sequence[bytes]) -> None:
        self._records = records
        self._position = 0

    def read(self, max_records: int) -> RecordBlock | None:
        """Return the next records, None at the end."""
        start = self._position
        self._position = stop = min(start + min(max_records, _BLOCK_RECORDS), len(self._records))
        return RecordBlock.from_payloads(self._records[start:stop]) if start < stop else None

    def seek(self, position: int) -> None:
        """Go to a record."""
        self._position = min(position, len(self._records))

    def close(self) -> None:
        """Nothing is held."""


class FileSource(_PartitionedSource):
    """Reads a file for each partition: records behind their lengths in 4 bytes."""

    def __init__(self, path: Path, partitions: Sequence[Sequence[bytes]], *, seeks: bool) -> None:
        super().__init__(partitions)
        self._seeks = seeks
        self._paths = [path.with_suffix(f".{number}") for number in range(len(partitions))]
        for each, records in zip(self._paths, partitions, strict=True):
            each.write_bytes(b"".join(len(record).to_bytes(4, "big") + record for record in records))

    def open(self, subtask: int, parallelism: int) -> SourceReader:
        """Return the reader of one subtask."""
        paths = self._paths[subtask::parallelism]
        # A reader may lack `seek`, which the protocol cannot say.
        return FileReader(paths) if self._seeks else ForwardReader(paths)  # type: ignore[return-value]


class ForwardReader:
    """Reads files from their beginning on; it cannot go to a record but by reading up to it."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._left = list(paths)
        self._data = memoryview(b"")

    def read(self, max_records: int) -> RecordBlock | None:
        """Return the next records, None at the end."""
        records: list[bytes] = []
        while len(records) < min(max_records, _BLOCK_RECORDS):
            if not self._data:
                if not self._left:
                    break
                self._data = memoryview(self._left.pop(0).read_bytes())
                continue
            size = 4 + int.from_bytes(self._data[:4], "big")
            records.append(bytes(self._data[4:size]))
            self._data = self._data[size:]
        return RecordBlock.from_payloads(records) if records else None

    def close(self) -> None:
        """Let go of what was read."""
        self._left.clear()
        self._data = memoryview(b"")


class FileReader(ForwardReader):
    """Reads files, and can go to any record."""

    def seek(self, position: int) -> None:
        """Go to a record."""
        self._left, self._data = list(self._paths), memoryview(b"")
        while position and (block := self.read(position)) is not None:
            position -= len(block)
