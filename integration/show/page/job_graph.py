"""A job as a graph: its vertices with their figures in one or two runs, and the ship strategies of its edges.

Vertices stand in columns by rank: a vertex stands one column to the right of its last input. Within a
column, the vertices have the order of the scenario. An edge that crosses columns has its own lane below all
vertices, so it never runs behind a vertex. The name of an edge stands on its line, at its source::

    source a --hash------> map --hash-------> sink
    source b --rebalance-.                .->
                          `---------------'     the lane of the edge from source b to sink

``page/graph.html.jinja`` draws the graph in the colours of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from netstack import Edge, Scenario, Steady, Vertex

from ...base.number_text import counted
from ...base.optional_figures import middle
from ...runs.quantities import GRAPH, SHARE, VERTEX, Quantity, VertexWindow, ends_of, in_view, vertex_windows
from ..terminal.console import shown

MARGIN = 4.0
"""Width in pixels of the empty margin around the graph."""
GAP = 84.0
"""Pixels between columns."""
NAME_OF_EDGE = 62.0
"""Pixels of an edge that are horizontal, below its name."""
LANE = 18.0
"""Height in pixels of the lane of an edge that crosses columns."""
_BETWEEN = 28.0
"""Pixels between vertices of a column."""
_TURN, _ARROW = 4.0, 12.0
"""Pixels in which an edge turns into or out of its lane, and horizontal pixels at its target."""

NAMES = 96.0
"""Width in pixels of a vertex without figures. A vertex with the figures of two runs fits on a phone."""
PADDING = 12.0
COLUMN = 90.0
"""Width of the figures of one run, in pixels. Five vertices with those of two runs fit in a page."""
LEAST_WIDTH = 240.0
FIRST_ROW = 82.0
"""Distance from the top of a vertex to its figures, which are below the names, in pixels."""
ROW = 26.0

PAGE_WIDTH = 1300.0
"""Width of a page in pixels. A wider graph is drawn smaller, but not smaller than `LEAST_SCALE`."""
LEAST_SCALE = 0.75

MOST_COLUMNS = 2
"""Maximum number of runs whose figures are drawn in a vertex."""

Point = tuple[float, float]

NOTE = (
    "Rates are of all subtasks together; shares of time and the start delay are of the subtask with the "
    "highest value. Busy: it works; back-pressure: it waits for buffers to write to; start delay: from "
    "the trigger of a checkpoint to its first barrier."
)

_COLUMN_CELLS = 12
_NAME_PIXELS, _PLACEMENT_PIXELS = 9.5, 7.2
"""Widths in pixels of a character of a name, which is bold, and of a placement."""
SUBTASKS = 62.0
"""Pixels beside the name, for the number of subtasks."""

_CUT = "\N{HORIZONTAL ELLIPSIS}"

Runs = Mapping[str, Sequence[Steady]]
"""Measured windows by column name. If a column has several, one per seed, their median is drawn."""


class DrawnText(NamedTuple):
    """A text as drawn, possibly shortened, and the full text."""

    drawn: str
    whole: str


class Cell(NamedTuple):
    """A figure; a bar is drawn if `share`, from 0 to 1, is set."""

    text: str
    share: float | None


class FigureRow(NamedTuple):
    """A figure of a vertex in each run."""

    name: str
    kind: str
    """Class of its bar in the style of the page."""
    middle: float
    """Middle of the text, in pixels from the top of the vertex."""
    cells: Sequence[Cell]


class Box(NamedTuple):
    """Place of a vertex in the graph, in pixels."""

    left: float
    top: float
    width: float
    height: float


class DrawnVertex(NamedTuple):
    """A vertex in the graph."""

    name: DrawnText
    subtasks: str
    placement: DrawnText
    box: Box
    rows: Sequence[FigureRow]
    spoken: str
    """Description of the vertex for screen readers."""


class DrawnEdge(NamedTuple):
    """An edge in the graph."""

    ship: str
    points: Sequence[Point]
    """The line of the edge, from its source to its target."""
    spoken: str


class JobGraph(NamedTuple):
    """The drawn graph of a job."""

    title: str
    width: float
    height: float
    scale: float
    """Size in a page as a share of `width` and `height`."""
    columns: Sequence[tuple[DrawnText, float]]
    """The names of the runs, each with the right edge of its column."""
    vertices: Sequence[DrawnVertex]
    edges: Sequence[DrawnEdge]


def job_graph(scenario: Scenario, runs: Runs) -> JobGraph:
    """Return the graph of a job with the figures of the first `MOST_COLUMNS` runs."""
    columns = {
        name: [vertex for window in steady for vertex in vertex_windows(scenario, window)]
        for name, steady in list(runs.items())[:MOST_COLUMNS]
    }
    figures = {
        vertex.name: [
            each for each in in_view(VERTEX, GRAPH) if each.end in (None, *ends_of(scenario, vertex.name))
        ]
        for vertex in scenario.topological_order()
    }
    edges = [edge for edge in scenario.edges if edge.source in figures and edge.target in figures]
    width = max(LEAST_WIDTH, NAMES + COLUMN * len(columns))
    boxes = _boxes(ranks(scenario), width, {name: _height(len(rows)) for name, rows in figures.items()})
    lines = _lines(edges, boxes)
    whole_width = max(box.left for box in boxes.values()) + width + MARGIN
    return JobGraph(
        title=f"{shown(scenario.name)} as a graph",
        width=whole_width,
        scale=min(1.0, max(LEAST_SCALE, PAGE_WIDTH / whole_width)),
        height=max(
            *(box.top + box.height for box in boxes.values()), *(y for line in lines for _, y in line), 0.0
        )
        + MARGIN,
        columns=[
            (_text(name, _COLUMN_CELLS), width - PADDING - COLUMN * place)
            for place, name in zip(reversed(range(len(columns))), columns, strict=True)
        ],
        vertices=[
            _vertex(scenario.vertex(name), rows, columns, boxes[name]) for name, rows in figures.items()
        ],
        edges=[
            DrawnEdge(edge.ship, line, f"from {shown(edge.source)} to {shown(edge.target)}: {edge.ship}")
            for edge, line in zip(edges, lines, strict=True)
        ],
    )


def ranks(scenario: Scenario) -> dict[str, int]:
    """Return the rank of each vertex: 0 for a source, else one more than the highest rank of its inputs."""
    found: dict[str, int] = {}
    for vertex in scenario.topological_order():
        found[vertex.name] = max((1 + found[edge.source] for edge in scenario.inputs(vertex)), default=0)
    return {vertex.name: found[vertex.name] for vertex in scenario.vertices if vertex.name in found}


def _height(rows: int) -> float:
    """Return the height of a vertex with a number of figures, in pixels."""
    return FIRST_ROW + ROW * rows + PADDING / 2


def _boxes(ranks: Mapping[str, int], width: float, heights: Mapping[str, float]) -> dict[str, Box]:
    """Return the places of vertices: a column for each rank, in the middle of the graph's height."""
    by_rank: dict[int, list[str]] = {}
    for name, rank in ranks.items():
        by_rank.setdefault(rank, []).append(name)
    totals = {
        rank: sum(heights[name] + _BETWEEN for name in names) - _BETWEEN for rank, names in by_rank.items()
    }
    boxes = {}
    for rank, names in by_rank.items():
        top = MARGIN + (max(totals.values()) - totals[rank]) / 2
        for name in names:
            boxes[name] = Box(MARGIN + rank * (width + GAP), top, width, heights[name])
            top += heights[name] + _BETWEEN
    return boxes


def _lines(edges: Sequence[Edge], boxes: Mapping[str, Box]) -> list[list[Point]]:
    """Return the lines of edges. At a side of a vertex, their ends are spread over it in their order."""
    bottom = max((box.top + box.height for box in boxes.values()), default=0.0)
    lanes = 0
    lines = []
    for edge in edges:
        source, target = boxes[edge.source], boxes[edge.target]
        leaving = [other for other in edges if other.source == edge.source]
        arriving = [other for other in edges if other.target == edge.target]
        right = source.left + source.width
        begin = source.top + source.height * (leaving.index(edge) + 1) / (len(leaving) + 1)
        end = target.top + target.height * (arriving.index(edge) + 1) / (len(arriving) + 1)
        lane: list[Point] = []
        if target.left > right + GAP:
            lanes += 1
            y = bottom + LANE * lanes
            lane = [(right + NAME_OF_EDGE + _TURN, y), (target.left - _ARROW - _TURN, y)]
        lines.append(
            [
                (right, begin),
                (right + NAME_OF_EDGE, begin),
                *lane,
                (target.left - _ARROW, end),
                (target.left, end),
            ]
        )
    return lines


def placement_text(vertex: Vertex) -> str:
    """Return the task managers of a vertex, as "on tm1, tm2"."""
    placed = vertex.task_manager
    if placed is None:
        return "in a task manager of its own"
    names = (placed,) if isinstance(placed, str) else tuple(dict.fromkeys(placed))
    return f"on {', '.join(map(shown, names))}"


def _vertex(
    vertex: Vertex,
    figures: Sequence[Quantity[VertexWindow]],
    runs: Mapping[str, Sequence[VertexWindow]],
    box: Box,
) -> DrawnVertex:
    rows = []
    for place, figure in enumerate(figures):
        head, cells = figure.head(GRAPH), []
        for windows in runs.values():
            value = middle(figure.of(window) for window in windows if window.steady.name == vertex.name)
            share = min(1.0, max(0.0, value)) if figure.unit is SHARE and value is not None else None
            cells.append(Cell(figure.unit.text(value), share))
        rows.append(FigureRow(head, head.rpartition("-")[2], FIRST_ROW + ROW * (place + 0.5) - 4, cells))
    placement, width = placement_text(vertex), box.width
    spoken = [f"{shown(vertex.name)}, {counted(vertex.parallelism, 'subtask')} {placement}"]
    spoken += [
        f"{shown(run)}: " + ", ".join(f"{row.name} {row.cells[place].text}" for row in rows)
        for place, run in enumerate(runs)
    ]
    return DrawnVertex(
        name=_text(vertex.name, int((width - SUBTASKS - PADDING) / _NAME_PIXELS)),
        subtasks=f"\N{MULTIPLICATION SIGN}{vertex.parallelism}",
        placement=_text(placement, int((width - 2 * PADDING) / _PLACEMENT_PIXELS)),
        box=box,
        rows=rows,
        spoken="; ".join(spoken),
    )


def _text(text: str, cells: int) -> DrawnText:
    """Shorten a text to a width in terminal cells. Wide characters count twice."""
    whole = shown(text)
    if cell_len(whole) <= cells:
        return DrawnText(whole, whole)
    return DrawnText(chop_cells(whole, cells - 1)[0] + _CUT, whole)
