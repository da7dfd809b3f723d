"""Runs that are kept under a name, and what a run has to be like to be set beside one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import msgspec

from netstack import ScenarioError

from ..files.reading import LARGEST_RESULT, one_line, read_user_file
from .bench_case import UNITS, Effort, Point
from .bench_results import FORMAT, BenchmarkRun, MachineInfo, PointResult
from .intervals import Verdict, change_percent, verdict_of

FOLDER = Path(".netstack-bench")
"""Where runs are kept, unless a user says otherwise."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def path_of(name: str, folder: Path, option: str) -> Path:
    """Return where a run of that name is kept.

    Raises:
        ScenarioError: it can be no name.
    """
    if not _NAME.fullmatch(name):
        right = "letters, digits, dots, hyphens and underscores, beginning with a letter or digit"
        raise ScenarioError([f"netstack bench: {option} is {name!r}; a name has up to 100 {right}"])
    return folder / f"{name}.json"


def load_run(name: str, folder: Path, option: str) -> BenchmarkRun:
    """Return a run that was kept.

    Raises:
        ScenarioError: there is none of that name, or what there is cannot be read or is none.
    """
    path = path_of(name, folder, option)
    if not path.exists():
        there = ", ".join(sorted(file.stem for file in folder.glob("*.json"))) or "none"
        text = f"netstack bench: {option} is {name!r}, and {path} is not there; saved in {folder}: {there}"
        raise ScenarioError([text])
    return decode_run(read_user_file(path, LARGEST_RESULT), path)


def decode_run(document: bytes, path: Path) -> BenchmarkRun:
    """Return the run that a document holds.

    Raises:
        ScenarioError: it holds none; the line names the file.
    """
    try:
        run = msgspec.json.decode(document, type=BenchmarkRun)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ScenarioError([_damaged(path, one_line(error))]) from None
    if run.format != FORMAT:
        raise ScenarioError([_damaged(path, f"its format is {run.format!r}; it must be {FORMAT!r}")])
    for result in run.results:
        if problem := _problem(result):
            raise ScenarioError([_damaged(path, f"{result.name}: {problem}")])
    return run


def _damaged(path: Path, problem: str) -> str:
    return f"{path}: is no saved benchmark: {problem}; save it anew with --save {path.stem}"


def _problem(result: PointResult) -> str:
    unit = UNITS.get(result.unit)
    if unit is None or unit.mode != result.mode:
        return f"there is no unit {result.unit!r} of mode {result.mode!r}"
    if not result.scores or not all(result.scores):
        return "it has no scores"
    scores = [score for forks in (result.scores, result.yardstick_scores) for fork in forks for score in fork]
    return "" if all(isfinite(score) and score > 0 for score in scores) else "a score is no positive number"


def require_comparable(
    saved: BenchmarkRun,
    name: str,
    machine: MachineInfo,
    wanted: Sequence[tuple[Point, Effort, str]],
) -> None:
    """Refuse, before anything is run, to compare what cannot be compared.

    `wanted` are what is going to be run, how often, and by which transport. Forks and repetitions may differ.

    Raises:
        ScenarioError: the machine is another one, or a case was not run then, or with other iterations.
    """
    if saved.machine != machine:
        text = f"was run on {saved.machine.text}; this is {machine.text}: run both on one machine"
        raise ScenarioError([f"netstack bench: --against {name}: {text}"])
    kept = {result.key: result for result in saved.results}
    for point, effort, transport in wanted:
        key = (point.case.name, point.parameter, str(point.way), transport)
        before = kept.get(key)
        label = " ".join(filter(None, key))
        if before is None:
            text = f"has no {label}; name the cases that it has, or save a run with it"
            raise ScenarioError([f"netstack bench: --against {name}: {text}"])
        if (before.scale, before.warmups) != (effort.scale, effort.warmups):
            text = (
                f"{label} was run with --scale {before.scale:g} --warmups {before.warmups}, and now with "
                f"--scale {effort.scale:g} --warmups {effort.warmups}; give the same"
            )
            raise ScenarioError([f"netstack bench: --against {name}: {text}"])


@dataclass(frozen=True, slots=True)
class Change:
    """A result beside that of a saved run."""

    before: PointResult
    now: PointResult
    verdict: Verdict
    percent: float
    """By how much the mean has grown."""
    yardstick_percent: float | None
    """By how much that of the yardstick has, which tells of the machine rather than of the code."""


def changes(saved: BenchmarkRun, run: BenchmarkRun, threshold_percent: float) -> list[Change]:
    """Return what the rule of `intervals` says of each result."""
    kept = {result.key: result for result in saved.results}
    pairs = [(kept[result.key], result) for result in run.results]
    return [_change(before, now, threshold_percent) for before, now in pairs]


def _change(before: PointResult, now: PointResult, threshold_percent: float) -> Change:
    was, is_now = before.yardstick_interval, now.yardstick_interval
    return Change(
        before=before,
        now=now,
        verdict=verdict_of(before.interval, now.interval, now.measure.more_is_better, threshold_percent),
        percent=change_percent(before.interval, now.interval),
        yardstick_percent=None if was is None or is_now is None else change_percent(was, is_now),
    )
