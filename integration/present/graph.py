"""A job as a graph: its vertices with their figures in one or two runs, and the ship strategies of its edges.

`laid_out` puts vertices in layers, from sources above to sinks below. A vertex stands in the layer below its
lowest input, so every edge runs down. An edge that crosses layers has its own lane in each of them, so it
never runs behind a vertex. Within a layer, places are ordered by their connections above. The name of an edge
stands on its line in the gap below its source. A gap has enough rows for names not to overlap::

    source a     source b        layer 0
       | hash        | rebalance
      map            |           layer 1: a lane for the edge from source b to sink
       | hash        |
      sink <---------+           layer 2

`job_graph` adds texts and figures; ``page/graph.html.jinja`` draws them in the colours of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from statistics import fmean
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from netstack import Scenario, Steady, Vertex, VertexSteady

from ..number_text import counted, milliseconds, per_second, percent
from ..optional_figures import highest, middle, total
from .console import shown

MARGIN = 4.0
"""Width in pixels of the empty margin around the graph."""
GAP = 28.0
"""Pixels between vertices of one layer."""
LANE = 20.0
"""Pixels reserved for an edge in each layer that it crosses."""

LABEL_HEIGHT = 18.0
_LABEL_CHARACTER = 7.2
_LABEL_PADDING = 12.0
_ROW = 24.0
_ABOVE_AND_BELOW = 34.0
"""Height in pixels of the gap between layers, not counting the names of edges."""

Point = tuple[float, float]
Arc = tuple[str, str, str]
"""An edge: source, target and name."""


class Box(NamedTuple):
    """A rectangle of a picture, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: Box) -> bool:
        """Whether two boxes overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


@dataclass(frozen=True, slots=True)
class Route:
    """The line of an edge, from the lower side of one vertex to the upper side of another."""

    points: tuple[Point, ...]
    label: Box
    """Box of the edge's name."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawn graph: its size, the boxes of vertices by name, and the routes of edges in order."""

    width: float
    height: float
    boxes: Mapping[str, Box]
    routes: Sequence[Route]


@dataclass(slots=True)
class _Place:
    """A place in a layer, for a vertex or for an edge that crosses the layer."""

    width: float
    height: float = 0.0
    above: list[_Place] = field(default_factory=list)
    order: float = 0.0
    left: float = 0.0

    @property
    def middle(self) -> float:
        return self.left + self.width / 2


def laid_out(width: float, heights: Mapping[str, float], edges: Sequence[Arc]) -> Layout:
    """Return the places of vertices and edges.

    `heights` has the height of each vertex, in topological order.
    """
    depth: dict[str, int] = {}
    for name in heights:
        depth[name] = max([1 + depth[source] for source, target, _ in edges if target == name], default=0)
    vertices = {name: _Place(width, height) for name, height in heights.items()}
    layers: list[list[_Place]] = [[] for _ in range(1 + max(depth.values(), default=0))]
    for name, place in vertices.items():
        layers[depth[name]].append(place)
    lanes = [_lanes(edge, depth, vertices, layers) for edge in edges]
    _put_in_order(layers)
    most = _put_beside(layers)
    ports = _ports(edges, lanes, vertices)
    gaps = [
        _labels([number for number, edge in enumerate(edges) if depth[edge[0]] == level], edges, ports)
        for level in range(len(layers))
    ]
    tops = _tops(layers, [rows for rows, _ in gaps])
    boxes = {}
    for name, place in vertices.items():
        top = tops[depth[name]]
        boxes[name] = Box(place.left, top, place.left + place.width, top + place.height)
    row_of = {number: (row, rows) for rows, by_edge in gaps for number, row in by_edge.items()}
    floors = [top + max(place.height for place in layer) for top, layer in zip(tops, layers, strict=True)]
    routes = [
        _route(edge, number, ports[number], (tops, floors, depth), boxes, row_of[number])
        for number, edge in enumerate(edges)
    ]
    right = max([most + MARGIN, *(route.label.right for route in routes)])
    return Layout(right + MARGIN, floors[-1] + MARGIN, boxes, routes)


def _lanes(
    edge: Arc, depth: Mapping[str, int], vertices: Mapping[str, _Place], layers: list[list[_Place]]
) -> list[_Place]:
    """Add lanes for an edge to the layers that it crosses, and return them."""
    above, lanes = vertices[edge[0]], []
    for level in range(depth[edge[0]] + 1, depth[edge[1]]):
        lane = _Place(LANE, above=[above])
        layers[level].append(lane)
        lanes.append(lane)
        above = lane
    vertices[edge[1]].above.append(above)
    return lanes


def _put_in_order(layers: list[list[_Place]]) -> None:
    """Order each layer by the mean position of the connections above; places without connections stay."""
    for layer in layers:
        for number, place in enumerate(layer):
            place.order = fmean(other.order for other in place.above) if place.above else number
        layer.sort(key=lambda place: place.order)
        for number, place in enumerate(layer):
            place.order = (number + 0.5) / len(layer)


def _put_beside(layers: list[list[_Place]]) -> float:
    """Centre the layers, and return the width of the widest one."""
    widths = [sum(place.width for place in layer) + GAP * (len(layer) - 1) for layer in layers]
    most = max(widths)
    for layer, width in zip(layers, widths, strict=True):
        left = MARGIN + (most - width) / 2
        for place in layer:
            place.left = left
            left += place.width + GAP
    return most


def _ports(
    edges: Sequence[Arc], lanes: Sequence[Sequence[_Place]], vertices: Mapping[str, _Place]
) -> list[list[float]]:
    """Return the x of each edge from top to bottom: at its source, its lanes and its target.

    Edges at one side of a vertex are spread over it, ordered by their other ends.
    """
    stops = [[vertices[edge[0]], *lane, vertices[edge[1]]] for edge, lane in zip(edges, lanes, strict=True)]
    ports = [[place.middle for place in stop] for stop in stops]
    for end, next_to_it in ((0, 1), (-1, -2)):
        for name, vertex in vertices.items():
            ending = [number for number, edge in enumerate(edges) if edge[1 if end else 0] == name]
            ending.sort(key=lambda number: stops[number][next_to_it].middle)
            for place, number in enumerate(ending):
                ports[number][end] = vertex.left + vertex.width * (place + 1) / (len(ending) + 1)
    return ports


def _labels(
    leaving: Sequence[int], edges: Sequence[Arc], ports: Sequence[Sequence[float]]
) -> tuple[int, dict[int, int]]:
    """Return the number of rows for the names of edges that leave a layer, and each edge's row."""
    if not leaving:
        return 0, {}
    for rows in count(1):
        if (placed := _in_rows(rows, leaving, edges, ports)) is not None:
            return rows, placed
    raise AssertionError("as many rows as names are enough")


def _in_rows(
    rows: int, leaving: Sequence[int], edges: Sequence[Arc], ports: Sequence[Sequence[float]]
) -> dict[int, int] | None:
    taken: list[list[tuple[float, float]]] = [[] for _ in range(rows)]
    placed = {}
    for number in leaving:
        half = label_width(edges[number][2]) / 2 + 2
        for row in sorted(range(rows), key=lambda row: abs(2 * row + 1 - rows)):
            x = _along(ports[number][0], ports[number][1], _share(row, rows))
            if all(right < x - half or x + half < left for left, right in taken[row]):
                taken[row].append((x - half, x + half))
                placed[number] = row
                break
        else:
            return None
    return placed


def label_width(label: str) -> float:
    """Return the width of the name of an edge with its background, in pixels."""
    return _LABEL_CHARACTER * len(label) + _LABEL_PADDING


def _share(row: int, rows: int) -> float:
    """Return the distance of a row of names from the top of its gap, as a share of the gap."""
    return (_ABOVE_AND_BELOW / 2 + _ROW * (row + 0.5)) / _gap_height(rows)


def _gap_height(rows: int) -> float:
    return _ABOVE_AND_BELOW + _ROW * rows


def _along(start: float, end: float, share: float) -> float:
    return start + share * (end - start)


def _tops(layers: Sequence[Sequence[_Place]], rows: Sequence[int]) -> list[float]:
    """Return the y of the top of each layer."""
    tops = [MARGIN]
    for layer, names in zip(layers[:-1], rows, strict=False):
        tops.append(tops[-1] + max(place.height for place in layer) + _gap_height(names))
    return tops


def _route(
    edge: Arc,
    number: int,
    ports: Sequence[float],
    levels: tuple[Sequence[float], Sequence[float], Mapping[str, int]],
    boxes: Mapping[str, Box],
    place: tuple[int, int],
) -> Route:
    tops, floors, depth = levels
    first, (row, rows) = depth[edge[0]], place
    points: list[Point] = [(ports[0], boxes[edge[0]].bottom), (ports[0], floors[first])]
    for level, x in enumerate(ports[1:-1], first + 1):
        points += [(x, tops[level]), (x, floors[level])]
    points.append((ports[-1], boxes[edge[1]].top))
    x = _along(ports[0], ports[1], _share(row, rows))
    y = _along(floors[first], tops[first + 1], _share(row, rows))
    half, high = label_width(edge[2]) / 2, LABEL_HEIGHT / 2
    line = [points[0], *(point for before, point in pairwise(points) if point != before)]
    return Route(tuple(line), Box(x - half, y - high, x + half, y + high))


NAMES = 120.0
"""Width in pixels of a vertex without figures. A vertex with the figures of two runs fits on a phone."""
PADDING = 12.0
COLUMN = 100.0
"""Width of the figures of one run, in pixels."""
FIRST_ROW = 84.0
"""Distance from the top of a vertex to its figures, which are below the names, in pixels."""
ROW = 22.0

MOST_COLUMNS = 2
"""Maximum number of runs whose figures are drawn in a vertex."""

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


@dataclass(frozen=True, slots=True)
class Text:
    """A text as drawn, possibly shortened, and the full text."""

    drawn: str
    whole: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure; a bar is drawn if `share`, from 0 to 1, is set."""

    text: str
    right: float
    share: float | None = None


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure of a vertex in each run."""

    name: str
    kind: str
    middle: float
    """Middle of the text, in pixels from the top of the vertex."""
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class DrawnVertex:
    """A vertex in the graph."""

    name: Text
    subtasks: str
    placement: Text
    box: Box
    rows: tuple[FigureRow, ...]
    spoken: str
    """Description of the vertex for screen readers."""


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge in the graph."""

    ship: str
    route: Route
    spoken: str

    @property
    def line(self) -> str:
        """The points of the edge's line in the syntax of SVG."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.route.points)

    @property
    def end(self) -> tuple[float, float]:
        """The tip of the edge's arrow."""
        return self.route.points[-1]


@dataclass(frozen=True, slots=True)
class JobGraph:
    """The drawn graph of a job."""

    title: str
    width: float
    height: float
    columns: tuple[tuple[Text, float], ...]
    """The names of the runs, each with the right edge of its column."""
    vertices: tuple[DrawnVertex, ...]
    edges: tuple[DrawnEdge, ...]


@dataclass(frozen=True, slots=True)
class _Figure:
    """A quantity of a vertex: its value and its format."""

    name: str
    kind: str
    of: Callable[[VertexSteady], float | None]
    text: Callable[[float | None], str]


def _most_of_time(name: str) -> Callable[[VertexSteady], float | None]:
    def share(vertex: VertexSteady) -> float | None:
        most = highest(getattr(vertex, name))
        return None if most is None else most / 1000

    return share


_IN = _Figure("in", "rate", lambda vertex: total(vertex.records_in_per_s), per_second)
_OUT = _Figure("out", "rate", lambda vertex: total(vertex.records_out_per_s), per_second)
_TIMES = (
    _Figure("busy", "busy", _most_of_time("busy_ms_per_s"), percent),
    _Figure("back-pressure", "pressure", _most_of_time("backpressured_ms_per_s"), percent),
    _Figure("start delay", "delay", lambda vertex: vertex.start_delay_ms_max_subtask, milliseconds),
)


def job_graph(scenario: Scenario, runs: Runs) -> JobGraph:
    """Return the graph of a job with the figures of the first `MOST_COLUMNS` runs."""
    columns = dict(list(runs.items())[:MOST_COLUMNS])
    figures = {}
    for vertex in scenario.topological_order():
        rates = [*([_IN] if scenario.inputs(vertex) else []), *([_OUT] if scenario.outputs(vertex) else [])]
        figures[vertex.name] = [*rates, *_TIMES]
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
        edges=tuple(
            DrawnEdge(edge.ship, route, f"from {shown(edge.source)} to {shown(edge.target)}: {edge.ship}")
            for edge, route in zip(edges, layout.routes, strict=True)
        ),
    )


def placement_text(vertex: Vertex) -> str:
    """Return the task managers of a vertex, as "on tm1, tm2"."""
    placed = vertex.task_manager
    if placed is None:
        return "in a task manager of its own"
    names = (placed,) if isinstance(placed, str) else tuple(dict.fromkeys(placed))
    return f"on {', '.join(map(shown, names))}"


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
        spoken="; ".join(
            [f"{shown(vertex.name)}, {counted(vertex.parallelism, 'subtask')} {placement}", *told]
        ),
    )


def _cell(figure: _Figure, vertex: str, runs: Sequence[Steady], end: float) -> Cell:
    value = middle(figure.of(seen) for steady in runs for seen in steady.vertices if seen.name == vertex)
    share = min(1.0, max(0.0, value)) if figure.text is percent and value is not None else None
    return Cell(figure.text(value), end, share)


def _text(text: str, cells: int) -> Text:
    """Shorten a text to a width in terminal cells. Wide characters count twice."""
    whole = shown(text)
    if cell_len(whole) <= cells:
        return Text(whole, whole)
    return Text(chop_cells(whole, cells - 1)[0] + _CUT, whole)
