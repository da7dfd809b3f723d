"""A gate counts what channels hand to the task, and reports it to the taps of channels."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import cast

import pytest

from buffers import EventBuffer, NetworkBufferPool
from flowcontrol import CheckpointBarrier, DataType, EndOfData, Event, data_type_of, encode_event
from netstack.exchange.channel import InputChannel, Item
from netstack.exchange.gate import InputGate
from netstack.scenarios.faults import ChannelItem

pytestmark = pytest.mark.interpreted

BARRIER = CheckpointBarrier(7, 0.0)


class DataBuffer:
    """Bytes as a channel would hand them over."""

    is_event = False
    data_type = DataType.DATA_BUFFER
    payload = memoryview(b"data")
    size = 4


class FakeChannel:
    """A queue of data buffers and events."""

    def __init__(self, gate: InputGate) -> None:
        self.gate = gate
        self.queued = False
        self.polled_buffers = self.polled_barriers = 0
        self.tap: Callable[[ChannelItem], None] | None = None
        self.items: deque[Item] = deque()

    def arrive(self, *items: Event | None) -> None:
        """Queue events, and a data buffer for each None."""
        for event in items:
            if event is None:
                self.items.append(cast(Item, DataBuffer()))
            else:
                self.items.append(EventBuffer(encode_event(event), data_type_of(event)))
        self.gate.data_arrived(cast(InputChannel, self))

    def poll(self) -> tuple[Item | None, bool]:
        return self.items.popleft(), bool(self.items)


class Watched:
    """A gate of two channels, the first of which is watched."""

    def __init__(self) -> None:
        pool = NetworkBufferPool(4, 64).create_pool(4, 1, 4)
        self.gate = InputGate("input", pool, None, lambda: None)
        self.channels = [FakeChannel(self.gate), FakeChannel(self.gate)]
        self.gate.channels = cast(list[InputChannel], self.channels)
        self.seen: list[ChannelItem] = []
        self.channels[0].tap = self.seen.append

    def poll_all(self) -> int:
        """Poll until there is nothing more, and say how much there was."""
        polled = 0
        while self.gate.poll(0.0) is not None:
            polled += 1
        return polled


def test_data_and_barriers_are_told_of_and_other_events_are_not() -> None:
    watched = Watched()
    watched.channels[0].arrive(None, BARRIER, None, EndOfData())
    assert watched.poll_all() == 4
    assert watched.seen == [ChannelItem.BUFFER, ChannelItem.BARRIER, ChannelItem.BUFFER]


def test_channels_without_a_tap_only_count() -> None:
    watched = Watched()
    watched.channels[1].arrive(None, BARRIER)
    assert watched.poll_all() == 2
    assert watched.seen == []
    channel = watched.channels[1]
    assert (channel.polled_buffers, channel.polled_barriers) == (1, 1)


def test_a_tap_is_told_when_the_task_polls_and_not_when_data_arrives() -> None:
    watched = Watched()
    watched.channels[0].arrive(None, None)
    assert watched.seen == []
    watched.gate.poll(0.0)
    assert watched.seen == [ChannelItem.BUFFER]


def test_an_empty_gate_tells_nothing() -> None:
    watched = Watched()
    assert watched.gate.poll(0.0) is None
    assert watched.seen == []


@pytest.mark.parametrize("data_type", [DataType.ALIGNED_CHECKPOINT_BARRIER, DataType.EVENT_BUFFER])
def test_a_barrier_is_one_in_every_mode(data_type: DataType) -> None:
    watched = Watched()
    channel = watched.channels[0]
    channel.items.append(EventBuffer(encode_event(BARRIER), data_type))
    watched.gate.data_arrived(cast(InputChannel, channel))
    watched.poll_all()
    assert watched.seen == [ChannelItem.BARRIER]
