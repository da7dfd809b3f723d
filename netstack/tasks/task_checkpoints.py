"""The checkpoints of one task, from the first barrier or the coordinator's trigger to the acknowledgement.

Barriers that the task reads are passed to the barrier handler of the checkpoint mode. `TaskCheckpoints`
carries out the actions that the handler returns. The synchronous part of a snapshot sends the barrier
downstream and marks the state. It blocks the task. The asynchronous part runs in the background and ends when
three uploads are complete::

    begin --- sync ---> upload of the state -----------------------\\
          \\-- unaligned: data of the inputs, until the last barrier -> upload of channel state -> acknowledge
           \\- unaligned: data overtaken in the outputs ------------/

The rules are those of Flink's CheckpointedInputGate, SubtaskCheckpointCoordinatorImpl,
AsyncCheckpointRunnable and ChannelStateWriter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from buffers import Content, EventBuffer, Pieces
from flowcontrol import (
    Abort,
    Action,
    Alarm,
    AlignmentEnd,
    AlignmentMetrics,
    BarrierHandler,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfPartition,
    Event,
    EventAnnouncement,
    FailureReason,
    PostCheckpointAction,
    Prioritize,
    Resume,
    Trigger,
)

from ..checkpoints.metadata import SubtaskSnapshot
from ..checkpoints.pending_checkpoint import Acknowledgement
from ..checkpoints.storage import ChannelPlace, CheckpointStorage, channel_handles, write_pieces
from ..errors import StorageError
from ..exchange.channel import InputChannel
from ..exchange.gate import InputGate
from ..results.result import SubtaskCheckpoint
from ..results.trace import acknowledgement_text, barrier_text, in_bytes, milliseconds, snapshot_text
from ..scenarios.costs import CostModel
from ..scenarios.options import NetworkConfig
from ..state.backend import SnapshotWork
from ..state.handles import StateFormat, StateHandle, StoredFile
from ..state.state_kinds import CHANNEL_STATE, StateKind
from ..state.subtask_state import StateSnapshot
from .subtask_environment import Environment

if TYPE_CHECKING:
    from .subtask import Subtask

UPLOADS_AT_ONCE = 4
"""Number of files of a snapshot that are uploaded at a time: Flink's default number of threads."""


class StartedSnapshot(NamedTuple):
    """A snapshot that has begun: duration of its synchronous part, and the actions that follow."""

    checkpoint_id: int
    sync_s: float
    rest: Sequence[Action]


@dataclass(slots=True, eq=False)
class RunningCheckpoint:
    """A checkpoint that the task has begun and not acknowledged yet."""

    barrier: CheckpointBarrier
    """Becomes unaligned when it may overtake data."""
    metrics: AlignmentMetrics | None
    """None until the alignment has ended."""
    data_ended: bool
    storage: CheckpointStorage
    sync_s: float = 0.0
    state: StateSnapshot | None = None
    handles: list[StateHandle] = field(default_factory=list)
    written: list[StoredFile] = field(default_factory=list)
    """Files in `storage` that belong only to this checkpoint."""
    channel_data: dict[ChannelPlace, Pieces] | None = field(default_factory=dict)
    """Collects in-flight data until it is complete and stored; None afterwards."""
    open_outputs: int = 0
    """Number of subpartitions whose data is still missing."""
    uploading_since: float | None = None
    """End of the synchronous part."""
    uploads: int = 0
    """Number of uploads in progress."""

    @property
    def checkpoint_id(self) -> int:
        """Id of the checkpoint."""
        return self.barrier.checkpoint_id


class TaskCheckpoints:
    """Takes the snapshots of `task` and reports them to the coordinator.

    A task with inputs begins checkpoints at the barriers that arrive at its `gates` (`connect`, `handle`); a
    source begins them when the coordinator triggers them (`trigger`). `channels` holds the channels of all
    gates; `open_channels` of them have not ended. `last`: the last checkpoint begun. `final`: the first
    checkpoint taken after the last record. `snapshots`: number of snapshots taken. `stops_with`: the
    savepoint with which the job will stop; `drains`: whether the data ends before it.
    """

    def __init__(self, task: Subtask) -> None:
        self.last = 0
        self.final: int | None = None
        self.stops_with: int | None = None
        self.drains = False
        self.snapshots = 0
        self.channels: list[InputChannel] = []
        self.open_channels = 0
        self.handler: BarrierHandler
        self.bytes_processed: Callable[[int], None]
        self._gates: list[InputGate] = []
        self._gate_numbers: dict[object, int] = {}
        self._first_channels: dict[object, int] = {}  # number of the first channel of each gate
        self._task = task
        self._running: dict[int, RunningCheckpoint] = {}
        self._aborted: set[int] = set()

    @property
    def _environment(self) -> Environment:
        """The environment of the task, which changes of the job replace."""
        return self._task.environment

    # Barriers at the inputs

    def connect(self, gates: list[InputGate]) -> None:
        """Take the checkpoints whose barriers arrive at these gates."""
        config = self._environment.config
        self._gates = gates
        for number, gate in enumerate(gates):
            self._gate_numbers[gate], self._first_channels[gate] = number, len(self.channels)
            self.channels += gate.channels
            gate.on_priority = self._priority_arrived
        self.open_channels = len(self.channels)
        self.handler = create_barrier_handler(config, self.open_channels)
        self.bytes_processed = self.handler.bytes_processed
        if config.takes_unaligned_checkpoints:
            self.persist_data()

    def persist_data(self) -> None:
        """Let the channels persist data that unaligned barriers overtake, from now on."""
        persist = self._add_input  # one object for all channels
        for channel in self.channels:
            channel.persist = persist

    def handle(self, channel: InputChannel, event: Event) -> StartedSnapshot | None:
        """Pass an event to the barrier handler, and carry out the handler's actions up to a snapshot."""
        number, now, task = self._channel_number(channel), self._environment.agenda.now, self._task
        handler = self.handler
        match event:
            case CheckpointBarrier():
                actions = handler.barrier(number, event, now)
                if task.traced:
                    text = barrier_text(event, str(task.upstream[number]), number, actions)
                    task.trace(text, event.checkpoint_id)
            case EventAnnouncement():
                checkpoint_id = event.barrier.checkpoint_id
                self._trace_channel(f"barrier {checkpoint_id} is announced by", number, checkpoint_id)
                actions = handler.announcement(number, event.barrier, event.sequence_number, now)
            case CancelCheckpointMarker():
                checkpoint_id = event.checkpoint_id
                self._trace_channel(f"checkpoint {checkpoint_id} is cancelled by", number, checkpoint_id)
                actions = handler.cancel(number, checkpoint_id, now)
            case EndOfPartition():
                self.open_channels -= 1
                actions = handler.end_of_partition(number, now)
                if actions:
                    self._trace_channel("no longer waits for a barrier from", number)
            case _:
                raise TypeError(f"a barrier handler cannot handle {event}")
        return self._perform(actions)

    def finish(self, started: StartedSnapshot) -> None:
        """End the synchronous part: carry out the remaining actions, then begin the upload."""
        for action in started.rest:
            self._do(action)
        self.upload(started.checkpoint_id)

    def _perform(self, actions: Sequence[Action]) -> StartedSnapshot | None:
        for place, action in enumerate(actions):
            if isinstance(action, Trigger):
                sync_s = self.begin(action.barrier, action.metrics)
                return StartedSnapshot(action.barrier.checkpoint_id, sync_s, actions[place + 1 :])
            self._do(action)
        return None

    def _do(self, action: Action) -> None:
        task, current = self._task, self.handler.current_checkpoint_id
        match action:
            case Resume():
                self._trace_channel("unblocks the channel from", action.channel, current)
                self.channels[action.channel].resume()
            case Abort():
                aborted, reason = action.checkpoint_id, action.reason
                task.trace(f"aborts checkpoint {aborted}: {reason}", aborted)
                self.abort(aborted)
                task.broadcast(CancelCheckpointMarker(aborted))
                self._environment.coordinator.decline(task, aborted, reason)
            case Prioritize():
                text = f"barrier {current} overtakes the data that is queued here from"
                self._trace_channel(text, action.channel, current)
                self.channels[action.channel].prioritize(action.sequence_number)
            case AlignmentEnd():
                self._end_alignment(action.checkpoint_id, action.metrics)
            case Alarm():
                alarm = partial(self._alarm, action.checkpoint_id)
                self._environment.scope.after(action.delay_s, task.post, alarm)
            case Trigger():
                raise TypeError("a snapshot was triggered while another one was being triggered")

    def _alarm(self, checkpoint_id: int) -> None:
        actions = self.handler.alarm(checkpoint_id, self._environment.agenda.now)
        if actions:
            text = f"the alignment of checkpoint {checkpoint_id} has timed out: it continues unaligned"
            self._task.trace(text, checkpoint_id)
        self._complete_in_mail(self._perform(actions))

    def _priority_arrived(self) -> None:
        self._task.post(self._handle_priority)

    def _handle_priority(self) -> None:
        """Handle all priority events between two records; called as mail."""
        for gate in self._gates:
            while (polled := gate.poll_priority(self._environment.agenda.now)) is not None:
                channel, item = polled
                assert isinstance(item, EventBuffer)
                self._complete_in_mail(self.handle(channel, item.event))

    def _complete_in_mail(self, started: StartedSnapshot | None) -> None:
        """Complete a snapshot that began while mail was handled. The handling of mail cannot wait, so the
        task blocks afterwards.
        """
        if started is not None:
            for action in started.rest:
                self._do(action)
            self._pass_sync(started.checkpoint_id, started.sync_s)

    def _channel_number(self, channel: InputChannel) -> int:
        return self._first_channels[channel.gate] + channel.index

    def _add_input(self, checkpoint_id: int, channel: InputChannel, data: Content) -> None:
        """Keep data that arrived on a channel before the barrier of an unaligned checkpoint in progress."""
        if self._task.traced:
            text = f"stores {in_bytes(len(data))} that arrived before the barrier from"
            self._trace_channel(text, self._channel_number(channel), checkpoint_id)
        running = self._running.get(checkpoint_id)
        if running is not None and running.channel_data is not None:
            place = ChannelPlace(StateKind.INPUT_CHANNEL, self._gate_numbers[channel.gate], channel.index)
            running.channel_data.setdefault(place, Pieces()).extend([data])

    def _stop_persisting(self, checkpoint_id: int) -> None:
        for channel in self.channels:
            channel.stop_persisting(checkpoint_id)

    def _end_alignment(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """End the alignment of an unaligned checkpoint: its last barrier has arrived."""
        self._stop_persisting(checkpoint_id)
        running = self._running.get(checkpoint_id)
        if running is not None:
            running.metrics = metrics
            if self._task.traced:
                took = milliseconds(metrics.alignment_s)
                came = f"all barriers of checkpoint {checkpoint_id} arrived within {took}"
                self._task.trace(f"{came}: its channel state is complete", checkpoint_id)
            self._upload_channels(running)

    def _trace_channel(self, text: str, channel: int, checkpoint_id: int | None = None) -> None:
        if self._task.traced:
            self._task.trace(f"{text} {self._task.upstream[channel]}", checkpoint_id)

    # The synchronous part

    def is_over(self, checkpoint_id: int) -> bool:
        """Whether this task takes no snapshot for a checkpoint any more: it was aborted, or has begun."""
        return checkpoint_id <= self.last or checkpoint_id in self._aborted

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Take a checkpoint that the coordinator has triggered; must be called between two records.

        If a newer checkpoint has begun, this one is skipped: it has been aborted, and its barrier would make
        the newer checkpoint fail. (Flink: ``SubtaskCheckpointCoordinatorImpl``, "out of order checkpoint
        barrier".)
        """
        if barrier.checkpoint_id <= self.last:
            return
        start_delay = max(0.0, self._environment.agenda.now - barrier.timestamp)
        sync_s = self.begin(barrier, AlignmentMetrics(start_delay, 0.0, 0))
        self._pass_sync(barrier.checkpoint_id, sync_s)

    def _pass_sync(self, checkpoint_id: int, sync_s: float) -> None:
        """Block the task for the duration of the synchronous part, then upload."""
        self._task.block(sync_s)
        self._environment.scope.after(sync_s, self.upload, checkpoint_id)

    def begin(self, barrier: CheckpointBarrier, metrics: AlignmentMetrics | None) -> float:
        """Run the synchronous part; returns its duration in seconds.

        `metrics` is None if the alignment has not ended; an unaligned checkpoint does not wait for its end.
        If the coordinator has aborted the checkpoint, no snapshot is taken, and a cancel marker is sent
        downstream.
        """
        task, checkpoint_id = self._task, barrier.checkpoint_id
        if task.traced:
            task.trace(snapshot_text(barrier, metrics, sends=bool(task.outputs)), checkpoint_id)
        self.last = checkpoint_id
        is_aborted = checkpoint_id in self._aborted
        self._aborted = {aborted for aborted in self._aborted if aborted > checkpoint_id}
        if is_aborted:
            task.broadcast(CancelCheckpointMarker(checkpoint_id))
            return 0.0
        savepoint, storage = barrier.options.savepoint, self._environment.storage
        if savepoint is not None:
            storage = storage.savepoint(savepoint.location)
            if savepoint.stops:
                self.stops_with = checkpoint_id
            self.drains = savepoint.action is PostCheckpointAction.TERMINATE
        # If the data has only ended to drain the job, a job restored from this checkpoint continues to read.
        # A task that had ended before emits no more records, even if the barrier has overtaken its EndOfData.
        data_ended = (task.data_ended or task.had_ended) and not self.drains
        # A barrier that had to stay aligned so far may overtake again on the outputs.
        sent_on = replace(barrier, options=barrier.options.with_unaligned_supported())
        running = RunningCheckpoint(sent_on, metrics, data_ended, storage)
        self._running[checkpoint_id] = running
        if task.data_ended and self.final is None:
            self.final = checkpoint_id
        task.before_snapshot(checkpoint_id)
        self._send_on(running)
        running.state = task.state.snapshot(checkpoint_id, None if savepoint is None else savepoint.format)
        costs = self._environment.costs
        marking_s = self._environment.randomness.uniform(*costs.sync_s)
        running.sync_s = marking_s + snapshot_s(running.state.work, costs)
        self.snapshots += 1
        if running.barrier.options.is_unaligned:
            self._collect_inputs(running)
        return running.sync_s

    def _send_on(self, running: RunningCheckpoint) -> None:
        """Send the barrier to all outputs. It may overtake their queued data, now or after a timeout."""
        barrier, environment = running.barrier, self._environment
        for number, output in enumerate(self._task.outputs):
            subpartitions = len(output.partition.subpartitions)
            running.open_outputs += subpartitions
            on_resolved = partial(self._output_resolved, running, number)
            if not output.partition.broadcast_barrier(barrier, on_resolved):
                running.open_outputs -= subpartitions
        timeout = barrier.options.timeout_s
        if barrier.options.timeoutable and timeout is not None and running.open_outputs:
            delay = max(0.0, timeout - (environment.agenda.now - barrier.timestamp))
            expired = partial(self._outputs_timed_out, running)
            environment.scope.after(delay, self._task.post, expired)

    def _output_resolved(
        self, running: RunningCheckpoint, output: int, channel: int, data: list[Content] | None
    ) -> None:
        """Store the data that the barrier has overtaken in a subpartition.

        If `data` is None, a newer barrier with a timeout was queued before this barrier had left, so this
        checkpoint fails.
        """
        running.open_outputs -= 1
        checkpoint_id = running.checkpoint_id
        if data is None:
            if self._running.get(checkpoint_id) is running:
                overlap = "a newer checkpoint began while the alignment of this one could still time out"
                self._fail(checkpoint_id, overlap)
            return
        if data and running.channel_data is not None:
            overtaken = Pieces(data)
            running.channel_data[ChannelPlace(StateKind.OUTPUT_CHANNEL, output, channel)] = overtaken
            if self._task.traced:
                vertex, consumers = self._task.readers[output]
                where = f"on the way to {vertex}[{consumers[channel]}]"
                text = f"barrier {checkpoint_id} overtakes {in_bytes(len(overtaken))} {where}"
                self._task.trace(text, checkpoint_id)
        self._upload_channels(running)

    def _outputs_timed_out(self, running: RunningCheckpoint) -> None:
        if running.open_outputs and running.checkpoint_id in self._running:
            unaligned = running.barrier.as_unaligned()
            for output in self._task.outputs:
                if output.partition.supports_unaligned:
                    running.barrier = unaligned
                    output.partition.alignment_timeout(unaligned)

    def _collect_inputs(self, running: RunningCheckpoint) -> None:
        """Keep the in-flight data of each channel; `_add_input` adds data that arrives before the barrier."""
        checkpoint_id, data = running.checkpoint_id, running.channel_data
        assert data is not None
        for gate_number, gate in enumerate(self._gates):
            for channel in gate.channels:
                pieces = Pieces([*self._task.unconsumed(channel), *channel.start_persisting(checkpoint_id)])
                if len(pieces):
                    text = f"stores {in_bytes(len(pieces))} in flight from"
                    self._trace_channel(text, self._channel_number(channel), checkpoint_id)
                    data[ChannelPlace(StateKind.INPUT_CHANNEL, gate_number, channel.index)] = pieces

    # The asynchronous part

    def upload(self, checkpoint_id: int) -> None:
        """Begin the asynchronous part, after the synchronous one."""
        running = self._running.get(checkpoint_id)
        if running is None or running.state is None:
            return
        running.uploading_since = self._environment.agenda.now
        running.uploads += 1
        if running.state.work.entry_bytes > self._inline_up_to:
            # The fixed cost of a file comes first; the task already changes the state meanwhile.
            self._environment.scope.after(self._environment.costs.state_file_s, self._store_state, running)
        else:
            self._store_state(running)
        self._upload_channels(running)

    def _store_state(self, running: RunningCheckpoint) -> None:
        state, running.state = running.state, None
        running.uploads -= 1
        if state is None or running.uploading_since is None:  # aborted meanwhile
            return

        def write(name: str, data: bytes, /, *, shared: bool = False) -> StoredFile:
            path = self._file_name(name)
            file = running.storage.write(running.checkpoint_id, path, data, shared=shared)
            running.written.append(file)
            return file

        self._store(running, partial(state.handles, write, self._inline_up_to), running.uploading_since)

    def _upload_channels(self, running: RunningCheckpoint) -> None:
        """Store the channel state when it is complete."""
        if self._running.get(running.checkpoint_id) is not running or running.uploading_since is None:
            return
        if running.metrics is None or running.open_outputs:
            return
        data, running.channel_data = running.channel_data, None
        if data is None:
            return

        def write(pieces: Pieces) -> StoredFile:
            name = self._file_name("channels")
            file = write_pieces(running.storage, running.checkpoint_id, name, pieces)
            running.written.append(file)
            return file

        store = partial(channel_handles, dict(sorted(data.items())), write, self._inline_up_to)
        self._store(running, store, self._environment.agenda.now)

    @property
    def _inline_up_to(self) -> int:
        return self._environment.config.state_memory_threshold_bytes

    def _file_name(self, name: str) -> str:
        return f"{self._task.name}-{self._task.index}-{name}"

    def _store(
        self, running: RunningCheckpoint, store: Callable[[], list[StateHandle]], since: float
    ) -> None:
        """Write the data at once. In emulated time, the upload begins at `since` and takes as long as the
        storage needs, or no time if the data is inline.
        """
        try:
            handles = store()
        except StorageError as error:
            self._fail(running.checkpoint_id, str(error))
            return
        running.handles += handles
        running.uploads += 1
        if duration := storing_s(handles, self._environment.costs):
            self._environment.scope.at(since + duration, self._uploaded, running)
        else:
            self._uploaded(running)

    def _uploaded(self, running: RunningCheckpoint) -> None:
        """Acknowledge the checkpoint if this was the last upload."""
        running.uploads -= 1
        if running.uploads or running.channel_data is not None:
            return
        task, checkpoint_id = self._task, running.checkpoint_id
        if self._running.pop(checkpoint_id, None) is None or running.metrics is None:
            return  # aborted meanwhile
        snapshot = SubtaskSnapshot(
            vertex=task.name,
            subtask=task.index,
            handles=tuple(running.handles),
            data_ended=running.data_ended,
        )
        text = acknowledgement_text(checkpoint_id, snapshot.size, snapshot.persisted_bytes)
        task.trace(text, checkpoint_id)
        since = running.uploading_since
        part = SubtaskCheckpoint(
            start_delay_s=running.metrics.start_delay_s,
            alignment_s=running.metrics.alignment_s,
            sync_s=running.sync_s,
            async_s=0.0 if since is None else self._environment.agenda.now - since,
            alignment_processed_bytes=running.metrics.bytes_processed,
            alignment_persisted_bytes=snapshot.persisted_bytes,
            unaligned=running.barrier.options.is_unaligned,
        )
        self._environment.coordinator.acknowledge(task, Acknowledgement(checkpoint_id, part, snapshot))

    # Ends

    def _fail(self, checkpoint_id: int, detail: str) -> None:
        self.abort(checkpoint_id)
        self._environment.coordinator.decline(
            self._task, checkpoint_id, FailureReason.ASYNC_EXCEPTION, detail
        )

    def abort(self, checkpoint_id: int) -> None:
        """Abort a checkpoint: drop its data if it has begun, otherwise never begin it."""
        running = self._running.pop(checkpoint_id, None)
        if checkpoint_id == self.stops_with:
            self.stops_with = None
        self._task.state.checkpoint_aborted(checkpoint_id)
        if running is not None:
            self._stop_persisting(checkpoint_id)
            _drop(running)
        elif checkpoint_id > self.last:
            self._aborted.add(checkpoint_id)

    def release(self) -> None:
        """Drop all running checkpoints without reporting them: the attempt has ended."""
        while self._running:
            _drop(self._running.popitem()[1])


def _drop(running: RunningCheckpoint) -> None:
    if running.state is not None:
        running.state.release()
        running.state = None
    with suppress(StorageError):  # no checkpoint needs the files; `netstack checkpoints --verify` lists them
        running.storage.delete(running.written)


def create_barrier_handler(config: NetworkConfig, channels: int) -> BarrierHandler:
    """Return the handler of the configured checkpoint mode (Flink's InputProcessorUtil)."""
    after_finish = config.checkpoints_after_tasks_finish
    return config.barrier_mode.handler(channels, checkpoints_after_tasks_finish=after_finish)


def snapshot_s(work: SnapshotWork, costs: CostModel) -> float:
    """Return the duration of the synchronous part of a snapshot in seconds, computed from its work."""
    logging_s = work.logged_bytes / costs.log_rate_bytes_per_s
    flushing_s = work.flushed_bytes / costs.table_flush_rate_bytes_per_s
    return logging_s + flushing_s + work.linked * costs.table_snapshot_s


def storing_s(handles: Sequence[StateHandle], costs: CostModel) -> float:
    """Return the time to store the new state of these handles, in seconds.

    Inline state takes no time. State in memory is serialized first, other state is stored as bytes already.
    Up to `UPLOADS_AT_ONCE` files of state are uploaded together, so their fixed costs count only once.
    """
    new = [handle for handle in handles if handle.file is not None and not handle.stored_before]
    uploading_s = sum(handle.size for handle in new) / costs.upload_rate_bytes_per_s
    state = [each for each in new if each.kind not in CHANNEL_STATE and each.format is not StateFormat.LOG]
    files = len({handle.file.path for handle in state if handle.file is not None})
    serialized = sum(handle.size for handle in state if handle.format is StateFormat.CANONICAL)
    at_once = -(-files // UPLOADS_AT_ONCE)
    return uploading_s + at_once * costs.state_file_s + serialized / costs.serialize_rate_bytes_per_s
