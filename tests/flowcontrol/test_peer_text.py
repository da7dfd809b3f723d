"""Text of a peer: whatever it holds, what is shown is of bounded length and harmless to a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol import MAX_PEER_TEXT, readable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("disk full: /data (é)", "disk full: /data (é)"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("first\r\nsecond\tthird", r"first\r\nsecond\tthird"),
        ("\x9b31m, \x7f and \0", r"\x9b31m, \x7f and \x00"),
        ("abc\u202etxt.exe", r"abc\u202etxt.exe"),
        ("\ud800", r"\ud800"),
        (r"C:\new, as it was", r"C:\new, as it was"),
    ],
)
def test_what_a_terminal_obeys_is_shown(text: str, shown: str) -> None:
    assert readable(text) == shown


@pytest.mark.parametrize("text", ["x" * (MAX_PEER_TEXT + 1), "\x1b" * MAX_PEER_TEXT, "\U000e0001" * 9999])
def test_a_long_text_ends_in_dots(text: str) -> None:
    assert len(readable(text)) == MAX_PEER_TEXT
    assert readable(text).endswith("...")


def test_the_longest_text_is_shown_whole() -> None:
    assert readable("x" * MAX_PEER_TEXT) == "x" * MAX_PEER_TEXT


@given(st.text() | st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Lo"]), max_size=50))
def test_any_text_is_printable_bounded_and_the_same_when_it_is_passed_on(text: str) -> None:
    shown = readable(text)
    assert shown.isprintable()
    assert len(shown) <= MAX_PEER_TEXT
    assert len(shown.encode()) <= 4 * MAX_PEER_TEXT
    assert readable(shown) == shown
