"""A job that is stopped and goes on from its last checkpoint at another parallelism, and what is left of it.

Numbers -> subtasks that pass on -> sums by key -> sinks that commit the sums at the end; beside it, sinks
that commit the numbers themselves. The sums are a little too slow, so queues before them fill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import (
    CollectionSource,
    Edge,
    Fault,
    HandleReader,
    InitialCheckpoint,
    MemoryStorage,
    NetworkConfig,
    RestartStrategy,
    Result,
    Scenario,
    SourceObject,
    StateKind,
    TransactionLog,
    Vertex,
    emulate,
    key_sum,
    transactional_sink,
)
from netstack.state.keyed_state import decode_table

PARTITIONS, COUNT, KEYS = 8, 60, 40
VERTICES = ("numbers", "middle", "sums", "out", "copy")


def number_of(record: bytes | memoryview) -> int:
    return int(bytes(record).split(b":")[0])


def key_hash(block: RecordBlock) -> NDArray[np.int32]:
    return np.array([number_of(payload) % KEYS for payload in block.payloads()], dtype=np.int32)


def partitions() -> list[list[bytes]]:
    """The records of the source, no two of which are equal; some span several buffers."""
    return [
        [b"%d:%s" % (part * COUNT + number, b"x" * (number * 41 % 700)) for number in range(COUNT)]
        for part in range(PARTITIONS)
    ]


def expected() -> list[bytes]:
    """What both sinks commit."""
    numbers = [record for part in partitions() for record in part]
    sums: Counter[int] = Counter()
    for number in map(number_of, numbers):
        sums[number % KEYS] += number
    return sorted(numbers + [b"k%d %d" % item for item in sums.items()])


def job_of(
    log: TransactionLog,
    parallelism: int | Sequence[int],
    faults: Sequence[Fault] = (),
    ship: str = "rebalance",
    **settings: Any,
) -> Scenario:
    """The job; `parallelism` is that of all vertices, or of each."""
    each = [parallelism] * len(VERTICES) if isinstance(parallelism, int) else parallelism
    of = dict(zip(VERTICES, each, strict=True))
    config: dict[str, Any] = {
        "checkpoint_interval_s": 0.07,
        "checkpoint_timeout_s": 5.0,
        "segment_bytes": 1024,
        "exclusive_buffers_per_channel": 1,
        "floating_buffers_per_gate": 2,
        "restart_strategy": RestartStrategy.FIXED_DELAY,
        "restart_attempts": 1000,
        "restart_delay_s": 0.02,
        "state_memory_threshold_bytes": 0,
        "retained_checkpoints": 1000,
    }
    operators: dict[str, Callable[[int], Any]] = {
        "sums": key_sum(lambda record: (b"k%d" % (number_of(record) % KEYS), number_of(record))),
        "out": transactional_sink(log.commit),
        "copy": transactional_sink(log.commit),
    }
    vertices = [Vertex(name=name, parallelism=of[name], operator=operators.get(name)) for name in VERTICES]
    source = SourceObject(
        source=CollectionSource(partitions(), key_hash=key_hash), rates=(700.0 / of["numbers"],)
    )
    vertices[0] = replace(vertices[0], source=source)
    vertices[2] = replace(vertices[2], service=((0.0, 0.002 * of["sums"]),))
    return Scenario(
        name="numbers",
        duration_s=60.0,
        config=NetworkConfig(**(config | settings)),
        vertices=tuple(vertices),
        edges=(
            Edge(source="numbers", target="middle", ship=ship),
            Edge(source="middle", target="sums", ship="hash", key_hash=key_hash),
            Edge(source="sums", target="out", ship="rebalance"),
            Edge(source="middle", target="copy", ship="rebalance"),
        ),
        faults=tuple(faults),
    )


def stopped(scenario: Scenario, at: float, **more: Any) -> MemoryStorage:
    """Run the job for a time; returns its checkpoints."""
    storage = MemoryStorage()
    emulate(replace(scenario, duration_s=at), storage=storage, **more)
    return storage


def latest(storage: MemoryStorage) -> InitialCheckpoint:
    """The last checkpoint there, to go on from."""
    last = storage.checkpoints()[-1]
    return InitialCheckpoint(storage.load(last), storage, "earlier", last + 1)


def gone_on(scenario: Scenario, begin: InitialCheckpoint, **more: Any) -> tuple[Result, MemoryStorage]:
    """Run the job to its end from a checkpoint of another; its files must not be touched."""
    storage, earlier = MemoryStorage(), begin.storage
    assert isinstance(earlier, MemoryStorage)
    files = dict(earlier.files)
    result = emulate(scenario, storage=storage, from_checkpoint=begin, **more)
    assert earlier.files == files
    return result, storage


def final_sums(storage: MemoryStorage) -> dict[bytes, int]:
    """The keyed state of the sums that had ended, of all subtasks together, by key with its key group."""
    read = HandleReader(storage)
    found: dict[bytes, int] = {}
    for number in storage.checkpoints():
        for snapshot in storage.load(number).subtasks:
            if snapshot.vertex == "sums" and snapshot.data_ended:
                for handle in snapshot.handles:
                    if handle.kind is StateKind.KEYED:
                        found |= dict(decode_table(read(handle))[1])
    return found
