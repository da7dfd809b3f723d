"""The process from which Spark forks a local session's Python workers, with all modules imported.

Each worker would spend a second of its core on imports. `session` makes Spark run this module by name
(``spark.python.daemon.module``) in place of its own.

A fork copies only the thread that forks. Of the threads that these imports start, the background thread of
Arrow's allocator (jemalloc) is restarted by that library in a child, and the linear algebra of NumPy, which
would start more, is limited to one. NumPy's random numbers, which pandas has seeded, are seeded again in each
worker, or all workers would draw the same ones.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from contextlib import suppress

import numpy as np
import pyarrow  # noqa: F401

from . import workers  # noqa: F401 - and netstack with it

with suppress(ImportError):  # an extra
    import pandas  # type: ignore[import-untyped]  # noqa: F401 - PySpark's workers import it where it is


def main() -> None:
    """Fork workers until Spark closes the connection."""
    from pyspark.daemon import manager

    os.register_at_fork(after_in_child=np.random.seed)
    manager()


if __name__ == "__main__":
    main()
