"""When the windows of an imported job work: for each record read, or when they fire."""

from dataclasses import replace
from math import exp, lcm

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from integration.flink.fit.alternatives import changed, nearest
from integration.flink.fit.fit_scenario import checkpoints_from_s
from integration.flink.fit.overrides import Overrides
from integration.flink.fit.window_work import (
    fires_by_watermarks,
    firing,
    keys_of_windows,
    unknown_windows,
    with_windows,
)
from integration.flink.fit.words import note_of
from netstack import CheckpointResult, Edge, GeneratorSpec, NetworkConfig, Scenario, Vertex
from tests.integration.flink.test_flink_flows import edge_to, job
from tests.integration.flink.test_union_or_join import shown

SOURCE = GeneratorSpec(record_bytes=4000, rates=(130.0,))
ALIGNED = NetworkConfig(checkpoint_interval_s=2.0)
"""Checkpoints at the period of the windows."""

READS = Scenario(
    name="windows",
    duration_s=40.0,
    warmup_s=10.0,
    config=NetworkConfig(checkpoint_interval_s=1.3),
    vertices=(
        Vertex(name="events", source=SOURCE),
        Vertex(name="window", service=((0.0, 0.006),), emit_every_s=2.0),
        Vertex(name="sink"),
    ),
    edges=(Edge(source="events", target="window"), Edge(source="window", target="sink")),
)
WINDOW = replace(READS.vertices[1], service=(), emit_cost_s=0.006)
FIRES = replace(READS, vertices=(READS.vertices[0], WINDOW, READS.vertices[2]))


@pytest.mark.parametrize(("truth", "when"), [(FIRES, "when they fire"), (READS, "for each record read")])
def test_the_work_whose_emulation_is_nearer_is_taken(truth: Scenario, when: str) -> None:
    taken, remarks = nearest(READS, [firing({"window": 2.0}, FIRES)], shown(truth))
    assert changed(READS, taken) == truth
    (note,) = map(note_of, remarks)
    assert note.startswith(
        f"window: Flink does not report when its windows work; assuming {when}, which is nearer to "
    )
    assert "; emulated with work when they fire " in note


@pytest.mark.parametrize(
    ("description", "given", "found"),
    [
        (
            "Window(TumblingEventTimeWindows(2000), EventTimeTrigger, Summed)<br/>",
            Overrides(),
            {"window": 2.0},
        ),
        ("Window(SlidingProcessingTimeWindows(60000, 5000), ...)", Overrides(), {"window": 5.0}),
        ("Window(EventTimeSessionWindows(500), EventTimeTrigger, Summed)", Overrides(), {"window": 0.2}),
        ("WindowAggregate(window=[TUMBLE(time_col=[ts], size=[10 s])], select=[...])", Overrides(), {}),
        ("Map", Overrides(), {}),
        ("Window(TumblingEventTimeWindows(2000), ...)", Overrides(window_s={"window": 3.0}), {}),
        ("Window(TumblingEventTimeWindows(2000), ...)", Overrides(service_s={"": 0.001}), {}),
    ],
)
def test_a_window_of_a_datastream_is_known_by_its_description(
    description: str, given: Overrides, found: dict[str, float]
) -> None:
    shape = job(edge_to("events", "window", "HASH"), edge_to("window", "sink", "REBALANCE"))
    vertices = [
        replace(vertex, description=description if vertex.id == "window" else "") for vertex in shape.vertices
    ]
    assert unknown_windows(replace(shape, vertices=tuple(vertices)), READS, shown(READS), given) == found


def test_of_the_lags_of_watermarks_the_nearest_is_taken() -> None:
    def by_event_time(lag_s: float) -> Scenario:
        events = replace(READS.vertices[0], source=replace(SOURCE, out_of_orderness_s=lag_s))
        window = replace(WINDOW, emit_by="event_time")
        return replace(FIRES, vertices=(events, window, READS.vertices[2]), checkpoints_from_s=1.0)

    truth, read = replace(by_event_time(0.4), config=ALIGNED), replace(by_event_time(1.6), config=ALIGNED)
    taken, _ = nearest(replace(READS, config=ALIGNED), [firing({"window": 2.0}, read)], shown(truth))
    assert changed(READS, taken).vertices == truth.vertices


@given(st.integers(1, 10**5), st.integers(1, 10**5))
def test_the_number_of_keys_follows_from_records_and_results(keys: int, records: int) -> None:
    different = keys * (1 - exp(-records / keys))
    assume(0.001 < different / records < 0.98)
    assert keys_of_windows(records, different / records) == pytest.approx(keys, rel=0.002)


@pytest.mark.parametrize(
    ("description", "keys"),
    [
        ("Window(TumblingEventTimeWindows(2000), EventTimeTrigger, Summed)", 100),
        ("Window(SlidingEventTimeWindows(4000, 2000), EventTimeTrigger, Summed)", None),
        ("Window(EventTimeSessionWindows(500), EventTimeTrigger, Summed)", None),
    ],
)
def test_keys_are_those_of_the_records_since_the_last_firing(description: str, keys: int | None) -> None:
    share = 100 * (1 - exp(-2.6)) / 260  # 130 records per second, in windows of 2 s
    fitted = fires_by_watermarks(replace(WINDOW, selectivity=share), description, 130.0)
    assert (fitted.emit_by, fitted.emit_keys) == ("event_time", keys)
    assert fitted.selectivity == (1.0 if keys else share)
    unknown = fires_by_watermarks(replace(WINDOW, selectivity=share), description, None)
    assert (unknown.emit_keys, unknown.selectivity) == (None, share)


def test_a_window_that_hardly_works_makes_no_difference() -> None:
    shape = job(edge_to("events", "window", "HASH"), edge_to("window", "sink", "REBALANCE"))
    window = "Window(TumblingEventTimeWindows(2000), EventTimeTrigger, Counted)"
    described = replace(shape, vertices=tuple(replace(each, description=window) for each in shape.vertices))
    idle = replace(READS, vertices=(READS.vertices[0], replace(WINDOW, emit_cost_s=0.0), READS.vertices[2]))
    assert unknown_windows(described, idle, shown(idle), Overrides()) == {}


def test_an_override_stays_beside_the_windows_that_are_tried() -> None:
    given = Overrides(window_s={"other": 5.0})
    assert with_windows(given, {"window": 2.0}).window_s == {"window": 2.0, "other": 5.0}


@given(
    st.integers(1, 10**6),
    st.lists(st.integers(1, 60), max_size=2),
    st.integers(1, 60),
    st.integers(0, 10**12),
    st.lists(st.integers(0, 50), min_size=1, max_size=9),
)
def test_checkpoints_come_at_the_same_times_within_windows_as_in_flink(
    running_since_ms: int, windows_s: list[int], interval_s: int, first_ms: int, numbers: list[int]
) -> None:
    shape = replace(job(edge_to("events", "window", "HASH")), running_since_ms=running_since_ms)
    vertices = [replace(WINDOW, emit_every_s=float(size_s)) for size_s in windows_s]
    triggers_ms = [first_ms + 1000 * interval_s * number for number in numbers]
    checkpoints = [checkpoint((each - running_since_ms) / 1e3) for each in triggers_ms]
    from_s = checkpoints_from_s(shape, checkpoints, float(interval_s), vertices)
    if not windows_s:
        assert from_s is None
        return
    assert from_s is not None
    assert 0 <= from_s < interval_s
    together_ms = 1000 * lcm(*windows_s)

    def phases_ms(of_first_ms: int) -> set[int]:
        return {(of_first_ms + 1000 * interval_s * number) % together_ms for number in range(lcm(*windows_s))}

    assert phases_ms(round(from_s * 1e3)) == phases_ms(first_ms)


def test_a_checkpoint_that_waited_for_another_one_does_not_count() -> None:
    checkpoints = [checkpoint(at_s) for at_s in (100.3, 102.3, 104.9, 106.3, 108.8)]
    shape = replace(job(edge_to("events", "window", "HASH")), running_since_ms=0)
    assert checkpoints_from_s(shape, checkpoints, 2.0, [WINDOW]) == pytest.approx(0.3)


def checkpoint(at_s: float) -> CheckpointResult:
    return CheckpointResult(id=1, t=at_s, status="COMPLETED", duration_ms=10.0, vertices=[])
