"""Labels beside the axes of pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

UNITS = ("(s)", "(ms)", "(KiB)", "(MiB)", "(records/s)", "(% of now)", "(records)")
COUNTS = ("buffers", "buffers that wait", "load, as a multiple of today's")


def axes_of(spec: Any) -> Iterator[str | None]:
    """The titles of all axes with numbers, but for those that are said to have none."""
    if isinstance(spec, dict):
        for name in ("x", "y"):
            axis = spec.get("encoding", {}).get(name, {})
            if axis.get("type") == "quantitative" and axis.get("title", "") is not None:
                yield axis.get("title")
        for part in spec.values():
            yield from axes_of(part)
    elif isinstance(spec, list):
        for part in spec:
            yield from axes_of(part)


def has_unit(title: str | None) -> bool:
    """Whether an axis says in what, or of what, its numbers are."""
    return title is not None and (title in COUNTS or title.endswith(UNITS))
