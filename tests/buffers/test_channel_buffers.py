"""Exclusive and floating buffers of a channel, held against what Flink's own unit tests assert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from buffers import BufferListener, ChannelBuffers, LocalBufferPool, MemorySegment, NetworkBufferPool
from flowcontrol import ChannelReceiver, DataType
from tests.protocol_simulator import CreditDue
from tests.vectors import flink_vectors

pytestmark = pytest.mark.interpreted

VECTORS = flink_vectors("credit_receiver_remote_input_channel")

PLAYED = (
    "rx-fewer-than-required",
    "rx-equal-to-required",
    "rx-more-than-required",
    "rx-fair-floating",
    "rx-blocked-and-resumed",
    "rx-required-decrements",
)

_CHANNEL = "played on a whole channel in tests/netstack/exchange/test_input_channel.py"
_BACKOFF = "about no buffers: played in tests/flowcontrol/test_partition_requests.py"

NOT_HERE = {
    "rx-out-of-order": _CHANNEL,
    "rx-released-channel-refuses": _CHANNEL,
    "rx-backoff-growth": _BACKOFF,
    "rx-backoff-single": _BACKOFF,
    "rx-backoff-none": _BACKOFF,
    "rx-priority-order": _CHANNEL,
    "rx-inflight": _CHANNEL,
    "rx-inflight-no-barrier": _CHANNEL,
    "rx-inflight-after-poll": _CHANNEL,
    "rx-inflight-overflow": _CHANNEL,
    "rx-announcement": _CHANNEL,
    "rx-inflight-before-announcement": _CHANNEL,
    "rx-inflight-after-announcement": _CHANNEL,
    "rx-inflight-after-announcement-and-buffer": _CHANNEL,
}

SEGMENT_SIZE = 64


class CountingPool(LocalBufferPool):
    """A pool that counts its requests."""

    def __init__(self, network_pool: NetworkBufferPool, size: int) -> None:
        super().__init__(network_pool, size, size, size)
        self.requests = 0
        self.registrations: list[BufferListener] = []

    def request(self, subpartition: int = -1) -> MemorySegment | None:
        self.requests += 1
        return super().request(subpartition)

    def add_listener(self, listener: BufferListener) -> bool:
        accepted = super().add_listener(listener)
        if accepted:
            self.registrations.append(listener)
        return accepted


class Gate:
    """Channels that share a floating pool, and what the scenario's test holds of their buffers.

    `reserved`: whether the exclusive segments are only reserved at first.
    """

    def __init__(
        self, exclusive: Sequence[int], floating: int, *, segments: bool = True, reserved: bool = False
    ) -> None:
        self.memory = NetworkBufferPool(sum(exclusive) + floating, SEGMENT_SIZE)
        self.pool = CountingPool(self.memory, floating)
        self.pool.set_size(floating)
        self.credit_due: list[int] = []
        self.receivers = [ChannelReceiver(count) for count in exclusive]
        self.channels = [
            self._buffers(number, count if segments else 0, receiver, reserved)
            for number, (count, receiver) in enumerate(zip(exclusive, self.receivers, strict=True))
        ]
        self.taken: list[MemorySegment] = []
        self.taken_from_pool: list[MemorySegment] = []

    def _buffers(self, number: int, count: int, receiver: ChannelReceiver, reserved: bool) -> ChannelBuffers:
        due = CreditDue(self.credit_due, number)
        if reserved:
            self.memory.reserve_unpooled(count)
            return ChannelBuffers((), self.pool, receiver.credit, due, reserved=count)
        return ChannelBuffers(self.memory.request_unpooled(count), self.pool, receiver.credit, due)

    def take_from_pool(self, count: int) -> None:
        for _ in range(count):
            segment = self.pool.request()
            assert segment is not None
            self.taken_from_pool.append(segment)

    def on_barrier(self, number: int, backlog: int) -> None:
        """Block a channel, as a barrier does when it arrives."""
        self.receivers[number].accept(0, backlog, DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER)
        self.channels[number].block()
        self.channels[number].report_backlog(backlog)

    def take_until_empty(self, number: int) -> list[int]:
        """Take until none is left; return the required number before each take, the last one included."""
        channel, required = self.channels[number], []
        while True:
            required.append(channel.required)
            if channel.take() is None:
                return required


def play(gate: Gate, step: dict[str, Any]) -> list[int] | None:
    """One step of a scenario; returns what it yields, if anything."""
    channels = gate.channels
    match step["op"]:
        case "take_from_channel":
            for _ in range(step["count"]):
                taken = channels[0].take()
                assert taken is not None
                gate.taken.append(taken[0])
        case "take_from_pool":
            gate.take_from_pool(step["count"])
        case "exhaust_pool":
            gate.take_from_pool(gate.pool.size)
        case "backlog":
            channels[0].report_backlog(step["n"])
        case "backlog_each":
            for channel in channels:
                channel.report_backlog(step["n"])
        case "recycle_exclusive":
            channels[0].recycle(gate.taken.pop())
        case "recycle_pool_buffer":
            gate.pool.recycle(gate.taken_from_pool.pop())
        case "recycle_pool_buffers":
            for _ in range(step["count"]):
                gate.pool.recycle(gate.taken_from_pool.pop())
        case "on_barrier_each":
            for number in range(len(channels)):
                gate.on_barrier(number, step["backlog"])
        case "resume_each":
            for receiver in gate.receivers:
                receiver.resume()
        case "take_until_empty":
            return gate.take_until_empty(step["ch"])
        case other:
            raise AssertionError(f"unknown step {other}")
    return None


def check(gate: Gate, expected: dict[str, Any], result: list[int] | None) -> None:
    channels, pool = gate.channels, gate.pool
    several = len(channels) > 1
    available = [channel.available for channel in channels]
    unannounced = [channel.credit.unannounced for channel in channels]
    actual: dict[str, Any] = {
        "pool_requests": pool.requests,
        "listener_registrations": len(pool.registrations),
        "available": available if several else available[0],
        "required": channels[0].required,
        "pool_available": pool.free,
        "waiting": channels[0].waiting,
        "unannounced_credit": unannounced,
        "required_before_each_take": result,
    }
    per_channel = {
        "available_each": available,
        "unannounced_credit_each": unannounced,
        "listener_registrations_each": [pool.registrations.count(channel) for channel in channels],
    }
    for key, value in expected.items():
        if key in per_channel:
            assert per_channel[key] == [value] * len(channels), key
        else:
            assert actual[key] == value, key


def gate_of(given: dict[str, Any], reserved: bool) -> Gate:
    exclusive = given["exclusive"] if "exclusive" in given else given["exclusive_configured"]
    counts = exclusive if isinstance(exclusive, list) else [exclusive] * given.get("channels", 1)
    floating = given["pool"] if isinstance(given["pool"], int) else 100  # "unlimited"
    segments = "exclusive_segments_supplied" not in given
    return Gate(counts, floating, segments=segments, reserved=reserved)


@pytest.mark.parametrize("reserved", [False, True], ids=["taken", "reserved"])
@pytest.mark.parametrize("name", PLAYED)
def test_vector(name: str, reserved: bool) -> None:
    scenario = VECTORS[name]
    gate = gate_of(scenario["given"], reserved)
    for step in scenario["steps"]:
        result = play(gate, step)
        check(gate, step.get("expect", {}), result)


def test_every_vector_is_played_or_listed() -> None:
    assert set(PLAYED).isdisjoint(NOT_HERE)
    assert set(VECTORS) == {*PLAYED, *NOT_HERE}


def test_arriving_data_takes_a_floating_buffer_first() -> None:
    gate = Gate([1], 1)
    channel = gate.channels[0]
    channel.report_backlog(1)
    first, second = channel.take(), channel.take()
    assert first is not None
    assert second is not None
    assert (first[1], second[1]) == (gate.pool, channel)
    assert channel.take() is None


def test_credit_is_announced_when_it_rises_from_nothing() -> None:
    gate = Gate([1, 1], 4)
    gate.channels[1].report_backlog(1)
    gate.channels[1].report_backlog(2)
    assert gate.credit_due == [1]
    assert gate.channels[1].credit.take() == 2
    gate.channels[1].report_backlog(3)
    assert gate.credit_due == [1, 1]


def test_initial_credit_is_never_announced() -> None:
    gate = Gate([2], 1)
    assert gate.credit_due == []
    taken = gate.channels[0].take()
    assert taken is not None
    gate.channels[0].recycle(taken[0])
    assert gate.channels[0].credit.unannounced == 1


def test_the_line_is_fair_to_a_channel_that_needs_more() -> None:
    gate = Gate([0, 0], 3)
    gate.take_from_pool(3)
    for channel in gate.channels:
        channel.report_backlog(3)
    for _ in range(3):
        gate.pool.recycle(gate.taken_from_pool.pop())
    assert [channel.available for channel in gate.channels] == [2, 1]
    assert all(channel.waiting for channel in gate.channels)


def test_a_channel_whose_need_has_passed_lets_the_next_in_line_have_the_buffer() -> None:
    gate = Gate([0, 0], 1)
    gate.take_from_pool(1)
    for channel in gate.channels:
        channel.report_backlog(1)
    gate.channels[0].report_backlog(0)
    gate.pool.recycle(gate.taken_from_pool.pop())
    assert [channel.available for channel in gate.channels] == [0, 1]
    assert not gate.channels[0].waiting


def test_blocking_keeps_the_floating_buffers_beside_exclusive_ones() -> None:
    gate = Gate([1], 3)
    gate.channels[0].report_backlog(2)
    gate.on_barrier(0, 0)
    assert gate.channels[0].available == 3


def test_announced_backlog_counts_what_the_exclusive_buffers_do_not_cover() -> None:
    gate = Gate([2], 4)
    channel = gate.channels[0]
    assert channel.announced_backlog == 0
    channel.report_backlog(3)
    assert channel.announced_backlog == 3
    for left in (2, 1, 0, 0):
        channel.take()
        assert channel.announced_backlog == left


def test_release_gives_everything_back_and_the_rest_follows() -> None:
    gate = Gate([2], 3)
    channel = gate.channels[0]
    channel.report_backlog(3)
    taken = [channel.take(), channel.take(), channel.take(), channel.take()]
    channel.release()
    assert channel.available == 0
    for pair in taken:
        assert pair is not None
        segment, recycler = pair
        recycler.recycle(segment)
    gate.pool.lazy_destroy()
    assert gate.memory.used == 0


def test_a_channel_takes_a_reserved_segment_when_data_needs_it_and_gives_the_others_back_untouched() -> None:
    gate = Gate([3], 1, reserved=True)
    channel, out = gate.channels[0], gate.memory.peak_used
    assert (channel.exclusive_available, gate.memory.used, gate.memory.peak_used) == (3, 4, out)
    taken = channel.take()
    assert taken is not None
    assert taken[1] is channel
    assert (channel.exclusive_available, gate.memory.used, gate.memory.peak_used) == (2, 4, out + 1)
    channel.release()
    assert (channel.available, gate.memory.used) == (0, 2)
    channel.recycle(taken[0])
    gate.pool.lazy_destroy()
    assert (gate.memory.used, gate.memory.guaranteed, gate.memory.peak_used) == (0, 0, out + 1)


def test_a_released_channel_takes_nothing_from_the_line() -> None:
    gate = Gate([0, 0], 1)
    gate.take_from_pool(1)
    for channel in gate.channels:
        channel.report_backlog(1)
    gate.channels[0].release()
    gate.pool.recycle(gate.taken_from_pool.pop())
    assert [channel.available for channel in gate.channels] == [0, 1]
