"""The emulated link: what every link promises, and when messages arrive."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import trio
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import AddCredit, Message
from netstack.engine.agenda import Agenda
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.randomness import Randomness
from netstack.exchange.emulated_link import EmulatedLink, EmulatedWire
from netstack.scenarios.costs import CostModel, LinkConditions

# Powers of 2, so that sums of them are exact.
PER_MESSAGE = 2.0**-10
WAY = 2.0**-12
RATE = 2.0**20
COSTS = CostModel(wire_message_s=PER_MESSAGE, wire_s=WAY, wire_rate_bytes_per_s=RATE, jitter_sigma=0.0)
PLAIN = LinkConditions()


class Delivery(NamedTuple):
    """A message that has arrived; `left` and `arrived` in seconds."""

    serial: int
    left: float
    arrived: float


class Traffic:
    """Writes numbered messages to one direction of a link and sees what becomes of them."""

    def __init__(
        self, costs: CostModel = COSTS, conditions: LinkConditions = PLAIN, *, seed: int = 1
    ) -> None:
        self.agenda = Agenda()
        self.link = EmulatedLink(
            self.agenda, costs, conditions, Randomness(seed, costs.jitter_sigma), ("a", "b")
        )
        self.link.to_consumer.arrive = self.link.to_producer.arrive = self._arrive
        self.arrived: list[Delivery] = []
        self.waited: list[int] = []  # messages whose time of leaving was not known when they were written
        self._left: dict[int, float] = {}
        self._serial = 0

    def write(self, size: int, wire: EmulatedWire | None = None) -> None:
        serial = self._serial
        self._serial += 1
        wire = wire or self.link.to_consumer
        left = wire.write(size, partial(self._written, serial), AddCredit(0, serial))
        if left is None:
            self.waited.append(serial)
        else:
            self._left[serial] = left

    def _written(self, serial: int) -> None:
        assert serial in self.waited
        assert serial not in self._left
        self._left[serial] = self.agenda.now

    def _arrive(self, message: Message) -> None:
        assert isinstance(message, AddCredit)
        self.arrived.append(Delivery(message.credit, self._left[message.credit], self.agenda.now))

    def run(self) -> list[Delivery]:
        trio.run(run_agenda, self.agenda)
        return self.arrived


def test_a_message_occupies_the_wire_and_then_travels() -> None:
    traffic = Traffic()
    traffic.write(1024)
    left = PER_MESSAGE + 1024 / RATE
    assert traffic.run() == [Delivery(0, left, left + WAY)]


def test_messages_leave_one_after_the_other() -> None:
    traffic = Traffic()
    for _ in range(3):
        traffic.write(1024)
    each = PER_MESSAGE + 1024 / RATE
    assert traffic.run() == [Delivery(n, (n + 1) * each, (n + 1) * each + WAY) for n in range(3)]


def test_an_idle_wire_is_free_at_once() -> None:
    traffic = Traffic()
    traffic.agenda.at(5.0, traffic.write, 1024)
    traffic.agenda.at(7.0, traffic.write, 2048)
    first, second = PER_MESSAGE + 1024 / RATE, PER_MESSAGE + 2048 / RATE
    assert traffic.run() == [
        Delivery(0, 5.0 + first, 5.0 + first + WAY),
        Delivery(1, 7.0 + second, 7.0 + second + WAY),
    ]


def test_latency_delays_but_does_not_occupy() -> None:
    traffic = Traffic(conditions=LinkConditions(latency_s=0.5))
    for _ in range(3):
        traffic.write(1024)
    each = PER_MESSAGE + 1024 / RATE
    assert traffic.run() == [Delivery(n, (n + 1) * each, (n + 1) * each + WAY + 0.5) for n in range(3)]


def test_bandwidth_is_shared_by_all_messages_of_a_direction() -> None:
    bandwidth = 2.0**14
    traffic = Traffic(conditions=LinkConditions(bandwidth_bytes_per_s=bandwidth))
    for size in (4096, 1024):
        traffic.write(size)
    first = PER_MESSAGE + 4096 / RATE + 4096 / bandwidth
    second = first + PER_MESSAGE + 1024 / RATE + 1024 / bandwidth
    assert traffic.run() == [Delivery(0, first, first + WAY), Delivery(1, second, second + WAY)]


def test_the_directions_do_not_share_a_wire() -> None:
    traffic = Traffic()
    traffic.write(1 << 20)
    traffic.write(0, traffic.link.to_producer)
    arrived = traffic.run()
    assert arrived[0] == Delivery(1, PER_MESSAGE, PER_MESSAGE + WAY)
    assert arrived[1].serial == 0


def test_a_link_without_costs_delivers_at_once() -> None:
    costs = replace(COSTS, wire_message_s=0.0, wire_s=0.0, wire_rate_bytes_per_s=float("inf"))
    traffic = Traffic(costs)
    traffic.write(1000)
    traffic.write(10)
    assert traffic.run() == [Delivery(0, 0.0, 0.0), Delivery(1, 0.0, 0.0)]


def test_what_is_written_during_a_cut_leaves_when_it_ends() -> None:
    traffic = Traffic()
    traffic.write(1024)
    traffic.agenda.at(1.0, traffic.link.cut, 5.0)
    traffic.agenda.at(2.0, traffic.write, 1024)
    traffic.agenda.at(3.0, traffic.write, 1024)
    traffic.agenda.at(4.0, traffic.write, 1024, traffic.link.to_producer)
    traffic.agenda.at(6.0, traffic.write, 1024)
    each = PER_MESSAGE + 1024 / RATE
    left = [each, 5.0 + each, 5.0 + 2 * each, 5.0 + each, 6.0 + each]
    expected = [Delivery(number, at, at + WAY) for number, at in enumerate(left)]
    assert sorted(traffic.run()) == expected
    assert traffic.waited == [1, 2, 3]


def test_what_was_written_before_a_cut_is_under_way() -> None:
    traffic = Traffic(conditions=LinkConditions(latency_s=2.0))
    traffic.write(1024)
    traffic.agenda.at(0.0, traffic.link.cut, None)
    left = PER_MESSAGE + 1024 / RATE
    assert traffic.run() == [Delivery(0, left, left + WAY + 2.0)]


def test_what_is_under_way_is_counted_in_both_directions() -> None:
    traffic = Traffic()
    traffic.write(1024)
    traffic.write(64, traffic.link.to_producer)
    assert traffic.link.under_way == 2
    traffic.run()
    assert traffic.link.under_way == 0


def test_a_link_is_blocked_for_as_long_as_its_cut_lasts() -> None:
    link = Traffic().link
    assert link.blocked_until() <= 0.0
    link.cut(2.5)
    assert link.blocked_until() == 2.5
    link.cut(None)
    assert link.blocked_until() == math.inf


@given(st.lists(st.sampled_from([2.0, 3.5, 5.0, None]), min_size=1), st.floats(1.0, 5.0))
def test_cuts_that_overlap_end_with_the_longest_in_whatever_order(
    cuts: list[float | None], written_at: float
) -> None:
    def run(cuts: list[float | None]) -> tuple[float, list[Delivery]]:
        traffic = Traffic()
        for until in cuts:
            traffic.agenda.at(1.0, traffic.link.cut, until)
        traffic.agenda.at(written_at, traffic.write, 1024)
        traffic.agenda.at(written_at, traffic.write, 1024, traffic.link.to_producer)
        deliveries = traffic.run()
        return traffic.link.blocked_until(), deliveries

    longest = max(cuts, key=lambda until: math.inf if until is None else until)
    assert run(cuts) == run(cuts[::-1]) == run([longest])


def test_nothing_leaves_a_wire_that_is_cut_for_good() -> None:
    traffic = Traffic()
    traffic.agenda.at(1.0, traffic.link.to_consumer.cut, None)
    traffic.agenda.at(2.0, traffic.link.to_consumer.cut, 3.0)
    traffic.agenda.at(2.0, traffic.write, 10)
    traffic.agenda.at(2.0, traffic.write, 10, traffic.link.to_producer)
    traffic.agenda.at(9.0, traffic.write, 10)
    assert [delivery.serial for delivery in traffic.run()] == [1]


WRITES = st.lists(st.tuples(st.floats(0.0, 1e-3), st.integers(0, 100_000)), max_size=30)


@given(WRITES, st.sampled_from([0.0, 1.0, 3.0]), st.sampled_from([0.0, 1e-3]), st.none() | st.just(1e8))
def test_the_contract_of_a_link(
    writes: list[tuple[float, int]], sigma: float, latency: float, bandwidth: float | None
) -> None:
    """Each message leaves once, then arrives once, in the order of writing and not before its time."""
    costs = CostModel(jitter_sigma=sigma)
    conditions = LinkConditions(latency_s=latency, bandwidth_bytes_per_s=bandwidth)
    traffic = Traffic(costs, conditions)
    writes = sorted(writes)
    for time, size in writes:
        traffic.agenda.at(time, traffic.write, size)
    arrived = traffic.run()
    assert [delivery.serial for delivery in arrived] == list(range(len(writes)))
    free_at = 0.0
    for (time, size), delivery in zip(writes, arrived, strict=True):
        seconds = size / costs.wire_rate_bytes_per_s + (size / bandwidth if bandwidth else 0.0)
        assert delivery.left >= max(time, free_at) + seconds - 1e-12
        assert delivery.arrived >= delivery.left + latency
        free_at = delivery.left


def test_the_same_seed_gives_the_same_times() -> None:
    def run(seed: int) -> list[Delivery]:
        traffic = Traffic(CostModel(), seed=seed)
        for _ in range(20):
            traffic.write(1000)
        return traffic.run()

    assert run(5) == run(5)
    assert run(5) != run(6)
