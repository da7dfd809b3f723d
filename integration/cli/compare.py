"""The command ``netstack compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from netstack import InputError, Result, Scenario

from ..base.errors import FileError
from ..base.extras import require
from ..base.file_kinds import FileKind, kind_of
from ..base.reading import load_json, load_result
from ..base.writing import prepare_file, prepare_folder
from ..runs.reference_comparison import Comparison, runs_of
from ..runs.reference_comparison import compare as compare_results
from ..runs.result_differences import differences
from ..runs.seeds import run_seeds
from ..show.terminal.comparison import comparison_markdown, print_comparisons, print_differences
from ..show.terminal.console import PAGE, say, to_stderr
from ..show.terminal.documents import Comparisons, indented, present, write_files
from ..show.terminal.progress import progress
from .arguments import Flag, Whole, command_line, require_some, usage_error
from .exit_status import FAILED
from .preparation import load_runnable

SEEDS = 5

JSON_NAME = "comparison.json"
TABLE_NAME = "comparison.md"


class Subject(NamedTuple):
    """A scenario to run, or an existing result, with its reference."""

    file: Path
    ours: Scenario | Result
    reference_file: Path
    reference: dict[str, Any]

    @property
    def sides(self) -> str:
        """The files of both sides, as text."""
        other = "reference" if "schema" in self.reference else "Flink"
        return f"{other}: {self.reference_file}, ours: {self.file}"


def compare(
    *paths: Path,
    seeds: Whole = SEEDS,
    allow_code: Flag = False,
    json: Flag = False,
    out: Path | None = None,
    markdown: Path | None = None,
) -> int:
    """Compare scenarios or results with what a real Flink measured, or two results with each other.

    The exit status is 1 if a number is outside its tolerance. Two results have no tolerance.

    Args:
        paths: Scenarios (files, or folders of them) or results. The last argument is the reference: a file,
            or a folder with a file NAME.json for each scenario. Or two results of ``netstack run``, which may
            be of different jobs.
        seeds: Number of runs of each scenario: with its own seed, the next seed, and so on.
        allow_code: Allow files to name a debloat policy as MODULE:CLASS; the module is imported, so its code
            runs.
        json: Print the comparison as one JSON document.
        out: Folder for comparison.json and comparison.md; if two results are compared, for report.html, its
            pictures and comparison.json.
        markdown: File for the table as Markdown.
    """
    if len(paths) < 2:
        raise usage_error("compare", "give a scenario or a result, and the reference as last argument")
    require_some("compare", "--seeds", seeds)
    if len(paths) == 2 and all(kind_of(path) is FileKind.RESULT for path in paths):
        return _compare_two(paths[0], paths[1], json=json, out=out, markdown=markdown)
    prepare_folder(out, JSON_NAME, TABLE_NAME)
    prepare_file(markdown)
    files: list[Path] = []
    for path in paths[:-1]:
        scenarios = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        if not scenarios:
            raise FileError([f"{path}: contains no scenario that can be run; give files that end in .toml"])
        files += scenarios
    subjects = [_subject(file, paths[-1], allow_code) for file in files]
    comparisons = _compare_all(subjects, seeds)
    document = Comparisons(ok=all(comparison.ok for comparison in comparisons), comparisons=comparisons)
    table = comparison_markdown(comparisons).encode()
    if out is not None:
        write_files(out, {JSON_NAME: indented(document), TABLE_NAME: table})
    if markdown is not None:
        write_files(markdown.parent, {markdown.name: table})
    sides = [subject.sides for subject in subjects]
    present(document, lambda shown, console: print_comparisons(shown.comparisons, console, sides), json=json)
    return 0 if document.ok else FAILED


def _subject(file: Path, reference: Path, allow_code: bool) -> Subject:
    ours: Scenario | Result
    match kind_of(file):
        case FileKind.RESULT:
            ours = load_result(file)
        case FileKind.MEASUREMENT:
            wrong = "is a measurement of a Flink; give it last, after a scenario or a result"
            raise FileError([f"{file}: {wrong}"])
        case _:
            ours = load_runnable(file, allow_code=allow_code)
    scenario = ours.scenario if isinstance(ours, Result) else ours
    path = reference / f"{scenario.name}.json" if reference.is_dir() else reference
    kind = kind_of(path)
    if kind not in (None, FileKind.MEASUREMENT, FileKind.RESULT):
        last = (
            "the last argument must be the reference: a .json file measured in a Flink, or a folder of them"
        )
        raise FileError([f"{path}: is {kind}; {last}"])
    document = load_json(path)
    try:
        runs_of(document)
    except InputError as error:
        raise FileError([f"{path}: {problem}" for problem in error.problems]) from None
    return Subject(file, ours, path, document)


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


def _compare_two(first: Path, second: Path, *, json: bool, out: Path | None, markdown: Path | None) -> int:
    """Print two results of any jobs side by side."""
    if markdown is not None:
        raise usage_error(
            "compare", "--markdown is possible only in a comparison with a Flink; give --out instead"
        )
    if out is not None:
        require("report", "netstack compare --out")
    prepare_folder(out, PAGE, JSON_NAME)
    loaded = [load_result(file) for file in (first, second)]
    for file, result in zip((first, second), loaded, strict=True):
        if not result.steady:
            raise FileError([f"{file}: the run ended before its measured window began"])
    results = dict(zip(_names(first, second), loaded, strict=True))
    differing = differences(*results.items())
    if out is not None:
        from ..show.page.pages import write_differences  # imported here, because altair takes a while

        page, *_ = write_differences(out, differing, results, command_line())
        write_files(out, {JSON_NAME: indented(differing)})
        say(f"wrote {page}")
    present(differing, print_differences, json=json)
    return 0


def _names(first: Path, second: Path) -> tuple[str, str]:
    """Return the shortest names that differ. Number them if both are the same file."""
    if first.stem != second.stem:
        return first.stem, second.stem
    longer = str(first.with_suffix("")), str(second.with_suffix(""))
    return longer if longer[0] != longer[1] else (f"{first.stem} (1)", f"{second.stem} (2)")
