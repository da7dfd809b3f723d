"""A job whose number of ways from source to sink doubles with each vertex of a chain."""

from __future__ import annotations

from collections.abc import Iterable

from netstack import Edge, GeneratorSpec, KeyedOperator, KeyedStateBackend, NetworkConfig, Scenario, Vertex


class Swallow(KeyedOperator):
    """An operator with keyed state that emits nothing."""

    def declare(self, state: KeyedStateBackend) -> None:
        """Declare no state."""

    def key_of(self, record: bytes) -> bytes:
        """The record is its own key."""
        return record

    def process_record(self, record: bytes) -> Iterable[bytes]:
        """Emit nothing."""
        return ()


def chain_of_diamonds(count: int, *, keyed: bool = False) -> Scenario:
    """Return a job of ``count`` diamonds in a row, with a window by event time behind the last one.

    All edges behind the first are ``forward``. With ``keyed`` an operator with keyed state, in place of the
    window, reads what they bring.
    """
    vertices = [
        Vertex(
            name="source",
            source=GeneratorSpec(rates=(100.0,), record_bytes=20, out_of_orderness_s=None if keyed else 0.1),
        ),
        Vertex(name="split 0", parallelism=2),
    ]
    edges = [Edge(source="source", target="split 0", ship="hash")]
    for number in range(count):
        begin, end = f"split {number}", f"split {number + 1}"
        sides = [f"left {number}", f"right {number}"]
        vertices += [Vertex(name=name, parallelism=2) for name in sides]
        vertices.append(Vertex(name=end, parallelism=2, selectivity=0.5))
        edges += [Edge(source=begin, target=name, ship="forward") for name in sides]
        edges += [Edge(source=name, target=end, ship="forward") for name in sides]
    last = (
        Vertex(name="last", parallelism=2, operator=lambda subtask: Swallow())
        if keyed
        else Vertex(name="last", parallelism=2, emit_every_s=0.1, emit_by="event_time")
    )
    edges.append(Edge(source=f"split {count}", target="last", ship="forward"))
    return Scenario(
        name="diamonds",
        duration_s=0.5,
        vertices=(*vertices, last),
        edges=tuple(edges),
        config=NetworkConfig(checkpoint_interval_s=0.2),
    )
