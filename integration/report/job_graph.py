"""A job as a graph: its vertices with what they did in one run or in several, and how its edges ship.

`job_graph` says what stands where; ``page/graph.html.jinja`` draws it, in the colours of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

from netstack import Edge, Scenario, Steady, Vertex, VertexSteady

from ..analysis.known_values import highest, middle, total
from ..analysis.wording import NOTHING, milliseconds, per_second, percent
from .graph_layout import Layout, Route, laid_out
from .output import shown
from .trade_off_labels import Box

NAMES = 120.0
"""Pixels of a vertex beside the figures; with those of two runs it fits a phone."""
PADDING = 12.0
COLUMN = 100.0
"""Width of the figures of one run."""
FIRST_ROW = 84.0
"""Where the figures begin, below the names."""
ROW = 22.0

MOST_COLUMNS = 2
"""Runs whose figures stand in a vertex."""

NOTE = (
    "Rates are of all subtasks together; shares of time, and the start delay, of the subtask that has most. "
    "Busy: it works; back-pressure: it waits for buffers to write to; start delay: from the trigger of a "
    "checkpoint to its first barrier."
)

_COLUMN_CELLS = 12
_NAME_PIXELS, _PLACEMENT_PIXELS = 9.5, 7.2
"""That a character of a name takes, which is bold, and one of a placement."""
SUBTASKS = 62.0
"""Pixels beside the name, where the number of subtasks stands."""

_CUT = "\N{HORIZONTAL ELLIPSIS}"

Runs = Mapping[str, Sequence[Steady]]
"""What was measured, by the name of the column; the median is shown of several, one for each seed."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text as it is drawn, and the whole of it."""

    drawn: str
    whole: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure; `share` is that of time, from 0 to 1, which a bar shows."""

    text: str
    right: float
    share: float | None = None


@dataclass(frozen=True, slots=True)
class FigureRow:
    """The figure of a vertex of one kind, in each run."""

    name: str
    kind: str
    middle: float
    """Middle of the text, in pixels from the upper side of the vertex."""
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class DrawnVertex:
    """A vertex in the picture."""

    name: Text
    subtasks: str
    placement: Text
    box: Box
    rows: tuple[FigureRow, ...]
    spoken: str
    """The whole vertex in words, for those who cannot see the picture."""


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge in the picture."""

    ship: str
    route: Route
    spoken: str

    @property
    def line(self) -> str:
        """The points of its line, as SVG has them."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.route.points)

    @property
    def end(self) -> tuple[float, float]:
        """The tip of its arrow."""
        return self.route.points[-1]


@dataclass(frozen=True, slots=True)
class JobGraph:
    """The picture of a job."""

    title: str
    width: float
    height: float
    columns: tuple[tuple[Text, float], ...]
    """The names of the runs, and where each ends."""
    vertices: tuple[DrawnVertex, ...]
    edges: tuple[DrawnEdge, ...]


@dataclass(frozen=True, slots=True)
class _Figure:
    """A quantity of a vertex: how it is read and how it is written."""

    name: str
    kind: str
    of: Callable[[VertexSteady], float | None]
    text: Callable[[float | None], str]


def _most_of_time(name: str) -> Callable[[VertexSteady], float | None]:
    def share(vertex: VertexSteady) -> float | None:
        most = highest(getattr(vertex, name))
        return None if most is None else most / 1000

    return share


def _share_text(share: float | None) -> str:
    return NOTHING if share is None else percent(share)


_IN = _Figure("in", "rate", lambda vertex: total(vertex.records_in_per_s), per_second)
_OUT = _Figure("out", "rate", lambda vertex: total(vertex.records_out_per_s), per_second)
_TIMES = (
    _Figure("busy", "busy", _most_of_time("busy_ms_per_s"), _share_text),
    _Figure("back-pressure", "pressure", _most_of_time("backpressured_ms_per_s"), _share_text),
    _Figure("start delay", "delay", lambda vertex: vertex.start_delay_ms_max_subtask, milliseconds),
)


def job_graph(scenario: Scenario, runs: Runs) -> JobGraph:
    """Return the picture of a job with what `runs` have measured of it, at most `MOST_COLUMNS` of them."""
    columns = dict(list(runs.items())[:MOST_COLUMNS])
    figures = {vertex.name: _figures(scenario, vertex) for vertex in scenario.topological_order()}
    heights = {name: FIRST_ROW + ROW * len(rows) + PADDING / 2 for name, rows in figures.items()}
    edges = [edge for edge in scenario.edges if edge.source in figures and edge.target in figures]
    width = NAMES + COLUMN * len(columns)
    layout = laid_out(width, heights, [(edge.source, edge.target, edge.ship) for edge in edges])
    ends = {name: width - PADDING - COLUMN * place for place, name in enumerate(reversed(columns))}
    return JobGraph(
        title=f"{shown(scenario.name)} as a graph",
        width=layout.width,
        height=layout.height,
        columns=tuple((_text(name, _COLUMN_CELLS), ends[name]) for name in columns),
        vertices=tuple(
            _vertex(scenario.vertex(name), rows, columns, ends, layout) for name, rows in figures.items()
        ),
        edges=tuple(_edge(edge, route) for edge, route in zip(edges, layout.routes, strict=True)),
    )


def placement_text(vertex: Vertex) -> str:
    """Return where the subtasks of a vertex run, as "on tm1, tm2"."""
    placed = vertex.task_manager
    if placed is None:
        return "in a task manager of its own"
    names = (placed,) if isinstance(placed, str) else tuple(dict.fromkeys(placed))
    return f"on {', '.join(map(shown, names))}"


def _figures(scenario: Scenario, vertex: Vertex) -> list[_Figure]:
    rates = [*([_IN] if scenario.inputs(vertex) else []), *([_OUT] if scenario.outputs(vertex) else [])]
    return [*rates, *_TIMES]


def _vertex(
    vertex: Vertex, figures: Sequence[_Figure], runs: Runs, ends: Mapping[str, float], layout: Layout
) -> DrawnVertex:
    rows = tuple(
        FigureRow(
            figure.name,
            figure.kind,
            FIRST_ROW + ROW * (place + 0.5) - 4,
            tuple(_cell(figure, vertex.name, steady, ends[run]) for run, steady in runs.items()),
        )
        for place, figure in enumerate(figures)
    )
    subtasks = f"{vertex.parallelism} subtask{'' if vertex.parallelism == 1 else 's'}"
    placement, box = placement_text(vertex), layout.boxes[vertex.name]
    told = [
        f"{shown(run)}: " + ", ".join(f"{row.name} {row.cells[place].text}" for row in rows)
        for place, run in enumerate(runs)
    ]
    return DrawnVertex(
        name=_text(vertex.name, int((box.right - box.left - SUBTASKS - PADDING) / _NAME_PIXELS)),
        subtasks=f"\N{MULTIPLICATION SIGN}{vertex.parallelism}",
        placement=_text(placement, int((box.right - box.left - 2 * PADDING) / _PLACEMENT_PIXELS)),
        box=box,
        rows=rows,
        spoken="; ".join([f"{shown(vertex.name)}, {subtasks} {placement}", *told]),
    )


def _cell(figure: _Figure, vertex: str, runs: Sequence[Steady], end: float) -> Cell:
    value = middle(figure.of(seen) for steady in runs for seen in steady.vertices if seen.name == vertex)
    share = min(1.0, max(0.0, value)) if figure.text is _share_text and value is not None else None
    return Cell(figure.text(value), end, share)


def _edge(edge: Edge, route: Route) -> DrawnEdge:
    return DrawnEdge(edge.ship, route, f"from {shown(edge.source)} to {shown(edge.target)}: {edge.ship}")


def _text(text: str, cells: int) -> Text:
    """A text cut to so many columns of a terminal, which tell wide characters from narrow ones."""
    whole = shown(text)
    if cell_len(whole) <= cells:
        return Text(whole, whole)
    return Text(chop_cells(whole, cells - 1)[0] + _CUT, whole)
