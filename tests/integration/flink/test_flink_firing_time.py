"""By which time the windows of an imported job fire: told by the watermarks of its tasks."""

import pytest

from integration.flink.fit.event_time import by_event_time
from integration.flink.fit.words import note_of
from integration.flink.read.samples import SubtaskSamples
from netstack import GeneratorSpec, Vertex
from tests.integration.flink.test_flink_flows import edge_to, job, samples

ERA_MS = 1_795_313_488_696.0
LEAST = float(-(1 << 63))
SHAPE = job(
    edge_to("orders", "parse", "REBALANCE"),
    edge_to("parse", "window", "HASH"),
    edge_to("rates", "window", "HASH"),
    edge_to("window", "sink", "REBALANCE"),
)
NAMES = {vertex.id: vertex.id for vertex in SHAPE.vertices}


def looks(field: str, *values: float) -> SubtaskSamples:
    return samples(*({field: value} for value in values))


def going_on(pace: float = 1.0) -> SubtaskSamples:
    """Twelve looks a second apart at a watermark that goes on by so many seconds a second."""
    return looks("currentInputWatermark", *(ERA_MS + 1000.0 * pace * number for number in range(12)))


def seen(**changes: list[SubtaskSamples]) -> dict[str, list[SubtaskSamples]]:
    told = {
        "orders": [looks("watermarkLag", 420, 230, 390), looks("watermarkLag", 251, 377, 301)],
        "rates": [looks("watermarkLag", 1190, 1040, 1130)],
        "window": [going_on(), going_on()],
    }
    nothing = {name: [looks("records_in", 1, 2)] for name in NAMES}
    return nothing | told | changes


def read(
    notes: list[str] | None = None, period_s: float = 5.0, **changes: list[SubtaskSamples]
) -> dict[str, Vertex]:
    vertices = [
        Vertex(
            name=vertex.id,
            source=None if SHAPE.inputs(vertex) else GeneratorSpec(record_bytes=100),
            emit_every_s=period_s if vertex.id == "window" else None,
        )
        for vertex in SHAPE.vertices
    ]
    fitted, remarks = by_event_time(SHAPE, seen(**changes), vertices)
    if notes is not None:
        notes += map(note_of, remarks)
    return {vertex.name: vertex for vertex in fitted}


def disorder_s(vertices: dict[str, Vertex]) -> list[float | None]:
    sources = [vertices[name].source for name in ("orders", "rates")]
    return [source.out_of_orderness_s for source in sources if source is not None]


def test_windows_behind_watermarks_that_go_on_fire_by_event_time():
    notes: list[str] = []
    vertices = read(notes)
    assert [vertex.name for vertex in vertices.values() if vertex.emits_by_event_time] == ["window"]
    assert disorder_s(vertices) == [0.23, 1.0]
    assert notes == []


@pytest.mark.parametrize(
    "window",
    [
        [looks("currentInputWatermark", LEAST, LEAST, LEAST)],  # nobody sends watermarks
        [going_on(), looks("currentInputWatermark", LEAST, LEAST)],
        [looks("currentInputWatermark", *[ERA_MS] * 12)],
        [looks("currentInputWatermark", LEAST, ERA_MS, ERA_MS + 1000)],  # the first one came meanwhile
        [looks("currentInputWatermark", ERA_MS, 2.0**63)],  # the input has ended
        [going_on(0.1)],
        [going_on(30.0)],  # old data is read, as fast as possible
        [looks("records_in", 1, 2)],
        [SubtaskSamples(())],
    ],
)
def test_where_watermarks_are_not_known_to_go_on_windows_fire_by_the_clock(window: list[SubtaskSamples]):
    vertices = read(window=window)
    assert not any(vertex.emits_by_event_time for vertex in vertices.values())
    assert disorder_s(vertices) == [None, None]


def test_a_lag_beyond_whole_windows_is_that_of_old_data():
    day = [looks("watermarkLag", 86_400_420, 86_400_330)]
    assert disorder_s(read(rates=day)) == [0.23, 0.33]


def test_a_source_that_does_not_tell_its_lag_is_noted():
    notes: list[str] = []
    assert disorder_s(read(notes, rates=[looks("records_out", 1, 2)])) == [0.23, 0.0]
    assert notes == ["rates: the lag of its watermarks is not reported; assuming no lag."]


def test_what_does_not_hold_back_its_records_is_left_alone():
    vertices = read(parse=[going_on()], sink=[going_on()])
    assert [vertex.emit_by for vertex in vertices.values()].count("event_time") == 1
