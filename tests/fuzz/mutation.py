"""What is done to right inputs: to bytes, and to trees of values such as JSON has.

All comes from the random numbers that are given, so that an input can be made again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

EDGES = [0, 1, 2, 8, 9, 43, 97, 1023, 1024, 1025, 4095, 4096, 4097, 2**31 - 1, 2**31, 2**32 - 1]
_EDGES_BYTES = [edge.to_bytes(4) for edge in EDGES]

# Bytes: each returns other ones than it got, or, rarely, the same.


def flip_a_bit(random: Random, data: bytes) -> bytes:
    if not data:
        return b"\0"
    changed = bytearray(data)
    changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def replace_a_byte(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice((b"\0", b"\xff", b"\x7f", b"\x80", random.randbytes(1))) + data[at + 1 :]


def replace_a_number(random: Random, data: bytes) -> bytes:
    at = random.randrange(max(1, len(data) - 3))
    return data[:at] + random.choice(_EDGES_BYTES) + data[at + 4 :]


def truncate(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def remove_some(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data) + 1)
    return data[:start] + data[start + random.choice((1, 1, 2, 4, 9, 30)) :]


def insert_some(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.randbytes(random.choice((1, 1, 2, 4, 9, 30))) + data[at:]


def repeat_some(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data) + 1)
    end = start + random.randrange(60)
    return data[:end] + data[start:end] + data[end:]


def grow(random: Random, data: bytes) -> bytes:
    return data + bytes(random.choice((1, 9, 1024, 1025, 4096)))


OF_BYTES = [
    flip_a_bit,
    flip_a_bit,
    flip_a_bit,
    replace_a_byte,
    replace_a_byte,
    replace_a_number,
    replace_a_number,
    truncate,
    truncate,
    remove_some,
    insert_some,
    repeat_some,
    grow,
]
"""Those that stand here more than once are used more often."""


def spoilt(random: Random, data: bytes) -> bytes:
    """Bytes with one to three things wrong."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data = random.choice(OF_BYTES)(random, data)
    return data


# Trees.

DEEP, DIGITS, HALF_PAIR = "\x01deep\x01", "\x01digits\x01", "\x01half\x01"
"""Stand in a tree for what `json` does not write: brackets in brackets, a long number, half a character."""

_SCALARS: list[Callable[[Random], Any]] = [
    lambda random: random.choice((0, 1, -1, 2, 3, 7, 100, 65536, 10**6, 10**9)),
    lambda random: random.choice((2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63))),
    lambda random: random.choice((2**64, -(2**64), 10**30, 10**400, DIGITS)),
    lambda random: random.choice((0.0, -0.0, 0.5, 1.5, -1.0, 1e-300, 5e-324, 1e308, -1e308, 1e18)),
    lambda random: random.choice((float("nan"), float("inf"), float("-inf"))),
    lambda random: random.choice((True, False, None)),
    lambda random: random.choice(("", " ", "a", "source", "\0", "\n", "\u20ac", "\U0001f600", "x" * 5000)),
    lambda random: random.choice((HALF_PAIR, "../../etc/passwd", "-1", "1e5", "NaN", "9" * 400, "true")),
    lambda random: random.choice(("0 s", "1 ns", "1e3 s", "-5 ms", "100000000 d", "9" * 4400 + " s", "5")),
    lambda random: random.choice(
        ("32 kb", "0 b", "1 tb", "99999999999 tb", "10 gbit/s", "1.5 B/s", "1 kB/s")
    ),
    lambda random: random.choice(([], {}, [[]], [None], {"": None}, [0] * 2000, {"a": {"a": {}}}, DEEP)),
]


def draw_value(random: Random) -> Any:
    """Some value that most places are not made for."""
    return random.choice(_SCALARS)(random)


def mutated(random: Random, tree: Any, words: list[str]) -> Any:
    """A tree with one thing changed at one place; what was given stays as it is. `words` may become names."""
    if isinstance(tree, Mapping) and tree and random.random() < 0.85:
        key = random.choice(list(tree))
        return {**tree, key: mutated(random, tree[key], words)}
    if isinstance(tree, list) and tree and random.random() < 0.85:
        place = random.randrange(len(tree))
        return [*tree[:place], mutated(random, tree[place], words), *tree[place + 1 :]]
    if isinstance(tree, Mapping):
        return _changed_table(random, dict(tree), words)
    if isinstance(tree, list):
        return _changed_list(random, list(tree))
    return _changed_scalar(random, tree, words)


def _changed_table(random: Random, table: dict[str, Any], words: list[str]) -> Any:
    kind = random.random()
    if kind < 0.15:
        return draw_value(random)
    if kind < 0.45 and table:
        del table[random.choice(list(table))]
    elif kind < 0.6 and table:
        key = random.choice(list(table))
        table[random.choice(words)] = table.pop(key)
    elif kind < 0.7 and table:
        table[random.choice(list(table))] = table[random.choice(list(table))]
    else:
        table[random.choice(words)] = draw_value(random)
    return table


def _changed_list(random: Random, values: list[Any]) -> Any:
    kind = random.random()
    if kind < 0.15:
        return draw_value(random)
    if kind < 0.4 and values:
        del values[random.randrange(len(values))]
    elif kind < 0.6 and values:
        values.insert(random.randrange(len(values) + 1), random.choice(values))
    elif kind < 0.7:
        random.shuffle(values)
    elif kind < 0.75 and values:
        values = [random.choice(values)] * random.choice((2, 50, 700))
    else:
        values.insert(random.randrange(len(values) + 1), draw_value(random))
    return values


def _changed_scalar(random: Random, value: Any, words: list[str]) -> Any:
    kind = random.random()
    if kind < 0.45:
        return draw_value(random)
    if kind < 0.6:
        return random.choice(words)
    if isinstance(value, str) and value:
        return _changed_text(random, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return random.choice(
            (
                -value,
                value + 1,
                value - 1,
                value * 1000,
                value * 2**40,
                value * 0.3 if abs(value) < 1e300 else 0,
                str(value),
            )
        )
    return [value] if kind < 0.8 else {"a": value}


def _changed_text(random: Random, text: str) -> str:
    at = random.randrange(len(text))
    piece = random.choice(("", "0", "-", ".", "e9", " ", "\n", "\0", "\u0661", "%", ":", text))
    return text[:at] + piece + text[at + random.choice((0, 1, 1)) :]


def as_json(random: Random, tree: Any, share: float = 0.25) -> bytes:
    """A tree as JSON, of which a share is not quite JSON, or not in UTF-8."""
    text = json.dumps(tree, ensure_ascii=random.random() < 0.5)
    return encoded(random, filled(random, text), share)


def filled(random: Random, text: str) -> str:
    """A text with what its places stand for."""
    if "\\u0001" in text:
        depth = random.choice((30, 200, 5000, 100_000))
        nested = random.choice(("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth))
        text = text.replace('"\\u0001deep\\u0001"', nested)
        text = text.replace('"\\u0001digits\\u0001"', "9" * random.choice((20, 400, 5000)))
        text = text.replace("\\u0001half\\u0001", "\\ud800")
    return text


def encoded(random: Random, text: str, share: float) -> bytes:
    """A text in UTF-8, of which a share is spoilt or in another encoding."""
    if random.random() >= share:
        return text.encode("utf-8", "replace")
    if random.random() < 0.2:
        return text.encode(random.choice(("utf-8-sig", "utf-16", "latin-1", "utf-32")), "replace")
    return spoilt(random, text.encode("utf-8", "replace"))


def words_in(*trees: Any) -> list[str]:
    """All names, and short texts, of some trees, in the order of the alphabet."""
    found: set[str] = set()
    level = list(trees)
    while level:
        value = level.pop()
        if isinstance(value, Mapping):
            found.update(value)
            level += value.values()
        elif isinstance(value, list):
            level += value
        elif isinstance(value, str) and len(value) < 60:
            found.add(value)
    return sorted(found)
