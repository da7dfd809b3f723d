"""One attempt to run a job: opens the tasks, runs them, and releases all resources.

The first attempt starts without state. Later attempts start from a checkpoint. In-flight data is restored
first, and checkpoints resume when every task has read its part of this data.

The tasks of an attempt form regions that share memory, connections and cores, but no data. A failed region is
cancelled and rebuilt within the attempt, while the others keep running::

    region 0  works -----------------------------------------------------------
    region 1  works -- cancel | nothing | rebuild - wait for memory - begin -- works
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.recovery import RecoverySource, SubtaskRecovery
from ..engine.agenda import Agenda
from ..engine.cancellation import Scope
from ..engine.randomness import Randomness
from ..exchange.channel import InputChannel
from ..exchange.emulated_link import EmulatedLink
from ..results.recorder import SubtaskSample
from ..results.result import Work
from ..scenarios.changes import ScheduledChange
from ..scenarios.scenario import Scenario
from ..tasks.operator_subtask import OperatorSubtask
from ..tasks.source_subtask import SourceSubtask
from ..tasks.subtask import Subtask
from ..tasks.subtask_environment import Environment
from .build import JobBuilder, Site
from .failover import Region, all_tasks
from .restarts import NOTHING_RUNS


@dataclass(slots=True)
class _RegionRun:
    """The tasks of a region and their environment; `down`: whether they are cancelled and not rebuilt yet."""

    tasks: Region
    environment: Environment
    down: bool = False
    started: bool = False
    recovering: int = 0


class Attempt:
    """The subtasks of one attempt, with their memory and connections: all subtasks of the job, or those at a
    `site`. `regions` are numbered in order; without `regions`, all tasks form region 0. `on_running` is
    called with the number of a region when all its tasks run, `on_end` with each subtask that has ended.
    `running`: number of subtasks that have begun and not ended.
    """

    def __init__(
        self,
        scenario: Scenario,
        environment: Environment,
        on_running: Callable[[int], None],
        on_end: Callable[[Subtask], None],
        site: Site | None = None,
        regions: Sequence[Region] = (),
    ) -> None:
        self.scenario = scenario
        self.running = 0
        self._agenda: Agenda = environment.agenda
        self._randomness: Randomness = environment.randomness
        self._debloating = 0  # how often debloating was switched on or off
        self._on_running = on_running
        self._on_end = on_end
        first, *others = regions or [all_tasks(scenario)]
        self._regions = [
            _RegionRun(first, environment),
            *(_RegionRun(tasks, _with_own_scope(environment)) for tasks in others),
        ]
        self._numbers = {task: n for n, region in enumerate(self._regions) for task in region.tasks}
        self.builder = JobBuilder(scenario, environment, site, self._environment_of)

    def _environment_of(self, vertex: int, index: int) -> Environment:
        return self._regions[self._numbers[vertex, index]].environment

    def region_of(self, task: TaskKey) -> int:
        """Return the number of a task's region."""
        return self._numbers[task]

    def tasks_of(self, region: int) -> list[Subtask]:
        """Return the subtasks of a region that run here; the cancelled subtasks for a region that is down."""
        subtasks = self.builder.subtasks
        return [subtasks[n][i] for n, i in self._regions[region].tasks if i < len(subtasks[n])]

    def is_down(self, region: int) -> bool:
        """Whether a region is cancelled and not yet rebuilt, so that nothing in it can fail."""
        return self._regions[region].down

    @property
    def subtasks(self) -> list[Subtask]:
        """All subtasks, vertex by vertex; for a region that is down, the cancelled subtasks."""
        return [subtask for vertex in self.builder.subtasks for subtask in vertex]

    @property
    def present(self) -> Iterator[Subtask]:
        """The subtasks that are not cancelled."""
        return (each for each in self.subtasks if not self.is_down(self._numbers[each.vertex, each.index]))

    @property
    def sources(self) -> Iterator[SourceSubtask]:
        """The subtasks of sources that are not cancelled."""
        return (each for each in self.present if isinstance(each, SourceSubtask))

    def samples(self) -> list[SubtaskSample]:
        """Return the current figures of each subtask; zeros for cancelled subtasks."""
        return self._samples_of(self.present)

    def _samples_of(self, subtasks: Iterable[Subtask]) -> list[SubtaskSample]:
        """Return the figures of some subtasks, and zeros for all others, vertex by vertex."""
        samples = {subtask: subtask.sample() for subtask in subtasks}
        return [samples.get(subtask, NOTHING_RUNS) for subtask in self.subtasks]

    def times(self) -> list[tuple[float, float, float]]:
        """Return the busy, idle and back-pressured seconds of each subtask; 0 for cancelled subtasks."""
        now = self._agenda.now
        present = {subtask: subtask.times.until(now) for subtask in self.present}
        return [present.get(subtask, (0.0, 0.0, 0.0)) for subtask in self.subtasks]

    @property
    def over(self) -> bool:
        """Whether all subtasks have ended."""
        whole = not any(region.down for region in self._regions)
        return whole and all(subtask.ended for subtask in self.subtasks)

    @property
    def links(self) -> Mapping[tuple[str, str], EmulatedLink]:
        """The links, by the task managers of producer and consumer."""
        return self.builder.connections.links

    def channels_into(self, task: TaskKey) -> list[InputChannel]:
        """Return the channels that a subtask reads, gate by gate."""
        subtask = self.builder.subtasks[task[0]][task[1]]
        gates = subtask.gates if isinstance(subtask, OperatorSubtask) else []
        return [channel for gate in gates for channel in gate.channels]

    def begin(self, source: RecoverySource | None) -> None:
        """Start all tasks, with the state of a checkpoint or, if `source` is None, with empty state.

        Reading the state takes emulated time.

        Raises:
            StorageError: if the state cannot be read.
        """
        for number in range(len(self._regions)):
            self.begin_region(number, source)

    def begin_region(self, number: int, source: RecoverySource | None) -> list[SubtaskRecovery]:
        """Start the tasks of a region, as `begin` does, and return the state that they restore."""
        region, tasks, now = self._regions[number], self.tasks_of(number), self._agenda.now
        rate = self.scenario.costs.download_rate_bytes_per_s
        recoveries: list[SubtaskRecovery] = []
        if source is not None:
            region.recovering = len(tasks)
            for subtask in tasks:
                recoveries.append(source.of(subtask.name, subtask.index))
                subtask.on_running = partial(self._subtask_running, number)
                subtask.recover(recoveries[-1])
        self._start_timers(tasks)
        if source is None:
            self._on_running(number)
            self.builder.open_channels(region.tasks)
        region.started = True
        self.running += len(tasks)
        for place, subtask in enumerate(tasks):
            subtask.times.begin(now)
            if source is None:
                self._start(subtask)
            else:
                region.environment.scope.after(recoveries[place].snapshot.size / rate, self._start, subtask)
        return recoveries

    def _subtask_running(self, number: int) -> None:
        region = self._regions[number]
        region.recovering -= 1
        if region.recovering == 0:
            self._on_running(number)

    def change(self, scenario: Scenario, change: ScheduledChange) -> None:
        """Apply the settings of `scenario`, which `change` has altered, to the running tasks."""
        debloated = self.scenario.config.debloat_enabled
        self.scenario = scenario
        config = scenario.config
        for region in self._regions:
            region.environment = region.environment._replace(config=config)
        self.builder.change(scenario, change)
        for subtask in self.present:
            subtask.environment = subtask.environment._replace(config=config)
            if isinstance(subtask, OperatorSubtask) and config.takes_unaligned_checkpoints:
                subtask.barriers.persist_data()
        if config.debloat_enabled != debloated:
            self._debloating += 1
            if config.debloat_enabled:
                for subtask in self.present:
                    self._start_debloating(subtask)

    def _start(self, subtask: Subtask) -> None:
        # The agenda steps the subtask directly: a routine around it would cost one more call per step.
        scope = subtask.environment.scope
        scope.start(subtask.begin(), f"subtask {subtask}", partial(self._ended, subtask))

    def _ended(self, subtask: Subtask) -> None:
        subtask.ended = True
        subtask.times.end(self._agenda.now)
        self.running -= 1
        self._on_end(subtask)

    def _start_timers(self, tasks: list[Subtask]) -> None:
        """Start the flush timers of all partitions and the debloating timers of all tasks."""
        config, now = self.scenario.config, self._agenda.now
        for subtask in tasks:
            scope = subtask.environment.scope
            if subtask.on_opening is not None:
                subtask.on_opening()
            timeout = config.buffer_timeout_s
            if timeout:  # 0: the partition flushes by itself
                for output in subtask.outputs:
                    phase = self._randomness.between((0.0, timeout), "flush", str(subtask))
                    scope.at(now + phase, self._flush, subtask, output.partition.flush, timeout)
            if config.debloat_enabled:
                self._start_debloating(subtask)

    def _flush(self, subtask: Subtask, flush: Callable[[], None], timeout: float) -> None:
        """Flush, then schedule the next flush after `timeout` and a small random delay."""
        flush()
        late = self.scenario.costs.oversleep_s * self._randomness.between((0.5, 1.5), "flush", str(subtask))
        subtask.environment.scope.after(timeout + late, self._flush, subtask, flush, timeout)

    def _start_debloating(self, subtask: Subtask) -> None:
        """Start to recalculate buffer sizes periodically, at a random phase, if the subtask reads buffers."""
        if isinstance(subtask, OperatorSubtask):
            period, now = self.scenario.config.debloat_period_s, self._agenda.now
            first = now + period + self._randomness.between((0.0, period), "debloat", str(subtask))
            subtask.environment.scope.at(first, self._post_debloat, subtask, self._debloating)

    def _post_debloat(self, subtask: OperatorSubtask, since: int) -> None:
        if not subtask.ended and since == self._debloating:
            subtask.post(partial(self._debloat, subtask, since))

    def _debloat(self, subtask: OperatorSubtask, since: int) -> None:
        subtask.debloat()
        period = self.scenario.config.debloat_period_s
        subtask.environment.scope.after(period, self._post_debloat, subtask, since)

    def cancel_region(self, number: int) -> list[SubtaskSample]:
        """Cancel the tasks of a region and release their resources; returns the figures of these tasks.

        The result contains zeros for the tasks of other regions, which keep running. Messages of the region
        that are in transit on shared connections are dropped on arrival.
        """
        region, tasks = self._regions[number], self.tasks_of(number)
        samples = self._samples_of(tasks)
        region.down = True
        region.environment.scope.close()
        if region.started:
            self.running -= sum(not subtask.ended for subtask in tasks)
        for subtask in tasks:
            subtask.cancel()
        self.builder.remove(region.tasks)
        for subtask in reversed(tasks):
            subtask.release()
        return samples

    def rebuild_region(self, number: int, first_checkpoint: int) -> Scope:
        """Create the tasks of a region again; the caller then calls `begin_region`.

        `first_checkpoint`: id of the first checkpoint in which these tasks may take part. Returns the scope
        for their callbacks and routines.
        """
        region = self._regions[number]
        region.down = region.started = False
        environment = _with_own_scope(region.environment)
        region.environment = environment._replace(first_checkpoint=first_checkpoint)
        self.builder.rebuild(region.tasks)
        return environment.scope

    def short_of_memory(self) -> list[str]:
        """Return the task managers where rebuilt tasks lack exclusive buffers, because other tasks still use
        them.
        """
        return [name for name, pool in self.builder.pools.items() if pool.owed]

    @property
    def work(self) -> Work:
        """Totals of all links so far; a record counts when its service is finished."""
        consumers, producers = self.builder.connections.consumers, self.builder.connections.producers
        return Work(
            buffers=sum(consumer.buffers for consumer in consumers),
            records=sum(s.records_in for s in self.present if isinstance(s, OperatorSubtask)),
            bytes=sum(consumer.bytes for consumer in consumers),
            messages=sum(end.messages for ends in (producers, consumers) for end in ends),
        )

    def release(self, *, final: bool) -> None:
        """Release everything, even after an error.

        Checkpoints are released before connections, so that the loss of a connection cannot complete a
        checkpoint. `final`: whether the job ends. If not, buffers that one channel releases are offered to
        other channels, which draws random numbers that the next attempt depends on.
        """
        with ExitStack() as stack:
            if final:
                for pool in self.builder.pools.values():
                    stack.enter_context(pool.batch())
            for consumer in self.builder.connections.consumers:
                stack.callback(consumer.release)  # after its channels, which are then not offered its segment
            for subtask in self.present:
                stack.callback(subtask.release)
            for producer in self.builder.connections.producers:
                stack.callback(producer.close)
            for subtask in self.present:
                stack.callback(subtask.checkpoints.release)
            if final:
                for gate in self.builder.gates:
                    gate.abandon()

    @property
    def leaked_segments(self) -> int:
        """Number of segments that have not been returned to their pool."""
        return sum(pool.total - pool.free for pool in self.builder.pools.values())


def _with_own_scope(environment: Environment) -> Environment:
    return environment._replace(scope=Scope(environment.agenda))
