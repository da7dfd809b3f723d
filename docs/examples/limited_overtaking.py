"""A change of the protocol: barriers that overtake a limited number of buffers, and are aligned then.

An aligned barrier of Flink's waits behind all data, an unaligned one behind none. Here a barrier overtakes
at most so many buffers in the queue of the sender, and as many in that of the receiver::

    sender    --d--d--d--|b|--d--d-->     limit 2: five were queued, two of them are stored
    receiver  --d--|b|--d--d-->           the same again where it arrives

It is still an aligned barrier: its channel is blocked behind it, and the task takes its snapshot with the
last one. So nothing of any other channel is stored, and a checkpoint has at most twice the limit of each
channel. Data that was overtaken waits behind the barrier, in the receiver's queue too, which therefore is
not polled on until the channel is resumed. A limit of 0 is Flink's aligned checkpoint.

Invariant: what is stored of a channel is what its sender has emitted before its snapshot, less what its
receiver has processed before its own, in order: first the begin of a record that is cut in two by the
barrier, then what was overtaken at the receiver, then what was overtaken at the sender.

Without exclusive buffers it overtakes at the sender only: what waits behind it at the receiver would keep
the floating buffers that the other channels need for their barriers to come, which none could then.

Not covered: channels within a task manager have no queue at the receiver; savepoints stay aligned.

``python docs/examples/limited_overtaking.py`` in a checkout emulates one job with several limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from buffers import (
    BufferConsumer,
    ChannelQueue,
    Content,
    EventBuffer,
    EventConsumer,
    PipelinedSubpartition,
    content_of,
)
from flowcontrol import (
    Alignment,
    CheckpointBarrier,
    DataType,
    Trigger,
    data_type_of,
    encode_event,
)
from integration import load_scenario
from netstack import Result, Scenario, emulate
from netstack.exchange import remote_channel
from netstack.exchange.channel import Item
from netstack.exchange.partition import ResultPartition
from netstack.exchange.remote_channel import RemoteInputChannel
from netstack.jobs import build
from netstack.tasks import operator_subtask
from netstack.tasks.input_barriers import InputBarriers
from netstack.tasks.snapshot_upload import SnapshotUpload

SCENARIO = Path(__file__).parents[2] / "tests/data/flink-reference/2x2_200KBs_off.toml"
LIMITS = (0, 1, 2, 4, 8)

ALIGNED_BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER


class Limit:
    """Most buffers that a barrier may overtake at each end of a channel, in the present block."""

    buffers: ClassVar[int] = 0


def place_before_last(queue: list[Any], data: type | tuple[type, ...], limit: int, first: int = 0) -> int:
    """Return the place of a barrier that overtakes at most `limit` data buffers of `queue`, and no event.

    It does not go before place `first`.
    """
    place = len(queue)
    while place > first and len(queue) - place < limit and isinstance(queue[place - 1], data):
        place -= 1
    return place


class LimitedSubpartition(PipelinedSubpartition):
    """A queue whose aligned barriers overtake some of the data in it."""

    __slots__ = ()

    def overtake_some(self, barrier: EventConsumer) -> list[Content]:
        """Queue `barrier` before the last buffers; returns the unread bytes of those."""
        if self.finished or self.released:
            barrier.close()
            return []
        queue = list(self._queue)
        place = place_before_last(queue, BufferConsumer, Limit.buffers, self.in_front)
        overtaken = [item.copy_unread() for item in queue[place:] if item.unread]
        queue.insert(place, barrier)
        self._queue = queue
        self.total_buffers += 1
        # A reader without credit would not look again, and may take an event that stands in front.
        in_front = place == self.in_front
        due = not self._flush_requested and self._finished_buffers() == 1
        if not self.blocked and (in_front or due):
            self._notify()
        return overtaken


class LimitedPartition(ResultPartition):
    """Sends aligned barriers so, where barriers may overtake at all."""

    def broadcast_barrier(
        self, barrier: CheckpointBarrier, settled: Callable[[int, list[Content] | None], None]
    ) -> bool:
        """Send a barrier on; `settled` gets what it has overtaken in each subpartition."""
        if not self.supports_unaligned or not may_overtake(barrier):
            return super().broadcast_barrier(barrier, settled)
        self._finish_open()
        consumer = EventConsumer(EventBuffer(encode_event(barrier), data_type_of(barrier)))
        for number, queue in enumerate(self.subpartitions):
            assert isinstance(queue, LimitedSubpartition)
            settled(number, queue.overtake_some(consumer))
        return True


def may_overtake(barrier: CheckpointBarrier) -> bool:
    """Whether it is the aligned barrier of a checkpoint that stays aligned, and is no savepoint."""
    options = barrier.options
    return options.alignment is Alignment.ALIGNED and not options.timeoutable and options.savepoint is None


class LimitedChannel(RemoteInputChannel):
    """Lets aligned barriers overtake in its queue, and is not polled on behind them until it is resumed."""

    __slots__ = ("_checkpoint_id", "_overtaken")

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._checkpoint_id = -1
        self._overtaken: list[Content] = []

    def _enqueue_event(
        self, event: EventBuffer, barrier: CheckpointBarrier | None, sequence_number: int
    ) -> None:
        super()._enqueue_event(event, barrier, sequence_number)
        if event.data_type is ALIGNED_BARRIER and self.buffers.exclusive_total:
            arrived = event.event
            assert isinstance(arrived, CheckpointBarrier)
            if may_overtake(arrived):
                self._overtake(arrived.checkpoint_id, self._own_queue())

    def _overtake(self, checkpoint_id: int, queue: ChannelQueue) -> None:
        items = queue._items
        event = items.pop()
        place = place_before_last(items, remote_channel.ReceivedBuffer, Limit.buffers)
        self._checkpoint_id = checkpoint_id
        self._overtaken = [content_of(buffer.payload) for buffer in items[place:]]
        items.insert(place, event)

    def poll(self) -> tuple[Item | None, bool]:
        """Take the next item; nothing follows a barrier."""
        item, more = super().poll()
        return item, more and (item is None or item.data_type is not ALIGNED_BARRIER)

    def resume(self) -> None:
        """Let the producer go on after a barrier, and the gate with what the barrier has overtaken here."""
        super().resume()
        if self.queue_length:
            self.gate.data_arrived(self)

    def start_persisting(self, checkpoint_id: int) -> list[Content]:
        """Return the data that the barrier of that checkpoint has overtaken here."""
        if checkpoint_id == self._checkpoint_id:
            return self._overtaken
        return super().start_persisting(checkpoint_id)


class LimitedBarriers(InputBarriers):
    """Stores what aligned barriers have overtaken at the inputs, and the begin of a record before them."""

    def begin(self, trigger: Trigger) -> SnapshotUpload | None:
        """Begin a snapshot."""
        upload = super().begin(trigger)
        if upload is not None and may_overtake(trigger.barrier):
            self._collect(upload)
        return upload


@contextmanager
def limited_overtaking(buffers: int) -> Iterator[None]:
    """Let the aligned barriers of all jobs in the block overtake so many buffers at each end of a channel."""
    places: dict[str, Any] = {
        "PipelinedSubpartition": LimitedSubpartition,
        "ResultPartition": LimitedPartition,
        "RemoteInputChannel": LimitedChannel,
    }
    usual = {name: getattr(build, name) for name in places}
    barriers, limit = operator_subtask.InputBarriers, Limit.buffers
    Limit.buffers = buffers
    for name, variant in places.items():
        setattr(build, name, variant)
    operator_subtask.InputBarriers = LimitedBarriers  # type: ignore[misc]
    try:
        yield
    finally:
        Limit.buffers = limit
        for name, variant in usual.items():
            setattr(build, name, variant)
        operator_subtask.InputBarriers = barriers  # type: ignore[misc]


def run(scenario: Scenario, buffers: int, seed: int = 1) -> Result:
    """Emulate a scenario with aligned checkpoints whose barriers overtake so many."""
    with limited_overtaking(buffers):
        return emulate(scenario, seed=seed)


def unaligned(scenario: Scenario) -> Scenario:
    """The same job with Flink's unaligned checkpoints."""
    return replace(scenario, config=replace(scenario.config, unaligned_enabled=True))


def figures(result: Result) -> str:
    """Medians over the checkpoints after the warm-up."""
    counted = [
        one for one in result.checkpoints if one.duration_ms is not None and one.t >= result.scenario.warmup_s
    ]
    took = median(one.duration_ms or 0.0 for one in counted)
    return f"| {took:.0f} | {median(one.persisted_bytes for one in counted) / 1024:.0f} |"


def main() -> None:
    """Print a table."""
    scenario = load_scenario(SCENARIO)
    print("| buffers overtaken | end to end, ms | stored, KiB |\n|---|---:|---:|")
    for limit in LIMITS:
        print(f"| at most {limit} at each end of a channel {figures(run(scenario, limit))}", flush=True)
    print(f"| all, unaligned {figures(emulate(unaligned(scenario)))}")


if __name__ == "__main__":
    main()
