"""The shape of a job as it is drawn: where its vertices stand, and what connects task managers."""

from __future__ import annotations

from netstack import Scenario

from ..present.graph import laid_out
from .page_messages import VertexShape

_WIDTH, _HEIGHT = 160.0, 60.0
"""Of a vertex, in the pixels of the layout; only the proportions count."""


def vertex_shapes(scenario: Scenario) -> list[VertexShape]:
    """Return the vertices in their order, with their middles in the layered graph, from 0 to 1."""
    heights = {vertex.name: _HEIGHT for vertex in scenario.topological_order()}
    arcs = [(edge.source, edge.target, edge.ship) for edge in scenario.edges]
    layout = laid_out(_WIDTH, heights, arcs)
    shapes = []
    for vertex in scenario.vertices:
        box = layout.boxes[vertex.name]
        shapes.append(
            VertexShape(
                name=vertex.name,
                parallelism=vertex.parallelism,
                source=vertex.source is not None,
                x=(box.left + box.right) / 2 / layout.width,
                y=(box.top + box.bottom) / 2 / layout.height,
                task_managers=[vertex.manager_of(subtask) for subtask in range(vertex.parallelism)],
            )
        )
    return shapes


def task_manager_links(scenario: Scenario) -> list[tuple[str, str]]:
    """Return the pairs of task managers between which data flows: producer's, consumer's."""
    ends = (pair for edge in scenario.edges for pair in scenario.channel_ends(edge))
    return list(dict.fromkeys((one, other) for one, other in ends if one != other))
