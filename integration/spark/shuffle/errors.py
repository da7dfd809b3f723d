"""What a shuffle has to say when it cannot do what it was asked for, or does it at a cost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ..files import one_line

_QUERY_LOG = "DataFrameQueryContextLogger"
"""Where PySpark logs errors of queries, with all of their stack, before it raises them."""


class ShuffleError(Exception):
    """A shuffle cannot be run as asked; raised before any data moves, and says what would do."""


class ShuffleTaskError(Exception):
    """A task of a shuffle has failed, here or on a peer; the message is the first cause."""


class ShuffleWarning(UserWarning):
    """A shuffle costs more than it has to, or was given an option that changes nothing."""


@contextmanager
def spark_errors(problem: str) -> Iterator[None]:
    """Turn what Spark says of a query into a `ShuffleError`, which begins with `problem`; nothing is logged.

    Raises:
        ShuffleError: The block has raised an error of Spark's.
    """
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    log = PySparkLogger.getLogger(_QUERY_LOG)
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    except PySparkException as error:
        raise ShuffleError(f"{problem}: {one_line(error)}") from None
    finally:
        log.setLevel(level)
