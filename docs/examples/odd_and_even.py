"""The sum of odd and of even numbers: two sources count, one subtask sums odd ones, one even ones.

Run it with ``python docs/examples/odd_and_even.py``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock
from netstack import (
    CollectionSource,
    Edge,
    Scenario,
    SourceObject,
    Vertex,
    emulate,
    key_sum,
    payload_hash,
    sink,
)


def parity(payload: bytes) -> tuple[bytes, int]:
    """The key and the number of a record."""
    number = int(payload)
    return (b"odd" if number % 2 else b"even"), number


def parity_hash(block: RecordBlock) -> NDArray[np.int32]:
    """Java's hashCode of the key of each record, as a byte array."""
    keys = [parity(bytes(payload))[0] for payload in block.payloads()]
    return payload_hash(RecordBlock.from_payloads(keys))


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
