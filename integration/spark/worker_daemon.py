"""The process from which Spark forks a local session's Python workers, with all modules imported.

Otherwise each worker would spend a second of processor time on imports. `session` makes Spark run this module
by name (``spark.python.daemon.module``) in place of Spark's own. A fork copies only the thread that forks,
but the imports start other threads. This does no harm: Arrow's allocator (jemalloc) restarts its background
thread in a child, and NumPy's linear algebra is limited to one thread. Each worker seeds NumPy's random
numbers again: pandas has seeded them before the fork, so without this all workers would draw the same
numbers.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from contextlib import suppress

import numpy as np
import pyarrow  # noqa: F401

from . import python_workers as workers  # noqa: F401 - and netstack with it

with suppress(ImportError):  # an optional library
    import pandas  # type: ignore[import-untyped]  # noqa: F401 - PySpark's workers import it where it is


def main() -> None:
    """Fork workers until Spark closes the connection."""
    from pyspark.daemon import manager

    os.register_at_fork(after_in_child=np.random.seed)
    manager()


if __name__ == "__main__":
    main()
