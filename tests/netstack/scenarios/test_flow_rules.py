"""The language of real jobs: which flows of records make sense, and that files keep all that is said."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack import (
    SERVICE_MODES,
    CollectionSource,
    Edge,
    GeneratorSpec,
    Machine,
    NetworkConfig,
    Scenario,
    ScenarioError,
    SourceObject,
    Vertex,
    distribution_problems,
    flat_map,
    in_slots,
    key_sum,
    read_scenario,
    scenario_document,
    scenario_problems,
    scenario_toml,
)
from netstack.scenarios.scenario import EMISSIONS, Keys

RATED = GeneratorSpec(record_bytes=100, rates=(10.0,))
JOB = Scenario(
    name="job",
    duration_s=60.0,
    vertices=(
        Vertex(name="source", parallelism=2, source=RATED),
        Vertex(name="stage", parallelism=2),
        Vertex(name="sink", parallelism=3),
    ),
    edges=(
        Edge(source="source", target="stage"),
        Edge(source="stage", target="sink", ship="hash"),
        Edge(source="source", target="sink"),
    ),
)


def source(**changes: Any) -> Scenario:
    return vertex(0, source=dataclasses.replace(RATED, **changes))


def windows(*, disorder_s: float | None = 0.1, interval_s: float = 0.2, **changes: Any) -> Scenario:
    """The job with windows in its sink that fire by event time."""
    by_event_time = {"emit_every_s": 1.0, "emit_by": "event_time"}
    job = vertex(2, **(by_event_time | changes))
    given = dataclasses.replace(RATED, out_of_orderness_s=disorder_s)
    first = dataclasses.replace(job.vertices[0], source=given)
    config = NetworkConfig(auto_watermark_interval_s=interval_s)
    return dataclasses.replace(job, vertices=(first, *job.vertices[1:]), config=config)


def vertex(place: int, **changes: Any) -> Scenario:
    vertices = list(JOB.vertices)
    vertices[place] = dataclasses.replace(vertices[place], **changes)
    return dataclasses.replace(JOB, vertices=tuple(vertices))


def edge(place: int, job: Scenario = JOB, **changes: Any) -> Scenario:
    edges = list(job.edges)
    edges[place] = dataclasses.replace(edges[place], **changes)
    return dataclasses.replace(job, edges=tuple(edges))


def twice(record: bytes) -> list[bytes]:
    return [record, record]


USERS = vertex(2, operator=flat_map(twice))
KEYED = vertex(2, operator=key_sum(lambda record: (record, 1)))
STAGE, TO_STAGE, TO_SINK, SIDE = (
    "vertices.stage",
    "edges.source->stage",
    "edges.stage->sink",
    "edges.source->sink",
)
OF_SOURCE = "vertices.source.source"


def test_the_job_of_these_tests_makes_sense() -> None:
    assert scenario_problems(JOB) == []


@pytest.mark.parametrize(
    ("scenario", "key", "message"),
    [
        (
            vertex(1, selectivity=-1.0),
            f"{STAGE}.selectivity",
            "is -1; it must be 0 (the vertex emits nothing) or more",
        ),
        (
            vertex(1, selectivity=math.inf),
            f"{STAGE}.selectivity",
            "is inf; it must be 0 (the vertex emits nothing) or more",
        ),
        (vertex(1, selectivity=math.nan), f"{STAGE}.selectivity", "is nan; it must be 0"),
        (vertex(1, emission="randomly"), f"{STAGE}.emission", "did you mean 'random'?"),
        (vertex(1, record_bytes=7), f"{STAGE}.record_bytes", "is 7; it must be 8 (the key)"),
        (vertex(1, record_bytes=1 << 40), f"{STAGE}.record_bytes", "it must be 8 (the key) to"),
        (vertex(1, emit_every_s=0.0), f"{STAGE}.emit_every", "is 0 s; it must be more than 0 s"),
        (vertex(1, emit_every_s=math.inf), f"{STAGE}.emit_every", "it must be more than 0 s"),
        (
            vertex(1, emit_every_s=1.0, emit_cost_s=-1.0),
            f"{STAGE}.emit_cost",
            "is -1 s; it must be 0 s or more",
        ),
        (vertex(1, emit_cost_s=0.001), f"{STAGE}.emit_cost", "has no effect without emit_every"),
        (vertex(1, emit_keys=5), f"{STAGE}.emit_keys", 'has no effect without emit_by = "event_time"'),
        (windows(emit_keys=0), "vertices.sink.emit_keys", "is 0; it must be 1 or more"),
        (
            windows(emit_keys=5, selectivity=0.5),
            "vertices.sink.selectivity",
            "a window with emit_keys emits one record for each key; remove one of the two",
        ),
        (vertex(2, emit_every_s=1.0, emit_by="event"), "vertices.sink.emit_by", "did you mean 'event_time'?"),
        (vertex(0, emit_by="event_time"), "vertices.source.emit_by", "has no effect on a source"),
        (
            windows(emit_every_s=None),
            "vertices.sink.emit_by",
            "has no effect without emit_every; give emit_every",
        ),
        (windows(emit_every_s=0.0004), "vertices.sink.emit_every", "by event time it must be 1 ms or more"),
        (
            windows(disorder_s=None),
            "vertices.sink.emit_by",
            "is event_time, but the source source of these records sends no watermarks",
        ),
        (windows(disorder_s=-1.0), f"{OF_SOURCE}.out_of_orderness", "is -1 s; it must be 0 s or more"),
        (windows(disorder_s=math.inf), f"{OF_SOURCE}.out_of_orderness", "it must be 0 s or more"),
        (
            windows(interval_s=0.0),
            "flink.pipeline.auto-watermark-interval",
            "is 0, so no watermarks are sent",
        ),
        (
            windows(emit_by="processing_time"),
            f"{OF_SOURCE}.out_of_orderness",
            "has no effect: no vertex after this source emits by event time",
        ),
        (vertex(1, behind_s=(0.1, -1.0)), f"{STAGE}.behind", "is 100 ms, -1 s; give 0 s or more"),
        (vertex(1, behind_s=()), f"{STAGE}.behind", "is empty"),
        (vertex(0, behind_s=(1.0,)), "vertices.source.behind", "is given for a source"),
        (vertex(0, selectivity=2.0), "vertices.source.selectivity", "has no effect on a source"),
        (vertex(0, emission="random"), "vertices.source.emission", "has no effect on a source"),
        (vertex(0, record_bytes=8), "vertices.source.record_bytes", "has no effect on a source"),
        (vertex(0, emit_every_s=1.0), "vertices.source.emit_every", "has no effect on a source"),
        (
            vertex(2, selectivity=2.0, operator=flat_map(twice)),
            "vertices.sink.selectivity",
            "together with a user's function, which decides",
        ),
        (
            vertex(1, task_manager=()),
            f"{STAGE}.task_manager",
            "is empty; give the name of one or several task managers, or remove it",
        ),
        (vertex(1, task_manager=("a", "")), f"{STAGE}.task_manager", "is empty; give the name"),
        (
            edge(0, shares=(1.0, 2.0)),
            f"{TO_STAGE}.shares",
            "with rebalance; shares are possible with hash only",
        ),
        (
            edge(1, shares=(1.0, 2.0)),
            f"{TO_SINK}.shares",
            "has 2 shares for the 3 subtasks of sink; give one share for each subtask",
        ),
        (
            edge(1, shares=(1.0, -2.0, 2.0)),
            f"{TO_SINK}.shares",
            "; each share must be 0 or more, and at least one above 0",
        ),
        (
            edge(1, shares=(1.0, math.nan, 2.0)),
            f"{TO_SINK}.shares",
            "; each share must be 0 or more, and at least one above 0",
        ),
        (
            edge(1, shares=(0.0, 0.0, 0.0)),
            f"{TO_SINK}.shares",
            "; each share must be 0 or more, and at least one above 0",
        ),
        (
            edge(1, edge(2, KEYED, ship="hash"), shares=(1.0, 1.0, 1.0)),
            f"{TO_SINK}.ship",
            "use hash without shares",
        ),
        (edge(2, fraction=0.0), f"{SIDE}.fraction", "is 0; it must be above 0"),
        (edge(2, fraction=1.5), f"{SIDE}.fraction", "is 1.5; it must be"),
        (edge(2, fraction=math.nan), f"{SIDE}.fraction", "is nan; it must be"),
        (edge(2, fraction=0.5, ship="broadcast"), f"{SIDE}.fraction", "has no effect with broadcast"),
        (edge(1, fraction=0.5), f"{TO_SINK}.fraction", "; set the selectivity of that vertex instead"),
        (edge(2, input=-1), f"{SIDE}.input", "is -1; inputs are counted from 0"),
        (edge(2, selectivity=-0.5), f"{SIDE}.selectivity", "is -0.5; it must be 0"),
        (edge(2, service=((1.0, 0.1),)), f"{SIDE}.service", "the first must be at 0 s"),
        (edge(2, service=((0.0, -0.1),)), f"{SIDE}.service", "has a cost below 0"),
        (edge(2, USERS, selectivity=2.0), f"{SIDE}.selectivity", "sink runs a user's function"),
        (edge(2, USERS, service=((0.0, 0.1),)), f"{SIDE}.service", "sink runs a user's function"),
        (source(keys=Keys(number=0)), f"{OF_SOURCE}.keys.number", "is 0; it must be from 1"),
        (source(keys=Keys(number=10**12)), f"{OF_SOURCE}.keys.number", "or remove keys"),
        (source(keys=Keys(number=9, zipf=-1.0)), f"{OF_SOURCE}.keys.zipf", "is -1; it must be 0"),
        (source(keys=Keys(number=9, zipf=math.nan)), f"{OF_SOURCE}.keys.zipf", "is nan; it must be 0"),
        (
            source(keys=Keys(number=9, most_frequent=(0.5, -0.1))),
            f"{OF_SOURCE}.keys.most_frequent",
            "; each share must be from 0 to 1",
        ),
        (
            source(keys=Keys(number=9, most_frequent=(0.6, 0.6))),
            f"{OF_SOURCE}.keys.most_frequent",
            "has shares that add up to 1.2; they must add up to at most 1",
        ),
        (
            source(keys=Keys(number=1, most_frequent=(0.5, 0.5))),
            f"{OF_SOURCE}.keys.most_frequent",
            "has 2 shares for 1 keys",
        ),
        (
            source(keys=Keys(number=1, most_frequent=(0.0,))),
            f"{OF_SOURCE}.keys.most_frequent",
            "gives every key a share of 0",
        ),
        (source(burst_s=0.0), f"{OF_SOURCE}.burst", "is 0 s; it must be more"),
        (source(wave_s=-1.0), f"{OF_SOURCE}.wave", "it must be more than 0 s"),
        (
            source(burst_s=1.0, wave_s=1.0),
            f"{OF_SOURCE}.wave",
            "in waves or in bursts; remove one of the two",
        ),
        (
            source(burst_s=1.0, rates=(0.0,)),
            f"{OF_SOURCE}.burst",
            "needs a rate, but a rate of the source is 0 (as fast as possible); give a rate above 0",
        ),
        (
            source(wave_s=1.0, rates=(5.0, 0.0)),
            f"{OF_SOURCE}.wave",
            "needs a rate, but a rate of the source is 0 (as fast as possible); give a rate above 0",
        ),
        (source(batch=0), f"{OF_SOURCE}.batch", "is 0; it must be 1 record or more"),
        (source(cost_s=-1.0), f"{OF_SOURCE}.cost", "it must be 0 s or more"),
        (source(catch_up_s=-1.0, rates=(5.0,)), f"{OF_SOURCE}.catch_up", "it must be 0 s or more"),
        (source(catch_up_s=0.0, rates=(0.0,)), f"{OF_SOURCE}.catch_up", "has an effect only at an even rate"),
        (
            source(catch_up_s=0.0, rates=(5.0,), burst_s=1.0),
            f"{OF_SOURCE}.catch_up",
            "has an effect only at an even rate",
        ),
    ],
)
def test_nonsense_is_named_with_its_place_and_nothing_else(
    scenario: Scenario, key: str, message: str
) -> None:
    ((place, text),) = scenario_problems(scenario)
    assert place == key
    assert message in text
    assert "\n" not in text


def test_shares_need_no_key() -> None:
    names_no_key = SourceObject(source=CollectionSource([[b"a"]]))
    job = vertex(0, source=names_no_key)
    by_function = dataclasses.replace(
        job,
        vertices=(
            job.vertices[0],
            dataclasses.replace(job.vertices[1], operator=flat_map(twice)),
            job.vertices[2],
        ),
    )
    assert [place for place, _ in scenario_problems(by_function)] == [f"{TO_SINK}.ship"]
    assert scenario_problems(edge(1, by_function, shares=(1.0, 0.0, 2.0))) == []


def test_over_several_processes_a_vertex_is_in_one_task_manager() -> None:
    spread = dataclasses.replace(JOB, vertices=in_slots(JOB.vertices, 2))
    ((key, message),) = distribution_problems(spread)
    assert key == "vertices.sink.task_manager"
    assert message == (
        "is tm-1, tm-2, but over TCP all subtasks of a vertex run in one task manager; name one task "
        "manager here, and give no slots"
    )
    assert list(distribution_problems(JOB)) == []


def document(**top: Any) -> dict[str, Any]:
    return {
        "name": "job",
        "duration": "10 s",
        "vertices": [
            {"name": "source", "parallelism": 4, "source": {"record_bytes": 100}},
            {"name": "sink", "parallelism": 2},
        ],
        "edges": [{"from": "source", "to": "sink"}],
    } | top


def problem_of(written: dict[str, Any]) -> str:
    with pytest.raises(ScenarioError) as caught:
        read_scenario(written)
    (problem,) = caught.value.problems
    return problem


def test_subtasks_share_slots_by_their_groups() -> None:
    written = document(slots=2)
    together = read_scenario(written)
    assert [v.managers for v in together.vertices] == [("tm-1", "tm-2"), ("tm-1",)]
    written["vertices"][1]["slot_sharing_group"] = "sinks"
    written["vertices"].append({"name": "last", "parallelism": 3, "slot_sharing_group": "last"})
    written["edges"].append({"from": "source", "to": "last"})
    apart = read_scenario(written)
    assert [v.managers for v in apart.vertices] == [("tm-1", "tm-2"), ("tm-3",), ("tm-4", "tm-5")]
    assert apart.task_managers == ("tm-1", "tm-2", "tm-3", "tm-4", "tm-5")


def test_slots_that_mean_nothing_are_refused() -> None:
    huge = document(slots=2)
    huge["vertices"][1]["parallelism"] = 1 << 41  # as many names of task managers would fill the memory
    assert problem_of(huge) == "vertices.sink.parallelism: is 2199023255552; it must be from 1 to 32768"
    assert problem_of(document(slots=0)) == "slots: is 0; a task manager must have at least 1 slot"
    written = document()
    written["vertices"][1]["slot_sharing_group"] = "sinks"
    assert problem_of(written).startswith(
        "vertices.sink.slot_sharing_group: has no effect, since the scenario has no slots"
    )
    written["slots"] = 2
    written["vertices"][1]["task_manager"] = ["tm-1"]
    assert "remove one of the two" in problem_of(written)
    written = document(slots=2)
    written["vertices"][0] = {"name": "source", "source": {"path": "x.csv"}}
    assert problem_of(written).startswith(
        "vertices.source.parallelism: is missing, but the assignment of slots depends on it; "
        "give the number of subtasks"
    )
    written = document()
    written["vertices"][1]["task_manager"] = []
    assert problem_of(written).startswith("vertices.sink.task_manager: is empty; give the name")


positive = st.floats(1e-6, 1e6)
shares = st.floats(0.0, 1.0)
periods = st.none() | positive
names = st.sampled_from(["tm-1", "tm-2", "tm-3"])
steps = st.builds(lambda first, second: ((0.0, first), (7.5, second)), shares, shares) | shares.map(
    lambda cost: ((0.0, cost),)
)
all_keys = st.builds(
    Keys,
    number=st.integers(4, 1000),
    zipf=st.floats(0.0, 3.0),
    most_frequent=st.lists(st.floats(0.0, 0.25), max_size=4).map(tuple),
)
generators = st.builds(
    GeneratorSpec,
    record_bytes=st.integers(8, 5000),
    rates=st.lists(positive, min_size=1, max_size=3).map(tuple),
    keys=st.none() | all_keys,
    batch=st.integers(1, 9),
    legacy=st.booleans(),
    cost_s=st.none() | shares,
    catch_up_s=shares,
) | st.builds(GeneratorSpec, record_bytes=st.just(8), rates=st.just((2.0,)), burst_s=periods)
waving = st.builds(GeneratorSpec, record_bytes=st.just(8), rates=st.just((2.0,)), wave_s=periods)
placements = st.none() | names | st.lists(names, min_size=1, max_size=4).map(tuple)
courses = st.lists(st.tuples(positive, positive), max_size=4).map(tuple)
stages = st.builds(
    Vertex,
    name=st.just("stage"),
    parallelism=st.just(3),
    task_manager=placements,
    service=steps,
    selectivity=st.floats(0.0, 5.0),
    emission=st.sampled_from(EMISSIONS),
    record_bytes=st.none() | st.integers(8, 5000),
    emit_every_s=periods,
    service_mode=st.sampled_from(SERVICE_MODES),
    service_spread=st.floats(0, 0.4),
    course=courses,
    behind_s=st.lists(periods.map(lambda seconds: seconds or 0.0), min_size=1, max_size=3).map(tuple),
)
edges = st.builds(
    Edge,
    source=st.just("source"),
    target=st.just("stage"),
    ship=st.just("hash"),
    shares=st.just(()) | st.tuples(positive, shares, shares),
    fraction=st.floats(0.001, 1.0),
    input=st.integers(0, 3),
    selectivity=st.none() | st.floats(0.0, 5.0),
    service=st.none() | steps,
)


@given(st.floats(0.0, 1e3), st.floats(0.001, 1e3), st.integers(1, 5000).map(lambda ms: ms / 1e3))
def test_whatever_is_said_of_event_time_survives_a_file(
    disorder_s: float, size_s: float, interval_s: float
) -> None:
    job = windows(disorder_s=disorder_s, interval_s=interval_s, emit_every_s=size_s)
    assert read_scenario(json.loads(json.dumps(scenario_document(job)))) == job
    assert read_scenario(tomllib.loads(scenario_toml(job))) == job


@given(generators | waving, stages, st.lists(edges, min_size=2, max_size=3))
def test_whatever_is_said_of_a_real_job_survives_a_file(
    generator: GeneratorSpec, stage: Vertex, into: list[Edge]
) -> None:
    job = Scenario(
        name="job",
        duration_s=1.0,
        vertices=(Vertex(name="source", parallelism=2, source=generator), stage),
        edges=tuple(into),
        machines=(Machine(cores=1.5, task_managers=stage.managers),) if stage.burns else (),
    )
    assert read_scenario(json.loads(json.dumps(scenario_document(job)))) == job
    assert read_scenario(tomllib.loads(scenario_toml(job))) == job
