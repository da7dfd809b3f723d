"""Input gates: whose turn it is, what is measured, and how many buffers are in use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers import EventBuffer, NetworkBufferPool, PipelinedSubpartition
from flowcontrol import (
    BufferResponse,
    CheckpointBarrier,
    DataType,
    DebloatPolicy,
    DebloatSettings,
    EndOfData,
    Event,
    FlinkPolicy,
    data_type_of,
    encode_event,
)
from netstack.exchange.channel import InputChannel
from netstack.exchange.connection import ConsumerEnd
from netstack.exchange.gate import InputGate
from netstack.exchange.local_channel import LocalInputChannel
from netstack.exchange.remote_channel import RemoteInputChannel
from netstack.results.recorder import SubtaskSample
from netstack.scenarios.faults import ChannelItem
from netstack.tasks.subtask import with_inputs
from tests.vectors import flink_vectors

pytestmark = pytest.mark.interpreted

METRICS = flink_vectors("metrics_input_buffers")


class DataBuffer:
    """Bytes as a channel would hand them over."""

    is_event = False
    data_type = DataType.DATA_BUFFER
    payload = memoryview(b"data")
    size = 4

    def release(self) -> None: ...


Fake = EventBuffer | DataBuffer


class FakeChannel:
    """A queue of items of given sizes; `phantom` turns yield nothing, as a local channel's may."""

    def __init__(self, gate: InputGate, name: str, buffers_in_use: int = 0) -> None:
        self.gate = gate
        self.name = name
        self.index = ord(name)
        self.queued = self.urgent = False
        self.urgent_items: deque[EventBuffer] = deque()
        self.requested: list[int] = []
        self.items: deque[Fake | None] = deque()
        self.polled_buffers = self.polled_barriers = 0
        self.tap: Callable[[ChannelItem], None] | None = None
        self.announced: list[int] = []
        self.buffers_in_use = buffers_in_use
        self.released = False

    def arrive(self, size: int = 10) -> None:
        self.hand_over(EventBuffer(bytes(size), DataType.EVENT_BUFFER, EndOfData()))

    def hand_over(self, *items: Fake | None) -> None:
        self.items += items
        self.gate.data_arrived(cast(InputChannel, self))

    def arrive_first(self) -> None:
        self.urgent_items.append(EventBuffer(b"!", DataType.PRIORITIZED_EVENT_BUFFER, EndOfData()))
        if len(self.urgent_items) == 1:
            self.gate.priority_arrived(cast(InputChannel, self))

    @property
    def has_priority(self) -> bool:
        return bool(self.urgent_items)

    def request(self, subpartition: int) -> None:
        self.requested.append(subpartition)

    def phantom(self) -> None:
        self.hand_over(None)

    def poll(self) -> tuple[Fake | None, bool]:
        item = self.urgent_items.popleft() if self.urgent_items else self.items.popleft()
        return item, bool(self.items or self.urgent_items)

    def announce_buffer_size(self, size: int) -> None:
        self.announced.append(size)

    def release(self) -> None:
        self.released = True


class Readable:
    """A gate of fake channels that counts how often it became readable, and with priority."""

    def __init__(self, names: str, debloater: DebloatPolicy | None = None, in_use: int = 0) -> None:
        self.memory = NetworkBufferPool(8, 64)
        self.became_readable = self.became_urgent = 0
        self.gate = InputGate("input", self.memory.create_pool(8, 1, 8), debloater, self._on_data)
        self.gate.on_priority = self._on_priority
        self.channels = {name: FakeChannel(self.gate, name, in_use) for name in names}
        self.gate.channels = cast(list[InputChannel], list(self.channels.values()))

    def _on_data(self) -> None:
        self.became_readable += 1

    def _on_priority(self) -> None:
        self.became_urgent += 1

    def arrive(self, names: str) -> None:
        for name in names:
            self.channels[name].arrive()

    def poll(self, now: float = 0.0) -> str | None:
        polled = self.gate.poll(now)
        return None if polled is None else cast(FakeChannel, polled[0]).name

    def poll_sizes(self) -> list[tuple[str, int]]:
        """Return the channel and the size of each remaining item: 1 for a priority event, else 10."""
        sizes = []
        while (polled := self.gate.poll(0.0)) is not None:
            sizes.append((cast(FakeChannel, polled[0]).name, polled[1].size))
        return sizes

    def poll_all(self) -> str:
        order = ""
        while (name := self.poll()) is not None:
            order += name
        return order


def test_channels_are_read_in_turns() -> None:
    readable = Readable("abc")
    readable.arrive("aaabc")
    assert readable.poll_all() == "abcaa"


def test_a_channel_goes_to_the_tail_behind_those_that_came_meanwhile() -> None:
    readable = Readable("abc")
    readable.arrive("aa")
    assert readable.poll() == "a"
    readable.arrive("cb")
    assert readable.poll_all() == "acb"


def test_the_gate_tells_when_it_becomes_readable_and_only_then() -> None:
    readable = Readable("ab")
    assert not readable.gate.readable
    readable.arrive("aab")
    assert readable.became_readable == 1
    assert readable.gate.readable
    readable.poll_all()
    assert not readable.gate.readable
    readable.arrive("b")
    assert readable.became_readable == 2


def test_a_turn_that_yields_nothing_is_skipped() -> None:
    readable = Readable("ab")
    readable.channels["a"].phantom()
    readable.arrive("b")
    assert readable.poll() == "b"
    readable.channels["a"].phantom()
    assert readable.poll() is None


def test_a_priority_event_comes_before_the_data_of_all_channels() -> None:
    readable = Readable("abc")
    readable.arrive("abbc")
    readable.channels["b"].arrive_first()
    assert readable.gate._urgent
    assert readable.poll_sizes() == [("b", 1), ("a", 10), ("c", 10), ("b", 10), ("b", 10)]
    assert not readable.gate._urgent


def test_a_channel_with_more_priority_events_stays_in_front() -> None:
    readable = Readable("abc")
    readable.arrive("ca")
    for name in "bba":
        readable.channels[name].arrive_first()
    assert readable.poll_sizes() == [("b", 1), ("a", 1), ("b", 1), ("c", 10), ("a", 10)]


def test_a_priority_event_that_is_alone_makes_the_gate_readable() -> None:
    readable = Readable("ab")
    readable.channels["a"].arrive_first()
    assert (readable.became_readable, readable.became_urgent) == (1, 1)
    assert readable.gate.readable
    readable.channels["b"].arrive_first()
    assert (readable.became_readable, readable.became_urgent) == (1, 1)
    assert readable.poll_all() == "ab"
    assert not readable.gate.readable


def test_the_first_priority_event_is_told_even_if_the_gate_was_readable() -> None:
    readable = Readable("ab")
    readable.arrive("a")
    readable.channels["a"].arrive_first()
    assert (readable.became_readable, readable.became_urgent) == (1, 1)
    readable.poll()
    readable.channels["a"].arrive_first()
    assert readable.became_urgent == 2


def test_throughput_counts_priority_events_too() -> None:
    readable = Readable("a")
    readable.channels["a"].arrive_first()
    assert readable.poll(1.0) == "a"
    assert readable.gate.throughput.calculate(2.0) == 1


def test_a_priority_turn_that_yields_nothing_is_skipped() -> None:
    readable = Readable("ab")
    readable.channels["a"].phantom()
    readable.gate.priority_arrived(cast(InputChannel, readable.channels["a"]))
    readable.arrive("b")
    assert readable.poll_all() == "b"
    assert not readable.channels["a"].queued


@given(st.lists(st.sampled_from("abcABC.")))
def test_priority_events_come_first_and_nothing_is_lost(steps: list[str]) -> None:
    """`.` polls; a letter says where something arrives, a capital one with priority."""
    readable = Readable("abc")
    for step in steps:
        if step != ".":
            channel = readable.channels[step.lower()]
            (channel.arrive_first if step.isupper() else channel.arrive)()
            continue
        urgent = [name for name, channel in readable.channels.items() if channel.urgent_items]
        polled = readable.gate.poll(0.0)
        assert bool(urgent) == (polled is not None and polled[1].size == 1)
        for channel in readable.channels.values():
            assert channel.queued == bool(channel.items or channel.urgent_items)
            assert channel.urgent == bool(channel.urgent_items)
    left = sum(len(channel.items) + len(channel.urgent_items) for channel in readable.channels.values())
    assert len(readable.poll_sizes()) == left


def test_every_channel_that_was_added_requests_its_partition_once() -> None:
    readable = Readable("ab")
    gate = InputGate("input", readable.gate.floating, None, lambda: None)
    for number, channel in enumerate(readable.channels.values()):
        gate.add_channel(cast(InputChannel, channel), 7 + number)
    assert gate.channels == readable.gate.channels
    gate.request_partitions()
    gate.request_partitions()
    assert [channel.requested for channel in readable.channels.values()] == [[7], [8]]


def test_the_gate_knows_which_channels_have_recovered_data() -> None:
    readable = Readable("abc")
    a, c = (cast(InputChannel, readable.channels[name]) for name in "ac")
    for channel in (a, c):
        readable.gate.restoring(channel)
    assert readable.gate.readable
    with pytest.raises(RuntimeError, match="restored twice"):
        readable.gate.restoring(a)
    assert not readable.gate.recovered(c)
    assert readable.gate.recovered(a)
    with pytest.raises(KeyError):
        readable.gate.recovered(a)


@given(st.lists(st.sampled_from("abcd.")))
def test_every_channel_waits_for_one_turn_of_the_others_at_most(steps: list[str]) -> None:
    """`.` polls; the other letters say where something arrives."""
    readable = Readable("abcd")
    waited = dict.fromkeys("abcd", 0)
    for step in steps:
        if step != ".":
            readable.arrive(step)
            continue
        waiting = [name for name, channel in readable.channels.items() if channel.items]
        polled = readable.poll()
        assert (polled is None) == (not waiting)
        for name in waiting:
            waited[name] = 0 if name == polled else waited[name] + 1
            assert waited[name] < len(waited)
    left = sum(len(channel.items) for channel in readable.channels.values())
    assert len(readable.poll_all()) == left
    assert not any(channel.queued for channel in readable.channels.values())


def test_throughput_counts_polled_bytes_and_no_idle_time() -> None:
    readable = Readable("a")
    channel = readable.channels["a"]
    channel.arrive(1000)
    assert readable.poll(1.0) == "a"
    channel.arrive(3000)
    assert readable.poll(2.0) == "a"
    assert readable.poll(3.0) is None  # the clock stands from here ...
    channel.arrive(500)
    assert readable.poll(9.0) == "a"  # ... to here
    assert readable.gate.throughput.calculate(10.0) == 1500


def test_debloating_announces_one_size_to_every_channel() -> None:
    debloater = FlinkPolicy(DebloatSettings())
    readable = Readable("ab", debloater, in_use=2)
    for second in range(40):
        readable.channels["a"].arrive(40000)
        readable.poll(float(second))
        readable.gate.debloat(float(second))
    announced = readable.channels["a"].announced
    assert announced
    assert announced == sorted(set(announced))
    assert readable.channels["b"].announced == announced


class Watching(FlinkPolicy):
    """Remembers the channels that were polled."""

    watches_polls = True

    def __init__(self) -> None:
        super().__init__(DebloatSettings())
        self.seen: list[int] = []

    def polled(self, channel: int, size: int) -> None:
        self.seen.append(channel)


@given(st.lists(st.sampled_from([None, "plain", "watching"])), st.sampled_from([None, "plain", "watching"]))
def test_a_gate_tells_its_polls_only_to_the_policy_in_force(
    changes: list[str | None], first: str | None
) -> None:
    """Also to one that a change has brought, whatever was in force before."""

    def policy_of(name: str | None) -> DebloatPolicy | None:
        return Watching() if name == "watching" else None if name is None else FlinkPolicy(DebloatSettings())

    policies = [policy_of(name) for name in (first, *changes)]
    readable = Readable("ab", policies[0])
    for number, policy in enumerate(policies):
        if number:
            readable.gate.change_debloater(policy)
        readable.arrive("ab")
        readable.channels["b"].arrive_first()
        readable.poll_all()
        seen = [each.seen for each in policies if isinstance(each, Watching)]
        watched = sum(isinstance(each, Watching) for each in policies[: number + 1])
        assert [len(polled) for polled in seen] == [3] * watched + [0] * (len(seen) - watched)


def test_without_a_debloater_nothing_is_announced() -> None:
    readable = Readable("a")
    readable.arrive("a")
    readable.poll(0.0)
    readable.gate.debloat(1.0)
    assert readable.channels["a"].announced == []


def test_release_drops_what_is_in_line_and_every_channel() -> None:
    readable = Readable("ab")
    readable.arrive("ab")
    readable.channels["b"].arrive_first()
    readable.gate.release()
    assert not readable.gate.readable
    assert all(channel.released for channel in readable.channels.values())
    assert [(channel.queued, channel.urgent) for channel in readable.channels.values()] == [
        (False, False)
    ] * 2
    assert readable.memory.used == 0


BARRIER = CheckpointBarrier(7, 0.0)


def event_buffer(event: Event, data_type: DataType | None = None) -> EventBuffer:
    return EventBuffer(encode_event(event), data_type or data_type_of(event))


def test_data_and_barriers_are_counted_and_told_to_taps_and_other_events_are_not() -> None:
    readable, seen = Readable("ab"), list[ChannelItem]()
    readable.channels["a"].tap = seen.append
    for channel in readable.channels.values():
        channel.hand_over(DataBuffer(), event_buffer(BARRIER), DataBuffer(), event_buffer(EndOfData()))
    assert readable.poll_all() == "abababab"
    assert seen == [ChannelItem.BUFFER, ChannelItem.BARRIER, ChannelItem.BUFFER]
    for channel in readable.channels.values():
        assert (channel.polled_buffers, channel.polled_barriers) == (2, 1)


def test_a_tap_is_told_when_the_task_polls_and_not_when_data_arrives() -> None:
    readable, seen = Readable("a"), list[ChannelItem]()
    readable.channels["a"].tap = seen.append
    readable.channels["a"].hand_over(DataBuffer(), DataBuffer())
    assert seen == []
    readable.poll()
    assert seen == [ChannelItem.BUFFER]


@pytest.mark.parametrize("data_type", [DataType.ALIGNED_CHECKPOINT_BARRIER, DataType.EVENT_BUFFER])
def test_a_barrier_is_one_in_every_mode(data_type: DataType) -> None:
    readable = Readable("a")
    readable.channels["a"].hand_over(event_buffer(BARRIER, data_type))
    readable.poll()
    assert readable.channels["a"].polled_barriers == 1


class NoConnection:
    """Credit that nobody sends."""

    def credit_available(self, channel: RemoteInputChannel) -> None: ...


class InputBuffers:
    """Gates with remote and local channels; used and total buffers over all of them."""

    def __init__(self, exclusive: int, floating: int, remote: list[int], local: list[int]) -> None:
        total = sum(remote) * exclusive + len(remote) * floating
        self.memory = NetworkBufferPool(total, 64)
        self.gates = []
        for remotes, locals_ in zip(remote, local, strict=True):
            pool = self.memory.create_pool(floating, 1, floating)
            gate = InputGate("input", pool, None, lambda: None)
            for index in range(remotes):
                segments = self.memory.request_unpooled(exclusive)
                connection = cast(ConsumerEnd, NoConnection())
                gate.channels.append(RemoteInputChannel(gate, index, index, connection, segments, pool))
            for index in range(remotes, remotes + locals_):
                gate.channels.append(LocalInputChannel(gate, index, index, PipelinedSubpartition(index)))
            self.gates.append(gate)

    def channel(self, index: int) -> RemoteInputChannel:
        """Channel `index` of the first gate."""
        return list(self.gates[0].remote_channels)[index]

    def take(self, channel: int, count: int) -> None:
        for _ in range(count):
            assert self.channel(channel).buffers.take() is not None

    @property
    def in_pool_usage(self) -> float:
        return with_inputs(SubtaskSample(), self.gates).in_pool_usage

    @property
    def exclusive_usage(self) -> float:
        return with_inputs(SubtaskSample(), self.gates).exclusive_buffers_usage

    @property
    def used_exclusive_gate1(self) -> int:
        buffers = [channel.buffers for channel in self.gates[0].remote_channels]
        return sum(item.exclusive_total - item.exclusive_available for item in buffers)


def test_every_metrics_vector_is_played() -> None:
    assert set(METRICS) == {"met-totals", "met-exclusive-usage", "met-floating-usage"}


@pytest.mark.parametrize(("remote", "local"), [(1, 0), (3, 0), (2, 5), (0, 4)])
@pytest.mark.parametrize("exclusive", [0, 2, 5])
def test_vector_totals(exclusive: int, remote: int, local: int) -> None:
    expected = METRICS["met-totals"]["expect"]
    floating = METRICS["met-totals"]["given"]["floating_per_gate"]
    buffers = InputBuffers(exclusive, floating, [remote], [local])
    gate = buffers.gates[0]
    values = {"e": exclusive, "r": remote}
    assert gate.floating.size == value(expected["floating_total"], values)
    exclusive_total = sum(channel.buffers.exclusive_total for channel in gate.remote_channels)
    assert exclusive_total == value(expected["exclusive_total"], values)
    used, total = zip(gate.figures.exclusive, gate.figures.floating, strict=True)
    assert (sum(used), sum(total)) == (0, value(expected["input_pool_total"], values))


def value(formula: str, values: dict[str, int]) -> int:
    """Sums of products of numbers and names, as the vectors write them."""
    total = 0
    for term in formula.split("+"):
        product = 1
        for factor in term.split("*"):
            product *= values[factor] if factor in values else int(factor)
        total += product
    return total


@pytest.mark.parametrize("name", ["met-exclusive-usage", "met-floating-usage"])
def test_vector_usage(name: str) -> None:
    scenario = METRICS[name]
    given = scenario["given"]
    buffers = InputBuffers(given["exclusive"], given["floating"], given["remote"], given["local"])
    for step in scenario["steps"]:
        play(buffers, step)
        for key, expected in step.get("expect", {}).items():
            if key == "floating_available":
                assert buffers.channel(0).buffers.floating_available == expected
            else:
                assert getattr(buffers, key) == pytest.approx(expected, abs=scenario["tolerance"])


def play(buffers: InputBuffers, step: dict[str, Any]) -> None:
    match step["op"]:
        case "check":
            pass
        case "drain_exclusive":
            buffers.take(step["channel"], 2)
        case "backlog":
            buffers.channel(step["channel"]).on_backlog(step["n"])
        case "drain":
            buffers.take(step["channel"], step["count"])
        case other:
            raise AssertionError(f"unknown step {other}")


def test_queues_are_summed_over_channels() -> None:
    buffers = InputBuffers(2, 8, [2], [1])
    for channel, payload in enumerate((b"one", b"second")):
        message = BufferResponse(channel, 0, 0, 0, DataType.DATA_BUFFER, False, payload)
        buffers.channel(channel).on_message(message)
    buffers.gates[0].channels[2].restore(b"old", marks_end=False)
    assert buffers.gates[0].figures[:2] == (3, len(b"one") + len(b"second") + len(b"old"))


@pytest.mark.parametrize("abandoned", [False, True])
def test_what_channels_of_an_abandoned_gate_give_back_is_offered_to_no_other(abandoned: bool) -> None:
    buffers = InputBuffers(2, 1, [2], [0])
    gate = buffers.gates[0]
    offered: list[int] = []
    for channel in gate.remote_channels:
        channel.buffers.owner = Told(offered, channel.index)
    segment = gate.floating.request()
    assert segment is not None
    buffers.channel(1).on_backlog(1)  # waits for the floating buffer
    exclusive = buffers.channel(0).buffers.take()
    assert exclusive is not None
    if abandoned:
        gate.abandon()
    gate.floating.recycle(segment)
    buffers.channel(0).buffers.recycle(exclusive[0])
    assert offered == ([] if abandoned else [1, 0])
    gate.release()
    assert (buffers.memory.used, buffers.memory.guaranteed) == (0, 0)


class Told:
    """Notes which channel has gained credit."""

    def __init__(self, offered: list[int], channel: int) -> None:
        self._offered = offered
        self._channel = channel

    def credit_gained(self) -> None:
        self._offered.append(self._channel)
