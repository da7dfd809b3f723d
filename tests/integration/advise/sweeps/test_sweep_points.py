"""Points of a sweep, their rows in tables and files; no Spark."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from integration.advise.sweeps.axes import option_axes
from integration.advise.sweeps.point_rows import (
    ROW_SCHEMA,
    PointRow,
    PointStore,
    failed_row,
    from_table,
    to_table,
)
from integration.advise.sweeps.point_runs import run_point
from integration.advise.sweeps.points import Grid, Point, point_of, step_at_s, with_step
from integration.runs.measures import measure
from integration.runs.window_figures import Measures
from integration.spark.python_workers import PACKAGES
from netstack import (
    Edge,
    GeneratorSpec,
    InputError,
    NetworkConfig,
    Scenario,
    Vertex,
    emulate,
    from_json,
    map_records,
    read_scenario,
)

ROOT = Path(__file__).parents[4]
PREFIX = "taskmanager.network.memory.buffer-debloat"


def job(**changes: object) -> Scenario:
    config = NetworkConfig(checkpoint_interval_s=0.5)
    scenario = Scenario(
        name="job",
        duration_s=2.0,
        config=config,
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=1000)),
            Vertex(name="slow", service=((0.0, 0.005),)),
        ),
        edges=(Edge(source="source", target="slow"),),
    )
    return dataclasses.replace(scenario, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def finished() -> PointRow:
    return run_point(point_of(job(), {"target": "50 ms", "skew": "1:4"}))


def problems_of(scenario: Scenario, grid: Grid) -> list[str]:
    with pytest.raises(InputError) as caught:
        grid.points(scenario)
    return list(caught.value.problems)


def test_a_grid_has_each_combination_with_each_seed() -> None:
    grid = Grid(option_axes([f"{PREFIX}.target=50ms,1s", f"{PREFIX}.samples=5,20"]), 2)
    points = grid.points(job(seed=7))
    assert [(*point.labels.values(), point.seed, point.probe) for point in points] == [
        (target, samples, seed, "main")
        for target in ("50 ms", "1 s")
        for samples in ("5", "20")
        for seed in (7, 8)
    ]
    scenario = read_scenario(points[3].document)
    assert (scenario.seed, scenario.config.debloat_target_s, scenario.config.debloat_samples) == (8, 0.05, 20)
    assert len({point.key for point in points}) == 8


def test_a_grid_without_axes_is_the_scenario_itself() -> None:
    (point,) = Grid(seeds=1).points(job())
    assert (point.name, point.labels, point.probe) == ("job", {}, "main")
    assert read_scenario(point.document) == job()


def test_the_key_follows_scenario_seed_and_probe_and_not_the_labels() -> None:
    first = point_of(job(), {"a": "b"})
    assert first.key == point_of(job()).key
    others = [
        point_of(job(), seed=2),
        point_of(job(duration_s=3.0)),
        point_of(job(), probe="step"),
    ]
    assert len({point.key for point in [first, *others]}) == 4


def test_a_value_that_makes_no_sense_is_laid_to_its_axis() -> None:
    grid = Grid(option_axes([f"{PREFIX}.target=50ms,0ms", f"{PREFIX}.period=0ms"]))
    assert problems_of(job(), grid) == [
        f"{PREFIX}.target 0 s: flink.{PREFIX}.target: is 0 s; it must be more than 0",
        f"{PREFIX}.period 0 s: flink.{PREFIX}.period: is 0 s; it must be more than 0",
    ]


def test_a_combination_that_makes_no_sense_is_named_whole() -> None:
    sizes = ["taskmanager.memory.segment-size=32kb,4kb", "taskmanager.memory.min-segment-size=256,8kb"]
    (problem,) = problems_of(job(), Grid(option_axes(sizes)))
    assert problem.startswith(
        "taskmanager.memory.segment-size 4 kb, taskmanager.memory.min-segment-size 8 kb: "
        "flink.taskmanager.memory.min-segment-size: is 8 kb;"
    )


def test_no_seeds_are_a_mistake() -> None:
    assert problems_of(job(), Grid(seeds=0)) == ["seeds: is 0; at least 1 is needed"]


def test_python_objects_are_refused_where_they_are() -> None:
    source, slow = job().vertices
    vertices = (source, dataclasses.replace(slow, operator=map_records(bytes)))
    (problem,) = problems_of(job(vertices=vertices), Grid())
    assert problem.startswith("vertices.slow.operator: is a Python object")


def test_a_finished_row_has_the_measures_and_the_result_without_series(finished: PointRow) -> None:
    result = emulate(job(duration_s=finished.emulated_seconds))
    assert (finished.status, finished.error, finished.name, finished.seed) == ("finished", None, "job", 1)
    assert finished.measures == measure(result)
    assert finished.versions == result.versions
    assert finished.result is not None
    again = msgspec.structs.replace(from_json(finished.result), wall_seconds=0.0)
    assert again == msgspec.structs.replace(result, wall_seconds=0.0, series=[])


def test_a_probe_with_a_step_is_measured_from_its_step() -> None:
    debloating = dataclasses.replace(job().config, debloat_enabled=True, debloat_target_s=0.2)
    stepping = with_step(job(config=debloating))
    assert stepping is not None
    row = run_point(point_of(stepping, probe="step"))
    assert row.measures == measure(emulate(stepping), step_at_s=step_at_s(stepping))
    assert row.measures != measure(emulate(stepping))


def test_a_job_that_fails_for_good_is_a_failed_row_with_its_result() -> None:
    slow = dataclasses.replace(job().vertices[1], service=((0.0, 0.02),))
    config = dataclasses.replace(job().config, checkpoint_timeout_s=0.2)
    impatient = job(vertices=(job().vertices[0], slow), config=config)
    strategy = option_axes(["restart-strategy.type=none"])
    (point,) = Grid(strategy, 1).points(impatient)
    row = run_point(point)
    assert (row.status, row.measures) == ("failed", None)
    assert row.error is not None
    assert row.error.startswith("the job failed for good after 0.")
    assert row.result is not None
    assert from_json(row.result).failure is not None


def test_an_emulation_that_cannot_run_is_a_failed_row_that_says_why() -> None:
    memory = option_axes(["taskmanager.memory.network.max=32kb"])
    (point,) = Grid(memory, 1).points(job())
    row = run_point(point)
    assert (row.status, row.measures, row.result) == ("failed", None, None)
    assert row.error is not None
    assert "buffers" in row.error
    assert "\n" not in row.error


def test_rows_survive_a_table(finished: PointRow) -> None:
    rows = [finished, failed_row(point_of(job(), seed=5), "no luck", 0.25)]
    table = to_table(rows)
    assert from_table(table) == rows
    assert table.schema == ROW_SCHEMA
    assert set(Measures.__struct_fields__) <= set(table.column_names)
    assert table["throughput_per_s"].to_pylist() == [
        finished.measures and finished.measures.throughput_per_s,
        None,
    ]


def test_a_store_gives_back_what_finished_and_leaves_nothing_else(tmp_path: Path, finished: PointRow) -> None:
    failed = failed_row(point_of(job(), seed=5), "no luck")
    store = PointStore(tmp_path / "new" / "folder")
    for row in (finished, failed, finished):
        store.write(row)
    assert PointStore(tmp_path / "new" / "folder").read(["?", failed.key, finished.key]) == {
        finished.key: finished
    }
    files = sorted(path.name for path in store.folder.iterdir())
    assert files == sorted([f"{finished.key}.parquet", f"{failed.key}.parquet"])
    assert sorted(from_table(pq.read_table(store.folder)), key=lambda row: row.seed) == [finished, failed]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"torn" * 100])
def test_a_damaged_file_is_as_none(tmp_path: Path, finished: PointRow, content: bytes) -> None:
    store = PointStore(tmp_path)
    store.write(finished)
    (store.folder / f"{finished.key}.parquet").write_bytes(content)
    assert store.read([finished.key]) == {}


def test_a_table_of_another_version_is_as_none(tmp_path: Path, finished: PointRow) -> None:
    store = PointStore(tmp_path)
    other = pa.table({"key": [finished.key], "status": ["finished"]})
    pq.write_table(other, store.folder / f"{finished.key}.parquet")
    assert store.read([finished.key]) == {}


def test_points_are_values() -> None:
    assert point_of(job()) == Point(
        key=point_of(job()).key,
        labels={},
        seed=1,
        probe="main",
        document=point_of(job()).document,
    )


KEY_OF = """
import sys
from integration.advise.sweeps.points import point_of
from integration.base.reading import load_scenario
print(point_of(load_scenario(sys.argv[1])).key)
"""


def key_with(folder: Path) -> str:
    """The key of a point, computed by the packages in a folder."""
    scenario = ROOT / "docs" / "examples" / "two_sources.toml"
    command = [sys.executable, "-c", KEY_OF, str(scenario)]
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("module", ["netstack/scenarios/tables.py", "integration/runs/measures.py"])
def test_the_key_follows_the_code_that_reads_scenarios_and_results(tmp_path: Path, module: str) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    before = key_with(tmp_path)
    with (tmp_path / module).open("a") as source:
        source.write("\n_CHANGED = True\n")
    assert key_with(tmp_path) != before
