"""The process from which Spark forks the Python workers of a local session, with what they need imported.

Each worker would spend a second of its core on imports; forked from this process it begins with them. Spark
runs it by name (``spark.python.daemon.module``) where `session` says so, in place of its own.

A fork copies the thread that forks and no other. What is imported here starts one thread, the background one
of Arrow's memory (jemalloc), which that library begins anew in a child; NumPy's linear algebra would start
more, and is kept to one. NumPy's random numbers, which pandas has seeded, are seeded again in each worker: it
would draw the same ones as all others.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from contextlib import suppress

import numpy as np
import pyarrow  # noqa: F401

import netstack  # noqa: F401

with suppress(ImportError):  # an extra
    import pandas  # type: ignore[import-untyped]  # noqa: F401 - PySpark's workers import it where it is


def main() -> None:
    """Fork workers until Spark closes the connection."""
    from pyspark.daemon import manager

    os.register_at_fork(after_in_child=np.random.seed)
    manager()


if __name__ == "__main__":
    main()
