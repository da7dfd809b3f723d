"""Shuffles and sweeps over executors that are processes of their own: a driver's, and those of a cluster."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from integration.spark.shuffling.placement import HashPlacement
from integration.spark.workers import write_package
from tests.integration.clusters import (
    FOR_ARROW,
    LOCAL_CLUSTER,
    PATIENT,
    ROOT,
    bare_python,
    drive,
    environment,
    processes_in,
    standalone_cluster,
)

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROWS = 20_000

SHUFFLES = """
from pyspark.errors import PythonException
from integration.spark import shuffle


def where():
    # By value, so that only the shuffle needs our packages.
    def tag(batches):
        import os
        import pyarrow as pa
        from pyspark import TaskContext

        for batch in batches:
            place = pa.array([TaskContext.get().partitionId()] * batch.num_rows, pa.int32())
            folder = pa.array([os.getcwd()] * batch.num_rows)
            yield pa.record_batch([place, folder, *batch.columns], ["place", "folder", *batch.schema.names])

    return tag


def shuffled(partitions, rows):
    frame = session.range(0, rows, 1, partitions).selectExpr("concat('key ', id % 97) as key", "id")
    moved = shuffle(frame, "key", num_partitions=partitions)
    tagged = moved.mapInArrow(where(), "place int, folder string, key string, id long")
    return [list(row) for row in tagged.collect()]


"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(folder):
    """The master's URL of a cluster with four slots in two executors."""
    with standalone_cluster(folder) as master:
        yield master
    assert processes_in(folder) == []


def check_rows(rows: list[tuple[int, str, str, int]], partitions: int) -> None:
    """Assert that no row is lost or doubled, and that all are where Flink's key groups put them."""
    assert Counter(number for *_, number in rows) == Counter(range(ROWS))
    assert all(key == f"key {number % 97}" for _, _, key, number in rows)
    keys = pa.record_batch([pa.array([key for _, _, key, _ in rows])], ["key"])
    expected = HashPlacement(keys.schema, ["key"], partitions).place(keys)
    assert [place for place, *_ in rows] == list(expected)


SHORT = """
name = "short"
duration = "1 s"
vertices = [
  { name = "source", source = { record_bytes = 1000 } },
  { name = "slow", service = "2 ms" },
]
edges = [{ from = "source", to = "slow" }]
"""

SWEEP = """
from integration import load_scenario
from integration.spark import Grid, read_axes, sweep


def swept(scenario):
    frame = sweep(load_scenario(scenario), Grid(read_axes(target="50ms,1s"), 1))
    return [[row["labels"]["target"], row["status"], row["throughput_per_s"] > 0] for row in frame.collect()]


"""


@pytest.fixture(scope="module")
def answers(folder):
    """Of a driver that starts its executors: the rows of a shuffle, and those of a sweep."""
    (folder / "short.toml").write_text(SHORT)
    script = SHUFFLES + SWEEP + f"answer([shuffled(2, {ROWS}), swept('short.toml')])"
    return drive(folder, LOCAL_CLUSTER, script)


def test_executors_that_the_driver_starts(answers):
    rows, _ = answers
    check_rows(rows, 2)
    assert len({where for _, where, _, _ in rows}) == 2


def test_a_sweep_uses_them_too(answers):
    _, points = answers
    assert points == [["50 ms", "finished", True], ["1 s", "finished", True]]


LACKING = f"""
try:
    shuffled(4, 100)
except Exception as error:
    message = str(error)
session.sparkContext.addPyFile(sys.argv[3])
answer([message, shuffled(4, {ROWS})])
"""


def test_a_cluster_whose_python_lacks_our_packages_until_they_are_sent(folder, cluster):
    archive = folder / "netstack.zip"
    write_package(archive)
    python = bare_python(folder / "python")
    message, rows = drive(
        folder, cluster, SHUFFLES + LACKING, str(archive), variables={"PYSPARK_PYTHON": str(python)}
    )
    assert "--py-files" in message
    check_rows(rows, 4)
    assert len({where for _, where, _, _ in rows}) == 2  # both workers took part


def test_the_command_on_a_cluster_whose_python_has_nothing_but_arrow(folder, cluster):
    archive = folder / "libraries.zip"
    write_package(archive, libraries=True)
    python = bare_python(folder / "arrow-python", FOR_ARROW)
    numbers = folder / "numbers.csv"
    numbers.write_text("key,id\n" + "".join(f"key {number % 97},{number}\n" for number in range(ROWS)))
    output = folder / "shuffled.csv"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "integration", "shuffle", "--master", cluster, "--json"),
            *("--input", str(numbers), "--key", "key", "--partitions", "4", "--output", str(output)),
            *("--set", f"spark.archives={archive}#files", "--set", "spark.executorEnv.PYTHONPATH=files"),
            *(text for name, value in PATIENT.items() for text in ("--set", f"{name}={value}")),
        ],
        cwd=folder,
        env={**environment(folder), "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)},
        capture_output=True,
        check=False,
    )
    said = [
        line for line in done.stderr.splitlines() if not re.fullmatch(rb"shuffle: .*, \d+ s so far", line)
    ]
    assert (done.returncode, said) == (0, [])
    tasks = json.loads(done.stdout)["tasks"]
    assert sum(task["rows_read"] for task in tasks) == ROWS
    parts = [lines_of(file) for file in sorted(output.glob("part-*"))]
    assert [task["rows"] for task in tasks] == [len(part) for part in parts]
    rows = [(place, "", *line.split(",")) for place, part in enumerate(parts) for line in part]
    check_rows([(place, where, key, int(number)) for place, where, key, number in rows], 4)


def lines_of(file: Path) -> list[str]:
    """The lines of a CSV file below its header."""
    return file.read_text().splitlines()[1:]
