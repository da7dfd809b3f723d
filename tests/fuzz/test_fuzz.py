"""A short run of the fuzzer; a long one is ``python -m tests.fuzz --inputs 10000000``."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz.door import Arguments, Door, refused
from tests.fuzz.doors import DOORS
from tests.fuzz.pieces import Failure, arguments_of, run_apart, run_here
from tests.fuzz.wire_doors import decode, frames

ROOT = Path(__file__).resolve().parents[2]

SECONDS = 0.3
"""About how long a core takes for the inputs of a door here."""


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of inputs lie where they cost no disk; RocksDB would wait for it."""
    if command.IN_MEMORY.is_dir():
        monkeypatch.setattr(tempfile, "tempdir", str(command.IN_MEMORY))


# A compressed answer that is damaged leaves generators within httpx for the garbage collector to close.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if not door.native])
def test_inputs_of_each_door_are_accepted_or_refused(name: str) -> None:
    door = DOORS[name]
    outcomes = list(run_here(door, 0, 0, max(4, round(door.per_second * SECONDS))))
    assert [outcome for outcome in outcomes if isinstance(outcome, Failure)] == []
    assert set(outcomes) == {True, False}


@pytest.mark.long
def test_inputs_of_doors_that_may_bring_the_process_down_are_run_by_the_command(tmp_path: Path) -> None:
    """Not forked off this process, in which RocksDB may have threads already."""
    native = [name for name, door in DOORS.items() if door.native]
    arguments = ["--doors", *native, "--inputs", "804", "--log", str(tmp_path / "log")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("804 inputs, no failures\n")
    pieces = [json.loads(line) for line in (tmp_path / "log").read_text("utf-8").splitlines()]
    assert {piece["door"] for piece in pieces} == {*native}
    assert all(0 < piece["accepted"] < piece["inputs"] for piece in pieces)


@pytest.mark.parametrize("name", DOORS)
def test_a_seed_gives_the_same_inputs_again(name: str) -> None:
    first, again, other = (
        [repr(each) for each in itertools.islice(DOORS[name].inputs(Random(seed)), 5)] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert repr(arguments_of(DOORS[name], 1, 4)) == first[4]


def test_frames_reach_every_message_and_every_error() -> None:
    messages: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for data, _, limit in itertools.islice(frames(Random(0)), 4000):
        outcome = decode(data, (), limit)
        messages.update(type(message).__name__ for message in outcome.messages)
        errors[type(outcome.error).__name__] += 1
    assert len(messages) == 12
    assert min(messages.values()) >= 20
    assert set(errors) == {"NoneType", "BadMagic", "FrameTooLong", "MalformedFrame", "UnknownMessage"}
    assert min(errors.values()) >= 50


# The fuzzer itself.


def _numbers(random: Random) -> Iterator[Arguments]:
    return ((number,) for number in itertools.count())


def _trouble(number: int) -> bool:
    if number == 3:
        raise KeyError("third")
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 7:
        bytes(1 << 40)
    return number % 2 == 0


TROUBLE = Door("trouble", _numbers, _trouble, 10, 1)


def test_a_piece_tells_what_failed_and_goes_on_after_a_process_that_is_lost() -> None:
    piece = run_apart(TROUBLE, 0, 10)
    assert (piece.inputs, piece.accepted) == (10, 5)
    assert [failure.number for failure in piece.failures] == [3, 5, 7]
    assert piece.failures[0].error.startswith("KeyError at tests/fuzz/test_fuzz.py:")
    assert piece.failures[1].error == "the process ended with -9"
    assert piece.failures[2].error.startswith("MemoryError at tests/fuzz/test_fuzz.py:")


@pytest.mark.parametrize("text", ["", "two\nlines", "x" * 5000])
def test_a_refusal_that_cannot_be_shown_in_a_line_is_found(text: str) -> None:
    with pytest.raises(AssertionError):
        refused(ValueError(text))


def test_a_run_goes_on_where_its_log_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    doors = [TROUBLE, TROUBLE._replace(name="other", share=3)]
    for inputs, pieces in ((20, 2), (40, 4), (40, 4)):
        run = command.Run(doors, inputs, 0)
        if log.exists():
            command.read_log(log, run)
        command.go_on(run, inputs, log)
        entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        assert sum("inputs" in entry for entry in entries) == pieces
        assert run.done == {"trouble": inputs // 4, "other": inputs // 4 * 3}
        assert run.failures == sum("error" in entry for entry in entries)
        assert run.next() is None
        assert run.left_s == 0
    assert {"door": "other", "seed": 0, "number": 3} in [
        {key: value for key, value in entry.items() if key != "error"} for entry in entries
    ]
    assert "40 of 40" in capsys.readouterr().out
