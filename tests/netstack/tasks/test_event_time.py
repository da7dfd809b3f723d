"""Windows that fire by event time: when, what of, who holds them back, and that they come back whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import isnan
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from buffers import WATERMARK_BYTES, RecordBlock
from netstack import (
    Agenda,
    AtTime,
    CollectionSource,
    Edge,
    GeneratorSpec,
    Job,
    KillSubtask,
    NetworkConfig,
    RestartStrategy,
    Scenario,
    SourceObject,
    SubtaskName,
    TransactionLog,
    Vertex,
    emulate,
    sink,
    transactional_sink,
)
from netstack.engine.event_clock import EventClock
from netstack.engine.randomness import Draws
from netstack.scenarios.watermark_reach import disorder_s
from netstack.tasks.synthetic_output import Emission, HeldBack
from netstack.tasks.watermarks import EventTimeWindows, SourceWatermarks, WindowsOfKeys
from tests.netstack.diamonds import chain_of_diamonds
from tests.netstack.whole_jobs import EXACT, EXACTLY_ONCE, MODES

COUNT = 400
BY_EVENT_TIME: dict[str, Any] = {"emit_by": "event_time"}
AT_ONCE = NetworkConfig(buffer_timeout_interval_s=0.0, auto_watermark_interval_s=0.05)


def records(name: bytes, count: int = COUNT) -> list[bytes]:
    return [b"%s %d" % (name, number) for number in range(count)]


def source(name: str, rate: float, count: int = COUNT, disorder_s: float | None = 0.0) -> Vertex:
    """A source whose record n is emitted n / `rate` seconds after the start."""
    given = CollectionSource([records(name.encode(), count)])
    return Vertex(name=name, source=SourceObject(source=given, rates=(rate,), out_of_orderness_s=disorder_s))


def firings(
    sources: Sequence[Vertex],
    *,
    disorder_s: float | None = 0.0,
    inputs: Sequence[int] = (0, 0),
    **of_window: Any,
) -> list[tuple[float, dict[bytes, list[int]]]]:
    """Return the times at which windows of half a second fire, with their records by source."""
    agenda, found = Agenda(), dict[float, dict[bytes, list[int]]]()

    def note(record: bytes) -> None:
        name, number = record.split()
        found.setdefault(round(agenda.now, 3), {}).setdefault(name, []).append(int(number))

    given = list(sources)
    if disorder_s != 0.0:
        given = [
            replace(each, source=replace(each.source, out_of_orderness_s=disorder_s))  # type: ignore[type-var]
            for each in sources
        ]
    window = Vertex(name="window", emit_every_s=0.5, **(BY_EVENT_TIME | of_window))
    scenario = Scenario(
        name="windows",
        duration_s=10.0,
        costs=EXACT,
        config=AT_ONCE,
        vertices=(*given, window, Vertex(name="sink", operator=lambda subtask: sink(note)(subtask))),
        edges=(
            *(
                Edge(source=each.name, target="window", input=of)
                for each, of in zip(given, inputs, strict=False)
            ),
            Edge(source="window", target="sink"),
        ),
    )
    job = Job(scenario, agenda)
    trio.run(job.run)
    assert job.leaked_segments == 0
    return sorted(found.items())


def counts(fired: Sequence[tuple[float, dict[bytes, list[int]]]]) -> list[tuple[float, int]]:
    return [(at, sum(map(len, by_source.values()))) for at, by_source in fired]


def test_a_window_fires_when_a_watermark_has_passed_its_end() -> None:
    # Records come every 10 ms. Of those up to 0.55 s the watermark of then tells, so it passes 0.5 s; those
    # between 0.50 s and 0.55 s come behind the watermark of 0.50 s, which says that 0.5 s is not over.
    fired = firings([source("a", 100.0, 130)])
    assert counts(fired) == [(0.55, 55), (1.05, 50), (1.29, 25)]
    assert [number for _, by_source in fired for number in by_source[b"a"]] == list(range(130))


def test_by_processing_time_it_fires_by_the_clock() -> None:
    fired = firings([source("a", 100.0, 130)], disorder_s=None, emit_by="processing_time")
    assert counts(fired) in ([(0.5, 50), (1.0, 50), (1.29, 30)], [(0.5, 51), (1.0, 50), (1.29, 29)])


@pytest.mark.parametrize("emit_by", ["event_time", "processing_time"])
def test_each_record_of_a_window_is_emitted_after_its_cost(emit_by: str) -> None:
    disorder_s = 0.0 if emit_by == "event_time" else None
    fired = firings(
        [source("a", 100.0, 95)],
        disorder_s=disorder_s,
        emit_by=emit_by,
        emit_cost_s=0.002,
        service_mode="exact",
    )
    first = [at for at, _ in fired if at < 0.7]
    begin = 0.55 if emit_by == "event_time" else 0.5
    assert first == pytest.approx([begin + 0.002 * number for number in range(1, len(first) + 1)])
    assert sum(count for _, count in counts(fired)) == 95


def test_a_window_emits_one_record_for_each_key_in_it() -> None:
    # 1,000 records a second of 40 keys: nearly every key is in each window of 500 ms, whatever the rate.
    for rate in (1000.0, 500.0):
        fired = firings([source("a", rate, round(2 * rate))], emit_keys=40)
        assert sum(count for _, count in counts(fired)) == pytest.approx(4 * 40, abs=3)
    # One record of each key would be emitted if all came in one window; of few records, hardly any are lost.
    few = firings([source("a", 20.0, 40)], emit_keys=10_000)
    assert sum(count for _, count in counts(few)) == pytest.approx(40, abs=1)


def test_a_barrier_waits_until_a_window_has_fired_to_its_end() -> None:
    def start_delay_ms(**of_window: Any) -> float:
        scenario = Scenario(
            name="barriers",
            duration_s=5.0,
            config=NetworkConfig(checkpoint_interval_s=0.13),
            vertices=(
                Vertex(name="source", source=GeneratorSpec(record_bytes=100, rates=(100.0,))),
                Vertex(name="window", emit_every_s=1.0, **of_window),
                Vertex(name="sink"),
            ),
            edges=(Edge(source="source", target="window"), Edge(source="window", target="sink")),
        )
        delays = [each.vertices[1].start_delay_ms[0] for each in emulate(scenario).checkpoints]
        return max(delay for delay in delays if delay is not None)

    assert start_delay_ms(service=((0.0, 0.005),)) < 60
    assert 300 < start_delay_ms(emit_cost_s=0.005) < 560  # 100 records take 500 ms


def test_a_window_fires_later_by_the_disorder_that_is_allowed_for() -> None:
    assert [at for at, _ in firings([source("a", 97.0, 290)], disorder_s=0.2)] == [
        0.75, 1.25, 1.75, 2.25, 2.75, 2.979
    ]  # fmt: skip


@pytest.mark.parametrize("inputs", [(0, 0), (0, 1)])
def test_sources_of_different_disorder_share_their_windows(inputs: Sequence[int]) -> None:
    # Records come every 10 ms and watermarks every 50 ms, so a border is exact to 5 records, and one more.
    fired = firings([source("a", 100.0, 290), source("b", 100.0, 290, 0.4)], inputs=inputs)
    for number, (at, by_source) in enumerate(fired[:-1], 1):
        assert 0.5 * number + 0.4 <= at <= 0.5 * number + 0.451
        for name in (b"a", b"b"):
            assert 50 * number <= max(by_source[name]) + 1 <= 50 * number + 6


def test_of_sources_that_come_together_the_one_with_most_disorder_counts() -> None:
    edges = (
        Edge(source="a", target="both"),
        Edge(source="b", target="both"),
        Edge(source="both", target="window"),
        Edge(source="a", target="window", input=1),
    )
    scenario = Scenario(
        name="two ways",
        duration_s=1.0,
        vertices=(
            source("a", 100.0, disorder_s=0.1),
            source("b", 100.0, disorder_s=0.4),
            Vertex(name="both"),
            Vertex(name="window", emit_every_s=0.5, **BY_EVENT_TIME),
        ),
        edges=edges,
    )
    assert [disorder_s(scenario, edge) for edge in edges] == [0.1, 0.4, 0.4, 0.1]


def test_the_disorder_of_many_diamonds_is_found_without_following_each_way() -> None:
    scenario = chain_of_diamonds(40)
    assert {disorder_s(scenario, edge) for edge in scenario.edges} == {0.1}


def test_a_window_behind_a_window_gets_its_records_in_time() -> None:
    names = ["source", "first", "between", "second", "sink"]
    windows = {"emit_every_s": 1.0, **BY_EVENT_TIME}
    edges = tuple(Edge(source=one, target=other) for one, other in pairwise(names))
    scenario = Scenario(
        name="twice",
        duration_s=6.0,
        vertices=(
            source("source", 100.0, count=1000, disorder_s=1.2),
            Vertex(name="first", **windows),
            Vertex(name="between"),
            Vertex(name="second", **windows),
            Vertex(name="sink"),
        ),
        edges=edges,
    )
    assert [disorder_s(scenario, edge) for edge in edges] == [1.2, 0.0, 0.0, 0.0]
    series = emulate(scenario).series
    first, second = (series[place].numRecordsOut[0][-1] for place in (1, 3))
    assert first == second > 300  # each hands on what it has been given, in the same moment


@pytest.mark.parametrize("inputs", [(0, 0), (0, 1)])
def test_the_slowest_channel_holds_the_windows_of_all_back(inputs: Sequence[int]) -> None:
    # The records of `slow` come at 0 s, 0.83 s, 1.67 s and 2.5 s: nothing fires in between.
    fired = firings([source("fast", 100.0, 200), source("slow", 1.2, 4)], inputs=inputs)
    assert [at for at, _ in fired] == [0.85, 1.7, 2.5]
    assert [len(by_source[b"fast"]) for _, by_source in fired] == [55, 100, 45]


def test_a_channel_that_has_ended_holds_nothing_back() -> None:
    fired = firings([source("fast", 100.0, 200), source("short", 100.0, 3)])
    assert [at for at, _ in fired] == [0.55, 1.05, 1.55, 1.99]


def late_job(*, debloat: bool = False, **of_window: Any) -> Scenario:
    """A source -> work that holds it back -> windows of a second -> a sink."""
    config = NetworkConfig(debloat_enabled=debloat, debloat_target_s=0.2)
    return Scenario(
        name="late",
        duration_s=20.0,
        warmup_s=8.0,
        config=config,
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=300, out_of_orderness_s=0.0)),
            Vertex(name="work", parallelism=2, service=((0.0, 0.002),), service_skew=(1.0, 1.5)),
            Vertex(name="window", parallelism=2, emit_every_s=1.0, **(BY_EVENT_TIME | of_window)),
            Vertex(name="sink"),
        ),
        edges=(
            Edge(source="source", target="work"),
            Edge(source="work", target="window", ship="hash"),
            Edge(source="window", target="sink"),
        ),
    )


def test_under_back_pressure_windows_fire_late_by_what_waits_and_debloating_helps() -> None:
    off, on = lags_ms(late_job()), lags_ms(late_job(debloat=True))
    quick, slow = off["work"]
    assert slow > 2 * quick > 800
    assert off["window"] == pytest.approx([slow, slow], rel=0.05)
    assert max(on["window"]) < slow / 3


def lags_ms(job: Scenario) -> dict[str, list[float]]:
    """Delay of the watermarks of each vertex, by its name."""
    return {
        vertex.name: [lag for lag in vertex.watermark_lag_ms or () if lag is not None]
        for vertex in emulate(job).steady[0].vertices
    }


def test_where_nothing_fires_by_event_time_no_watermark_is_sent() -> None:
    job = late_job(emit_by="processing_time")
    vertices = (Vertex(name="source", source=GeneratorSpec(record_bytes=300)), *job.vertices[1:])
    steady = emulate(replace(job, vertices=vertices)).steady[0]
    assert [vertex.watermark_lag_ms for vertex in steady.vertices] == [UNSET] * 4
    (records_out,), (bytes_out,) = steady.vertices[0].records_out_per_s, steady.vertices[0].bytes_out_per_s
    assert records_out
    assert bytes_out == pytest.approx(304 * records_out, abs=20)


def test_watermarks_are_bytes_and_no_records() -> None:
    job = late_job()
    quiet = Vertex(
        name="source", source=GeneratorSpec(record_bytes=300, rates=(50.0,), out_of_orderness_s=0.0)
    )
    steady = emulate(replace(job, vertices=(quiet, *job.vertices[1:]))).steady[0]
    sent, read = steady.vertices[0], steady.vertices[1]
    assert sent.records_out_per_s == pytest.approx([50.0], abs=0.2)
    # Five times a second to each of two channels.
    assert sent.bytes_out_per_s == pytest.approx([50 * 304 + 5 * 2 * WATERMARK_BYTES], abs=30)
    assert sum(filter(None, read.records_in_per_s)) == pytest.approx(50.0, abs=0.5)
    assert sum(filter(None, read.bytes_in_per_s)) == pytest.approx(50 * 304 + 130, abs=100)


@pytest.mark.parametrize("ship", ["broadcast", "rescale", "forward", "hash"])
def test_every_exchange_carries_watermarks(ship: str) -> None:
    job = late_job()
    vertices = (job.vertices[0], replace(job.vertices[1], parallelism=1), *job.vertices[2:])
    if ship == "forward":
        vertices = (*vertices[:2], replace(vertices[2], parallelism=1), vertices[3])
    edges = (job.edges[0], Edge(source="work", target="window", ship=ship), job.edges[2])
    steady = emulate(replace(job, vertices=vertices, edges=edges)).steady[0]
    assert all(rate for vertex in steady.vertices[1:] for rate in vertex.records_in_per_s)


KILLS = (("window", 0.33), ("left", 0.71), ("out", 1.02), ("window", 1.31))


def killed_job(log: TransactionLog, *, inputs: int = 1, **settings: Any) -> Scenario:
    """Two sources -> windows of 120 ms -> what commits; killed four times."""
    config: dict[str, Any] = {
        "checkpoint_interval_s": 0.05,
        "segment_bytes": 1024,
        "exclusive_buffers_per_channel": 1,
        "floating_buffers_per_gate": 2,
        "restart_strategy": RestartStrategy.FIXED_DELAY,
        "restart_attempts": 1000,
        "restart_delay_s": 0.05,
        "auto_watermark_interval_s": 0.02,
    }
    window = Vertex(name="window", service=((0.0, 0.001),), emit_every_s=0.12, **BY_EVENT_TIME)
    return Scenario(
        name="killed windows",
        duration_s=60.0,
        config=NetworkConfig(**(config | settings)),
        vertices=(
            source("left", 300.0),
            source("right", 300.0),
            window,
            Vertex(name="out", parallelism=2, operator=transactional_sink(log.commit)),
        ),
        edges=(
            Edge(source="left", target="window"),
            Edge(source="right", target="window", input=inputs - 1),
            Edge(source="window", target="out"),
        ),
        faults=tuple(KillSubtask(when=AtTime(at), subtask=SubtaskName(name, 0)) for name, at in KILLS),
    )


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_windows_come_back_with_every_record(mode: str, inputs: int) -> None:
    log = TransactionLog()
    job = Job(killed_job(log, inputs=inputs, **MODES[mode]), Agenda())
    trio.run(job.run)
    assert job.leaked_segments == 0
    assert len(job.restarts) >= 2
    assert any(restart.checkpoint_id for restart in job.restarts)
    found, everything = Counter(log.records), Counter(records(b"left") + records(b"right"))
    if mode in EXACTLY_ONCE:
        assert found == everything
    else:
        assert found.keys() == everything.keys()


def test_restored_windows_fire_by_the_first_watermarks_and_not_before() -> None:
    windows = EventTimeWindows(1.0)
    windows.add(RecordBlock.from_payloads([b"early"]))
    windows.reads_from(1201)
    windows.add(RecordBlock.from_payloads([b"late"]))
    assert payloads(windows.take_until(998)) == []
    restored = EventTimeWindows(1.0)
    restored.restore(windows.encoded)
    assert payloads(restored.take_until(998)) == []
    assert payloads(restored.take_until(999)) == [[b"early"]]
    again = EventTimeWindows(1.0)
    again.restore(restored.encoded)
    again.reads_from(None)  # of a channel that has brought no watermark since
    again.add(RecordBlock.from_payloads([b"in flight"]))
    assert payloads(again.take_until(1998)) == []
    assert payloads(again.take_until(1999)) == [[b"late", b"in flight"]]


@given(st.lists(st.tuples(st.integers(0, 3000), st.floats(0.0, 0.999)), max_size=40), st.integers(1, 5))
def test_windows_of_keys_come_back_with_the_first_record_of_each(
    added: list[tuple[int, float]], keys: int
) -> None:
    windows = WindowsOfKeys(1.0, keys, Draws(iter([[key] for _, key in added])))
    first: dict[int, dict[int, bytes]] = {}
    for number, (event_time_ms, key) in enumerate(added):
        windows.reads_from(event_time_ms)
        windows.add(RecordBlock.from_payloads([b"%d" % number]))
        first.setdefault(event_time_ms // 1000, {}).setdefault(int(key * keys), b"%d" % number)
    restored = WindowsOfKeys(1.0, keys, Draws(iter(())))
    restored.restore(windows.encoded)
    expected = [sorted(first[window].values()) for window in sorted(first)]
    for each in (windows, restored):
        assert [sorted(fired) for fired in payloads(each.take_until(10_000))] == expected
        assert payloads([each.take()]) == [[]]


def test_windows_that_one_watermark_passes_fire_in_their_order() -> None:
    windows = EventTimeWindows(1.0)
    for event_time_ms, payload in (
        (2901, b"third"),
        (801, b"first"),
        (2000, b"third too"),
        (1999, b"second"),
    ):
        windows.reads_from(event_time_ms)
        windows.add(RecordBlock.from_payloads([payload]))
    windows.reads_from(3501)
    windows.add(RecordBlock.from_payloads([b"fourth"]))
    assert payloads(windows.take_until(2999)) == [[b"first"], [b"second"], [b"third", b"third too"]]
    assert payloads([windows.take()]) == [[b"fourth"]]
    assert payloads([windows.take()]) == [[]]


def payloads(blocks: Sequence[RecordBlock]) -> list[list[bytes]]:
    return [[bytes(payload) for payload in block.payloads()] for block in blocks]


def test_a_source_that_has_ended_is_not_behind() -> None:
    watermarks = SourceWatermarks(EventClock(lambda: 0.0), 0.2, 0.0)
    watermarks.emitted(0.005)
    assert watermarks.due() == 4
    assert watermarks.lag_ms == -4
    watermarks.ended()
    assert isnan(watermarks.lag_ms)


def test_what_is_held_back_does_not_keep_the_buffer_it_came_in() -> None:
    block = RecordBlock.from_payloads([bytes(100)] * 300)
    held_back = HeldBack()
    emission = Emission(0.5, None, iter([0.9] * 300), held_back)
    for place in range(300):
        emission.process(block[place : place + 1])
    kept = held_back._blocks
    assert len(kept) == 300
    assert not any(np.shares_memory(each.data, block.data) for each in kept)
