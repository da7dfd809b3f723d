"""Shuffles into more partitions than slots in hard cases: skew, huge rows, no room, killed processes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest

from integration.spark import shuffle, shuffle_statistics
from integration.spark.failure_causes import own_files_problem
from tests.integration.clusters import ROOT, drive, environment
from tests.integration.spark.test_shuffle_failures import Batches, Telling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

MANY, COUNT = 60, 9
"""Partitions, for which the session has four slots. Each costs a task, so few tests have many."""

ROWS = 40_000
LIMIT = 1 << 20


def rows_of(spark: SparkSession) -> DataFrame:
    """Rows of some 200 bytes that Spark cannot compress to much less."""
    return spark.range(ROWS, numPartitions=4).selectExpr(
        "id", "concat(sha2(cast(id as string), 512), sha2(cast(-id as string), 256)) as text"
    )


def places(frame: DataFrame) -> dict[int, list[int]]:
    """The ids in each partition that has any, sorted; one run."""
    from pyspark.sql import functions as sf

    found: dict[int, list[int]] = {}
    for number, partition in sorted(frame.select("id", sf.spark_partition_id()).collect()):
        found.setdefault(partition, []).append(number)
    return found


def test_all_rows_in_one_of_many_partitions(spark: SparkSession) -> None:
    frame = rows_of(spark).selectExpr("'the only key' as key", "id", "text")
    shuffled = shuffle(frame, "key", num_partitions=MANY, max_memory=LIMIT)
    assert list(places(shuffled).values()) == [list(range(ROWS))]
    held = sorted(report.peak_held_bytes for report in shuffle_statistics(shuffled).collect())
    assert held[:3] == [0, 0, 0]
    assert LIMIT <= held[3] < 2 * LIMIT + (1 << 20)  # beside the piece that came last


def test_a_row_larger_than_the_memory_passes_among_small_ones(spark: SparkSession) -> None:
    frame = spark.range(100, numPartitions=4).selectExpr(
        "id", f"repeat(cast(id % 10 as string), if(id % 50 = 7, {5 * LIMIT}, 3)) as text"
    )
    shuffled = shuffle(frame, "id", num_partitions=COUNT, max_memory=LIMIT)
    found = {row.id: row.text for row in shuffled.collect()}
    assert found == {
        number: str(number % 10) * (5 * LIMIT if number % 50 == 7 else 3) for number in range(100)
    }


# No room.


@contextmanager
def no_room(spark: SparkSession) -> Iterator[None]:
    """Let Java write no file beyond a few KiB, as on a disk that is full."""
    assert spark._jvm is not None
    java = spark._jvm.ProcessHandle.current().pid()
    before = resource.prlimit(java, resource.RLIMIT_FSIZE)
    resource.prlimit(java, resource.RLIMIT_FSIZE, (64 << 10, before[1]))
    try:
        yield
    finally:
        resource.prlimit(java, resource.RLIMIT_FSIZE, before)


def problem_of(spark: SparkSession, frame: DataFrame) -> str | None:
    with pytest.raises(Exception, match=r"Job (aborted|\d+ cancelled)") as raised:
        frame.write.format("noop").mode("overwrite").save()
    return own_files_problem(raised.value, spark)


def own_folder(spark: SparkSession) -> str:
    return spark.conf.get("spark.local.dir", os.environ.get("SPARK_LOCAL_DIRS", "/tmp")) or ""


def test_no_room_for_blocks_is_said_with_the_folder_and_rows_are_there_once_there_is_room(
    spark: SparkSession,
) -> None:
    shuffled = shuffle(rows_of(spark), "id", num_partitions=COUNT, max_memory=LIMIT)
    with no_room(spark):
        problem = problem_of(spark, shuffled)
    assert problem == (
        f"Spark cannot store the data between two stages in {own_folder(spark)}: File too large; set "
        "spark.local.dir to a folder with room for all rows"
    )
    assert shuffled.count() == ROWS


def test_no_room_is_said_where_it_is_missed_when_files_are_joined(spark: SparkSession) -> None:
    """Blocks of each partition have room, and the file into which Spark copies those of a task has none."""
    small = spark.range(30_000, numPartitions=4).selectExpr("id", "xxhash64(id) as mixed")
    with no_room(spark):
        problem = problem_of(spark, shuffle(small, "id", num_partitions=COUNT, max_memory=LIMIT))
    assert problem is not None
    assert problem.startswith(f"Spark cannot store the data between two stages in {own_folder(spark)}: File")


@pytest.mark.parametrize(
    "column", ["raise_error('java.io.IOException: No space left on device')", "raise_error('other')"]
)
def test_what_a_row_says_is_no_problem_of_sparks_files(spark: SparkSession, column: str) -> None:
    frame = rows_of(spark).selectExpr("id", f"if(id = 39999, {column}, text) as text")
    assert problem_of(spark, shuffle(frame, "id", num_partitions=COUNT)) is None


# Killed or interrupted.


def waiting_once(fifo: Path, marker: Path) -> Any:
    """An input whose partition 0 waits, once, behind its first batch for whoever has the pipe to close it."""

    def work(batches: Batches) -> Batches:
        from pyspark import TaskContext

        for batch in batches:
            yield batch
            if TaskContext.get().partitionId() == 0 and not marker.exists():  # type: ignore[union-attr]
                marker.touch()
                fifo.read_bytes()

    return work


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_is_killed_has_the_exchange_run_again(
    spark: SparkSession, tmp_path: Path, victim: int
) -> None:
    fifo, frame = tmp_path / "pipe", rows_of(spark)
    os.mkfifo(fifo)
    config = Telling()
    object.__setattr__(config, "folder", tmp_path)
    held = frame.mapInArrow(waiting_once(fifo, tmp_path / "marker"), frame.schema)
    shuffled = shuffle(held, "id", num_partitions=COUNT, max_memory=LIMIT, config=config)

    def kill() -> None:
        with fifo.open("wb"):
            told = tmp_path / str(victim)
            while not (told.exists() and told.read_text()):  # it is there before it is written
                sleep(0.01)
            os.kill(int(told.read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    rows = shuffled.collect()
    killer.join()
    assert sorted(row.id for row in rows) == list(range(ROWS))
    assert Counter(report.run for report in shuffle_statistics(shuffled).collect()) == {0: 4}  # of the second


LARGE_ROW = """
import os
from integration.spark import failure_cause, shuffle

os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # threads of PySpark report that Java is gone
row = session.range(1).selectExpr("id", "repeat(string(id), 1500000000) as text")
try:
    shuffle(row, "id", num_partitions=1).write.format("noop").mode("overwrite").save()
except Exception as error:
    answer(failure_cause(error, session))
"""


def test_a_row_that_is_too_large_for_java_names_the_option(tmp_path: Path) -> None:
    assert drive(tmp_path, "local[1]", LARGE_ROW) == (
        "Spark's Java ran out of memory; a large row needs about 10 times its size there. Set "
        "spark.driver.memory (1g by default) to more"
    )


DRIVER = """
import pathlib
import sys
from integration.spark import shuffle, spark_session
from integration.spark.failure_causes import own_files_problem
from tests.integration.spark.test_shuffle_hard_ends import COUNT, LIMIT, rows_of, waiting_once

folder = pathlib.Path(sys.argv[1])
spark = spark_session("local[4]", {"spark.local.dir": str(folder / "local")})
frame = rows_of(spark)
held = frame.mapInArrow(waiting_once(folder / "pipe", folder / "marker"), frame.schema)
try:
    shuffle(held, "id", num_partitions=COUNT, max_memory=LIMIT).write.format("noop").mode("overwrite").save()
except Exception as error:
    print(own_files_problem(error, spark))
    spark.stop()
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process whose Spark has its files below `tmp_path`, and shuffles what waits for the pipe there."""
    (tmp_path / "temporary").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)],
        env={**environment(tmp_path), "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        yield process


def processes_with(variable: str) -> set[int]:
    """The processes that have an environment variable so."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
        except OSError:
            pass  # it has ended, or belongs to another user
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_ends_in_the_middle_leaves_no_process_and_no_file(
    tmp_path: Path, driver: subprocess.Popen[str], number: signal.Signals
) -> None:
    variable = f"TMPDIR={tmp_path / 'temporary'}"
    with (tmp_path / "pipe").open("wb"):  # tasks of the exchange wait for a peer's rows
        assert len(processes_with(variable)) > 4
        driver.send_signal(number)
        assert driver.wait() == -number
    while processes_with(variable):
        sleep(0.05)
    assert list((tmp_path / "local").iterdir()) == []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_folder_of_sparks_that_vanishes_in_the_middle_is_named(
    tmp_path: Path, driver: subprocess.Popen[str]
) -> None:
    local = tmp_path / "local"
    with (tmp_path / "pipe").open("wb"):
        local.rename(tmp_path / "elsewhere")
    said, _ = driver.communicate()
    assert said.startswith(f"Spark cannot store the data between two stages in {local}: {local}/blockmgr-")
    assert said.endswith("; set spark.local.dir to a folder with room for all rows\n")
    assert said.count("\n") == 1
