"""Where the vertices and edges of a job stand in a picture: layers from sources, above, to sinks, below.

A vertex stands in the layer below the lowest of those it reads from, so every edge runs down. An edge that
passes layers has a lane of its own in each, so it runs behind no vertex; within a layer what stands in it is
ordered by what it is connected with above. The name of an edge stands on its line in the gap below its
source, in as many rows as it takes for no two names to meet.

    source a     source b        layer 0
       | hash       |  | rebalance
      map           |  |         layer 1; the edge of b to sink has a lane
        |  hash     |  |
         sink ------            layer 2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from statistics import fmean

from .trade_off_labels import Box

MARGIN = 4.0
"""Pixels around everything."""
GAP = 28.0
"""Pixels between vertices of one layer."""
LANE = 20.0
"""Pixels that an edge has to itself in a layer that it passes."""

LABEL_HEIGHT = 18.0
_LABEL_CHARACTER = 7.2
_LABEL_PADDING = 12.0
_ROW = 24.0
_ABOVE_AND_BELOW = 34.0
"""Pixels of the gap between layers that no name of an edge stands in."""

Point = tuple[float, float]
Arc = tuple[str, str, str]
"""An edge: where it comes from, where it goes to, and its name."""


@dataclass(frozen=True, slots=True)
class Route:
    """The line of an edge, from the lower side of one vertex to the upper side of another."""

    points: tuple[Point, ...]
    label: Box
    """Where its name stands."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture: its size, and in it the boxes of vertices by name and the routes of edges in their order."""

    width: float
    height: float
    boxes: Mapping[str, Box]
    routes: Sequence[Route]


@dataclass(slots=True)
class _Place:
    """What stands in a layer: a vertex, or the lane of an edge that passes."""

    width: float
    height: float = 0.0
    above: list[_Place] = field(default_factory=list)
    order: float = 0.0
    left: float = 0.0

    @property
    def middle(self) -> float:
        return self.left + self.width / 2


def laid_out(width: float, heights: Mapping[str, float], edges: Sequence[Arc]) -> Layout:
    """Return where all stands; `heights` are those of the vertices, each after all that it reads from."""
    depth = _depths(heights, edges)
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
    boxes = {name: _box(place, tops[depth[name]]) for name, place in vertices.items()}
    row_of = {number: (row, rows) for rows, by_edge in gaps for number, row in by_edge.items()}
    floors = [top + max(place.height for place in layer) for top, layer in zip(tops, layers, strict=True)]
    routes = [
        _route(edge, number, ports[number], (tops, floors, depth), boxes, row_of[number])
        for number, edge in enumerate(edges)
    ]
    return Layout(_whole_width(most, routes), floors[-1] + MARGIN, boxes, routes)


def _depths(names: Iterable[str], edges: Sequence[Arc]) -> dict[str, int]:
    depth: dict[str, int] = {}
    for name in names:
        depth[name] = max([1 + depth[source] for source, target, _ in edges if target == name], default=0)
    return depth


def _lanes(
    edge: Arc, depth: Mapping[str, int], vertices: Mapping[str, _Place], layers: list[list[_Place]]
) -> list[_Place]:
    """The lanes of an edge in the layers that it passes, put into them."""
    above, lanes = vertices[edge[0]], []
    for level in range(depth[edge[0]] + 1, depth[edge[1]]):
        lane = _Place(LANE, above=[above])
        layers[level].append(lane)
        lanes.append(lane)
        above = lane
    vertices[edge[1]].above.append(above)
    return lanes


def _put_in_order(layers: list[list[_Place]]) -> None:
    """Order each layer by the middle of what is connected above; what is connected with nothing stays."""
    for layer in layers:
        for number, place in enumerate(layer):
            place.order = fmean(other.order for other in place.above) if place.above else number
        layer.sort(key=lambda place: place.order)
        for number, place in enumerate(layer):
            place.order = (number + 0.5) / len(layer)


def _put_beside(layers: list[list[_Place]]) -> float:
    """Put the layers below one another by their middles, and return the width of the widest."""
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
    """Where each edge leaves, where its lanes are, and where it ends: its x from top to bottom.

    Edges at one side of a vertex are spread over it, in the order in which they come or go.
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
    """How many rows the names of the edges that leave a layer take, and the row of each by its number."""
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
    """Return the pixels that the name of an edge takes with its ground."""
    return _LABEL_CHARACTER * len(label) + _LABEL_PADDING


def _share(row: int, rows: int) -> float:
    """How far down its gap the middle of a row of names is, from 0 to 1."""
    return (_ABOVE_AND_BELOW / 2 + _ROW * (row + 0.5)) / _gap_height(rows)


def _gap_height(rows: int) -> float:
    return _ABOVE_AND_BELOW + _ROW * rows


def _along(start: float, end: float, share: float) -> float:
    return start + share * (end - start)


def _tops(layers: Sequence[Sequence[_Place]], rows: Sequence[int]) -> list[float]:
    """The upper ends of the layers."""
    tops = [MARGIN]
    for layer, names in zip(layers[:-1], rows, strict=False):
        tops.append(tops[-1] + max(place.height for place in layer) + _gap_height(names))
    return tops


def _box(place: _Place, top: float) -> Box:
    return Box(place.left, top, place.left + place.width, top + place.height)


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


def _whole_width(most: float, routes: Sequence[Route]) -> float:
    right = max([route.label.right for route in routes], default=0.0)
    return max(most + MARGIN, right) + MARGIN
