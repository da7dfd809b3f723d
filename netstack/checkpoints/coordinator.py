"""The checkpoint coordinator: triggers checkpoints, collects acknowledgements, keeps completed checkpoints.

::

    scheduler -> trigger -> pending --- all have acknowledged, metadata stored ---> completed
        ^                      \\--- declined, expired, subsumed, storage failed ---> failed
        |                                                                              |
        \\------------------------------------------------- tasks are notified <--------/

Control messages take time. A trigger reaches the first source after some milliseconds, and each further
source a little later. An acknowledgement takes some milliseconds too. A checkpoint waits for every subtask
that was running when it was triggered. The rules are those of Flink's CheckpointCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from flowcontrol import (
    CheckpointBarrier,
    CheckpointOptions,
    FailureReason,
    PostCheckpointAction,
)

from ..engine.agenda import Agenda, Timer
from ..engine.randomness import Randomness
from ..errors import StorageError
from ..results.trace import Trace, how, in_bytes, milliseconds
from ..scenarios.changes import ScheduledSavepoint
from ..scenarios.checkpointed_shape import JobShape
from ..scenarios.costs import CostModel
from ..scenarios.faults import ControlMessage
from ..scenarios.options import OPTIONS, NetworkConfig
from ..scenarios.scenario import Scenario
from ..state.handles import StoredFile
from .completed_store import CompletedCheckpointStore
from .control_plane import ControlPlane, TaskKey
from .metadata import CheckpointMetadata
from .pending_checkpoint import (
    Acknowledgement,
    Checkpoint,
    CheckpointedTask,
    FailureCounter,
    key_of,
)
from .recovery import InitialCheckpoint
from .savepoints import Savepoints
from .scheduler import CheckpointRequest, CheckpointScheduler, RequestKind
from .storage import CheckpointStorage


def options_of_barriers(config: NetworkConfig) -> CheckpointOptions:
    """Return the options for the barriers of a job (Flink's CheckpointOptions.forConfig)."""
    mode = config.barrier_mode
    return CheckpointOptions(mode.alignment, config.aligned_checkpoint_timeout_s if mode.times_out else None)


class CheckpointCoordinator:
    """Takes the checkpoints of one job, over all its attempts. Checkpoint ids increase across attempts.

    `on_end` is called with each checkpoint that was completed or has failed. `fail_job` is called with the
    cause when too many checkpoints have failed in a row. The coordinator does nothing after this call, so
    `fail_job` may call `stop`. If a task cannot continue, `fail_task` is called with the task and the cause;
    if `fail_task` is None, `fail_job` is called instead. The first checkpoint has the id `first_id`. `store`
    holds the completed checkpoints. It starts with the checkpoints in `stored`, which an earlier coordinator
    of the job has left, or with the checkpoint `initial` of another run.

    Savepoints are not in the store, since the job never restarts from them. Tasks are notified of a savepoint
    only if it stops the job. `stopped_with`: location of the completed savepoint that stops the job, or None.
    `next_id`: id of the next checkpoint or savepoint. `first_at`: time of the first periodic checkpoint;
    None: after a random part of the interval.
    """

    def __init__(
        self,
        *,
        agenda: Agenda,
        config: NetworkConfig,
        costs: CostModel,
        randomness: Randomness,
        job: JobShape,
        storage: CheckpointStorage,
        on_end: Callable[[Checkpoint], None],
        fail_job: Callable[[str], None],
        fail_task: Callable[[TaskKey, str], None] | None = None,
        first_id: int = 1,
        stored: Iterable[CheckpointMetadata] = (),
        initial: InitialCheckpoint | None = None,
        trace: Trace | None = None,
        first_at: float | None = None,
    ) -> None:
        self.stopped_with: str | None = None
        self.control_plane = ControlPlane(agenda)
        self.store = CompletedCheckpointStore(storage, config.retained_checkpoints, stored, initial)
        self._savepoints = Savepoints(storage, config)
        self._pending: dict[int, Checkpoint] = {}
        self._agenda = agenda
        self._config = config
        self._costs, self._randomness = costs, randomness
        self._job, self._on_end = job, on_end
        self._fail_job, self._fail_task = fail_job, fail_task
        self._trace = trace
        self._options = options_of_barriers(config)
        self._scheduler = CheckpointScheduler(
            agenda,
            config,
            randomness,
            pending=lambda: len(self._pending),
            trigger=self._trigger,
            first_at=first_at,
        )
        self._failures = FailureCounter(config.tolerable_failed_checkpoints)
        self._subtasks: list[CheckpointedTask] = []
        self.next_id = first_id
        self._stopping: ScheduledSavepoint | None = None  # the savepoint that the job is about to stop with
        self._timeout: Timer | None = None  # expiry of the oldest pending checkpoint
        # Shared files named in reports on incomplete checkpoints, including reports in transit.
        self._reported: dict[tuple[int, TaskKey], list[StoredFile]] = {}

    @property
    def pending(self) -> list[Checkpoint]:
        """The pending checkpoints, oldest first."""
        return list(self._pending.values())

    @property
    def latest_completed(self) -> CheckpointMetadata | None:
        """The checkpoint to restart from; None before the first."""
        return self.store.latest

    def start(self, subtasks: Sequence[CheckpointedTask]) -> None:
        """Begin an attempt."""
        self._subtasks = list(subtasks)
        self._scheduler.start()

    def change(self, config: NetworkConfig) -> None:
        """Apply new settings; for pending checkpoints only the timeout changes."""
        self._config, self._options = config, options_of_barriers(config)
        self._scheduler.change(config)
        self._stop_timeout()
        self._watch_timeout()

    def stop(self, reason: FailureReason = FailureReason.COORDINATOR_SUSPEND) -> None:
        """End an attempt whose tasks have been cancelled.

        Pending checkpoints fail with `reason`; no messages are sent.
        """
        for checkpoint in self._drop_all():
            checkpoint.failure, checkpoint.ended_at = reason, self._agenda.now
            self._say(f"checkpoint {checkpoint.checkpoint_id} failed: {reason}", checkpoint.checkpoint_id)
            self._on_end(checkpoint)

    def suspend(self, gone: Collection[TaskKey]) -> None:
        """Suspend checkpoints until `start` is called, because the tasks in `gone` are cancelled.

        All pending checkpoints fail, and no new ones begin. Messages from and to the cancelled tasks are
        dropped.
        """
        self._subtasks = [subtask for subtask in self._subtasks if key_of(subtask) not in gone]
        self._report_refused(self._scheduler.stop())
        self.control_plane.reset(gone)
        for checkpoint in self.pending:
            self._fail(checkpoint, FailureReason.COORDINATOR_SUSPEND)
        self._discard_reports({number for number, task in self._reported if task in gone})

    def release(self) -> None:
        """Shut down: delete the files of pending checkpoints, whose status stays IN_PROGRESS."""
        self._drop_all()

    def schedule(self, scenario: Scenario, since_s: float = 0.0) -> None:
        """Schedule the checkpoints and savepoints that users request in a scenario, from a time on."""
        for at in scenario.manual_checkpoints_s:
            if at >= since_s:
                self._agenda.keep(at, self.request_checkpoint)
        for savepoint in scenario.savepoints:
            if savepoint.at_s >= since_s:
                self._agenda.keep(savepoint.at_s, self.request_savepoint, savepoint)

    def request_checkpoint(self) -> None:
        """Request a checkpoint for a user.

        The checkpoint is triggered as soon as the number of pending checkpoints allows. The request is
        refused between two attempts of the job, and when too many requests are queued.
        """
        refused = self._scheduler.request(RequestKind.USER)
        if refused is not None:
            self._say(f"a user's request for a checkpoint is rejected: {refused}")

    def request_savepoint(self, request: ScheduledSavepoint) -> None:
        """Request a savepoint for a user. If it stops the job, no other checkpoints are taken meanwhile.

        Savepoints have priority over other requests. The request is refused between two attempts of the job,
        and while the job stops with another savepoint.
        """
        refused: str | None = None
        drains = request.action is PostCheckpointAction.TERMINATE
        if self._stopping is not None:
            refused = "the job already stops with another savepoint"
        elif drains and not self._config.checkpoints_after_tasks_finish:
            refused = f"draining requires {OPTIONS['checkpoints_after_tasks_finish'].name}"
        else:
            if request.action is not PostCheckpointAction.NONE:
                self._stopping = request
                self._report_refused(self._scheduler.suspend())
            refused = self._scheduler.request(RequestKind.SAVEPOINT, request)
        if refused is not None:
            self._savepoint_failed(request, refused)

    def _report_refused(self, requests: Iterable[CheckpointRequest]) -> None:
        reason = FailureReason.COORDINATOR_SUSPEND
        for request in requests:
            if request.savepoint is not None:
                self._savepoint_failed(request.savepoint, reason)
            elif not request.periodic:
                self._say(f"a user's request for a checkpoint is rejected: {reason}")

    def _savepoint_failed(self, request: ScheduledSavepoint, problem: str) -> None:
        """Add a failed request to the trace. If the savepoint was to stop the job, the job continues."""
        self._say(f"the requested savepoint failed: {problem}")
        if self._stopping is request:
            self._stopping = None
            self._scheduler.resume()

    def acknowledge(self, subtask: CheckpointedTask, report: Acknowledgement) -> None:
        """Send the report of a subtask that has taken its snapshot.

        The report reaches the coordinator after the delay of a control message.
        """
        task, costs = key_of(subtask), self._costs
        in_flight = report.part.unaligned or report.snapshot.persisted_bytes
        delay = self._randomness.between(
            costs.ack_unaligned_s if in_flight else costs.ack_s, "acknowledgement", self._name(subtask)
        )
        delay += report.snapshot.inline_log_bytes / costs.ack_rate_bytes_per_s
        shared = [file for file in report.snapshot.new_files if file.shared]
        if shared or report.checkpoint_id not in self._pending:
            self._reported[report.checkpoint_id, task] = shared
        self.control_plane.send(ControlMessage.ACKNOWLEDGE, task, delay, self._acknowledged, subtask, report)

    def decline(
        self, subtask: CheckpointedTask, checkpoint_id: int, reason: FailureReason, detail: str = ""
    ) -> None:
        """Report that a subtask has declined a checkpoint; the checkpoint fails when the message arrives."""
        delay = self._randomness.between(self._costs.ack_s, "acknowledgement", self._name(subtask))
        who = f"declined by {self._name(subtask)}" + (f" ({detail})" if detail else "")
        self.control_plane.send(
            ControlMessage.DECLINE, key_of(subtask), delay, self._declined, checkpoint_id, reason, who
        )

    def discard_unused(self, files: Iterable[StoredFile]) -> None:
        """Delete those of the given files that no retained checkpoint uses."""
        self.store.delete_unused(files)

    def fail_task(self, subtask: CheckpointedTask, cause: str) -> None:
        """Fail a subtask that cannot continue, and with it its region or the job."""
        text = f"{self._name(subtask)}: {cause}"
        if self._fail_task is None:
            self._fail_job(text)
        else:
            self._fail_task(key_of(subtask), text)

    def finished(self, subtask: CheckpointedTask) -> None:
        """Record that a subtask has ended.

        Pending checkpoints that the subtask has not begun can no longer be completed. A checkpoint that the
        subtask has begun still waits for the subtask's acknowledgement, which is in transit.
        """
        for checkpoint in self.pending:
            never_began = subtask.last_checkpoint < checkpoint.checkpoint_id
            if never_began and key_of(subtask) in checkpoint.first:
                self.decline(subtask, checkpoint.checkpoint_id, FailureReason.DECLINED_TASK_CLOSING)

    def _trigger(self, request: CheckpointRequest) -> None:
        running = [subtask for subtask in self._subtasks if not subtask.ended]
        some_ended = len(running) < len(self._subtasks)
        if not running or (some_ended and not self._config.checkpoints_after_tasks_finish):
            self._say(f"no checkpoint: {FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING}")
            if request.savepoint is not None:
                self._savepoint_failed(request.savepoint, FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING)
            return
        options = self._options
        if request.savepoint is not None:
            try:
                options = self._savepoints.options(request.savepoint, self.next_id)
            except StorageError as error:
                self._savepoint_failed(request.savepoint, str(error))
                return
        # The sources, and later all tasks without a running upstream task that could send a barrier.
        first = [subtask for subtask in running if all(task.ended for task in subtask.upstream)]
        checkpoint = Checkpoint(
            self.next_id,
            self._agenda.now,
            options,
            awaited=map(key_of, running),
            first=map(key_of, first),
            finished=[key_of(subtask) for subtask in self._subtasks if subtask.ended],
            request=request.savepoint,
        )
        self.next_id += 1
        self._pending[checkpoint.checkpoint_id] = checkpoint
        self._say(f"triggers {checkpoint.name}: {how(checkpoint.options)}", checkpoint.checkpoint_id)
        self._send_triggers(checkpoint, first)
        self._watch_timeout()

    def _send_triggers(self, checkpoint: Checkpoint, first: Sequence[CheckpointedTask]) -> None:
        barrier = CheckpointBarrier(checkpoint.checkpoint_id, checkpoint.triggered_at, checkpoint.options)
        delay = self._randomness.between(self._costs.trigger_s, "trigger")
        for subtask in first:
            self.control_plane.send(
                ControlMessage.TRIGGER, key_of(subtask), delay, subtask.trigger_checkpoint, barrier
            )
            delay += self._costs.trigger_per_source_s

    def _deadline(self, checkpoint: Checkpoint) -> float:
        return checkpoint.triggered_at + self._config.checkpoint_timeout_s

    def _watch_timeout(self) -> None:
        """Start the timer of the oldest pending checkpoint, which expires first, unless it is running."""
        if self._timeout is None and self._pending:
            first = next(iter(self._pending.values()))
            self._timeout = self._agenda.cancellable_at(self._deadline(first), self._expire)

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _expire(self) -> None:
        self._timeout = None
        for checkpoint in self.pending:
            # The failure of one checkpoint may have ended others.
            if checkpoint.checkpoint_id in self._pending and self._deadline(checkpoint) <= self._agenda.now:
                missing = f"acknowledgements missing: {len(checkpoint.awaited)}"
                self._fail(checkpoint, FailureReason.EXPIRED, missing)
        self._watch_timeout()

    def _acknowledged(self, subtask: CheckpointedTask, report: Acknowledgement) -> None:
        number = report.checkpoint_id
        checkpoint = self._pending.get(number)
        if checkpoint is None:
            late = f"the acknowledgement of {self._name(subtask)} comes too late, so its files are deleted"
            self._say(f"checkpoint {number}: {late}", number)
            if not self._savepoints.delete_late(number, report.snapshot.new_files):
                self.store.delete_unused(report.snapshot.new_files)
            self._reported.pop((number, key_of(subtask)), None)
        elif checkpoint.acknowledge(key_of(subtask), report, self._agenda.now) and not checkpoint.awaited:
            self._complete(checkpoint)

    def _complete(self, checkpoint: Checkpoint) -> None:
        """Complete a checkpoint that all tasks have acknowledged, and abort older pending checkpoints."""
        now, number = self._agenda.now, checkpoint.checkpoint_id
        metadata, savepoint = checkpoint.metadata(self._job, now), checkpoint.options.savepoint
        try:
            if savepoint is None:
                self.store.add(metadata)
            else:
                self._savepoints.complete(metadata, savepoint)
        except StorageError as error:
            self._fail(checkpoint, FailureReason.FINALIZE_FAILURE, str(error))
            return
        del self._pending[number]
        self._take_reports(number)
        checkpoint.ended_at = now
        self._failures.succeeded(number)
        took, size = milliseconds(metadata.duration_s), in_bytes(metadata.size)
        self._say(f"{checkpoint.name} is complete after {took}: {size}", number)
        self._on_end(checkpoint)
        if savepoint is None or savepoint.stops:
            for other in self.pending:
                if other.checkpoint_id < number and other.request is None:
                    self._fail(other, FailureReason.SUBSUMED)
            self._notify_tasks(ControlMessage.COMPLETED, number)
        if savepoint is not None and savepoint.stops:
            self.stopped_with = savepoint.location
        self._scheduler.ended()

    def _declined(self, checkpoint_id: int, reason: FailureReason, who: str) -> None:
        checkpoint = self._pending.get(checkpoint_id)
        if checkpoint is not None:
            self._fail(checkpoint, reason, who)

    def _fail(self, checkpoint: Checkpoint, reason: FailureReason, detail: str = "") -> None:
        """Abort a checkpoint and delete its files. Too many failures in a row fail the job."""
        number = checkpoint.checkpoint_id
        del self._pending[number]
        checkpoint.failure, checkpoint.ended_at = reason, self._agenda.now
        self._discard(checkpoint)
        text = f"{checkpoint.name} failed: {reason}" + (f", {detail}" if detail else "")
        self._say(text, number)
        self._on_end(checkpoint)
        self._notify_tasks(ControlMessage.ABORTED, number)
        self._scheduler.ended()
        if checkpoint.request is not None:
            self._savepoint_failed(checkpoint.request, text)
            if checkpoint.request.action is PostCheckpointAction.TERMINATE:
                self._fail_job(f"{text}; its sources had already ended for this savepoint, so the job fails")
        elif self._failures.failed(number, reason):
            self._fail_job(f"{text}; the job tolerates only {self._failures.tolerable} failures in a row")

    def _notify_tasks(self, kind: ControlMessage, checkpoint_id: int) -> None:
        completed = kind is ControlMessage.COMPLETED
        for subtask in self._subtasks:
            if not subtask.ended:
                deliver = subtask.checkpoint_completed if completed else subtask.checkpoint_aborted
                delay = self._randomness.between(self._costs.trigger_s, "notice", self._name(subtask))
                self.control_plane.send(kind, key_of(subtask), delay, deliver, checkpoint_id)

    def _take_reports(self, number: int) -> list[StoredFile]:
        """Remove the reports on a checkpoint; returns the new shared files that the reports name."""
        tasks = [task for reported, task in self._reported if reported == number]
        return [file for task in tasks for file in self._reported.pop((number, task))]

    def _drop_all(self) -> list[Checkpoint]:
        """Cancel timers, messages and requests, and remove the pending checkpoints; returns these
        checkpoints.
        """
        self._stop_timeout()
        self._subtasks = []
        self._report_refused(self._scheduler.stop())
        if self.stopped_with is None:
            self._stopping = None
        self.control_plane.reset()
        dropped = self.pending
        self._pending.clear()
        # Reports in transit will not arrive any more, so the files that they name are deleted here.
        for checkpoint in dropped:
            self._discard(checkpoint)
        self._discard_reports({number for number, _ in self._reported})
        return dropped

    def _discard_reports(self, numbers: Collection[int]) -> None:
        """Delete the files of failed checkpoints, for reports that were in transit and will not arrive."""
        for number in sorted(numbers):
            shared = self._take_reports(number)
            if not self._savepoints.delete_aborted(number):
                self.store.discard(number, shared)

    def _discard(self, checkpoint: Checkpoint) -> None:
        """Delete the files of a checkpoint that will not be completed."""
        number, savepoint = checkpoint.checkpoint_id, checkpoint.options.savepoint
        if savepoint is None:
            self.store.discard(number, self._take_reports(number))
        else:
            self._savepoints.abort(number, savepoint)

    def _name(self, subtask: CheckpointedTask) -> str:
        return f"{list(self._job.parallelism)[subtask.vertex]}[{subtask.index}]"

    def _say(self, text: str, checkpoint_id: int | None = None) -> None:
        if self._trace is not None:
            self._trace(self._agenda.now, "coordinator", text, checkpoint_id)
