"""Strategies for damaged bytes and documents, and the decorator `door`.

A door is a place where foreign bytes enter. Its test gives it valid data with up to three mistakes, since
random bytes fail the first check.
"""

from __future__ import annotations

import json
import os
import resource
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]

MOST_MORE_BYTES = 2 << 30
"""Address space that a door may take for an input."""

LONGEST_LINE = 4096
"""Characters of a refusal; file names, and lists of what exists, stand in some."""


def door(inputs: st.SearchStrategy[Any], share: float = 1.0) -> Callable[[Callable[..., bool]], Any]:
    """Make a test of a function that checks the promises of a door and returns whether it accepts an input.

    `share`: share of the examples of the profile, for slow doors. The door has to accept an input at least
    once: the first input of hypothesis is the simplest one, which has no mistake.
    """

    def decorate(check: Callable[..., bool]) -> Callable[[], None]:
        accepted: list[bool] = []

        def run(arguments: Any) -> None:
            with memory_limited():
                accepted.append(check(*arguments) if isinstance(arguments, tuple) else check(arguments))

        run.__name__ = check.__name__  # by which hypothesis keeps failing inputs
        examples = settings(
            max_examples=max(5, round(share * settings().max_examples)),
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        fuzz = examples(given(inputs)(run))

        def test() -> None:
            fuzz()
            assert any(accepted)

        test.__doc__ = check.__doc__
        return test

    return decorate


@contextmanager
def memory_limited() -> Iterator[None]:
    """Let an allocation fail that a wrong length asks for."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + MOST_MORE_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def refused(error: Exception) -> bool:
    """Check that a refusal can be shown: one line for each mistake; returns False."""
    problems = getattr(error, "problems", None) or (str(error),)
    for problem in problems:
        assert problem.strip(), f"{type(error).__name__} says nothing"
        assert "\n" not in problem, f"{type(error).__name__} says more than a line: {problem!r}"
        assert len(problem) <= LONGEST_LINE, f"{type(error).__name__} says {len(problem)} letters"
    return False


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    in_memory = "/dev/shm"
    return tempfile.TemporaryDirectory("netstack-fuzz", dir=in_memory if os.path.isdir(in_memory) else None)


def scratch() -> Path:
    """Folder of this process; its files may be overwritten."""
    return Path(_folder().name)


def written(name: str, data: bytes) -> Path:
    """Write a file into that folder."""
    path = scratch() / name
    path.write_bytes(data)
    return path


# Bytes.

EDGES = (0, 1, 2, 8, 9, 43, 97, 1023, 1024, 1025, 4095, 4096, 4097, 2**31 - 1, 2**31, 2**32 - 1)

MISTAKES = st.sampled_from((0, 1, 1, 1, 2, 3))
SELDOM = st.sampled_from((0,) * 9 + (1,))

_LENGTHS = st.sampled_from((0, 1, 1, 4, 4, 30, 1 << 30))
_PIECES = (
    st.binary(max_size=4)
    | st.sampled_from((b"\0", b"\xff", b"\x7f", b"\x80"))
    | st.sampled_from(EDGES).map(lambda edge: edge.to_bytes(4))
    | st.sampled_from((9, 1024, 4096)).map(bytes)
)


@st.composite
def damaged(
    draw: st.DrawFn, valid: st.SearchStrategy[bytes], mistakes: st.SearchStrategy[int] = MISTAKES
) -> bytes:
    """Valid bytes, of which pieces are overwritten, removed, replaced, repeated or preceded by others."""
    data = draw(valid)
    for _ in range(draw(mistakes)):
        start = draw(st.integers(0, len(data)))
        length = draw(_LENGTHS)
        piece = draw(_PIECES | st.just(2 * data[start : start + length]))
        end = start + (len(piece) if draw(st.booleans()) else length)
        data = data[:start] + piece + data[end:]
    return data


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[int]:
    """Places at which a stream is cut: none, a few, or between all bytes."""
    some = st.lists(st.integers(0, len(data)), max_size=4).map(sorted)
    return draw(some | st.just(list(range(1, len(data)))) if len(data) < 120 else some)


def pieces(data: bytes, at: Sequence[int]) -> list[bytes]:
    """Cut `data` at these places, which are in order."""
    return [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


# Documents.

_DEPTH = 50_000
_NO_JSON = {
    "\x01list": "[" * _DEPTH + "]" * _DEPTH,
    "\x01table": '{"a":' * 200 + "1" + "}" * 200,
    "\x01open": "[" * 200,
    "\x01digits": "9" * 5000,
    "\x01half": '"\\ud800"',
}
"""JSON text that `json` does not write, by the text that stands for it in a document."""

ODD_VALUES = st.sampled_from(
    (
        *(0, 1, -1, 2, 3, 7, 100, 65536, 10**6, 10**9, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1),
        *(2**63 - 1, 2**63, -(2**63), 2**64, -(2**64), 10**30, 10**400),
        *(0.0, -0.0, 0.5, 1.5, -1.0, 1e-300, 5e-324, 1e308, -1e308, 1e18),
        *(float("nan"), float("inf"), float("-inf"), True, False, None),
        *("", " ", "a", "source", "\0", "\n", "\u20ac", "\U0001f600", "x" * 5000, "../../etc/passwd"),
        *("-1", "1e5", "NaN", "9" * 400, "true", "0 s", "1 ns", "1e3 s", "-5 ms", "100000000 d"),
        *("9" * 4400 + " s", "5", "32 kb", "0 b", "1 tb", "99999999999 tb", "10 gbit/s", "1.5 B/s"),
        *([], {}, [[]], [None], {"": None}, [0] * 2000, {"a": {"a": {}}}, *_NO_JSON),
    )
)
"""Values that most places of a document are not made for."""


@st.composite
def changed(draw: st.DrawFn, tree: Any, words: Sequence[str]) -> Any:
    """A copy of a document that differs at one place. `words` may become names and texts."""
    if isinstance(tree, dict | list) and tree and draw(st.integers(0, 7)):
        copy = tree.copy()
        key = draw(st.sampled_from([*tree] if isinstance(tree, dict) else range(len(tree))))
        copy[key] = draw(changed(tree[key], words))
        return copy
    action = draw(st.sampled_from(("replace", "add", "remove", "rename", "repeat")))
    value, word = draw(ODD_VALUES), draw(st.sampled_from(words))
    if isinstance(tree, dict) and action != "replace":
        copy = tree.copy()
        old = draw(st.sampled_from([*tree])) if tree else ""
        kept = copy.pop(old, value) if action in ("remove", "rename") else copy.get(old, value)
        return copy if action == "remove" else copy | {word: value if action == "add" else kept}
    if isinstance(tree, list) and action != "replace":
        start, end = draw(st.integers(0, len(tree))), draw(st.integers(0, len(tree)))
        times = draw(st.sampled_from((2, 50, 700)))
        new = {"add": [value], "remove": [], "rename": tree[::-1], "repeat": tree[start : start + 1] * times}
        return tree[:start] + new[action] + tree[end:]
    return draw(st.sampled_from((value, value, word, *_near(tree))))


def _near(value: Any) -> list[Any]:
    """Values that differ little from one."""
    if isinstance(value, str):
        middle = len(value) // 2
        new = ("", "0", "-", ".", "e9", " ", "\n", "\0", "\u0661", "%", ":", value)
        return [value[:middle] + piece + value[middle + cut :] for piece in new for cut in (0, 1)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        fraction = value * 0.3 if abs(value) < 1e300 else 0
        return [-value, value + 1, value - 1, value * 1000, value * 2**40, fraction, str(value)]
    return [[value], {"a": value}]


@st.composite
def documents(
    draw: st.DrawFn,
    valid: Sequence[Any],
    words: Sequence[str],
    mistakes: st.SearchStrategy[int] = MISTAKES,
) -> Any:
    """One of some documents, with mistakes."""
    tree = draw(st.sampled_from(valid))
    for _ in range(draw(mistakes)):
        tree = draw(changed(tree, words))
    return tree


@st.composite
def encoded(draw: st.DrawFn, text: str) -> bytes:
    """The bytes of a text; few of them are damaged or in another encoding than UTF-8."""
    for name, odd in _NO_JSON.items():
        text = text.replace(json.dumps(name), odd)
    encoding = draw(st.sampled_from(("utf-8",) * 20 + ("utf-8-sig", "utf-16", "latin-1", "utf-32")))
    return draw(damaged(st.just(text.encode(encoding, "replace")), SELDOM))


@st.composite
def as_json(draw: st.DrawFn, trees: st.SearchStrategy[Any]) -> bytes:
    """Documents as JSON."""
    return draw(encoded(json.dumps(draw(trees), ensure_ascii=draw(st.booleans()))))


def words_in(*trees: Any) -> list[str]:
    """All names and short texts of some documents, in alphabetical order."""
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
