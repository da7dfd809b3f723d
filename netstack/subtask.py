"""What all subtasks share: one thread of control, its mailbox, its outputs and its time account.

A subtask does one thing at a time. It reads only while it can write, and it handles mail (timers, the
coordinator's requests) between two records, never during a sleep. The rules are those of Flink's
StreamTask and its mailbox.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol

from buffers import RecordBlock
from flowcontrol import AlignmentMetrics, CheckpointBarrier, EndOfPartition, Event

from .agenda import Agenda, Waiter
from .config import CostModel
from .partition import ResultPartition
from .randomness import Randomness
from .selectors import ChannelSelector
from .statistics import SubtaskSample

Mail = Callable[[], None]


class Waiting(Enum):
    """What a subtask waits for."""

    NOTHING = "nothing"
    INPUT = "input"
    OUTPUT = "output"
    CONSUMERS = "consumers"
    TIME = "time"


class Acknowledgement(NamedTuple):
    """What a subtask reports of its part in a checkpoint; times in seconds."""

    checkpoint_id: int
    metrics: AlignmentMetrics
    sync_s: float


class Coordinator(Protocol):
    """The part of the checkpoint coordinator that subtasks see."""

    def acknowledge(self, subtask: Subtask, report: Acknowledgement) -> None:
        """A subtask has taken its snapshot."""
        ...

    def decline(self, checkpoint_id: int) -> None:
        """A subtask has given a checkpoint up."""
        ...

    def finished(self, subtask: Subtask) -> None:
        """A subtask has ended; no acknowledgement will come from it any more."""
        ...


class TimeAccount:
    """How long a subtask was idle and back-pressured, in seconds; the rest of the time it was busy."""

    __slots__ = ("_since", "_state", "backpressured", "idle")

    def __init__(self) -> None:
        self.idle = 0.0
        self.backpressured = 0.0
        self._state = Waiting.NOTHING
        self._since = 0.0

    def enter(self, state: Waiting, now: float) -> None:
        """The subtask begins to wait for `state`, or to work again."""
        self.settle(now)
        self._state = state

    def settle(self, now: float) -> None:
        """Book the time until `now`."""
        elapsed = now - self._since
        self._since = now
        if self._state is Waiting.OUTPUT:
            self.backpressured += elapsed
        elif self._state is not Waiting.NOTHING:
            self.idle += elapsed


class Output(NamedTuple):
    """One exchange out of a subtask; without a selector each record goes to all subpartitions."""

    partition: ResultPartition
    selector: ChannelSelector | None


class Environment(NamedTuple):
    """What every subtask of a job is given."""

    agenda: Agenda
    costs: CostModel
    randomness: Randomness
    coordinator: Coordinator
    checkpoints_after_tasks_finish: bool = True


class Subtask:
    """One parallel instance of a vertex.

    `vertex` and `index` say which. `outputs` are written in order; a record goes to each of them.
    `upstream` are the subtasks it reads from. `last_checkpoint` is the latest whose barrier it has sent on.
    """

    def __init__(self, environment: Environment, vertex: int, index: int) -> None:
        self.environment = environment
        self.agenda = environment.agenda
        self.vertex = vertex
        self.index = index
        self.outputs: list[Output] = []
        self.upstream: list[Subtask] = []
        self.last_checkpoint = 0
        self.times = TimeAccount()
        self.ended = False
        self._mail: deque[Mail] = deque()
        self._waiter = Waiter(self.agenda)
        self._waiting = Waiting.NOTHING
        self._wake_up = environment.costs.wake_up_s
        self._jitter = environment.randomness.jitter

    async def run(self) -> None:
        """Work until the input has ended or the job is cancelled."""
        raise NotImplementedError

    def post(self, mail: Mail) -> None:
        """Have `mail` handled between two records, as soon as that is possible."""
        self._mail.append(mail)
        self._waiter.wake(self._wake_up * self._jitter())

    def output_available(self) -> None:
        """A pool has buffers again: go on if that is what is waited for."""
        if self._waiting is Waiting.OUTPUT:
            self._waiter.wake(self._wake_up * self._jitter())

    @property
    def available(self) -> bool:
        """Whether all outputs can take another record."""
        for output in self.outputs:  # noqa: SIM110 - a generator costs twice as much, once a record
            if not output.partition.pool.available:
                return False
        return True

    def _handle_mail(self) -> None:
        while self._mail:
            self._mail.popleft()()

    async def _wait(self, reason: Waiting) -> None:
        """Wait once, for `reason` or for mail."""
        agenda = self.agenda
        self._waiting = reason
        self.times.enter(reason, agenda.now)
        await self._waiter.wait()
        self.times.enter(Waiting.NOTHING, agenda.now)
        self._waiting = Waiting.NOTHING

    async def wait_for_output(self) -> None:
        """Wait until the next record may be begun; mail is handled meanwhile."""
        while not self.available:
            await self._wait(Waiting.OUTPUT)
            if self._mail:
                self._handle_mail()

    async def _complete_record(self, partition: ResultPartition) -> None:
        """Wait, within a record, until it is written whole; mail has to wait too."""
        while not partition.go_on():
            await self._wait(Waiting.OUTPUT)

    async def emit(self, block: RecordBlock, channels: list[list[int]], start: int, stop: int) -> int:
        """Write records until the outputs become unavailable; returns the first one not written."""
        if len(self.outputs) == 1:
            return await self._emit_to(0, block, channels[0], start, stop)
        while start < stop:
            for number in range(len(self.outputs)):
                await self._emit_to(number, block, channels[number], start, start + 1)
            start += 1
            if not self.available:
                break
        return start

    async def _emit_to(
        self, number: int, block: RecordBlock, channels: list[int], start: int, stop: int
    ) -> int:
        partition, selector = self.outputs[number]
        if selector is None:
            index = partition.broadcast(block, start, stop)
        else:
            index = partition.write(block, channels, start, stop)
        if partition.blocked:
            await self._complete_record(partition)
        return index

    def select_channels(self, block: RecordBlock) -> list[list[int]]:
        """The channels of all records of `block`, for each output."""
        return [[] if output.selector is None else output.selector.select(block) for output in self.outputs]

    def _broadcast(self, event: Event) -> None:
        for output in self.outputs:
            output.partition.broadcast_event(event)

    def trigger_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Start checkpoint `barrier`: a request of the coordinator, handled as mail."""
        self.post(partial(self._start_checkpoint, barrier))

    def _start_checkpoint(self, barrier: CheckpointBarrier) -> None:
        now = self.agenda.now
        sync = self._forward_barrier(barrier)
        metrics = AlignmentMetrics(max(0.0, now - barrier.timestamp), 0.0, 0)
        report = Acknowledgement(barrier.checkpoint_id, metrics, sync)
        self.agenda.after(sync, self.environment.coordinator.acknowledge, self, report)

    def _forward_barrier(self, barrier: CheckpointBarrier) -> float:
        """Send `barrier` on; returns how long the synchronous part of the snapshot takes, in seconds."""
        self.last_checkpoint = barrier.checkpoint_id
        self._broadcast(barrier)
        return self.environment.randomness.uniform(*self.environment.costs.sync_s)

    async def _end(self) -> None:
        """Wait until all consumers have processed all records, taking checkpoints meanwhile; then finish.

        So that checkpoints go on while a job drains (FLIP-147).
        """
        if self.environment.checkpoints_after_tasks_finish:
            while not self._acknowledged:
                await self._wait(Waiting.CONSUMERS)
                self._handle_mail()
        self._broadcast(EndOfPartition())
        for output in self.outputs:
            output.partition.finish()

    @property
    def _acknowledged(self) -> bool:
        return all(output.partition.acknowledged for output in self.outputs)

    def consumer_acknowledged(self) -> None:
        """A consumer has processed all records: go on if it was the last."""
        if self._waiting is Waiting.CONSUMERS and self._acknowledged:
            self._waiter.wake(self._wake_up * self._jitter())

    def sample(self) -> SubtaskSample:
        """The counters and gauges of this moment."""
        self.times.settle(self.agenda.now)
        partitions = [output.partition for output in self.outputs]
        size = sum(partition.pool.size for partition in partitions)
        return SubtaskSample(
            records_out=sum(partition.records_out for partition in partitions),
            bytes_out=sum(partition.bytes_out for partition in partitions),
            buffers_out=sum(partition.buffers_out for partition in partitions),
            busy_s=self.agenda.now - self.times.idle - self.times.backpressured,
            backpressured_s=self.times.backpressured,
            idle_s=self.times.idle,
            output_queue_length=sum(partition.queue_length for partition in partitions),
            output_queue_size=sum(partition.queued_bytes for partition in partitions),
            out_pool_usage=sum(partition.pool.used for partition in partitions) / size if size else 0.0,
        )

    def release(self) -> None:
        """Give all memory back."""
        for output in self.outputs:
            output.partition.release()
