"""The command ``netstack shuffle``: in the session's Spark for all calls, and once from the shell."""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from integration.cli import exit_status
from integration.cli.app import main
from integration.spark.failure_causes import one_line
from integration.spark.shuffling.placement import hash_placement
from tests.integration.clusters import ROOT, environment
from tests.signals import ended_by

pytestmark = pytest.mark.spark

PROGRESS = re.compile("shuffle: ")
"""Beginning of progress lines; a slow machine prints some."""

ROWS = 4000
TABLE = pa.table({"number": range(ROWS), "name": [f"name {number % 61}" for number in range(ROWS)]})


class Call(NamedTuple):
    """Exit status and output of a call of the command."""

    status: int
    out: str
    err: str


def call(arguments: list[str]) -> Call:
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["shuffle", *arguments])
    out.flush()
    said = [line for line in err.getvalue().splitlines(keepends=True) if not PROGRESS.match(line)]
    return Call(status, out.buffer.getvalue().decode(), "".join(said))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shuffle")
    csv.write_csv(TABLE, folder / "rows.csv")
    parquet.write_table(TABLE, folder / "rows.parquet")
    csv.write_csv(TABLE, folder / "rows")
    with gzip.open(folder / "one.csv.gz", "wt") as packed:  # which Spark cannot cut
        packed.write("number\n1\n")
    damaged = folder / "damaged"
    damaged.mkdir()
    for name in ("a.parquet", "b.parquet"):
        parquet.write_table(TABLE, damaged / name, compression="none", use_dictionary=False)
    whole = (damaged / "b.parquet").read_bytes()
    (damaged / "b.parquet").write_bytes(whole[:4] + b"\xff" * 4000 + whole[4004:])
    return folder


@pytest.fixture(scope="module")
def calls(spark, folder) -> dict[str, Call]:
    """All calls that need Spark, which runs already."""
    rows = ["--partitions", "2", "--input", str(folder / "rows.csv")]
    by_name = ["--key", "name"]
    no_output = str(folder / "no-0")
    wanted = {
        "by key": [*rows, *by_name, "--output", str(folder / "by-key.parquet")],
        "json": [
            *(*rows, *by_name, "--output", str(folder / "json.json"), "--json"),
            *("--set", "taskmanager.memory.segment-size=4 kb"),
        ],
        "ranges": [
            *("--partitions", "3", "--input", str(folder / "rows.parquet"), "--key", "number"),
            *("--ship", "range", "--bound", "999", "--bound", "2999"),
            *("--output", str(folder / "ranges.csv")),
        ],
        "repartitioned": [
            *("--partitions", "2", "--input", str(folder / "one.csv.gz")),
            *("--ship", "broadcast", "--output", str(folder / "one-copy")),
        ],
        "no extension": [
            "--partitions",
            "2",
            "--input",
            str(folder / "rows"),
            *by_name,
            "--output",
            no_output,
        ],
        "by format": [
            *("--partitions", "2", "--input", str(folder / "rows"), "--format", "csv", *by_name),
            *("--output", str(folder / "by-format")),
        ],
        "too many": ["--partitions", "40000", *rows[2:], *by_name, "--output", str(folder / "no-1")],
        "no column": [*rows, "--key", "name.first", "--output", str(folder / "no-2")],
        "no options": [
            *(*rows, *by_name, "--output", str(folder / "no-3")),
            *("--set", "segment-size=1", "--set", "taskmanager.memory.segment-size=x"),
        ],
        "damaged": [
            *("--partitions", "2", "--input", str(folder / "damaged"), *by_name),
            *("--output", str(folder / "no-4")),
        ],
    }
    return {name: call(arguments) for name, arguments in wanted.items()}


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*"))


def test_rows_are_where_flinks_key_groups_put_them(calls, folder):
    assert calls["by key"].status == 0
    placement = hash_placement(pa.schema({"name": pa.string()}), ["name"], 2)
    found = [parquet.read_table(part) for part in parts(folder / "by-key.parquet")]
    assert sorted(pa.concat_tables(found)["number"].to_pylist()) == list(range(ROWS))
    for place, table in enumerate(found):
        batch = table.select(["name"]).combine_chunks().to_batches()[0]
        assert set(placement.place(batch)) == {place}


def test_a_table_of_80_columns_says_what_each_task_did(calls):
    out = calls["by key"].out
    assert max(map(len, out.splitlines())) <= 80
    assert f"{ROWS:,} rows into 2 partitions in " in out
    assert ": hash by name, Flink's placement" in out
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines if line and line[0] in ("0", "1", "all")] == ["0", "1", "all"]
    assert ["all", "4,000", "4,000"] in [line[:3] for line in lines]


def test_the_document_has_what_each_task_counted(calls, folder):
    document = json.loads(calls["json"].out)
    assert calls["json"].out.count("\n") == 1
    assert (document["schema"], document["keys"], document["partitions"]) == (
        "netstack.shuffle/1",
        ["name"],
        2,
    )
    tasks = document["tasks"]
    assert [task["task"] for task in tasks] == [0, 1]
    assert sum(task["rows_read"] for task in tasks) == ROWS
    written = [part.read_text().splitlines() for part in parts(folder / "json.json")]
    assert [task["rows"] for task in tasks] == [len(lines) for lines in written]
    assert json.loads(written[0][0]).keys() == {"number", "name"}
    assert sum(task["bytes_sent"] for task in tasks) == sum(task["bytes_received"] for task in tasks) > 0


def test_ranges_lie_between_their_bounds(calls, folder):
    assert (calls["ranges"].status, calls["ranges"].err) == (0, "")
    numbers = [csv.read_csv(part)["number"].to_pylist() for part in parts(folder / "ranges.csv")]
    assert [sorted(part) for part in numbers] == [
        list(range(1000)),
        list(range(1000, 3000)),
        list(range(3000, ROWS)),
    ]


def test_an_exchange_before_the_shuffle_is_said(calls, folder):
    call = calls["repartitioned"]
    assert call.status == 0
    assert call.err.startswith("netstack shuffle: the input of the shuffle has 1 partition")
    assert call.err.count("\n") == 1
    found = [parquet.read_table(part)["number"].to_pylist() for part in parts(folder / "one-copy")]
    assert found == [[1], [1]]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "too many",
            ["netstack shuffle: --partitions is 40000; it must be at most 32768"],
        ),
        ("no column", ["netstack shuffle: there is no"]),
        ("no extension", ["netstack shuffle: "]),
        (
            "no options",
            [
                "netstack shuffle: --set segment-size: ",
                "netstack shuffle: --set taskmanager.memory.segment-size: ",
            ],
        ),
        ("damaged", ["netstack shuffle: "]),
    ],
)
def test_what_goes_wrong_is_one_line_each_and_leaves_no_output(calls, folder, name, lines):
    call = calls[name]
    assert (call.status, call.out) == (exit_status.MISTAKE, "")
    said = call.err.splitlines()
    assert [line[: len(start)] for line, start in zip(said, lines, strict=True)] == lines
    assert not list(folder.glob("no-*"))


def test_a_line_about_arguments_has_their_names_on_the_command_line(calls):
    assert "--partitions is 40000" in calls["too many"].err


def test_the_format_can_be_given_where_no_extension_tells_it(calls, folder):
    assert "name it with --format" in calls["no extension"].err
    assert calls["by format"].status == 0
    found = [parquet.read_table(part) for part in parts(folder / "by-format")]
    assert sorted(pa.concat_tables(found)["number"].to_pylist()) == list(range(ROWS))


def test_the_line_for_a_task_that_failed_names_the_cause(calls):
    assert "b.parquet" in calls["damaged"].err


PYTHON_FAILED = """An error occurred while calling o1.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed barrier \
ResultStage. Most recent failure reason: Stage failed because barrier task ResultTask(1, 0) finished \
unsuccessfully.
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python \
worker: Traceback (most recent call last):
  File "task.py", line 9, in task
    raise ValueError("no, that is wrong")
ValueError: no, that is wrong
 SQLSTATE: 38000

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:600)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""

JAVA_FAILED = PYTHON_FAILED.partition("org.apache.spark.api")[0] + (
    "java.lang.RuntimeException: a disk is full\n\tat java.base/java.lang.Thread.run(Thread.java:840)"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [(PYTHON_FAILED, "ValueError: no, that is wrong"), (JAVA_FAILED, "a disk is full")],
)
def test_the_cause_of_a_failed_barrier_stage_is_one_line(text, line):
    assert one_line(Exception(text)) == line


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--input": "{folder}/nothing.csv"}, "nothing.csv: no such file or folder"),
        ({"--output": "{folder}/rows.csv"}, "rows.csv: already exists"),
        ({"--partitions": "0"}, ": --partitions is 0; it must be at least 1"),
        ({"--partitions": "1.5"}, "--partitions"),
        ({"--ship": "forward"}, "--ship"),
        ({"--set": "segment"}, "--set segment: must be OPTION=VALUE"),
        ({"--set": "=1"}, "--set =1: must be OPTION=VALUE"),
        ({"--set": "segment-size=1"}, "netstack shuffle: --set segment-size: "),
        ({"--key": "nam"}, "rows.csv: there is no key column 'nam'; the columns are: number, name"),
        (
            {"--master": "local[3]", "--set": "spark.task.cpus=4"},
            "Spark has no slot for a task; lower spark.task.cpus to at most the cores of the master",
        ),
        ({"--partitions": "1000000"}, "netstack shuffle: --partitions is 1000000; it must be at most 32768"),
        ({"--max-memory": "lots"}, "netstack shuffle: --max-memory: 'lots' is not"),
        ({"--max-memory": "10 kb"}, "netstack shuffle: --max-memory is '10 kb'; it must be at least 1 mb"),
        ({"--compression": "gzip"}, "--compression"),
        ({"--ship": "rebalance"}, "netstack shuffle: --ship='rebalance' takes no key; remove it"),
        ({"--ship": "range"}, "netstack shuffle: --ship='range' needs bounds"),
        (
            {"--ship": "range", "--bound": "m", "--partitions": "3"},
            "netstack shuffle: 1 bounds make 2 partitions, but num_partitions is 3",
        ),
    ],
)
def test_a_mistake_is_one_line_before_spark_starts(folder, capsys, monkeypatch, changes, message):
    monkeypatch.setattr("integration.cli.shuffle.spark_session", None)
    monkeypatch.setattr("integration.cli.shuffle.is_running", lambda: False)  # for a test before this one
    given = {
        "--input": "{folder}/rows.csv",
        "--output": "{folder}/no-5",
        "--partitions": "2",
        "--key": "name",
    }
    arguments = [text.format(folder=folder) for pair in (given | changes).items() for text in pair]
    assert main(["shuffle", *arguments]) == exit_status.MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


def test_a_file_that_is_named_as_a_parameter_keeps_its_name(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("integration.cli.shuffle.spark_session", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.rows").write_text("number\n1\n")
    arguments = ["--input", "config.rows", "--output", "out", "--partitions", "2", "--key", "number"]
    assert main(["shuffle", *arguments]) == exit_status.MISTAKE
    err = capsys.readouterr().err
    assert err.startswith("netstack shuffle: config.rows: its extension does not show the format")
    assert err.endswith("name it with --format\n")


@pytest.mark.long
def test_ctrl_c_ends_a_shuffle_with_one_line_and_no_output(folder):
    output = folder / "no-6"
    command = [sys.executable, "-m", "integration", "shuffle", "--ship", "rebalance", "--partitions", "2"]
    with subprocess.Popen(
        [*command, "--input", str(folder / "one.csv.gz"), "--output", str(output)],
        cwd=folder,
        env={**environment(folder), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        while b"repartition(2)" not in process.stderr.readline():  # the job begins
            assert process.poll() is None
        out, err = ended_by(process)
    err = b"".join(line for line in err.splitlines(keepends=True) if not line.startswith(b"shuffle: "))
    assert (process.returncode, out, err) == (130, b"", b"netstack: stopped\n")
    assert not output.exists()
