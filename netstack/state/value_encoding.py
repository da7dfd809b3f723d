"""Keys and values of state as bytes and back, and copies of them.

They may be made of None, bool, int (64 bits), float, str, bytes, list, tuple and dict, of exactly these
types; anything else is refused, so that what is restored equals what was stored. They nest 100 deep at most.
The bytes are msgpack. A tuple, and a dict with keys that msgpack knows no scalar for, stand in extensions of
their own. A dict keeps its order.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext

from ..errors import StateError

SCALARS = frozenset({type(None), bool, int, float, str, bytes})
"""Types of values that cannot be changed."""

CONTAINERS = (list, tuple, dict)
"""Types of values that hold others, and so may change in place."""

DEEPEST_VALUE = 100
"""Limit of the nesting of values: a value without others in it is 0 deep, a list of such values 1."""

_TOO_DEEP = f"it is nested too deep; lists, tuples and dicts go {DEEPEST_VALUE} deep at most"

_TUPLE, _DICT = 1, 2

_BEGINS_OF_CONTAINERS = bytes(
    [*range(0x80, 0xA0), *range(0xC7, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0)]
)
"""First bytes of an array, a map or an extension in msgpack; they also occur elsewhere."""

_TIMESTAMPS = (b"\xd6\xff", b"\xd7\xff", b"\x04\xff", b"\x08\xff", b"\x0c\xff")
"""Bytes before msgpack's only predefined extension: its length, and -1."""

_LAST_OF_MARKS = b"\xff"
"""Most values have no such byte, and so none of the marks."""


def encode_value(value: Any) -> bytes:
    """Return the bytes of a value; equal values of equal types, in the same order, have the same bytes.

    Raises:
        StateError: Something in it is of another type than those above, or an int of more than 64 bits; or it
            is nested too deep.
    """
    try:
        data = _ENCODER.encode(value if type(value) in SCALARS else _plain(value))
    except (OverflowError, UnicodeEncodeError) as error:
        raise StateError(f"a value cannot be stored: {error}") from error
    except RecursionError:
        raise StateError(f"a value cannot be stored: {_TOO_DEEP}") from None
    if len(data) > DEEPEST_VALUE and _is_too_deep(value, data):
        raise StateError(f"a value cannot be stored: {_TOO_DEEP}")
    return data


def decode_value(data: bytes) -> Any:
    """Return the value with these bytes.

    Raises:
        StateError: They are not those of a value, or of one that is nested too deep.
    """
    try:
        value = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateError(f"a stored value cannot be read: {error}") from error
    except RecursionError:
        raise StateError(f"a stored value cannot be read: {_TOO_DEEP}") from None
    if len(data) > DEEPEST_VALUE and _is_too_deep(value, data):
        raise StateError(f"a stored value cannot be read: {_TOO_DEEP}")
    if _LAST_OF_MARKS in data and any(mark in data for mark in _TIMESTAMPS) and not _is_value(value):
        raise StateError("a stored value cannot be read: it holds a timestamp, which no value is")
    return value


def copy_value(value: Any) -> Any:
    """Return a value that shares nothing that could be changed with this one."""
    kind = type(value)
    if kind is list:
        return [copy_value(each) if type(each) in CONTAINERS else each for each in value]
    if kind is tuple:
        return tuple(copy_value(each) if type(each) in CONTAINERS else each for each in value)
    if kind is dict:
        return {key: copy_value(each) for key, each in value.items()}
    return value


def _plain(value: Any) -> Any:
    """Return the value with what msgpack does not have as extensions."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is list:
        return [_plain(each) for each in value]
    if kind is tuple:
        return Ext(_TUPLE, _ENCODER.encode([_plain(each) for each in value]))
    if kind is not dict:
        raise StateError(f"a value of type {kind.__qualname__} cannot be kept in state")
    if all(type(key) in SCALARS for key in value):
        return {key: _plain(each) for key, each in value.items()}
    return Ext(_DICT, _ENCODER.encode([_plain(each) for pair in value.items() for each in pair]))


def _is_too_deep(value: Any, data: bytes) -> bool:
    """Whether the value with these bytes is nested deeper than values go.

    Most long values have fewer containers than that, which their bytes tell faster than a walk through them.
    """
    if type(value) in SCALARS:
        return False
    if len(data) - len(data.translate(None, _BEGINS_OF_CONTAINERS)) <= DEEPEST_VALUE:
        return False
    level = [value]
    for _ in range(DEEPEST_VALUE):
        level = [
            inner
            for outer in level
            for inner in (chain(outer, outer.values()) if type(outer) is dict else outer)
            if type(inner) in CONTAINERS
        ]
        if not level:
            return False
    return any(level)


def _is_value(value: Any) -> bool:
    """Whether a value that has been read could be stored again."""
    kind = type(value)
    if kind is dict:
        return all(_is_value(each) for pair in value.items() for each in pair)
    return all(map(_is_value, value)) if kind in (list, tuple) else kind in SCALARS


def _from_extension(code: int, data: memoryview) -> Any:
    if code not in (_TUPLE, _DICT):
        raise msgspec.DecodeError(f"extension {code} is not known")
    values = _DECODER.decode(data)
    if type(values) is not list:
        raise msgspec.DecodeError(f"extension {code} holds no array")
    if code == _TUPLE:
        return tuple(values)
    if len(values) % 2:
        raise msgspec.DecodeError("a key of a dict has no value")
    try:
        return dict(zip(values[::2], values[1::2], strict=True))
    except TypeError as error:  # a list as a key
        raise msgspec.DecodeError(str(error)) from None


_ENCODER = Encoder()
_DECODER = Decoder(ext_hook=_from_extension)
