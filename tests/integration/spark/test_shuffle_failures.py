"""Tasks of a shuffle that fail, die or hang, and what is left of one that ends."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.base.errors import ShuffleTaskError
from integration.spark import failure_cause, shuffle, shuffle_statistics
from integration.spark.failure_causes import STAGE_RESTARTED, one_line, users_error
from netstack import ConnectionLimits, TransportConfig

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COUNT = 3
KEEP_ALIVE_S = 4.0

Batches = Iterator["pa.RecordBatch"]


class Telling(TransportConfig):
    """Settings that tell on arrival in which worker they are: each writes its process id to a file."""

    folder: Path

    def __reduce__(self) -> tuple[Any, ...]:
        program = (
            f"[__import__('pathlib').Path({str(self.folder)!r}, str(context.partitionId()))"
            ".write_text(str(__import__('os').getpid()))"
            " for context in [__import__('pyspark').TaskContext.get()]]"
            " and __import__('netstack').TransportConfig(limits=__import__('netstack')"
            f".ConnectionLimits(keep_alive_s={self.limits.keep_alive_s}))"
        )
        return eval, (program,)


@pytest.fixture
def telling(tmp_path: Path) -> Telling:
    """Writes into `tmp_path`, a file for each partition."""
    config = Telling()
    object.__setattr__(config, "folder", tmp_path)
    return config


def raising_in(partition: int) -> Any:
    def work(batches: Batches) -> Batches:
        from pyspark import TaskContext

        for batch in batches:
            if TaskContext.get().partitionId() == partition:  # type: ignore[union-attr]
                raise ValueError("the first cause")
            yield batch

    return work


def waiting_in(partition: int, fifo: Path) -> Any:
    """A reader that goes no further than the first batch, until whoever writes to the pipe closes it."""

    def work(batches: Batches) -> Batches:
        from pyspark import TaskContext

        for batch in batches:
            if TaskContext.get().partitionId() == partition:  # type: ignore[union-attr]
                fifo.read_bytes()
            yield batch

    return work


def failure_of(frame: DataFrame) -> str:
    """The message of a stage that is the last one of its job."""
    with pytest.raises(Exception, match="Could not recover from a failed barrier ResultStage") as raised:
        frame.write.format("noop").mode("overwrite").save()
    return str(raised.value)


def cause_of(frame: DataFrame) -> str:
    """What stands behind the words in which Spark says that the stage has failed."""
    return one_line(RuntimeError(failure_of(frame)))


def numbers(spark: SparkSession, rows: int = 400_000) -> DataFrame:
    return spark.range(rows, numPartitions=COUNT).selectExpr("id", "id * 2 as twice")


def test_an_error_of_the_input_is_the_one_that_the_user_sees(spark: SparkSession) -> None:
    wrong = numbers(spark).selectExpr("id", "if(id = 399999, raise_error('the first cause'), id) as twice")
    assert "the first cause" in cause_of(shuffle(wrong, "id"))


def test_an_error_in_python_before_the_shuffle(spark: SparkSession) -> None:
    frame = numbers(spark)
    failing = frame.mapInArrow(raising_in(1), frame.schema)
    assert cause_of(shuffle(failing, "id")) == "ValueError: the first cause"


def test_an_error_in_python_behind_the_shuffle(spark: SparkSession) -> None:
    frame = numbers(spark)
    failing = shuffle(frame, "id").mapInArrow(raising_in(1), frame.schema)
    assert cause_of(failing) == "ValueError: the first cause"


def test_an_error_is_the_same_where_rows_are_awaited_as_arrow(spark: SparkSession) -> None:
    wrong = numbers(spark).selectExpr("id", "if(id = 399999, raise_error('the first cause'), id) as twice")
    with pytest.raises(Exception, match="awaitResult") as raised:
        shuffle(wrong, "id").toArrow()
    assert "the first cause" in failure_cause(raised.value, spark)


def test_blocks_that_were_lost_are_told_where_spark_tells_what_it_cannot_do() -> None:
    said = (
        "Job aborted due to stage failure: A shuffle map stage with indeterminate output was failed and"
        " retried. However, Spark cannot rollback the ResultStage 38 to re-process the input data, and has to"
        " fail this job. Please eliminate the indeterminacy by checkpointing the RDD before repartition."
    )
    cause = one_line(RuntimeError(f"An error occurred while calling o1.getResult.\n: {said}"))
    assert cause.startswith(
        "data between two stages was lost, for example with an executor, after part of it had been "
        "read; run the query again: Spark does not retry it, since the rows may come in another order"
    )


def act_on(fifo: Path, pid_file: Path, number: signal.Signals, release: threading.Event) -> None:
    """Send a signal to the worker that has written its process id, once a reader of the pipe waits."""
    with fifo.open("wb"):
        os.kill(int(pid_file.read_text()), number)
        release.wait()


def failure_after(
    spark: SparkSession, telling: Telling, number: signal.Signals, victim: int, waiting: int
) -> str:
    """The cause that the user sees when one worker gets a signal while another task's output is not read."""
    fifo, release = telling.folder / "pipe", threading.Event()
    os.mkfifo(fifo)
    frame = numbers(spark, 3_000_000)
    held = shuffle(frame, "id", config=telling).mapInArrow(waiting_in(waiting, fifo), frame.schema)
    pid_file = telling.folder / str(victim)
    actor = threading.Thread(target=act_on, args=(fifo, pid_file, number, release))
    actor.start()
    try:
        return cause_of(held)
    finally:
        release.set()
        actor.join()


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_dies_fails_the_stage(spark: SparkSession, telling: Telling, victim: int) -> None:
    cause = failure_after(spark, telling, signal.SIGKILL, victim, waiting=0)
    # Spark notices first, unless it is waiting for the reader behind this very worker.
    by_spark, by_peers = (
        "Python worker exited unexpectedly",
        rf"task {victim} at [0-9.:]+: the connection (ended|broke \(ECONNRESET)",
    )
    assert re.match(f"{by_spark}|{by_peers}", cause)


def test_a_worker_that_hangs_is_found_within_the_keep_alive_time(
    spark: SparkSession, telling: Telling
) -> None:
    object.__setattr__(telling, "limits", ConnectionLimits(keep_alive_s=KEEP_ALIVE_S))
    cause = failure_after(spark, telling, signal.SIGSTOP, victim=1, waiting=0)
    assert re.match(f"task 1 at [0-9.:]+: no message arrived for {KEEP_ALIVE_S:g} s", cause)


def failing_once(marker: Path) -> Any:
    def work(batches: Batches) -> Batches:
        from pyspark import TaskContext

        for batch in batches:
            if TaskContext.get().partitionId() == 1:  # type: ignore[union-attr]
                try:
                    marker.touch(exist_ok=False)
                except FileExistsError:
                    pass
                else:
                    raise OSError("only this once")
            yield batch

    return work


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_spark_retries_a_stage_that_feeds_an_exchange(
    spark: SparkSession, tmp_path: Path, behind: bool
) -> None:
    from pyspark.sql import functions as sf

    frame, once = numbers(spark), failing_once(tmp_path / "failed")
    if behind:
        shuffled = shuffle(frame, "id").mapInArrow(once, frame.schema)
    else:
        shuffled = shuffle(frame.mapInArrow(once, frame.schema), "id")
    totals = shuffled.groupBy(sf.col("id") % 5).agg(sf.count("id"), sf.sum("twice")).repartition(2)
    expected = frame.groupBy(sf.col("id") % 5).agg(sf.count("id"), sf.sum("twice"))
    assert sorted(totals.collect()) == sorted(expected.collect())
    assert (tmp_path / "failed").exists()
    runs = Counter[int]()
    for report in shuffle_statistics(shuffled).collect():
        runs[report.run] += report.rows
    assert runs[max(runs)] == 400_000


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_an_error_of_the_user_is_not_retried(spark: SparkSession, behind: bool) -> None:
    frame, failing = numbers(spark), raising_in(1)
    if behind:
        shuffled = shuffle(frame, "id").mapInArrow(failing, frame.schema)
    else:
        shuffled = shuffle(frame.mapInArrow(failing, frame.schema), "id")
    with pytest.raises(Exception, match="SPARK_JOB_CANCELLED") as raised:
        shuffled.groupBy("twice").count().collect()
    _, said, *traceback = str(raised.value).splitlines()
    assert said.endswith("cancelled because ValueError: the first cause")
    assert any("in work" in line for line in traceback)
    assert failure_cause(raised.value, spark) == "ValueError: the first cause"


def test_an_error_of_an_expression_is_not_retried(spark: SparkSession) -> None:
    wrong = numbers(spark).selectExpr("id", "1 / (id - 399999) as twice")
    with pytest.raises(Exception, match="SPARK_JOB_CANCELLED") as raised:
        shuffle(wrong, "id", num_partitions=9).collect()
    assert failure_cause(raised.value, spark).startswith("[DIVIDE_BY_ZERO]")


def test_barrier_stages_of_others_are_retried(spark: SparkSession) -> None:
    frame = spark.range(9, numPartitions=1)
    stage = frame.mapInArrow(raising_in(0), frame.schema, barrier=True)
    shuffle(frame, "id")  # which watches over its own stages
    with pytest.raises(Exception, match="has failed the maximum allowable number of times: 4"):
        stage.repartition(3).collect()


PYTHON = "org.apache.spark.api.python.PythonException: An exception was thrown from the Python worker: "


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"{PYTHON}Traceback (most recent call last):\n  File x\nKeyError: 'k'\n\tat org", "KeyError: 'k'"),
        (f"{PYTHON}Traceback (most recent call last):\n  File x\nlib.BadRow\n\tat org", "lib.BadRow"),
        (f"{PYTHON}Traceback (most recent call last):\n  File x\nTimeoutError: late", None),
        (f"{PYTHON}Traceback (most recent call last):\n  File x\nlib.ConnectionError: gone", None),
        (f"{PYTHON}Traceback (most recent call last):\n  File x\nMemoryError", None),
        (f"{PYTHON}Traceback (most recent call last):\n  x\nintegration.base.errors.MeetingError: no", None),
        ("org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] no\n\tat org", "[DIVIDE_BY_ZERO] no"),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", None),
        ("ExecutorLostFailure (executor 1 exited)", None),
    ],
)
def test_errors_that_return_at_each_attempt(text: str, error: str | None) -> None:
    found = users_error(text)
    assert (found.splitlines()[0] if found else None) == error


def test_nothing_is_left_in_a_worker_that_is_used_again(spark: SparkSession, telling: Telling) -> None:
    frame = numbers(spark)
    shuffled = shuffle(frame, "id", config=telling)
    used = set()
    for _ in range(2):
        assert shuffled.count() == 400_000
        used |= {int((telling.folder / str(partition)).read_text()) for partition in range(COUNT)}
    found = [row.asDict() for row in frame.mapInArrow(left_over, LEFT_OVER, barrier=True).collect()]
    again = [row for row in found if row.pop("pid") in used]
    assert again
    assert all(row == {"threads": ["MainThread"], "sockets": 1, "polls": 0, "objects": []} for row in again)


LEFT_OVER = "pid int, threads array<string>, sockets int, polls int, objects array<string>"


def left_over(batches: Batches) -> Batches:
    import gc
    import os
    import threading
    import time

    import pyarrow as pa

    deadline = time.monotonic() + 600
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.1)  # Spark's answer to the rendezvous comes after a second
    assert sum(batch.num_rows for batch in batches) >= 0
    gc.collect()
    files = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.lexists(entry.path)]
    ours = {"Transport", "Endpoint", "NetworkBufferPool", "SourceThread", "Cutter"}
    names = [type(instance).__name__ for instance in gc.get_objects()]
    yield pa.RecordBatch.from_pylist(
        [
            {
                "pid": os.getpid(),
                "threads": [thread.name for thread in threading.enumerate()],
                "sockets": len({file for file in files if file.startswith("socket:")}),
                "polls": sum("eventpoll" in file for file in files),
                "objects": [name for name in names if name in ours],
            }
        ],
        pa.schema(
            [
                ("pid", pa.int32()),
                ("threads", pa.list_(pa.string())),
                ("sockets", pa.int32()),
                ("polls", pa.int32()),
                ("objects", pa.list_(pa.string())),
            ]
        ),
    )


@pytest.mark.parametrize("rows", ["id >= 0", "id < 0"], ids=["rows", "no rows"])
def test_a_stage_of_another_number_of_tasks_fails(spark: SparkSession, tmp_path: Path, rows: str) -> None:
    """As where the input has changed since the call; also without rows, as others may have sent some."""
    folder = str(tmp_path / "files")
    spark.range(9, numPartitions=2).write.parquet(folder)
    shuffled = shuffle(spark.read.parquet(folder).where(rows), "id")
    spark.conf.set("spark.sql.files.minPartitionNum", "1")
    spark.conf.set("spark.sql.files.openCostInBytes", "0")
    try:
        message = failure_of(shuffled)
    finally:
        spark.conf.unset("spark.sql.files.minPartitionNum")
        spark.conf.unset("spark.sql.files.openCostInBytes")
    assert "the stage has 1 task, but 2 were planned when shuffle() was called" in message


def test_the_cause_is_what_failed_before_spark_began_a_stage_again_with_some_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    def work(batches: Batches) -> Batches:
        if any(tmp_path.iterdir()):
            raise ShuffleTaskError(f"or {STAGE_RESTARTED}")
        (tmp_path / "failed").touch()
        raise OSError("the disk is gone")

    stage = spark.range(9, numPartitions=1).mapInArrow(work, "id long", barrier=True)
    with pytest.raises(Exception, match=STAGE_RESTARTED) as raised:
        stage.repartition(3).collect()
    assert failure_cause(raised.value, spark) == "OSError: the disk is gone"


def test_no_secret_is_in_the_plan(spark: SparkSession) -> None:
    shuffled = shuffle(numbers(spark), "id")
    plan = shuffled._jdf.queryExecution().toString()
    assert "netstack_shuffle_" in plan
    assert "secret" not in plan.lower()
