"""One mutant in a copy of the checkout, and the tests that are run against it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import hypothesis
import msgspec
import numpy
import pyarrow
import pytest
import trio
from mutmut.configuration import config

from .mutations import Mutant

PRELOADED = (hypothesis, msgspec, numpy, pyarrow, trio)
"""Imported once, here, so that the process of a trial starts with them."""

TEST_CPU_S, TEST_S = 60, 600
"""Seconds of processor time, and of wall time, after which a test counts as endless."""

MEMORY_BYTES = 8 << 30

KILLED, TIMEOUT, SURVIVED = "killed", "timeout", "survived"

_FAILED = 3
_OUTCOMES = {
    0: SURVIVED,
    _FAILED: KILLED,
    **dict.fromkeys((-signal.SIGPROF, -signal.SIGALRM), TIMEOUT),
    **dict.fromkeys((-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT), KILLED),  # out of memory, recursion
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result for a mutant.

    Attributes:
        number: Place of the mutant in the sample.
        outcome: `KILLED`, `TIMEOUT` or `SURVIVED`.
        by: The test that failed, or was endless.
        files: Number of test files that were chosen for the mutant.
        spark: Whether tests marked ``spark`` took part, and no others.
    """

    number: int
    outcome: str
    by: str
    files: int
    spark: bool = False


class Trial:
    """A process that runs test files in a copy of the checkout, one after the other, until a test fails."""

    def __init__(self, copy: Path, number: int, mutant: Mutant, spark: bool = False) -> None:
        self._copy, self._number, self._mutant = copy, number, mutant
        self._spark = spark

    def start(self, files: Sequence[Path]) -> int:
        """Start the process; return what `multiprocessing.connection.wait` needs."""
        module = self._copy / self._mutant.path
        module.write_text(self._mutant.source, "utf-8")
        os.utime(module, (self._number, self._number))  # no bytecode of another mutant has the same time
        self._process = get_context("fork").Process(target=_run, args=(self._copy, files, self._spark))
        self._process.start()
        return self._process.sentinel

    def outcome(self) -> tuple[str, str]:
        """Return the outcome and the test that was the last one, after the process has ended."""
        self._process.join()
        self.stop()
        outcome = _OUTCOMES.get(self._process.exitcode)
        if outcome is None:
            raise RuntimeError(f"the tests did not run; {self._copy / 'output'} says why")
        return outcome, "" if outcome == SURVIVED else (self._copy / "last-test").read_text("utf-8")

    def stop(self) -> None:
        """End the process and its children, and restore the module."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        shutil.copy2(self._mutant.path, self._copy / self._mutant.path)


def fresh_copy(copy: Path) -> Path:
    """Copy the checkout, without what is not under version control."""
    shutil.rmtree(copy, ignore_errors=True)
    left_out = shutil.ignore_patterns(
        ".git", ".venv", ".hypothesis", ".*_cache", "__pycache__", "build", "*.so"
    )
    return Path(shutil.copytree(".", copy, ignore=left_out))


def failing_tests(copy: Path, tests: Sequence[str]) -> list[str]:
    """Return the tests that fail in a copy without any mutant."""
    process = get_context("fork").Process(target=_run, args=(copy, tests))
    process.start()
    process.join()
    return (copy / "failed").read_text("utf-8").splitlines()


class _Recorder:
    """Plugin of pytest that records which tests ran and failed, and ends the process at an endless test."""

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        self._begin(f"collection of {collector.nodeid}")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._begin(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with Path("failed").open("a", encoding="utf-8") as file:
                print(report.nodeid, file=file)

    def _begin(self, what: str) -> None:
        Path("last-test").write_text(what, "utf-8")
        signal.setitimer(signal.ITIMER_PROF, TEST_CPU_S)
        signal.setitimer(signal.ITIMER_REAL, TEST_S)


def _run(copy: Path, tests: Sequence[Path | str], spark: bool | None = None) -> None:
    """Run tests in a copy, in this process.

    With `spark` given, exit with `_FAILED` at the first file that fails; if it is true only tests marked
    ``spark`` take part, else all others. Without it, run all tests and exit with 0.
    """
    os.setsid()
    os.chdir(copy)
    Path("failed").write_text("")
    Path("last-test").write_text("start of pytest")
    for stream in (1, 2):
        os.dup2(os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    if spark is False:  # Java reserves more than it uses
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # With CI set, hypothesis draws the same examples in each run and keeps no database of failures.
    os.environ.update(CI="true", PYTHONPATH=str(copy))
    sys.path.insert(0, str(copy))
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    marks = {None: "", False: "not spark and not long", True: "spark and not long"}[spark]
    options = [*config().pytest_add_cli_args, "-m", marks, *(["-x"] if spark is not None else [])]
    arguments = ["-q", "-p", "no:cacheprovider", *_QUIET_PRELOAD, *options]
    recorder = _Recorder()
    for each in tests:
        if pytest.main([*arguments, str(each)], plugins=[recorder]) not in _PASSED and spark is not None:
            os._exit(_FAILED)
    os._exit(0)


_QUIET_PRELOAD = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
_PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
