"""What is made of the counts of tasks: shares, selectivity, windows, bursts."""

import pytest

from integration.flink.rest.cluster_job import FlinkEdge, FlinkJob, FlinkVertex
from integration.flink.rest.flows import JobFlows, window_s
from integration.flink.rest.sampling import SubtaskSamples


def samples(*looks: dict[str, float]) -> SubtaskSamples:
    """Answers a second apart, by the task's own account."""
    timed = [
        {"idle_ms": 1000.0 * (50 + n), "busy_ms": 0.0, "backpressured_ms": 0.0} for n in range(len(looks))
    ]
    return SubtaskSamples(tuple({**time, **look} for time, look in zip(timed, looks, strict=True)))


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


@pytest.mark.parametrize(
    ("description", "seconds"),
    [
        ("Window(TumblingEventTimeWindows(10000), EventTimeTrigger, Summed)", 10.0),
        ("Window(SlidingProcessingTimeWindows(60000, 5000), ...)", 5.0),
        ("WindowAggregate(window=[TUMBLE(time_col=[ts], size=[10 s])], select=[...])", 10.0),
        ("window=[HOP(time_col=[ts], size=[1 min], slide=[30 s])]", 30.0),
        ("window=[CUMULATE(time_col=[ts], max_size=[1 h], step=[10 min])]", 600.0),
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
        "join": [
            samples(
                *[a | b for a, b in zip(grown("records_in", 500), grown("records_out", 396), strict=True)]
            )
        ],
        "sink": [samples(*grown("records_in", 396))],
    }
    shape = job(orders, payments, out)
    join = next(vertex for vertex in shape.vertices if vertex.id == "join")
    assert JobFlows(shape, seen).selectivities(join) == [1.0, 0.0]
    seen["join"] = [
        samples(*[a | b for a, b in zip(grown("records_in", 500), grown("records_out", 250), strict=True)])
    ]
    assert JobFlows(shape, seen).selectivities(join) == pytest.approx([0.5, 0.5])


def test_shares_are_of_what_flows_now_not_of_what_waits_since_the_start():
    edge = edge_to("source", "count", "HASH")
    seen = {
        "source": [samples(*grown("records_out", 1000))] * 2,
        "count": [samples(*grown("records_in", 750, 30_000)), samples(*grown("records_in", 250, 20_000))],
    }
    shape = job(edge, parallelism=2)
    assert JobFlows(shape, seen).shares(shape.vertices[1]) == pytest.approx([0.75, 0.25])


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
    for looks, period in ((fired, 5.0), (steady, None)):
        seen = {"source": [samples(*looks)], "window": [samples(*looks)], "sink": [samples(*looks)]}
        shape = job(*edges)
        assert JobFlows(shape, seen).period_s(shape.vertices[1]) == period


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
