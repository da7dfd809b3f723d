"""Encoding, decoding and copying of keys and values of state.

Keys and values may consist of None, bool, int (64 bits), float, str, bytes, list, tuple and dict, of exactly
these types. Other types are rejected, so that a restored value equals the stored one. The maximum nesting
depth is 100. The encoding is msgpack. Tuples, and dicts whose keys are not msgpack scalars, are encoded as
extensions. A dict keeps its order.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext

from ..errors import StateError

__all__ = ["decode_value", "encode_value"]

SCALARS = frozenset({type(None), bool, int, float, str, bytes})
"""Types of immutable values without elements."""

CONTAINERS = (list, tuple, dict)
"""Types of values that contain other values and may be modified in place."""

DEEPEST_VALUE = 100
"""Maximum nesting depth: a scalar has depth 0, a list of scalars depth 1."""

_TOO_DEEP = f"it is nested too deeply; lists, tuples and dicts may be nested {DEEPEST_VALUE} levels deep"

_TUPLE, _DICT = 1, 2

_BEGINS_OF_CONTAINERS = bytes(
    [*range(0x80, 0xA0), *range(0xC7, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0)]
)
"""First bytes of an array, a map or an extension in msgpack. These bytes may also occur in other values."""

_TIMESTAMPS = (b"\xd6\xff", b"\xd7\xff", b"\x04\xff", b"\x08\xff", b"\x0c\xff")
"""Byte sequences that begin msgpack's predefined timestamp extension: its length, and -1."""

_LAST_OF_MARKS = b"\xff"
"""Last byte of all `_TIMESTAMPS`; most values do not contain it."""


def encode_value(value: Any) -> bytes:
    """Encode a value; equal values of equal types, in the same order, have the same bytes.

    Raises:
        StateError: if the value contains a type that is not supported or an int of more than 64 bits, or is
            nested too deep.
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
    """Decode a value.

    Raises:
        StateError: if the bytes are not a value, or it is nested too deep.
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
        raise StateError(
            "a stored value cannot be read: it contains a timestamp, which is not a type of state values"
        )
    return value


def copy_value(value: Any) -> Any:
    """Return a deep copy of a value; immutable parts are shared."""
    kind = type(value)
    if kind is list:
        return [copy_value(each) if type(each) in CONTAINERS else each for each in value]
    if kind is tuple:
        return tuple(copy_value(each) if type(each) in CONTAINERS else each for each in value)
    if kind is dict:
        return {key: copy_value(each) for key, each in value.items()}
    return value


def _plain(value: Any) -> Any:
    """Return the value with extensions for the types that msgpack does not have."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is list:
        return [_plain(each) for each in value]
    if kind is tuple:
        return Ext(_TUPLE, _ENCODER.encode([_plain(each) for each in value]))
    if kind is not dict:
        raise StateError(f"a value of type {kind.__qualname__} cannot be stored as state")
    if all(type(key) in SCALARS for key in value):
        return {key: _plain(each) for key, each in value.items()}
    return Ext(_DICT, _ENCODER.encode([_plain(each) for pair in value.items() for each in pair]))


def _is_too_deep(value: Any, data: bytes) -> bool:
    """Whether the value with these bytes exceeds the maximum nesting depth.

    Most long values have fewer containers than the maximum depth. Counting bytes shows this faster than a
    traversal.
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
    """Whether a decoded value could be encoded again."""
    kind = type(value)
    if kind is dict:
        return all(_is_value(each) for pair in value.items() for each in pair)
    return all(map(_is_value, value)) if kind in (list, tuple) else kind in SCALARS


def _from_extension(code: int, data: memoryview) -> Any:
    if code not in (_TUPLE, _DICT):
        raise msgspec.DecodeError(f"the extension type {code} of a stored value is unknown")
    values = _DECODER.decode(data)
    if type(values) is not list:
        raise msgspec.DecodeError(f"the extension type {code} of a stored value does not hold an array")
    if code == _TUPLE:
        return tuple(values)
    if len(values) % 2:
        raise msgspec.DecodeError("a stored dict has a key without a value")
    try:
        return dict(zip(values[::2], values[1::2], strict=True))
    except TypeError as error:  # a list as a key
        raise msgspec.DecodeError(str(error)) from None


_ENCODER = Encoder()
_DECODER = Decoder(ext_hook=_from_extension)
