"""Numbers as text: durations, sizes, rates and shares."""

from __future__ import annotations

import re

NOTHING = "-"
"""Text of a missing number."""

NOTABLE_CHANGE = 0.01
"""Smallest relative difference of two throughputs that is reported."""

_MICRO = re.compile(r"\bus\b")

_SIZES = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}


def with_micro_sign(text: str) -> str:
    """Return a text with "µs" in place of the "us" of files and command lines."""
    return _MICRO.sub("µs", text)


def milliseconds(value: float | None) -> str:
    """Return a time given in milliseconds as "47 ms" or, from a second on, "3.52 s"."""
    if value is None:
        return NOTHING
    return f"{value:.0f} ms" if value < 999.5 else f"{digits(value / 1000)} s"


def time_span(seconds: float) -> str:
    """Return a time in its largest unit with a whole number, as "24 h", "5 min" or "90 s"."""
    for unit, length_s in (("h", 3600), ("min", 60)):
        if seconds >= length_s and seconds % length_s == 0:
            return f"{seconds / length_s:g} {unit}"
    return f"{seconds:g} s"


def size(value: float | None) -> str:
    """Return a number of bytes with its binary unit, as "7.42 KiB"; 1 KiB is 1024 bytes, Flink's "1 kb"."""
    if value is None:
        return NOTHING
    unit = size_unit(value)
    return f"{size_in(unit, value)} {unit}"


def size_unit(value: float) -> str:
    """Return the binary unit for a number of bytes, as "KiB"."""
    return next((unit for unit, scale in _SIZES.items() if value >= scale), "B")


def size_in(unit: str, value: float) -> str:
    """Return a number of bytes in a unit, without its name, as "7.42"."""
    return f"{value:.0f}" if unit == "B" else digits(value / _SIZES[unit])


def bytes_per_second(value: float | None) -> str:
    """Return a rate of bytes with its binary unit, as "198 KiB/s"."""
    return NOTHING if value is None else f"{size(value)}/s"


def per_second(value: float | None) -> str:
    """Return a rate of records as "2,510/s"."""
    return NOTHING if value is None else f"{digits(value)}/s"


def ratio(value: float | None) -> str:
    """Return a quotient as "0.23"."""
    return NOTHING if value is None else digits(value)


def percent(share: float | None) -> str:
    """Return a share from 0 to 1 as "43 %"."""
    return NOTHING if share is None else f"{100 * share:.0f} %"


def counted(count: int, what: str) -> str:
    """Return a count with its noun, as "1 subtask" or "3 subtasks"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def is_or_are(count: int) -> str:
    """Return the verb of a count."""
    return "is" if count == 1 else "are"


def digits(value: float) -> str:
    """Return a number with three digits, or more if there are more before the decimal point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def figure(value: float | None) -> str:
    """Return a number with about three significant digits and no thousands separators."""
    if value is None:
        return NOTHING
    if float(value).is_integer() or abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
