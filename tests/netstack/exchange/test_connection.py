"""A connection: what the network thread of each end does, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import trio

from buffers import (
    NetworkBufferPool,
    PipelinedSubpartition,
)
from flowcontrol import (
    AddCredit,
    BufferResponse,
    CancelPartitionRequest,
    CheckpointBarrier,
    Message,
    NewBufferSize,
    PartitionRequest,
    ResumeConsumption,
    wire_size,
)
from netstack.engine.agenda import Agenda
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.randomness import Randomness
from netstack.errors import PartitionNotFoundError
from netstack.exchange.connection import ConsumerEnd, Notifier, ProducerEnd, WritingNotifier
from netstack.exchange.emulated_link import EmulatedEnd, EmulatedLink
from netstack.exchange.gate import InputGate
from netstack.exchange.link import Receiver
from netstack.exchange.remote_channel import RemoteInputChannel
from netstack.scenarios.costs import CostModel, LinkConditions
from tests.netstack.exchange.queues import add_record, event_item

SEGMENT_SIZE = 32
REQUEST, CANCEL = PartitionRequest(0, 2), CancelPartitionRequest(0)


class Tap:
    """An end that keeps the messages that are written to it and those that arrive: (time, message)."""

    ready = False

    def __init__(self, agenda: Agenda, end: EmulatedEnd) -> None:
        self.written: list[tuple[float, Message]] = []
        self.arrived: list[tuple[float, Message]] = []
        self.sizes: list[int] = []
        self.on_write: Callable[[], None] = lambda: None
        self._agenda = agenda
        self._end = end
        self.finish = end.finish
        self.after = end.after

    @property
    def now(self) -> float:
        return self._agenda.now

    @property
    def leaves_at(self) -> float:
        return self._end.leaves_at

    def listen(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._end.listen(self)

    def receive(self, message: Message) -> None:
        self.arrived.append((self._agenda.now, message))
        self._receiver.receive(message)

    def write(self, size: int, written: Callable[[], None] | None, message: Message) -> float | None:
        self.written.append((self._agenda.now, message))
        self.sizes.append(size)
        self.on_write()
        return self._end.write(size, written, message)

    def sent(self, kind: type[Message]) -> list[Message]:
        return [message for _, message in self.written if type(message) is kind]


class TappedLink:
    """An emulated link, and what both ends wrote to it."""

    def __init__(self, agenda: Agenda, costs: CostModel, randomness: Randomness) -> None:
        self.emulated = link = EmulatedLink(agenda, costs, LinkConditions(), randomness, ("a", "b"))
        self.producing = Tap(agenda, link.producing)
        self.consuming = Tap(agenda, link.consuming)


class Connected:
    """A subpartition, a channel that asks for it, and a connection between them."""

    def __init__(
        self,
        exclusive: int = 2,
        floating: int = 4,
        *,
        sigma: float = 0.0,
        seed: int = 1,
        partitions: Mapping[int, PipelinedSubpartition] | None = None,
        max_backoff_s: float = 10.0,
    ) -> None:
        costs = CostModel(jitter_sigma=sigma)
        randomness = Randomness(seed, sigma)
        self.agenda = Agenda()
        self.link = TappedLink(self.agenda, costs, randomness)
        self.memory = NetworkBufferPool(64, SEGMENT_SIZE)
        self.output = self.memory.create_pool(32, 32, 32)
        self.subpartition = PipelinedSubpartition(0, receiver_exclusive=exclusive)
        find = ({0: self.subpartition} if partitions is None else partitions).__getitem__
        self.producer = ProducerEnd(
            self.link.producing, Notifier(self.agenda, costs, randomness.jitter("producer")), find
        )
        wire = self.link.emulated.to_producer
        notify = WritingNotifier(self.agenda, costs, randomness.jitter("consumer"), wire)
        self.consumer = ConsumerEnd(self.link.consuming, notify, max_backoff_s=max_backoff_s)
        pool = self.memory.create_pool(floating, 1, floating)
        self.gate = InputGate("input", pool, None, lambda: None)
        segments = self.memory.request_unpooled(exclusive)
        self.channel = RemoteInputChannel(self.gate, 0, 0, self.consumer, segments, pool)
        self.gate.channels.append(self.channel)
        self.agenda.at(0.0, self.channel.request, 0)

    def add(self, payload: bytes) -> None:
        add_record(self.subpartition, self.output, payload)

    def add_barrier(self) -> None:
        self.subpartition.add(event_item(CheckpointBarrier(1, 0.0)))

    def add_and_flush(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.add(payload)
        self.subpartition.flush()

    def read_all(self) -> list[bytes]:
        """Return the payloads that have arrived; barriers resume their channel."""
        payloads = []
        while (polled := self.gate.poll(self.agenda.now)) is not None:
            channel, item = polled
            if item.is_event:
                channel.resume()
            else:
                payloads += [bytes(payload) for payload in self.channel.decoder.feed(item.payload).payloads()]
            item.release()
        return payloads

    def run(self) -> None:
        trio.run(run_agenda, self.agenda)

    def close(self) -> None:
        self.producer.close()
        self.gate.release()
        self.subpartition.release()
        self.output.lazy_destroy()
        assert self.memory.used == 0


def test_work_for_the_network_thread_keeps_its_order() -> None:
    agenda, done = Agenda(), list[int]()
    notify = Notifier(agenda, CostModel(), Randomness(1, 3.0).jitter())
    for number in range(100):
        agenda.at(number * 1e-6, notify, done.append, number)
    trio.run(run_agenda, agenda)
    assert done == list(range(100))


def test_a_notification_takes_its_time() -> None:
    agenda, done = Agenda(), list[float]()
    notify = Notifier(agenda, CostModel(notify_s=0.25), Randomness(1, 0.0).jitter())
    agenda.at(1.0, notify, lambda: done.append(agenda.now))
    trio.run(run_agenda, agenda)
    assert done == [1.25]


def test_buffers_travel_and_credit_comes_back() -> None:
    connected = Connected(exclusive=2)
    payloads = [bytes([number]) * 20 for number in range(10)]
    connected.agenda.at(0.0, connected.add_and_flush, *payloads)
    read: list[bytes] = []
    for tick in range(1, 40):
        connected.agenda.at(tick * 1e-3, lambda: read.extend(connected.read_all()))
    connected.run()
    assert read == payloads
    consumer = connected.consumer
    assert (consumer.buffers, consumer.bytes, consumer.messages) == (10, 240, 10)
    assert connected.producer.messages == len(connected.link.consuming.written)
    connected.output.collect(connected.agenda.now)
    assert connected.output.used == 0
    connected.close()


@pytest.mark.parametrize(
    ("cuts", "messages"), [([(0.5, 3.0)], 1), ([(0.5, 2.0), (1.5, 3.0)], 2)], ids=["one cut", "two cuts"]
)
def test_credit_gained_during_a_cut_arrives_when_the_cut_ends(
    cuts: list[tuple[float, float]], messages: int
) -> None:
    """Credit shares a message until the end that the cut has when the message is written."""
    connected = Connected(exclusive=4, floating=1)
    agenda, link = connected.agenda, connected.link
    agenda.at(0.0, connected.add_and_flush, *[b"x"] * 8)
    for start, until in cuts:
        agenda.at(start, link.emulated.cut, until)
    agenda.at(2.5, link.emulated.cut, 2.6)  # shorter than the cut that lasts

    def read_one() -> None:
        polled = connected.gate.poll(agenda.now)
        assert polled is not None
        polled[1].release()

    for number in range(4):
        agenda.at(1.0 + 0.4 * number, read_one)
    agenda.at(1.9, connected.channel.announce_buffer_size, 17)
    connected.run()
    late = [(time, message) for time, message in link.producing.arrived if time > 0.6]
    credits = [message.credit for _, message in late if isinstance(message, AddCredit)]
    assert (sum(credits), len(credits)) == (4, messages)
    assert [message for _, message in late if not isinstance(message, AddCredit)] == [NewBufferSize(0, 17)]
    assert all(3.0 < time < 3.001 for time, _ in late)
    connected.read_all()
    connected.close()


def test_a_released_channel_is_cancelled_once_and_gets_no_more_credit() -> None:
    connected = Connected(exclusive=2, floating=4)
    connected.agenda.at(0.0, connected.channel.release)
    connected.agenda.at(0.001, connected.add_and_flush, *[b"x"] * 8)
    connected.run()
    assert connected.link.consuming.written[1:] == [(connected.link.consuming.written[1][0], CANCEL)]
    assert connected.consumer.messages == 2
    assert (connected.consumer.buffers, connected.subpartition.released) == (0, True)
    connected.close()


def test_a_cancelled_channel_takes_leave_behind_all_that_it_has_asked_for() -> None:
    """Else the producer would be asked to resume a channel that it does not know any more."""
    connected = Connected(exclusive=2, floating=4)
    connected.agenda.at(0.0, connected.add_barrier)
    connected.agenda.at(0.0, connected.add_and_flush, *[b"x"] * 8)

    def cancel() -> None:
        connected.read_all()  # which resumes the channel
        connected.gate.cancel()
        connected.gate.release()

    connected.agenda.at(0.002, cancel)
    connected.run()
    asked = [message for _, message in connected.link.consuming.written]
    assert asked == [REQUEST, ResumeConsumption(0), CANCEL]
    assert connected.producer.queue.sender(0) is None
    assert connected.subpartition.released
    connected.close()


def test_what_is_under_way_to_a_cancelled_channel_is_dropped_and_takes_no_memory() -> None:
    connected = Connected(exclusive=2, floating=4)
    connected.agenda.at(0.0, connected.add_and_flush, *[b"x"] * 8)
    connected.link.producing.on_write = lambda: (connected.gate.cancel(), connected.gate.release())[0]
    connected.run()
    assert connected.link.producing.sent(BufferResponse) != []
    assert connected.consumer.buffers == 0
    connected.close()


class Late(Connected):
    """The same, where the subpartition cannot be found at first."""

    def __init__(self, max_backoff_s: float = 10.0) -> None:
        self.partitions: dict[int, PipelinedSubpartition] = {}
        super().__init__(partitions=self.partitions, max_backoff_s=max_backoff_s)
        self.add_and_flush(b"late")

    def add_partition(self) -> None:
        self.partitions[0] = self.subpartition
        self.producer.partition_added(0)

    def awaits(self, at: float) -> list[bool]:
        """Whether the producer waits for a partition at a time; filled while it runs."""
        seen: list[bool] = []
        self.agenda.at(at, lambda: seen.append(self.producer.awaits_partitions))
        return seen

    @property
    def requests(self) -> list[float]:
        return [round(time, 2) for time, message in self.link.consuming.written if message == REQUEST]


@pytest.mark.parametrize(("added_at", "requests"), [(3.0, [0.0]), (15.0, [0.0, 10.0])])
def test_a_partition_that_comes_late_is_served_at_once(added_at: float, requests: list[float]) -> None:
    connected = Late()
    read: list[bytes] = []
    connected.agenda.at(added_at, connected.add_partition)
    connected.agenda.at(added_at + 0.01, lambda: read.extend(connected.read_all()))
    waits = [connected.awaits(at) for at in (0.0, added_at - 0.01, added_at + 0.01)]
    connected.run()
    assert waits == [[False], [True], [False]]
    assert read == [b"late"]
    assert connected.requests == requests
    connected.close()


@pytest.mark.parametrize(
    ("max_backoff_s", "requests", "fails_at"), [(10.0, [0.0, 10.0], 20), (15.0, [0.0, 10.0, 20.0], 30)]
)
def test_a_partition_that_never_comes_fails_its_channel_after_twice_the_backoff(
    max_backoff_s: float, requests: list[float], fails_at: int
) -> None:
    connected = Late(max_backoff_s)
    readable: list[bool] = []
    connected.agenda.at(fails_at - 0.1, lambda: readable.append(connected.gate.readable))
    connected.run()
    assert readable == [False]
    assert connected.agenda.now == pytest.approx(fails_at, abs=0.01)
    assert connected.requests == requests
    with pytest.raises(
        PartitionNotFoundError,
        match=f"the producer: the partition for channel 0 was not found within {fails_at} s",
    ):
        connected.gate.poll(connected.agenda.now)
    connected.close()


def test_a_request_that_is_cancelled_while_it_waits_is_forgotten() -> None:
    connected = Late()
    connected.agenda.at(1.0, connected.consumer.send, CANCEL)
    connected.agenda.at(2.0, connected.add_partition)
    connected.run()
    assert connected.producer.queue.sender(0) is None
    assert connected.link.producing.written == []
    connected.close()


def test_nothing_is_announced_over_a_link_that_is_cut_for_good() -> None:
    connected = Connected(exclusive=2)
    connected.agenda.at(0.0, connected.add_and_flush, b"one", b"two")
    connected.agenda.at(0.5, connected.link.emulated.cut, None)
    connected.agenda.at(0.6, lambda: connected.read_all())
    connected.run()
    assert [message for time, message in connected.link.consuming.written if time > 0.5] == []
    connected.close()


def test_messages_take_their_encoded_size_on_the_wire() -> None:
    connected = Connected()
    connected.agenda.at(0.0, connected.add_and_flush, b"one", b"two")
    connected.agenda.at(1.0, connected.read_all)
    connected.run()
    for wire in (connected.link.producing, connected.link.consuming):
        assert wire.sizes == [wire_size(message) for _, message in wire.written]
        assert wire.sizes


def test_a_segment_is_given_back_when_its_bytes_have_left_and_before_the_next_leave() -> None:
    connected = Connected()
    connected.agenda.at(0.0, connected.add_and_flush, b"one", b"two")
    in_use: list[int] = []

    def on_write() -> None:
        connected.output.collect(connected.agenda.now)
        in_use.append(connected.output.used)

    connected.link.producing.on_write = on_write
    connected.run()
    assert in_use == [2, 1]
    connected.output.collect(connected.agenda.now)
    assert connected.output.used == 0
    (first, _), (second, _) = connected.link.producing.written
    assert second > first


@pytest.mark.parametrize("exclusive", [0, 1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_everything_arrives_under_jitter(exclusive: int, seed: int) -> None:
    connected = Connected(exclusive, floating=1, sigma=2.0, seed=seed)
    payloads = [number.to_bytes(2) for number in range(12)]
    read: list[bytes] = []

    def produce() -> None:
        for payload in payloads:
            connected.add(payload)
            if payload[1] % 5 == 4:
                connected.add_barrier()
        connected.subpartition.flush()

    connected.agenda.at(0.001, produce)
    for tick in range(600):
        connected.agenda.at(tick * 1e-3, lambda: read.extend(connected.read_all()))
        connected.agenda.at(tick * 1e-3, connected.subpartition.flush)
    connected.run()
    assert read == payloads
    connected.close()


def test_gains_before_the_network_thread_gets_there_make_one_message() -> None:
    connected = Connected(exclusive=2, floating=1)
    connected.agenda.at(0.0, connected.add_and_flush, *[b"x"] * 3)
    connected.agenda.at(1.0, connected.read_all)
    connected.run()
    late = [message for time, message in connected.link.producing.arrived if time > 1.0]
    assert late == [AddCredit(0, 2)]


def test_closing_in_the_middle_of_a_message_gives_all_memory_back() -> None:
    connected = Connected()
    connected.agenda.at(0.0, connected.add_and_flush, *[b"x"] * 5)
    connected.agenda.at(100e-6, connected.agenda.stop)
    connected.run()
    assert connected.link.producing.written
    connected.close()
