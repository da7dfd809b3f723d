"""Each rule fires on the figures that it is about, and is silent where they are otherwise."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.advise.diagnose import back_pressure_rules, checkpoint_rules, debloating_rules
from integration.advise.diagnose.back_pressure_rules import (
    alternating,
    at_its_limit,
    input_full,
    network_bound,
    not_bound,
    operator_bound,
    output_full_input_free,
    skewed_cost,
    skewed_records,
    slow_reader_in_turns,
    some_readers_full,
    unequal_writers,
)
from integration.advise.diagnose.checkpoint_rules import (
    back_to_back,
    data_in_flight,
    failed,
    late_source,
    slow_phase,
    stands_still,
    stores_data_in_flight,
    uneven,
)
from integration.advise.diagnose.debloating_rules import (
    PITFALLS,
    at_the_maximum,
    at_the_minimum,
    large_records,
    minimum_size,
    off_target,
    smaller_than_a_record,
)
from integration.advise.diagnose.findings import Finding, Rule
from integration.advise.diagnose.observation import Exchange, Observation
from integration.advise.diagnose.verdict import RULES, UNDECIDED, diagnose
from integration.advise.diagnose.words import fill
from netstack import (
    CheckpointResult,
    LinkConditions,
    NetworkConfig,
    Scenario,
    Series,
    Steady,
    VertexCheckpoint,
    VertexSteady,
)

KIB = 1024
FULL, EMPTY = [1.0, 1.0], [0.0, 0.0]


def source(
    out: Sequence[float] = FULL, pressed: Sequence[float] = (990.0, 990.0), **more: Any
) -> VertexSteady:
    values: dict[str, Any] = {
        "inPoolUsage": EMPTY,
        "outPoolUsage": list(out),
        "busy_ms_per_s": [10.0, 10.0],
        "backpressured_ms_per_s": list(pressed),
        "idle_ms_per_s": [990 - share for share in pressed],
        "outputQueueSize": [300.0 * KIB, 300.0 * KIB],
    }
    return VertexSteady(name="source", parallelism=2, **(values | more))


def reader(
    usage: Sequence[float] = FULL, busy: Sequence[float] = (1000.0, 1000.0), name: str = "reader", **more: Any
) -> VertexSteady:
    values: dict[str, Any] = {
        "inPoolUsage": list(usage),
        "outPoolUsage": EMPTY,
        "busy_ms_per_s": list(busy),
        "backpressured_ms_per_s": EMPTY,
        "idle_ms_per_s": [1000 - share for share in busy],
        "records_in_per_s": [200.0, 200.0],
        "bytes_in_per_s": [200.0 * KIB, 200.0 * KIB],
        "inputQueueSize": [300.0 * KIB, 300.0 * KIB],
    }
    return VertexSteady(name=name, parallelism=2, **(values | more))


def seen(
    *vertices: VertexSteady,
    config: NetworkConfig | None = None,
    history: Sequence[CheckpointResult] = (),
    **more: Any,
) -> Observation:
    """A view of vertices in a row, each of which reads the one before it."""
    steady = {name: more.pop(name) for name in list(more) if name in Steady.__struct_fields__}
    names = [vertex.name for vertex in vertices]
    return Observation(
        name="job",
        steady=Steady(
            **({"from_s": 0.0, "to_s": 60.0, "checkpoints": 0, "vertices": list(vertices)} | steady)
        ),
        exchanges=tuple(Exchange(*pair) for pair in pairwise(names)),
        config=config or NetworkConfig(),
        checkpoints=history,
        **more,
    )


def rules(rule: Rule, view: Observation) -> list[tuple[str, str]]:
    return [(finding.rule, finding.where) for finding in rule(view)]


def only(rule: Rule, view: Observation) -> Finding:
    (finding,) = rule(view)
    return finding


def test_a_busy_reader_behind_waiting_writers_is_the_bottleneck() -> None:
    finding = only(operator_bound, seen(source(), reader()))
    assert (finding.rule, finding.where, finding.severity) == ("operator-bound", "reader", "problem")
    assert finding.evidence == [
        "busy 100 %, back-pressured 0 %; upstream back-pressured: source 99 % (HIGH)",
        "reads 400 records/s, at 5.00 ms per record",
    ]


def test_nobody_is_the_bottleneck_where_nobody_waits() -> None:
    assert rules(operator_bound, seen(source(pressed=EMPTY), reader())) == []
    assert rules(operator_bound, seen(source(), reader(busy=(500.0, 500.0)))) == []


@pytest.mark.parametrize(
    ("busy_source", "busy_reader", "expected"),
    [
        (10.0, 500.0, ("input-bound", "reader")),
        (10.0, 950.0, ("near-its-limit", "reader")),
        (990.0, 500.0, ("source-bound", "source")),
    ],
)
def test_without_back_pressure_the_busiest_tells(
    busy_source: float, busy_reader: float, expected: tuple[str, str]
) -> None:
    writer = source(EMPTY, EMPTY, busy_ms_per_s=[busy_source] * 2)
    view = seen(writer, reader(EMPTY, busy=(busy_reader, busy_reader)))
    assert [*rules(at_its_limit, view), *rules(not_bound, view)] == [expected]
    assert [*rules(at_its_limit, seen(source(), reader())), *rules(not_bound, seen(source(), reader()))] == []


def test_full_writers_and_idle_empty_readers_mean_the_network() -> None:
    slow = reader(EMPTY, busy=(50.0, 50.0), bytes_in_per_s=[3.5 * KIB * KIB] * 2)
    link = LinkConditions(latency_s=0.05)
    finding = only(network_bound, seen(source(), slow, link=link))
    assert (finding.rule, finding.where) == ("network-bound", "source -> reader")
    assert finding.evidence[-1] == (
        "12 buffers of 32.0 KiB in a round trip of 100 ms allow a subtask at most 3.75 MiB/s; it reads "
        "93 % of that"
    )
    assert finding.says == (
        "The network limits the throughput of source -> reader: writers are full, and readers wait."
    )


def test_a_full_bandwidth_is_told() -> None:
    slow = reader(EMPTY, busy=(50.0, 50.0), bytes_in_per_s=[KIB * KIB / 2] * 2)
    link = LinkConditions(bandwidth_bytes_per_s=float(KIB * KIB))
    assert only(network_bound, seen(source(), slow, link=link)).evidence[-1] == (
        "100 % of the bandwidth of 1.00 MiB/s is used"
    )


def test_the_network_is_not_to_blame_for_full_or_busy_or_local_readers() -> None:
    idle = reader(EMPTY, busy=(50.0, 50.0))
    assert rules(network_bound, seen(source(), reader(FULL, busy=(50.0, 50.0)))) == []
    assert rules(network_bound, seen(source(), reader(EMPTY))) == []
    assert rules(network_bound, seen(source(EMPTY), idle)) == []
    local = dataclasses.replace(
        seen(source(), idle), exchanges=(Exchange("source", "reader", "rebalance", remote=False),)
    )
    assert rules(network_bound, local) == []


def test_one_full_reader_beside_a_starved_one_is_skew() -> None:
    view = seen(source(), reader([0.0, 1.0], busy=(300.0, 1000.0)))
    finding = only(some_readers_full, view)
    assert finding.says.startswith("reader[1] cannot keep up, so reader[0] waits, too")
    assert rules(some_readers_full, seen(source(), reader([0.0, 1.0]))) == []  # the empty one is never idle
    assert rules(some_readers_full, seen(source(), reader())) == []


def test_a_slow_reader_of_a_rebalance_exchange_is_spared_by_adaptive_partition_selection() -> None:
    uneven = reader(busy=(250.0, 1000.0))  # 1.25 and 5 ms a record
    finding = only(slow_reader_in_turns, seen(source(), uneven))
    assert finding.says.endswith(
        "The exchange sends the same number of records to each subtask, so all subtasks are as slow as "
        "reader[1]."
    )
    assert finding.evidence[0] == "together they read 400 records/s, and could read 1,000"
    assert "taskmanager.network.adaptive-partitioner.enabled: true, from Flink 2.3 on" in finding.next[0]


def with_ship(view: Observation, ship: str) -> Observation:
    exchanges = tuple(dataclasses.replace(exchange, ship=ship) for exchange in view.exchanges)
    return dataclasses.replace(view, exchanges=exchanges)


def test_adaptive_partition_selection_is_no_remedy_where_it_brings_nothing() -> None:
    uneven = seen(source(), reader(busy=(250.0, 1000.0)))
    adaptive = NetworkConfig(adaptive_partitioner_enabled=True)
    own_partitioner = reader(busy=(250.0, 1000.0), records_in_per_s=[300.0, 100.0])
    unknown = reader(busy=(250.0, 1000.0), records_in_per_s=[200.0, 0.0])
    for view in (
        with_ship(uneven, "hash"),
        with_ship(uneven, "forward"),
        with_ship(uneven, "rescale"),  # two writers for two readers: one each
        seen(source(), reader(busy=(250.0, 1000.0)), config=adaptive),
        seen(source(), reader(busy=(900.0, 1000.0))),
        seen(source(pressed=(0.0, 0.0)), reader(busy=(250.0, 1000.0))),
        seen(source(), reader(busy=(100.0, 400.0))),
        seen(source(), own_partitioner),
        seen(source(), unknown),
    ):
        assert rules(slow_reader_in_turns, view) == []


def test_where_no_key_decides_no_advice_is_about_keys() -> None:
    uneven = reader([0.0, 1.0], busy=(300.0, 1000.0), records_in_per_s=[100.0, 300.0])
    view = seen(source(), uneven)
    for rule in (skewed_records, some_readers_full):
        assert "keys" not in " ".join(only(rule, view).next)
        assert "keys" in " ".join(only(rule, with_ship(view, "hash")).next)
    adaptive = dataclasses.replace(view, config=NetworkConfig(adaptive_partitioner_enabled=True))
    assert rules(skewed_records, adaptive) == []  # they get as many as they can read


@pytest.mark.parametrize(
    "busy",
    [(740.0, 740.0), (740.0, 850.0), (820.0, 910.0), (960.0, 740.0)],
    ids=["both have time left", "the full one has", "nearly as much", "the empty one has less"],
)
def test_readers_that_do_the_same_work_are_not_skewed_though_one_pool_was_found_full(
    busy: tuple[float, float],
) -> None:
    view = seen(source(), reader([0.46, 0.83], busy=busy), history=[checkpoint(3000.0, 0.0)])
    assert rules(some_readers_full, view) == []
    found = only(slow_phase, view)
    assert not any("skew" in step for step in found.next)
    assert any("waits before reader," in line for line in found.evidence)  # not before one of its subtasks


def test_a_full_reader_of_unknown_idle_time_is_not_said_to_lag() -> None:
    view = seen(source(), reader([0.0, 1.0], busy=(300.0, 1000.0), idle_ms_per_s=[700.0, None]))
    assert rules(some_readers_full, view) == []


def test_where_back_pressure_comes_from_is_told_by_the_two_pools_of_a_vertex() -> None:
    passing = reader(name="middle", outPoolUsage=FULL, backpressured_ms_per_s=[900.0, 900.0])
    view = seen(source(), passing, reader())
    assert rules(input_full, view) == [("both-pools-full", "middle"), ("input-full-output-free", "reader")]
    assert rules(input_full, seen(source(EMPTY, EMPTY), reader())) == [("input-filling", "reader")]
    assert rules(input_full, seen(source(), reader(EMPTY))) == []


def test_an_output_may_be_full_while_the_input_is_free() -> None:
    passing = reader(EMPTY, name="middle", outPoolUsage=FULL, backpressured_ms_per_s=[900.0, 900.0])
    view = seen(source(EMPTY, EMPTY), passing, reader())
    assert rules(output_full_input_free, view) == [("output-full-input-free", "middle")]
    assert rules(output_full_input_free, seen(source(), reader())) == []


@pytest.mark.parametrize(
    ("floating", "exclusive", "end"),
    [
        (1.0, 1.0, "data waits on all or most channels"),
        (1.0, 0.25, "data waits on some of the channels only"),
        (0.25, 0.25, "25 % of the exclusive buffers are used"),
    ],
)
def test_exclusive_buffers_tell_on_how_many_channels_data_waits(
    floating: float, exclusive: float, end: str
) -> None:
    usage = {
        "inputFloatingBuffersUsage": [floating, floating],
        "inputExclusiveBuffersUsage": [exclusive, exclusive],
    }
    view = seen(source(), reader(**usage))
    assert only(input_full, view).evidence[-1].endswith(end)


def test_what_was_not_measured_of_the_two_kinds_of_buffers_is_bounded() -> None:
    # 2 channels with 2 exclusive buffers each, and 8 floating ones: 9 of 12 are used
    evidence = only(input_full, seen(source(), reader([0.75, 0.5]))).evidence[-1]
    assert evidence == "at least 62 % of the floating and 25 % of the exclusive buffers are used"


def test_unequal_subtasks_are_named() -> None:
    uneven_load = reader(records_in_per_s=[100.0, 300.0])
    assert only(skewed_records, seen(source(), uneven_load)).says == (
        "reader[1] gets 1.5 times as many records as the mean."
    )
    assert rules(skewed_cost, seen(source(), reader())) == []
    dear = reader(busy=(250.0, 1000.0))
    assert only(skewed_cost, seen(source(), dear)).says == (
        "A record takes 1.6 times as long in reader[1] as on average over all subtasks."
    )
    assert rules(unequal_writers, seen(source([1.0, 0.2]), reader())) == [("unequal-writers", "reader")]
    assert rules(unequal_writers, seen(source(), reader())) == []


def diamond(*, forward: bool = True, **config: Any) -> Observation:
    """Source -> early -> slow -> reader, and early -> reader; `forward`: so is slow -> reader."""
    early, slow = (msgspec.structs.replace(source([1.0, 0.2]), name=name) for name in ("early", "slow"))
    view = seen(source(), early, slow, reader(), config=NetworkConfig(**config))
    ways = [
        Exchange("source", "early", "forward"),
        Exchange("early", "slow", "hash"),
        Exchange("slow", "reader", "forward" if forward else "rebalance"),
        Exchange("early", "reader"),
    ]
    return dataclasses.replace(view, exchanges=tuple(ways))


def test_a_shape_that_unaligned_checkpoints_bring_to_a_stand_is_told_of() -> None:
    assert rules(stands_still, diamond(forward=False, unaligned_enabled=True)) == []
    can, could = only(stands_still, diamond(unaligned_enabled=True)), only(stands_still, diamond())
    assert (can.severity, could.severity, can.where) == ("notice", "notice", "reader")
    assert can.says == (
        "Unaligned checkpoints can deadlock the job: reader reads nothing from slow until the "
        "barriers of early arrive. But these barriers are queued behind data for slow, and slow cannot "
        "take the data until reader reads from it again."
    )
    assert could.says.startswith("Unaligned checkpoints could deadlock the job")
    expired = CheckpointResult(id=1, t=1.0, status="FAILED", failure="CHECKPOINT_EXPIRED")
    stood = dataclasses.replace(diamond(unaligned_enabled=True), checkpoints=[expired])
    assert only(stands_still, stood).severity == "problem"


@pytest.mark.parametrize(
    ("timeout_s", "status", "preset", "told"),
    [
        (0.1, "FAILED", "flink-2.2", 1),
        (0.1, "COMPLETED", "flink-2.2", 0),
        (0.0, "FAILED", "flink-2.2", 0),
        (0.1, "FAILED", "flink-2.3", 0),
    ],
)
def test_a_shape_that_comes_to_a_stand_after_a_failed_checkpoint(
    timeout_s: float, status: str, preset: str, told: int
) -> None:
    view = diamond(unaligned_enabled=True, aligned_checkpoint_timeout_s=timeout_s)
    row = dataclasses.replace(
        view,
        exchanges=(*view.exchanges[:2], Exchange("slow", "reader", "rescale")),
        steady=msgspec.structs.replace(
            view.steady,
            vertices=[
                msgspec.structs.replace(each, parallelism=4) if each.name == "slow" else each
                for each in view.vertices
            ],
        ),
        checkpoints=[CheckpointResult(id=1, t=1.0, status=status)],
        scenario=Scenario(name="job", duration_s=60.0, vertices=(), edges=(), preset=preset),
    )
    found = list(stands_still(row))
    assert len(found) == told
    assert all("deadlock the job after one has expired" in each.says for each in found)


def test_nobody_is_sent_to_unaligned_checkpoints_that_bring_the_job_to_a_stand() -> None:
    advice = {forward: next(unequal_writers(diamond(forward=forward))).next[0] for forward in (True, False)}
    assert advice[True] == "Expect long alignments."
    assert advice[False].endswith("Unaligned checkpoints or an aligned timeout avoid them.")


def sampled(shares: Sequence[float]) -> list[Series]:
    """Samples of a source each second, back-pressured for such shares of the seconds between them."""
    counter = [1000 * sum(shares[:second]) for second in range(len(shares) + 1)]
    return [Series(vertex="source", t=[float(t) for t in range(len(counter))], backpressured_ms=[counter])]


def test_an_average_that_hides_turns_is_seen_through() -> None:
    view = seen(source(pressed=(500.0, 500.0)), reader())
    by_turns = dataclasses.replace(view, series=sampled([0.0, 1.0] * 10))
    steady = dataclasses.replace(view, series=sampled([0.5] * 20))
    assert rules(alternating, by_turns) == [("alternating", "source[0]")]
    assert rules(alternating, steady) == []


def checkpoint(delay: float, alignment: float, sync: float = 1.0, async_: float = 1.0) -> CheckpointResult:
    total = delay + alignment + sync + async_ + 4.0
    vertex = VertexCheckpoint(
        name="reader",
        end_to_end_ms=[total],
        start_delay_ms=[delay],
        alignment_ms=[alignment],
        sync_ms=[sync],
        async_ms=[async_],
    )
    return CheckpointResult(id=1, t=10.0, duration_ms=total, vertices=[vertex])


@pytest.mark.parametrize(
    ("phases", "rule"),
    [
        ((3000.0, 100.0, 1.0, 1.0), "long-start-delay"),
        ((100.0, 3000.0, 1.0, 1.0), "long-alignment"),
        ((100.0, 100.0, 900.0, 1.0), "long-sync"),
        ((100.0, 100.0, 1.0, 900.0), "long-async"),
        ((10.0, 10.0, 1.0, 1.0), "checkpoints-short"),
    ],
)
def test_the_longest_phase_names_the_rule(phases: tuple[float, float, float, float], rule: str) -> None:
    view = seen(source(), reader(), history=[checkpoint(*phases)])
    assert only(slow_phase, view).rule == rule


def bursty(pressed: float = 300.0, busy: float = 740.0, **more: Any) -> Observation:
    """A view of a window that fires now and then, which two of ten checkpoints meet."""
    window = reader(
        EMPTY,
        name="window",
        busy=(10.0, 10.0),
        backpressured_ms_per_s=[0.0, pressed],
        idle_ms_per_s=[990.0] * 2,
    )
    sink = reader([0.8, 0.5], busy=(busy, busy), name="sink")
    history = [checkpoint(delay, 1.0) for delay in [6000.0, 6200.0, *[60.0] * 8]]
    times = {"end_to_end_ms": 67.0, "end_to_end_ms_max": 6207.0, "checkpoints": 10}
    calm = source(EMPTY, EMPTY)
    return seen(
        calm, window, sink, history=history, config=NetworkConfig(checkpoint_interval_s=2.0), **times, **more
    )


def test_a_burst_that_few_checkpoints_meet_is_named_before_what_these_wait_for() -> None:
    first, second = [each for each in diagnose(bursty()).findings if each.where.startswith("checkpoints")]
    assert (first.rule, first.severity, second.rule) == ("uneven-checkpoints", "problem", "long-start-delay")
    assert first.says.endswith(": they fall into bursts, in which window emits more than sink reads.")
    assert first.evidence == [
        "2 of 10 checkpoints took 6.01 s to 6.21 s; half of all checkpoints took at most 67 ms, and 95 % at "
        "most 6.12 s",
        "window is back-pressured 0-30 % of its time, and sink, for which it waits, is busy 74 %",
    ]
    assert second.evidence == [
        "6.11 s from trigger to completion, on average over the 2 checkpoints that took long: start "
        "delay 6.10 s, alignment 1 ms, sync 1 ms, async 1 ms, acknowledgement 4 ms"
    ]
    assert second.next == ["Smooth the bursts first: barriers wait until a burst is read."]


@pytest.mark.parametrize(
    "view", [bursty(pressed=50.0), bursty(pressed=700.0), bursty(busy=950.0)], ids=["calm", "always", "busy"]
)
def test_who_waits_all_the_time_or_for_a_busy_reader_is_not_said_to_meet_bursts(view: Observation) -> None:
    assert only(uneven, view).says == "Some checkpoints take far longer than most."
    assert "Turn on buffer debloating" in str(only(slow_phase, view).next) or view.no_back_pressure


def test_no_phase_is_called_the_longest_where_one_that_was_not_measured_may_be() -> None:
    (whole,) = checkpoint(700.0, 1200.0, 10.0, 10.0).vertices
    bare = msgspec.structs.replace(whole, alignment_ms=[None])
    history = [CheckpointResult(id=1, t=10.0, duration_ms=1924.0, vertices=[bare])]
    assert rules(slow_phase, seen(source(), reader(), history=history)) == []


def test_the_slow_end_of_the_durations_is_given() -> None:
    history = [checkpoint(delay, 0.0) for delay in [1000.0] * 8 + [1100.0, 1500.0]]
    says = only(slow_phase, seen(source(), reader(), history=history)).says
    assert says == (
        "Checkpoints take 1.07 s (95 %: 1.33 s, slowest 1.51 s), mostly start delay: barriers wait behind "
        "queued data."
    )


def test_durations_that_differ_by_a_factor_of_two_are_named() -> None:
    history = [checkpoint(delay, 0.0) for delay in [500.0, 2000.0] * 5]
    says = only(slow_phase, seen(source(), reader(), history=history)).says
    assert says.endswith(
        " They took between 506 ms and 2.01 s: the load or the cost of a record changes, and means hide this."
    )
    once = [checkpoint(delay, 0.0) for delay in [500.0] * 9 + [2000.0]]
    assert "They took" not in only(slow_phase, seen(source(), reader(), history=once)).says


def test_data_in_flight_explains_a_start_delay() -> None:
    view = seen(source(), reader(), history=[checkpoint(3000.0, 0.0)])
    assert only(slow_phase, view).evidence[1] == (
        "1.17 MiB of data waits before reader, 50 % of it at the senders: at 400 KiB/s, that takes 3.00 s"
    )


def test_data_in_flight_is_that_of_the_full_subtasks_where_others_starve() -> None:
    skewed = reader([0.0, 1.0], busy=(300.0, 1000.0), inputQueueSize=[0.0, 400.0 * KIB])
    view = seen(source(), skewed, history=[checkpoint(5000.0, 0.0)])
    finding = only(slow_phase, view)
    assert finding.evidence[1] == (
        "1,000 KiB of data waits before reader[1], 60 % of it at the senders: at 200 KiB/s, that takes 5.00 s"
    )
    assert finding.next[0].startswith("Fix the skew first")


def test_data_that_waits_now_here_and_now_there_has_no_share_at_the_senders() -> None:
    t = [10.0, 20.0, 30.0]
    series = [
        Series(vertex="source", t=t, outputQueueSize=[[800 * KIB, 0, 0], [0, 0, 0]]),
        Series(vertex="reader", t=t, inputQueueSize=[[0, 800 * KIB, 0], [0, 0, 0]]),
    ]
    view = seen(source(), reader(), history=[checkpoint(3000.0, 0.0)], series=series)
    assert only(slow_phase, view).evidence[1] == (
        "800 KiB of data waits before reader: at 400 KiB/s, that takes 2.00 s"
    )


@pytest.mark.parametrize(
    ("config", "step"),
    [
        (NetworkConfig(), "Turn on buffer debloating."),
        (NetworkConfig(debloat_enabled=True), "Set a debloat target below 1.00 s."),
        (NetworkConfig(unaligned_enabled=True), "Look for a task that handles its barrier late"),
    ],
)
def test_what_to_do_depends_on_what_is_on(config: NetworkConfig, step: str) -> None:
    view = seen(source(), reader(), config=config, history=[checkpoint(3000.0, 0.0)])
    assert only(slow_phase, view).next[0].startswith(step)


def test_what_goes_wrong_with_checkpoints_is_told() -> None:
    every_2_s = NetworkConfig(checkpoint_interval_s=2.0)
    long, short = [checkpoint(2400.0, 100.0)], [checkpoint(1400.0, 100.0)]
    assert rules(back_to_back, seen(source(), reader(), config=every_2_s, history=long)) != []
    assert rules(back_to_back, seen(source(), reader(), config=every_2_s, history=short)) == []
    nearly = seen(source(), reader(), config=every_2_s, history=[checkpoint(1900.0, 1.0)])
    assert only(back_to_back, nearly).says.startswith("A checkpoint takes nearly the whole interval")
    expired = [CheckpointResult(id=at, t=1.0, status="FAILED", failure="CHECKPOINT_EXPIRED") for at in (1, 2)]
    assert only(failed, seen(source(), reader(), history=expired)).evidence == ["2 times: CHECKPOINT_EXPIRED"]
    several = NetworkConfig(max_concurrent_checkpoints=5)
    at_once = only(failed, seen(source(), reader(), config=several, history=expired[:1]))
    assert at_once.evidence == [
        "1 time: CHECKPOINT_EXPIRED",
        "up to 5 checkpoints may be in progress at once",
    ]
    assert (
        "Set execution.checkpointing.max-concurrent-checkpoints to 1: a task takes one checkpoint after "
        "another, so each waits for those before it, and all of them may expire."
    ) in at_once.next[1]
    declined = CheckpointResult(id=1, t=1.0, status="FAILED", failure="CHECKPOINT_DECLINED")
    assert len(only(failed, seen(source(), reader(), config=several, history=[declined])).next) == 1
    assert rules(failed, seen(source(), reader(), history=[checkpoint(1.0, 1.0)])) == []
    assert rules(uneven, seen(source(), reader(), end_to_end_ms=100.0, end_to_end_ms_max=900.0)) != []
    assert rules(uneven, seen(source(), reader(), end_to_end_ms=300.0, end_to_end_ms_max=900.0)) == []
    assert rules(stores_data_in_flight, seen(source(), reader(), persisted_bytes=2e6)) != []
    assert rules(stores_data_in_flight, seen(source(), reader(), persisted_bytes=0.0)) == []
    late = source(start_delay_ms_max_subtask=900.0)
    assert rules(late_source, seen(late, reader(start_delay_ms_max_subtask=900.0))) == [
        ("late-source", "source")
    ]


DEBLOATED = NetworkConfig(debloat_enabled=True, debloat_target_s=1.0)


@pytest.mark.parametrize(
    ("size", "estimated_ms", "rule", "name"),
    [
        (256.0, 2000.0, at_the_minimum, "debloating-at-its-floor"),
        (5000.0, 2000.0, off_target, "debloating-misses-its-target"),
        (32768.0, 300.0, at_the_maximum, "debloating-idle"),
        (800.0, 1000.0, smaller_than_a_record, "records-larger-than-buffers"),
    ],
)
def test_debloating_is_judged_by_its_sizes_and_times(
    size: float, estimated_ms: float, rule: Rule, name: str
) -> None:
    def view(size: float, estimated_ms: float) -> Observation:
        debloated = reader(
            debloatedBufferSize=[size, 32768.0], estimatedTimeToConsumeBuffersMs=[estimated_ms, 10.0]
        )
        return seen(source(), debloated, config=DEBLOATED)

    assert rules(rule, view(size, estimated_ms)) == [(name, "reader")]
    assert rules(rule, view(9000.0, 1000.0)) == []
    off = dataclasses.replace(view(size, estimated_ms), config=NetworkConfig())
    assert rules(rule, off) == []


@pytest.mark.parametrize(
    ("size", "estimated_ms", "names"),
    [
        (266.0, 1600.0, ["debloating-at-its-floor"]),  # the median is a few bytes above the minimum of 256
        (280.0, 1600.0, ["debloating-misses-its-target"]),
        (256.0, 1090.0, []),
        (256.0, 1100.0, ["debloating-at-its-floor"]),
    ],
)
def test_buffers_near_their_minimum_are_at_it_and_a_target_nearly_kept_is_kept(
    size: float, estimated_ms: float, names: list[str]
) -> None:
    debloated = reader(
        debloatedBufferSize=[size, 32768.0], estimatedTimeToConsumeBuffersMs=[estimated_ms, 10.0]
    )
    view = seen(source(), debloated, config=DEBLOATED)
    assert [name for rule in (at_the_minimum, off_target) for name, _ in rules(rule, view)] == names


@settings(max_examples=200)
@given(st.data())
def test_diagnosis_and_pitfalls_give_one_answer_to_one_question(data: st.DataObject) -> None:
    figures = ("debloatedBufferSize", "estimatedTimeToConsumeBuffersMs", "bytes_in_per_s", "records_in_per_s")
    around = st.sampled_from([None, 255.0, 256.0, 268.0, 269.0, 1000.0, 1099.0, 1100.0, 5000.0])
    lists = {field: data.draw(st.lists(around, min_size=2, max_size=2)) for field in figures}
    view = seen(source(**lists), reader(**lists), config=DEBLOATED)
    for diagnosed, pitfall in (
        (at_the_minimum, minimum_size),
        (smaller_than_a_record, large_records),
    ):
        assert [where for _, where in rules(diagnosed, view)] == [where for _, where in rules(pitfall, view)]


def test_every_rule_has_its_row() -> None:
    listed = [*RULES, *PITFALLS]
    written = {
        rule
        for module in (back_pressure_rules, checkpoint_rules, debloating_rules)
        for rule in vars(module).values()
        if isinstance(rule, Rule)
    }
    assert set(listed) == written
    assert len(listed) == len(written)


def test_a_template_names_values_with_forms_and_choices() -> None:
    values = {"where": "map", "delay_ms": 47.2, "late": False, "vertex": reader()}
    template = "{where} waits {delay_ms:ms}{late:, too long|}; {vertex.busy_ms_per_s:percent span}"
    assert fill(template, values) == "map waits 47 ms; 100 %"


def test_a_diagnosis_puts_problems_first_and_has_a_verdict() -> None:
    found = diagnose(seen(source(), reader(), history=[checkpoint(10.0, 1.0)], end_to_end_ms=17.0))
    assert found.verdict == "operator bound, at reader"
    assert [finding.severity for finding in found.findings] == ["problem", "notice", "fine"]


def test_a_view_without_figures_leads_to_no_finding() -> None:
    blank = [VertexSteady(name=name, parallelism=2) for name in ("source", "reader")]
    found = diagnose(seen(*blank))
    assert (found.verdict, found.findings) == (UNDECIDED, [])
    assert msgspec.json.decode(msgspec.json.encode(found))["findings"] == []


def test_nobody_is_called_calm_of_whom_nothing_is_known() -> None:
    slow = [checkpoint(3000.0, 0.0)]
    unknown = seen(source(backpressured_ms_per_s=[None, None]), reader(), history=slow)
    calm = seen(source(pressed=(0.0, 0.0)), reader(), history=slow)
    said = {"calm": only(slow_phase, calm).next, "unknown": only(slow_phase, unknown).next}
    assert "no task is back-pressured" in " ".join(said["calm"])
    assert "no task is back-pressured" not in " ".join(said["unknown"])
    assert (
        said["unknown"][0]
        == "Check first whether source is back-pressured, which is not reported. Only if so:"
    )
    assert (
        "back-pressured time of source; so it is unknown which vertex has to wait"
        in diagnose(unknown).not_known
    )
    assert diagnose(calm).not_known == diagnose(seen(source(), reader())).not_known


def test_a_vertex_at_its_limit_is_named_where_nobody_knows_who_waits_for_it() -> None:
    # as a source of the old kind tells of its time
    old = source(busy_ms_per_s=[None, None], backpressured_ms_per_s=EMPTY, idle_ms_per_s=EMPTY)
    slow = [checkpoint(3000.0, 0.0)]
    for levels in ({}, {"source": False}):
        found = diagnose(seen(old, reader(), history=slow, levels=levels))
        assert found.verdict == "at its limit: reader; whether other tasks wait for it is not reported"
        first = found.findings[0]
        assert (first.rule, first.where, first.severity) == ("at-its-limit", "reader", "problem")
        assert first.says == "reader is busy all the time; whether source waits for it is not reported."
        assert first.evidence == ["busy 100 %", "reads 400 records/s, at 5.00 ms per record"]
        assert "no task is back-pressured" not in str(found.findings)
    assert diagnose(seen(old, reader(), levels={"source": True})).verdict == "operator bound, at reader"
    some = only(at_its_limit, seen(old, reader(busy=(500.0, 1000.0))))
    assert some.says.startswith("Some subtasks of reader are busy all the time")
    assert rules(at_its_limit, seen(old, reader(busy=(500.0, 500.0)))) == []


def test_an_account_without_busy_time_that_is_full_is_believed() -> None:
    paced = source(busy_ms_per_s=[None, None], backpressured_ms_per_s=EMPTY, idle_ms_per_s=[990.0, 950.0])
    assert rules(at_its_limit, seen(paced, reader())) == [("near-its-limit", "reader")]
    half = msgspec.structs.replace(paced, idle_ms_per_s=[990.0, 500.0])
    assert rules(at_its_limit, seen(half, reader())) == [("at-its-limit", "reader")]


def test_flinks_word_stands_in_for_a_time_that_is_not_told() -> None:
    silent = source(backpressured_ms_per_s=[None, None])
    assert rules(operator_bound, seen(silent, reader())) == []
    high = seen(silent, reader(), levels={"source": True})
    assert rules(operator_bound, high) == [("operator-bound", "reader")]
    assert rules(not_bound, seen(silent, reader(busy=(500.0, 500.0)), levels={"source": False})) == [
        ("input-bound", "reader")
    ]


def test_what_is_not_known_is_told_with_what_it_leaves_open() -> None:
    partly = reader(inPoolUsage=[1.0, None], busy_ms_per_s=[None, None])
    assert diagnose(seen(source(), partly)).not_known == [
        "busy time of reader; so it is unknown which vertex makes others wait",
        "inPoolUsage of reader[1]; so it is unknown on which side data waits",
    ]


MAYBE = st.sampled_from([None, 0.0, 0.2, 1.0, 300.0, 950.0, 1000.0, 40_000.0])
LISTS = [field.name for field in msgspec.structs.fields(VertexSteady) if field.type == list[float | None]]


@st.composite
def partly_known(draw: st.DrawFn, name: str) -> VertexSteady:
    """A vertex of which any figure may be missing, of some subtasks or of all."""
    lists = {field: draw(st.just([]) | st.lists(MAYBE, min_size=2, max_size=2)) for field in LISTS}
    single = {field: draw(MAYBE) for field in ("start_delay_ms_max_subtask", "alignment_ms_max_subtask")}
    return VertexSteady(name=name, parallelism=2, **lists, **single)


@settings(max_examples=200)
@given(partly_known("source"), partly_known("middle"), partly_known("reader"), MAYBE, st.booleans())
def test_missing_figures_never_stop_a_diagnosis(
    first: VertexSteady, second: VertexSteady, third: VertexSteady, end_to_end: float | None, debloat: bool
) -> None:
    config = NetworkConfig(debloat_enabled=debloat, checkpoint_interval_s=1.0)
    view = seen(first, second, third, config=config, end_to_end_ms=end_to_end)
    found = diagnose(view)
    assert all(waits.bytes and rate for _, _, waits, rate in data_in_flight(view))
    for finding in found.findings:
        assert finding.says
        assert finding.evidence
        assert "None" not in " ".join([finding.says, *finding.evidence])


LEVELS = st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0, 50.0, 300.0, 950.0, 1000.0, 5000.0, 40_000.0])


@st.composite
def wholly_known(draw: st.DrawFn, name: str) -> VertexSteady:
    """A vertex of which everything is known, whether it fits together or not."""
    return VertexSteady(
        name=name, parallelism=2, **{field: draw(st.lists(LEVELS, min_size=2, max_size=2)) for field in LISTS}
    )


@st.composite
def with_less(draw: st.DrawFn, vertex: VertexSteady) -> VertexSteady:
    """The same vertex, of which some figures are gone."""

    def less(values: list[float | None]) -> list[float | None]:
        return [value if draw(st.booleans()) else None for value in values]

    gone = draw(st.sets(st.sampled_from(LISTS)))
    return msgspec.structs.replace(vertex, **{field: less(getattr(vertex, field)) for field in gone})


@st.composite
def checkpoint_with_less(draw: st.DrawFn, whole: CheckpointResult) -> CheckpointResult:
    fields = ("start_delay_ms", "alignment_ms", "sync_ms", "async_ms", "end_to_end_ms")
    gone = draw(st.sets(st.sampled_from(fields)))
    vertices = [msgspec.structs.replace(part, **{key: [None] for key in gone}) for part in whole.vertices]
    return msgspec.structs.replace(whole, vertices=vertices)


TIMES = st.sampled_from([0.0, 10.0, 300.0, 2000.0])
NAMED = {
    "busy_ms_per_s": ("busy ",),
    "backpressured_ms_per_s": ("back-pressured ",),
    "idle_ms_per_s": ("idle ",),
    "records_in_per_s": ("reads ", "records/s by subtask", "busy ms per record"),
    "bytes_in_per_s": ("wait before", "a record has", "it reads", "of a bandwidth"),
    "inPoolUsage": ("inPoolUsage", "at least"),
    "outPoolUsage": ("outPoolUsage",),
    "inputQueueSize": ("wait before",),
    "outputQueueSize": ("wait before",),
    "inputExclusiveBuffersUsage": ("of the floating buffers",),
    "debloatedBufferSize": ("debloatedBufferSize",),
    "estimatedTimeToConsumeBuffersMs": ("estimatedTimeToConsumeBuffersMs",),
}
"""Words by which a line of evidence names a figure; the number behind them is that figure's."""


def states(line: str, words: tuple[str, ...]) -> bool:
    """Return whether a line gives a number after one of these words."""
    return any(re.search(rf"{re.escape(word)}[^;,]*?\d", line) for word in words)


@settings(max_examples=120)
@given(st.data(), st.booleans())
def test_knowing_less_never_says_more(data: st.DataObject, debloat: bool) -> None:
    config = NetworkConfig(debloat_enabled=debloat, checkpoint_interval_s=1.0)
    names = ("source", "middle", "reader")
    whole = [data.draw(wholly_known(name)) for name in names]
    history = [checkpoint(data.draw(TIMES), data.draw(TIMES), data.draw(TIMES), data.draw(TIMES))]
    known = diagnose(seen(*whole, config=config, history=history))
    fewer = [data.draw(with_less(vertex)) for vertex in whole]
    unsure = [data.draw(checkpoint_with_less(found)) for found in history]
    found = diagnose(seen(*fewer, config=config, history=unsure))

    fired = {(finding.rule, finding.where) for finding in known.findings}
    fired |= {
        ("at-its-limit", where) for rule, where in fired if rule in ("operator-bound", "near-its-limit")
    }
    assert {(finding.rule, finding.where) for finding in found.findings} <= fired
    assert (len(found.not_known) > 0) == (fewer_is_less(whole, fewer, debloat) or history != unsure)


def fewer_is_less(whole: list[VertexSteady], fewer: list[VertexSteady], debloat: bool) -> bool:
    """Whether a figure is missing that a rule needs: not the input of a source, or the output of a sink."""
    of_readers = {"records_in_per_s", "bytes_in_per_s", "inPoolUsage", "inputQueueSize", "idle_ms_per_s"}
    of_debloating = {"debloatedBufferSize", "estimatedTimeToConsumeBuffersMs"}
    of_writers = {"outPoolUsage", "outputQueueSize"}
    needed = {
        "source": of_writers,
        "middle": of_writers | of_readers | (of_debloating if debloat else set()),
        "reader": of_readers | (of_debloating if debloat else set()),
    }
    return any(
        getattr(before, field) != getattr(after, field)
        for before, after in zip(whole, fewer, strict=True)
        for field in needed[before.name] | {"busy_ms_per_s", "backpressured_ms_per_s"}
    )


@settings(max_examples=120)
@given(st.data(), st.sampled_from(sorted(NAMED)), st.booleans())
def test_nothing_is_said_of_a_figure_that_is_gone(data: st.DataObject, gone: str, debloat: bool) -> None:
    config = NetworkConfig(debloat_enabled=debloat, checkpoint_interval_s=1.0)
    whole = [data.draw(wholly_known(name)) for name in ("source", "middle", "reader")]
    blank = [msgspec.structs.replace(vertex, **{gone: [None, None]}) for vertex in whole]
    history = [checkpoint(data.draw(TIMES), data.draw(TIMES))]
    for finding in diagnose(seen(*blank, config=config, history=history)).findings:
        said = [line for line in finding.evidence if states(line, NAMED[gone])]
        assert said == [], (finding.rule, said)
