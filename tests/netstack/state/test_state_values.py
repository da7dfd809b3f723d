import math
from collections import OrderedDict
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netstack import StateError
from netstack.state.value_encoding import copy_value, decode_value, encode_value

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5)
)
KEYS = SCALARS | st.tuples(SCALARS, SCALARS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=10,
)


def typed(value: Any) -> Any:
    """The value with the types of all its parts, since 1 == True == 1.0."""
    if isinstance(value, dict):
        return dict, [(typed(key), typed(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [typed(each) for each in value]
    return type(value), value


@given(VALUES)
def test_values_come_back_as_they_were(value: Any) -> None:
    data = encode_value(value)
    assert typed(decode_value(data)) == typed(value)
    assert encode_value(decode_value(data)) == data


@given(VALUES)
def test_copies_are_equal(value: Any) -> None:
    assert typed(copy_value(value)) == typed(value)


def test_copies_share_nothing_that_can_change() -> None:
    value = {"a": ([1, {"b": [2]}], 3)}
    copied = copy_value(value)
    value["a"][0][1]["b"].append(9)  # type: ignore[index]
    assert copied == {"a": ([1, {"b": [2]}], 3)}


def test_bytes_are_pinned() -> None:
    assert encode_value([1, "a", b"b", None, True, 0.5]).hex() == "9601a161c40162c0c3cb3fe0000000000000"
    assert encode_value((1, 2)).hex() == "c70301" + "920102"
    assert encode_value({(1,): 2}).hex() == "c70602" + "92" + "d50191" + "01" + "02"


def test_keys_of_different_types_differ() -> None:
    values: list[Any] = [1, 1.0, True, "1", b"1", (1,), [1]]
    assert len({encode_value(value) for value in values}) == len(values)


def test_not_a_number_and_minus_zero() -> None:
    assert math.isnan(decode_value(encode_value(math.nan)))
    assert math.copysign(1, decode_value(encode_value(-0.0))) == -1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1, 2}, "a value of type set cannot be stored as state"),
        ([np.int64(1)], "a value of type int64 cannot be stored as state"),
        ({"a": bytearray(b"x")}, "a value of type bytearray cannot be stored as state"),
        (OrderedDict(a=1), "a value of type OrderedDict cannot be stored as state"),
        (2**64, "a value cannot be stored: "),
        ("\ud800", "a value cannot be stored: "),
    ],
)
def test_what_cannot_be_stored_is_refused(value: Any, message: str) -> None:
    with pytest.raises(StateError, match=message):
        encode_value(value)


def nested(how: str, levels: int) -> Any:
    value: Any = 7
    for _ in range(levels):
        value = {"list": [value], "tuple": (value,), "dict": {"k": value}}[how]
    return value


@pytest.mark.parametrize("how", ["list", "tuple", "dict"])
@pytest.mark.parametrize("frames", [0, 400])
def test_values_nest_a_hundred_deep_whatever_calls(how: str, frames: int) -> None:
    if frames:
        test_values_nest_a_hundred_deep_whatever_calls(how, frames - 1)
        return
    deepest = nested(how, 100)
    assert decode_value(encode_value(deepest)) == deepest
    with pytest.raises(
        StateError, match="it is nested too deeply; lists, tuples and dicts may be nested 100 levels deep"
    ):
        encode_value(nested(how, 101))


@pytest.mark.parametrize("levels", [101, 480, 100_000])
def test_what_is_stored_deeper_is_refused(levels: int) -> None:
    with pytest.raises(StateError, match="cannot be read: it is nested too deep"):
        decode_value(b"\x91" * levels + b"\x07")


def test_long_values_with_many_containers_are_not_deep() -> None:
    value = [[(index, {"k": [index]})] for index in range(200)]
    assert decode_value(encode_value(value)) == value


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(StateError, match="a value cannot be stored: "):
        encode_value(endless)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x92\x01", b"\xd4\x07\x00", b"\x01\x01"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(StateError, match="a stored value cannot be read"):
        decode_value(data)


def extension(code: int, value: Any) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value)))


@pytest.mark.parametrize(
    "data",
    [
        extension(1, 5),
        extension(2, [1, 2, 3]),
        extension(2, {1: 2}),
        extension(2, [[1], 2]),
        b"\x91" * 5000 + b"\xc0",
        b"\xc7\x02\x01\x91" * 400,
        bytes.fromhex("d6ff00000000"),
        bytes.fromhex("91d7ff0000000000000000"),
        bytes.fromhex("c704ff00000000"),
        bytes.fromhex("c80008ff0000000000000000"),
    ],
    ids=[
        "tuple of a number",
        "odd",
        "dict of a dict",
        "list as key",
        "deep",
        "tuples",
        "timestamp",
        "within",
        "timestamp of a length",
        "timestamp of a long length",
    ],
)
def test_extensions_that_are_no_values_are_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(StateError, match=r"a stored value cannot be read: .+") as caught:
        decode_value(data)
    assert "\n" not in str(caught.value)


def test_bytes_that_look_like_a_timestamp_are_a_value() -> None:
    value = {"a": [b"\xd6\xff\0\0\0\0", (1, {(2,): None})]}
    assert decode_value(encode_value(value)) == value
