"""Key groups: which subtask of a consumer receives the records of a key.

A record's key becomes an operator index in three steps, each here as a scalar rule or over numpy arrays::

    hash code (int32)  --murmur-->  mixed (0 .. 2^31-1)  --mod max-->  key group  --* p div max-->  operator

The mixing is Flink's ``MathUtils.murmurHash``, the rest its ``KeyGroupRangeAssignment``.
"""

import numpy as np
from numpy.typing import NDArray

from ..scenarios.scenario import MAX_PARALLELISM

__all__ = ["assign_to_operators", "default_max_parallelism"]

DEFAULT_LOWER_BOUND = 1 << 7
"""Smallest maximum parallelism that Flink derives by itself."""

_SIZE_OF_INT = np.uint32(4)
_LARGEST_INT = np.uint32(0x7FFFFFFF)
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_MULTIPLIER, _ADDEND = np.uint32(5), np.uint32(0xE6546B64)
_FINAL1, _FINAL2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)

_FEW = 8
"""Maximum number of hash codes for which mixing one by one is faster than with arrays."""


def murmur(hash_codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Mix Java hash codes so that neighbouring ones land in unrelated key groups.

    Args:
        hash_codes: Java ``hashCode`` values, int32, any shape.

    Returns:
        Non-negative int32 values of the same shape; the smallest int becomes 0.

    Flink: ``MathUtils.murmurHash``.
    """
    if np.size(hash_codes) <= _FEW:
        mixed_codes = [_mixed(code) for code in np.ravel(hash_codes).tolist()]
        return np.array(mixed_codes, dtype=np.int32).reshape(np.shape(hash_codes))
    code = np.array(hash_codes, dtype=np.int32, ndmin=1).view(np.uint32)
    shifted = np.empty_like(code)  # one array for all steps
    code *= _C1
    _rotate_left(code, 15, shifted)
    code *= _C2
    _rotate_left(code, 13, shifted)
    code *= _MULTIPLIER
    code += _ADDEND
    code ^= _SIZE_OF_INT
    _fold_right(code, 16, shifted)
    code *= _FINAL1
    _fold_right(code, 13, shifted)
    code *= _FINAL2
    _fold_right(code, 16, shifted)
    mixed = code.view(np.int32)
    np.abs(mixed, out=mixed)
    code &= _LARGEST_INT  # abs(-2^31) stays -2^31
    return mixed.reshape(np.shape(hash_codes))


def _mixed(code: int) -> int:
    """Mix one hash code."""
    code = (code & 0xFFFFFFFF) * 0xCC9E2D51 & 0xFFFFFFFF
    code = (code << 15 | code >> 17) & 0xFFFFFFFF
    code = code * 0x1B873593 & 0xFFFFFFFF
    code = (code << 13 | code >> 19) & 0xFFFFFFFF
    code = (code * 5 + 0xE6546B64 & 0xFFFFFFFF) ^ 4
    code = (code ^ code >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    code = (code ^ code >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    code ^= code >> 16
    return abs(code - (code >> 31 << 32)) & 0x7FFFFFFF  # of an int32; the smallest one becomes 0


def _rotate_left(code: NDArray[np.uint32], bits: int, shifted: NDArray[np.uint32]) -> None:
    np.right_shift(code, np.uint32(32 - bits), out=shifted)
    code <<= np.uint32(bits)
    code |= shifted


def _fold_right(code: NDArray[np.uint32], bits: int, shifted: NDArray[np.uint32]) -> None:
    code ^= np.right_shift(code, np.uint32(bits), out=shifted)


def key_groups(hash_codes: NDArray[np.int32], max_parallelism: int) -> NDArray[np.int32]:
    """Return the key group, 0 .. ``max_parallelism`` - 1, of each hash code.

    Raises:
        ValueError: ``max_parallelism`` is outside 1 .. 32768.
    """
    _check_max_parallelism(max_parallelism)
    groups = murmur(hash_codes)
    if max_parallelism & (max_parallelism - 1) == 0:
        groups &= np.int32(max_parallelism - 1)  # none is negative, and this is several times faster
    else:
        groups %= np.int32(max_parallelism)
    return groups


def assign_to_operators(
    hash_codes: NDArray[np.int32], max_parallelism: int, parallelism: int
) -> NDArray[np.int64]:
    """Return the operator index (subtask, or channel of a hash exchange) of each hash code.

    Args:
        hash_codes: Java ``hashCode`` values of the keys, int32.
        max_parallelism: Number of key groups.
        parallelism: Number of subtasks of the consumer.

    Raises:
        ValueError: The two numbers do not fit together (``1 <= parallelism <= max_parallelism <= 32768``).

    Flink: ``KeyGroupRangeAssignment.assignKeyToParallelOperator``.
    """
    _check_parallelism(max_parallelism, parallelism)
    groups = key_groups(hash_codes, max_parallelism)
    groups *= np.int32(parallelism)  # at most 2^30
    if max_parallelism & (max_parallelism - 1) == 0:
        groups >>= np.int32(log2_floor(max_parallelism))
    else:
        groups //= np.int32(max_parallelism)
    return groups.astype(np.int64)


def key_group_range(max_parallelism: int, parallelism: int, index: int) -> range:
    """Return the key groups of operator ``index``. Each key group is in the range of exactly one operator.

    Raises:
        ValueError: The numbers do not fit together, or ``index`` is outside 0 .. parallelism - 1.

    Flink: ``KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex``. There the end of a range is
    inclusive; here it is exclusive.
    """
    _check_parallelism(max_parallelism, parallelism)
    if not 0 <= index < parallelism:
        raise ValueError(f"the operator index {index} must be from 0 to {parallelism - 1}")
    start = (index * max_parallelism + parallelism - 1) // parallelism
    last = ((index + 1) * max_parallelism - 1) // parallelism
    return range(start, last + 1)


def default_max_parallelism(parallelism: int) -> int:
    """Return the maximum parallelism that Flink derives for an operator without an explicit one.

    It is 1.5 times the parallelism, rounded up to a power of two, between 128 and 32768.

    Raises:
        ValueError: ``parallelism`` is outside 1 .. 32768.
    """
    if not 1 <= parallelism <= MAX_PARALLELISM:
        raise ValueError(f"the parallelism {parallelism} must be from 1 to {MAX_PARALLELISM}")
    wanted = round_up_to_power_of_two(parallelism + parallelism // 2)
    return min(max(wanted, DEFAULT_LOWER_BOUND), MAX_PARALLELISM)


def log2_floor(value: int) -> int:
    """Return the floor of the binary logarithm of an int32, taken as unsigned (-1 gives 31).

    Raises:
        ArithmeticError: ``value`` is 0.

    Flink: ``MathUtils.log2floor``.
    """
    if value == 0:
        raise ArithmeticError("the logarithm of 0 is undefined")
    return (value & 0xFFFFFFFF).bit_length() - 1


def round_up_to_power_of_two(value: int) -> int:
    """Return the smallest power of two that is at least ``value``, which is 1 or more."""
    return 1 << (value - 1).bit_length()


def _check_parallelism(max_parallelism: int, parallelism: int) -> None:
    _check_max_parallelism(max_parallelism)
    if not 1 <= parallelism <= max_parallelism:
        raise ValueError(
            f"the parallelism {parallelism} must be from 1 to {max_parallelism}, the maximum parallelism"
        )


def _check_max_parallelism(max_parallelism: int) -> None:
    if not 1 <= max_parallelism <= MAX_PARALLELISM:
        raise ValueError(f"the maximum parallelism {max_parallelism} must be from 1 to {MAX_PARALLELISM}")
