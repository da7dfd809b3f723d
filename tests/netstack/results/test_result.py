import json

import msgspec
import pytest

from netstack import (
    CheckpointResult,
    CollectionSource,
    Edge,
    GeneratorSpec,
    Result,
    Scenario,
    Series,
    SourceObject,
    Steady,
    Vertex,
    VertexCheckpoint,
    VertexSteady,
    Work,
    from_json,
    map_records,
    payload_hash,
    scenario_problems,
    to_json,
)
from netstack.scenarios.user_code import NamedObject

RESULT = Result(
    scenario=Scenario(
        name="x",
        duration_s=60.0,
        vertices=(Vertex(name="s", parallelism=2, source=GeneratorSpec(record_bytes=100)),),
    ),
    preset="flink-2.2",
    clock="virtual",
    seed=1,
    emulated_seconds=60.0,
    wall_seconds=0.9,
    work=Work(buffers=3, records=100, bytes=98304, messages=7),
    checkpoints=[
        CheckpointResult(
            id=1, t=2.0, duration_ms=12.5, vertices=[VertexCheckpoint(name="s", end_to_end_ms=[1.0, None])]
        )
    ],
    steady=[Steady(from_s=20.0, to_s=60.0, checkpoints=1, vertices=[VertexSteady(name="s", parallelism=2)])],
    series=[Series(vertex="s", t=[0.0, 1.0], numRecordsIn=[[0, 5], [0, 6]])],
)


def test_a_result_survives_the_way_to_json_and_back():
    assert from_json(to_json(RESULT)) == RESULT


def test_equal_results_give_equal_bytes():
    assert to_json(RESULT) == to_json(from_json(to_json(RESULT)))


def test_the_document_has_the_fields_that_were_agreed_on():
    document = msgspec.json.decode(to_json(RESULT))
    assert document["schema"] == "netstack.result/1"
    assert {
        "scenario",
        "preset",
        "clock",
        "seed",
        "emulated_seconds",
        "wall_seconds",
        "work",
        "checkpoints",
        "steady",
        "series",
    } <= document.keys()
    assert document["work"].keys() == {"buffers", "records", "bytes", "messages"}
    checkpoint = document["checkpoints"][0]
    assert {
        "id",
        "t",
        "status",
        "duration_ms",
        "processed_bytes",
        "persisted_bytes",
        "vertices",
    } <= checkpoint.keys()
    assert checkpoint["vertices"][0].keys() == {
        "name",
        "end_to_end_ms",
        "start_delay_ms",
        "alignment_ms",
        "sync_ms",
        "async_ms",
        "alignment_processed_bytes",
        "alignment_persisted_bytes",
        "unaligned",
    }
    steady = document["steady"][0]
    assert {
        "from_s",
        "to_s",
        "checkpoints",
        "end_to_end_ms",
        "processed_bytes",
        "persisted_bytes",
    } <= steady.keys()
    assert {
        "name",
        "parallelism",
        "start_delay_ms",
        "start_delay_ms_max_subtask",
        "alignment_ms",
        "alignment_ms_max_subtask",
        "records_in_per_s",
        "bytes_in_per_s",
        "debloatedBufferSize",
        "estimatedTimeToConsumeBuffersMs",
        "inputQueueLength",
        "inPoolUsage",
        "outPoolUsage",
        "outputQueueLength",
        "backpressured_ms_per_s",
        "busy_ms_per_s",
        "idle_ms_per_s",
    } <= steady["vertices"][0].keys()


def test_series_leave_out_metrics_that_do_not_exist():
    assert "debloatedBufferSize" not in msgspec.json.decode(to_json(RESULT))["series"][0]


@pytest.mark.parametrize(
    ("document", "message"),
    [(b"{", "truncated"), (b"[]", "Expected `object`"), (b"{}", "missing required field `scenario`")],
)
def test_what_is_no_result_is_refused(document, message):
    with pytest.raises(ValueError, match=message):
        from_json(document)


def test_another_schema_is_refused():
    other = msgspec.structs.replace(RESULT, schema="netstack.result/9")
    with pytest.raises(ValueError, match=r"netstack\.result/9.*this version reads only 'netstack\.result/1'"):
        from_json(to_json(other))


def test_a_result_with_python_objects_names_them_and_cannot_be_run():
    vertices = (
        Vertex(name="s", source=SourceObject(source=CollectionSource([[b"a"]]), rates=(5.0,))),
        Vertex(name="x", operator=map_records(bytes.upper)),
    )
    edges = (Edge(source="s", target="x", ship="hash", key_hash=payload_hash),)
    scenario = Scenario(name="objects", duration_s=60.0, vertices=vertices, edges=edges)
    written = to_json(
        msgspec.structs.replace(RESULT, scenario=scenario, checkpoints=[], steady=[], series=[])
    )

    read = from_json(written)

    assert read.scenario.vertices[0].source == SourceObject(
        source=NamedObject("CollectionSource"), rates=(5.0,)
    )
    assert to_json(read) == written
    assert [key for key, _ in scenario_problems(read.scenario)] == [
        "vertices.s.source.object",
        "vertices.x.operator",
        "edges.s->x.key_hash",
    ]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("duration", "soon", "duration: 'soon' is not a number with a unit"),
        ("edges", [{"from": "s", "to": "nobody"}], "edges.s->nobody.to: no vertex is named 'nobody'"),
        ("colour", "red", "colour: is not a key of this table"),
    ],
)
def test_a_result_whose_scenario_makes_no_sense_is_refused(key, value, problem):
    document = msgspec.json.decode(to_json(RESULT))
    document["scenario"][key] = value
    with pytest.raises(ValueError, match=f"the scenario in the result is not valid: {problem}"):
        from_json(msgspec.json.encode(document))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("preset",), "flink-9", "preset: 'flink-9' is unknown"),
        (
            ("checkpoints", 0, "vertices", 0, "name"),
            "y",
            r"checkpoints\.0\.vertices: are y, but the scenario has s",
        ),
        (
            ("checkpoints", 0, "vertices", 0, "end_to_end_ms"),
            [1.0] * 3,
            ": has 3 values, but the vertex has 2 subtasks",
        ),
        (
            ("steady", 0, "vertices", 0, "busy_ms_per_s"),
            [1.0],
            r"steady\.0\.vertices\.s\.busy_ms_per_s: has 1 val",
        ),
        (("series", 0, "vertex"), "y", r"series\.0\.vertex: 'y' is not a vertex of the scenario"),
        (
            ("series", 0, "numRecordsIn"),
            [[1, 2]],
            r"series\.0\.numRecordsIn: has 1 values, but the vertex has 2 subtasks",
        ),
        (("series", 0, "t"), [0.0], r"series\.0\.numRecordsIn: does not have one sample for each time"),
        (("work", "bytes"), 10**30, "Expected `int` <= 9223372036854775807"),
        (("scenario", "vertices", 0, "selectivity"), 10**400, "selectivity: is too large|[Ii]nteger|number"),
    ],
)
def test_results_that_are_none_of_their_scenario_are_refused(place, value, message):
    document = json.loads(to_json(RESULT))
    *outer, last = place
    table = document
    for key in outer:
        table = table[key]
    table[last] = value
    with pytest.raises(ValueError, match=message):
        from_json(json.dumps(document))
