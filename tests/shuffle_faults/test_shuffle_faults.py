"""A few shuffles under faults, and tables with wrong rows that the check of results has to reject."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.shuffle_faults.case import Case, Fault, Moment, draw, input_batches, key_of, place_of, problem_with
from tests.shuffle_faults.one_shuffle import FAILED, RIGHT, run_case

pytestmark = pytest.mark.long

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def first(wanted: Callable[[Case], bool]) -> Case:
    """The case of the first seed that is as wanted, and needs no executors of its own."""
    return next(case for case in map(draw, count()) if not case.executors and wanted(case))


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
