"""Kit for tests of whole jobs: settings, a job that sums by key, ways to run and to kill it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import trio
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import (
    Agenda,
    AtTime,
    ChannelItem,
    CheckpointMode,
    CollectionSource,
    CostModel,
    CutLink,
    Edge,
    Fault,
    Job,
    KillSubtask,
    KillTaskManager,
    MemoryStorage,
    NetworkConfig,
    OnAcknowledgement,
    OnChannel,
    RestartStrategy,
    Scenario,
    SourceObject,
    SubtaskName,
    TableStores,
    TransactionLog,
    Vertex,
    key_sum,
    transactional_sink,
)

EXACT = CostModel(
    source_record_s=0.0,
    consumer_buffer_s=0.0,
    consumer_record_s=0.0,
    after_sleep_s=0.0,
    oversleep_s=0.0,
    wake_up_s=0.0,
    notify_s=0.0,
    wire_s=0.0,
    wire_message_s=0.0,
    wire_rate_bytes_per_s=1e15,
    trigger_s=(0.0, 0.0),
    trigger_per_source_s=0.0,
    sync_s=(0.0, 0.0),
    ack_s=(0.0, 0.0),
    jitter_sigma=0.0,
)
"""A machine whose only cost is what a scenario says, so that times can be computed by hand."""

MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "at least once": {"checkpoint_mode": CheckpointMode.AT_LEAST_ONCE},
    "unaligned": {"unaligned_enabled": True},
    "aligned with timeout": {"unaligned_enabled": True, "aligned_checkpoint_timeout_s": 0.03},
}
"""The ways to take a checkpoint, as fields of `NetworkConfig`."""

EXACTLY_ONCE = [mode for mode in MODES if mode != "at least once"]

RECOVERIES: dict[str, dict[str, Any]] = {
    "as before 2.3": {},
    "output at consumers": {"recover_output_on_downstream": True},
    "with checkpoints": {"recover_output_on_downstream": True, "checkpoints_during_recovery": True},
}
"""The ways to restore data in flight, as fields of `NetworkConfig`."""

KEYS = 7
COUNT = 300


def number_of(payload: bytes | memoryview) -> int:
    return int(bytes(payload).split(b":")[0])


def parse(payload: bytes) -> tuple[bytes, int]:
    number = number_of(payload)
    return b"k%d" % (number % KEYS), number


def key_hash(block: RecordBlock) -> NDArray[np.int32]:
    return np.array([number_of(payload) % KEYS for payload in block.payloads()], dtype=np.int32)


def expected(count: int = COUNT) -> list[bytes]:
    sums: Counter[int] = Counter()
    for number in range(count):
        sums[number % KEYS] += 2 * number
    return sorted(b"k%d %d" % item for item in sums.items())


def recovering(**settings: Any) -> NetworkConfig:
    """Return options with small buffers, frequent checkpoints and quick restarts, and the given ones."""
    usual: dict[str, Any] = {
        "checkpoint_interval_s": 0.05,
        "checkpoint_timeout_s": 5.0,
        "tolerable_failed_checkpoints": 1000,
        "segment_bytes": 1024,
        "exclusive_buffers_per_channel": 1,
        "floating_buffers_per_gate": 2,
        "restart_strategy": RestartStrategy.FIXED_DELAY,
        "restart_attempts": 1000,
        "restart_delay_s": 0.05,
        "heartbeat_timeout_s": 0.3,
        "state_memory_threshold_bytes": 0,
    }
    return NetworkConfig(**(usual | settings))


def sums_job(
    log: TransactionLog, faults: Sequence[Fault] = (), *, rate: float = 150.0, **settings: Any
) -> Scenario:
    """Two sources -> 3 subtasks that pass on -> 2 that sum by key -> 2 that commit the sums.

    At the default `rate` it takes 2 s, and one of the sums can barely follow; at 0 all queues are full.
    """
    numbers = [b"%d:%s" % (number, b"x" * (number % 300)) for number in range(COUNT)]
    service = ((0.0, 0.002),)
    return Scenario(
        name="sums",
        duration_s=60.0,
        config=recovering(**settings),
        vertices=(
            Vertex(
                name="numbers",
                parallelism=2,
                source=SourceObject(
                    source=CollectionSource([numbers, numbers], key_hash=key_hash), rates=(rate,)
                ),
            ),
            Vertex(name="middle", parallelism=3, service=service),
            Vertex(
                name="sums",
                parallelism=2,
                service=service,
                service_skew=(1.0, 2.9),
                operator=key_sum(parse),
            ),
            Vertex(name="out", parallelism=2, operator=transactional_sink(log.commit)),
        ),
        edges=(
            Edge(source="numbers", target="middle", ship="rebalance"),
            Edge(source="middle", target="sums", ship="hash", key_hash=key_hash),
            Edge(source="sums", target="out", ship="rebalance"),
        ),
        faults=tuple(faults),
    )


Look = tuple[float, Callable[[Job], object]]
"""A second of the run, and a function that is called with the job then."""


def run(
    job: Scenario | Job,
    storage: MemoryStorage | None = None,
    looks: Sequence[Look] = (),
    tables: TableStores | None = None,
) -> Job:
    """Run a job to its end in virtual time, and check that it returns all its memory."""
    if isinstance(job, Scenario):
        job = Job(job, Agenda(), storage=storage, tables=tables)
    for at, look in looks:
        job.agenda.keep(at, look, job)
    trio.run(job.run)
    assert job.leaked_segments == 0
    return job


def kill(vertex: str, index: int, at: float) -> KillSubtask:
    return KillSubtask(when=AtTime(at), subtask=SubtaskName(vertex, index))


def on_channel(item: ChannelItem, number: int) -> OnChannel:
    source, target = SubtaskName("middle", 1), SubtaskName("sums", 1)
    return OnChannel(item=item, number=number, source=source, target=target)


SCHEDULES: dict[str, list[Fault]] = {
    "none": [],
    "one subtask": [kill("middle", 1, 0.41)],
    "sums, twice": [kill("sums", 1, 0.33), kill("sums", 0, 0.92)],
    "task managers": [
        KillTaskManager(when=AtTime(0.5), task_manager="numbers"),
        KillTaskManager(when=AtTime(1.1), task_manager="sums"),
    ],
    "sink, while the sums are out": [kill("out", 0, at) for at in (1.3, 1.6, 1.9, 2.2)],
    "between barriers": [
        KillSubtask(when=on_channel(ChannelItem.BARRIER, 3), subtask=SubtaskName("sums", 0))
    ],
    "in a buffer": [KillSubtask(when=on_channel(ChannelItem.BUFFER, 20), subtask=SubtaskName("sums", 1))],
    "after an acknowledgement": [
        KillSubtask(
            when=OnAcknowledgement(number=3, subtask=SubtaskName("numbers", 0)),
            subtask=SubtaskName("middle", 0),
        )
    ],
    "a cut that is survived": [
        CutLink(when=AtTime(0.4), from_task_manager="middle", to_task_manager="sums", for_s=0.2)
    ],
    "a cut that is not": [
        CutLink(when=AtTime(0.4), from_task_manager="middle", to_task_manager="sums", for_s=0.5)
    ],
}
