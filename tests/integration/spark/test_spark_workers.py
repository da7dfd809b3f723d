"""How a function of ours gets to a Python worker of Spark's, tried by a Python of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import cloudpickle

from integration.spark.python_workers import send_packages, worker_function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]

CALL = "import pickle, sys; print(list(pickle.load(sys.stdin.buffer)([1, 2])))"


@dataclass(frozen=True)
class Factor:
    value: int


def multiplied(batches: Iterator[int], factor: Factor, more: int) -> Iterator[int]:
    return (factor.value * batch + more for batch in batches)


def called_elsewhere(function: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Call a function in a Python without our packages, unless the environment says where they are."""
    return subprocess.run(
        [sys.executable, "-c", CALL],
        input=cloudpickle.dumps(function),  # type: ignore[no-untyped-call]
        env={"PYTHONSAFEPATH": "1", **environment},
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("on_one_machine", [True, False])
def test_a_function_arrives_with_arguments_of_our_classes(on_one_machine: bool) -> None:
    run = worker_function(multiplied, Factor(3), 4, on_one_machine=on_one_machine)
    done = called_elsewhere(run, PYTHONPATH=str(ROOT))
    assert (done.stdout, done.stderr) == (b"[7, 10]\n", b"")


def test_it_refers_to_nothing_of_ours_before_it_has_looked(tmp_path: Path) -> None:
    run = worker_function(multiplied, Factor(3), 4, on_one_machine=False)
    (tmp_path / "integration.py").write_text("raise ModuleNotFoundError('gone', name='integration')")
    done = called_elsewhere(run, PYTHONPATH=str(tmp_path))
    assert b"has no module 'integration'; let PYSPARK_PYTHON" in done.stderr


@pytest.mark.spark
def test_a_local_session_is_sent_nothing(spark: SparkSession) -> None:
    before = list(spark.sparkContext._python_includes)
    send_packages(spark)
    assert spark.sparkContext._python_includes == before


@pytest.mark.spark
def test_workers_of_a_local_session_begin_with_their_imports_done(spark: SparkSession) -> None:
    def imported(_: Iterable[int]) -> Iterator[bool]:
        yield {"netstack", "pandas", "pyarrow"} <= set(sys.modules)

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(imported).collect() == [True]


@pytest.mark.spark
def test_each_worker_draws_random_numbers_of_its_own(spark: SparkSession) -> None:
    """They are forked from one process, in which NumPy's have been seeded."""

    def draw(number: int) -> tuple[int, float]:
        import os
        import time

        import numpy as np

        time.sleep(0.2)  # so that each slot has a worker
        return os.getpid(), float(np.random.random())

    drawn = spark.sparkContext.parallelize(range(4), 4).map(draw).collect()
    assert len({process for process, _ in drawn}) > 1
    assert len({value for _, value in drawn}) == 4
