"""A running job: opens the tasks, lets them work for the scenario's duration and takes everything back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from .agenda import Agenda
from .build import JobBuilder
from .coordinator import Checkpoint, CheckpointCoordinator
from .operator_subtask import OperatorSubtask
from .randomness import Randomness
from .result import Work
from .scenario import Scenario
from .statistics import Recorder
from .subtask import Environment, Subtask

Progress = Callable[[float], None]
"""Called with the emulated time in seconds, about once an emulated second."""

SAMPLE_INTERVAL_S = 1.0
"""How often gauges and counters are sampled, in emulated seconds."""


class Job:
    """One run of a scenario.

    After `run` all memory has been given back; `leaked_segments` says how many segments were not.
    """

    def __init__(self, scenario: Scenario, agenda: Agenda, *, progress: Progress | None = None) -> None:
        self.scenario = scenario
        self.agenda = agenda
        self._progress = progress
        randomness = Randomness(scenario.seed, scenario.costs.jitter_sigma)
        self.coordinator = CheckpointCoordinator(
            agenda,
            scenario.costs,
            randomness,
            scenario.config.checkpoint_interval_s,
            scenario.config.checkpoints_after_tasks_finish,
            self._record,
        )
        self._randomness = randomness
        self.builder = JobBuilder(
            scenario,
            Environment(
                agenda,
                scenario.costs,
                randomness,
                self.coordinator,
                scenario.config.checkpoints_after_tasks_finish,
            ),
        )
        self._running = 0
        self.recorder = Recorder([vertex.parallelism for vertex in scenario.vertices])

    @property
    def subtasks(self) -> list[Subtask]:
        """All subtasks, vertex by vertex."""
        return [subtask for vertex in self.builder.subtasks for subtask in vertex]

    async def run(self) -> None:
        """Run until the duration is over or every subtask has ended."""
        try:
            self.builder.build()
            self._open()
            await self.agenda.run()
            if self.coordinator.pending is not None:
                self._record(self.coordinator.pending)
        finally:
            self._release()

    def _open(self) -> None:
        agenda = self.agenda
        agenda.at(self.scenario.duration_s, self._stop)
        agenda.at(0.0, self._sample)
        self._start_timers()
        self.coordinator.start(self.subtasks)
        self.builder.open_channels()
        self._running = len(self.subtasks)
        for subtask in self.subtasks:
            agenda.start(self._run_subtask(subtask))

    def _stop(self) -> None:
        self._sample()
        self.agenda.stop()

    async def _run_subtask(self, subtask: Subtask) -> None:
        await subtask.run()
        subtask.ended = True
        self.coordinator.finished(subtask)
        self._running -= 1
        if self._running == 0:
            # What the last subtasks have to say of a checkpoint is still on its way to the coordinator.
            grace = self.scenario.costs.ack_s[1] if self.coordinator.pending is not None else 0.0
            self.agenda.after(grace, self._stop)

    def _start_timers(self) -> None:
        """Flushers of all partitions and debloating timers of all tasks, each with a phase of its own."""
        config, between = self.scenario.config, self._randomness.between
        for subtask in self.subtasks:
            timeout = config.buffer_timeout_s
            if timeout:  # 0: the partition flushes by itself
                for output in subtask.outputs:
                    self.agenda.at(between((0.0, timeout)), self._flush, output.partition.flush, timeout)
            if config.debloat_enabled and isinstance(subtask, OperatorSubtask):
                period = config.debloat_period_s
                self.agenda.at(period + between((0.0, period)), self._post_debloat, subtask)

    def _flush(self, flush: Callable[[], None], timeout: float) -> None:
        """Flush, then sleep for `timeout`, which like any sleep takes a little longer."""
        flush()
        late = self.scenario.costs.oversleep_s * self._randomness.uniform(0.5, 1.5)
        self.agenda.after(timeout + late, self._flush, flush, timeout)

    def _post_debloat(self, subtask: OperatorSubtask) -> None:
        if not subtask.ended:
            subtask.post(partial(self._debloat, subtask))

    def _debloat(self, subtask: OperatorSubtask) -> None:
        subtask.debloat()
        self.agenda.after(self.scenario.config.debloat_period_s, self._post_debloat, subtask)

    def _sample(self) -> None:
        self.recorder.sample(self.agenda.now, [subtask.sample() for subtask in self.subtasks])
        if self._progress is not None:
            self._progress(self.agenda.now)
        self.agenda.after(SAMPLE_INTERVAL_S, self._sample)

    def _record(self, checkpoint: Checkpoint) -> None:
        self.recorder.checkpoint(
            checkpoint.identity,
            checkpoint.triggered_at,
            checkpoint.parts,
            duration_s=checkpoint.duration_s,
            status=checkpoint.status,
        )

    @property
    def work(self) -> Work:
        """What has moved over all links so far; records are those whose service is over."""
        ends = [ends for tm in self.builder.task_managers.values() for ends in tm.connections.values()]
        return Work(
            buffers=sum(consumer.buffers for _, consumer in ends),
            records=sum(s.records_in for s in self.subtasks if isinstance(s, OperatorSubtask)),
            bytes=sum(consumer.bytes for _, consumer in ends),
            messages=sum(producer.messages + consumer.messages for producer, consumer in ends),
        )

    def _release(self) -> None:
        """Give everything back, connections first; an error of one does not keep the others."""
        with ExitStack() as stack:
            for subtask in self.subtasks:
                stack.callback(subtask.release)
            for manager in self.builder.task_managers.values():
                for producer, _ in manager.connections.values():
                    stack.callback(producer.close)

    @property
    def leaked_segments(self) -> int:
        """Segments that no pool has got back."""
        pools = [manager.pool for manager in self.builder.task_managers.values()]
        return sum(pool.total - pool.free for pool in pools)
