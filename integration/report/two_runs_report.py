"""Two results side by side: a table for a terminal, and a page with the pictures of both at one scale."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netstack import InputError, Result, read_scenario

from ..analysis.result_differences import FigureDifference, ResultDifferences, document_of
from ..analysis.wording import NOTHING, QUANTITIES, ratio
from .output import PAGE, WIDTH, prepare_folder, write_outputs
from .tables import how_obtained, job_facts

if TYPE_CHECKING:
    from .job_graph import JobGraph
    from .panels import Chart

LEGEND = "Of the last window of each; difference: the second less the first; ratio: the second by the first."

_PIECE = re.compile(r"[^.-]+[.-]*|[.-]+")

_TEXTS: Mapping[str, Callable[[float | None], str]] = {
    quantity.name: quantity.text for quantity in QUANTITIES
}


def print_differences(differences: ResultDifferences, console: Console) -> None:
    """Print what was set otherwise, and the numbers of both."""
    heads = ("first", "second", "difference", "ratio")
    console.print(Text(f"first: {differences.first}\nsecond: {differences.second}", style="bold"))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False, pad_edge=False)
    table.add_column("")
    for head in heads:
        table.add_column(head, justify="right", min_width=12 if console.width >= WIDTH else 0)
    for figure in differences.figures:
        table.add_row(figure.quantity, *figure_cells(figure))
    console.print(table)
    console.print(Text(LEGEND, style="dim"))
    console.print()
    if not differences.settings:
        console.print("Both have the same settings.")
        return
    width = min(max(len(setting.key) for setting in differences.settings), console.width // 2)
    settings = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    settings.add_column("set otherwise", width=width)
    settings.add_column("first")
    settings.add_column("second")
    for setting in differences.settings:
        cells = (_broken(setting.key, width), setting.first or NOTHING, setting.second or NOTHING)
        settings.add_row(*(Text(cell, overflow="fold") for cell in cells))
    console.print(settings)


def _broken(key: str, width: int) -> str:
    """A key on lines of a width, broken behind dots and hyphens where it has them."""
    lines = [""]
    for piece in _PIECE.findall(key):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def figure_cells(figure: FigureDifference) -> tuple[str, str, str, str]:
    """Return the texts of both numbers, their difference with its sign, and their ratio."""
    text, by = _TEXTS[figure.quantity], figure.difference
    sign = "" if by is None or text(abs(by)) == text(0) else "-" if by < 0 else "+"
    difference = f"{sign}{text(None if by is None else abs(by))}"
    return text(figure.first), text(figure.second), difference, ratio(figure.ratio)


def write_differences(
    directory: Path, differences: ResultDifferences, results: Mapping[str, Result], command: str
) -> list[Path]:
    """Write the page of two results and a PNG for each picture, and return the files, the page first.

    Raises:
        OutputError: a file cannot be written.
    """
    from .charts import charts, to_png  # here, since the table needs nothing that draws

    pictures = charts(results)
    page = render_differences(differences, results, pictures, command)
    files = {PAGE: page.encode()} | {f"{chart.name}.png": to_png(chart) for chart in pictures}
    prepare_folder(directory)
    return write_outputs({directory / name: content for name, content in files.items()})


def render_differences(
    differences: ResultDifferences, results: Mapping[str, Result], pictures: list[Chart], command: str
) -> str:
    """Return the page as HTML; `results` are both by their names."""
    from .job_graph import NOTE
    from .pages import drawing, pretty, render_page

    return render_page(
        "two_runs.html.jinja",
        title=" beside ".join(results),
        names=list(results),
        rows=[(figure.quantity, figure.meaning, figure_cells(figure)) for figure in differences.figures],
        legend=LEGEND,
        settings=differences.settings,
        nothing=NOTHING,
        graphs={name: _graph(name, result) for name, result in results.items()},
        graph_note=NOTE,
        charts=pictures,
        facts={name: job_facts(result) for name, result in results.items()},
        obtained={name: how_obtained(result, command) for name, result in results.items()},
        scenarios={name: pretty(document_of(result)) for name, result in results.items()},
        specs=[drawing(chart) for chart in pictures],
    )


def _graph(name: str, result: Result) -> JobGraph | None:
    """The graph of a result; None where its scenario was not one of a file, and so cannot be read again."""
    from .job_graph import job_graph

    try:
        return job_graph(read_scenario(document_of(result)), {name: result.steady[-1:]})
    except InputError:
        return None
