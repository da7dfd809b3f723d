import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack.exchange.java_hash import hash_strings
from netstack.exchange.key_groups import (
    assign_to_operators,
    default_max_parallelism,
    key_group_range,
    key_groups,
    log2_floor,
    murmur,
    round_up_to_power_of_two,
)
from tests.vectors import flink_vectors

SCENARIOS = flink_vectors("math_key_groups")
INT32 = st.integers(-(2**31), 2**31 - 1)
PARALLELISMS = st.integers(1, 2**15).flatmap(lambda top: st.tuples(st.just(top), st.integers(1, top)))


def reference_murmur(code: int) -> int:
    """The formula as it is written, one value at a time."""

    def wrap(value: int) -> int:
        return value & 0xFFFFFFFF

    def rotate(value: int, bits: int) -> int:
        return wrap(value << bits) | value >> (32 - bits)

    code = rotate(wrap(wrap(code) * 0xCC9E2D51), 15)
    code = rotate(wrap(code * 0x1B873593), 13)
    code = wrap(code * 5 + 0xE6546B64) ^ 4
    code ^= code >> 16
    code = wrap(code * 0x85EBCA6B)
    code ^= code >> 13
    code = wrap(code * 0xC2B2AE35)
    code ^= code >> 16
    return code if code < 2**31 else (0 if code == 2**31 else 2**32 - code)


def test_all_vectors_are_used() -> None:
    assert set(SCENARIOS) == {"log2floor", "round-down-pow2"}


@pytest.mark.parametrize(("value", "expected"), SCENARIOS["log2floor"]["cases"])
def test_vector_log2_floor(value: int, expected: int) -> None:
    assert log2_floor(value) == expected


@pytest.mark.parametrize(("value", "expected"), SCENARIOS["round-down-pow2"]["cases"])
def test_vector_powers_of_two(value: int, expected: int) -> None:
    """The next power above a number is twice the one at or below it, which is what the vectors have."""
    assert round_up_to_power_of_two(value + 1) == 2 * expected or value == 0


def test_vector_log2_floor_of_zero() -> None:
    assert SCENARIOS["log2floor"]["expect"]["zero"] == "arithmetic_error"
    with pytest.raises(ArithmeticError, match="logarithm of 0"):
        log2_floor(0)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, 593689054),
        (1, 68075478),
        (2, 1085422463),
        (42, 1134849565),
        (-1, 1982413648),
        (2**31 - 1, 1653689534),
        (-(2**31), 1718298732),
    ],
)
def test_murmur_of_known_codes(code: int, expected: int) -> None:
    assert murmur(np.array([code], dtype=np.int32)).tolist() == [expected]


@given(st.lists(INT32) | st.lists(INT32, min_size=9))
def test_murmur_is_the_formula(codes: list[int]) -> None:
    given_codes = np.array(codes, dtype=np.int32)
    before = given_codes.copy()
    assert murmur(given_codes).tolist() == [reference_murmur(code) for code in codes]
    assert (given_codes == before).all()


def test_murmur_of_the_code_that_mixes_to_the_smallest_int() -> None:
    # Undo the last steps for 0x80000000: every step of the mixing is a bijection of 32 bits.
    code = 0x80000000
    code ^= code >> 16
    code = code * pow(0xC2B2AE35, -1, 2**32) & 0xFFFFFFFF
    code ^= code >> 13 ^ code >> 26
    code = code * pow(0x85EBCA6B, -1, 2**32) & 0xFFFFFFFF
    code ^= code >> 16
    code = (code ^ 4) - 0xE6546B64 & 0xFFFFFFFF
    code = code * pow(5, -1, 2**32) & 0xFFFFFFFF
    code = (code >> 13 | code << 19) & 0xFFFFFFFF
    code = code * pow(0x1B873593, -1, 2**32) & 0xFFFFFFFF
    code = (code >> 15 | code << 17) & 0xFFFFFFFF
    code = code * pow(0xCC9E2D51, -1, 2**32) & 0xFFFFFFFF
    for number in (1, 20):  # one by one, and as an array
        assert murmur(np.array([code] * number, dtype=np.uint32).view(np.int32)).tolist() == [0] * number


def test_murmur_keeps_the_shape() -> None:
    assert murmur(np.zeros((2, 3), dtype=np.int32)).shape == (2, 3)
    assert murmur(np.zeros(0, dtype=np.int32)).shape == (0,)


def test_key_groups_of_known_strings() -> None:
    assert key_groups(hash_strings(["A", "B", "hello", "flink"]), 128).tolist() == [104, 17, 35, 98]


@pytest.mark.parametrize(
    ("maximum", "parallelism", "expected"),
    [(128, 3, [(0, 42), (43, 85), (86, 127)]), (10, 3, [(0, 3), (4, 6), (7, 9)])],
)
def test_known_ranges(maximum: int, parallelism: int, expected: list[tuple[int, int]]) -> None:
    ranges = [key_group_range(maximum, parallelism, index) for index in range(parallelism)]
    assert [(groups[0], groups[-1]) for groups in ranges] == expected


@given(PARALLELISMS, st.data())
def test_ranges_partition_the_groups_and_agree_with_the_index(
    sizes: tuple[int, int], data: st.DataObject
) -> None:
    maximum, parallelism = sizes
    index = data.draw(st.integers(0, parallelism - 1))
    groups = key_group_range(maximum, parallelism, index)
    assert [group * parallelism // maximum for group in (groups[0], groups[-1])] == [index, index]
    following = maximum if index == parallelism - 1 else key_group_range(maximum, parallelism, index + 1)[0]
    assert groups.stop == following
    assert index > 0 or groups.start == 0


@given(st.lists(INT32), PARALLELISMS)
def test_arrays_agree_with_scalars(codes: list[int], sizes: tuple[int, int]) -> None:
    maximum, parallelism = sizes
    operators = assign_to_operators(np.array(codes, dtype=np.int32), maximum, parallelism)
    assert operators.dtype == np.int64
    assert operators.tolist() == [reference_murmur(code) % maximum * parallelism // maximum for code in codes]


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (171, 256), (172, 512), (20000, 32768), (32768, 32768)],
)
def test_default_max_parallelism(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


@pytest.mark.parametrize(("value", "expected"), [(1, 1), (2, 2), (3, 4), (127, 128), (128, 128), (129, 256)])
def test_round_up_to_power_of_two(value: int, expected: int) -> None:
    assert round_up_to_power_of_two(value) == expected


@pytest.mark.parametrize(("maximum", "parallelism"), [(0, 1), (32769, 1), (4, 5), (4, 0), (-1, -1)])
def test_impossible_parallelism(maximum: int, parallelism: int) -> None:
    with pytest.raises(ValueError, match="must be from 1 to "):
        assign_to_operators(np.zeros(1, dtype=np.int32), maximum, parallelism)
    with pytest.raises(ValueError, match="must be from 1 to "):
        key_group_range(maximum, parallelism, 0)


def test_indices_outside_their_range() -> None:
    with pytest.raises(ValueError, match="the operator index 2 must be from 0 to "):
        key_group_range(128, 2, 2)
    with pytest.raises(ValueError, match="parallelism 0 must be from 1 to "):
        default_max_parallelism(0)
