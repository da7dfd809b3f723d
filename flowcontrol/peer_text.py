"""Text that a peer has chosen, made fit to be shown: of bounded length, and nothing that a terminal obeys."""

from __future__ import annotations

MAX_PEER_TEXT = 4096
"""The most characters of a peer's text that are shown, or sent as one."""

_CUT = "..."


def readable(text: str) -> str:
    """Return `text` with each character that is not printed written as an escape, and cut if it is long.

    At most `MAX_PEER_TEXT` characters come back, of at most 4 bytes each. What is readable already stays as
    it is, so a text may be passed on from peer to peer.
    """
    text = text[: MAX_PEER_TEXT + 1]
    if not text.isprintable():
        text = "".join(map(_visible, text))
    return text if len(text) <= MAX_PEER_TEXT else text[: MAX_PEER_TEXT - len(_CUT)] + _CUT


def _visible(character: str) -> str:
    """A control character, a change of direction, half a surrogate pair or the like as its escape."""
    return character if character.isprintable() else character.encode("unicode_escape").decode()
