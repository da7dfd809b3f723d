"""What the options of several commands have in common."""

from __future__ import annotations

import argparse


def whole(text: str) -> int:
    """Read a number from 1 on.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)
