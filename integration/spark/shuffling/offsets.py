"""Where the values of columns begin: what Arrow's own quick check of a batch leaves out.

That looks at the first and the last offset of a column of texts or lists. One in between that leads elsewhere
has whoever joins or cuts the rows read memory of others, or none. A look at all of them takes a hundredth of
what encoding takes; Arrow's full check, which looks at the letters too, takes several times as long as that.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types

_SMALL, _LARGE = np.dtype("<i4"), np.dtype("<i8")


def require_rising_offsets(column: pa.Array) -> None:
    """Check that each value of a column, and of its parts, ends where or behind where it begins.

    Raises:
        pa.ArrowInvalid: One does not.
    """
    kind = column.type
    if not len(column) or types.is_fixed_size_binary(kind) or types.is_decimal(kind):
        return
    if types.is_struct(kind):
        for index in range(kind.num_fields):
            require_rising_offsets(column.field(index))
        return
    if types.is_fixed_size_list(kind):
        require_rising_offsets(column.values)
        return
    width = _width_of_offsets(kind)
    if width is None:
        return
    raw = column.buffers()[1]
    offsets = np.frombuffer(raw, width, len(column) + 1, column.offset * width.itemsize)
    if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any():
        raise pa.ArrowInvalid(f"a value of a column of type {kind} ends before it begins")
    if types.is_map(kind):
        require_rising_offsets(column.keys)
        require_rising_offsets(column.items)
    elif types.is_list(kind) or types.is_large_list(kind):
        require_rising_offsets(column.values)


def _width_of_offsets(kind: pa.DataType) -> np.dtype[np.signedinteger] | None:
    """The type of the offsets of a column; None if it has none."""
    if types.is_string(kind) or types.is_binary(kind) or types.is_list(kind) or types.is_map(kind):
        return _SMALL
    large = types.is_large_string(kind) or types.is_large_binary(kind) or types.is_large_list(kind)
    return _LARGE if large else None
