"""What real jobs have and a bare exchange has not: placement, selectivity, windows, skew, bursts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import cos, pi
from typing import Any

import numpy as np
import pytest
import trio

from buffers import InsufficientBuffers, RecordBlock
from netstack import (
    Agenda,
    CollectionSource,
    Edge,
    GeneratorSpec,
    Job,
    NetworkConfig,
    Scenario,
    SourceObject,
    Vertex,
    emulate,
    in_slots,
    map_blocks,
    sink,
)
from netstack.engine.randomness import uncertain_factor
from netstack.exchange.java_hash import hash_longs
from netstack.exchange.key_groups import assign_to_operators
from netstack.scenarios.scenario import Keys
from netstack.tasks.sources import key_shares
from tests.netstack.whole_jobs import EXACT

AT_ONCE = NetworkConfig(buffer_timeout_interval_s=0.0)


class Watch:
    """A sink that notes (time, subtask, bytes) of each record."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.seen: list[tuple[float, int, bytes]] = []

    def operator(self, subtask: int) -> Any:
        return sink(lambda record: self.seen.append((self.agenda.now, subtask, record)))(subtask)

    def run(self, scenario: Scenario) -> Job:
        job = Job(scenario, self.agenda)
        trio.run(job.run)
        assert job.leaked_segments == 0
        return job

    @property
    def times(self) -> list[float]:
        return [round(at, 6) for at, _, _ in self.seen]

    @property
    def by_subtask(self) -> Counter[int]:
        return Counter(subtask for _, subtask, _ in self.seen)


def given(records: Sequence[bytes], rate: float = 0.0) -> SourceObject:
    return SourceObject(source=CollectionSource([list(records)]), rates=(rate,))


def chain(
    watch: Watch, source: Any, *stages: Vertex, sinks: int = 1, duration_s: float = 60.0, **last: Any
) -> Scenario:
    """source -> stages -> a sink that is watched; `last` is of the last edge."""
    vertices = (
        Vertex(name="source", source=source),
        *stages,
        Vertex(name="sink", parallelism=sinks, operator=watch.operator),
    )
    edges = [Edge(source=first.name, target=second.name) for first, second in pairwise(vertices)]
    edges[-1] = replace(edges[-1], **last)
    return Scenario(
        name="chain",
        duration_s=duration_s,
        vertices=vertices,
        edges=tuple(edges),
        costs=EXACT,
        config=AT_ONCE,
    )


def numbered(count: int, length: int = 12) -> list[bytes]:
    return [b"%0*d" % (length, number) for number in range(count)]


def test_channels_within_a_task_manager_are_local_and_the_others_share_a_link_each_way() -> None:
    watch = Watch()
    vertices = (
        Vertex(name="a", parallelism=4, source=GeneratorSpec(record_bytes=50, rates=(100.0,))),
        Vertex(name="b", parallelism=4),
        Vertex(name="c", parallelism=4, operator=watch.operator),
    )
    edges = (Edge(source="a", target="b", ship="rebalance"), Edge(source="b", target="c", ship="rebalance"))
    job = Scenario(name="job", duration_s=0.5, vertices=vertices, edges=edges)
    together = watch.run(replace(job, vertices=in_slots(vertices, 4)))
    assert together.work.messages == together.work.buffers == 0
    assert len(watch.seen) > 150
    links: list[list[tuple[str, str]]] = []
    ends: list[int] = []
    for ship in ("forward", "rebalance"):
        shipped = tuple(replace(edge, ship=ship) for edge in edges)
        spread = Job(replace(job, vertices=in_slots(vertices, 2), edges=shipped), Agenda())

        def look(spread: Job = spread) -> None:
            assert spread.attempt is not None
            links.append(sorted(spread.attempt.links))
            ends.append(len(list(spread.attempt.builder.connections.consumers)))

        spread.agenda.keep(0.4, look)
        trio.run(spread.run)
        assert (spread.work.messages == 0) == (ship == "forward")
    assert links == [[], [("tm-1", "tm-2"), ("tm-2", "tm-1")]]
    assert ends == [0, 2]


def test_only_remote_channels_take_credit() -> None:
    vertices = (
        Vertex(name="a", parallelism=2, source=GeneratorSpec(record_bytes=500), task_manager=("x", "y")),
        Vertex(name="b", parallelism=2, task_manager=("x", "y"), service=((0.0, 0.001),)),
    )
    job = Job(
        Scenario(name="job", duration_s=1.0, vertices=vertices, edges=(Edge(source="a", target="b"),)),
        Agenda(),
    )
    kinds: list[list[str]] = []

    def look() -> None:
        assert job.attempt is not None
        for gate in job.attempt.builder.gates:
            kinds.append([type(channel).__name__ for channel in gate.channels])

    job.agenda.keep(0.5, look)
    trio.run(job.run)
    local, remote = "LocalInputChannel", "RemoteInputChannel"
    assert kinds == [[local, remote], [remote, local]]


def test_too_little_memory_names_the_task_manager_and_what_it_needs() -> None:
    vertices = (
        Vertex(name="a", parallelism=3, source=GeneratorSpec(record_bytes=500)),
        Vertex(name="b", parallelism=3),
    )
    job = Scenario(
        name="job", duration_s=0.01, vertices=in_slots(vertices, 2), edges=(Edge(source="a", target="b"),)
    )
    # A partition of 3 needs 4 buffers; a gate needs 1 floating one and 2 for each of its remote channels.
    needed = {"tm-1": 2 * 4 + 2 * (1 + 2), "tm-2": 4 + 1 + 2 * 2}
    for segments in (9, 13):
        with pytest.raises(InsufficientBuffers) as caught:
            emulate(replace(job, config=NetworkConfig(network_memory_max_bytes=segments * 32768)))
        assert (caught.value.task_manager, caught.value.required) == ("tm-1", needed["tm-1"])
        start = f"task manager tm-1: Insufficient number of network buffers: required 14, but only {segments}"
        assert str(caught.value).startswith(start)
    emulate(replace(job, config=NetworkConfig(network_memory_max_bytes=14 * 32768)))
    alone = replace(job, vertices=(job.vertices[0], replace(vertices[1], task_manager="tm-2")))
    with pytest.raises(InsufficientBuffers, match=r"task manager tm-2: .* required 19, but only 14"):
        emulate(replace(alone, config=NetworkConfig(network_memory_max_bytes=14 * 32768)))


@pytest.mark.parametrize(
    ("selectivity", "emitted"),
    [(0.5, [1, 3, 5, 7, 9]), (3.0, [n for n in range(10) for _ in range(3)]), (0.76, [1, 2, 3, 5, 6, 7, 9])],
)
def test_regular_emission_comes_in_turns(selectivity: float, emitted: list[int]) -> None:
    watch = Watch()
    watch.run(chain(watch, given(numbered(10)), Vertex(name="map", selectivity=selectivity)))
    assert [int(record) for _, _, record in watch.seen] == emitted


@pytest.mark.parametrize("selectivity", [0.5, 3.0, 0.76, 1.3])
def test_random_emission_has_the_same_mean_and_no_turns(selectivity: float) -> None:
    watch = Watch()
    watch.run(
        chain(watch, given(numbered(3000)), Vertex(name="map", selectivity=selectivity, emission="random"))
    )
    counts = Counter(int(record) for _, _, record in watch.seen)
    assert len(watch.seen) == pytest.approx(3000 * selectivity, rel=0.06)
    assert {counts[number] for number in range(3000)} <= {int(selectivity), int(selectivity) + 1}
    if selectivity % 1:
        gaps = {later - earlier for earlier, later in pairwise(sorted(n for n in counts))}
        assert selectivity > 1 or len(gaps) > 3


@pytest.mark.parametrize(("read", "emitted"), [(12, 30), (30, 9), (12, 12)])
def test_emitted_records_have_the_size_that_is_said(read: int, emitted: int) -> None:
    watch = Watch()
    watch.run(chain(watch, given(numbered(20, read)), Vertex(name="map", record_bytes=emitted)))
    assert [len(record) for _, _, record in watch.seen] == [emitted] * 20
    assert [record for _, _, record in watch.seen] == [
        record[:emitted].ljust(emitted, b".") for record in numbered(20, read)
    ]


def test_a_window_emits_all_at_once_at_multiples_of_its_period() -> None:
    watch = Watch()
    window = Vertex(name="window", selectivity=2.0, emit_every_s=0.5)
    watch.run(chain(watch, given(numbered(130), rate=100.0), window))
    # Records come at 0, 0.01 ... 1.29; the last ones go when the input ends.
    counts = Counter(watch.times)
    assert sorted(counts) == [0.5, 1.0, 1.29]
    assert sum(counts.values()) == 260
    assert counts[0.5] in (100, 102)
    assert [int(record) for _, _, record in watch.seen] == [n for n in range(130) for _ in range(2)]


def test_a_consumer_that_just_keeps_up_stays_as_far_behind_as_it_was() -> None:
    watch = Watch()
    busy = Vertex(name="busy", service=((0.0, 0.01),), behind_s=(0.3,))
    watch.run(chain(watch, GeneratorSpec(record_bytes=20, rates=(100.0,)), busy, duration_s=5.0))
    served = sorted(watch.times)
    assert served[0] == pytest.approx(0.31, abs=0.002)
    late = [time - 0.01 * number for number, time in enumerate(served)]
    assert late == pytest.approx([0.31] * len(late), abs=0.05)
    assert len(served) > 400


def test_a_consumer_stays_behind_although_debloating_begins_with_buffers_that_hold_little() -> None:
    work = Vertex(name="work", parallelism=2, service=((0.0, 0.005),), behind_s=(0.0, 0.4))
    source = Vertex(name="source", parallelism=1, source=GeneratorSpec(record_bytes=1000, rates=(0.0,)))
    scenario = Scenario(
        name="turns",
        duration_s=25.0,
        warmup_s=10.0,
        config=NetworkConfig(debloat_enabled=True, checkpoint_interval_s=2.0),
        vertices=(source, work),
        edges=(Edge(source="source", target="work", ship="rebalance"),),
    )
    delays = [checkpoint.vertices[1].start_delay_ms for checkpoint in emulate(scenario).checkpoints]
    apart = [late - early for early, late in delays if early is not None and late is not None]
    assert apart[0] == pytest.approx(0.0, abs=50.0)  # the smallest buffers hold no more
    assert apart[-6:] == pytest.approx([400.0] * 6, abs=20.0)


def test_a_burst_brings_the_records_of_its_period_at_once() -> None:
    watch = Watch()
    source = GeneratorSpec(record_bytes=20, rates=(10.0,), burst_s=0.5)
    watch.run(chain(watch, source, duration_s=1.9))
    assert Counter(watch.times) == {0.0: 5, 0.5: 5, 1.0: 5, 1.5: 5}


def test_a_burst_of_calls_goes_on_where_the_last_call_has_given_more() -> None:
    watch = Watch()
    source = GeneratorSpec(record_bytes=20, rates=(10.0,), burst_s=0.5, batch=3)
    watch.run(chain(watch, source, duration_s=1.9))
    assert Counter(watch.times) == {0.0: 6, 0.5: 6, 1.0: 3, 1.5: 6}


def test_a_wave_goes_from_nothing_to_twice_its_rate() -> None:
    watch = Watch()
    rate, period = 200.0, 2.0
    watch.run(chain(watch, GeneratorSpec(record_bytes=20, rates=(rate,), wave_s=period), duration_s=4.0))
    quarters = Counter(int(at / 0.5) for at in watch.times)

    def expected(quarter: int) -> float:
        turn = 2 * pi / period
        ends = (0.5 * quarter, 0.5 * quarter + 0.5)
        done = [rate * (at + (1 - cos(turn * at)) / turn) for at in ends]
        return done[1] - done[0]

    for quarter in range(8):
        assert quarters[quarter] == pytest.approx(expected(quarter), abs=3)
    assert quarters[2] < 0.3 * quarters[0]


def test_what_comes_of_one_call_is_written_whole() -> None:
    """Records of 100 bytes fill a buffer each: one by one, a source stops at the first full pool."""
    config = NetworkConfig(
        segment_bytes=1024,
        exclusive_buffers_per_channel=1,
        floating_buffers_per_gate=1,
        max_overdraft_buffers_per_gate=20,
    )
    written: dict[int, list[int]] = {}
    for batch in (1, 7):
        watch = Watch()
        source = GeneratorSpec(record_bytes=1000, batch=batch)
        slow = Vertex(name="slow", service=((0.0, 0.1),))
        scenario = replace(chain(watch, source, slow, duration_s=3.0), config=config)
        job = Job(scenario, watch.agenda)
        counts = written[batch] = []

        def look(job: Job = job, counts: list[int] = counts) -> None:
            assert job.attempt is not None
            counts.append(job.attempt.builder.subtasks[0][0].position)  # type: ignore[attr-defined]

        for at in np.arange(0.05, 3.0, 0.1):
            job.agenda.keep(float(at), look)
        trio.run(job.run)
    assert {count % 7 for count in written[7]} == {0}
    assert len({count % 7 for count in written[1]}) == 7


def test_shares_say_how_often_a_record_goes_to_each_consumer() -> None:
    watch = Watch()
    source = GeneratorSpec(record_bytes=20, rates=(2000.0,))
    watch.run(chain(watch, source, sinks=4, duration_s=3.0, ship="hash", shares=(5.0, 0.0, 3.0, 2.0)))
    counts = watch.by_subtask
    total = sum(counts.values())
    assert total > 5000
    assert counts[1] == 0
    assert [counts[n] / total for n in (0, 2, 3)] == pytest.approx([0.5, 0.3, 0.2], abs=0.02)


def test_keys_come_as_often_as_said_and_hash_deals_them_out() -> None:
    watch = Watch()
    keys = Keys(number=50, zipf=1.2, most_frequent=(0.3, 0.1))
    source = GeneratorSpec(record_bytes=20, rates=(2000.0,), keys=keys)
    watch.run(chain(watch, source, sinks=3, duration_s=3.0, ship="hash"))
    seen = Counter(int.from_bytes(record[:8], "big") for _, _, record in watch.seen)
    total, said = sum(seen.values()), key_shares(keys)
    assert said[:2].tolist() == pytest.approx([0.3, 0.1])
    assert said[2] / said[5] == pytest.approx((6 / 3) ** 1.2)
    assert said.sum() == pytest.approx(1)
    assert [seen[key] / total for key in range(50)] == pytest.approx(said.tolist(), abs=0.015)
    consumers = assign_to_operators(hash_longs(np.arange(50, dtype=">i8")), 128, 3)
    assert {(subtask, int.from_bytes(record[:8], "big")) for _, subtask, record in watch.seen} <= {
        (int(consumer), key) for key, consumer in enumerate(consumers)
    }
    expected = [float(said[consumers == consumer].sum()) for consumer in range(3)]
    assert [watch.by_subtask[consumer] / total for consumer in range(3)] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("ship", ["rebalance", "hash"])
def test_a_fraction_goes_over_one_of_two_outputs_to_all_its_consumers(ship: str) -> None:
    watch, side = Watch(), Watch()
    side.agenda = watch.agenda
    whole = chain(watch, GeneratorSpec(record_bytes=20, rates=(500.0,)), duration_s=2.0)
    scenario = replace(
        whole,
        vertices=(*whole.vertices, Vertex(name="side", parallelism=2, operator=side.operator)),
        edges=(*whole.edges, Edge(source="source", target="side", ship=ship, fraction=0.25)),
    )
    watch.run(scenario)
    records = [record for _, _, record in watch.seen]
    assert len(records) > 950
    assert sorted(record for _, _, record in side.seen) == sorted(records[3::4])
    least, most = sorted(side.by_subtask.values())
    assert most - least <= (1 if ship == "rebalance" else 60)


def test_what_a_record_costs_a_source_is_what_it_says() -> None:
    watch = Watch()
    watch.run(chain(watch, GeneratorSpec(record_bytes=20, cost_s=0.01), duration_s=1.0))
    assert len(watch.seen) == pytest.approx(100, abs=21)


def test_a_users_function_sees_what_a_vertex_emits() -> None:
    watch, lengths = Watch(), set[int]()

    def look(block: RecordBlock) -> RecordBlock:
        lengths.update(len(bytes(payload)) for payload in block.payloads())
        return block

    stages = (
        Vertex(name="cut", record_bytes=9, selectivity=2.0),
        Vertex(name="look", operator=map_blocks(look)),
    )
    watch.run(chain(watch, given(numbered(10)), *stages))
    assert lengths == {9}
    assert len(watch.seen) == 20


@pytest.mark.parametrize("legacy", [False, True])
def test_a_source_of_the_old_kind_goes_on_where_a_subpartition_is_full(legacy: bool) -> None:
    scenario = Scenario(
        name="legacy",
        duration_s=3.0,
        config=NetworkConfig(segment_bytes=1024),
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=500, rates=(2000.0,), legacy=legacy)),
            Vertex(name="slow", parallelism=4, service=((0.0, 1.0),)),
        ),
        edges=(Edge(source="source", target="slow", ship="hash", shares=(1, 0, 0, 0)),),
    )
    queued = emulate(scenario).steady[0].vertices[0].outputQueueLength
    assert queued is not None
    # 10 buffers of a subpartition make a pool unavailable, which has 4 * 2 + 8.
    assert queued[0] > 14 if legacy else queued[0] == 10


def test_seeds_are_dealt_over_what_a_cost_may_be() -> None:
    stage = Vertex(name="work", service=((0.0, 0.01),), service_mode="exact", service_spread=0.1)
    rates = {}
    for seed in (1, 2, 3):
        watch = Watch()
        source = GeneratorSpec(record_bytes=50)
        watch.run(replace(chain(watch, source, stage, duration_s=20.0), seed=seed))
        rates[seed] = len(watch.seen) / 20.0
    assert rates[1] == pytest.approx(100, rel=0.01)
    assert rates[2] == pytest.approx(100 / (1 - 0.1 * 0.674), rel=0.01)
    assert rates[3] == pytest.approx(100 / (1 + 0.1 * 0.674), rel=0.01)


def test_the_first_seeds_are_spread_as_a_normal_distribution_is() -> None:
    factors = [uncertain_factor(seed, 0.1) for seed in range(1, 128)]
    assert factors[0] == 1
    assert np.median(factors) == pytest.approx(1)
    assert np.std(factors) == pytest.approx(0.1, rel=0.05)
    assert all(1 - 0.3 < factor < 1 + 0.3 for factor in factors)
    assert uncertain_factor(5, 0.0) == 1


def test_a_paced_source_makes_up_for_a_part_of_what_it_missed() -> None:
    """One that is held back for seconds; each record fills a buffer, so that little waits."""
    emitted = {}
    for catch_up_s in (0.0, 0.5, 1.0):
        watch = Watch()
        source = GeneratorSpec(record_bytes=30_000, rates=(100.0,), catch_up_s=catch_up_s)
        held_until_5_s = Vertex(name="work", service=((0.0, 1.0), (5.0, 0.0)), service_mode="exact")
        watch.run(chain(watch, source, held_until_5_s, duration_s=10.0))
        emitted[catch_up_s] = len(watch.seen)
    assert emitted[0.5] - emitted[0.0] == pytest.approx(50, abs=2)
    assert emitted[1.0] - emitted[0.0] == pytest.approx(100, abs=2)


def test_a_fast_source_that_makes_up_for_nothing_keeps_its_rate_while_nothing_holds_it() -> None:
    watch = Watch()
    source = GeneratorSpec(record_bytes=100, rates=(2500.0,), catch_up_s=0.0)
    watch.run(chain(watch, source, Vertex(name="work"), duration_s=4.0))
    assert len(watch.seen) == pytest.approx(10_000, rel=0.01)
