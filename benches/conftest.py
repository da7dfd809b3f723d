"""Whoever names this folder wants its benchmarks run: elsewhere pytest is told to skip them."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.option.benchmark_skip = False
