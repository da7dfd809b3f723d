"""Storms over TCP, in one process and inside Spark tasks: the cases that can be, and that none goes wrong."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.failure_causes import WORKER_DIED
from netstack import AtTime, Fault, KillSubtask, KillTaskManager, SubtaskName, Transaction
from tests.signals import ended_by
from tests.storms.__main__ import main
from tests.storms.case import StormCase, Work
from tests.storms.many import run_on_spark as run_storms_on_spark
from tests.storms.on_spark import (
    SLOTS,
    CommitFolder,
    SparkCase,
    Strike,
    case_on_spark,
    run_case_on_spark,
    run_on_spark,
)
from tests.storms.one_storm import run_storm
from tests.storms.over_tcp import case_over_tcp, run_over_tcp
from tests.storms.small_cases import vertex

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

SEEDS = range(4)

PATIENCE_S = 120.0
"""After so long a process that has not ended is one that was left behind."""

pytestmark = pytest.mark.long


SLOW = StormCase(
    seed=1,
    vertices=(
        vertex("source0", Work.SOURCE, 2, records=(60,), rates=(40.0,), keys=5, record_bytes=(8, 40)),
        vertex("gather", Work.GATHER, 2),
        vertex("sink", Work.SINK, 2),
    ),
    edges=(("source0", "gather", "hash"), ("gather", "sink", "rebalance"), ("source0", "sink", "rebalance")),
    fractions=(("source0", "sink", Fraction(2, 5)),),
    config=replace(case_over_tcp(0).config, checkpoint_interval_s=0.1, checkpoint_min_pause_s=0.0),
    duration_s=60.0,
)
"""A job of one and a half seconds."""

KILL = KillSubtask(when=AtTime(0.8), subtask=SubtaskName("gather", 1))


@pytest.mark.spark
def test_no_storm_on_spark_goes_wrong(spark: SparkSession) -> None:
    outcomes = [run_on_spark(seed, spark) for seed in SEEDS]
    assert [(outcome.seed, outcome.problems) for outcome in outcomes if outcome.problems] == []
    assert {outcome.end for outcome in outcomes} == {"ended"}
    assert sum(outcome.checkpoints["COMPLETED"] for outcome in outcomes) > len(SEEDS)


@pytest.mark.spark
def test_spark_gives_the_same_outcomes(spark: SparkSession) -> None:
    assert list(run_storms_on_spark(range(40, 45), spark)) == [run_storm(seed) for seed in range(40, 45)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("faults", "strike", "cause"),
    [((KILL,), None, str(KILL)), ((), Strike(process=1, after_s=0.6), WORKER_DIED)],
    ids=["a subtask is killed", "a process is ended"],
)
def test_a_job_comes_back_whole(
    spark: SparkSession, faults: tuple[Fault, ...], strike: Strike | None, cause: str
) -> None:
    outcome = run_case_on_spark(SparkCase(case=replace(SLOW, faults=faults), strike=strike), spark)
    assert (outcome.problems, outcome.end, outcome.restarts) == ((), "ended", 1)
    assert outcome.causes[0].startswith(cause)
    assert len(outcome.fired) == 1


@pytest.mark.spark
def test_output_that_is_committed_at_once_is_found_out(spark: SparkSession) -> None:
    case = replace(SLOW, faults=(KILL,), transactional=False)
    problems = run_case_on_spark(SparkCase(case=case, strike=None), spark).problems
    assert any("twice, with other records" in problem for problem in problems)


def test_a_case_fits_into_the_slots_and_takes_two_processes_at_least() -> None:
    struck = 0
    for seed in range(300):
        drawn = case_on_spark(seed)
        managers = {vertex.task_manager for vertex in drawn.case.vertices}
        assert 2 <= len(managers) <= SLOTS
        assert all(isinstance(fault, KillSubtask | KillTaskManager) for fault in drawn.case.faults)
        if drawn.strike is not None:
            struck += 1
            assert 0 <= drawn.strike.process < len(managers)
    assert 90 < struck < 150


def test_a_transaction_is_committed_once_and_must_not_change(tmp_path: Path) -> None:
    commits = CommitFolder(tmp_path)
    first, other = Transaction("sink", 0, 3, (b"a", b"b\0")), Transaction("sink", 1, 3, (b"c",))
    for transaction in (first, other, first):
        commits.commit(transaction)
    assert commits.log().transactions == {first[:3]: first, other[:3]: other}
    assert commits.log().changed == []
    commits.commit(first._replace(records=(b"a",)))
    assert commits.log().changed == [first._replace(records=(b"a",))]
    assert commits.log().output == {b"a": 1, b"b\0": 1, b"c": 1}
    assert commits.processes() == []
    pickle.loads(pickle.dumps(commits)).commit(other)
    assert commits.processes() == [os.getpid()]


def of_this_run(mark: str) -> list[str]:
    """The processes that have a mark in their environment."""
    marked = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                marked.append(process.name)
        except OSError:
            continue  # it has ended, or is somebody else's
    return marked


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")
def test_ctrl_c_ends_all_processes_and_leaves_no_file(tmp_path: Path) -> None:
    mark = f"NETSTACK_MARK={tmp_path}"
    name, _, value = mark.partition("=")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.storms", "--on-spark", "--seeds", "1000"],
        env={**os.environ, name: value, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert re.match(r"storms: \d+ of 1,000 seeds, ", process.stderr.readline())
        out, err = ended_by(process)
    assert (process.returncode, out, err.splitlines()[-1]) == (130, "", "netstack: stopped")
    patience = time.monotonic() + PATIENCE_S
    while of_this_run(mark) and time.monotonic() < patience:  # Java ends by itself, a little later
        time.sleep(0.05)
    assert of_this_run(mark) == []
    assert list(tmp_path.iterdir()) == []


SEEDS_OVER_TCP = range(12)


def test_no_storm_over_tcp_goes_wrong() -> None:
    outcomes = [run_over_tcp(seed) for seed in SEEDS_OVER_TCP]
    assert [(outcome.seed, outcome.problems) for outcome in outcomes if outcome.problems] == []
    assert {outcome.end for outcome in outcomes} == {"ended"}
    assert sum(outcome.checkpoints["COMPLETED"] for outcome in outcomes) > len(SEEDS_OVER_TCP)


def test_what_is_not_possible_over_tcp_is_left_out() -> None:
    for seed in range(300):
        case = case_over_tcp(seed)
        assert all(len(vertex.managers) == 1 for vertex in case.vertices)
        assert all(isinstance(fault, KillSubtask | KillTaskManager) for fault in case.faults)
        assert case.continuation is None
        assert (case.trouble, case.neighbours) == ((), ())


def test_the_command_runs_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tcp", "--seeds", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "wrong: none"
    assert main(["--tcp", "--seed", "3"]) == 0
    assert "seed 3, at most 60 s" in capsys.readouterr().out
