"""Times, sizes and rates as text: parsing and formatting.

There are two notations. Flink's options use Flink's notation: an integer and a unit, as in "32 kb" (1 kb =
1024 bytes) or "100 ms". A number without unit means bytes or milliseconds, and `unit_notice` warns about it.
All other values use the notation of scenario files: a number, with or without decimals, and its unit. The
arithmetic is decimal, so that a number stays the same when it is formatted and parsed again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from math import inf, isfinite

from ..errors import QuantityError

__all__ = [
    "format_duration",
    "format_size",
    "parse_duration",
    "parse_flink_duration",
    "parse_flink_size",
    "parse_rate",
]

DURATION_S: Mapping[str, Decimal] = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), Decimal("1e-9")),
    **dict.fromkeys(("us", "µs", "μs", "micro", "micros", "microsecond", "microseconds"), Decimal("1e-6")),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), Decimal("1e-3")),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Decimal(1)),
    **dict.fromkeys(("min", "m", "minute", "minutes"), Decimal(60)),
    **dict.fromkeys(("h", "hour", "hours"), Decimal(3600)),
    **dict.fromkeys(("d", "day", "days"), Decimal(86400)),
}
SIZE_BYTES: Mapping[str, Decimal] = {
    **dict.fromkeys(("b", "byte", "bytes"), Decimal(1)),
    **dict.fromkeys(("kb", "k", "kibibytes"), Decimal(1 << 10)),
    **dict.fromkeys(("mb", "m", "mebibytes"), Decimal(1 << 20)),
    **dict.fromkeys(("gb", "g", "gibibytes"), Decimal(1 << 30)),
    **dict.fromkeys(("tb", "t", "tebibytes"), Decimal(1 << 40)),
}
RATE_BYTES_PER_S: Mapping[str, Decimal] = {
    "b": Decimal(1),
    "kb": Decimal(1000),
    "mb": Decimal(1000**2),
    "gb": Decimal(1000**3),
    "kib": Decimal(1 << 10),
    "mib": Decimal(1 << 20),
    "gib": Decimal(1 << 30),
    "bit": Decimal("0.125"),
    "kbit": Decimal(125),
    "mbit": Decimal(125_000),
    "gbit": Decimal(125_000_000),
}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([^\s0-9]*)\s*")
_LONG = 1 << 63
"""Smallest integer that is too large for 64 bits in Java."""

_MOST_LETTERS = 1000
"""Maximum number of characters of a quantity; the smallest 64-bit float without exponent has fewer."""

_DURATION_HINT = 'a time such as "5 ms", "1 s" or "1 min"'
_SIZE_HINT = 'a size such as "32 kb" or "64 mb"'
_RATE_HINT = 'a rate such as "10 gbit/s" or "2 GB/s"'


def parse_duration(value: object) -> float:
    """Return the seconds for a text such as "0.8 us" or "5 ms"; the unit is required.

    Raises:
        QuantityError: if the text is not a duration.
    """
    number, unit = _with_unit(value, _DURATION_HINT)
    return _finite(number * _scale(unit, DURATION_S, value, _DURATION_HINT), _DURATION_HINT)


def parse_rate(value: object) -> float:
    """Return the bytes per second for a text such as "10 gbit/s" or "2 GB/s".

    1 kB is 1000 bytes, 1 KiB is 1024.

    Raises:
        QuantityError: if it is not such a text, or is ambiguous like "Gb/s", which may mean bits or bytes.
    """
    number, unit = _with_unit(value, _RATE_HINT)
    amount, slash, second = unit.partition("/")
    if not slash or second.lower() not in ("s", "sec", "second"):
        raise QuantityError(f"{value!r} has no unit of bytes or bits per second", _RATE_HINT)
    if len(amount) == 2 and amount[0].isupper() and amount[1] == "b":
        hint = f'"{amount[0].lower()}bit/s" or "{amount[0]}B/s"'
        raise QuantityError(f"the unit of {value!r} does not say whether bits or bytes are meant", hint)
    rate = _finite(number * _scale(amount, RATE_BYTES_PER_S, value, _RATE_HINT), _RATE_HINT)
    if rate <= 0:
        raise QuantityError(f"{value!r} is not more than 0", _RATE_HINT)
    return rate


def parse_flink_duration(value: object, *, needs_unit: bool = False) -> float:
    """Return the seconds of a duration in Flink's syntax (TimeUtils), such as "100ms"; default unit: ms.

    Raises:
        QuantityError: if Flink would reject it, or it has no unit and `needs_unit` is set.
    """
    number, unit = _whole(value, _DURATION_HINT)
    if needs_unit and not unit:
        raise QuantityError(f"{value!r} has no unit", f'a time such as "{number} ms" or "{number} s"')
    return float(number * _scale(unit or "ms", DURATION_S, value, _DURATION_HINT))


def parse_flink_size(value: object, *, needs_unit: bool = False) -> int:
    """Return the bytes of a size in Flink's syntax (MemorySize): "32 kb" is 32768. Default unit: bytes.

    Raises:
        QuantityError: if Flink would reject it, or it has no unit and `needs_unit` is set.
    """
    number, unit = _whole(value, _SIZE_HINT)
    if needs_unit and not unit:
        raise QuantityError(f"{value!r} has no unit", f'a size such as "{number} kb" or "{number} mb"')
    return int(number * _scale(unit or "b", SIZE_BYTES, value, _SIZE_HINT))


def format_duration(seconds: float) -> str:
    """Return seconds as text for `parse_duration`, in the largest unit without decimals."""
    exact = Decimal(repr(seconds))
    for unit, shift in (("s", 0), ("ms", 3), ("us", 6), ("ns", 9)):
        number = exact.scaleb(shift)
        if number == int(number):
            return f"{int(number)} {unit}"
    return f"{exact.scaleb(9):f} ns"


def time_text(seconds: float) -> str:
    """Return seconds as text, like `format_duration`, but also for infinity and NaN."""
    return format_duration(seconds) if isfinite(seconds) else str(seconds)


def format_size(size: int) -> str:
    """Return bytes in Flink's syntax, in the largest unit without decimals."""
    for unit, shift in (("tb", 40), ("gb", 30), ("mb", 20), ("kb", 10)):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} b"


def format_rate(bytes_per_s: float) -> str:
    """Return bytes per second as text for `parse_rate`."""
    exact = Decimal(repr(bytes_per_s))
    for unit, scale in (("GB/s", 1000**3), ("MB/s", 1000**2), ("kB/s", 1000)):
        if exact % scale == 0:
            return f"{int(exact / scale)} {unit}"
    return f"{exact.normalize():f} B/s"


def _with_unit(value: object, hint: str) -> tuple[Decimal, str]:
    number, unit = _split(value, (int, float, str), "a number", hint)
    if not unit:
        raise QuantityError(f"{value!r} has no unit", hint)
    return Decimal(number), unit


def _whole(value: object, hint: str) -> tuple[int, str]:
    digits, unit = _split(value, (int, str), "a whole number", hint)
    if not digits.isdigit():
        raise QuantityError(
            f"{value!r} has decimals, which Flink does not accept", f"{hint}, in whole numbers"
        )
    number = int(digits)
    if number >= _LONG:
        raise QuantityError(f"{value!r} does not fit into 64 bits, so Flink does not accept it", hint)
    return number, unit


def _split(value: object, types: tuple[type, ...], what: str, hint: str) -> tuple[str, str]:
    """Return the number and the unit of a value that has one of the types; `what` describes the number."""
    readable = isinstance(value, types) and not isinstance(value, bool)
    if isinstance(value, str) and len(value) > _MOST_LETTERS:
        raise QuantityError(f"{value[:20]!r}... is too long, with {len(value)} characters", hint)
    if readable and str(value).strip().startswith("-"):
        raise QuantityError(f"{value!r} is negative", f"positive: {hint}")
    match = _QUANTITY.fullmatch(str(value)) if readable else None
    if match is None:
        raise QuantityError(f"{value!r} is not {what} with a unit", hint)
    return match[1], match[2]


def _finite(number: Decimal, hint: str) -> float:
    converted = float(number)
    if converted == inf:
        raise QuantityError(f"{number:.3g} is too large", hint)
    return converted


def _scale(unit: str, units: Mapping[str, Decimal], value: object, hint: str) -> Decimal:
    scale = units.get(unit.lower())
    if scale is None:
        first: dict[Decimal, str] = {}
        for name, each in units.items():
            first.setdefault(each, name)
        known = ", ".join(first.values())
        raise QuantityError(f"{value!r} has the unknown unit {unit!r}; known units are {known}", hint)
    return scale
