"""The jobs on which other mechanisms are compared with debloating."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import LinkConditions, Scenario, SourceObject, Vertex

from ..policy_scenarios import CASES, Case, job, sink, source

SMALL_BYTES, LARGE_BYTES, ONE_IN = 200, 20_000, 10
"""One record in so many is large."""

_RECORDS = 1000


class MixedReader:
    """Endless records, most of them small; which are large is the same in each thousand."""

    def __init__(self, subtask: int) -> None:
        large = np.random.default_rng(subtask).random(_RECORDS) < 1 / ONE_IN
        small = b"." * SMALL_BYTES
        self._block = RecordBlock.from_payloads([b"." * LARGE_BYTES if each else small for each in large])
        self._position = 0

    def read(self, max_records: int) -> RecordBlock:
        """The next records; there is no end."""
        start = self._position % _RECORDS
        stop = min(start + max_records, _RECORDS)
        self._position += stop - start
        return self._block[start:stop]

    def seek(self, position: int) -> None:
        """Go to a record."""
        self._position = position

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass(frozen=True)
class MixedSource:
    """Records of two sizes."""

    parallelism_hint: int | None = None

    def open(self, subtask: int, parallelism: int) -> MixedReader:
        """The reader of a subtask."""
        return MixedReader(subtask)

    def key_hash(self, block: RecordBlock) -> NDArray[np.int32]:
        """All alike: nobody asks."""
        return np.zeros(len(block), dtype=np.int32)


def _steady(name: str) -> Case:
    return next(case for case in CASES if case.scenario.name == name)


def _far(scenario: Scenario) -> Scenario:
    return replace(scenario, link=LinkConditions(latency_s=0.05))


_MIXED = Vertex(name="source", parallelism=2, source=SourceObject(source=MixedSource()))

_MINIMUM = job(
    "minimum-1s", 1.0, source(2, record_bytes=100), sink(2, 50.0), warmup_s=400.0, duration_s=2000.0
)
"""Without debloating, each of its checkpoints takes five minutes."""

LIMIT_CASES = (
    Case("200 KB/s, a checkpoint every 10 s", _steady("steady-1s-rare").scenario),
    Case("1 MB/s", _steady("steady-100ms").scenario),
    Case("8 producers, 8 consumers of 500 KB/s", _steady("8x8-300ms").scenario),
    Case("a stage between source and sink", _steady("depth2-200ms").scenario),
    Case("records of 100 B, 50 ms each", _MINIMUM),
    Case(
        "records of 100 KB, 1 MB/s",
        job("large-records-100ms", 0.1, source(2, record_bytes=100_000), sink(2, 100.0)),
    ),
    Case("nine records of 200 B, one of 20 KB, 1 MB/s", job("mixed-100ms", 0.1, _MIXED, sink(2, 2.0))),
    Case("1 MB/s over links of 50 ms", _far(job("far-100ms", 0.1, source(2), sink(2, 1.0)))),
    Case("one producer is ten times as fast as three", _steady("hot-source-200ms").scenario),
    Case("consumers are 25 times as slow for 4 s of every 10 s", _steady("slow-spells-200ms").scenario),
)
