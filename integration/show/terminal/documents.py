"""JSON documents of the commands, and `present`, which prints a document as JSON or for people.

If a document consists of one record, such as a `Diagnosis`, that record is the document. Documents that
combine several records are declared here. `schema` is the name of the layout with its version.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from rich.console import Console

from netstack import Result, to_json

from ...base.writing import write_outputs
from .console import say, to_stdout

if TYPE_CHECKING:
    from ...advise.lint.check import LintReport
    from ...advise.sweeps.point_rows import PointRow
    from ...advise.tune.pitfalls import Pitfall
    from ...advise.tune.recommend import Recommendation
    from ...flink.read.measurements import Measured
    from ...runs.reference_comparison import Comparison
    from ...spark.shuffling.api import Partitioner, Ship

Document = TypeVar("Document")

_JSON_CONTROL = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]")
"""Control characters that JSON encoders leave unescaped, in UTF-8."""


class Comparisons(msgspec.Struct, frozen=True, kw_only=True):
    """Comparisons of scenarios or results with a real Flink (``netstack compare``)."""

    schema: str = "netstack.comparison/1"
    ok: bool
    comparisons: list[Comparison]


class DemoRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Both runs of the demo, each as ``netstack run`` writes it, and their comparison in words."""

    schema: str = "netstack.demo/1"
    finding: str
    off: msgspec.Raw
    on: msgspec.Raw


class ImportedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A running Flink job as a scenario, with its measurements (``netstack import-flink``)."""

    schema: str = "netstack.import/1"
    scenario: dict[str, Any]
    notes: list[str]
    measured: Measured


class LintReports(msgspec.Struct, frozen=True, kw_only=True):
    """Reports on several configuration files (``netstack lint``). A single `LintReport` has no such list."""

    schema: str = "netstack.lint-reports/1"
    ok: bool
    reports: list[LintReport]


class Shuffled(msgspec.Struct, frozen=True, kw_only=True):
    """A shuffle and the counts of each of its tasks (``netstack shuffle``)."""

    schema: str = "netstack.shuffle/1"
    input: str
    output: str
    keys: list[str]
    partitions: int
    ship: Ship
    partitioner: Partitioner
    wall_seconds: float = 0.0
    """Duration of the Spark job that read, shuffled and wrote."""
    tasks: list[dict[str, Any]] = []
    """Rows of `integration.spark.shuffle_statistics`, one for each task."""


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """A tuning of a job and its recommendations (``netstack tune``)."""

    schema: str = "netstack.tune/3"
    command: str
    scenario: dict[str, Any]
    """The tuned scenario as a document."""
    notes: list[str]
    """Properties that could not be read, if the scenario comes from a running job."""
    recommendations: list[Recommendation]
    """One for each combination of conditions, which are values of options of Flink."""
    pitfalls: list[Pitfall]
    points: list[PointRow]
    """The points of the sweep, without their results."""


def present(document: Document, show: Callable[[Document, Console], object], *, json: bool) -> None:
    """Print a document to stdout, as JSON or, with `show`, for people."""
    if json:
        print_document(encoded(document))
    else:
        show(document, to_stdout())


def print_document(document: bytes) -> None:
    """Print a JSON document to stdout, with a line feed at its end."""
    sys.stdout.flush()
    sys.stdout.buffer.write(shown_json(document) + b"\n")
    sys.stdout.buffer.flush()


def print_text(text: str) -> None:
    """Print a text document, such as a scenario file, to stdout unchanged."""
    sys.stdout.write(text)


def encoded(document: object) -> bytes:
    """Return a document as JSON on one line."""
    return to_json(document) if isinstance(document, Result) else msgspec.json.encode(document)


def indented(document: object) -> bytes:
    """Return a document as JSON for a file: a line for each value, and a final line feed."""
    return msgspec.json.format(encoded(document), indent=1) + b"\n"


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by name, and report each on stderr.

    Raises:
        OutputError: A file cannot be written. Then no file is written.
    """
    for path in write_outputs({folder / name: content for name, content in files.items()}):
        say(f"wrote {path}")


def shown_json(document: bytes) -> bytes:
    """Return equal JSON with control characters escaped, so that a terminal does not interpret them."""
    return _JSON_CONTROL.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), document)
