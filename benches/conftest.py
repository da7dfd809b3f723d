"""Options and fixtures of the micro-benchmarks: ``pytest benches``."""

from __future__ import annotations

import importlib
from math import isfinite

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from .harness import Measure, seconds_an_operation
from .transport import BenchTransport

SCORES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("netstack")
    group.addoption(
        "--transport",
        metavar="MODULE:CLASS",
        help="measure this subclass of benches.transport.BenchTransport in the network cases, not netstack's",
    )
    group.addoption(
        "--scale",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="multiply the work of an iteration by this: 0.1 for a quick run, 10 for less noise",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.option.benchmark_skip = False  # set in pyproject.toml, so that tests skip benchmarks
    config.stash[SCORES] = []
    scale = config.getoption("scale")
    if not (isfinite(scale) and scale > 0):
        raise pytest.UsageError(f"--scale is {scale:g}; it must be more than 0")
    if config.getoption("transport") is not None:
        transport_named(config.getoption("transport"))


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.benchmark(timer=seconds_an_operation))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:  # pytest-benchmark's table has no column for the scores
    for line in config.stash[SCORES]:
        terminalreporter.write_line(line)


@pytest.fixture
def measure(benchmark: BenchmarkFixture, pytestconfig: pytest.Config) -> Measure:
    return Measure(
        benchmark,
        rounds=pytestconfig.getoption("benchmark_min_rounds"),
        scale=pytestconfig.getoption("scale"),
        report=pytestconfig.stash[SCORES].append,
    )


@pytest.fixture
def transport(pytestconfig: pytest.Config) -> type[BenchTransport] | None:
    """Return the class of the transport under test; None for this project's own."""
    name = pytestconfig.getoption("transport")
    return None if name is None else transport_named(name)


def transport_named(name: str) -> type[BenchTransport]:
    """Import the class of a transport.

    Raises:
        UsageError: there is no transport with that name.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise pytest.UsageError(f"--transport is {name!r}; it must be MODULE:CLASS")
    try:
        loaded = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:
        raise pytest.UsageError(f"--transport is {name!r}: {module} cannot be imported: {error}") from None
    if not (isinstance(loaded, type) and issubclass(loaded, BenchTransport)):
        raise pytest.UsageError(f"--transport is {name!r}; {attribute} must be a subclass of BenchTransport")
    return loaded
