"""The command ``netstack compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from netstack import Result, Scenario, ScenarioError

from ..analysis.comparison import Comparison, reference_runs
from ..analysis.comparison import compare as compare_results
from ..files.reading import load_json, load_result
from ..report.comparison_text import comparison_markdown, print_comparisons
from ..report.output import (
    indented,
    prepare_file,
    prepare_folder,
    progress,
    to_stderr,
    to_stdout,
    write_files,
    write_json,
)
from ..runs.scenario_runs import run_seeds
from .arguments import Flag, Whole, require_some
from .compare_two import compare_two, is_result
from .exit_status import FAILED
from .preparation import load_runnable

SEEDS = 5

JSON_NAME = "comparison.json"
TABLE_NAME = "comparison.md"


class Subject(NamedTuple):
    """What is compared: a scenario that has to be run, or a result, with the reference for it."""

    file: Path
    ours: Scenario | Result
    reference: dict[str, Any]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints."""

    schema: str = "netstack.comparison/1"
    ok: bool
    comparisons: list[Comparison]


def compare(
    *paths: Path,
    seeds: Whole = SEEDS,
    allow_code: Flag = False,
    json: Flag = False,
    out: Path | None = None,
    markdown: Path | None = None,
) -> int:
    """Compare scenarios or results with what a real Flink measured, or two results with each other.

    Exit status 1 where a number is not within what is allowed of Flink's; two results are shown only.

    Args:
        paths: Scenarios (files, or folders of them) or results, and last the reference: a file, or a folder
            that holds NAME.json for each; or two results of ``netstack run``, of any jobs.
        seeds: Runs of each scenario, with its own seed, the next one, and so on.
        allow_code: Let files name a debloat policy as MODULE:CLASS, which is imported and so run.
        json: Print the comparison as one JSON document.
        out: Folder for comparison.json and comparison.md; of two results for report.html, its pictures and
            comparison.json.
        markdown: File for the table as Markdown.
    """
    if len(paths) < 2:
        raise ScenarioError(["netstack compare: name a scenario or a result, and last the reference"])
    require_some("compare", "--seeds", seeds)
    if len(paths) == 2 and all(map(is_result, paths)):
        return compare_two(paths[0], paths[1], json=json, out=out, markdown=markdown)
    prepare_folder(out, JSON_NAME, TABLE_NAME)
    prepare_file(markdown)
    subjects = [_subject(file, paths[-1], allow_code) for file in _files(paths[:-1])]
    comparisons = _compare_all(subjects, seeds)
    report = Report(ok=all(comparison.ok for comparison in comparisons), comparisons=comparisons)
    _write(report, out, markdown)
    if json:
        write_json(msgspec.json.encode(report))
    else:
        print_comparisons(comparisons, to_stdout())
    return 0 if report.ok else FAILED


def _files(paths: Sequence[Path]) -> list[Path]:
    """The files meant: of a folder all scenarios that this version can run."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        scenarios = sorted(path.glob("*.toml"))
        if not scenarios:
            raise ScenarioError([f"{path}: holds no scenario that can be run; name .toml files"])
        files += scenarios
    return files


def _subject(file: Path, reference: Path, allow_code: bool) -> Subject:
    ours = _ours(file, allow_code)
    name = (ours if isinstance(ours, Scenario) else ours.scenario).name
    path = reference / f"{name}.json" if reference.is_dir() else reference
    document = load_json(path)
    try:
        reference_runs(document)
    except ScenarioError as error:
        raise ScenarioError([f"{path}: {problem}" for problem in error.problems]) from None
    return Subject(file, ours, document)


def _ours(file: Path, allow_code: bool) -> Scenario | Result:
    if file.suffix == ".json" and "schema" in load_json(file):
        return load_result(file)
    return load_runnable(file, allow_code=allow_code)


def _compare_all(subjects: Sequence[Subject], seeds: int) -> list[Comparison]:
    scenarios = [subject.ours for subject in subjects if isinstance(subject.ours, Scenario)]
    with progress("comparing", len(scenarios) * seeds, "runs", to_stderr()) as report:
        results = iter(run_seeds(scenarios, seeds, done=report))
    comparisons = []
    for subject in subjects:
        ours = [subject.ours] if isinstance(subject.ours, Result) else next(results)
        try:
            comparisons.append(compare_results(ours, subject.reference))
        except ScenarioError as error:
            raise ScenarioError([f"{subject.file}: {problem}" for problem in error.problems]) from None
    return comparisons


def _write(report: Report, out: Path | None, markdown: Path | None) -> None:
    table = comparison_markdown(report.comparisons).encode()
    if out is not None:
        write_files(out, {JSON_NAME: indented(msgspec.json.encode(report)), TABLE_NAME: table})
    if markdown is not None:
        write_files(markdown.parent, {markdown.name: table})
