import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from integration.base.reading import load_scenario
from netstack import (
    Edge,
    GeneratorSpec,
    Recorder,
    Scenario,
    Vertex,
)
from netstack.jobs.result_figures import checkpoint_results, series_results, steady_results
from netstack.results.recorder import LEAST_ROWS, CheckpointHead, SubtaskSample, Table
from netstack.results.result import SubtaskCheckpoint

REFERENCES = Path(__file__).parents[2] / "data/flink-reference"
SCENARIO = Scenario(
    name="job",
    duration_s=10.0,
    vertices=(
        Vertex(name="stage1", parallelism=2),
        Vertex(name="source", source=GeneratorSpec(record_bytes=8)),
    ),
    edges=(Edge(source="source", target="stage1"),),
)
"""The source comes last, so that results have to put it first."""


def part(delay_s: float, **fields: Any) -> SubtaskCheckpoint:
    return SubtaskCheckpoint(end_to_end_s=delay_s + 0.005, start_delay_s=delay_s, **fields)


def record_checkpoint(
    recorder: Recorder, checkpoint_id: int, at: float, delays: list[float], **fields: Any
) -> None:
    """A checkpoint in which the stage's subtasks had those start delays, and the source 10 ms."""
    parts = {(0, subtask): part(delay, **fields) for subtask, delay in enumerate(delays)}
    head = CheckpointHead(checkpoint_id, at, max(delays) + 0.005)
    recorder.checkpoint(head, parts | {(1, 0): part(0.010)})


@pytest.fixture
def recorder() -> Recorder:
    return Recorder([2, 1])


def test_medians_are_over_the_checkpoints_triggered_in_the_window(recorder):
    record_checkpoint(recorder, 1, 0.5, [9.0, 9.0])
    record_checkpoint(recorder, 2, 2.0, [0.1, 0.3], alignment_s=0.02, alignment_processed_bytes=100)
    record_checkpoint(recorder, 3, 4.0, [0.2, 0.6], alignment_s=0.04, alignment_processed_bytes=200)
    record_checkpoint(recorder, 4, 9.9, [9.0, 9.0])
    [steady] = steady_results(replace(SCENARIO, phases=((2.0, 5.0),)), recorder)
    assert (steady.checkpoints, steady.end_to_end_ms, steady.processed_bytes) == (2, 455.0, 300.0)
    assert (steady.end_to_end_ms_min, steady.end_to_end_ms_max) == (305.0, 605.0)
    source, stage = steady.vertices
    assert (source.name, source.start_delay_ms, source.alignment_ms) == ("source", 10.0, 0.0)
    assert stage.start_delay_ms == 250.0
    assert stage.start_delay_ms_max_subtask == 450.0
    assert stage.start_delay_ms_mean_subtask == 300.0
    assert stage.alignment_ms == stage.alignment_ms_max_subtask == 30.0
    assert stage.unaligned_share == 0.0


def test_checkpoints_that_did_not_complete_do_not_count(recorder):
    recorder.checkpoint(CheckpointHead(1, 2.0, None, "FAILED"), {(0, 0): part(0.1)})
    [steady] = steady_results(SCENARIO, recorder)
    assert (steady.checkpoints, steady.end_to_end_ms, steady.end_to_end_ms_min) == (0, None, None)
    [checkpoint] = checkpoint_results(SCENARIO, recorder)
    assert (checkpoint.status, checkpoint.duration_ms) == ("FAILED", None)
    source, stage = checkpoint.vertices
    assert source.start_delay_ms == source.alignment_processed_bytes == source.unaligned == [None]
    assert stage.start_delay_ms == [100.0, None]
    assert stage.unaligned == [False, None]


def test_a_subtask_that_took_no_part_leaves_the_rest(recorder):
    recorder.checkpoint(CheckpointHead(1, 2.0, 0.4), {(0, 1): part(0.3)})
    stage = steady_results(SCENARIO, recorder)[0].vertices[1]
    assert (
        stage.start_delay_ms == stage.start_delay_ms_max_subtask == stage.start_delay_ms_mean_subtask == 300.0
    )


def test_checkpoints_are_listed_with_each_subtasks_part(recorder):
    record_checkpoint(recorder, 1, 1.23456, [0.1, 0.30001], sync_s=0.002, alignment_persisted_bytes=7)
    [checkpoint] = checkpoint_results(SCENARIO, recorder)
    assert (checkpoint.id, checkpoint.t, checkpoint.status, checkpoint.duration_ms) == (
        1,
        1.235,
        "COMPLETED",
        305.01,
    )
    assert (checkpoint.processed_bytes, checkpoint.persisted_bytes) == (0, 14)
    source, stage = checkpoint.vertices
    assert source.name == "source"
    assert stage.start_delay_ms == [100.0, 300.01]
    assert stage.sync_ms == [2.0, 2.0]


def test_rates_are_slopes_and_gauges_medians(recorder):
    for second, (records, queued) in enumerate([(0, 9), (100, 1), (250, 2), (300, 7)]):
        stage = SubtaskSample(
            records_in=records, busy_s=second * 0.25, input_queue_length=queued, in_pool_usage=1 / 3
        )
        debloated = stage._replace(debloated_buffer_size=1000 + second)
        recorder.sample(float(second), [stage, debloated, SubtaskSample()])
    steady = steady_results(replace(SCENARIO, phases=((1.0, 3.0), (3.0, 4.0))), recorder)
    source, stage = steady[0].vertices
    assert source.records_in_per_s == [0.0]
    assert stage.records_in_per_s == [100.0, 100.0]
    assert stage.busy_ms_per_s == [250.0, 250.0]
    assert stage.inputQueueLength == [2.0, 2.0]
    assert stage.inPoolUsage == [0.3333, 0.3333]
    assert stage.debloatedBufferSize == [None, 1002.0]
    assert steady[1].vertices[1].records_in_per_s == [None, None]
    assert steady[1].vertices[1].inputQueueLength == [7.0, 7.0]


def test_series_hold_every_sample(recorder):
    for second in range(3):
        samples = [SubtaskSample(records_in=second, debloated_buffer_size=64)] * 2
        recorder.sample(float(second), [*samples, SubtaskSample(backpressured_s=0.5)])
    source, stage = series_results(SCENARIO, recorder)
    assert (source.vertex, source.t) == ("source", [0.0, 1.0, 2.0])
    assert source.debloatedBufferSize is UNSET
    assert source.backpressured_ms == [[500.0, 500.0, 500.0]]
    assert stage.numRecordsIn == [[0, 1, 2], [0, 1, 2]]
    assert stage.debloatedBufferSize == [[64.0] * 3] * 2


def test_a_second_sample_of_one_moment_is_ignored(recorder):
    for _ in range(2):
        recorder.sample(1.0, [SubtaskSample()] * 3)
    assert list(recorder.times) == [1.0]


def test_a_run_without_samples_or_checkpoints_has_empty_results(recorder):
    [steady] = steady_results(SCENARIO, recorder)
    assert steady.processed_bytes is None
    assert steady.vertices[1].records_in_per_s == [None, None]
    assert series_results(SCENARIO, recorder)[0].t == []


@given(st.integers(0, 5 * LEAST_ROWS))
def test_a_table_keeps_evenly_spaced_rows_and_never_more_than_its_limit(offered):
    table = Table(1, 1, table_bytes=0)
    for row in range(offered):
        table.append(np.array([[row]], dtype=np.float64))
    kept = table.rows[:, 0, 0]
    assert len(kept) <= LEAST_ROWS
    assert len(kept) >= min(offered, LEAST_ROWS // 2)
    assert len(set(np.diff(kept))) <= 1
    assert offered == 0 or kept[0] == 0


def test_long_runs_keep_samples_and_checkpoints_in_step():
    recorder = Recorder([1], table_bytes=0)
    for second in range(3 * LEAST_ROWS):
        recorder.sample(float(second), [SubtaskSample(records_in=10 * second)])
        recorder.checkpoint(CheckpointHead(second, float(second), second / 1e3), {(0, 0): part(second / 1e3)})
    assert len(recorder.times) <= LEAST_ROWS
    assert list(recorder.samples_of(0)["records_in"][0]) == [10 * time for time in recorder.times]
    heads = recorder.checkpoints
    assert len(heads) == len(recorder.parts_of(0)["start_delay_s"])
    assert [head.triggered_at / 1e3 for head in heads] == list(recorder.parts_of(0)["start_delay_s"][:, 0])


@pytest.mark.parametrize("name", sorted(path.stem for path in REFERENCES.glob("*.json")))
def test_our_definitions_give_flinks_own_summary_of_its_own_recordings(name):
    reference = json.loads((REFERENCES / f"{name}.json").read_text())
    scenario = load_scenario(REFERENCES / f"{name}.toml")
    recorder = replay(scenario, reference)
    for ours, flinks in zip(steady_results(scenario, recorder), reference["steady"], strict=True):
        for field in (
            "checkpoints",
            "end_to_end_ms",
            "end_to_end_ms_min",
            "end_to_end_ms_max",
            "persisted_bytes",
        ):
            assert getattr(ours, field) == flinks[field]
        assert ours.processed_bytes == pytest.approx(flinks["processed_bytes"])
        for vertex, flink in zip(ours.vertices, flinks["vertices"], strict=True):
            assert vertex.name == flink["name"]
            for field in (
                "start_delay_ms",
                "start_delay_ms_max_subtask",
                "alignment_ms",
                "alignment_ms_max_subtask",
            ):
                assert getattr(vertex, field) == flink[field]
            for field in {"inputQueueLength", "debloatedBufferSize", "outputQueueLength"} & flink.keys():
                # A sample at the edge of a window may be in or out: its time is rounded in the file.
                assert getattr(vertex, field) == pytest.approx(flink[field], abs=0.5)
            assert vertex.records_in_per_s == pytest.approx(flink["records_in_per_s"], rel=0.03)


GAUGES = {
    "numRecordsIn": "records_in",
    "debloatedBufferSize": "debloated_buffer_size",
    "inputQueueLength": "input_queue_length",
    "outputQueueLength": "output_queue_length",
}


def replay(scenario: Scenario, reference: dict[str, Any]) -> Recorder:
    """Feed a recorder with what a real Flink recorded."""
    recorder = Recorder([vertex.parallelism for vertex in scenario.vertices])
    for number, time in enumerate(reference["t"]):
        samples = []
        for series in reference["series"]:
            for subtask in range(len(series["numRecordsIn"])):
                known = {
                    GAUGES[name]: series[name][subtask][number] for name in GAUGES.keys() & series.keys()
                }
                samples.append(
                    SubtaskSample(**{key: math.nan if v is None else v for key, v in known.items()})
                )
        recorder.sample(time, samples)
    for checkpoint in reference["checkpoints"]:
        head = CheckpointHead(checkpoint["id"], checkpoint["t"], checkpoint["duration_ms"] / 1e3)
        recorder.checkpoint(head, parts_of(checkpoint))
    return recorder


def parts_of(checkpoint: dict[str, Any]) -> dict[tuple[int, int], SubtaskCheckpoint]:
    return {
        (place, subtask): SubtaskCheckpoint(
            end_to_end_s=vertex["end_to_end_ms"][subtask] / 1e3,
            start_delay_s=vertex["start_delay_ms"][subtask] / 1e3,
            alignment_s=vertex["alignment_ms"][subtask] / 1e3,
            alignment_processed_bytes=vertex["alignment_processed_bytes"][subtask],
            alignment_persisted_bytes=vertex["alignment_persisted_bytes"][subtask],
            unaligned=vertex["unaligned"][subtask],
        )
        for place, vertex in enumerate(checkpoint["vertices"])
        for subtask in range(len(vertex["end_to_end_ms"]))
    }
