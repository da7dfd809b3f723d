"""Unions and joins, which Flink's REST API describes alike: names, overrides, and the emulation of both."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from integration.base.errors import FlinkRestError, UsageError
from integration.cli.running_job_options import ReadingOptions
from integration.flink import import_scenario
from integration.flink.fit.alternatives import changed, nearest
from integration.flink.fit.edges import edges_of
from integration.flink.fit.exchange_flows import JobFlows
from integration.flink.fit.noted import Noted
from integration.flink.fit.overrides import EVERYWHERE, Overrides, check_names
from integration.flink.fit.union_or_join import input_kinds, kind_by_name, unions
from integration.flink.fit.words import note_of
from integration.flink.read.job import FlinkVertex
from integration.flink.read.measurements import Measured
from netstack import Edge, GeneratorSpec, NetworkConfig, Scenario, Vertex, emulate
from tests.integration.flink.flink_cluster import RECORDINGS
from tests.integration.flink.test_flink_flows import edge_to, grown, job, samples

UNION = Scenario(
    name="merge",
    duration_s=30.0,
    warmup_s=10.0,
    config=NetworkConfig(checkpoint_interval_s=1.0),
    vertices=(
        Vertex(name="fast", source=GeneratorSpec(record_bytes=2000, rates=(0.0,))),
        Vertex(name="paced", source=GeneratorSpec(record_bytes=2000, rates=(50.0,))),
        Vertex(name="parse", service=((0.0, 0.002),)),
    ),
    edges=(
        Edge(source="fast", target="parse", ship="rebalance"),
        Edge(source="paced", target="parse", ship="rebalance"),
    ),
)
"""A fast and a paced source of a vertex that is always busy."""

JOIN = replace(UNION, edges=(UNION.edges[0], replace(UNION.edges[1], input=1)))


def shown(scenario: Scenario) -> Measured:
    """The figures of a job that behaves like the scenario."""
    result = emulate(scenario, seed=7)
    figures = {"url": "u", "job": "j", "job_name": "merge", "flink": "2.3.0"}
    return Measured(**figures, steady=result.steady[0], checkpoints=result.checkpoints)


def with_input_kinds(
    scenario: Scenario, undecided: list[str], figures: Measured, *emulating
) -> Noted[Scenario]:
    taken, remarks = nearest(scenario, unions(scenario, undecided), figures, *emulating)
    return Noted(changed(scenario, taken), remarks)


def inputs(scenario: Scenario) -> list[int]:
    return [edge.input for edge in scenario.edges]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Map -> Sink: Writer", "union"),
        ("Timestamps/Watermarks -> parse", "union"),
        ("orders: Writer -> orders: Committer", "union"),
        ("Window(TumblingEventTimeWindows(5000), EventTimeTrigger) -> Map", "union"),
        ("TumblingEventTimeWindows -> Map", "union"),
        ("DynamicProcessingTimeSessionWindows", "union"),
        ("UserWindows", None),
        ("Co-Keyed-Process -> Map", "join"),
        ("Interval Join [Async]", "join"),
        ("LookupJoin[7] -> Calc[8]", "union"),
        ("TemporalJoin[7]", "join"),
        ("MultipleInput[9]", "join"),
        ("JoinedRows[6]: Writer", "union"),
        ("GroupAggregate(groupBy=[id], select=[id])", "union"),
        ("Join(joinType=[InnerJoin], where=[(id = id0)])", "join"),
        ("ProcessTableFunction[5]", None),
        ("parse", None),
        ("Mapper", None),
    ],
)
def test_names_that_flink_gives_tell_a_union_from_a_join(name, kind):
    assert kind_by_name(FlinkVertex(id="v", name=name, parallelism=1)) == kind


@pytest.mark.parametrize(("truth", "kind"), [(UNION, "union"), (JOIN, "join")])
def test_the_kind_whose_emulation_is_nearer_is_taken(truth, kind):
    calls: list[tuple[float, float]] = []
    found, remarks = with_input_kinds(JOIN, ["parse"], shown(truth), lambda *call: calls.append(call))
    assert inputs(found) == inputs(truth)
    assert found.duration_s == JOIN.duration_s
    other = {"union": "join", "join": "union"}[kind]
    (note,) = map(note_of, remarks)
    assert note.startswith(
        f"parse reads 2 exchanges; assuming a {kind}, which is nearer to what Flink reports ("
    )
    assert note.endswith(f"). Set inputs={{'parse': '{other}'}} to override.")
    assert calls[0] == (0.0, 40.0)
    assert calls[-1] == (40.0, 40.0)
    assert calls == sorted(calls)


def test_the_note_has_the_figure_that_decides():
    (remark,) = with_input_kinds(JOIN, ["parse"], shown(UNION)).remarks
    assert "mean start delay of parse" in note_of(remark)
    assert "; emulated as a union " in note_of(remark)


def test_without_a_difference_it_is_a_join():
    idle = replace(JOIN.vertices[0], source=GeneratorSpec(record_bytes=2000, rates=(50.0,)))
    quiet = replace(JOIN, vertices=(idle, *JOIN.vertices[1:]))
    found, remarks = with_input_kinds(quiet, ["parse"], shown(quiet))
    assert inputs(found) == [0, 1]
    assert list(map(note_of, remarks)) == [
        "parse reads 2 exchanges; assuming a join, since a union has about the same effect. "
        "Set inputs={'parse': 'union'} to override."
    ]


@pytest.mark.parametrize(
    ("join", "union", "kind"), [(5.0, 3.9, "union"), (5.0, 4.1, "join"), (11.0, 9.9, "join")]
)
def test_a_difference_counts_by_tolerances_and_by_the_distance_of_both(
    join: float, union: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    distances = iter((join, union))

    def rows(*_: object) -> list[SimpleNamespace]:
        ours, flink = SimpleNamespace(median=next(distances) / 2), SimpleNamespace(median=0.0)
        row = SimpleNamespace(
            ours=ours, flink=flink, tolerance=1.0, vertex="parse", quantity="delay", unit="ms"
        )
        return [row, row]

    monkeypatch.setattr("integration.flink.fit.alternatives._rows", rows)
    decided = with_input_kinds(JOIN, ["parse"], shown(UNION))
    assert inputs(decided.value) == ([0, 0] if kind == "union" else [0, 1])


def test_a_job_that_takes_too_long_to_emulate_is_not_emulated(monkeypatch):
    monkeypatch.setattr("integration.flink.fit.alternatives._MOST_RECORDS", 1000)
    figures = shown(UNION)
    monkeypatch.setattr("integration.flink.fit.alternatives.emulate", None)
    found, (remark,) = with_input_kinds(JOIN, ["parse"], figures)
    assert inputs(found) == [0, 1]
    assert "assuming a join, since emulating both takes too long." in note_of(remark)


def test_a_job_that_cannot_be_emulated_is_read_as_a_join():
    figures = shown(UNION)
    small = replace(JOIN, config=replace(JOIN.config, network_memory_max_bytes=1 << 15))
    found, (remark,) = with_input_kinds(small, ["parse"], figures)
    assert inputs(found) == [0, 1]
    assert "assuming a join, since emulations of both cannot be compared." in note_of(remark)


@pytest.mark.long
def test_the_recorded_union_is_found_and_predicted():
    """Its operator has a name of the user's. Taken for a join, its start delay would be about 20 ms."""
    imported = import_scenario(RECORDINGS / "flink-2.3.0_merge_off.json.gz")
    assert [edge.input for edge in imported.scenario.edges if edge.target == "parse"] == [0, 0]
    assert any(
        note.startswith("parse reads 2 exchanges; assuming a union, which is") for note in imported.notes
    )
    predicted, flink = (
        next(vertex for vertex in figures.vertices if vertex.name == "parse")
        for figures in (emulate(imported.scenario).steady[0], imported.measured.steady)
    )
    assert predicted.start_delay_ms_mean_subtask == pytest.approx(flink.start_delay_ms_mean_subtask, rel=0.15)
    assert sum(predicted.records_in_per_s) == pytest.approx(sum(flink.records_in_per_s), rel=0.03)


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        ({}, [0, 1]),
        ({"parse": "union"}, [0, 0]),
        ({EVERYWHERE: "union"}, [0, 0]),
        ({"parse": "join"}, [0, 1]),
    ],
)
def test_an_override_decides_first(given, numbers):
    shape = job(edge_to("clicks", "parse", "REBALANCE"), edge_to("views", "parse", "REBALANCE"))
    seen = {
        name: [samples(*grown(field, 100))]
        for name, field in (("clicks", "records_out"), ("views", "records_out"), ("parse", "records_in"))
    }
    overrides = Overrides(inputs=given)
    edges, remarks = edges_of(shape, JobFlows(shape, seen), overrides)
    assert [edge.input for edge in edges] == numbers
    assert remarks == ()
    assert input_kinds(shape, overrides) == {"parse": next(iter(given.values()), None)}


def test_an_override_needs_a_vertex_with_several_exchanges():
    shape = job(edge_to("clicks", "parse", "REBALANCE"))
    with pytest.raises(FlinkRestError) as error:
        check_names(Overrides(inputs={"parse": "union"}), shape)
    assert error.value.problems == (
        "parse: no vertex that reads several exchanges has this name; the job has none. Remove inputs.",
    )


def test_the_option_takes_the_two_kinds():
    options = ReadingOptions(inputs=("parse:union", "join"))
    assert options.overrides().inputs == {"parse": "union", EVERYWHERE: "join"}
    with pytest.raises(UsageError, match="--inputs outer: 'outer' is unknown; it must be one of union, join"):
        ReadingOptions(inputs=("parse:outer",)).overrides()
