"""Jobs whose load changes while they are read, and steady ones, which vary as well."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from integration.base.errors import FlinkRestError, Note
from integration.flink import import_scenario
from integration.flink.fit.noted import Remark
from integration.flink.fit.overrides import EVERYWHERE, Overrides
from integration.flink.fit.steadiness import calm_moment, movement, unsteady
from integration.flink.fit.words import change_text, note_of
from integration.flink.http.client import RestClient
from integration.flink.read.checkpoints import EndedCheckpoints
from integration.flink.read.job import FlinkJob
from integration.flink.read.running_tasks import check_all_go_on
from integration.flink.read.samples import Round, SubtaskSamples
from netstack import CheckpointResult, GeneratorSpec, Scenario, Vertex, VertexCheckpoint
from tests.integration.flink.flink_cluster import NAMES, RECORDINGS, ReplayedCluster, Unserved, recording
from tests.integration.flink.test_flink_flows import edge_to, job

NOISY = [0.95, 1.02, 1.06, 0.97, 1.0, 1.03, 0.94, 1.01, 1.05, 0.98, 1.02]
"""Rates of a steady job, with the noise that recordings show."""

RAMP = [1000 * (1 + 0.02 * number) for number in range(11)]
"""Rates that rise by 20 % between the first value and the last."""

SHAPE = job(edge_to("source", "map", "REBALANCE"), edge_to("map", "sink", "REBALANCE"))
FITTED = Scenario(
    name="job",
    duration_s=10.0,
    vertices=(
        Vertex(name="source", source=GeneratorSpec(record_bytes=100)),
        Vertex(name="map"),
        Vertex(name="sink"),
    ),
)


def at_times(values: Sequence[float], every_s: float = 2.0) -> list[tuple[float, float]]:
    return [(every_s * number, value) for number, value in enumerate(values)]


def counted(field: str, rates: Sequence[float]) -> list[SubtaskSamples]:
    """Answers of one subtask, two seconds apart, that is idle."""
    totals = accumulate((2.0 * rate for rate in rates), initial=5000.0)
    answers = tuple(
        {field: total, "busy_ms": 0.0, "backpressured_ms": 0.0, "idle_ms": 2000.0 * number}
        for number, total in enumerate(totals)
    )
    return [SubtaskSamples(answers)]


def samples(source: Sequence[float], others: Sequence[float]) -> dict[str, list[SubtaskSamples]]:
    return {
        "source": counted("records_out", source),
        "map": counted("records_in", others),
        "sink": counted("records_in", others),
    }


def changes(*measured: Any) -> list[Note]:
    """The sentences on what changed."""
    return list(map(note_of, unsteady(SHAPE, *measured).remarks))


def waiting(delays_ms: Sequence[float]) -> list[CheckpointResult]:
    """Checkpoints whose barriers wait for so long before the map."""
    return [
        CheckpointResult(
            id=number,
            t=2.0 * number,
            checkpoint_type="CHECKPOINT",
            vertices=[
                VertexCheckpoint(name="source", start_delay_ms=[10.0], unaligned=[False]),
                VertexCheckpoint(name="map", start_delay_ms=[delay_ms], unaligned=[False]),
                VertexCheckpoint(name="sink", start_delay_ms=[20.0], unaligned=[False]),
            ],
        )
        for number, delay_ms in enumerate(delays_ms)
    ]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (RAMP, "rose by 20 % in 20 s (1 % per second)"),
        ([rate * noise for rate, noise in zip(RAMP, [1, 1.01, 0.99] * 4, strict=False)], "rose by 20 %"),
        (RAMP[::-1], "fell by 17 % in 20 s (0.83 % per second)"),
        ([1000, 1010, 990, 1000, 1005, 1300, 1290, 1310, 1300, 1305], "rose by "),
    ],
)
def test_a_change_that_stands_out_is_found(values, text):
    change = movement(at_times(values))
    remark = Remark("rate_changed", "source", {"change": change, "others": [], "repeated": []})
    assert note_of(remark).startswith(f"The rate of source {text}")


@pytest.mark.parametrize(
    "values",
    [
        NOISY,
        [5 * value - 4 for value in NOISY],
        [1000 * (1 + 0.008 * number) for number in range(11)],  # 8 %
        RAMP[:5],  # too few
        [1000.0] * 11,
        [0.0] * 11,
        [307.9, 528.8, 663.0, 665.8, 665.7, 204.6, 516.5, 668.7, 664.8, 398.4, 127.3],  # behind a window
        [0.9, 0.9, 2.0, 1.0, 1.1, 0.9, 1.2, 2.1, 1.3, 1.1],
    ],
)
def test_noise_and_small_changes_are_not(values):
    assert movement(at_times(values)) is None


def test_the_vertices_whose_rates_change_are_named():
    lines = changes(samples(RAMP, RAMP), (), FITTED)
    assert lines == [
        "The rate of source rose by 20 % in 20 s (1 % per second), and that of map, sink changed with it; "
        "predictions hold for this moment."
    ]


def test_a_queue_that_grows_is_named():
    delays = [500 + 25 * number for number in range(10)]
    lines = changes(samples([100.0] * 11, [100.0] * 11), waiting(delays), FITTED)
    assert lines == [
        "The queue before map grew: the wait of its barriers rose by 45 % in 18 s (2.5 % per second); "
        "predictions hold for this moment."
    ]


def test_waits_too_short_to_matter_are_not_judged():
    delays = [5 + number for number in range(10)]
    assert changes(samples([100.0] * 11, [100.0] * 11), waiting(delays), FITTED) == []


ALTERNATING_MS = [1.0] * 4 + [4.0] * 4 + [1.0] * 3
"""Costs of a record, in each of eleven intervals of two seconds, that alternate every eight seconds."""

MEAN_ASSUMED = "the emulation assumes the mean, so its figures are for a steady load."


def busy(costs_ms: Sequence[float]) -> list[SubtaskSamples]:
    """Answers of one subtask, two seconds apart, that is always busy."""
    totals = accumulate((2000.0 / cost for cost in costs_ms), initial=5000.0)
    answers = tuple(
        {"records_in": total, "busy_ms": 2000.0 * number, "backpressured_ms": 0.0, "idle_ms": 0.0}
        for number, total in enumerate(totals)
    )
    return [SubtaskSamples(answers)]


def test_a_cost_that_alternates_is_named_with_both_levels():
    seen = samples([100.0] * 11, [100.0] * 11) | {"map": busy(ALTERNATING_MS)}
    assert changes(seen, (), FITTED) == [
        "map: the cost of a record changed between 1.0 ms and 4.0 ms while the job was read (11 samples); "
        + MEAN_ASSUMED
    ]


def test_the_cost_of_a_window_whose_work_may_come_when_it_fires_is_not_judged():
    source, window, sink = SHAPE.vertices
    window = replace(window, description="Window(TumblingEventTimeWindows(2000), EventTimeTrigger, Count)")
    shape = replace(SHAPE, vertices=[source, window, sink])
    seen = samples([100.0] * 11, [100.0] * 11) | {"map": busy(ALTERNATING_MS)}
    assert unsteady(shape, seen, (), FITTED) == ({}, ())


def test_a_cost_that_rises_is_named():
    seen = samples([100.0] * 11, [100.0] * 11) | {"map": busy([1.0 + 0.03 * number for number in range(11)])}
    assert changes(seen, (), FITTED)[:1] == [
        "map: the cost of a record rose by 30 % in 20 s (1.5 % per second); predictions hold for this moment."
    ]


@pytest.mark.parametrize(
    "costs_ms",
    [
        [2.0 * noise for noise in NOISY],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.35, 1.0, 1.35, 1.0, 1.0, 1.0],
        [1.0, 4.0],  # too few
        [400.0, 1000.0, 500.0, 1000.0],  # too few records
    ],
)
def test_costs_within_their_sampling_errors_are_steady(costs_ms):
    seen = samples([100.0] * 11, [100.0] * 11) | {"map": busy(costs_ms)}
    assert changes(seen, (), FITTED) == []


def test_a_rate_of_a_source_that_alternates_is_named():
    lines = changes(samples([100.0] * 4 + [400.0] * 4 + [100.0] * 3, [100.0] * 11), (), FITTED)
    assert lines == [
        "The rate of source changed between 100 and 400 records/s while the job was read (11 samples); "
        + MEAN_ASSUMED
    ]


@pytest.mark.parametrize(("held_ms", "follows"), [(0.0, True), (500.0, False)])
def test_a_source_that_is_not_held_back_has_the_course_of_its_rate(held_ms: float, follows: bool) -> None:
    source = GeneratorSpec(record_bytes=100, rates=(200.0,))
    paced = replace(FITTED, vertices=(replace(FITTED.vertices[0], source=source), *FITTED.vertices[1:]))
    seen = samples([100.0, 400.0] * 4, [200.0] * 8)
    (answers,) = seen["source"]
    held = (sample | {"backpressured_ms": held_ms * at} for at, sample in enumerate(answers.samples))
    courses, remarks = unsteady(SHAPE, seen | {"source": [SubtaskSamples(tuple(held))]}, (), paced)
    assert courses == ({"source": ((2.0, 0.4), (2.0, 1.6)) * 4} if follows else {})
    assert [remark.kind for remark in remarks] == ["rate_alternated"]


def test_waits_that_alternate_are_named_also_if_the_metrics_show_nothing():
    delays = [500, 2000, 2100, 520, 490, 2050, 1900, 480, 510, 2000]
    lines = changes(samples([100.0] * 3, [100.0] * 3), waiting(delays), FITTED)
    assert lines == [
        "The queue before map grew and shrank: its barriers waited between 480 ms and 2.10 s in the last "
        "10 checkpoints; " + MEAN_ASSUMED
    ]
    assert changes(samples([100.0] * 3, [100.0] * 3), waiting([500] * 9 + [2000]), FITTED) == []


@pytest.mark.parametrize(
    ("completed", "p90_ms", "calm"),
    [(400, 2000.0, True), (400, 1400.0, False), (49, 2000.0, False), (400, None, False)],
)
def test_a_calm_moment_is_named(completed: int, p90_ms: float | None, calm: bool) -> None:
    last = [replace_duration(each, ms) for each, ms in zip(waiting([5.0] * 3), (700, 900, 1000), strict=True)]
    found = calm_moment(EndedCheckpoints(3, 0, completed, p90_ms), last)
    line = (
        "A tenth of all 400 checkpoints of the job took 2.00 s or more, but the last 3 at most 1.00 s: the "
        "job was read in a calm moment."
    )
    assert list(map(note_of, found)) == [line] * calm
    assert list(map(change_text, found)) == list(map(note_of, found))


def replace_duration(checkpoint: CheckpointResult, duration_ms: float) -> CheckpointResult:
    return msgspec.structs.replace(checkpoint, duration_ms=duration_ms)


def test_waits_for_windows_that_fire_rarely_are_not_judged():
    source, window, sink = FITTED.vertices
    windowed = replace(FITTED, vertices=(source, replace(window, emit_every_s=10.0), sink))
    seen = samples([100.0] * 3, [100.0] * 3)
    assert changes(seen, waiting([500, 2000] * 5), windowed) == []


def test_an_import_notes_a_cost_that_alternates():
    cluster = ReplayedCluster(recording("flink-2.3.0_merge_off"))

    def alternating(name: str, value: float, number: int) -> float | None:
        if name != "numRecordsIn":
            return None
        return 1e5 + sum(2000.0 if at // 4 % 2 else 8000.0 for at in range(number))

    for subtask in range(2):
        cluster.change_metrics("parse", subtask, alternating)
    joins = Overrides(inputs={EVERYWHERE: "join"})
    imported = import_scenario(Unserved(cluster), overrides=joins)
    assert imported.notes[: len(imported.unsteady)] == imported.unsteady
    assert imported.unsteady[0].startswith("parse: the cost of a record changed between ")
    assert imported.unsteady[0].endswith("; the emulation repeats the course of parse.")


def test_what_fires_rarely_is_not_judged():
    source, window, sink = FITTED.vertices
    windowed = replace(FITTED, vertices=(source, replace(window, emit_every_s=10.0), sink))
    lines = changes(samples([100.0] * 11, RAMP), (), windowed)
    assert lines == [
        "The rate of map rose by 20 % in 20 s (1 % per second); predictions hold for this moment."
    ]


def test_an_import_notes_a_change_first():
    cluster = ReplayedCluster(recording(NAMES[0]))
    cluster.let_queue_grow("stage1")
    imported = import_scenario(Unserved(cluster))
    assert imported.notes[:1] == imported.unsteady
    assert imported.unsteady[0].startswith("The queue before stage1 grew: the wait of its barriers rose by ")


STEADY = sorted(file for file in RECORDINGS.glob("*.json.gz") if "_peaks_" not in file.name)


@pytest.mark.parametrize("file", STEADY, ids=lambda file: file.name)
def test_recorded_jobs_are_steady(file, monkeypatch):
    monkeypatch.setattr("integration.flink.importing.unequal_inputs", lambda *_: [])
    joins = Overrides(inputs={EVERYWHERE: "join"})  # so that none is emulated
    assert import_scenario(file, overrides=joins).unsteady == []


VERTEX = SimpleNamespace(id="v", name="work", parallelism=2, managers=("tm0", "tm1"))
JOB = cast(FlinkJob, SimpleNamespace(id="j", vertices=[VERTEX]))
CLIENT = cast(RestClient, SimpleNamespace(url="http://cluster"))


def look(at: int, *samples: dict[str, float] | float | None) -> Round:
    """What both subtasks answered: all values, the time that they account for, or nothing."""
    answers: dict[tuple[str, int], Any] = {}
    for subtask, sample in enumerate(samples):
        if isinstance(sample, float | int):
            sample = {"busy_ms": sample, "idle_ms": 0.0, "backpressured_ms": 0.0}
        if sample is not None:
            answers["v", subtask] = (float(at), sample)
    return answers


def check(looks: list[Round], more: list[Round]) -> None:
    further = iter(more)
    check_all_go_on(CLIENT, JOB, looks, lambda: next(further), at_each_poll=True)


def test_a_task_whose_account_stands_still_while_another_goes_on_has_fallen_silent() -> None:
    looks = [look(at, 10 * at, 10 * min(at, 3)) for at in range(6)]
    with pytest.raises(FlinkRestError, match=r"subtask 1 of 'work' stopped reporting .* task manager tm1"):
        check(looks, [look(at, 10 * at, 30) for at in range(6, 9)])


def test_one_that_does_not_answer_has_fallen_silent_too() -> None:
    looks = [look(at, 10 * at, 10 * at if at < 3 else None) for at in range(6)]
    with pytest.raises(FlinkRestError, match="stopped reporting"):
        check(looks, [look(at, 10 * at, None) for at in range(6, 9)])


def test_where_all_stand_still_as_behind_the_end_of_a_recording_nobody_has_fallen_silent() -> None:
    looks = [look(at, 10 * at, 10 * min(at, 4)) for at in range(6)]
    check(looks, [look(at, 50, 40) for at in range(6, 9)])


def test_one_that_goes_on_at_a_look_more_was_only_late() -> None:
    looks = [look(at, 10 * at, 10 * min(at, 3)) for at in range(6)]
    check(looks, [look(at, 10 * at, 10 * at) for at in range(6, 9)])


def test_an_account_that_stands_still_while_records_go_on_is_none() -> None:
    kept = {"busy_ms": 0.0, "idle_ms": 5.0, "backpressured_ms": 0.0}
    looks = [look(at, 10 * at, kept | {"records_out": 7.0 * at}) for at in range(6)]
    check(looks, [look(at, 10 * at, kept | {"records_out": 7.0 * at}) for at in range(6, 9)])


def test_who_tells_only_part_of_an_account_from_some_look_on_has_not_fallen_silent() -> None:
    looks = [look(at, 10 * at, 10 * at if at < 3 else {"busy_ms": 20.0}) for at in range(6)]
    check(looks, [look(at, 10 * at, {"busy_ms": 20.0}) for at in range(6, 9)])
