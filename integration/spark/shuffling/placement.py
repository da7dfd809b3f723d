"""Placement: which of the shuffle's targets each row of a batch goes to.

| placement | target of a row                                                                      |
|-----------|--------------------------------------------------------------------------------------|
| hash      | that of the key group of its key, as everywhere in this project and in Flink         |
| rebalance | the next one in turn, row by row, over all batches                                   |
| broadcast | all of them                                                                          |
| column    | the number in an int32 column, made by whoever has a rule of their own; it is not    |
|           | sent along                                                                           |

A placement gives targets in the smallest unsigned type that holds them: numpy sorts one and two bytes by
radix, which is what the next step needs. One target for all rows of a batch is a plain int, and no sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from netstack import SourceError, assign_to_operators, default_max_parallelism

from ...errors import TargetError, UnsupportedColumnError
from ..arrow_types import column_index, key_hashes, key_index, plain_schema

ALL = -1
"""The target of rows that go to every target."""

Targets = NDArray[np.unsignedinteger[Any]]
"""One target for each row."""

_ROWS_AT_ONCE = 1 << 15
"""Hashing passes some thirty times over a few bytes of each row: those of so many rows stay in the cache."""

Kind = Literal["hash", "computed keys", "computed target", "rebalance", "broadcast"]
"""How the driver names a placement: "computed" is a column that Spark computes for the purpose."""


class Placement(Protocol):
    """Chooses the targets of rows, in the order in which they come."""

    @property
    def dropped(self) -> int | None:
        """Index of the column that is left out of what is sent, if one is."""
        ...

    @property
    def count(self) -> int:
        """Number of targets, at least 1."""
        ...

    def place(self, batch: pa.RecordBatch) -> Targets | int:
        """Return the target of each row of a batch; an int is that of all its rows."""
        ...


class HashPlacement:
    """Sends rows of equal keys to one target, by Flink's key groups (KeyGroupStreamPartitioner).

    Args:
        schema: The columns of the batches.
        keys: Names of the key columns, in the order in which their hash codes are combined.
        count: Number of targets.
        max_parallelism: Number of key groups; by default what Flink derives from the number of targets.

    Raises:
        SourceError: There is no such key column, or more than one, or no key.
        UnsupportedColumnError: A column cannot be a key.
        ValueError: The numbers do not fit together.
    """

    dropped = None

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], count: int, max_parallelism: int | None = None
    ) -> None:
        if not keys:
            raise SourceError("a shuffle by hash needs a key column")
        plain = plain_schema(schema)
        self.count = count
        self._indices = [key_index(plain, name) for name in keys]
        self._max_parallelism = max_parallelism or default_max_parallelism(count)
        assign_to_operators(np.zeros(0, dtype=np.int32), self._max_parallelism, count)

    def place(self, batch: pa.RecordBatch) -> Targets | int:
        """Return the target of each row."""
        if self.count == 1:
            return 0
        columns = [batch.column(index) for index in self._indices]
        targets = np.empty(batch.num_rows, dtype=_dtype(self.count))
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = [column.slice(start, _ROWS_AT_ONCE) for column in columns]
            targets[start : start + _ROWS_AT_ONCE] = self._targets(part)
        return targets

    def _targets(self, columns: list[pa.Array]) -> NDArray[np.int64]:
        return assign_to_operators(key_hashes(columns), self._max_parallelism, self.count)


class RebalancePlacement:
    """Deals rows out in turns (RebalancePartitioner).

    Args:
        count: Number of targets.
        first: Target of the first row; to have several writers begin with different ones.
    """

    dropped = None

    def __init__(self, count: int, first: int = 0) -> None:
        self.count = count
        self._next = first % count

    def place(self, batch: pa.RecordBatch) -> Targets | int:
        """Return the target of each row."""
        first, end = self._next, self._next + batch.num_rows
        self._next = end % self.count
        if self.count == 1:
            return 0
        turns = np.arange(first, end, dtype=np.uint32) % np.uint32(self.count)
        return turns.astype(_dtype(self.count))


class BroadcastPlacement:
    """Sends every row to every target (BroadcastPartitioner)."""

    dropped = None

    def __init__(self, count: int) -> None:
        self.count = count

    def place(self, batch: pa.RecordBatch) -> Targets | int:
        """Return `ALL`."""
        return ALL


class ColumnPlacement:
    """Sends each row to the target that stands in one of its columns, which is dropped.

    Args:
        schema: The columns of the batches, that of the targets included.
        name: The column of targets, int32.
        count: Number of targets.

    Raises:
        SourceError: There is no such column, or more than one.
        UnsupportedColumnError: It is not of int32.
    """

    def __init__(self, schema: pa.Schema, name: str, count: int) -> None:
        self.count = count
        self.dropped: int | None = column_index(schema, name, "column of targets")
        kind = schema.field(self.dropped).type
        if not types.is_int32(kind):
            raise UnsupportedColumnError(name, kind, "cannot hold targets, which are int32")
        self._name = name

    def place(self, batch: pa.RecordBatch) -> Targets | int:
        """Return the target of each row.

        Raises:
            TargetError: A row has none, or one outside 0 .. count - 1.
        """
        column = batch.column(self.dropped)
        if column.null_count:
            raise TargetError(f"column {self._name!r}: a row has null as its target")
        values = column.to_numpy()
        wrong = values.view(np.uint32) >= self.count  # a negative one is at least 2^31
        if wrong.any():
            value = values[wrong.argmax()]
            raise TargetError(f"column {self._name!r}: target {value} is outside 0..{self.count - 1}")
        return 0 if self.count == 1 else values.astype(_dtype(self.count))


class ComputedKeyPlacement:
    """Sends rows to the target of the key group of their key, whose columns are the fields of a struct.

    Args:
        schema: The columns of the batches.
        place: Index of the struct, which is dropped.
        count: Number of targets.

    Raises:
        UnsupportedColumnError: A field cannot be a key.
    """

    def __init__(self, schema: pa.Schema, place: int, count: int) -> None:
        self.count = count
        self.dropped: int | None = place
        kind = schema.field(place).type
        self._keys = pa.schema([kind.field(index) for index in range(kind.num_fields)])
        self._placement = HashPlacement(self._keys, self._keys.names, count)

    def place(self, batch: pa.RecordBatch) -> Targets | int:
        """Return the target of each row."""
        fields = batch.column(self.dropped).flatten()
        return self._placement.place(pa.RecordBatch.from_arrays(fields, schema=self._keys))


class PlacementSpec(NamedTuple):
    """A placement, as the driver sends it to the workers."""

    kind: Kind
    places: tuple[int, ...] = ()
    """Which columns it reads: the keys, or the one that was computed for it."""

    @property
    def dropped(self) -> int | None:
        """Index of the column that was computed for it and is not sent along, if there is one."""
        return self.places[0] if self.kind in ("computed keys", "computed target") else None

    def build(self, schema: pa.Schema, count: int, index: int) -> Placement:
        """Return the placement of task `index` over `count` partitions, for batches of this schema.

        Raises:
            SourceError: A column cannot be a key.
        """
        names = [schema.field(place).name for place in self.places]
        if self.kind == "hash":
            return HashPlacement(schema, names, count)
        if self.kind == "computed keys":
            return ComputedKeyPlacement(schema, self.places[0], count)
        if self.kind == "computed target":
            return ColumnPlacement(schema, names[0], count)
        if self.kind == "rebalance":
            return RebalancePlacement(count, index)
        return BroadcastPlacement(count)


def _dtype(count: int) -> np.dtype[np.unsignedinteger[Any]]:
    return np.min_scalar_type(count - 1)
