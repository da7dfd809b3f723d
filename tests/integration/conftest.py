"""A quick start for each Spark session that the tests start."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from integration.spark.class_archive import ClassArchive, Maker

SPARK_FILES_OF_A_LONG_RUN = 4
"""With fewer, a run takes no longer than the archive takes to make."""

ARCHIVE = pytest.StashKey[ClassArchive]()
TEMPORARY = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
MAKER = pytest.StashKey[Maker]()


def pytest_configure(config: pytest.Config) -> None:
    """Have the archive used by this process and by all that tests start, each with a Spark of its own."""
    archive = config.stash[ARCHIVE] = ClassArchive(_lasting_folder(config))
    os.environ |= archive.variables()


def _lasting_folder(config: pytest.Config) -> Path:
    if hasattr(config, "cache"):
        return config.cache.mkdir("spark")
    config.stash[TEMPORARY] = tempfile.TemporaryDirectory(prefix="netstack-spark-")  # -p no:cacheprovider
    return Path(config.stash[TEMPORARY].name)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to make the archive, in one process of a run in which many files start a Spark of their own."""
    started = (item for item in session.items if "spark" not in getattr(item, "fixturenames", ()))
    files = {item.path for item in started if item.get_closest_marker("spark")}
    if len(files) >= SPARK_FILES_OF_A_LONG_RUN and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        session.config.stash[MAKER] = Maker(session.config.stash[ARCHIVE])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave no process behind."""
    if MAKER in config.stash:
        config.stash[MAKER].stop()
    if TEMPORARY in config.stash:
        config.stash[TEMPORARY].cleanup()
