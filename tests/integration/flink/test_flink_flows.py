"""Figures derived from the counts of tasks: shares, selectivity, windows, bursts."""

import dataclasses
import random
from collections.abc import Sequence

import pytest

from integration.flink.fit.edges import edges_of
from integration.flink.fit.exchange_flows import Firings, JobFlows, window_s
from integration.flink.fit.overrides import EVERYWHERE, Overrides
from integration.flink.fit.subtask_loads import queue_growth
from integration.flink.fit.vertices import COSTS, Evidence, fit_vertices
from integration.flink.fit.words import note_of
from integration.flink.read.job import FlinkEdge, FlinkJob, FlinkVertex
from integration.flink.read.samples import SubtaskSamples, stands_still, without_repeats
from netstack import CheckpointResult, GeneratorSpec, NetworkConfig, Vertex, VertexCheckpoint

RECORDS = Overrides(record_bytes={EVERYWHERE: 100})
"""Sizes are not counted here."""


def samples(*looks: dict[str, float], busy: float = 0.0, held: float = 0.0) -> SubtaskSamples:
    """Answers a second apart, by the task's own account; `busy` and `held` are shares of its time."""
    shares = {"busy_ms": busy, "backpressured_ms": held, "idle_ms": 1 - busy - held}
    timed = [{part: 1000.0 * (50 + n) * share for part, share in shares.items()} for n in range(len(looks))]
    return SubtaskSamples(tuple({**time, **look} for time, look in zip(timed, looks, strict=True)))


def timed_by_others(*looks: dict[str, float]) -> SubtaskSamples:
    """Answers a second apart of a task that keeps no account of its time."""
    return SubtaskSamples(looks, tuple(float(n) for n in range(len(looks))))


def vertices_of(
    shape: FlinkJob,
    seen: dict[str, list[SubtaskSamples]],
    given: Overrides = RECORDS,
    checkpoints: Sequence[CheckpointResult] = (),
    notes: list[str] | None = None,
) -> dict[str, Vertex]:
    """The imported vertices of a job, by name; `notes` gets the import's notes on them."""
    said = [] if notes is None else notes
    flows = JobFlows(shape, seen)
    evidence = Evidence(
        job=shape,
        config=NetworkConfig(),
        samples=without_repeats(seen),
        flows=flows,
        given=given,
        checkpoints=checkpoints,
    )
    vertices, remarks = fit_vertices(evidence)
    said += map(note_of, remarks)
    return {vertex.name: vertex for vertex in vertices}


def generator(vertices: dict[str, Vertex]) -> GeneratorSpec:
    source = vertices["source"].source
    assert isinstance(source, GeneratorSpec)
    return source


def job(*edges: FlinkEdge, parallelism: int = 1) -> FlinkJob:
    names = dict.fromkeys(end for edge in edges for end in (edge.source, edge.target))
    return FlinkJob(
        id="job",
        name="job",
        version="2.2.1",
        batch=False,
        running_since_ms=0.0,
        age_s=60.0,
        vertices=tuple(FlinkVertex(id=name, name=name, parallelism=parallelism) for name in names),
        edges=edges,
        configuration={},
        checkpointing=None,
    )


def edge_to(source: str, target: str, strategy: str) -> FlinkEdge:
    return FlinkEdge(source=source, target=target, strategy=strategy)


def grown(field: str, per_s: float, since: float | None = None, looks: int = 12) -> list[dict[str, float]]:
    start = 50 * per_s if since is None else since
    return [{field: start + per_s * n} for n in range(looks)]


def both(read: list[dict[str, float]], emitted: list[dict[str, float]]) -> list[dict[str, float]]:
    return [of_input | of_output for of_input, of_output in zip(read, emitted, strict=True)]


@pytest.mark.parametrize(
    ("description", "seconds"),
    [
        ("Window(TumblingEventTimeWindows(10000), EventTimeTrigger, Summed)", 10.0),
        ("Window(SlidingProcessingTimeWindows(60000, 5000), ...)", 5.0),
        ("WindowAggregate(window=[TUMBLE(time_col=[ts], size=[10 s])], select=[...])", 10.0),
        ("window=[HOP(time_col=[ts], size=[1 min], slide=[30 s])]", 30.0),
        ("window=[CUMULATE(time_col=[ts], max_size=[1 h], step=[10 min])]", 600.0),
        ("Window(EventTimeSessionWindows(10000), EventTimeTrigger, Summed)", None),
        ("count", None),
        ("Join(where=[size(a)=[3 apples]])", None),
    ],
)
def test_what_a_description_says_of_windows(description, seconds):
    assert window_s(description) == seconds


def test_of_two_inputs_one_may_account_for_all_that_is_emitted():
    orders, payments = edge_to("orders", "join", "HASH"), edge_to("payments", "join", "HASH")
    out = edge_to("join", "sink", "REBALANCE")
    seen = {
        "orders": [samples(*grown("records_out", 400))],
        "payments": [samples(*grown("records_out", 100))],
        "join": [samples(*both(grown("records_in", 500), grown("records_out", 396)))],
        "sink": [samples(*grown("records_in", 396))],
    }
    shape = job(orders, payments, out)
    join = next(vertex for vertex in shape.vertices if vertex.id == "join")
    assert JobFlows(shape, seen).selectivities(join) == [1.0, 0.0]
    seen["join"] = [samples(*both(grown("records_in", 500), grown("records_out", 250)))]
    assert JobFlows(shape, seen).selectivities(join) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("values", "median"),
    [
        ([0, 0, 0, 5, 0], 0),
        ([0], 0),
        ([0, 0, 7, 9], 3.5),
        ([-1, -1, 0, 0, 4], 0),
        ([-1, 3], 3),
        ([-1], None),
        ([], None),
    ],
)
def test_a_gauge_that_mostly_shows_nothing_counts_its_zeros(values, median):
    reported = samples(*[{"debloated_size": value} for value in values])
    assert reported.gauge("debloated_size") == median
    assert samples(*[{}, {"debloated_size": 2.0}, {}]).gauge("debloated_size") == 2.0


@pytest.mark.parametrize("now", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("since", [0.25, 1.0, 4.0])
def test_what_is_emitted_for_each_record_is_that_of_now_not_since_the_start(now, since):
    edges = edge_to("source", "map", "HASH"), edge_to("map", "sink", "REBALANCE")
    read = grown("records_in", 500, 100_000)
    emitted = grown("records_out", 500 * now, 100_000 * since)
    seen = {
        "source": [samples(*grown("records_out", 500, 100_000))],
        "map": [samples(*both(read, emitted))],
        "sink": [samples(*grown("records_in", 500 * now, 100_000 * since))],
    }
    shape = job(*edges)
    assert JobFlows(shape, seen).selectivities(shape.vertices[1]) == pytest.approx([now], rel=0.01)


def test_shares_are_of_what_flows_now_not_of_what_waits_since_the_start():
    edge = edge_to("source", "count", "HASH")
    seen = {
        "source": [samples(*grown("records_out", 1000))] * 2,
        "count": [samples(*grown("records_in", 750, 30_000)), samples(*grown("records_in", 250, 20_000))],
    }
    shape = job(edge, parallelism=2)
    assert JobFlows(shape, seen).shares(shape.vertices[1]) == pytest.approx([0.75, 0.25])


def waits(*delays: float | None, unaligned: bool = False) -> list[CheckpointResult]:
    """Checkpoints 5 s apart that wait before one subtask for so many milliseconds, and before another not."""
    return [
        CheckpointResult(
            id=number,
            t=5.0 * number,
            vertices=[
                VertexCheckpoint(name="count", start_delay_ms=[delay, 20.0], unaligned=[unaligned, False])
            ],
        )
        for number, delay in enumerate(delays)
    ]


@pytest.mark.parametrize(
    ("checkpoints", "growth"),
    [
        (waits(1000, 1100, 1200, 1310, 1400), 0.02),
        (waits(1000, 950, 900, 700, 800, None, 700), -0.01),
        (waits(1000, 1100, 900, 1100, 1000), 0.0),
        (waits(1000, 1100, 1200, 1300), 0.0),
        (waits(1000, 2000, 3000, 4000, 5000), 0.0),
        (waits(1000, 1100, 1200, 1300, 1400, unaligned=True), 0.0),
        ([], 0.0),
    ],
)
def test_delays_that_rise_say_that_more_comes_than_is_read(checkpoints, growth):
    assert queue_growth(checkpoints, "count", 2) == [pytest.approx(growth, abs=0.0015), 0.0]
    assert queue_growth(checkpoints, "another", 2) == [0.0, 0.0]


def test_what_comes_to_a_subtask_is_what_it_reads_and_what_waits_longer():
    edge = edge_to("source", "count", "HASH")
    seen = {
        "source": [samples(*grown("records_out", 1000))] * 2,
        "count": [samples(*grown("records_in", 1000))] * 2,
    }
    shape = job(edge, parallelism=2)
    flows = JobFlows(shape, seen, {"count": [0.06, 0.0]})
    assert flows.shares(shape.vertices[1]) == pytest.approx([106 / 206, 100 / 206])


def test_of_few_records_those_since_the_start_tell_more():
    edge = edge_to("source", "count", "HASH")
    seen = {
        "source": [samples(*grown("records_out", 20))] * 2,
        "count": [samples(*grown("records_in", 11, 50_000)), samples(*grown("records_in", 9, 50_000))],
    }
    shape = job(edge, parallelism=2)
    assert JobFlows(shape, seen).shares(shape.vertices[1]) == pytest.approx([0.5, 0.5], abs=0.001)


def test_a_side_output_carries_a_part():
    edges = edge_to("parse", "main", "REBALANCE"), edge_to("parse", "late", "REBALANCE")
    seen = {
        "parse": [samples(*grown("records_out", 1100))],
        "main": [samples(*grown("records_in", 1000))],
        "late": [samples(*grown("records_in", 100))],
    }
    flows = JobFlows(job(*edges), seen)
    assert [flows.fraction(edge) for edge in edges] == [1.0, pytest.approx(0.1, rel=0.01)]


def test_a_vertex_that_is_silent_in_between_emits_at_times():
    edges = edge_to("source", "window", "HASH"), edge_to("window", "sink", "REBALANCE")
    fired = [a | {"records_out": 1000.0 + 100 * (n // 5)} for n, a in enumerate(grown("records_in", 200))]
    steady = [a | {"records_out": 1000.0 + 100 * n} for n, a in enumerate(grown("records_in", 200))]
    for looks, firings in ((fired, Firings(5.0, 100.0)), (steady, None)):
        seen = {"source": [samples(*looks)], "window": [samples(*looks)], "sink": [samples(*looks)]}
        shape = job(*edges)
        flows = JobFlows(shape, seen)
        assert flows.firings(shape.vertices[1]) == firings
        assert flows.selectivities(shape.vertices[1]) == [pytest.approx(0.1 if firings else 0.5)]


def test_a_window_with_two_outputs_counts_what_goes_to_both_once():
    edges = (
        edge_to("source", "window", "HASH"),
        edge_to("window", "main", "REBALANCE"),
        edge_to("window", "copy", "REBALANCE"),
    )
    fired = [a | {"records_out": 1000.0 + 200 * (n // 5)} for n, a in enumerate(grown("records_in", 200))]
    read = [{"records_in": 500.0 + 100 * (n // 5)} for n in range(12)]
    seen = {
        "source": [samples(*grown("records_out", 200))],
        "window": [samples(*fired)],
        "main": [samples(*read)],
        "copy": [samples(*read)],
    }
    shape = job(*edges)
    flows = JobFlows(shape, seen)
    assert flows.firings(shape.vertices[1]) == Firings(5.0, 200.0)
    assert flows.selectivities(shape.vertices[1]) == [pytest.approx(0.09, abs=0.02)]


def test_who_emits_a_buffer_whenever_there_is_room_is_no_window():
    edges = edge_to("source", "slow", "HASH"), edge_to("slow", "sink", "REBALANCE")
    looks = [a | {"records_out": 500.0 + 39 * (n // 2)} for n, a in enumerate(grown("records_in", 20, 500))]
    for held, firings in ((0.95, None), (0.2, Firings(2.0, 39.0))):
        seen = {name: [samples(*looks, held=held)] for name in ("source", "slow", "sink")}
        shape = job(*edges)
        flows = JobFlows(shape, seen)
        assert [flows.firings(vertex) for vertex in shape.vertices[:2]] == [firings, firings]


def test_a_window_in_the_chain_of_a_source_makes_bursts_of_it():
    """A local aggregation in SQL emits nothing for ten seconds, then a record for each key."""
    edge = edge_to("source", "sum", "HASH")
    counts = [500.0, 500, 500, 500, 811, 811, 811, 811, 811, 1120, 1120, 1120]
    seen = {
        "source": [samples(*[{"records_out": count} for count in counts])] * 2,
        "sum": [samples(*grown("records_in", 100), busy=0.1)] * 2,
    }
    shape = job(edge, parallelism=2)
    assert JobFlows(shape, seen).firings(shape.vertices[0]) == Firings(5.0, 620.0)
    source = generator(vertices_of(shape, seen))
    assert (source.burst_s, source.batch, source.rates) == (5.0, 310, (62.0,))


def test_a_source_that_counts_in_steps_emits_them_at_once():
    edge = edge_to("source", "sink", "REBALANCE")
    seen = {
        "source": [samples(*grown("records_out", 500, 3000))],
        "sink": [samples(*grown("records_in", 500))],
    }
    shape = job(edge)
    flows = JobFlows(shape, seen)
    assert flows.burst_s(shape.vertices[0], 520.0) == 1.0
    seen["source"] = [samples(*[{"records_out": 3000.0 + 500 * n + n % 2} for n in range(12)])]
    assert JobFlows(shape, seen).burst_s(shape.vertices[0], 500.0) is None


@pytest.mark.parametrize(("at_once", "per_s", "seconds"), [(70, 70, 1.0), (7, 10, 0.7), (50, 110, 0.4545)])
def test_bursts_are_rounded_by_no_more_than_the_count_may_be_off(at_once, per_s, seconds):
    edge = edge_to("source", "sink", "REBALANCE")
    counts = [float(at_once * round((50 + n) * per_s / at_once)) for n in range(60)]
    looks = [{"records_out": count} for count in counts]
    seen = {"source": [samples(*looks)], "sink": [samples(*grown("records_in", per_s))]}
    shape = job(edge)
    assert JobFlows(shape, seen).burst_s(shape.vertices[0], per_s) == pytest.approx(seconds, rel=1e-3)
    source = generator(vertices_of(shape, seen))
    assert source.rates[0] == pytest.approx(per_s, rel=0.02)


def test_tasks_that_keep_no_account_are_timed_by_the_clock():
    edge = edge_to("source", "filter", "HASH"), edge_to("filter", "sink", "REBALANCE")
    seen = {
        "source": [timed_by_others(*grown("records_out", 400))],
        "filter": [timed_by_others(*both(grown("records_in", 400), grown("records_out", 100)))],
        "sink": [timed_by_others(*grown("records_in", 100))],
    }
    shape = job(*edge)
    flows = JobFlows(shape, seen)
    assert flows.selectivities(shape.vertices[1]) == pytest.approx([0.25])
    over = flows.over(edge[0])
    assert over is not None
    assert over.now_per_s == pytest.approx(400)


def test_a_filter_that_lets_little_through_is_no_window():
    edges = edge_to("source", "filter", "HASH"), edge_to("filter", "sink", "REBALANCE")
    looks = [a | {"records_out": 100.0 + n // 3} for n, a in enumerate(grown("records_in", 200))]
    seen = {name: [samples(*looks)] for name in ("source", "filter", "sink")}
    shape = job(*edges)
    assert JobFlows(shape, seen).firings(shape.vertices[1]) is None


@pytest.mark.parametrize(("busy", "rate", "catch_up_s"), [(0.99, 750.0, 0.0), (0.6, 600.0, 1.0)])
def test_a_paced_source_is_held_back_only_where_something_works_all_the_time(busy, rate, catch_up_s):
    """Else it waits for a moment, and catches up; one that idles though it is held back does not."""
    edges = edge_to("source", "map", "REBALANCE"), edge_to("map", "store", "REBALANCE")
    seen = {
        "source": [samples(*grown("records_out", 600, 30_001), busy=0.02, held=0.2)],
        "map": [samples(*both(grown("records_in", 601), grown("records_out", 601)), busy=0.1, held=0.5)],
        "store": [samples(*grown("records_in", 601), busy=busy)],
    }
    source = generator(vertices_of(job(*edges), seen))
    assert source.rates == (rate,)
    assert source.catch_up_s == catch_up_s


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [
        ("Map -> Sink: Writer", [0, 0]),
        ("Sink: Writer", [0, 0]),
        ("Window(TumblingEventTimeWindows(10000), EventTimeTrigger, Summed)", [0, 0]),
        ("GroupAggregate[7] -> Calc[8]", [0, 0]),
        ("Co-Map", [0, 1]),
        ("Join[7] -> Calc[8]", [0, 1]),
        ("IntervalJoin[12]", [0, 1]),
        ("ProcessTableFunction[5]", [0, 1]),
        ("merge", [0, 1]),
    ],
)
def test_a_union_is_told_from_a_join_where_a_name_tells(operator, inputs):
    shape = job(edge_to("clicks", operator, "HASH"), edge_to("views", operator, "HASH"))
    seen = {
        name: [samples(*grown(field, 100))]
        for name, field in (("clicks", "records_out"), ("views", "records_out"), (operator, "records_in"))
    }
    edges, remarks = edges_of(shape, JobFlows(shape, seen))
    notes = [note_of(remark) for remark in remarks]
    assert [edge.input for edge in edges] == inputs
    kind = "union" if inputs == [0, 0] else "join"
    by_name = f" reads 2 exchanges; assuming a {kind}, as its name says."
    assert any(by_name in note for note in notes) == (operator not in ("merge", "ProcessTableFunction[5]"))
    assert "assuming the same distribution of keys in all." in notes[-1]


def test_the_time_to_read_a_buffer_is_no_part_of_the_cost_of_a_record():
    shape = job(edge_to("source", "work", "REBALANCE"))
    counts = both(grown("records_in", 100), grown("buffers_in_remote", 300))
    seen = {
        "source": [samples(*grown("records_out", 100), held=1.0)],
        "work": [samples(*counts, busy=1.0)],
    }
    overhead = 3 * COSTS.consumer_buffer_s + COSTS.consumer_record_s + COSTS.after_sleep_s
    cost = vertices_of(shape, seen)["work"].service[0][1]
    assert cost == pytest.approx(0.01 - overhead, abs=5e-6)


class TestTheMinuteBefore:
    """Flink's meters tell of a minute that the time watched follows."""

    def read(self, now: float, minute: float | None, busy: float = 1.0, given: Overrides = RECORDS) -> Vertex:
        meter = {} if minute is None else {"records_in_of_a_minute": minute}
        looks = [look | meter for look in grown("records_in", now, looks=21)]
        shape = job(edge_to("source", "work", "REBALANCE"))
        seen = {
            "source": [samples(*grown("records_out", now), held=0.5)],
            "work": [samples(*looks, busy=busy)],
        }
        self.notes = list[str]()
        return vertices_of(shape, seen, given, notes=self.notes)["work"]

    def test_it_counts_for_a_task_that_never_idles(self):
        vertex = self.read(now=1080, minute=1000)
        assert vertex.service[0][1] == pytest.approx(1 / 1020, rel=0.005)
        variance = 80**2 / (1 / 20 + 1 / 60)  # of a second, from means over 20 s and 60 s
        assert vertex.service_spread == pytest.approx((variance / 80) ** 0.5 / 1020, rel=0.02)
        assert [note for note in self.notes if "uncertain by 3.4 %" in note]

    def test_a_cost_that_is_given_is_sure(self):
        given = dataclasses.replace(RECORDS, service_s={"work": 0.002})
        vertex = self.read(now=1080, minute=1000, given=given)
        assert vertex.service == ((0.0, 0.002),)
        assert vertex.service_spread == 0
        assert self.notes == []

    def test_where_a_task_idles_its_costs_are_those_of_its_busy_time(self):
        vertex = self.read(now=1080, minute=1000, busy=0.95)
        assert vertex.service[0][1] == pytest.approx(0.95 / 1080, rel=0.005)
        assert vertex.service_spread == 0

    @pytest.mark.parametrize("minute", [None, 0.0, 700.0, 1500.0])
    def test_of_another_load_it_says_nothing(self, minute):
        vertex = self.read(now=1080, minute=minute)
        assert vertex.service[0][1] == pytest.approx(1 / 1080, rel=0.005)
        assert vertex.service_spread == 0

    def test_shares_are_of_the_longer_time(self):
        shape = job(edge_to("source", "count", "HASH"), parallelism=2)
        looks = [
            [look | {"records_in_of_a_minute": minute} for look in grown("records_in", 1000, looks=21)]
            for minute in (1000, 900)
        ]
        seen = {"source": [samples(*looks[0])] * 2, "count": [samples(*each) for each in looks]}
        assert JobFlows(shape, seen).shares(shape.vertices[1]) == pytest.approx([1000 / 1925, 925 / 1925])


class TestFewRecordsWhileWatched:
    """Counts since the start say little of now: they include a backlog, or slow code not yet compiled."""

    JOB = job(edge_to("source", "map", "REBALANCE"), edge_to("map", "sink", "REBALANCE"))

    def read(
        self, source: list[dict[str, float]], map_: list[dict[str, float]], shape: FlinkJob = JOB
    ) -> dict[str, Vertex]:
        self.notes = list[str]()
        seen = {
            "source": [samples(*source)],
            "map": [samples(*map_, busy=0.1)],
            "sink": [samples(*[{"records_in": look["records_out"]} for look in map_], busy=0.1)],
        }
        return vertices_of(shape, seen, notes=self.notes)

    def test_rates_costs_and_ratios_are_those_of_now(self):
        counts = both(grown("records_in", 8, since=100_000), grown("records_out", 4, since=5_000))
        vertices = self.read(grown("records_out", 8, since=100_000), counts)
        source = generator(vertices)
        assert source.rates == (8.0,)
        assert vertices["map"].service[0][1] == pytest.approx(0.1 / 8, rel=0.01)
        assert vertices["map"].selectivity == pytest.approx(0.5)
        assert self.notes[0] == (
            "source: fewer than 200 records were seen at subtask 0, so rates and costs are uncertain. "
            "Set watch_s to a longer time."
        )

    def test_where_none_are_seen_that_is_said(self):
        still = [{"records_in": 100_000.0, "records_out": 50_000.0}] * 12
        vertices = self.read([{"records_out": 100_000.0}] * 12, still)
        source = generator(vertices)
        assert source.rates == (0.05,)
        assert vertices["map"].service[0][1] == pytest.approx(6.1 / 100_000, rel=0.2)
        assert vertices["map"].selectivity == pytest.approx(0.5)
        assert self.notes == [
            "source: no records were seen at subtask 0; assuming 0.05 records/s. Set watch_s to a "
            "longer time.",
            *(
                f"{name}: no records were seen at subtask 0; assuming the mean cost since the start of "
                "the job. Set watch_s to a longer time."
                for name in ("map", "sink")
            ),
        ]

    def test_what_reads_and_does_not_emit_emits_nothing(self):
        counts = [look | {"records_out": 25_000.0} for look in grown("records_in", 1000)]
        vertices = self.read(grown("records_out", 1000), counts)
        assert vertices["map"].selectivity == 0
        assert (
            "map: no records were seen leaving it; assuming that it emits none. Set watch_s to a longer time."
        ) in self.notes

    def test_windows_that_are_not_seen_to_fire_emit_their_mean(self):
        windows = "Window(TumblingEventTimeWindows(60000), EventTimeTrigger, Summed)"
        described = [
            dataclasses.replace(vertex, description="" if vertex.id == "sink" else windows)
            for vertex in self.JOB.vertices
        ]
        counts = [look | {"records_out": 6_100.0} for look in grown("records_in", 1000, since=50_000)]
        shape = dataclasses.replace(self.JOB, vertices=tuple(described))
        vertices = self.read([{"records_out": 61_000.0}] * 12, counts, shape)
        source = generator(vertices)
        assert (source.burst_s, source.rates) == (60.0, (1000.0,))
        assert vertices["map"].emit_every_s == 60.0
        assert vertices["map"].selectivity == pytest.approx(0.1)
        for name in ("source", "map"):
            fired = f"{name}: its windows hardly fired while watched"
            note = f"{fired}; using its mean output per record since the start of the job"
            assert f"{note}. Set watch_s to a longer time." in self.notes

    def test_where_no_time_passed_all_is_of_the_whole_time(self):
        """A source of the old kind is timed by the age of its job, which is 60 s."""
        look = {"records_out": 3000.0, "backpressured_ms": 0.0, "idle_ms": 0.0}
        sink = {"records_in": 3000.0, "busy_ms": 30_000.0, "idle_ms": 30_000.0, "backpressured_ms": 0.0}
        times = tuple(map(float, range(12)))
        seen = {
            "source": [SubtaskSamples((look,) * 12, times)],
            "sink": [SubtaskSamples((sink,) * 12, times)],
        }
        assert stands_still(seen)
        vertices = vertices_of(job(edge_to("source", "sink", "REBALANCE")), seen)
        source = generator(vertices)
        assert source.rates == (50.0,)
        assert vertices["sink"].service[0][1] == pytest.approx(0.01, rel=0.01)


class TestConsumersThatJustKeepUp:
    """Their queues keep the length that they happen to have."""

    CHECKPOINTS = tuple(
        CheckpointResult(
            id=number,
            t=float(number),
            vertices=[
                VertexCheckpoint(name="count", start_delay_ms=[700.0 + number, None if number else 5.0])
            ],
        )
        for number in range(3)
    )

    def read(self, per_look: list[dict[str, float]], busy: float = 0.99, held: float = 0.0) -> Vertex:
        shape = job(edge_to("source", "count", "HASH"), parallelism=2)
        seen = {
            "source": [samples(*per_look, held=held)] * 2,
            "count": [samples(*grown("records_in", 100), busy=busy)] * 2,
        }
        return vertices_of(shape, seen, checkpoints=self.CHECKPOINTS)["count"]

    def test_they_begin_as_far_behind_as_barriers_wait(self):
        steadily = [{"records_out": 5000.0 + 101 * n + n % 2} for n in range(12)]
        assert self.read(steadily).behind_s == (0.701, 0.005)

    def test_what_a_source_emits_at_once_comes_by_itself(self):
        assert self.read(grown("records_out", 100)).behind_s == (0.201, 0.0)

    @pytest.mark.parametrize(("busy", "held"), [(0.5, 0.0), (0.99, 0.9)])
    def test_others_do_not(self, busy, held):
        assert self.read(grown("records_out", 100), busy, held).behind_s == (0.0,)


class TestConsumersThatAreTiedByTurns:
    """Both get and read the same, so what one was once behind the other it stays behind."""

    def read(self, *ends_ms: tuple[float, float], strategy: str = "REBALANCE", busy: float = 1.0) -> Vertex:
        checkpoints = tuple(
            CheckpointResult(
                id=number,
                t=float(number),
                vertices=[
                    VertexCheckpoint(
                        name="filter",
                        start_delay_ms=[end - 100 for end in ends],
                        alignment_ms=[100.0, 100.0],
                    )
                ],
            )
            for number, ends in enumerate(ends_ms)
        )
        shape = job(edge_to("source", "filter", strategy), parallelism=2)
        seen = {
            "source": [samples(*grown("records_out", 100), held=1.0)] * 2,
            "filter": [
                samples(*grown("records_in", 100), busy=1.0),
                samples(*grown("records_in", 100), busy=busy),
            ],
        }
        return vertices_of(shape, seen, checkpoints=checkpoints)["filter"]

    STEADY = (3500.0, 4100.0), (3580.0, 4200.0), (3600.0, 4190.0)

    def test_they_begin_as_far_apart_as_they_are(self):
        assert self.read(*self.STEADY).behind_s == (0.0, 0.6)

    def test_where_keys_decide_who_gets_what_they_are_not_tied(self):
        assert self.read(*self.STEADY, strategy="HASH").behind_s == (0.0,)

    def test_one_that_idles_is_not_behind(self):
        assert self.read(*self.STEADY, busy=0.7).behind_s == (0.0,)

    def test_what_checkpoints_do_not_agree_on_is_chance(self):
        assert self.read((3500.0, 4100.0), (4100.0, 3500.0), (3800.0, 3810.0)).behind_s == (0.0,)

    def test_two_checkpoints_are_too_few(self):
        assert self.read(*self.STEADY[:2]).behind_s == (0.0,)


class TestSourcesOfTheOldKind:
    """They tell no busy time, and others of the job do."""

    def read(self, seen: dict[str, list[SubtaskSamples]]) -> GeneratorSpec:
        return generator(vertices_of(job(edge_to("source", "sink", "REBALANCE")), seen))

    def without_busy(self, held: float) -> SubtaskSamples:
        told = samples(*grown("records_out", 300), held=held)
        return SubtaskSamples(
            tuple({name: value for name, value in look.items() if name != "busy_ms"} for look in told.samples)
        )

    def test_one_that_is_not_held_back_emits_at_its_rate(self):
        sink = samples(*grown("records_in", 300), busy=0.3)
        source = self.read({"source": [self.without_busy(0.0)], "sink": [sink]})
        assert (source.legacy, source.rates) == (True, (pytest.approx(300),))

    def test_one_that_is_held_back_part_of_the_time_would_emit_more(self):
        sink = samples(*grown("records_in", 300), busy=0.99)
        source = self.read({"source": [self.without_busy(0.75)], "sink": [sink]})
        assert (source.legacy, source.rates) == (True, (pytest.approx(1200, rel=0.01),))

    def test_of_one_that_is_held_back_all_the_time_the_rate_is_not_told(self):
        sink = samples(*grown("records_in", 300), busy=0.99)
        source = self.read({"source": [self.without_busy(0.97)], "sink": [sink]})
        assert (source.legacy, source.rates) == (True, (0.0,))

    def test_where_no_task_tells_its_busy_time_the_kind_is_not_told(self):
        shape = job(edge_to("source", "sink", "REBALANCE"))
        seen = {
            "source": [timed_by_others(*grown("records_out", 300))],
            "sink": [timed_by_others(*grown("records_in", 300))],
        }
        given = dataclasses.replace(RECORDS, service_s={EVERYWHERE: 0.001})
        source = generator(vertices_of(shape, seen, given))
        assert not source.legacy


def test_the_bytes_of_a_broadcast_record_count_once_for_each_consumer_and_the_record_once() -> None:
    shape = job(edge_to("rules", "check", "BROADCAST"), edge_to("events", "check", "HASH"), parallelism=4)
    emits = {name: grown("records_out", 10.0) for name in ("rules", "events")}
    sizes = {"rules": 4 * 320.0, "events": 100.0}
    seen = {
        name: [samples(*({**look, "bytes_out": look["records_out"] * size} for look in emits[name]))] * 4
        for name, size in sizes.items()
    }
    seen["check"] = [samples(*grown("records_in", 50.0), busy=0.2)] * 4
    vertices = vertices_of(shape, seen, Overrides())
    assert [vertices[name].source.record_bytes for name in sizes] == [316, 96]  # type: ignore[union-attr]


def test_broadcast_records_do_not_even_out_the_shares_of_keyed_ones() -> None:
    shape = job(edge_to("rules", "check", "BROADCAST"), edge_to("events", "check", "HASH"), parallelism=2)
    seen = {
        "rules": [samples(*grown("records_out", 100.0)), samples(*grown("records_out", 0.0))],
        "events": [samples(*grown("records_out", 100.0))] * 2,
        "check": [samples(*grown("records_in", 100.0 + keyed)) for keyed in (150.0, 50.0)],
    }
    flows = JobFlows(shape, seen)
    (keyed,) = (edge for edge in edges_of(shape, flows).value if edge.source == "events")
    assert keyed.shares == pytest.approx((0.75, 0.25), abs=0.001)


def test_broadcast_records_cost_nothing_and_all_busy_time_goes_to_the_others() -> None:
    shape = job(edge_to("rules", "check", "BROADCAST"), edge_to("events", "check", "HASH"), parallelism=2)
    seen = {
        "rules": [samples(*grown("records_out", 100.0)), samples(*grown("records_out", 0.0))],
        "events": [samples(*grown("records_out", 300.0))] * 2,
        "check": [samples(*grown("records_in", 100.0 + keyed), busy=keyed / 500) for keyed in (400.0, 200.0)],
    }
    check = vertices_of(shape, seen)["check"]
    assert (check.service[0][1], check.service_skew) == (pytest.approx(0.002, rel=0.02), (1.0,))
    edges, remarks = edges_of(shape, JobFlows(shape, seen))
    services = {edge.source: edge.service for edge in edges}
    assert services == {"rules": ((0.0, 0.0),), "events": None}
    assert any(
        "the cost of a broadcast record of rules is not reported; assuming that it takes no time" in note
        for note in map(note_of, remarks)
    )
    only = job(edge_to("rules", "check", "BROADCAST"), parallelism=2)
    assert edges_of(only, JobFlows(only, seen)).value[0].service is None


def test_subtasks_that_get_records_in_turns_and_never_idle_read_equally_many() -> None:
    rates, idle_rate = (495.0, 505.0), 500.0
    shape = job(edge_to("source", "work", "REBALANCE"), parallelism=3)
    seen = {"source": [samples(*grown("records_out", 500.0), held=1.0)] * 3}
    seen["work"] = [samples(*grown("records_in", rate), busy=1.0) for rate in rates]
    seen["work"].append(samples(*grown("records_in", idle_rate), busy=0.5))
    work = vertices_of(shape, seen)["work"]
    (_, service), skew = work.service[0], work.service_skew
    assert [1000 * service * factor for factor in skew] == pytest.approx([2.0, 2.0, 1.0], abs=0.02)
    keyed = job(edge_to("source", "work", "HASH"), parallelism=3)
    work = vertices_of(keyed, seen)["work"]
    (_, service), skew = work.service[0], work.service_skew
    assert [1000 * service * factor for factor in skew] == pytest.approx([2.02, 1.98, 1.0], abs=0.02)


def test_the_parts_of_a_record_go_to_consumers_of_their_own():
    """Parts that the emulation makes of one record have one key; in Flink, they have keys of their own."""
    edges = edge_to("source", "split", "REBALANCE"), edge_to("split", "count", "HASH")
    for parts, shares in ((20, (1.0, 1.0)), (1, ())):
        seen = {
            "source": [samples(*grown("records_out", 100))] * 2,
            "split": [samples(*both(grown("records_in", 100), grown("records_out", 100 * parts)))] * 2,
            "count": [samples(*grown("records_in", 100 * parts))] * 2,
        }
        shape = job(*edges, parallelism=2)
        fitted, _ = edges_of(shape, JobFlows(shape, seen))
        assert [edge.shares for edge in fitted] == [(), shares]


SIZES = (4_000, 20_000, 60_000, 120_000)


def of_sizes(sizes: Sequence[int], per_s: int) -> list[dict[str, float]]:
    """Counts of a source whose records take turns at random, and whose bytes count by whole buffers."""
    chance = random.Random(1)
    looks = [{"records_out": 0.0, "bytes_out": 0.0}]
    emitted = 0
    for second in range(1, 21):
        emitted += sum(chance.choices(sizes, k=per_s))
        looks.append({"records_out": float(second * per_s), "bytes_out": float(emitted // 32768 * 32768)})
    return looks


@pytest.mark.parametrize(
    ("sizes", "per_s", "expected"),
    [(SIZES, 30, 0.87), ((51_000,), 30, 0.0), ((1_000, 3_000), 1000, 0.0)],
    ids=["four sizes", "one size", "many records of a buffer"],
)
def test_the_bytes_between_polls_show_how_much_records_differ(sizes, per_s, expected):
    shape = job(edge_to("source", "sink", "HASH"))
    read = grown("records_in", per_s, looks=21)
    seen = {"source": [samples(*of_sizes(sizes, per_s), held=1.0)], "sink": [samples(*read, busy=0.5)]}
    found = generator(vertices_of(shape, seen, Overrides())).record_spread
    assert found == pytest.approx(expected, rel=0.25), "0 is exact"


@pytest.mark.parametrize(
    ("records", "is_even"), [((260, 240, 247, 253), True), ((2600, 2400, 2470, 2530), False)]
)
def test_shares_that_differ_by_chance_are_equal(records, is_even):
    shape = job(edge_to("source", "work", "HASH"), parallelism=4)
    read = [samples(*grown("records_in", each / 11), busy=0.5) for each in records]
    sent = [samples(*grown("records_out", 100), held=1.0)] * 4
    shares = JobFlows(shape, {"source": sent, "work": read}).shares(shape.vertices[1])
    assert shares == pytest.approx([0.25] * 4 if is_even else [0.26, 0.24, 0.247, 0.253])
