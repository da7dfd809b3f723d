"""What tests of every package share."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A loaded machine makes any example slow; speed is measured in benches.
settings.register_profile("netstack", deadline=None)
settings.load_profile("netstack")


@pytest.fixture(autouse=True)
def hears_ctrl_c() -> Iterator[None]:
    """Let this process hear Ctrl-C, and so those that it starts, also in the background of a shell.

    There SIGINT is ignored, and a test that waits for what it interrupts would wait for ever.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
