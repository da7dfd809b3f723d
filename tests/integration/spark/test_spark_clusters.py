"""Shuffles, sweeps and jobs over executors that are processes of their own."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from integration.spark.python_workers import write_package
from integration.spark.shuffling.pieces import Layout
from integration.spark.shuffling.placement import hash_placement
from tests.integration.clusters import (
    FOR_ARROW,
    JAVA_OPTIONS,
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
from integration.spark import failure_cause, shuffle


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
    expected = hash_placement(keys.schema, ["key"], partitions).place(keys)
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

JOB = """
name = "job"
duration = "2 s"
vertices = [
  { name = "source", source = { record_bytes = 1000 }, task_manager = "a" },
  { name = "slow", service = "200 us", task_manager = "b" },
]
edges = [{ from = "source", to = "slow" }]

[flink]
"execution.checkpointing.interval" = "200 ms"
"execution.checkpointing.dir" = "checkpoints"
"""


def test_executors_that_the_driver_starts(folder):
    rows = drive(folder, LOCAL_CLUSTER, f"{SHUFFLES}answer(shuffled(2, {ROWS}))")
    check_rows(rows, 2)
    assert len({where for _, where, _, _ in rows}) == 2


ACTIONS = """
def divided():
    def work(batches):
        for batch in batches:
            1 / 0
            yield batch

    return work


rows = shuffle(session.range(0, 100, 1, 4), "id")
rows.createOrReplaceTempView("numbers")
found = {
    "take": len(rows.take(5)),
    "limit": rows.limit(6).count(),
    "where": sorted(row.id for row in rows.where(rows.id < 3).head(9)),
    "union": rows.union(rows).count(),
    "join": len(rows.join(session.range(5), "id").take(9)),
    "groupBy": len(rows.groupBy(rows.id % 7).count().take(9)),
    "sql": session.sql("select count(*) from numbers where id < 10").first()[0],
}
rows.cache()
found["cached"] = [len(rows.take(2)), rows.count(), len(rows.tail(3))]
failures = []
for failing in (
    rows.mapInArrow(divided(), rows.schema),
    shuffle(session.range(0, 100, 1, 4).mapInArrow(divided(), "id long"), "id").groupBy("id").count(),
):
    try:
        failing.count()
    except Exception as error:
        failures.append([failure_cause(error, session), "times: 4" in str(error)])
answer([found, failures])
"""


def test_actions_and_failures_on_a_cluster(folder, cluster):
    found, failures = drive(folder, cluster, SHUFFLES + ACTIONS)
    assert found == {
        "take": 5,
        "limit": 6,
        "where": [0, 1, 2],
        "union": 200,
        "join": 5,
        "groupBy": 7,
        "sql": 10,
        "cached": [2, 100, 3],
    }
    # Behind the cache no barrier stage fails, so Spark repeats the task alone.
    assert [cause for cause, _ in failures] == ["ZeroDivisionError: division by zero"] * 2
    assert not failures[1][1]


LACKING = f"""
from pathlib import Path
from pyspark import SparkFiles
from integration.spark.python_workers import send_packages


def sent():
    for _ in range(2):
        send_packages(session)
    return session.sparkContext._python_includes


try:
    shuffled(4, 100)
except Exception as error:
    message = str(error)
session.sparkContext.addPyFile(sys.argv[3])
rows = shuffled(4, {ROWS})
contexts = [sent()]
session.stop()
session = spark_session(sys.argv[1], json.loads(sys.argv[2]))
contexts.append(sent())
folder = Path(SparkFiles.getRootDirectory())
files = len(list(folder.glob("netstack-*/netstack.zip")))
session.stop()
answer([message, rows, contexts, files, folder.exists()])
"""


@pytest.fixture(scope="module")
def lacking(folder, cluster):
    """A driver on a cluster whose Python lacks our packages."""
    archive = folder / "netstack.zip"
    write_package(archive)
    python = bare_python(folder / "python")
    variables = {"PYSPARK_PYTHON": str(python)}
    return drive(folder, cluster, SHUFFLES + LACKING, str(archive), variables=variables)


def test_a_cluster_whose_python_lacks_our_packages_until_they_are_sent(lacking):
    message, rows, *_ = lacking
    assert "--py-files" in message
    check_rows(rows, 4)
    assert len({where for _, where, _, _ in rows}) == 2  # both workers took part


def test_each_context_is_sent_our_packages_once_and_deletes_them_when_it_stops(lacking):
    *_, contexts, files, is_left = lacking
    assert contexts == [["netstack.zip"], ["netstack.zip"]]  # the first one's are the user's
    assert (files, is_left) == (1, False)


def command(folder, *arguments, options=PATIENT, **variables):
    """Run a command in a process of its own; return the JSON that it prints, and its lines on stderr."""
    settings = {"spark.executor.extraJavaOptions": os.environ[JAVA_OPTIONS], **options}
    given = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [sys.executable, "-m", "integration", *map(str, arguments), "--json"],
        cwd=folder,
        env={
            **environment(folder),
            "PYTHONPATH": str(ROOT),
            "PYSPARK_SUBMIT_ARGS": shlex.join([*given, "pyspark-shell"]),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    return json.loads(done.stdout), done.stderr.splitlines()


def test_tune_sends_several_rounds_of_runs_to_a_cluster(folder, cluster):
    (folder / "short.toml").write_text(SHORT)
    document, _ = command(
        *(folder, "tune", "short.toml", "--master", cluster, "--target", "1s", "--seeds", "1")
    )
    points = document["points"]
    assert {point["status"] for point in points} == {"finished"}
    assert {point["probe"] for point in points} == {"main", "step"}, "the last in a later round"


def test_a_job_runs_on_a_cluster(folder, cluster):
    (folder / "job.toml").write_text(JOB)
    result, said = command(folder, "run", "job.toml", "--on-spark", "--master", cluster)
    assert said[:1] == ["job: 2 tasks on Spark, 2 s"]
    assert result["failure"] is None
    assert result["work"]["records"] > 0
    assert list((folder / "checkpoints").glob("chk-*/_metadata"))


def test_a_shuffle_on_a_cluster_whose_python_has_nothing_but_arrow(folder, cluster):
    """It has more partitions than there are slots."""
    archive = folder / "libraries.zip"
    write_package(archive, libraries=True)
    python = bare_python(folder / "arrow-python", FOR_ARROW)
    numbers = folder / "numbers.csv"
    numbers.write_text("key,id\n" + "".join(f"key {number % 97},{number}\n" for number in range(ROWS)))
    output = folder / "shuffled.csv"
    document, said = command(
        *(folder, "shuffle", "--master", cluster, "--partitions", "6"),
        *("--input", numbers, "--key", "key", "--output", output),
        *("--set", f"spark.archives={archive}#files", "--set", "spark.executorEnv.PYTHONPATH=files"),
        options=dict.fromkeys(PATIENT, "60s"),  # it waits that long for more slots
        PYSPARK_PYTHON=str(python),
    )
    assert [line for line in said if not re.fullmatch(r"shuffle: .*, \d+ (s|min) so far", line)] == []
    tasks = document["tasks"]
    assert sum(task["rows_read"] for task in tasks) == ROWS
    parts = [lines_of(file) for file in sorted(output.glob("part-*"))]
    counts = [len(part) for part in parts]
    assert len(tasks) <= 4
    layout = Layout(6, len(tasks))
    assert [task["rows"] for task in tasks] == [
        sum(counts[partition] for partition in layout.partitions_of(task)) for task in range(len(tasks))
    ]
    rows = [(place, "", *line.split(",")) for place, part in enumerate(parts) for line in part]
    check_rows([(place, where, key, int(number)) for place, where, key, number in rows], 6)


def lines_of(file: Path) -> list[str]:
    """The lines of a CSV file below its header."""
    return file.read_text().splitlines()[1:]
