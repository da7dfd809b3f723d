"""The sum of odd and of even numbers: two sources count, records are routed by parity, two subtasks sum.

Run it with ``python docs/examples/odd_and_even.py``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import CollectionSource, Edge, Scenario, SourceObject, Vertex, emulate, key_sum, sink


def parity(payload: bytes) -> tuple[bytes, int]:
    """The key and the number of a record."""
    number = int(payload)
    return (b"odd" if number % 2 else b"even"), number


def parity_hash(block: RecordBlock) -> NDArray[np.int32]:
    """Java's hashCode of the integers 0 and 1: themselves."""
    return np.array([int(bytes(payload)) % 2 for payload in block.payloads()], dtype=np.int32)


def odd_and_even(numbers: int) -> dict[str, int]:
    """Sum 1 .. `numbers` twice, once from each source; returns the sums."""
    counting = [b"%d" % number for number in range(1, numbers + 1)]
    source = CollectionSource([counting, counting], key_hash=parity_hash)
    results: list[bytes] = []
    scenario = Scenario(
        name="odd and even",
        duration_s=60.0,
        vertices=(
            Vertex(name="numbers", parallelism=2, source=SourceObject(source=source)),
            Vertex(name="sums", parallelism=2, operator=key_sum(parity)),
            Vertex(name="results", operator=sink(results.append)),
        ),
        edges=(
            Edge(source="numbers", target="sums", ship="hash"),
            Edge(source="sums", target="results", ship="rebalance"),
        ),
    )
    emulate(scenario)
    return {name.decode(): int(total) for name, total in (result.split() for result in results)}


if __name__ == "__main__":
    print(odd_and_even(1000))
