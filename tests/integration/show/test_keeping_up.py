"""Messages about a run in real time that was late."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from rich.console import Console

from integration.show.page.pages import write_report
from integration.show.terminal.run import print_result
from integration.show.terminal.sentences import fell_behind
from netstack import Result, from_json, to_json
from tests.integration.sample_results import sample_result

WHY = (
    "so times may be too long and rates too low; give the machine less to do, or run in virtual time, "
    "where its speed does not matter."
)


def run_of(
    behind_s: float | UnsetType | None, task_managers: dict[str, float | None] | UnsetType = UNSET
) -> Result:
    """A run of ten seconds."""
    result = replace(
        sample_result(debloated=True),
        clock="real",
        emulated_seconds=10.0,
        behind_s=behind_s,
        task_managers_behind_s=task_managers,
    )
    assert from_json(to_json(result)) == result
    return result


@pytest.mark.parametrize("behind_s", [UNSET, 0.0, 0.1])
def test_nothing_is_said_of_a_machine_that_kept_up(behind_s: float | UnsetType) -> None:
    assert list(fell_behind(run_of(behind_s))) == []


def test_a_machine_that_was_late_is_told_of() -> None:
    (sentence,) = fell_behind(run_of(0.5))
    assert sentence == f"This machine fell behind the clock by 0.5 s of 10 s, {WHY}"


def test_of_several_processes_those_that_were_late_are_named() -> None:
    (sentence,) = fell_behind(run_of(0.5, {"one": 0.05, "two": 0.5}))
    assert sentence == f"The process of task manager two fell behind the clock by 0.5 s of 10 s, {WHY}"
    (sentence,) = fell_behind(run_of(0.5, {"one": 0.2, "two": 0.5}))
    assert sentence == (
        f"The processes of task managers one, two fell behind the clock by up to 0.5 s of 10 s, {WHY}"
    )


def test_a_process_that_told_nothing_is_not_taken_for_one_that_kept_up() -> None:
    late, unknown = fell_behind(run_of(None, {"one": 0.2, "two": None, "three": 0.0}))
    assert late == f"The process of task manager one fell behind the clock by 0.2 s of 10 s, {WHY}"
    assert unknown == (
        f"The process of task manager two ended without reporting how far it was behind the clock, {WHY}"
    )


def test_the_terminal_and_the_page_say_the_same(tmp_path: Path) -> None:
    result = run_of(0.5, {"one": 0.5, "two": 0.0})
    (sentence,) = fell_behind(result)
    console = Console(file=io.StringIO(), width=80)
    print_result(result, console)
    assert isinstance(console.file, io.StringIO)
    assert sentence in " ".join(console.file.getvalue().split())
    page, *_ = write_report(tmp_path, {"late": result})
    assert sentence in " ".join(page.read_text("utf-8").split())
    page, *_ = write_report(tmp_path, {"in time": run_of(0.0)})
    assert "fell behind" not in page.read_text("utf-8")
