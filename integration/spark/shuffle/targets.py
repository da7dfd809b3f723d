"""How the driver tells the workers where rows go, and the placement by keys that Spark has computed."""

from __future__ import annotations

from typing import Literal, NamedTuple

import pyarrow as pa

from .placement import (
    BroadcastPlacement,
    ColumnPlacement,
    HashPlacement,
    Placement,
    RebalancePlacement,
    Targets,
)

Kind = Literal["hash", "computed keys", "computed target", "rebalance", "broadcast"]


class PlacementSpec(NamedTuple):
    """A placement, as it is sent to the workers."""

    kind: Kind
    places: tuple[int, ...] = ()
    """Which columns it reads: the keys, or the one that was computed for it."""

    def build(self, schema: pa.Schema, count: int, index: int) -> Placement:
        """Return the placement of one of `count` tasks, for batches of this schema.

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
