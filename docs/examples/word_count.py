"""Word count over text that Spark reads: lines are split, words routed by hash, and counted.

Run it with ``python docs/examples/word_count.py FILE``, for a CSV file with a column ``line``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

from buffers import RecordBlock
from integration import SparkSource
from netstack import Edge, Scenario, SourceObject, Vertex, emulate, flat_map, key_sum, sink, text_hash


def word_count(path: str, column: str = "line") -> dict[str, int]:
    """Count the words in a column of a CSV, JSON or Parquet file."""
    counts: list[bytes] = []
    with SparkSource(path) as source:

        def words(payload: bytes) -> Iterator[bytes]:
            rows: pa.RecordBatch = source.codec.decode(RecordBlock.from_payloads([payload]))
            line = rows.column(column)[0].as_py()
            return (word.encode() for word in (line or "").lower().split())

        scenario = Scenario(
            name="word count",
            duration_s=600.0,
            vertices=(
                Vertex(name="lines", parallelism=source.parallelism_hint, source=SourceObject(source=source)),
                Vertex(name="words", parallelism=2, operator=flat_map(words)),
                Vertex(name="counts", parallelism=2, operator=key_sum(lambda word: (word, 1))),
                Vertex(name="results", operator=sink(counts.append)),
            ),
            edges=(
                Edge(source="lines", target="words", ship="rebalance"),
                Edge(source="words", target="counts", ship="hash", key_hash=text_hash),
                Edge(source="counts", target="results", ship="rebalance"),
            ),
        )
        emulate(scenario)
    return {word.decode(): int(count) for word, count in (line.rsplit(maxsplit=1) for line in counts)}


if __name__ == "__main__":
    for word, count in sorted(word_count(sys.argv[1]).items()):
        print(word, count)
