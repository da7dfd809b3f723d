"""One Spark session for all tests that need one: a session takes seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from integration.spark import spark_session
from tests.integration.clusters import SMALL_JAVA_PROCESSES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of this process and of those that tests start, each with a Spark of its own.
os.environ |= SMALL_JAVA_PROCESSES


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with four slots."""
    session = spark_session("local[4]")
    yield session
    session.stop()
