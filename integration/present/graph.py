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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from statistics import fmean
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from netstack import Scenario, Steady, Vertex, VertexSteady

from ..figures.optional_figures import highest, middle, total
from ..number_text import counted, milliseconds, per_second, percent
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


class Route(NamedTuple):
    """The line of an edge, from the lower side of one vertex to the upper side of another."""

    points: tuple[Point, ...]
    label: Box
    """Box of the edge's name."""


class Layout(NamedTuple):
    """A drawn graph: its size, the boxes of vertices by name, and the routes of edges in order."""

    width: float
    height: float
    boxes: Mapping[str, Box]
    routes: Sequence[Route]


class _Band(NamedTuple):
    """The upper and the lower end of a layer."""

    top: float
    bottom: float


@dataclass(slots=True, eq=False)
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
    stops = _add_lanes(layers, vertices, depth, edges)
    _order_by_connections(layers)
    widest = _center(layers)
    ports = _ports(vertices.values(), stops)

    bands: list[_Band] = []
    shares: dict[int, float] = {}
    y = MARGIN
    for level, layer in enumerate(layers):
        bands.append(_Band(y, y + max(place.height for place in layer)))
        leaving = [number for number, (source, _, _) in enumerate(edges) if depth[source] == level]
        gap, places = _label_places(
            [(edges[number][2], ports[number][0], ports[number][1]) for number in leaving]
        )
        shares |= dict(zip(leaving, places, strict=True))
        y = bands[-1].bottom + gap

    boxes = {}
    for name, place in vertices.items():
        top = bands[depth[name]].top
        boxes[name] = Box(place.left, top, place.left + place.width, top + place.height)
    routes = [
        _route(
            name,
            ports[number],
            boxes[source],
            bands[depth[source] : depth[target] + 1],
            boxes[target],
            shares[number],
        )
        for number, (source, target, name) in enumerate(edges)
    ]
    right = max([widest + MARGIN, *(route.label.right for route in routes)])
    return Layout(right + MARGIN, bands[-1].bottom + MARGIN, boxes, routes)


def _add_lanes(
    layers: Sequence[list[_Place]],
    vertices: Mapping[str, _Place],
    depth: Mapping[str, int],
    edges: Sequence[Arc],
) -> list[list[_Place]]:
    """Add a lane to each layer that an edge crosses, and connect the places.

    Returns the stops of each edge: its source, its lanes and its target.
    """
    all_stops = []
    for source, target, _ in edges:
        stops = [vertices[source]]
        for layer in layers[depth[source] + 1 : depth[target]]:
            lane = _Place(LANE, above=[stops[-1]])
            layer.append(lane)
            stops.append(lane)
        vertices[target].above.append(stops[-1])
        all_stops.append([*stops, vertices[target]])
    return all_stops


def _order_by_connections(layers: Sequence[list[_Place]]) -> None:
    """Sort each layer by the mean position of the places above that each place is connected to."""
    for layer in layers:
        for number, place in enumerate(layer):
            place.order = fmean(other.order for other in place.above) if place.above else number
        layer.sort(key=lambda place: place.order)
        for number, place in enumerate(layer):
            place.order = (number + 0.5) / len(layer)


def _center(layers: Sequence[Sequence[_Place]]) -> float:
    """Set the left edges of all places, each layer in the middle of the graph. Return the largest width."""
    widths = [sum(place.width for place in layer) + GAP * (len(layer) - 1) for layer in layers]
    widest = max(widths)
    for layer, layer_width in zip(layers, widths, strict=True):
        left = MARGIN + (widest - layer_width) / 2
        for place in layer:
            place.left = left
            left += place.width + GAP
    return widest


def _ports(vertices: Iterable[_Place], stops: Sequence[Sequence[_Place]]) -> list[list[float]]:
    """Return the x of each edge at its stops.

    Edges at a side of a vertex are spread over it, ordered by their next stops.
    """
    first, second, before_last, last = 0, 1, -2, -1
    ports = [[place.middle for place in of_edge] for of_edge in stops]
    for end, next_to_end in ((first, second), (last, before_last)):
        for vertex in vertices:
            ending = [number for number, of_edge in enumerate(stops) if of_edge[end] is vertex]
            ending.sort(key=lambda number: stops[number][next_to_end].middle)
            for rank, number in enumerate(ending, 1):
                ports[number][end] = vertex.left + vertex.width * rank / (len(ending) + 1)
    return ports


def _label_places(labels: Sequence[tuple[str, float, float]]) -> tuple[float, list[float]]:
    """Return the height of the gap below a layer, and for each name its distance from the top of the gap, as
    a share of the gap.

    Each name comes with the x of its edge at the top and at the bottom of the gap. The names stand in as few
    rows as they can without overlap.
    """
    for rows in count():
        gap = _ABOVE_AND_BELOW + _ROW * rows
        taken: list[list[tuple[float, float]]] = [[] for _ in range(rows)]
        shares = []
        for label, start, end in labels:
            half = label_width(label) / 2 + 2
            for row in sorted(range(rows), key=lambda row: abs(2 * row + 1 - rows)):
                share = (_ABOVE_AND_BELOW / 2 + _ROW * (row + 0.5)) / gap
                x = start + share * (end - start)
                if all(right < x - half or x + half < left for left, right in taken[row]):
                    taken[row].append((x - half, x + half))
                    shares.append(share)
                    break
        if len(shares) == len(labels):
            return gap, shares
    raise AssertionError("as many rows as names are enough")


def _route(
    name: str, ports: Sequence[float], source: Box, bands: Sequence[_Band], target: Box, share: float
) -> Route:
    """Return the line of an edge and the box of its name.

    The edge runs through `bands`, those of all layers from its source to its target, at the x of `ports`.
    `share` is the place of the name in the first gap.
    """
    points = [(ports[0], source.bottom), (ports[0], bands[0].bottom)]
    for x, band in zip(ports[1:-1], bands[1:-1], strict=True):
        points += [(x, band.top), (x, band.bottom)]
    points.append((ports[-1], target.top))
    line = [points[0], *(point for before, point in pairwise(points) if point != before)]
    x = ports[0] + share * (ports[1] - ports[0])
    y = bands[0].bottom + share * (bands[1].top - bands[0].bottom)
    half_width, half_height = label_width(name) / 2, LABEL_HEIGHT / 2
    return Route(tuple(line), Box(x - half_width, y - half_height, x + half_width, y + half_height))


def label_width(label: str) -> float:
    """Return the width of the name of an edge with its background, in pixels."""
    return _LABEL_CHARACTER * len(label) + _LABEL_PADDING


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


class Text(NamedTuple):
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
    middle: float
    """Middle of the text, in pixels from the top of the vertex."""
    cells: Sequence[Cell]


class DrawnVertex(NamedTuple):
    """A vertex in the graph."""

    name: Text
    subtasks: str
    placement: Text
    box: Box
    rows: Sequence[FigureRow]
    spoken: str
    """Description of the vertex for screen readers."""


class DrawnEdge(NamedTuple):
    """An edge in the graph."""

    ship: str
    route: Route
    spoken: str


class JobGraph(NamedTuple):
    """The drawn graph of a job."""

    title: str
    width: float
    height: float
    columns: Sequence[tuple[Text, float]]
    """The names of the runs, each with the right edge of its column."""
    vertices: Sequence[DrawnVertex]
    edges: Sequence[DrawnEdge]


class _Figure(NamedTuple):
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
    return JobGraph(
        title=f"{shown(scenario.name)} as a graph",
        width=layout.width,
        height=layout.height,
        columns=[
            (_text(name, _COLUMN_CELLS), width - PADDING - COLUMN * place)
            for place, name in zip(reversed(range(len(columns))), columns, strict=True)
        ],
        vertices=[
            _vertex(scenario.vertex(name), rows, columns, layout.boxes[name])
            for name, rows in figures.items()
        ],
        edges=[
            DrawnEdge(edge.ship, route, f"from {shown(edge.source)} to {shown(edge.target)}: {edge.ship}")
            for edge, route in zip(edges, layout.routes, strict=True)
        ],
    )


def placement_text(vertex: Vertex) -> str:
    """Return the task managers of a vertex, as "on tm1, tm2"."""
    placed = vertex.task_manager
    if placed is None:
        return "in a task manager of its own"
    names = (placed,) if isinstance(placed, str) else tuple(dict.fromkeys(placed))
    return f"on {', '.join(map(shown, names))}"


def _vertex(vertex: Vertex, figures: Sequence[_Figure], runs: Runs, box: Box) -> DrawnVertex:
    rows = []
    for place, figure in enumerate(figures):
        cells = []
        for steady in runs.values():
            value = middle(
                figure.of(seen) for window in steady for seen in window.vertices if seen.name == vertex.name
            )
            share = min(1.0, max(0.0, value)) if figure.text is percent and value is not None else None
            cells.append(Cell(figure.text(value), share))
        rows.append(FigureRow(figure.name, figure.kind, FIRST_ROW + ROW * (place + 0.5) - 4, cells))
    placement, width = placement_text(vertex), box.right - box.left
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


def _text(text: str, cells: int) -> Text:
    """Shorten a text to a width in terminal cells. Wide characters count twice."""
    whole = shown(text)
    if cell_len(whole) <= cells:
        return Text(whole, whole)
    return Text(chop_cells(whole, cells - 1)[0] + _CUT, whole)
