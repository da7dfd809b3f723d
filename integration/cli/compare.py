"""The command ``netstack compare``: ours beside a real Flink's numbers, or two results beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from netstack import InputError, Result, Scenario

from ..analysis.comparison import Comparison
from ..analysis.comparison import compare as compare_results
from ..analysis.reference import runs_of
from ..analysis.result_differences import differences
from ..errors import FileError, UsageError
from ..extras import require
from ..files.reading import load_json, load_result
from ..report.comparison_text import comparison_markdown, print_comparisons
from ..report.output import (
    PAGE,
    indented,
    prepare_file,
    prepare_folder,
    say,
    to_stderr,
    to_stdout,
    write_files,
    write_json,
)
from ..report.progress import progress
from ..runs.scenario_runs import run_seeds
from .arguments import Flag, Whole, command_line, require_some
from .exit_status import FAILED
from .preparation import load_runnable

SEEDS = 5

JSON_NAME = "comparison.json"
TABLE_NAME = "comparison.md"


class Subject(NamedTuple):
    """What is compared: a scenario that has to be run, or a result, with the reference for it."""

    file: Path
    ours: Scenario | Result
    reference_file: Path
    reference: dict[str, Any]

    @property
    def sides(self) -> str:
        """Which file is which side."""
        return f"Flink: {self.reference_file}, ours: {self.file}"


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
        raise UsageError(["netstack compare: name a scenario or a result, and last the reference"])
    require_some("compare", "--seeds", seeds)
    if len(paths) == 2 and all(map(_is_result, paths)):
        return _compare_two(paths[0], paths[1], json=json, out=out, markdown=markdown)
    prepare_folder(out, JSON_NAME, TABLE_NAME)
    prepare_file(markdown)
    subjects = [_subject(file, paths[-1], allow_code) for file in _files(paths[:-1])]
    comparisons = _compare_all(subjects, seeds)
    report = Report(ok=all(comparison.ok for comparison in comparisons), comparisons=comparisons)
    _write(report, out, markdown)
    if json:
        write_json(msgspec.json.encode(report))
    else:
        print_comparisons(comparisons, to_stdout(), [subject.sides for subject in subjects])
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
            raise FileError([f"{path}: holds no scenario that can be run; name .toml files"])
        files += scenarios
    return files


def _subject(file: Path, reference: Path, allow_code: bool) -> Subject:
    ours = _ours(file, allow_code)
    name = (ours if isinstance(ours, Scenario) else ours.scenario).name
    path = reference / f"{name}.json" if reference.is_dir() else reference
    if path.suffix == ".toml":
        text = (
            "is a scenario; what is named last has to be what a Flink measured, a file .json, or their folder"
        )
        raise FileError([f"{path}: {text}"])
    document = load_json(path)
    try:
        runs_of(document)
    except InputError as error:
        raise FileError([f"{path}: {problem}" for problem in error.problems]) from None
    return Subject(file, ours, path, document)


def _ours(file: Path, allow_code: bool) -> Scenario | Result:
    if _is_result(file):
        return load_result(file)
    if _is_measurement(file):
        raise FileError(
            [f"{file}: is what a Flink measured; name it last, behind a scenario or a result of ours"]
        )
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
        except InputError as error:
            raise FileError([f"{subject.file}: {problem}" for problem in error.problems]) from None
    return comparisons


def _write(report: Report, out: Path | None, markdown: Path | None) -> None:
    table = comparison_markdown(report.comparisons).encode()
    if out is not None:
        write_files(out, {JSON_NAME: indented(msgspec.json.encode(report)), TABLE_NAME: table})
    if markdown is not None:
        write_files(markdown.parent, {markdown.name: table})


def _is_result(file: Path) -> bool:
    """Whether a file says of itself that it is a result; a measurement of Flink does not."""
    return file.suffix == ".json" and file.is_file() and "schema" in load_json(file)


def _is_measurement(file: Path) -> bool:
    """Whether a file is what a real Flink measured, which has neither a schema nor vertices to run."""
    if file.suffix != ".json" or not file.is_file():
        return False
    document = load_json(file)
    return "steady" in document and not {"schema", "vertices"} & document.keys()


def _compare_two(first: Path, second: Path, *, json: bool, out: Path | None, markdown: Path | None) -> int:
    """Show two results beside each other, whatever their jobs are; the exit status is 0."""
    if markdown is not None:
        raise UsageError(["netstack compare: --markdown is for a comparison with a Flink; give --out"])
    if out is not None:
        require("report", "netstack compare --out")
    prepare_folder(out, PAGE, JSON_NAME)
    results = dict(zip(_names(first, second), (_measured(first), _measured(second)), strict=True))
    left, right = results.items()
    differing = differences(left, right)
    encoded = msgspec.json.encode(differing)
    # Here, since what draws takes a while to import.
    from ..report.two_runs_report import print_differences, write_differences

    if out is not None:
        page, *_ = write_differences(out, differing, results, command_line())
        write_files(out, {JSON_NAME: indented(encoded)})
        say(f"wrote {page}")
    if json:
        write_json(encoded)
    else:
        print_differences(differing, to_stdout())
    return 0


def _measured(file: Path) -> Result:
    result = load_result(file)
    if not result.steady:
        raise FileError([f"{file}: the run ended before anything was measured"])
    return result


def _names(first: Path, second: Path) -> tuple[str, str]:
    """The shortest names that tell the two files apart; numbers where they are one file."""
    if first.stem != second.stem:
        return first.stem, second.stem
    longer = str(first.with_suffix("")), str(second.with_suffix(""))
    return longer if longer[0] != longer[1] else (f"{first.stem} (1)", f"{second.stem} (2)")
