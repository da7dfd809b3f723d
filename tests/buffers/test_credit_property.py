"""Credit over random interleavings: what the two ends of a connection promise each other.

The promises are checked by `MachinePair.check` after each step. A data buffer that leaves without credit,
one that arrives without a free buffer, and a gap in the sequence numbers fail in the machines themselves.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flowcontrol import CancelCheckpointMarker, CheckpointBarrier, EndOfPartition
from tests.protocol_simulator import MachinePair

SEGMENT_SIZE = 16
CHANNEL = st.integers(0, 2)
"""Taken modulo the number of channels."""


class Interleaving(RuleBasedStateMachine):
    """Any order of writing, sending, arriving, consuming and resuming."""

    pair: MachinePair

    @initialize(
        channels=st.integers(1, 3),
        exclusive=st.sampled_from([0, 0, 1, 2]),
        floating=st.sampled_from([1, 2, 4]),
    )
    def open(self, channels: int, exclusive: int, floating: int) -> None:
        self.pair = MachinePair(channels, exclusive=exclusive, floating=floating, segment_size=SEGMENT_SIZE)
        self.channels = channels
        self.serial = 0

    @rule(channel=CHANNEL, size=st.integers(0, 4 * SEGMENT_SIZE))
    def write(self, channel: int, size: int) -> None:
        self.serial += 1
        self.pair.outputs[channel % self.channels].write(self.serial.to_bytes(4) + bytes(size))

    @rule(channel=CHANNEL)
    def flush(self, channel: int) -> None:
        self.pair.outputs[channel % self.channels].subpartition.flush()

    @rule(channel=CHANNEL, barrier=st.booleans())
    def add_event(self, channel: int, barrier: bool) -> None:
        self.serial += 1
        event = CheckpointBarrier(self.serial, 0.0) if barrier else CancelCheckpointMarker(self.serial)
        self.pair.outputs[channel % self.channels].add_event(event)

    @rule(steps=st.integers(1, 12))
    def move(self, steps: int) -> None:
        for _ in range(steps):
            self.pair.move()
            self.pair.check()

    @rule()
    def transmit(self) -> None:
        self.pair.transmit()

    @precondition(lambda self: self.pair.to_consumer)
    @rule()
    def deliver_to_consumer(self) -> None:
        self.pair.deliver_to_consumer()

    @precondition(lambda self: self.pair.to_producer)
    @rule()
    def deliver_to_producer(self) -> None:
        self.pair.deliver_to_producer()

    @precondition(lambda self: self.pair.credit_due)
    @rule(turn=CHANNEL)
    def announce(self, turn: int) -> None:
        self.pair.credit_due.rotate(turn)
        self.pair.announce()

    @precondition(lambda self: any(end.queue for end in self.pair.inputs))
    @rule(turn=CHANNEL)
    def consume(self, turn: int) -> None:
        filled = [end for end in self.pair.inputs if end.queue]
        filled[turn % len(filled)].consume()

    @precondition(lambda self: any(end.at_barrier for end in self.pair.inputs))
    @rule(turn=CHANNEL)
    def resume(self, turn: int) -> None:
        waiting = [end.channel for end in self.pair.inputs if end.at_barrier]
        self.pair.resume(waiting[turn % len(waiting)])

    @invariant()
    def promises_hold(self) -> None:
        self.pair.check()

    def teardown(self) -> None:
        if not hasattr(self, "pair"):
            return
        pair = self.pair
        for output in pair.outputs:
            output.add_event(EndOfPartition())
        pair.settle()
        for output, end in zip(pair.outputs, pair.inputs, strict=True):
            assert end.read == output.written
        pair.close()
        assert pair.leaked_segments == 0


class TestInterleaving(Interleaving.TestCase):
    settings = settings(max_examples=80, stateful_step_count=60)


@pytest.mark.parametrize("exclusive", [0, 1, 2])
@pytest.mark.parametrize("channels", [1, 3])
def test_one_floating_buffer_is_enough(channels: int, exclusive: int) -> None:
    pair = MachinePair(channels, exclusive=exclusive, floating=1, segment_size=SEGMENT_SIZE)
    for number in range(1, 40):
        for output in pair.outputs:
            output.write(number.to_bytes(4) + bytes(number))
            if number % 10 == 0:
                output.add_event(CheckpointBarrier(number, 0.0))
            if number % 7 == 0:
                output.subpartition.flush()
        pair.settle()
    for output in pair.outputs:
        output.subpartition.flush()
    pair.settle()
    assert [end.read for end in pair.inputs] == [output.written for output in pair.outputs]
    pair.close()
    assert pair.leaked_segments == 0


def test_without_consumption_the_sender_stops_when_the_receiver_is_full() -> None:
    pair = MachinePair(2, exclusive=2, floating=3, segment_size=SEGMENT_SIZE)
    for output in pair.outputs:
        for _ in range(20):
            output.write(bytes(SEGMENT_SIZE - 4))
    pair.settle(consume=False)
    # The first response tells a backlog that all floating buffers cannot satisfy: they go to its channel.
    assert [len(end.queue) for end in pair.inputs] == [5, 2]
    assert pair.data_sent == [5, 2]
    assert not pair.transmit()
    pair.close()
    assert pair.leaked_segments == 0


@pytest.mark.parametrize("exclusive", [0, 1])
def test_a_buffer_that_was_read_to_its_end_before_it_was_finished_strands_no_credit(exclusive: int) -> None:
    pair = MachinePair(2, exclusive=exclusive, floating=1, segment_size=SEGMENT_SIZE)
    first, second = pair.outputs
    first.write(b"early")
    first.subpartition.flush()
    pair.settle()
    # The open buffer is finished without another byte: it counts as backlog and brings credit.
    first.add_event(EndOfPartition())
    second.write(b"late")
    second.add_event(EndOfPartition())
    pair.settle()
    assert [end.read for end in pair.inputs] == [first.written, second.written]


def test_a_blocked_channel_leaves_its_floating_buffers_to_the_others() -> None:
    pair = MachinePair(2, exclusive=0, floating=1, segment_size=SEGMENT_SIZE)
    first, second = pair.outputs
    first.write(bytes(12))
    first.add_event(CheckpointBarrier(1, 0.0))
    first.write(bytes(12))
    while pair.move():
        if pair.inputs[0].queue:
            pair.inputs[0].consume()
    assert pair.inputs[0].at_barrier
    assert pair.inputs[0].buffers.available == 0
    second.write(bytes(12))
    second.subpartition.flush()
    while pair.move():
        pair.check()
    assert len(pair.inputs[1].queue) == 1
    pair.settle()
    first.subpartition.flush()
    pair.settle()
    assert [end.read for end in pair.inputs] == [first.written, second.written]
