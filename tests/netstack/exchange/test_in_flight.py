"""What an unaligned checkpoint keeps of a channel, over both of its ends and whatever happens when.

What the task had read when it began the checkpoint, what was in flight at its end of the channel, what came
there later, and what the barrier overtook at the producer make up all that was written before the barrier.
Data that an earlier checkpoint has restored at the reader counts as written first.
"""

from __future__ import annotations

from collections import deque
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffers import BufferBuilder, EventConsumer, NetworkBufferPool, PipelinedSubpartition
from flowcontrol import (
    AddCredit,
    Alignment,
    BufferResponse,
    CheckpointBarrier,
    CheckpointOptions,
    EndOfOutputChannelState,
    EventAnnouncement,
    Message,
    PartitionRequest,
    ResumeConsumption,
    SendQueue,
    decode_event,
)
from netstack.exchange.channel import InputChannel
from netstack.exchange.connection import ConsumerEnd
from netstack.exchange.gate import InputGate
from netstack.exchange.local_channel import LocalInputChannel
from netstack.exchange.remote_channel import RemoteInputChannel
from tests.netstack.exchange.queues import event_item

UNALIGNED = CheckpointBarrier(1, 0.0, CheckpointOptions(Alignment.UNALIGNED))
TIMEOUTABLE = CheckpointBarrier(1, 0.0, CheckpointOptions(timeout_s=5.0))

STEPS = ["write", "write open", "flush", "send", "deliver", "credit", "read", "resume"]
CHECKPOINT_STEPS = ["start", "overtake", "timeoutable", "producer times out", "task times out"]


class NoConnection:
    """Credit is fetched, and nothing else is sent."""

    def credit_available(self, channel: RemoteInputChannel) -> None: ...

    def send(self, message: Message) -> None: ...


class Exchange:
    """A subpartition, a channel that reads it, and a task that takes one checkpoint of both.

    With `recovered`, the channel still has this data of an earlier checkpoint to read. The subpartition then
    blocks behind the end of its own recovered data, which only a priority event passes.
    """

    def __init__(self, *, remote: bool, recovered: bytes = b"") -> None:
        self.memory = NetworkBufferPool(400, 16)
        self.pool = self.memory.create_pool(300, 1, 300)
        self.subpartition = PipelinedSubpartition(0, passes_priority=True)
        if recovered:
            self.subpartition.add(event_item(EndOfOutputChannelState()))
        self.gate = InputGate("input", self.memory.create_pool(4, 1, 4), None, lambda: None)
        self.channel: InputChannel
        self.queue = SendQueue()
        self.wire: deque[BufferResponse] = deque()
        if remote:
            connection, segments = cast(ConsumerEnd, NoConnection()), self.memory.request_unpooled(2)
            self.channel = RemoteInputChannel(self.gate, 0, 0, connection, segments, self.gate.floating)
            sender = self.queue.open(PartitionRequest(0, 2), self.subpartition)
            self.subpartition.on_data = lambda: self.queue.data_available(sender)
        else:
            self.channel = LocalInputChannel(self.gate, 0, 0, self.subpartition)
        self.channel.restore(recovered, marks_end=False)
        if not remote:
            self.channel.request(0)
        self.channel.persist = lambda checkpoint_id, channel, data: self.persisted.append(data)
        self.builder: BufferBuilder | None = None
        self.written = bytearray(recovered)
        self.may_resume = False
        self.before_barrier: bytes | None = None
        self.read_before_start = bytearray()
        self.announced: int | None = None
        self.in_flight: list[bytes] | None = None
        self.persisted: list[bytes] = []
        self.overtaken: list[list[bytes]] = []

    def step(self, what: str) -> None:
        if what.startswith("write"):
            self.write(finish=what == "write")
        elif what == "flush":
            self.subpartition.flush()
        elif what == "send":
            self.send()
        elif what == "deliver" and self.wire:
            assert isinstance(self.channel, RemoteInputChannel)
            self.channel.on_message(self.wire.popleft())
        elif what == "credit" and isinstance(self.channel, RemoteInputChannel):
            credit = self.channel.take_credit()
            if credit:
                self.queue.handle(AddCredit(0, credit))
        elif what == "read":
            self.read()
        elif what == "start":
            self.start()
        elif what == "resume" and self.may_resume:
            self.may_resume = False
            self.channel.resume()
            if isinstance(self.channel, RemoteInputChannel):
                self.queue.handle(ResumeConsumption(0))
        elif what in ("overtake", "timeoutable") and self.before_barrier is None:
            self.send_barrier(overtake=what == "overtake")
        elif what == "producer times out":
            self.subpartition.alignment_timeout(1, self.event(UNALIGNED))
        elif what == "task times out" and self.announced is not None:
            self.channel.prioritize(self.announced)
            self.announced = None

    def close(self) -> None:
        if self.builder is not None:
            self.builder.finish()
            self.builder = None

    def write(self, *, finish: bool) -> None:
        self.close()
        segment = self.pool.request()
        assert segment is not None
        self.builder = BufferBuilder(segment, self.pool)
        data = bytes([len(self.written) % 251, len(self.written) // 251])
        self.builder.append(memoryview(data))
        self.written += data
        self.subpartition.add(self.builder.consumer())
        if finish:
            self.close()

    def send(self) -> None:
        item = self.queue.next_message()
        if item is not None:
            message, buffer = item
            assert isinstance(message, BufferResponse)
            assert buffer is not None
            payload = bytes(message.payload)
            self.wire.append(
                BufferResponse(
                    0, 0, message.sequence_number, message.backlog, message.data_type, False, payload
                )
            )
            buffer.release()

    @staticmethod
    def event(barrier: CheckpointBarrier) -> EventConsumer:
        return event_item(barrier, priority=barrier.options.is_unaligned)

    def send_barrier(self, *, overtake: bool) -> None:
        self.close()
        self.before_barrier = bytes(self.written)
        if overtake:
            self.overtaken.append(self.subpartition.overtake(self.event(UNALIGNED)))
        else:
            self.subpartition.add_timeoutable(self.event(TIMEOUTABLE), 1, self.overtaken.append)

    def start(self) -> None:
        """The task begins the checkpoint, if it has not: for this channel's barrier or for another one's."""
        if self.in_flight is None:
            self.in_flight = self.channel.start_persisting(1)

    def read(self) -> None:
        polled = self.gate.poll(0.0)
        if polled is None:
            return
        item = polled[1]
        if not item.is_event:
            if self.in_flight is None:
                self.read_before_start += item.payload
        elif isinstance(event := decode_event(item.payload), EventAnnouncement):
            self.announced = event.sequence_number
        elif isinstance(event, EndOfOutputChannelState):
            self.may_resume = True
        else:
            self.announced = None
            self.start()
        item.release()

    def run_out(self) -> None:
        """Let all that is written arrive and be read; barriers that block are never resumed."""
        if self.before_barrier is None:
            self.send_barrier(overtake=True)
        for _ in range(4 * len(self.written) + 20):
            for what in ("flush", "send", "deliver", "read", "credit", "resume"):
                self.step(what)


@pytest.mark.parametrize("recovered", [b"", bytes(range(90))], ids=["", "recovering"])
@pytest.mark.parametrize("remote", [True, False], ids=["remote", "local"])
@settings(max_examples=200)
@given(steps=st.lists(st.sampled_from(STEPS * 3 + CHECKPOINT_STEPS), min_size=20, max_size=100))
def test_nothing_before_the_barrier_is_lost_or_kept_twice(
    remote: bool, recovered: bytes, steps: list[str]
) -> None:
    exchange = Exchange(remote=remote, recovered=recovered)
    for step in steps:
        exchange.step(step)
    exchange.run_out()
    assert exchange.in_flight is not None
    assert len(exchange.overtaken) == 1
    kept = [*exchange.in_flight, *exchange.persisted, *exchange.overtaken[0]]
    assert bytes(exchange.read_before_start) + b"".join(kept) == exchange.before_barrier
