"""``netstack run --on-spark``: a scenario in the tasks of a barrier stage, over TCP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import UNSET

from integration import load_scenario
from integration.cli.app import main
from integration.cli.exit_status import MISTAKE
from integration.spark import job_on_spark
from integration.spark.failure_causes import first_cause
from integration.spark.job_on_spark import (
    FedSource,
    fed_source,
    in_pieces,
    keep_pieces,
    require_slots,
    run_on_spark,
)
from integration.spark.rows import RowCodec
from integration.storage import DirectoryStorage
from netstack import (
    Edge,
    GeneratorSpec,
    PathSpec,
    Result,
    Scenario,
    SourceError,
    Vertex,
    VertexSteady,
    emulate,
    from_json,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]

EXAMPLE = ROOT / "docs" / "examples" / "two_sources.toml"


def on_spark(scenario: Path, capture: pytest.CaptureFixture[bytes]) -> Result:
    """Run the command in the session of the tests and return the result that it prints."""
    assert main(["run", str(scenario), "--on-spark", "--json"]) == 0
    return from_json(capture.readouterr().out)


def stage_of(result: Result) -> VertexSteady:
    (steady,) = result.steady
    assert steady.checkpoints > 0
    return steady.vertices[-1]


@pytest.mark.spark
def test_the_alignment_is_as_long_as_predicted(
    spark: SparkSession, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The buffers hold half a second of records, by the service time: whatever else takes time is little."""
    scenario = tmp_path / "shorter.toml"
    text = EXAMPLE.read_text("utf-8")
    assert text.count('duration = "20 s"') == 1
    scenario.write_text(text.replace('duration = "20 s"', 'duration = "10 s"'))
    predicted = stage_of(emulate(load_scenario(scenario)))
    result = on_spark(scenario, capsysbinary)
    measured = stage_of(result)
    assert (result.clock, result.link, result.failure) == ("real", "tcp", None)
    assert result.task_managers_behind_s is not UNSET
    assert tuple(result.task_managers_behind_s) == result.scenario.task_managers
    assert result.behind_s == max(behind_s or 0.0 for behind_s in result.task_managers_behind_s.values())
    assert predicted.alignment_ms is not None
    assert measured.alignment_ms is not None
    assert predicted.alignment_ms > 400
    assert 0.5 < measured.alignment_ms / predicted.alignment_ms < 2.0
    sizes = zip(measured.debloatedBufferSize, predicted.debloatedBufferSize, strict=True)
    assert all(0.5 < (ours or 0) / (theirs or 1) < 2.0 for ours, theirs in sizes)


FILES = """
name = "files"
duration = "300 s"

[flink]
"execution.checkpointing.interval" = "500 ms"
"execution.buffer-timeout.interval" = "20 ms"
"restart-strategy.type" = "fixed-delay"
"restart-strategy.fixed-delay.attempts" = 1
"restart-strategy.fixed-delay.delay" = "100 ms"

[[vertices]]
name = "rows"
source = {{ path = "{folder}", key = "name", rate = [200] }}

[[vertices]]
name = "more"
source = {{ path = "{file}", key = "id" }}
parallelism = 2

[[vertices]]
name = "work"
parallelism = 2
service = "500 us"

[[edges]]
from = "rows"
to = "work"
ship = "hash"

[[edges]]
from = "more"
to = "work"
ship = "hash"

[[faults]]
kind = "kill_subtask"
vertex = "work"
subtask = 1
at = "2 s"
"""


def write_rows(folder: Path, files: int, rows: int) -> Path:
    """Files of so many rows each, with numbers and names; the folder they are in."""
    folder.mkdir()
    for number in range(files):
        identities = range(number * rows, (number + 1) * rows)
        table = pa.table({"id": list(identities), "name": [f"name {n % 17}" for n in identities]})
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder


@pytest.mark.spark
def test_sources_are_spark_partitions_and_the_job_restarts(
    spark: SparkSession, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = write_rows(tmp_path / "rows", 3, 600)
    scenario = tmp_path / "files.toml"
    scenario.write_text(FILES.format(folder=folder, file=folder / "part-0.parquet"))
    result = on_spark(scenario, capsysbinary)
    assert result.failure is None
    assert result.emulated_seconds < 300
    assert [series.vertex for series in result.series] == ["rows", "more", "work"]
    partitions = len(result.series[0].numRecordsOut)
    assert result.scenario.vertices[0].parallelism == partitions
    assert isinstance(result.scenario.vertices[0].source, PathSpec)
    assert result.scenario.vertices[0].source.path == str(folder)
    (restart,) = result.restarts
    assert restart.cause == "subtask work[1] is killed"
    assert restart.checkpoint_id is not None
    assert restart.running_at is not None
    assert [fault.kind for fault in result.faults] == ["kill_subtask"]
    completed = [checkpoint for checkpoint in result.checkpoints if checkpoint.status == "COMPLETED"]
    assert completed[-1].id > restart.checkpoint_id
    # All rows have gone through; those behind the checkpoint, a second time.
    assert sum(row[-1] for row in result.series[0].numRecordsOut) >= 1800
    assert sum(row[-1] for row in result.series[1].numRecordsOut) >= 600
    assert result.work.records >= 2400


@pytest.mark.spark
def test_rows_come_to_their_task_in_their_order(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 25_000, 1, 2).selectExpr("id", "concat('row ', id) as `a.b`", "id % 7 as `a.b`")
    source = fed_source(frame, 3, PathSpec(path="x", key=("id",), repeat=False))
    assert (source.vertex, source.partitions, source.parallelism_hint) == (3, 2, 2)
    pieces = in_pieces(frame, source, task=5, first=0).orderBy("number", ascending=False).toArrow()
    assert pieces.num_rows > 2  # some partitions are several pieces
    keep_pieces(pieces.to_batches(), 5, str(tmp_path))
    here = FedSource(
        vertex=3, partitions=2, schema=source.schema, key=("id",), repeat=False, directory=str(tmp_path)
    )
    read = []
    for subtask in range(2):
        reader = here.open(subtask, 2)
        while (block := reader.read(512)) is not None:
            read += [bytes(payload) for payload in block.payloads()]
        reader.close()
    whole = frame.toArrow().combine_chunks()
    expected = RowCodec(whole.schema, ["id"]).encode(whole.to_batches()[0])
    assert read == [bytes(payload) for payload in expected.payloads()]


@pytest.mark.spark
def test_pieces_of_another_task_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 10, 1, 1)
    source = fed_source(frame, 0, PathSpec(path="x"))
    pieces = in_pieces(frame, source, task=1, first=0).toArrow()
    with pytest.raises(SourceError, match="Spark has delivered rows for task 1 to task 0"):
        keep_pieces(pieces.to_batches(), 0, str(tmp_path))
    with pytest.raises(SourceError, match="another process"):
        source.open(0, 1)


@pytest.mark.spark
def test_a_column_that_cannot_be_carried_is_refused_before_the_job(spark: SparkSession) -> None:
    frame = spark.range(1)
    with pytest.raises(SourceError, match="name"):
        fed_source(frame, 0, PathSpec(path="x", key=("name",)))


@pytest.mark.spark
def test_too_few_slots_are_found_out_before_the_job(spark: SparkSession) -> None:
    with pytest.raises(SourceError, match=r"needs 1000 tasks at once.*`master` to local\[1000\]"):
        require_slots(spark, 1000)
    vertices = [Vertex(name=f"v{number}") for number in range(1, 1000)]
    chain = Scenario(
        name="chain",
        duration_s=1.0,
        vertices=(Vertex(name="v0", source=GeneratorSpec(record_bytes=8)), *vertices),
        edges=tuple(Edge(source=f"v{n - 1}", target=f"v{n}") for n in range(1, 1000)),
    )
    with pytest.raises(SourceError, match="needs 1000 tasks at once"):
        run_on_spark(chain)


WORKER_ERROR = """An error occurred while calling o75.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed barrier \
ResultStage. Most recent failure reason: Stage failed because barrier task ResultTask(0, 1) finished \
unsuccessfully.
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python \
worker: Traceback (most recent call last):
  File "/home/somebody/task.py", line 17, in run
    raise ValueError("boom")
    ^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: boom
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:600)
"""


def test_the_first_cause_of_a_failed_stage_is_one_line() -> None:
    assert first_cause(RuntimeError(WORKER_ERROR)) == "ValueError: boom"
    died = "SparkException: Python worker exited unexpectedly (crashed). Consider setting 'x' to 'true'"
    assert first_cause(RuntimeError(died)) == "a Python worker of Spark has died"
    assert first_cause(RuntimeError("no traceback")) == "no traceback"


def test_mistakes_are_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = tmp_path / "cut.toml"
    fault = 'kind = "cut_link"\nfrom_task_manager = "fast"\nto_task_manager = "stage"\nat = "1 s"\n'
    scenario.write_text(f"{EXAMPLE.read_text('utf-8')}\n[[faults]]\n{fault}")
    assert main(["run", str(scenario), "--on-spark"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{scenario}: faults.0: cut_link does not work over TCP. Only kill_subtask and "
        "kill_task_manager with a time (`at`) do; remove this fault, or run in emulated time."
    ]
    assert main(["run", str(EXAMPLE), "--master", "local[4]"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "netstack run: --master can be used only with --on-spark; add --on-spark, or remove --master"
    ]


CHAIN = """
name = "chain"
duration = "1 s"
vertices = [
  { name = "a", task_manager = "a", source = SOURCE },
  { name = "b", task_manager = "b" },
]
edges = [{ from = "a", to = "b" }]

[flink]
"execution.checkpointing.interval" = "1 s"
"""


@pytest.mark.parametrize(
    ("source", "master", "message"),
    [
        ("{ record_bytes = 10 }", "spark://host:7077", "checkpoints of a job on a cluster need a directory"),
        ("{ record_bytes = 10 }", "local[1]", "the job needs 2 tasks at once, one for each task manager"),
        ('{ path = "none.csv" }', "local[2]", "vertices.a.source: none.csv: no such file or folder"),
        (
            '{ path = "FOLDER/rows.csv", key = "name" }',
            "local[2]",
            "vertices.a.source: FOLDER/rows.csv: there is no key column 'name'; the columns are: id",
        ),
    ],
)
def test_what_spark_cannot_run_is_refused_before_it_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    master: str,
    message: str,
) -> None:
    monkeypatch.setattr(job_on_spark, "spark_session", None)
    monkeypatch.setattr(job_on_spark, "starts_spark", lambda: True)  # for a test before this one
    (tmp_path / "rows.csv").write_text("id\n1\n")
    scenario = tmp_path / "chain.toml"
    scenario.write_text(CHAIN.replace("SOURCE", source).replace("FOLDER", str(tmp_path)))
    assert main(["run", str(scenario), "--on-spark", "--master", master]) == MISTAKE
    _, refusal = capsys.readouterr().err.splitlines()
    assert refusal.startswith(f"{scenario}: {message.replace('FOLDER', str(tmp_path))}")


@pytest.mark.spark
def test_a_job_goes_on_from_a_checkpoint_that_was_taken_elsewhere(
    spark: SparkSession, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    directory, scenario = tmp_path / "checkpoints", tmp_path / "short.toml"
    scenario.write_text(
        f"""
name = "short"
duration = "2 s"
[flink]
"execution.checkpointing.interval" = "400 ms"
"execution.checkpointing.dir" = "{directory}"
"state.storage.fs.memory-threshold" = 0
[[vertices]]
name = "source"
source = {{ record_bytes = 100, rate = 100 }}
[[vertices]]
name = "stage"
[[edges]]
from = "source"
to = "stage"
"""
    )
    assert main(["run", str(scenario)]) == 0
    capsysbinary.readouterr()
    (last,) = DirectoryStorage(directory).checkpoints()
    stage = 'name = "stage"'
    scenario.write_text(scenario.read_text().replace(stage, f"{stage}\nparallelism = 2"))
    arguments = ["run", str(scenario), "--on-spark", "--json", "--from-checkpoint", str(directory)]
    assert main(arguments) == 0
    result = from_json(capsysbinary.readouterr().out)
    start = result.started_from
    assert start is not UNSET
    assert (start.checkpoint_id, result.link, result.restarts) == (last, "tcp", [])
    assert start.running_at is not None
    assert result.checkpoints[0].id == last + 1
    assert DirectoryStorage(directory).checkpoints()[0] == last
    newest = DirectoryStorage(directory).checkpoints()[-1]
    assert DirectoryStorage(directory).load(newest).parallelism == {"source": 1, "stage": 2}
    with DirectoryStorage(directory).exclusive():
        assert main(arguments) == MISTAKE
    assert b"is in use by another run" in capsysbinary.readouterr().err
