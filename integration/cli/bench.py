"""The command ``netstack bench``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from netstack import ScenarioError

from ..benchmarks.bench_case import Effort, Point, Way
from ..benchmarks.bench_results import BenchmarkRun, as_csv, this_machine, this_software
from ..benchmarks.bench_transport import BenchTransport
from ..benchmarks.catalogue_of_cases import CASES, case_named, chosen_points
from ..benchmarks.forks import run_point, transport_name
from ..benchmarks.intervals import THRESHOLD_PERCENT, Verdict
from ..benchmarks.saved_runs import FOLDER, changes, load_run, path_of, require_comparable
from ..extras import require
from ..files.reading import one_line
from ..report.benchmark_text import markdown, print_cases, print_changes, print_run
from ..report.output import (
    indented,
    prepare_file,
    prepare_folder,
    say,
    to_stderr,
    to_stdout,
    write_files,
    write_json,
    write_outputs,
)
from ..report.progress import Report, progress
from .arguments import Flag, Several, Whole, command_line, require_some
from .exit_status import FAILED

START_S = 3.0
"""About how long a fork takes to start, for the time left."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class EffortOptions:
    """How often cases are run; by default as each case says."""

    forks: Whole | None = None
    """Fresh processes for each point."""
    warmups: Whole | None = None
    """Iterations of each that do not count."""
    repetitions: Whole | None = None
    """Iterations of each that do."""
    scale: float = 1.0
    """Factor of what an iteration does: 0.1 for a quick look, 10 for quieter figures."""

    def of(self, point: Point) -> Effort:
        """Return how often a point is run."""
        given = {
            name: value
            for name in ("forks", "warmups", "repetitions")
            if (value := getattr(self, name)) is not None
        }
        return replace(point.course.effort, scale=self.scale, **given)

    def check(self) -> None:
        """Refuse what makes no sense.

        Raises:
            ScenarioError: it does not.
        """
        if self.forks is not None:
            require_some("bench", "--forks", self.forks)
        if self.repetitions is not None:
            require_some("bench", "--repetitions", self.repetitions)
        if self.warmups is not None and self.warmups < 0:
            raise ScenarioError([f"netstack bench: --warmups is {self.warmups}; it must be 0 or more"])
        if not (isfinite(self.scale) and self.scale > 0):
            raise ScenarioError([f"netstack bench: --scale is {self.scale:g}; it must be more than 0"])


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Where scores go beside the table on stdout."""

    json: Flag = False
    """Print all scores of all repetitions as JSON, and nothing else on stdout."""
    csv: Path | None = None
    """A file for a line for each point."""
    plot: Path | None = None
    """A folder for a picture of each case over its parameters."""
    markdown: Flag = False
    """Print the table as Markdown."""
    save: str | None = None
    """Keep the run under this name, to be compared with later."""
    against: str | None = None
    """Compare with the run of this name; exit status 1 if a score is worse."""
    store: Path = FOLDER
    """The folder of runs that are kept."""
    threshold: float = THRESHOLD_PERCENT
    """Percent by which a mean has to differ, beside intervals that do not overlap, to be called worse."""

    def prepare(self) -> None:
        """Check that everything can be written.

        Raises:
            ScenarioError: a name or a threshold makes no sense.
            OutputError: a file cannot be written.
            MissingExtraError: what draws is not installed.
        """
        if self.plot is not None:
            require("report", "netstack bench --plot")
        if not (isfinite(self.threshold) and self.threshold >= 0):
            raise ScenarioError([f"netstack bench: --threshold is {self.threshold:g}; it must be 0 or more"])
        kept = None if self.save is None else path_of(self.save, self.store, "--save")
        for file in (self.csv, kept):
            prepare_file(file)
        prepare_folder(self.plot)

    def write(self, run: BenchmarkRun) -> None:
        """Write what was asked for."""
        document = msgspec.json.encode(run)
        files = {}
        if self.json:
            write_json(document)
        if self.csv is not None:
            files[self.csv] = as_csv(run)
        if self.save is not None:
            files[path_of(self.save, self.store, "--save")] = indented(document)
        for path in write_outputs(files):
            say(f"wrote {path}")
        if self.plot is not None:
            from ..report.benchmark_chart import pictures  # its library takes a while

            write_files(self.plot, pictures(run))


def bench(
    *cases: str,
    parameter: Several = (),
    way: Several = (),
    transport: str | None = None,
    list_cases: Annotated[bool, Parameter(name="--list", negative=())] = False,
    effort: EffortOptions = EffortOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Run micro-benchmarks: the cases of flink-benchmarks, under their names and parameters, and ours.

    Args:
        cases: Which; all of them unless some are named.
        parameter: Which parameters, as 1000,100ms,SSL; several may be given.
        way: How: emulated, process (one, on the real clock) or tcp (between processes); several may be given.
        transport: MODULE:CLASS of a transport to measure in the place of ours.
        list_cases: Print the cases, their parameters and their ways, and run none.
        effort: How often.
        output: What to write, keep and compare.
    """
    if list_cases:
        print_cases([case_named(name) for name in cases] or CASES.values(), to_stdout())
        return 0
    require("statistics", "netstack bench")
    effort.check()
    measured = None if transport is None else _load_transport(transport)
    points = [point for point in chosen_points(cases, parameter, way) if _is_measured(point, measured)]
    if not points:
        text = "takes part in none of these; it is measured by the network cases, on the real clock"
        raise ScenarioError([f"netstack bench: --transport {transport} {text}"])
    if measured is not None and not measured.between_processes:
        say(f"{measured.name} has both ends in one process, so nothing is run between processes")
    planned = [(point, effort.of(point), transport_name(point, measured)) for point in points]
    saved = None
    if output.against is not None:
        saved = load_run(output.against, output.store, "--against")
        require_comparable(saved, output.against, this_machine(), planned)
    output.prepare()
    run = _run([(point, times) for point, times, _ in planned], measured)
    console = to_stderr() if output.json else to_stdout()
    if output.markdown and not output.json:
        print(markdown(run))
    else:
        print_run(run, console)
    output.write(run)
    if saved is None:
        return 0
    compared = changes(saved, run, output.threshold)
    print_changes(compared, str(output.against), output.threshold, console)
    return FAILED if any(change.verdict is Verdict.WORSE for change in compared) else 0


def _is_measured(point: Point, transport: type[BenchTransport] | None) -> bool:
    """Whether a point is run: all are, but for those in which a transport that was given takes no part."""
    if transport is None:
        return True
    reached = point.way is not Way.TCP or transport.between_processes
    return reached and transport_name(point, transport) != ""


def _run(planned: Sequence[tuple[Point, Effort]], transport: type[BenchTransport] | None) -> BenchmarkRun:
    """Run all points, one after the other, and show how far it is."""
    total = sum(_estimate(point, effort) for point, effort in planned)
    results = []
    done = 0.0
    with progress("bench", round(total), "s of work", to_stderr()) as report:
        for point, effort in planned:
            cost = _estimate(point, effort)
            tell = partial(_tell, report, done, cost / effort.iterations)
            results.append(run_point(point, effort, transport, tell))
            done += cost
    return BenchmarkRun(
        command=command_line(), machine=this_machine(), software=this_software(), results=results
    )


def _tell(report: Report, before: float, each: float, iterations: int) -> None:
    report(before + each * iterations)


def _estimate(point: Point, effort: Effort) -> float:
    """About how many seconds a point takes."""
    return effort.forks * START_S + effort.iterations * point.course.iteration_s * effort.scale


def _load_transport(name: str) -> type[BenchTransport]:
    """Import the class of a transport, also from the folder that the command is called in.

    Raises:
        ScenarioError: there is none of that name.
    """
    module, colon, attribute = name.partition(":")
    label = f"netstack bench: --transport is {name!r}"
    if not (module and colon and attribute):
        raise ScenarioError([f"{label}; it must be MODULE:CLASS"])
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        loaded = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:
        raise ScenarioError([f"{label}: {module} cannot be imported: {one_line(error)}"]) from None
    if not (isinstance(loaded, type) and issubclass(loaded, BenchTransport)):
        raise ScenarioError([f"{label}; {attribute} must be a class that inherits from BenchTransport"])
    return loaded
