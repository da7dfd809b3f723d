"""The hash code that Java would compute for a key that an operator reads from a record.

Text is hashed like a Java String, bytes like a byte array, a 64-bit integer like a Long. For all other keys,
the encoded bytes are hashed. So equal keys have equal hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buffers import RecordBlock

from ..exchange.java_hash import Hashes, hash_binary, hash_longs, hash_strings
from ..scenarios.user_code import KeyHash, KeyOf
from ..state.value_encoding import encode_value


def hash_by(key_of: KeyOf) -> KeyHash:
    """Return a function that hashes each record's key, as returned by `key_of`.

    Raises:
        StateError: when the function is called, if a value cannot be a key.
    """

    def key_hash(block: RecordBlock) -> NDArray[np.int32]:
        return hash_keys([key_of(bytes(payload)) for payload in block.payloads()])

    return key_hash


def hash_keys(keys: Sequence[object]) -> Hashes:
    """Return the hash code of each key."""
    hashes = np.empty(len(keys), dtype=np.int32)
    places: dict[Callable[[list[Any]], Hashes], list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(_hash_function(key), []).append(place)
    for function, alike in places.items():
        hashes[alike] = function([keys[place] for place in alike])
    return hashes


def _hash_function(key: object) -> Callable[[list[Any]], Hashes]:
    """Return the function that hashes a list of keys of this type."""
    if type(key) is str:
        return hash_strings
    if type(key) is bytes:
        return _hash_bytes
    if type(key) is int and -(1 << 63) <= key < 1 << 63:
        return _hash_numbers
    return _hash_stored


def _hash_bytes(keys: list[bytes]) -> Hashes:
    return hash_binary(b"".join(keys), np.cumsum([0, *map(len, keys)]))


def _hash_numbers(keys: list[int]) -> Hashes:
    return hash_longs(np.array(keys, dtype=np.int64))


def _hash_stored(keys: list[object]) -> Hashes:
    return _hash_bytes([encode_value(key) for key in keys])
