"""Java's ``hashCode`` of column values, over whole numpy columns.

A hash exchange partitions by the hash code that Java gives the key, so records land where a real Flink job
would send them. Every function takes a column and returns one int32 per value, without a Python loop over the
values.

| column                | hash code                                                                         |
|-----------------------|-----------------------------------------------------------------------------------|
| integer up to 32 bits | the value                                                                         |
| long                  | ``v ^ v >>> 32``                                                                  |
| float, double         | bits as an int (float) or a long (double); every NaN has the bits of Java's NaN   |
| boolean               | 1231 or 1237                                                                      |
| string                | ``31*h + unit`` over UTF-16 units, from 0                                         |
| binary                | ``31*h + byte`` over signed bytes, from 1 (``Arrays.hashCode``)                   |
| decimal               | ``31*hash(unscaled) + scale`` (``BigDecimal``, ``BigInteger``)                    |
| null                  | 0                                                                                 |

Dates are hashed as their day number (an int), timestamps as their microseconds (a long). A string that is not
UTF-8 is hashed as Java reads it, with a replacement character for each malformed sequence.
"""

import codecs
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.int32]
"""One Java hash code per value."""

_JAVA = "netstack.java"
"""Name of a codec error handler that decodes invalid UTF-8 as ``new String(bytes, UTF_8)`` does."""

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_TRUE, _FALSE = np.int32(1231), np.int32(1237)
_FLOAT_NAN, _DOUBLE_NAN = np.uint32(0x7FC00000), np.uint64(0x7FF8000000000000)
_HIGH_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_INVERSE_OF_31 = pow(31, -1, 1 << 32)


def _replace_like_java(error: UnicodeError) -> tuple[str, int]:
    """Replace invalid bytes by one U+FFFD, as many at once as Java does.

    Python's own handler differs only for an encoded surrogate, which Java replaces as a whole.
    """
    assert isinstance(error, UnicodeDecodeError)
    surrogate = _SURROGATE.match(error.object, error.start)
    return "\ufffd", surrogate.end() if surrogate else error.end


codecs.register_error(_JAVA, _replace_like_java)


def hash_ints(values: NDArray[np.signedinteger[Any]]) -> Hashes:
    """Hash integers of at most 32 bits (Java's Byte, Short, Integer), and dates as day numbers."""
    return values.astype(np.int32)


def hash_longs(values: NDArray[np.int64]) -> Hashes:
    """Hash 64-bit integers (Java's Long), and timestamps as microseconds since the epoch."""
    return _fold(np.ascontiguousarray(values, dtype=np.int64).view(np.uint64))


def hash_floats(values: NDArray[np.float32]) -> Hashes:
    """Hash 32-bit floats (Java's Float); 0.0 and -0.0 differ, all NaNs are equal."""
    floats = np.ascontiguousarray(values, dtype=np.float32)
    return np.where(np.isnan(floats), _FLOAT_NAN, floats.view(np.uint32)).view(np.int32)


def hash_doubles(values: NDArray[np.float64]) -> Hashes:
    """Hash 64-bit floats (Java's Double); 0.0 and -0.0 differ, all NaNs are equal."""
    doubles = np.ascontiguousarray(values, dtype=np.float64)
    return _fold(np.where(np.isnan(doubles), _DOUBLE_NAN, doubles.view(np.uint64)))


def hash_booleans(values: NDArray[np.bool_]) -> Hashes:
    """Hash booleans (Java's Boolean): 1231 for true, 1237 for false."""
    return np.where(values, _TRUE, _FALSE)


def hash_utf8(data: bytes, offsets: NDArray[np.integer[Any]]) -> Hashes:
    """Hash strings (Java's String) that lie back to back in UTF-8; each is decoded separately.

    Args:
        data: The strings' bytes.
        offsets: n + 1 byte positions in ``data``; string i is ``data[offsets[i]:offsets[i+1]]``.
    """
    if data.isascii():  # bytes are units
        return _polynomial(np.frombuffer(data, dtype=np.uint8), offsets, 0)
    data, offsets = data[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0]
    lead = np.frombuffer(data, dtype=np.uint8)
    opens = (lead & 0xC0) != 0x80  # a character; the other bytes continue one
    starts = offsets[:-1]
    try:
        units = np.frombuffer(data.decode("utf-8").encode("utf-16-le"), dtype="<u2")
        separate = bool(opens[starts[starts < len(data)]].all())
    except UnicodeDecodeError:
        separate = False
    if not separate:  # some are not valid UTF-8 by themselves
        return hash_strings([data[start:end].decode("utf-8", _JAVA) for start, end in pairwise(offsets)])
    # A lead byte begins one UTF-16 unit, or two for a 4-byte sequence; a continuation byte begins none.
    opened = opens.astype(np.int64) + (lead >= 0xF0)
    before = np.concatenate(([0], np.cumsum(opened)))
    return _polynomial(units, before[offsets], 0)


def hash_strings(values: Sequence[str]) -> Hashes:
    """Hash Python strings as Java's String does."""
    encoded = [value.encode("utf-8") for value in values]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    return hash_utf8(b"".join(encoded), np.concatenate(([0], np.cumsum(lengths))))


def hash_binary(data: bytes, offsets: NDArray[np.integer[Any]]) -> Hashes:
    """Hash byte strings (Java's ``Arrays.hashCode``) that lie back to back, as in `hash_utf8`."""
    return _polynomial(np.frombuffer(data, dtype=np.int8), offsets, 1)


def hash_decimals(unscaled: NDArray[np.uint8], scale: int) -> Hashes:
    """Hash decimals (Java's BigDecimal) that all have the same scale.

    Args:
        unscaled: Shape (n, width), width a multiple of 4: each row the unscaled value in two's complement,
            little-endian, as Arrow lays it out.
        scale: Number of digits after the point.
    """
    words = np.ascontiguousarray(unscaled, dtype=np.uint8).view("<u4")
    negative = words[:, -1] >> np.uint32(31) == 1
    carry = negative.astype(np.uint64)
    hashes = np.zeros(len(words), dtype=np.uint32)
    power = np.uint32(1)
    for column in words.T:  # from the low word up, negating on the way: magnitude = ~value + 1
        word = np.where(negative, ~column, column) + carry
        carry = word >> _HIGH_HALF
        hashes += (word & _LOW_HALF).astype(np.uint32) * power
        power = np.uint32(int(power) * 31 & 0xFFFFFFFF)
    signed = np.where(negative, -hashes, hashes)
    return (signed * np.uint32(31) + np.uint32(scale & 0xFFFFFFFF)).view(np.int32)


def with_nulls(hashes: Hashes, valid: NDArray[np.bool_]) -> Hashes:
    """Return ``hashes`` with 0 where ``valid`` is false: the hash code of a null."""
    return np.where(valid, hashes, np.int32(0))


def combine(columns: Sequence[Hashes]) -> Hashes:
    """Combine the hash codes of several key columns as ``31*h + hash``, starting at 1.

    Raises:
        ValueError: if there is no column.
    """
    if not columns:
        raise ValueError("a key must have at least one column")
    total: NDArray[np.uint32] = np.ones(len(columns[0]), dtype=np.uint32)
    for hashes in columns:
        total = total * np.uint32(31) + np.ascontiguousarray(hashes, dtype=np.int32).view(np.uint32)
    return total.view(np.int32)


def _fold(bits: NDArray[np.uint64]) -> Hashes:
    halves = bits.view(np.int32).reshape(-1, 2)
    return halves[:, 0] ^ halves[:, 1]


def _polynomial(units: NDArray[np.integer[Any]], offsets: NDArray[np.integer[Any]], start: int) -> Hashes:
    """Evaluate ``h = 31*h + unit`` from ``start`` over each slice of ``units``, all in one pass.

    31 is odd, so it has an inverse modulo 2^32. With ``before[p]``, the sum of ``unit / 31^(i+1)`` over all
    positions i before p, the value of a slice is ``(before[end] - before[begin]) * 31^end``.
    """
    first, last = int(offsets[0]), int(offsets[-1])
    ends = offsets.astype(np.int64) - first
    powers = _powers(31, last - first + 1)
    before = _powers(_INVERSE_OF_31, last - first + 1)
    before[1:] *= units[first:last].astype(np.uint32)
    before[0] = 0
    np.cumsum(before, out=before)
    sums = before[ends]
    hashes: NDArray[np.uint32] = (sums[1:] - sums[:-1]) * powers[ends[1:]]
    if start:
        hashes += powers[np.diff(ends)] * np.uint32(start)
    return hashes.view(np.int32)


def _powers(base: int, count: int) -> NDArray[np.uint32]:
    """Return the first powers of ``base`` modulo 2^32, beginning with ``base ** 0``."""
    powers = np.ones(count, dtype=np.uint32)
    filled = 1
    while filled < count:
        more = min(filled, count - filled)  # multiplying the known ones by a power doubles their number
        np.multiply(powers[:more], np.uint32(pow(base, filled, 1 << 32)), out=powers[filled : filled + more])
        filled += more
    return powers
