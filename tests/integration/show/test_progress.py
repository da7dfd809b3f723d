"""What long work says of how far it is: lines in a file, on a terminal what is gone at its end."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.cli.app import main
from integration.show.terminal import progress as module
from integration.show.terminal.console import Terminal
from integration.show.terminal.progress import LINE_EVERY_S, activity, progress
from integration.show.terminal.spark_work import job_progress, shuffle_progress, tasks_text
from integration.spark.data_files import count_rows, write_files
from integration.spark.driver import run_cancellable
from integration.spark.job_on_spark import run_on_spark
from integration.spark.python_workers import task_notes
from integration.spark.shuffling.api import shuffle
from netstack import Edge, GeneratorSpec, Scenario, Vertex

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Clock:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


def a_file() -> Terminal:
    return Terminal(force_terminal=False, width=80)


def a_terminal(columns: int) -> Terminal:
    return Terminal(force_terminal=True, width=columns, color_system=None)


def job(duration_s: float) -> Scenario:
    return Scenario(
        name="job",
        duration_s=duration_s,
        vertices=(
            Vertex(name="source", source=GeneratorSpec(record_bytes=100, rates=(50.0,)), task_manager="a"),
            Vertex(name="sink", task_manager="b"),
        ),
        edges=(Edge(source="source", target="sink"),),
    )


def test_what_is_left_is_told_by_the_pace_since_the_work_has_begun(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("job", 20.0, "s", a_file()) as report:
        clock.now += 60  # Spark starts, say
        report(0.0)
        clock.now += 6
        report(6.0)
        clock.now += LINE_EVERY_S / 2
        report(8.0)
        clock.now += LINE_EVERY_S
        report(21.0)
    assert capsys.readouterr().out.splitlines() == [
        "job: 0 of 20 s",
        "job: 6 of 20 s, 14 s left",
        "job: 20 of 20 s",
    ]


def test_where_nobody_knows_what_is_left_a_line_says_for_how_long_it_has_gone_on(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with activity("shuffle", a_file()) as tell:
        tell("Spark starts")
        assert capsys.readouterr().out == ""
        clock.now += 7
        tell("Spark starts")
        tell("Spark starts")
        clock.now += 130
        tell("and\nmore")
    assert capsys.readouterr().out.splitlines() == [
        "shuffle: Spark starts, 7 s so far",
        r"shuffle: and\nmore, 2 min so far",
    ]


@pytest.mark.parametrize("columns", [40, 80])
def test_on_a_terminal_it_moves_on_one_line_that_is_erased(
    columns: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with activity("shuffle", a_terminal(columns)) as tell:
        tell("the tasks have not all started yet, though it is long since the first did")
    shown = capfd.readouterr().out
    assert shown.endswith("\x1b[2K"), "the line is erased"
    lines = [line for line in re.split(r"[\r\n]+", CODES.sub("", shown)) if line]
    assert max(map(len, lines)) <= columns
    assert all("0:00:00" in line for line in lines)
    assert any("the tasks have" in line for line in lines)


def test_no_bar_is_more_than_full(capfd: pytest.CaptureFixture[str]) -> None:
    with progress("job", 2_000.0, "rows", a_terminal(80)) as report:
        report(2_500.0)
    shown = CODES.sub("", capfd.readouterr().out)
    assert "2,000 of 2,000 rows" in shown
    assert "2,500" not in shown


def test_a_job_on_spark_is_told_by_its_clock_from_its_first_second_on(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with job_progress(job(20), "local[2]", a_file()) as report:
        clock.now += 30
        report(None)
        assert capsys.readouterr().out == ""
        report(0.2)
        clock.now += 10
        report(10.0)
    assert capsys.readouterr().out.splitlines() == ["job: 0 of 20 s", "job: 10 of 20 s, 10 s left"]


def test_of_a_job_on_other_machines_only_its_length_is_known(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with job_progress(job(20), "spark://elsewhere:7077", a_file()) as report:
        clock.now += 30
        report(None)
    out = capsys.readouterr().out
    assert out == "job: 2 tasks on spark://elsewhere:7077, 20 s, 30 s so far\n"


def test_a_run_on_the_real_clock_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.0)
    file = tmp_path / "job.toml"
    file.write_text(
        'duration = "1 s"\n[[vertices]]\nname = "a"\nsource = { record_bytes = 100, rate = 20 }\n'
        '[[vertices]]\nname = "b"\n[[edges]]\nfrom = "a"\nto = "b"\n'
    )
    assert main(["run", str(file), "--real-time", "--json"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "job: 0 of 1 s"
    assert lines[-1] == "job: 1 of 1 s"
    assert any(re.fullmatch(r"job: [01] of 1 s, 1 s left", line) for line in lines)


@pytest.mark.spark
def test_tasks_note_their_rows_and_a_shuffle_says_the_sum(
    spark: SparkSession, tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = spark.range(0, 3000, 1, 2)
    with task_notes(spark) as notes:
        assert notes.numbers() == []

        def work() -> None:
            notes.ask(spark)
            write_files(shuffle(frame, "id", num_partitions=2), str(tmp_path / "rows.parquet"))

        run_cancellable(spark, work)
        numbers = notes.numbers()
        assert (len(numbers), sum(numbers)) == (2, 3000)
        assert count_rows(tmp_path / "rows.parquet") == 3000
        for rows in (6000, None):
            with shuffle_progress(spark, notes, rows, a_file()) as look:
                clock.now += LINE_EVERY_S
                look()
                clock.now += LINE_EVERY_S
                look()
        folder = Path(str(notes._folder))
    assert not folder.exists()
    assert capsys.readouterr().out.splitlines() == [
        "shuffle: 0 of 6,000 rows",
        "shuffle: 3,000 of 6,000 rows, 5 s left",
        "shuffle: no task of Spark is running, 3,000 rows so far, 5 s so far",
        "shuffle: no task of Spark is running, 3,000 rows so far, 10 s so far",
    ]
    with task_notes(spark) as notes:
        run_cancellable(spark, lambda: shuffle(frame, "id", num_partitions=2).count())
        others = notes.numbers()
    assert others == [], "no reader has asked for these"


@pytest.mark.spark
def test_while_a_job_runs_on_spark_its_seconds_are_told(spark: SparkSession) -> None:
    told = list[float | None]()
    result = run_on_spark(job(3), progress=told.append)
    seconds = [each for each in told if each is not None]
    assert seconds == sorted(seconds)
    assert len(seconds) >= 3
    assert seconds[0] < 3
    assert told.index(seconds[0]) == told.count(None), "once it is known when the run began it stays known"
    assert seconds[-1] <= result.wall_seconds


@pytest.mark.spark
def test_while_tasks_note_nothing_those_are_counted_that_have_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen = list[str]()
    over = tmp_path / "over"

    def until_seen(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            while not over.exists():
                time.sleep(0.01)
            yield batch

    def look() -> None:
        seen.append(tasks_text(spark))
        if seen[-1] == "0 of 2 tasks done":
            over.touch()

    run_cancellable(spark, lambda: spark.range(0, 4, 1, 2).mapInArrow(until_seen, "id long").collect(), look)
    assert "0 of 2 tasks done" in seen


@pytest.mark.parametrize("name", ["rows.csv", "none.parquet", "damaged.parquet"])
def test_rows_that_no_file_counts_are_not_known(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("number\n1\n")
    assert count_rows(tmp_path / name) is None
