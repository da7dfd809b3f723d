"""The checkpoints of one subtask, from the trigger to the acknowledgement.

The synchronous part sends the barrier on and marks the state; the task does nothing else meanwhile. The
asynchronous part runs beside it and ends when three things have come together::

    begin --- sync ---> upload of the state -----------------------\\
          \\-- unaligned: data of the inputs, until the last barrier -> upload of channel state -> acknowledge
           \\- unaligned: data overtaken in the outputs ------------/

The rules are those of Flink's SubtaskCheckpointCoordinatorImpl, AsyncCheckpointRunnable and
ChannelStateWriter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from buffers import Content, Pieces
from flowcontrol import AlignmentMetrics, CancelCheckpointMarker, CheckpointBarrier, PostCheckpointAction

from ..checkpoints.pending_checkpoint import Acknowledgement
from ..checkpoints.running_checkpoint import RunningCheckpoint
from ..checkpoints.storage import ChannelPlace, channel_handles, write_pieces
from ..errors import StorageError
from ..exchange.gate import InputGate
from ..results.trace import acknowledgement_text, in_bytes, milliseconds, snapshot_text
from ..scenarios.config import CostModel
from ..state.backend import SnapshotWork
from ..state.snapshots import (
    CHANNEL_STATE,
    StateFormat,
    StateHandle,
    StateKind,
    StoredFile,
    SubtaskSnapshot,
)
from ..state.subtask_state import StateSnapshot
from .checkpointed_inputs import CheckpointedInputs
from .checkpointing_task import CheckpointingTask

UPLOADS_AT_ONCE = 4
"""Files of a snapshot that are uploaded at a time: Flink's default number of threads for it."""

ASYNC_FAILED = "CHECKPOINT_ASYNC_EXCEPTION"
"""Flink's name of a failure in the asynchronous part."""


class SubtaskCheckpoints:
    """All that `subtask` does for checkpoints: takes snapshots and reports them to the coordinator.

    `final`: the first checkpoint taken after the last record, once there is one; `snapshots`: how many were
    taken; `stops_with`: the savepoint with which the job is to stop, and `drains` whether the data was to end
    before it. A subtask that reads others begins checkpoints by what its inputs bring (`connect`), one that
    does not when it is told to (`trigger`).
    """

    def __init__(self, subtask: CheckpointingTask) -> None:
        self.last = 0
        self.final: int | None = None
        self.stops_with: int | None = None
        self.drains = False
        self.snapshots = 0
        self._inputs: CheckpointedInputs | None = None
        self._subtask = subtask
        self._environment = subtask.environment
        self._running: dict[int, RunningCheckpoint] = {}
        self._aborted: set[int] = set()

    def connect(self, gates: list[InputGate]) -> CheckpointedInputs:
        """Take part in the checkpoints that come with what these gates read."""
        self._inputs = inputs = CheckpointedInputs(self._subtask, self, gates)
        return inputs

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Take a checkpoint that the coordinator asks for; to be called between two records.

        One that a newer checkpoint has come before is not taken: it has been given up, and its barrier would
        fail the newer one. (Flink: ``SubtaskCheckpointCoordinatorImpl``, "out of order checkpoint barrier".)
        """
        if barrier.checkpoint_id <= self.last:
            return
        start_delay = max(0.0, self._environment.agenda.now - barrier.timestamp)
        sync = self.begin(barrier, AlignmentMetrics(start_delay, 0.0, 0))
        self.pass_sync(barrier.checkpoint_id, sync)

    def pass_sync(self, checkpoint_id: int, sync_s: float) -> None:
        """Let the task stand still for the synchronous part, and then upload: for who cannot wait itself."""
        self._subtask.stall(sync_s)
        self._environment.scope.after(sync_s, self.upload, checkpoint_id)

    def begin(self, barrier: CheckpointBarrier, metrics: AlignmentMetrics | None) -> float:
        """Take the synchronous part; returns how long it takes, in seconds.

        `metrics` is None while the alignment goes on, which an unaligned checkpoint does not wait for. A
        checkpoint that the coordinator has given up is not taken; those downstream are told.
        """
        subtask, number = self._subtask, barrier.checkpoint_id
        if subtask.traced:
            subtask.trace(snapshot_text(barrier, metrics, sends=bool(subtask.outputs)), number)
        self.last = number
        given_up = number in self._aborted
        self._aborted = {aborted for aborted in self._aborted if aborted > number}
        if given_up:
            subtask.broadcast(CancelCheckpointMarker(number))
            return 0.0
        savepoint, storage = barrier.options.savepoint, self._environment.storage
        if savepoint is not None:
            storage = storage.savepoint(savepoint.location)
            self.stops_with = number if savepoint.stops else self.stops_with
            self.drains = savepoint.action is PostCheckpointAction.TERMINATE
        # Where the data has ended only to drain the job, there is more for whoever goes on from here.
        # Whoever had ended before emits nothing more, also if the barrier has overtaken what says so again.
        data_ended = (subtask.data_ended or subtask.had_ended) and not self.drains
        running = RunningCheckpoint(_supported(barrier), metrics, data_ended, storage)
        self._running[number] = running
        if subtask.data_ended and self.final is None:
            self.final = number
        subtask.before_snapshot(number)
        self._send_on(running)
        layout = None if savepoint is None else savepoint.format
        running.state = subtask.state.snapshot(number, layout)
        costs = self._environment.costs
        marking_s = self._environment.randomness.uniform(*costs.sync_s)
        running.sync_s = marking_s + snapshot_s(running.state.work, costs)
        self.snapshots += 1
        if running.unaligned:
            self._collect_inputs(running)
        return running.sync_s

    def _send_on(self, running: RunningCheckpoint) -> None:
        """Send the barrier to all outputs; it may overtake what is queued there, now or after a timeout."""
        barrier = running.barrier
        for number, output in enumerate(self._subtask.outputs):
            running.open_outputs += len(output.partition.subpartitions)
            settled = partial(self._output_settled, running, number)
            if not output.partition.broadcast_barrier(barrier, settled):
                running.open_outputs -= len(output.partition.subpartitions)
        timeout = barrier.options.timeout_s
        if barrier.options.timeoutable and timeout is not None and running.open_outputs:
            environment = self._environment
            delay = max(0.0, timeout - (environment.agenda.now - barrier.timestamp))
            expired = partial(self._outputs_timed_out, running)
            environment.scope.after(delay, self._subtask.post, expired)

    def _output_settled(
        self, running: RunningCheckpoint, output: int, channel: int, data: list[Content] | None
    ) -> None:
        running.open_outputs -= 1
        if data is None:
            self._output_failed(running)
            return
        if data:
            place = ChannelPlace(StateKind.OUTPUT_CHANNEL, output, channel)
            running.channel_data[place] = overtaken = Pieces(data)
            self._trace_overtaken(running, place, overtaken)
        self._upload_channels(running)

    def _output_failed(self, running: RunningCheckpoint) -> None:
        """A newer barrier with a timeout came while that of `running` was queued: it cannot be complete."""
        number = running.barrier.checkpoint_id
        if self._running.get(number) is running:
            overlap = "a newer checkpoint began while the barrier of this one could still time out"
            self._fail(number, overlap)

    def _fail(self, number: int, detail: str) -> None:
        self.abort(number)
        self._environment.coordinator.decline(self._subtask, number, ASYNC_FAILED, detail)

    def _outputs_timed_out(self, running: RunningCheckpoint) -> None:
        if running.open_outputs and running.barrier.checkpoint_id in self._running:
            for output in self._subtask.outputs:
                if output.partition.supports_unaligned:
                    running.timed_out = True
                    output.partition.alignment_timeout(running.barrier.as_unaligned())

    def _collect_inputs(self, running: RunningCheckpoint) -> None:
        if self._inputs is None:
            return
        for gate, channel, data in self._inputs.start_persisting(running.barrier.checkpoint_id):
            if len(data):
                running.channel_data[ChannelPlace(StateKind.INPUT_CHANNEL, gate, channel)] = data

    def add_input(self, checkpoint_id: int, gate: int, channel: int, data: Content) -> None:
        """Data arrived on a channel before the barrier of an unaligned checkpoint that has begun."""
        running = self._running.get(checkpoint_id)
        if running is not None:
            place = ChannelPlace(StateKind.INPUT_CHANNEL, gate, channel)
            running.channel_data.setdefault(place, Pieces()).extend([data])

    def give_up(self, checkpoint_id: int, reason: str) -> None:
        """Give a checkpoint up for what has come by the inputs: tell those downstream and the coordinator."""
        self.abort(checkpoint_id)
        self._subtask.broadcast(CancelCheckpointMarker(checkpoint_id))
        self._environment.coordinator.decline(self._subtask, checkpoint_id, reason)

    def alignment_ended(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """The last barrier of an unaligned checkpoint is here."""
        running = self._running.get(checkpoint_id)
        if running is not None:
            running.metrics = metrics
            self._trace_aligned(running, metrics)
            self._upload_channels(running)

    def upload(self, checkpoint_id: int) -> None:
        """Begin the asynchronous part: the synchronous one is over."""
        running = self._running.get(checkpoint_id)
        if running is None or running.state is None:
            return
        running.uploading = True
        running.uploads_since = self._environment.agenda.now
        running.uploads += 1
        if running.state.work.entry_bytes > self._inline_up_to:
            # What a file costs by itself comes first, and the task goes on changing the state meanwhile.
            self._environment.scope.after(self._environment.costs.state_file_s, self._store_state, running)
        else:
            self._store_state(running)
        self._upload_channels(running)

    def _store_state(self, running: RunningCheckpoint) -> None:
        state, running.state = running.state, None
        running.uploads -= 1
        if state is not None:  # else it was given up meanwhile
            self._store(running, partial(self._state_handles, running, state), running.uploads_since)

    def _state_handles(self, running: RunningCheckpoint, state: StateSnapshot) -> list[StateHandle]:
        return state.handles(partial(self._write, running), self._inline_up_to)

    def _upload_channels(self, running: RunningCheckpoint) -> None:
        """Store the channel state as soon as it is complete."""
        wanted = self._running.get(running.barrier.checkpoint_id) is running
        if wanted and running.channels_complete:
            running.channels_stored = True
            self._store(running, partial(self._channel_handles, running), self._environment.agenda.now)

    def _channel_handles(self, running: RunningCheckpoint) -> list[StateHandle]:
        data, running.channel_data = dict(sorted(running.channel_data.items())), {}
        return channel_handles(data, partial(self._write_channels, running), self._inline_up_to)

    def _write_channels(self, running: RunningCheckpoint, data: Pieces) -> StoredFile:
        number = running.barrier.checkpoint_id
        file = write_pieces(running.storage, number, self._file_name("channels"), data)
        running.written.append(file)
        return file

    @property
    def _inline_up_to(self) -> int:
        return self._environment.config.state_memory_threshold_bytes

    def _write(
        self, running: RunningCheckpoint, name: str, data: bytes, /, *, shared: bool = False
    ) -> StoredFile:
        number = running.barrier.checkpoint_id
        file = running.storage.write(number, self._file_name(name), data, shared=shared)
        running.written.append(file)
        return file

    def _file_name(self, name: str) -> str:
        return f"{self._subtask.name}-{self._subtask.index}-{name}"

    def _store(
        self, running: RunningCheckpoint, store: Callable[[], list[StateHandle]], since: float
    ) -> None:
        """Write bytes now; be done when an upload `since` then would be, at once if they are inline."""
        number = running.barrier.checkpoint_id
        try:
            handles = store()
        except StorageError as error:
            self._fail(number, str(error))
            return
        running.handles += handles
        running.uploads += 1
        if duration := storing_s(handles, self._environment.costs):
            self._environment.scope.at(since + duration, self._uploaded, running)
        else:
            self._uploaded(running)

    def _uploaded(self, running: RunningCheckpoint) -> None:
        running.uploads -= 1
        if running.channels_stored and not running.uploads:
            self._acknowledge(running)

    def _acknowledge(self, running: RunningCheckpoint) -> None:
        number = running.barrier.checkpoint_id
        if self._running.pop(number, None) is None or running.metrics is None:
            return  # given up meanwhile
        subtask = self._subtask
        snapshot = SubtaskSnapshot(
            vertex=subtask.name,
            subtask=subtask.index,
            handles=tuple(running.handles),
            data_ended=running.data_ended,
        )
        subtask.trace(acknowledgement_text(number, snapshot.size, snapshot.persisted_bytes), number)
        report = Acknowledgement(
            number,
            running.metrics,
            running.sync_s,
            snapshot,
            self._environment.agenda.now - running.uploads_since,
            running.unaligned or running.timed_out,
        )
        self._environment.coordinator.acknowledge(subtask, report)

    def _trace_overtaken(self, running: RunningCheckpoint, place: ChannelPlace, data: Pieces) -> None:
        if self._subtask.traced:
            number, size = running.barrier.checkpoint_id, in_bytes(len(data))
            vertex, consumers = self._subtask.readers[place.exchange]
            consumer = f"{vertex}[{consumers[place.channel]}]"
            self._subtask.trace(f"barrier {number} overtakes {size} on the way to {consumer}", number)

    def _trace_aligned(self, running: RunningCheckpoint, metrics: AlignmentMetrics) -> None:
        if self._subtask.traced:
            number, took = running.barrier.checkpoint_id, milliseconds(metrics.alignment_s)
            came = f"the barriers of checkpoint {number} have come within {took}"
            self._subtask.trace(f"{came}: its channel state is complete", number)

    def abort(self, checkpoint_id: int) -> None:
        """Give a checkpoint up: let go of all that it holds, or do not begin it later."""
        running = self._running.pop(checkpoint_id, None)
        if checkpoint_id == self.stops_with:
            self.stops_with = None
        self._subtask.state.checkpoint_aborted(checkpoint_id)
        if running is not None:
            if self._inputs is not None:
                self._inputs.stop_persisting(checkpoint_id)
            self._let_go(running)
        elif checkpoint_id > self.last:
            self._aborted.add(checkpoint_id)

    def _let_go(self, running: RunningCheckpoint) -> None:
        if running.state is not None:
            running.state.release()
            running.state = None
        with suppress(StorageError):  # nobody needs them; `netstack checkpoints --verify` shows them
            running.storage.delete(running.written)

    def release(self) -> None:
        """Forget all that runs: the attempt is over, and whoever would be told of it too."""
        while self._running:
            self._let_go(self._running.popitem()[1])


def snapshot_s(work: SnapshotWork, costs: CostModel) -> float:
    """Return how long the synchronous part of a snapshot takes for what it has to do, in seconds."""
    logging_s = work.logged_bytes / costs.log_rate_bytes_per_s
    flushing_s = work.flushed_bytes / costs.table_flush_rate_bytes_per_s
    return logging_s + flushing_s + work.linked * costs.table_snapshot_s


def storing_s(handles: Sequence[StateHandle], costs: CostModel) -> float:
    """Return how long it takes to store what is new of these handles, in seconds; what is inline takes none.

    State in memory is turned into bytes first, which all else is already. Files of tables are uploaded a few
    at a time, and so each takes its time for some of them only.
    """
    new = [handle for handle in handles if handle.file is not None and not handle.stored_before]
    uploading_s = sum(handle.size for handle in new) / costs.upload_rate_bytes_per_s
    state = [each for each in new if each.kind not in CHANNEL_STATE and each.format is not StateFormat.LOG]
    files = len({handle.file.path for handle in state if handle.file is not None})
    serialized = sum(handle.size for handle in state if handle.format is StateFormat.CANONICAL)
    at_once = -(-files // UPLOADS_AT_ONCE)
    return uploading_s + at_once * costs.state_file_s + serialized / costs.serialize_rate_bytes_per_s


def _supported(barrier: CheckpointBarrier) -> CheckpointBarrier:
    """The barrier as it is sent on: one that had to stay aligned so far may overtake again."""
    return replace(barrier, options=barrier.options.with_unaligned_supported())
