"""Fixtures for the tests of all packages."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from netstack import core_is_compiled, stale_modules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

SHARED_SPARK = "shared Spark"
"""Parameter of the fixture `spark`, which is in the ID of each test that uses it."""

# A loaded machine makes any example slow; speed is measured in benches. Examples are other ones in each run.
settings.register_profile("netstack", deadline=None, max_examples=50)
settings.register_profile("long", settings.get_profile("netstack"), max_examples=1000)
settings.register_profile("hours", settings.get_profile("netstack"), max_examples=100_000)
settings.load_profile("netstack")


def pytest_configure() -> None:
    """Let this process hear Ctrl-C, and refuse to test compiled modules that do not match their sources.

    In the background of a shell SIGINT is ignored, and under nohup SIGHUP, by this process and those that it
    starts. A test that sends one of them such a signal would wait for ever.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if stale := stale_modules():
        names = ", ".join(stale)
        pytest.exit(f"compiled before {names} changed: 'make fast' or 'make pure' first", returncode=4)
    if os.environ.get("NETSTACK_TESTED") == "compiled" and not core_is_compiled():
        pytest.exit("the compiled core is to be tested, and this one is plain Python", returncode=4)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot be with a compiled core."""
    if item.get_closest_marker("interpreted") and core_is_compiled():
        pytest.skip("inherits from, or stands in for, a class that is compiled")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Divide the tests among the processes of a run by files; one process has the shared Spark session."""
    from xdist.scheduler import LoadScopeScheduling  # here, since a run in one process needs no xdist

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return SHARED_SPARK if SHARED_SPARK in nodeid else nodeid.partition("::")[0]

    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests first that share the Spark session, then the files that start a Spark of their own.

    So all processes of a run end together.
    """
    starting = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: (SHARED_SPARK not in item.nodeid, item.path not in starting))


@pytest.fixture(scope="session", params=[SHARED_SPARK])
def spark() -> Iterator[SparkSession]:
    """A local session with four slots, which all tests share that need one."""
    from integration.spark import spark_session  # here, since the tests of the core need none

    session = spark_session("local[4]")
    yield session
    session.stop()
