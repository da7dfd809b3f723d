"""The inputs of a subtask as its checkpoints see them: barriers in, actions out.

All channels of all gates stand in one line of numbers. Events go to the barrier handler of the checkpoint
mode, and what it decides is done here. The rules are those of Flink's CheckpointedInputGate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from buffers import Content, Pieces
from flowcontrol import (
    Abort,
    Action,
    Alarm,
    AlignmentEnd,
    AlignmentMetrics,
    AlternatingAligner,
    BarrierAligner,
    BarrierHandler,
    BarrierTracker,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfPartition,
    Event,
    EventAnnouncement,
    Prioritize,
    Resume,
    Trigger,
    decode_event,
)

from ..exchange.channel import InputChannel
from ..exchange.gate import InputGate, Item
from ..results.trace import barrier_text, in_bytes
from ..scenarios.config import CheckpointMode, NetworkConfig
from .checkpointing_task import CheckpointingTask


class Snapshots(Protocol):
    """What inputs ask for and tell when barriers have come; the sequence is that of the barrier handler."""

    def begin(self, barrier: CheckpointBarrier, metrics: AlignmentMetrics | None) -> float:
        """Take the synchronous part; returns its duration in seconds."""
        ...

    def upload(self, checkpoint_id: int) -> None:
        """Begin the asynchronous part."""
        ...

    def pass_sync(self, checkpoint_id: int, sync_s: float) -> None:
        """Let the task stand still for the synchronous part, and then upload."""
        ...

    def give_up(self, checkpoint_id: int, reason: str) -> None:
        """A checkpoint cannot be completed here."""
        ...

    def alignment_ended(self, checkpoint_id: int, metrics: AlignmentMetrics) -> None:
        """The last barrier of an unaligned checkpoint is here."""
        ...

    def add_input(self, checkpoint_id: int, gate: int, channel: int, data: Content) -> None:
        """Data arrived on a channel before the barrier of an unaligned checkpoint that has begun."""
        ...


class Begun(NamedTuple):
    """A snapshot that has begun: how long its synchronous part takes, and what is to be done after it."""

    checkpoint_id: int
    sync_s: float
    rest: Sequence[Action]


class CheckpointedInputs:
    """All channels that `subtask` reads; `snapshots` takes the checkpoints that they bring."""

    def __init__(self, subtask: CheckpointingTask, snapshots: Snapshots, gates: list[InputGate]) -> None:
        config = subtask.environment.config
        self._snapshots = snapshots
        self._agenda = subtask.environment.agenda
        self.gates = gates
        self.channels = [channel for gate in gates for channel in gate.channels]
        self.open_channels = self.channels_with_data = len(self.channels)
        self._subtask = subtask
        self._gate_numbers = {id(gate): number for number, gate in enumerate(gates)}
        self._firsts: dict[int, int] = {}
        for gate in gates:
            self._firsts[id(gate)] = sum(len(other.channels) for other in gates[: len(self._firsts)])
        self._turn = 0
        self._recovering = len(gates)
        self._waiting_upstream: list[set[int]] = [set() for _ in gates]  # by gate, indices of channels
        self.handler = barrier_handler(config, self.open_channels)
        self.bytes_processed = self.handler.bytes_processed
        # With one gate there is no frame of ours around its poll, which runs once a buffer.
        self.poll = gates[0].poll if len(gates) == 1 else self._poll_in_turns
        for gate in gates:
            gate.on_priority = self._priority_arrived
        if config.takes_unaligned_checkpoints:
            self._persist_data()

    def _persist_data(self) -> None:
        persist = self._persist  # one object for all channels
        for channel in self.channels:
            channel.persist = persist

    def let_overtake(self) -> None:
        """Barriers may overtake data from now on; one that is being aligned is aligned to its end."""
        aligner = self.handler
        if isinstance(aligner, BarrierAligner):
            count_ends = self._subtask.environment.config.checkpoints_after_tasks_finish
            self.handler = AlternatingAligner(len(self.channels), checkpoints_after_tasks_finish=count_ends)
            self.handler.take_over(aligner)
            self._persist_data()

    def _poll_in_turns(self, now: float) -> tuple[InputChannel, Item] | None:
        """The next item of the gate whose turn it is."""
        gates = self.gates
        for _ in gates:
            gate = gates[self._turn]
            self._turn = (self._turn + 1) % len(gates)
            polled = gate.poll(now)
            if polled is not None:
                return polled
        return None

    def handle(self, channel: InputChannel, event: Event) -> Begun | None:
        """Let the barrier handler see an event, and do what it decides up to a snapshot."""
        number, now = self._number(channel), self._agenda.now
        handler = self.handler
        match event:
            case CheckpointBarrier():
                actions = handler.barrier(number, event, now)
                if self._subtask.traced:
                    text = barrier_text(event, self._sender(number), number, actions)
                    self._subtask.trace(text, event.checkpoint_id)
            case EventAnnouncement():
                checkpoint_id = event.barrier.checkpoint_id
                self._tell(f"barrier {checkpoint_id} is announced by", number, checkpoint_id)
                actions = handler.announcement(number, event.barrier, event.sequence_number, now)
            case CancelCheckpointMarker():
                self._tell(f"checkpoint {event.checkpoint_id} is cancelled by", number, event.checkpoint_id)
                actions = handler.cancel(number, event.checkpoint_id, now)
            case EndOfPartition():
                self.open_channels -= 1
                actions = handler.end_of_partition(number, now)
                if actions:
                    self._tell("waits for no barrier any more from", number)
            case _:
                raise TypeError(f"a barrier handler has nothing to do with {event}")
        return self._perform(actions)

    def finish(self, begun: Begun) -> None:
        """The synchronous part is over: do the rest, then let the upload begin."""
        for action in begun.rest:
            self._do(action)
        self._snapshots.upload(begun.checkpoint_id)

    def _perform(self, actions: Sequence[Action]) -> Begun | None:
        for place, action in enumerate(actions):
            if isinstance(action, Trigger):
                sync = self._snapshots.begin(action.barrier, action.metrics)
                return Begun(action.barrier.checkpoint_id, sync, actions[place + 1 :])
            self._do(action)
        return None

    def _do(self, action: Action) -> None:
        subtask = self._subtask
        match action:
            case Resume():
                self._tell("resumes the channel from", action.channel, self.handler.current_checkpoint_id)
                self.channels[action.channel].resume()
            case Abort():
                checkpoint_id = action.checkpoint_id
                subtask.trace(f"gives checkpoint {checkpoint_id} up: {action.reason.value}", checkpoint_id)
                self._snapshots.give_up(checkpoint_id, action.reason.value)
            case Prioritize():
                checkpoint_id = self.handler.current_checkpoint_id
                self._tell(
                    f"barrier {checkpoint_id} overtakes what is queued here from",
                    action.channel,
                    checkpoint_id,
                )
                self.channels[action.channel].prioritize(action.sequence_number)
            case AlignmentEnd():
                self.stop_persisting(action.checkpoint_id)
                self._snapshots.alignment_ended(action.checkpoint_id, action.metrics)
            case Alarm():
                alarm = partial(self._alarm, action.checkpoint_id)
                subtask.environment.scope.after(action.delay_s, subtask.post, alarm)
            case Trigger():
                raise TypeError("two snapshots cannot begin at once")

    def _alarm(self, checkpoint_id: int) -> None:
        actions = self.handler.alarm(checkpoint_id, self._agenda.now)
        if actions:
            text = f"checkpoint {checkpoint_id} has been aligned for too long: it goes on unaligned"
            self._subtask.trace(text, checkpoint_id)
        self._in_mail(self._perform(actions))

    def _priority_arrived(self) -> None:
        self._subtask.post(self._handle_priority)

    def _handle_priority(self) -> None:
        """Handle all events that overtake data, between two records: mail."""
        for gate in self.gates:
            while (polled := gate.poll_priority(self._agenda.now)) is not None:
                channel, item = polled
                self._in_mail(self.handle(channel, decode_event(bytes(item.payload))))

    def _in_mail(self, begun: Begun | None) -> None:
        """What is done in mail cannot wait: the task stands still after it for the synchronous part."""
        if begun is not None:
            for action in begun.rest:
                self._do(action)
            self._snapshots.pass_sync(begun.checkpoint_id, begun.sync_s)

    def start_persisting(self, checkpoint_id: int) -> Iterator[tuple[int, int, Pieces]]:
        """(gate, channel, data) of what is in flight on each channel; what arrives later is told."""
        for number, channel in enumerate(self.channels):
            data = Pieces([*self._subtask.unconsumed(channel), *channel.start_persisting(checkpoint_id)])
            if len(data):
                self._tell(f"keeps {in_bytes(len(data))} in flight from", number, checkpoint_id)
            yield (*self._place_of(self.channels[number]), data)

    def stop_persisting(self, checkpoint_id: int) -> None:
        """What arrives from now on belongs to no checkpoint."""
        for channel in self.channels:
            channel.stop_persisting(checkpoint_id)

    def _persist(self, checkpoint_id: int, channel: InputChannel, data: Content) -> None:
        number = self._number(channel)
        gate, index = self._place_of(channel)
        if self._subtask.traced:
            size = in_bytes(len(data))
            self._tell(f"keeps {size} that come before the barrier from", number, checkpoint_id)
        self._snapshots.add_input(checkpoint_id, gate, index, data)

    def _number(self, channel: InputChannel) -> int:
        """The place of a channel in the line of all."""
        return self._firsts[id(channel.gate)] + channel.index

    def _place_of(self, channel: InputChannel) -> tuple[int, int]:
        """Number of the gate, and of the channel within it."""
        return self._gate_numbers[id(channel.gate)], channel.index

    def restore(self, gate: int, channel: int, data: bytes) -> None:
        """Queue recovered data on a channel."""
        self.gates[gate].channels[channel].restore(data)

    def recovered(self, channel: InputChannel) -> bool:
        """The recovered data of `channel` has been read; returns whether that was the last of all channels.

        A gate whose channels have all been read requests its partitions.
        """
        gate = self.gates[self._place_of(channel)[0]]
        if gate.recovered(channel):
            gate.request_partitions()
            self._recovering -= 1
        return self._recovering == 0

    def upstream_recovered(self, channel: InputChannel) -> None:
        """What the producer of `channel` had recovered has been read; all wait for the last such channel."""
        number, index = self._place_of(channel)
        waiting, channels = self._waiting_upstream[number], self.gates[number].channels
        waiting.add(index)
        if len(waiting) == len(channels):
            waiting.clear()
            for other in channels:
                other.resume()

    def _sender(self, channel: int) -> str:
        """The subtask at the other end of a channel, for people to read."""
        return str(self._subtask.upstream[channel])

    def _tell(self, text: str, channel: int, checkpoint_id: int | None = None) -> None:
        if self._subtask.traced:
            self._subtask.trace(f"{text} {self._sender(channel)}", checkpoint_id)


def barrier_handler(config: NetworkConfig, channels: int) -> BarrierHandler:
    """The handler of the configured checkpoint mode (Flink's InputProcessorUtil)."""
    after_finish = config.checkpoints_after_tasks_finish
    if config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
        return BarrierTracker(channels, checkpoints_after_tasks_finish=after_finish)
    if config.takes_unaligned_checkpoints:
        return AlternatingAligner(channels, checkpoints_after_tasks_finish=after_finish)
    return BarrierAligner(channels, checkpoints_after_tasks_finish=after_finish)
