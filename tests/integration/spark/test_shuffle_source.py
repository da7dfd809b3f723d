"""Why a task of a shuffle has ended: rows that Spark no longer sends."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from integration.spark.shuffling.task import SourceThread


class Closing:
    """A transport that remembers why it was closed."""

    def close(self, error: BaseException) -> None:
        self.error = error


def cut_off() -> Iterator[pa.RecordBatch]:
    """Rows of Spark that end in the middle of a batch."""
    yield from ()
    raise OSError("Expected to be able to read 10 bytes for message body, got 2")


def test_rows_that_end_in_the_middle_of_a_batch_are_said_to_come_from_spark() -> None:
    transport: Any = Closing()
    cutter: Any = None  # which no batch reaches
    source = SourceThread(cut_off(), cutter, transport, early_bytes=0)
    source.start()
    source.join()
    assert source.error is transport.error
    assert str(source.error).startswith("the connection over which Spark sends its rows ended: Expected")
