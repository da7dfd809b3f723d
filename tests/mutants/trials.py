"""Whether storms, or tests, find the defect that is planted in a copy."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .mutant import Mutant

LONGEST_S = 600.0
"""Seconds that storms or tests may take in all; a defect that makes them go on for ever is found, too."""

_STORMS = """
import sys
from integration.storm.one_storm import run_storm

for seed in range(int(sys.argv[1])):
    problems = run_storm(seed).problems
    if problems:
        print(f"seed {seed}: {problems[0]}")
        sys.exit(1)
"""

FOUND, NOT_FOUND = 1, 0


class TrialError(Exception):
    """A trial came to no result."""


def first_wrong_storm(copy: Path, seeds: int) -> str | None:
    """Return which storm of the first `seeds` goes wrong in a copy, and how; None: none does.

    Raises:
        TrialError: The storms could not be run.
    """
    done = _run(copy, [sys.executable, "-c", _STORMS, str(seeds)])
    if done is None:
        return f"a storm goes on for more than {LONGEST_S:.0f} s"
    if done.returncode == NOT_FOUND:
        return None
    lines = done.stdout.splitlines()
    if done.returncode != FOUND or not lines or not lines[-1].startswith("seed "):
        raise TrialError(f"storms ended with {done.returncode}: {done.stderr[-500:]}")
    return lines[-1]


def first_failing_test(copy: Path, mutant: Mutant) -> str | None:
    """Return the first test that fails in a copy, of those named and then of all of the package; None: none.

    Raises:
        TrialError: The tests could not be run.
    """
    for places in (mutant.tests, (mutant.folder_of_tests,)):
        if places and (failed := _failing_test(copy, places)) is not None:
            return failed
    return None


def _failing_test(copy: Path, places: Sequence[str]) -> str | None:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    done = _run(copy, [*command, "-m", "not spark", *places])
    if done is None:
        return f"a test of {' '.join(places)} goes on for more than {LONGEST_S:.0f} s"
    if done.returncode == NOT_FOUND:
        return None
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+::\S+)", done.stdout, re.MULTILINE)
    if not failed:
        raise TrialError(f"tests ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}")
    return str(failed[0]).removeprefix("tests/")


def _run(copy: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """Run a command on a copy, and on nothing else that is installed; None: it did not come to its end."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
