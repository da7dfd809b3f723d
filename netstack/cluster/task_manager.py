"""One process of a job: runs the subtasks of one task manager, from the first connection to the report.

::

    build the subtasks -> Ready -> ... Start -> at that moment, in all processes: open the tasks
                                                    |  the agenda steps them, the links serve the network
    report <- links close in order <----------------+  until the time is over, all have ended, or one fails

One failure ends all processes: a process that fails sends the cause to its peers and stops. Each report
contains the distance of the failure from its cause (`Blame`), so the first cause is found by comparing the
reports.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from math import ceil
from time import monotonic, time

import numpy as np
import trio
from msgspec.structs import astuple, replace

from flowcontrol import RemoteProtocolError

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.metadata import CheckpointMetadata
from ..checkpoints.recovery import UNUSABLE, InitialCheckpoint, RecoverySource, fitted, unusable_text
from ..checkpoints.storage import CheckpointStorage
from ..engine.agenda import Agenda
from ..engine.agenda_loop import run_agenda
from ..engine.cancellation import Scope
from ..engine.randomness import Randomness
from ..errors import PeerFailedError, StorageError, TransportError
from ..exchange.tcp_link import TcpLink
from ..jobs.attempt import Attempt
from ..jobs.build import Find, Site
from ..jobs.job import SAMPLE_INTERVAL_S, rescaling_of
from ..results.recorder import FiredFault, Table
from ..results.trace import TraceLog
from ..scenarios.checkpointed_shape import shape_of
from ..scenarios.faults import AtTime, Fault, KillSubtask, KillTaskManager
from ..state.table_store import TableStores
from ..tasks.source_log import LogSpan, SourceLog, SourceLogs, pace_of
from ..tasks.source_subtask import SourceSubtask
from ..tasks.subtask import Subtask
from ..tasks.subtask_environment import Environment
from ..tcp.pipe import ConnectionLimits, Stream
from .control_messages import (
    Aborted,
    Completed,
    Control,
    DistantCoordinator,
    Ready,
    Running,
    Start,
    Stop,
    ToTask,
    TriggerCheckpoint,
    decode_control,
    deliver,
    encode_control,
)
from .distributed_scenario import task_managers, with_real_costs
from .leader import LEADER, Leader
from .orders_and_reports import COLUMNS, Assignment, Blame, Failure, FilledLog, Report
from .tcp_connections import TcpConnections

__all__ = ["run_task_manager"]

_log = logging.getLogger("netstack.cluster")


async def run_task_manager(
    assignment: Assignment,
    index: int,
    streams: Mapping[int, Stream],
    storage: CheckpointStorage,
    initial: CheckpointStorage | None = None,
    tables: TableStores | None = None,
    on_start: Callable[[float], None] | None = None,
) -> Report:
    """Run the subtasks of task manager `index`; `streams` are the connections to the other task managers.

    `Mesh.connect` returns `streams`, and this function closes them. All processes share `storage` and
    `initial`. `initial` holds the checkpoint of an earlier run from which the job may begin. The function
    returns when the attempt has ended in this process, failed or not. After a cancellation nothing is left
    open. A peer that is silent for longer than ``heartbeat.timeout`` counts as lost.
    `tables` opens stores for keyed state. `on_start` is called with the start of the run, in seconds of the
    wall clock.
    """
    scenario = assignment.scenario
    names = task_managers(scenario)
    limits = ConnectionLimits(keep_alive_s=scenario.config.heartbeat_timeout_s)
    links = {
        peer: TcpLink(stream, limits, f"task manager {names[peer]} (task {peer})")
        for peer, stream in streams.items()
    }
    source = storage if initial is None or not assignment.from_initial else initial
    return await _Process(assignment, index, links, storage, source, tables, on_start).run()


class _Process:
    def __init__(
        self,
        assignment: Assignment,
        index: int,
        links: Mapping[int, TcpLink],
        storage: CheckpointStorage,
        restores_from: CheckpointStorage,
        tables: TableStores | None,
        on_start: Callable[[float], None] | None,
    ) -> None:
        self._on_start = on_start
        self._scenario = scenario = with_real_costs(assignment.scenario)
        self._assignment = assignment
        self._index = index
        self._links = links
        self._clock = RunClock(assignment.origin)
        self._agenda = Agenda(clock=self._clock)
        self._trace = TraceLog()
        self._logs = source_logs(assignment)
        self._environment = Environment(
            agenda=self._agenda,
            scope=Scope(self._agenda),
            costs=scenario.costs,
            config=scenario.config,
            randomness=Randomness(scenario.seed, scenario.costs.jitter_sigma),
            coordinator=DistantCoordinator(partial(self._send, LEADER)),
            storage=storage,
            source_logs=self._logs,
            trace=self._trace if assignment.traced else None,
            tables=tables,
            first_checkpoint=assignment.first_checkpoint,
            judged_by=assignment.scenario.costs,
        )
        self._name = task_managers(scenario)[index]
        self._attempt = Attempt(
            scenario,
            self._environment,
            on_running=lambda region: self._send(LEADER, Running()),
            on_end=self._environment.coordinator.finished,
            site=Site(self._name, self._connect),
        )
        self._leader: Leader | None = None
        self._restores_from = restores_from
        self._source: RecoverySource | None = None
        self._sampler = Sampler(self._agenda, self._attempt)
        self._stalls = Stalls(self._agenda)
        self._fired: list[FiredFault] = []
        self._started, self._over = trio.Event(), False
        self._failure: Failure | None = None
        self._begins_at: float | None = None
        self._opened = False
        self._behind_s: float | None = None

    def _connect(self, find: Find) -> TcpConnections:
        names = task_managers(self._scenario)
        links = {names[peer]: link for peer, link in self._links.items()}
        self._connections = TcpConnections(
            links, self._agenda, find, self._scenario.config.request_backoff_max_s
        )
        return self._connections

    async def run(self) -> Report:
        """Take part in the attempt until it ends."""
        try:
            async with trio.open_nursery() as nursery:
                for peer, link in self._links.items():
                    link.incoming.on_control = partial(self._hear, peer)
                self._prepare()
                for link in self._links.values():
                    nursery.start_soon(self._serve, link)
                await self._work()
                self._connections.finish()
            report = self._report()
        finally:
            if self._leader is not None:
                self._leader.end(failed=True)
            self._attempt.release(final=True)
        return replace(report, leaked_segments=self._attempt.leaked_segments, logs=self._filled_logs())

    def _prepare(self) -> None:
        """Build all subtasks and connections before messages can arrive for them."""
        restore, storage = self._assignment.restore, self._restores_from
        try:
            metadata = None
            if restore is not None:
                metadata = fitted(storage.load(restore), shape_of(self._scenario), storage)
            initial = self._initial_of(metadata)
            if metadata is not None:
                owned = initial is None or initial.shares_files
                rescaling = rescaling_of(self._scenario, metadata)
                self._source = RecoverySource(metadata, storage, owned=owned, rescaling=rescaling)
            if self._index == LEADER:
                self._leader = Leader(
                    self._assignment,
                    self._environment,
                    self._clock,
                    restored=metadata,
                    initial=initial,
                    send=self._send,
                    fail=self._fail,
                )
            self._attempt.builder.build({} if self._source is None else self._source.max_parallelism)
        except StorageError as error:
            self._cannot_restore(error)
        except Exception as error:
            self._fail_with(error)

    def _initial_of(self, metadata: CheckpointMetadata | None) -> InitialCheckpoint | None:
        """Return the attempt's initial checkpoint if it belongs to another run, else None."""
        terms = self._assignment
        if metadata is None or not terms.from_initial:
            return None
        return InitialCheckpoint(
            metadata,
            storage=self._restores_from,
            path=f"checkpoint {metadata.checkpoint_id}",
            next_id=terms.first_checkpoint,
            claim_mode=terms.claim_mode,
            in_place=terms.in_place,
        )

    async def _work(self) -> None:
        if not self._over:
            self._send(LEADER, Ready())
        await self._started.wait()
        if self._begins_at is not None:
            await trio.sleep(max(0.0, self._begins_at - self._clock()))
        try:
            await run_agenda(self._agenda)
        except Exception as error:
            self._fail_with(error)

    async def _serve(self, link: TcpLink) -> None:
        """Serve a connection until both sides have finished."""
        try:
            await link.run()
        except PeerFailedError as error:
            self._fail(error.problem, Blame.PEER_REPORTED)
        except TransportError as error:
            self._fail(str(error), Blame.PEER_LOST)
        except RemoteProtocolError as error:
            self._fail(f"{link.peer} broke the protocol: {error}")
        except Exception as error:
            self._fail_with(error)

    def _send(self, process: int, message: Control) -> None:
        if process == self._index:
            self._handle(process, message)
        elif not self._over:
            self._links[process].send_control(encode_control(message))

    def _hear(self, peer: int, payload: bytes) -> None:
        self._agenda.external(self._handle, peer, decode_control(payload))

    def _handle(self, sender: int, message: Control) -> None:
        if self._over:
            return
        match message:
            case Start():
                self._start(message)
            case Stop():
                self._stop()
            case TriggerCheckpoint() | Completed() | Aborted():
                self._deliver(message)
            case _ if self._leader is not None:
                self._leader.receive(sender, message)
            case _:
                raise RemoteProtocolError(
                    f"{type(message).__name__} must be sent to the leader, task {LEADER}"
                )

    def _start(self, start: Start) -> None:
        self._clock.start(start.origin)
        if self._on_start is not None:
            self._on_start(start.origin)
        self._begins_at = start.begins_at
        self._agenda.at(start.begins_at, self._open)
        self._sampler.start(start.begins_at)
        self._stalls.start(start.begins_at)
        for fault in self._scenario.faults:
            when = fault.when
            if isinstance(when, AtTime) and when.time_s >= start.begins_at and self._tasks_hit_by(fault):
                self._agenda.at(when.time_s, self._fire, fault)
        self._agenda.at(self._scenario.duration_s, self._stop)
        self._started.set()

    def _tasks_hit_by(self, fault: Fault) -> list[Subtask]:
        if isinstance(fault, KillSubtask):
            hit = fault.subtask.vertex, fault.subtask.subtask
            return [each for each in self._attempt.subtasks if (each.name, each.index) == hit]
        is_own = isinstance(fault, KillTaskManager) and fault.task_manager == self._name
        return self._attempt.subtasks if is_own else []

    def _fire(self, fault: Fault) -> None:
        """Fail with the fault as the cause. The process survives and reports, as after other failures."""
        self._fired.append(FiredFault(self._agenda.now, fault.kind, str(fault)))
        if not all(subtask.ended for subtask in self._tasks_hit_by(fault)):
            self._fail(str(fault))

    def _open(self) -> None:
        self._opened = True
        try:
            self._attempt.begin(self._source)
        except UNUSABLE as error:
            self._cannot_restore(error)

    def _cannot_restore(self, error: Exception) -> None:
        assert self._assignment.restore is not None
        self._fail(unusable_text(self._assignment.restore, error, last=False), unrestorable=True)

    def _deliver(self, message: ToTask) -> None:
        vertex, index = message.task
        try:
            subtask: Subtask = self._attempt.builder.subtasks[vertex][index]
        except IndexError:
            raise RemoteProtocolError(
                f"a message arrived for subtask {message.task}, which does not run in task {self._index}"
            ) from None
        if not subtask.ended:
            deliver(message, subtask)

    def _stop(self) -> None:
        """End the attempt in this process."""
        self._over = True
        if self._behind_s is None:
            self._behind_s = self._behind()
        self._sampler.sample()
        self._agenda.stop()
        self._started.set()

    def _behind(self) -> float | None:
        """Return the lag of this process behind the wall clock, which is the largest lag of its tasks."""
        if not self._opened:
            return None
        tasks = [task.behind_s(self._stalls.total_s) for task in self._attempt.subtasks]
        return max((behind for behind in tasks if behind is not None), default=None)

    def _fail_with(self, error: Exception) -> None:
        """Handle an error of this process: log it with its traceback, and report it to all others."""
        _log.error("task manager %s failed", self._name, exc_info=error)
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        where = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        self._fail(f"{type(error).__name__}: {error}{where}")

    def _fail(self, cause: str, blame: Blame = Blame.OWN, *, unrestorable: bool = False) -> None:
        """End the attempt as failed.

        Later calls have no effect, since later failures follow from the first.
        """
        if not self._over:
            self._over = True
            self._failure = Failure(cause, self._clock(), blame, unrestorable)
            for link in self._links.values():
                link.fail(cause)
            self._agenda.external(self._stop)

    def _report(self) -> Report:
        leader, self._leader = self._leader, None
        return Report(
            index=self._index,
            origin=self._clock.origin,
            begins_at=self._begins_at,
            ended_at=self._agenda.now,
            failure=self._failure,
            subtasks=self._sampler.subtasks,
            samples=self._sampler.data,
            work=self._attempt.work,
            behind_s=self._behind_s,
            running_at=None if leader is None else leader.running_at,
            checkpoints=[] if leader is None else leader.end(failed=self._failure is not None),
            faults=self._fired,
            trace=list(self._trace),
        )

    def _filled_logs(self) -> list[FilledLog]:
        """Return the logs that the subtasks of this process have left."""
        tasks = [task for task in self._attempt.subtasks if isinstance(task, SourceSubtask)]
        logs = [((task.vertex, task.index), self._logs.of(task.vertex, task.index)) for task in tasks]
        return [FilledLog(key, log.latest.since_s, log.latest.first) for key, log in logs if log.spans]


def source_logs(assignment: Assignment) -> SourceLogs:
    """Return the logs of the source subtasks of an attempt."""
    logs = dict[TaskKey, SourceLog]()
    for (number, index), since_s, first in map(astuple, assignment.logs):
        vertex = assignment.scenario.vertices[number]
        rate = vertex.rate(index)
        logs[number, index] = SourceLog([LogSpan(since_s, first, rate, pace_of(vertex, rate))])
    return SourceLogs(logs)


class RunClock:
    """The clock of a run: a call returns the seconds since its tasks opened, the same in each process.

    `origin`: start of the run on the wall clock, in seconds. It is None, and the clock stays at 0, until all
    processes have agreed on it. After that, each process follows its own monotonic clock, which corrections
    of the wall clock do not affect. On one machine the times of the processes agree to microseconds. On
    several machines they agree as closely as the wall clocks of these machines. A start delay measured
    between two machines has the same accuracy.
    """

    def __init__(self, origin: float | None = None) -> None:
        self._wall_at_zero = time() - monotonic()
        self._began: float | None = None
        if origin is not None:
            self.start(origin)

    def __call__(self) -> float:
        """Return the seconds since the start of the run."""
        return 0.0 if self._began is None else monotonic() - self._began

    def start(self, origin: float) -> None:
        """Set the start of the run on the wall clock, which may be in the future."""
        self._began = origin - self._wall_at_zero

    @property
    def origin(self) -> float | None:
        """The start of the run on the wall clock."""
        return None if self._began is None else self._began + self._wall_at_zero

    @property
    def wall_time(self) -> float:
        """Current time of the wall clock, without corrections made since the process started."""
        return self._wall_at_zero + monotonic()


CHECK_EVERY_S = 0.005
"""Time between two checks for delays, in seconds; delays shorter than this may be missed."""

LEAST_DELAY_S = 0.002
"""Minimum delay that counts, in seconds.

Shorter delays are normal: a sleeping process wakes a millisecond late, and other entries may run first.
"""


class Stalls:
    """Measures the delays in which this process waited for a processor; `total_s` is their sum in seconds.

    During such a delay, other processes may have waited for this one. To measure them, a small entry is put
    on `agenda` every few milliseconds; its lateness is the delay.
    """

    def __init__(self, agenda: Agenda) -> None:
        self.total_s = 0.0
        self._agenda = agenda

    def start(self, at: float) -> None:
        """Begin measuring at time `at` of the run."""
        self._agenda.at(at, self._measure, at)

    def _measure(self, due: float) -> None:
        now = self._agenda.now
        if now - due > LEAST_DELAY_S:
            self.total_s += now - due
        self.start(now + CHECK_EVERY_S)


MOST_SAMPLES = 1 << 15
"""Maximum number of rows that a process keeps.

A full table drops every second row (see `recorder.Table`). The limit does not depend on the number of
subtasks, so all processes drop the same rows.
"""


class Sampler:
    """Takes samples of the subtasks of `attempt`, beginning with `start`."""

    def __init__(self, agenda: Agenda, attempt: Attempt) -> None:
        self.subtasks = 0
        self._agenda = agenda
        self._attempt = attempt
        self._table: Table | None = None

    def start(self, begins_at: float) -> None:
        """Take a sample at every whole second from `begins_at` on."""
        self.subtasks = len(self._attempt.subtasks)
        table_bytes = MOST_SAMPLES * 8 * COLUMNS * self.subtasks
        self._table = Table(COLUMNS, self.subtasks, table_bytes=table_bytes)
        self._sample_at(ceil(begins_at / SAMPLE_INTERVAL_S))

    def _sample_at(self, number: int) -> None:
        self._agenda.at(number * SAMPLE_INTERVAL_S, self._periodically, number)

    def _periodically(self, number: int) -> None:
        self.sample()
        self._sample_at(number + 1)

    def sample(self) -> None:
        """Take a sample now."""
        if self._table is not None:
            now = self._agenda.now
            rows = [(now, *subtask.sample()) for subtask in self._attempt.subtasks]
            self._table.append(np.array(rows, dtype=np.float64).T)

    @property
    def data(self) -> bytes:
        """All rows, in the format of `Report.samples`."""
        return b"" if self._table is None else self._table.rows.tobytes()
