"""Why an action of Spark's has failed, in one line, for whoever has called `shuffle`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .own_files import own_files_problem
from .spark_errors import one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def failure_cause(error: BaseException, session: SparkSession) -> str:
    """Return in one line why an action on a DataFrame has failed: the first cause, without Spark's traces.

    Of a stage whose tasks fail one after the other it is what the first of them has said, such as the address
    of a peer that is gone; of Spark's own files, the folder that has no room.

    Args:
        error: What the action has raised.
        session: That of the DataFrame; it still runs.
    """
    return own_files_problem(error, session) or one_line(error)
