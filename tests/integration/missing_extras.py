"""Extras that a test does without, though they are installed."""

import sys

import pytest

from integration.base.extras import EXTRAS, Extra


def take_away(monkeypatch: pytest.MonkeyPatch, extra: Extra) -> None:
    """Let no module of an extra be imported for the rest of a test, as in an installation without it."""
    monkeypatch.setattr("integration.base.extras.CHECKOUT", None)
    for module in EXTRAS[extra].modules:
        monkeypatch.setitem(sys.modules, module, None)
