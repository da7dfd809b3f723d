"""A home of Spark for each session that the tests start, and Java options for short sessions."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
import pytest

from integration.spark.session import SMALL_JAVA


@pytest.fixture(scope="session", autouse=True)
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have Spark's executors, which write into its home, write into a temporary folder."""
    home = tmp_path_factory.mktemp("spark-home")
    for part in ("bin", "jars", "python"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    os.environ |= {
        "SPARK_HOME": str(home),
        "SPARK_SUBMIT_OPTS": SMALL_JAVA,
        "SPARK_LAUNCHER_OPTS": SMALL_JAVA,
    }
