"""The process from which Spark forks the Python workers of the tests' session, with what they need imported.

A worker that is killed, or fails, has another in its place, and each would take a second for its imports.
Workers that import by themselves are those of `clusters`.
"""

import pandas  # noqa: F401 - PySpark's workers import it
import pyarrow  # noqa: F401
from pyspark.daemon import manager

import integration.spark.distributed.stage
import integration.spark.shuffling.task
import integration.tuning.running  # noqa: F401

if __name__ == "__main__":
    manager()
