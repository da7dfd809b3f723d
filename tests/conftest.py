"""What tests of every package share."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from netstack import core_is_compiled, stale_modules

# A loaded machine makes any example slow; speed is measured in benches.
settings.register_profile("netstack", deadline=None)
settings.load_profile("netstack")


def pytest_configure() -> None:
    """Refuse to test compiled modules that are not what their sources say, or others than are meant."""
    if stale := stale_modules():
        names = ", ".join(stale)
        pytest.exit(f"compiled before {names} changed: 'make fast' or 'make pure' first", returncode=4)
    if os.environ.get("NETSTACK_TESTED") == "compiled" and not core_is_compiled():
        pytest.exit("the compiled core is to be tested, and this one is plain Python", returncode=4)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot be with a compiled core."""
    if item.get_closest_marker("interpreted") and core_is_compiled():
        pytest.skip("inherits from, or stands in for, a class that is compiled")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that the processes that share them end together.

    First those marked `long` that start no Spark, whose archive of classes is made meanwhile (see
    integration/spark/class_archive.py); then those with Spark, long ones before the others; then the rest.
    """
    marks: dict[Path, set[str]] = {}
    for item in items:
        marks.setdefault(item.path, set()).update(mark.name for mark in item.iter_markers())
    items.sort(key=lambda item: _place(marks[item.path]))


def _place(marks: set[str]) -> int:
    if "spark" in marks:
        return 1 if "long" in marks else 2
    return 0 if "long" in marks else 3


@pytest.fixture(autouse=True)
def hears_ctrl_c() -> Iterator[None]:
    """Let this process hear Ctrl-C, and so those that it starts, also in the background of a shell.

    There SIGINT is ignored, and a test that waits for what it interrupts would wait for ever.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
