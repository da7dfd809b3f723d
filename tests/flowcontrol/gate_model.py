"""A small gate for the tests of barrier handlers: channels with priority, an alarm clock, a task.

Remote channels announce a barrier that may time out; local ones do not. The task does what the handler
says, and writes down the data of its channels as Flink's channels do. Sequence numbers count the items
that arrive on a channel.
"""

from collections import deque
from dataclasses import dataclass

from flowcontrol import (
    Abort,
    Action,
    Alarm,
    AlignmentEnd,
    AlternatingAligner,
    CancelCheckpointMarker,
    ChannelBarrier,
    CheckpointBarrier,
    EndOfPartition,
    EventAnnouncement,
    Prioritize,
    Resume,
    Trigger,
)


@dataclass(frozen=True)
class Data:
    """A data buffer of one channel; `number` tells them apart."""

    number: int
    size: int = 0


Item = Data | CheckpointBarrier | EventAnnouncement | CancelCheckpointMarker | EndOfPartition


class ModelChannel:
    """What has arrived and was not polled: (sequence number, item), with a priority part in front."""

    def __init__(self, remote: bool) -> None:
        self.remote = remote
        self.priority: deque[tuple[int, Item]] = deque()
        self.queue: deque[tuple[int, Item]] = deque()
        self.barrier = ChannelBarrier[object]()
        self.persisted: dict[int, list[Data]] = {}
        self.barriers: dict[int, int] = {}
        self._next = 0

    def arrive(self, item: Item) -> None:
        number = self._next
        self._next += 1
        if isinstance(item, Data) and self.barrier.persisting is not None:
            self.persisted[self.barrier.persisting].append(item)
        if isinstance(item, CheckpointBarrier):
            self.barrier.arrive(item.checkpoint_id, None)
            self.barriers[item.checkpoint_id] = number
            if item.options.is_unaligned:
                self.priority.append((number, item))
                return
            if item.options.timeoutable and self.remote:
                self.priority.append((number, EventAnnouncement(item, number)))
        (self.priority if isinstance(item, EventAnnouncement) else self.queue).append((number, item))

    def start_persisting(self, checkpoint_id: int) -> None:
        """Write down what is queued before the barrier, or all and what follows if it has not arrived."""
        self.barrier.start(checkpoint_id)
        end = self.barriers.get(checkpoint_id, self._next)
        queued = [item for number, item in self.queue if number < end and isinstance(item, Data)]
        self.persisted[checkpoint_id] = queued

    def prioritize(self, number: int) -> None:
        """Move the barrier of that number to the priority part, if it is queued."""
        for entry in self.queue:
            if entry[0] == number and isinstance(entry[1], CheckpointBarrier):
                self.queue.remove(entry)
                self.priority.append(entry)
                return

    def poll(self) -> Item:
        return (self.priority or self.queue).popleft()[1]


class ModelGate:
    """Channels in line, those with priority first, and the handler of the task that polls them."""

    def __init__(self, handler: AlternatingAligner, remote: list[bool]) -> None:
        self.handler = handler
        self.channels = [ModelChannel(is_remote) for is_remote in remote]
        self.line: list[int] = []
        self.now_ms = 1000
        self.alarms: list[tuple[float, int]] = []
        self.done: list[Action] = []

    @property
    def now(self) -> float:
        return self.now_ms / 1000

    def arrive(self, channel: int, item: Item) -> None:
        self.channels[channel].arrive(item)
        if channel not in self.line:
            self.line.append(channel)

    def poll(self) -> tuple[int, Item] | None:
        """Hand the next item to the handler and do what it says; the item and its channel."""
        if not self.line:
            return None
        channel = next((number for number in self.line if self.channels[number].priority), self.line[0])
        self.line.remove(channel)
        source = self.channels[channel]
        item = source.poll()
        if source.priority or source.queue:
            self.line.append(channel)
        self.apply(self.handle(channel, item))
        return channel, item

    def handle(self, channel: int, item: Item) -> list[Action]:
        handler = self.handler
        match item:
            case Data():
                handler.bytes_processed(item.size)
                return []
            case CheckpointBarrier():
                return handler.barrier(channel, item, self.now)
            case EventAnnouncement():
                return handler.announcement(channel, item.barrier, item.sequence_number, self.now)
            case CancelCheckpointMarker():
                return handler.cancel(channel, item.checkpoint_id, self.now)
            case EndOfPartition():
                return handler.end_of_partition(channel, self.now)

    def run_alarms(self) -> None:
        due = sorted(alarm for alarm in self.alarms if alarm[0] <= self.now)
        self.alarms = [alarm for alarm in self.alarms if alarm[0] > self.now]
        for _, checkpoint_id in due:
            self.apply(self.handler.alarm(checkpoint_id, self.now))

    def apply(self, actions: list[Action]) -> None:
        for action in actions:
            self.done.append(action)
            match action:
                case Trigger(barrier, None):
                    for channel in self.channels:
                        channel.start_persisting(barrier.checkpoint_id)
                case AlignmentEnd() | Abort():
                    for channel in self.channels:
                        channel.barrier.stop(action.checkpoint_id)
                case Prioritize(channel, number):
                    self.channels[channel].prioritize(number)
                case Alarm():
                    self.alarms.append((self.now + action.delay_s, action.checkpoint_id))
            self.note(action)

    def note(self, action: Action) -> None:
        """Called after each action; for those who check them."""

    def triggers(self) -> list[Trigger]:
        return [action for action in self.done if isinstance(action, Trigger)]

    def resumed(self) -> list[int]:
        return [action.channel for action in self.done if isinstance(action, Resume)]
