"""The barriers at the inputs of one task: channels to block and resume, data in flight to keep.

The task passes each barrier that it reads, and other events of checkpoints, to the barrier handler of the
checkpoint mode. `InputBarriers` carries out the actions that the handler returns. The rules are those of
Flink's CheckpointedInputGate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from buffers import Content, EventBuffer
from flowcontrol import (
    Abort,
    Action,
    Alarm,
    AlignmentEnd,
    BarrierHandler,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfPartition,
    Event,
    EventAnnouncement,
    Prioritize,
    Resume,
    Trigger,
)

from ..exchange.channel import InputChannel
from ..exchange.gate import InputGate
from ..results.trace import barrier_text, in_bytes
from ..scenarios.options import NetworkConfig
from ..state.state_kinds import StateKind
from .snapshot_upload import SnapshotUpload

if TYPE_CHECKING:
    from .operator_subtask import OperatorSubtask


class InputBarriers:
    """Begins the checkpoints of `task` at the barriers that arrive at its `gates`.

    `channels` holds the channels of all gates, numbered as `handler` numbers them.
    """

    def __init__(self, task: OperatorSubtask, gates: list[InputGate]) -> None:
        config = task.environment.config
        self.channels = [channel for gate in gates for channel in gate.channels]
        self.handler = create_barrier_handler(config, len(self.channels))
        self._task = task
        self._gates = gates
        self._numbers = {channel: number for number, channel in enumerate(self.channels)}
        task.checkpoints.on_abort = self._stop_persisting
        for gate in gates:
            gate.on_priority = partial(task.post, self._handle_priority)
        if config.takes_unaligned_checkpoints:
            self.persist_data()

    def persist_data(self) -> None:
        """Let the channels persist data that unaligned barriers overtake, from now on."""
        persist = self._persist  # one object for all channels
        for channel in self.channels:
            channel.persist = persist

    def handle(self, channel: InputChannel, event: Event, *, in_mail: bool = False) -> bool:
        """Handle an event of `channel`; returns whether a snapshot has begun, which blocks the task."""
        number, now, handler = self._numbers[channel], self._task.agenda.now, self.handler
        match event:
            case CheckpointBarrier():
                actions = handler.barrier(number, event, now)
                if self._task.traced:
                    text = barrier_text(event, str(self._task.upstream[number]), number, actions)
                    self._task.trace(text, event.checkpoint_id)
            case EventAnnouncement():
                checkpoint_id = event.barrier.checkpoint_id
                self._trace(f"barrier {checkpoint_id} is announced by", number, checkpoint_id)
                actions = handler.announcement(number, event.barrier, event.sequence_number, now)
            case CancelCheckpointMarker():
                checkpoint_id = event.checkpoint_id
                self._trace(f"checkpoint {checkpoint_id} is cancelled by", number, checkpoint_id)
                actions = handler.cancel(number, checkpoint_id, now)
            case EndOfPartition():
                actions = handler.end_of_partition(number, now)
                if actions:
                    self._trace("no longer waits for a barrier from", number)
            case _:
                raise TypeError(f"a barrier handler cannot handle {event}")
        return self._perform(actions, in_mail=in_mail)

    def _handle_priority(self) -> None:
        """Handle all priority events between two records; called as mail."""
        for gate in self._gates:
            while (polled := gate.poll_priority(self._task.agenda.now)) is not None:
                channel, item = polled
                assert isinstance(item, EventBuffer)
                self.handle(channel, item.event, in_mail=True)

    def _alarm(self, checkpoint_id: int) -> None:
        actions = self.handler.alarm(checkpoint_id, self._task.agenda.now)
        if actions:
            text = f"the alignment of checkpoint {checkpoint_id} has timed out: it continues unaligned"
            self._task.trace(text, checkpoint_id)
        self._perform(actions, in_mail=True)

    def _perform(self, actions: Sequence[Action], *, in_mail: bool) -> bool:
        """Carry out actions in order; returns whether a snapshot has begun, which blocks the task.

        The actions after it wait for the end of its synchronous part, except in mail, which cannot wait.
        """
        for place, action in enumerate(actions):
            if isinstance(action, Trigger):
                upload, rest = self.begin(action), actions[place + 1 :]
                if in_mail:
                    self._complete(None, rest)
                    rest = ()
                sync_s = 0.0 if upload is None else upload.sync_s
                self._task.block(sync_s)
                self._task.environment.scope.after(sync_s, self._complete, upload, rest)
                return True
            self._do(action)
        return False

    def _complete(self, upload: SnapshotUpload | None, rest: Sequence[Action]) -> None:
        for action in rest:
            self._do(action)
        if upload is not None:
            upload.start()

    def _do(self, action: Action) -> None:
        task, current = self._task, self.handler.current_checkpoint_id
        match action:
            case Resume():
                self._trace("unblocks the channel from", action.channel, current)
                self.channels[action.channel].resume()
            case Abort():
                aborted, reason = action.checkpoint_id, action.reason
                task.trace(f"aborts checkpoint {aborted}: {reason}", aborted)
                task.checkpoints.abort(aborted)
                task.broadcast(CancelCheckpointMarker(aborted))
                task.environment.coordinator.decline(task, aborted, reason)
            case Prioritize():
                text = f"barrier {current} overtakes the data that is queued here from"
                self._trace(text, action.channel, current)
                self.channels[action.channel].prioritize(action.sequence_number)
            case AlignmentEnd():
                self._stop_persisting(action.checkpoint_id)
                upload = task.checkpoints.running.get(action.checkpoint_id)
                if upload is not None:
                    upload.end_alignment(action.metrics)
            case Alarm():
                alarm = partial(self._alarm, action.checkpoint_id)
                task.environment.scope.after(action.delay_s, task.post, alarm)
            case Trigger():
                raise TypeError("a snapshot was triggered while another one was being triggered")

    def begin(self, trigger: Trigger) -> SnapshotUpload | None:
        """Begin a snapshot. If it is unaligned, collect the data in flight."""
        upload = self._task.checkpoints.begin(trigger.barrier, trigger.metrics)
        if upload is not None and upload.barrier.options.is_unaligned:
            self._collect(upload)
        return upload

    def _collect(self, upload: SnapshotUpload) -> None:
        for channel in self.channels:
            data = [*self._task.unconsumed(channel), *channel.start_persisting(upload.checkpoint_id)]
            if any(map(len, data)):
                self._keep(upload, channel, data, "in flight")

    def _persist(self, checkpoint_id: int, channel: InputChannel, data: Content) -> None:
        upload = self._task.checkpoints.running.get(checkpoint_id)
        if upload is not None:
            self._keep(upload, channel, [data], "that arrived before the barrier")

    def _keep(self, upload: SnapshotUpload, channel: InputChannel, data: list[Content], kind: str) -> None:
        size = upload.add(StateKind.INPUT_CHANNEL, self._gates.index(channel.gate), channel.index, data)
        self._trace(f"stores {in_bytes(size)} {kind} from", self._numbers[channel], upload.checkpoint_id)

    def _stop_persisting(self, checkpoint_id: int) -> None:
        for channel in self.channels:
            channel.stop_persisting(checkpoint_id)

    def _trace(self, text: str, channel: int, checkpoint_id: int | None = None) -> None:
        if self._task.traced:
            self._task.trace(f"{text} {self._task.upstream[channel]}", checkpoint_id)


def create_barrier_handler(config: NetworkConfig, channels: int) -> BarrierHandler:
    """Return the handler of the configured checkpoint mode (Flink's InputProcessorUtil)."""
    after_finish = config.checkpoints_after_tasks_finish
    return config.barrier_mode.handler(channels, checkpoints_after_tasks_finish=after_finish)
