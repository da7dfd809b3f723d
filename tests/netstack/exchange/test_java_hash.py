import struct
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netstack import java_hash


def to_int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def reference_polynomial(units: list[int], start: int) -> int:
    hashed = start
    for unit in units:
        hashed = to_int32(31 * hashed + unit)
    return hashed


def reference_string(value: str) -> int:
    encoded = value.encode("utf-16-be")
    return reference_polynomial([unit for (unit,) in struct.iter_unpack(">H", encoded)], 0)


def reference_decimal(unscaled: int, scale: int) -> int:
    """BigInteger hashes its magnitude word by word from the highest, times the sign."""
    magnitude = abs(unscaled)
    words = [magnitude >> shift & 0xFFFFFFFF for shift in (96, 64, 32, 0)]
    hashed = reference_polynomial(words, 0) * (-1 if unscaled < 0 else 1)
    return to_int32(31 * hashed + scale)


def back_to_back(values: list[bytes]) -> tuple[bytes, NDArray[np.int64]]:
    lengths = [0, *(len(value) for value in values)]
    return b"".join(values), np.cumsum(lengths, dtype=np.int64)


def unscaled_rows(values: list[int]) -> NDArray[np.uint8]:
    raw = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, 16)


def test_integers_hash_to_themselves() -> None:
    assert java_hash.hash_ints(np.array([0, 7, -1, -128], dtype=np.int8)).tolist() == [0, 7, -1, -128]
    assert java_hash.hash_ints(np.array([-(2**31)], dtype=np.int32)).dtype == np.int32


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (1, 1), (-1, 0), (2**31, -(2**31)), (2**32, 1), (-(2**63), -(2**31)), (2**63 - 1, -(2**31))],
)
def test_longs(value: int, expected: int) -> None:
    assert java_hash.hash_longs(np.array([value], dtype=np.int64)).tolist() == [expected]


def test_doubles() -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf])
    expected = [0, -(2**31), 1072693248, -1074790400, 2146959360, 2146435072]
    assert java_hash.hash_doubles(values).tolist() == expected
    odd_nan = np.array([0xFFF8000000000001], dtype=np.uint64).view(np.float64)
    assert java_hash.hash_doubles(odd_nan).tolist() == [2146959360]


def test_floats() -> None:
    values = np.array([0.0, -0.0, 1.0, np.nan], dtype=np.float32)
    assert java_hash.hash_floats(values).tolist() == [0, -(2**31), 1065353216, 2143289344]


def test_booleans() -> None:
    assert java_hash.hash_booleans(np.array([True, False])).tolist() == [1231, 1237]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", 0),
        ("A", 65),
        ("hello", 99162322),
        ("é", 233),
        ("€", 8364),
        ("😀", 1772899),
        ("Aa", 2112),
        ("BB", 2112),
    ],
)
def test_strings(value: str, expected: int) -> None:
    assert java_hash.hash_strings([value])[0] == expected


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_are_hashed_over_their_utf16_units(values: list[str]) -> None:
    assert java_hash.hash_strings(values).tolist() == [reference_string(value) for value in values]


def test_strings_in_the_middle_of_a_buffer() -> None:
    data = "éabc😀d".encode()
    offsets = np.array([2, 2, 4, 5, 9, 9], dtype=np.int32)
    expected = [reference_string(value) for value in ("", "ab", "c", "😀", "")]
    assert java_hash.hash_utf8(data, offsets).tolist() == expected
    assert java_hash.hash_utf8(b"", np.array([0], dtype=np.int32)).tolist() == []


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"\xc3", "\ufffd"),
        (b"\xc3(", "\ufffd("),
        (b"\xa0\xa1", "\ufffd\ufffd"),
        (b"\xc0\x80", "\ufffd\ufffd"),  # overlong
        (b"\xe0\x9fA", "\ufffd\ufffdA"),
        (b"\xe2\x82", "\ufffd"),  # cut
        (b"\xe2\x82(", "\ufffd("),
        (b"\xf0\x90\x8d(", "\ufffd("),
        (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"),  # above the last character
        (b"\xed\xa0\x80", "\ufffd"),  # a surrogate
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xa0A", "\ufffdA"),
        (b"\xed\xa0\xed\xb0\x80", "\ufffd\ufffd"),
        (b"\xed\x41", "\ufffdA"),
    ],
)
def test_bytes_that_are_not_utf8_are_hashed_as_java_reads_them(data: bytes, read: str) -> None:
    assert java_hash.hash_utf8(*back_to_back([data])).tolist() == [reference_string(read)]


PARTS = st.sampled_from([b"a", "é".encode(), "€".encode(), "😀".encode(), b"\xed\xa0\x80", b"\xff"])
KEYS = st.one_of(
    st.lists(PARTS, max_size=4).map(b"".join),
    st.builds(lambda text, end: text.encode()[:end], st.text("aé€😀", max_size=3), st.integers(0, 6)),
    st.builds(lambda text, start: text.encode()[start:], st.text("aé€😀", max_size=3), st.integers(0, 6)),
)
"""Strings of Spark's, also such as are UTF-8 only behind or before another."""


@given(st.lists(KEYS))
def test_the_hash_of_a_string_does_not_depend_on_its_neighbours(keys: list[bytes]) -> None:
    alone = [java_hash.hash_utf8(*back_to_back([key])).item() for key in keys]
    assert java_hash.hash_utf8(*back_to_back(keys)).tolist() == alone


@given(st.lists(st.binary()))
def test_binaries_are_hashed_over_signed_bytes(values: list[bytes]) -> None:
    expected = [reference_polynomial(np.frombuffer(value, np.int8).tolist(), 1) for value in values]
    assert java_hash.hash_binary(*back_to_back(values)).tolist() == expected


def test_known_binaries() -> None:
    assert java_hash.hash_binary(*back_to_back([b"", b"\x01\x02", b"\xff"])).tolist() == [1, 994, 30]


@pytest.mark.parametrize(
    ("text", "expected"), [("123.45", 382697), ("1.0", 311), ("0.00", 2), ("-1.5", -464), ("1.50", 4652)]
)
def test_decimals(text: str, expected: int) -> None:
    value = Decimal(text)
    scale = -int(value.as_tuple().exponent)
    unscaled = int(value.scaleb(scale))
    assert java_hash.hash_decimals(unscaled_rows([unscaled]), scale).tolist() == [expected]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1)), st.integers(0, 38))
def test_decimals_are_hashed_by_magnitude_and_sign(values: list[int], scale: int) -> None:
    expected = [reference_decimal(value, scale) for value in values]
    assert java_hash.hash_decimals(unscaled_rows(values), scale).tolist() == expected


def test_nulls_hash_to_zero() -> None:
    hashes = java_hash.hash_booleans(np.array([True, False]))
    assert java_hash.with_nulls(hashes, np.array([True, False])).tolist() == [1231, 0]


def test_several_keys_combine() -> None:
    first, second = np.array([1, -5], dtype=np.int32), np.array([2, 2**31 - 1], dtype=np.int32)
    expected = [reference_polynomial([1, 2], 1), reference_polynomial([-5, 2**31 - 1], 1)]
    assert java_hash.combine([first, second]).tolist() == expected
    with pytest.raises(ValueError, match="at least one column"):
        java_hash.combine([])
