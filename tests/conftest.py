"""What tests of every package share."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """Let this process hear Ctrl-C, and so those that it starts, also in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
