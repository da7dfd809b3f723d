"""The checkpoints of one subtask, whose outputs nobody reads."""

from __future__ import annotations

from buffers import PipelinedSubpartition
from flowcontrol import AlignmentMetrics, CheckpointBarrier, CheckpointOptions
from netstack import (
    Agenda,
    CollectionSource,
    CostModel,
    Edge,
    MemoryStorage,
    NetworkConfig,
    Scenario,
    SourceObject,
    Vertex,
)
from netstack.checkpoints.acknowledgement import Acknowledgement
from netstack.checkpoints.pending_checkpoint import CheckpointedTask
from netstack.engine.randomness import Randomness
from netstack.jobs.build import JobBuilder
from netstack.tasks.environment import Environment
from netstack.tasks.subtask_checkpoints import ASYNC_FAILED, SubtaskCheckpoints

SCENARIO = Scenario(
    name="two task managers",
    duration_s=1.0,
    vertices=(
        Vertex(name="source", source=SourceObject(source=CollectionSource([[b"record"]]))),
        Vertex(name="sink", parallelism=2, task_manager="other"),
    ),
    edges=(Edge(source="source", target="sink"),),
)


class Told:
    """A coordinator that only listens."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.declined: list[tuple[int, str, str]] = []

    def acknowledge(self, subtask: CheckpointedTask, report: Acknowledgement) -> None:
        self.acknowledged.append(report.checkpoint_id)

    def decline(self, subtask: CheckpointedTask, checkpoint_id: int, reason: str, detail: str = "") -> None:
        self.declined.append((checkpoint_id, reason, detail))

    def finished(self, subtask: CheckpointedTask) -> None: ...


class Source:
    """The source of that job, which does nothing but checkpoints."""

    def __init__(self) -> None:
        self.told = Told()
        environment = Environment(
            Agenda(), CostModel(), NetworkConfig(), Randomness(1, 0.0), self.told, MemoryStorage()
        )
        builder = JobBuilder(SCENARIO, environment, lambda *_: {})
        builder.build()
        self._subtask = builder.subtasks[0][0]
        self.checkpoints = SubtaskCheckpoints(self._subtask)

    @property
    def subpartitions(self) -> list[PipelinedSubpartition]:
        return self._subtask.outputs[0].partition.subpartitions

    def begin(self, number: int) -> None:
        """Begin a checkpoint that is aligned until a timeout."""
        metrics = AlignmentMetrics(0.0, 0.0, 0)
        self.checkpoints.begin(CheckpointBarrier(number, 0.0, CheckpointOptions(timeout_s=60.0)), metrics)
        self.checkpoints.upload(number)


def test_a_newer_barrier_beside_one_that_can_time_out_fails_the_older_checkpoint_once() -> None:
    source = Source()
    source.begin(1)
    source.begin(2)
    ((number, reason, detail),) = source.told.declined
    assert (number, reason) == (1, ASYNC_FAILED)
    assert detail == "a newer checkpoint began while the barrier of this one could still time out"
    for subpartition in source.subpartitions:
        for _ in range(2):
            assert subpartition.poll() is not None
            subpartition.resume()
    assert source.told.acknowledged == [2]


def test_a_newer_barrier_behind_one_that_has_left_fails_nothing() -> None:
    source = Source()
    for number in (1, 2):
        source.begin(number)
        for subpartition in source.subpartitions:
            assert subpartition.poll() is not None
            subpartition.resume()
    assert (source.told.declined, source.told.acknowledged) == ([], [1, 2])
