"""Shuffles under faults that are drawn from seeds: what is drawn, what is seen, and a handful."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.shuffle_faults.__main__ import in_turn, print_tally
from tests.shuffle_faults.case import Case, Fault, Moment, draw, input_batches, key_of, place_of, problem_with
from tests.shuffle_faults.log import Log
from tests.shuffle_faults.one_shuffle import FAILED, RIGHT, WRONG, Outcome, problem_with_failure, run_case

pytestmark = pytest.mark.long

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def first(wanted: Callable[[Case], bool]) -> Case:
    """The case of the first seed that is as wanted, and needs no executors of its own."""
    return next(case for case in map(draw, count()) if not case.executors and wanted(case))


def test_every_fault_comes_at_every_moment() -> None:
    cases = [draw(seed) for seed in range(1000)]
    assert cases == [draw(seed) for seed in range(1000)]
    assert {(case.fault, case.moment) for case in cases} == {
        (fault, moment) for fault in Fault for moment in Moment
    }
    assert {case.ship for case in cases} == {"hash", "rebalance", "broadcast", "range"}


def test_cases_of_one_session_come_side_by_side() -> None:
    executors = [case.executors for case in in_turn(range(400))]
    assert sum(before != behind for before, behind in pairwise(executors)) == 2
    assert sorted(case.seed for case in in_turn(range(400))) == list(range(400))


HASHED = replace(
    first(lambda case: case.ship == "hash"), partitioner="flink", rows=(300, 0), tasks=2, keys=100
)


def rows_of(case: Case) -> pa.Table:
    """The rows of a case where they belong."""
    table = pa.Table.from_batches([batch for source in (0, 1) for batch in input_batches(case, source)])
    return table.append_column(
        "place", pa.array([place_of(case, key_of(case, n)) for n in table["id"].to_pylist()])
    )


def with_value(table: pa.Table, name: str, value: object) -> pa.Table:
    """The same with another value in the first row."""
    values = [value, *table[name].to_pylist()[1:]]
    return table.set_column(
        table.column_names.index(name), name, pa.array(values, table.schema.field(name).type)
    )


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (lambda table: table, ""),
        (lambda table: table.slice(1), "the row 0 exists 0 times in place of 1"),
        (
            lambda table: pa.concat_tables([table, table.slice(5, 1)]),
            "the row 5 exists 2 times in place of 1",
        ),
        (lambda table: with_value(table, "id", 1 << 40), "the row 0 exists 0 times in place of 1"),
        (lambda table: with_value(table, "payload", b"?"), "row 0 has other values than were sent"),
        (lambda table: with_value(table, "place", 99), "row 0 with .* is in partition 99 in place of"),
    ],
)
def test_a_row_that_is_not_as_it_was_or_where_it_belongs_is_seen(
    tamper: Callable[[pa.Table], pa.Table], problem: str
) -> None:
    assert re.fullmatch(
        f"{problem}.*" if problem else "", problem_with(HASHED, tamper(rows_of(HASHED)), None)
    )


def test_turns_that_are_not_kept_are_seen() -> None:
    case = replace(HASHED, ship="rebalance", partitions=3)
    table = rows_of(case).drop_columns("place")
    turns = [row % 3 for row in range(300)]
    assert problem_with(case, table.append_column("place", pa.array(turns)), None) == ""
    unfair = table.append_column("place", pa.array([0, 0, 0, *turns[3:]]))
    assert problem_with(case, unfair, None) == "rows of input 0 are [102, 99, 99] by partition"


KILLED = first(lambda case: case.fault is Fault.KILLED_WORKER and not case.of_input)


@pytest.mark.parametrize(
    ("said", "after_s", "problem"),
    [
        ("Python worker exited unexpectedly (crashed)", 0.1, ""),
        ("task 1 at 127.0.0.1:4711: the connection ended", 0.1, ""),
        ("task 0 at 127.0.0.1:4711: the connection ended", 0.1, "names another cause: "),
        ("task 1 at 127.0.0.1:4711: the connection ended", 12.34, "failed after 12.3 s: "),
        ("task 1 at 127.0.0.1:4711: the connection ended", None, "failed before the fault: "),
    ],
)
def test_a_failure_has_to_name_who_was_struck_and_soon(
    said: str, after_s: float | None, problem: str
) -> None:
    assert problem_with_failure(KILLED, said, {1}, after_s) == (problem + said if problem else "")


def test_a_shuffle_without_a_reason_to_fail_may_not() -> None:
    slow = replace(KILLED, fault=Fault.SLOW_READER)
    assert problem_with_failure(slow, "no", set(), 0.1) == "failed for no reason: no"


def outcome(seed: int, verdict: str = RIGHT, said: str = "") -> Outcome:
    return Outcome(seed, draw(seed).fault, verdict, said, True, None, 1.0)


def test_a_log_has_what_was_done_but_for_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.log"
    log = Log(path)
    for seed in range(3):
        log.note(outcome(seed))
    path.write_bytes(path.read_bytes()[:-7])
    again = Log(path)
    assert again.outcomes == {0: outcome(0), 1: outcome(1)}
    again.note(outcome(2))
    assert list(Log(path).outcomes) == [0, 1, 2]


@pytest.mark.parametrize("content", ["hello\n", '{"shuffle_faults":"0123"}\n', '{"storms":"0123"}\n'])
def test_a_file_that_is_no_log_of_these_cases_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "other.log").write_text(content)
    with pytest.raises(ValueError, match=r"other\.log: it(s seeds were other cases| is no log)"):
        Log(tmp_path / "other.log")


def test_the_tally_has_a_row_for_each_fault_and_a_line_for_what_is_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seed = KILLED.seed
    print_tally([outcome(seed), outcome(seed, WRONG, "has had not ended")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(Fault) + 1 + 1
    assert "| worker killed | 2 | 2 | 1 | 0 |  | 1 |" in lines
    assert lines[-1].endswith(": has had not ended")


def small(fault: Fault, **changes: object) -> Case:
    """The first case of a fault, with few rows."""
    case = first(lambda case: case.fault is fault and not case.several)
    values = {"rows": tuple(min(rows, 2000) for rows in case.rows), "stage_behind": False, **changes}
    return replace(case, **values)  # type: ignore[arg-type]


CASES = [
    (small(Fault.NONE), {RIGHT}),
    (small(Fault.STRANGERS), {RIGHT}),
    (small(Fault.PAUSED_WORKER, moment=Moment.MOVING, pause_s=0.5, of_input=False), {RIGHT}),
    (small(Fault.KILLED_WORKER, moment=Moment.MEETING, of_input=False), {FAILED}),
    (small(Fault.KILLED_WORKER, moment=Moment.MOVING, of_input=False), {FAILED}),
    (small(Fault.KILLED_WORKER, moment=Moment.MOVING, of_input=True, stage_behind=True), {RIGHT, FAILED}),
]


@pytest.mark.spark
@pytest.mark.parametrize(("case", "verdicts"), CASES, ids=[str(case.fault) for case, _ in CASES])
def test_a_shuffle_is_right_or_fails_with_its_cause(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case, verdicts: set[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = run_case(spark, case)
    assert found.verdict in verdicts, found
    assert found.whole
    assert (found.came > 0) == (case.fault is Fault.STRANGERS)
