"""Where the names of settings stand beside their marks, so that none is printed over another.

A name takes the first side of its mark on which it covers neither a mark nor a name that is there already,
and no bar if that can be had; the names of which something is said choose first. One that finds no room is
left to the tooltip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log
from typing import Literal, NamedTuple

from .chart_data import Row
from .panels import PANEL_WIDTH

WIDTH, HEIGHT = 2 * PANEL_WIDTH, 300
"""Width and height of the picture, in pixels."""
PADDING = 50
"""Pixels between the marks at the ends and the sides of the picture."""
FONT_SIZE = 11.5

_CHARACTER = 6.6
"""Pixels that a character of a name takes, at most."""
_MARK = 7.0
"""Half the width of a mark, with some room."""
_RING = 13.0
_APART = 6.0
"""Pixels between two names side by side, at least."""

NARROW = 300
"""Width of the picture on a phone, in pixels, for which names have sides of their own."""

_STEPS = 24
"""Parts of a line that are looked at."""

_SPARE = 0.24
"""Share of the axis of throughput left free above and below all marks, where their names stand."""
_NARROWEST = 4.0
"""Percentage points that the axis of throughput shows at least, so that noise looks like noise."""


class Side(NamedTuple):
    """Where a name stands, in pixels from the middle of its mark."""

    align: Literal["left", "center", "right"]
    baseline: Literal["top", "middle", "bottom"]
    dx: float
    dy: float


SIDES = {
    "above": Side("center", "bottom", 0, -14),
    "below": Side("center", "top", 0, 14),
    "right above": Side("left", "bottom", 14, -14),
    "left above": Side("right", "bottom", -14, -14),
    "right below": Side("left", "top", 14, 14),
    "left below": Side("right", "top", -14, 14),
    "higher": Side("center", "bottom", 0, -30),
    "lower": Side("center", "top", 0, 30),
    "right": Side("left", "middle", 15, 0),
    "left": Side("right", "middle", -15, 0),
}
"""In the order in which they are tried; the line between the marks runs to the right and to the left."""

NOWHERE = "nowhere"


class Box(NamedTuple):
    """A part of the picture, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: Box) -> bool:
        """Whether the two have a part in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def placed(rows: Sequence[Row]) -> list[Row]:
    """Return rows of a trade-off (`ms`, `share`, `said`, `label` in each) with the `side` of each name.

    Its side in a picture `NARROW` pixels wide is `narrow_side`.
    """
    both = zip(rows, _sides(rows, WIDTH), _sides(rows, NARROW), strict=True)
    return [{**row, "side": side, "narrow_side": narrow} for row, side, narrow in both]


def _sides(rows: Sequence[Row], width: float) -> list[str]:
    at = [_point(row, rows, width) for row in rows]
    marks = [_mark(x, y, _RING if row["said"] else _MARK) for row, (x, y) in zip(rows, at, strict=True)]
    bars = [*(bar for row in rows for bar in _bars(row, rows, width)), *_lines(rows, at)]
    names: list[Box] = []
    sides = [NOWHERE] * len(rows)
    for place in sorted(range(len(rows)), key=lambda place: not rows[place]["said"]):
        with_room = [
            (name, box)
            for name, box in _boxes(rows[place]["label"], *at[place])
            if rows[place]["label"] and _is_inside(box, width) and not _covers_any(box, [*marks, *names])
        ]
        if with_room:
            off_bars = (named for named in with_room if not _covers_any(named[1], bars))
            sides[place], box = next(off_bars, with_room[0])
            names.append(box)
    return sides


def _covers_any(box: Box, others: Sequence[Box]) -> bool:
    return any(box.covers(other) for other in others)


def share_domain(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the ends of the axis of throughput, in %."""
    most = max(100.0, *(row["share_most"] for row in rows))
    least = min(most - _NARROWEST, *(row["share_least"] for row in rows))
    spare = _SPARE * (most - least)
    return least - spare, most + spare


def label_boxes(rows: Sequence[Row], *, narrow: bool = False) -> list[Box]:
    """Return where the names of placed rows are, in the usual picture or in the narrow one."""
    field, width = ("narrow_side", NARROW) if narrow else ("side", WIDTH)
    return [
        dict(_boxes(row["label"], *_point(row, rows, width)))[row[field]]
        for row in rows
        if row[field] in SIDES
    ]


def _point(row: Row, rows: Sequence[Row], width: float) -> tuple[float, float]:
    """The middle of a mark."""
    return _x(row["ms"], rows, width), _y(row["share"], rows)


def _bars(row: Row, rows: Sequence[Row], width: float) -> Iterator[Box]:
    """The intervals around a mark."""
    x, y = _point(row, rows, width)
    yield Box(_x(row["ms_least"], rows, width), y - 1, _x(row["ms_most"], rows, width), y + 1)
    yield Box(x - 1, _y(row["share_most"], rows), x + 1, _y(row["share_least"], rows))


def _lines(rows: Sequence[Row], at: Sequence[tuple[float, float]]) -> Iterator[Box]:
    """The line from each mark to the next one of its curve, as small boxes."""
    for (row, (x, y)), (after, (to_x, to_y)) in pairwise(zip(rows, at, strict=True)):
        if row.get("curve") == after.get("curve"):
            for step in range(_STEPS + 1):
                part = step / _STEPS
                yield _mark(x + part * (to_x - x), y + part * (to_y - y), 2.0)


def _x(ms: float, rows: Sequence[Row], width: float) -> float:
    """Times are on a log axis."""
    low, high = (log(end) for end in _ends(rows))
    along = (log(ms) - low) / (high - low) if high > low else 0.5
    return PADDING + along * (width - 2 * PADDING)


def _y(share: float, rows: Sequence[Row]) -> float:
    low, high = share_domain(rows)
    return HEIGHT * (1.0 - (share - low) / (high - low))


def _ends(rows: Sequence[Row]) -> tuple[float, float]:
    return min(row["ms_least"] for row in rows), max(row["ms_most"] for row in rows)


def _mark(x: float, y: float, reach: float) -> Box:
    return Box(x - reach, y - reach, x + reach, y + reach)


def _boxes(label: str, x: float, y: float) -> Iterator[tuple[str, Box]]:
    width, height = _CHARACTER * len(label) + _APART, FONT_SIZE + 2
    for name, side in SIDES.items():
        start = {"left": _APART / 2, "center": width / 2, "right": width - _APART / 2}[side.align]
        left = x + side.dx - start
        top = y + side.dy - {"top": 0.0, "middle": height / 2, "bottom": height}[side.baseline]
        yield name, Box(left, top, left + width, top + height)


def _is_inside(box: Box, width: float) -> bool:
    return box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= HEIGHT
