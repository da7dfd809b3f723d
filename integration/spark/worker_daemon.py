"""The process from which Spark forks the Python workers of a local session, with what they need imported.

Each worker would spend a second of its core on imports; forked from this process it begins with them. Spark
runs it by name (``spark.python.daemon.module``) where `session` says so, in place of its own.
"""

import pandas  # type: ignore[import-untyped]  # noqa: F401 - PySpark's workers import it
import pyarrow  # noqa: F401

import netstack  # noqa: F401


def main() -> None:
    """Fork workers until Spark closes the connection."""
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
