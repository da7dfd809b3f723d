"""Two results of ``netstack run`` beside each other: the other half of the command ``netstack compare``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from netstack import Result, ScenarioError

from ..analysis.result_differences import differences
from ..files.reading import load_json, load_result
from ..report.output import PAGE, indented, prepare_folder, say, to_stdout, write_files, write_json
from .arguments import command_line

DOCUMENT = "comparison.json"


def is_result(file: Path) -> bool:
    """Return whether a file is one that says of itself that it is a result; a measurement of Flink does not.

    Raises:
        ScenarioError: it is a JSON file that cannot be read.
    """
    return file.suffix == ".json" and file.is_file() and "schema" in load_json(file)


def compare_two(first: Path, second: Path, *, json: bool, out: Path | None, markdown: Path | None) -> int:
    """Show two results beside each other, whatever their jobs are, and return the exit status 0.

    Raises:
        ScenarioError: a file is no result, or there is no such table as Markdown.
        OutputError: a file cannot be written.
    """
    if markdown is not None:
        raise ScenarioError(["netstack compare: --markdown is for a comparison with a Flink; give --out"])
    prepare_folder(out, PAGE, DOCUMENT)
    results = dict(zip(_names(first, second), (_measured(first), _measured(second)), strict=True))
    left, right = results.items()
    differing = differences(left, right)
    encoded = msgspec.json.encode(differing)
    # Here, since what draws takes a while to import.
    from ..report.two_runs_report import print_differences, write_differences

    if out is not None:
        page, *_ = write_differences(out, differing, results, command_line())
        write_files(out, {DOCUMENT: indented(encoded)})
        say(f"wrote {page}")
    if json:
        write_json(encoded)
    else:
        print_differences(differing, to_stdout())
    return 0


def _measured(file: Path) -> Result:
    result = load_result(file)
    if not result.steady:
        raise ScenarioError([f"{file}: the run ended before anything was measured"])
    return result


def _names(first: Path, second: Path) -> tuple[str, str]:
    """The shortest names that tell the two files apart; numbers where they are one file."""
    if first.stem != second.stem:
        return first.stem, second.stem
    longer = str(first.with_suffix("")), str(second.with_suffix(""))
    return longer if longer[0] != longer[1] else (f"{first.stem} (1)", f"{second.stem} (2)")
