"""One attempt to run a job: opens the tasks, lets them work, and takes everything back.

The first attempt begins empty. Later ones begin with the state of a checkpoint: what was in flight is put
back first, and checkpoints go on when every task has read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from ..checkpoints.recovery import RecoverySource
from ..engine.agenda import Agenda
from ..engine.randomness import Randomness
from ..exchange.emulated_link import EmulatedLink
from ..results.result import Work
from ..scenarios.scenario import Scenario
from ..tasks.environment import Environment
from ..tasks.operator_subtask import OperatorSubtask
from ..tasks.subtask import Subtask
from ..tasks.time_account import TimeAccount
from .build import JobBuilder, Watched
from .connections import Site


class Attempt:
    """The subtasks of one attempt, with their memory and connections: all, or those at a `site`.

    `on_running` is called when all tasks run, `on_end` with each subtask that has ended.
    """

    def __init__(
        self,
        scenario: Scenario,
        environment: Environment,
        watched: Watched,
        on_running: Callable[[], None],
        on_end: Callable[[Subtask], None],
        site: Site | None = None,
    ) -> None:
        self.scenario = scenario
        self.builder = JobBuilder(scenario, environment, watched, site)
        self.running = 0
        self._agenda: Agenda = environment.agenda
        self._randomness: Randomness = environment.randomness
        self._on_running = on_running
        self._on_end = on_end
        self._recovering = 0

    @property
    def subtasks(self) -> list[Subtask]:
        """All subtasks, vertex by vertex."""
        return [subtask for vertex in self.builder.subtasks for subtask in vertex]

    @property
    def over(self) -> bool:
        """Whether all subtasks have ended."""
        return all(subtask.ended for subtask in self.subtasks)

    @property
    def links(self) -> Mapping[tuple[str, str], EmulatedLink]:
        """The links, by the producer's and the consumer's task manager."""
        return self.builder.connections.links

    def open(self) -> None:
        """Begin with nothing."""
        self._start_timers()
        self._on_running()
        self.builder.open_channels()
        self._start_subtasks()

    def recover(self, source: RecoverySource) -> None:
        """Begin with the state of a checkpoint, which takes the time that reading it takes.

        Raises:
            StorageError: if it cannot be read.
        """
        rate = self.scenario.costs.download_rate_bytes_per_s
        self._recovering = len(self.subtasks)
        delays = []
        for subtask in self.subtasks:
            recovery = source.of(subtask.name, subtask.index)
            subtask.on_running = self._subtask_running
            subtask.recover(recovery)
            delays.append(recovery.bytes / rate)
        self._start_timers()
        self._start_subtasks(delays)

    def _subtask_running(self) -> None:
        self._recovering -= 1
        if self._recovering == 0:
            self._on_running()

    def _start_subtasks(self, delays: list[float] | None = None) -> None:
        subtasks = self.subtasks
        self.running = len(subtasks)
        for number, subtask in enumerate(subtasks):
            subtask.times = TimeAccount(self._agenda.now)  # they may have waited for others to be built
            if delays is None:
                self._start(subtask)
            else:
                self._agenda.after(delays[number], self._start, subtask)

    def _start(self, subtask: Subtask) -> None:
        # The agenda steps the subtask itself: one routine more around it would cost a call at each step.
        self._agenda.start(subtask.run(), f"subtask {subtask}", partial(self._ended, subtask))

    def _ended(self, subtask: Subtask) -> None:
        subtask.ended = True
        self.running -= 1
        self._on_end(subtask)

    def _start_timers(self) -> None:
        """Flushers of all partitions and debloating timers of all tasks, each with a phase of its own."""
        config, between, now = self.scenario.config, self._randomness.between, self._agenda.now
        for subtask in self.subtasks:
            if subtask.on_opening is not None:
                subtask.on_opening()
            timeout = config.buffer_timeout_s
            if timeout:  # 0: the partition flushes by itself
                for output in subtask.outputs:
                    phase = between((0.0, timeout))
                    self._agenda.at(now + phase, self._flush, output.partition.flush, timeout)
            if config.debloat_enabled and isinstance(subtask, OperatorSubtask):
                period = config.debloat_period_s
                self._agenda.at(now + period + between((0.0, period)), self._post_debloat, subtask)

    def _flush(self, flush: Callable[[], None], timeout: float) -> None:
        """Flush, then sleep for `timeout`, which like any sleep takes a little longer."""
        flush()
        late = self.scenario.costs.oversleep_s * self._randomness.uniform(0.5, 1.5)
        self._agenda.after(timeout + late, self._flush, flush, timeout)

    def _post_debloat(self, subtask: OperatorSubtask) -> None:
        if not subtask.ended:
            subtask.post(partial(self._debloat, subtask))

    def _debloat(self, subtask: OperatorSubtask) -> None:
        subtask.debloat()
        self._agenda.after(self.scenario.config.debloat_period_s, self._post_debloat, subtask)

    @property
    def work(self) -> Work:
        """What has moved over all links so far; records are those whose service is over."""
        consumers, producers = self.builder.connections.consumers, self.builder.connections.producers
        return Work(
            buffers=sum(consumer.buffers for consumer in consumers),
            records=sum(s.records_in for s in self.subtasks if isinstance(s, OperatorSubtask)),
            bytes=sum(consumer.bytes for consumer in consumers),
            messages=sum(end.messages for ends in (producers, consumers) for end in ends),
        )

    def release(self, *, final: bool) -> None:
        """Give everything back, connections first; an error of one does not keep the others.

        `final`: nothing of the job follows, so what one channel gives back is offered to no other. Otherwise
        it is: that draws random numbers, which decide what those are that the next attempt draws.
        """
        with ExitStack() as stack:
            if final:
                for manager in self.builder.task_managers.values():
                    stack.enter_context(manager.pool.batch())
            for subtask in self.subtasks:
                stack.callback(subtask.release)
            for producer in self.builder.connections.producers:
                stack.callback(producer.close)
            if final:
                for gate in self.builder.gates:
                    gate.abandon()

    @property
    def leaked_segments(self) -> int:
        """Segments that no pool has got back."""
        pools = [manager.pool for manager in self.builder.task_managers.values()]
        return sum(pool.total - pool.free for pool in pools)
