"""Errors of this package, by cause.

Errors in what the user gave are `InputError`, with a line for each mistake: `UsageError` for arguments,
`FileError` for files, `ScenarioError` (of netstack) for scenarios, `FlinkRestError` for a cluster that cannot
be read. The command line prints these lines and ends with status 2.
"""

from __future__ import annotations

from typing import Self

from netstack import InputError, SourceError


class UsageError(InputError):
    """Arguments of a function or options of a command are wrong, missing or in conflict."""


class FileError(InputError):
    """A file does not exist, cannot be read, or does not hold what is wanted."""


class FlinkRestError(InputError):
    """A Flink cluster cannot be read, or reports too little."""

    def __init__(self, *problems: str) -> None:
        super().__init__(problems)

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), self.problems


class JobWentError(FlinkRestError):
    """The imported job has ended, was restarted or was rescaled."""


class NotRunningError(FlinkRestError):
    """The job is not running at the moment, and may run again later."""


class TransferError(Exception):
    """A request got no complete answer. The message is the cause and a remedy.

    Attributes:
        passing: Whether a retry may succeed: there is no connection, or it broke.
    """

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing


class TooLargeError(Exception):
    """An answer has more bytes than are read."""


class TooManyValuesError(ValueError):
    """JSON has more values than are decoded; each may take two hundred bytes of memory."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most:,} values")


class OutputError(Exception):
    """A file could not be written. The message is one line with the cause."""


class MissingExtraError(ImportError):
    """An optional library is not installed. The message is one line with the command that installs it."""


class WorkerError(Exception):
    """A process that ran a scenario ended without a result."""


class ShuffleError(Exception):
    """A shuffle cannot be run with these arguments. Raised before any data moves."""


class ShuffleTaskError(Exception):
    """A task of a shuffle has failed, here or on a peer. The message is the first cause."""


class ShuffleWarning(UserWarning):
    """A shuffle costs more than necessary, or an option has no effect."""


class UnsupportedColumnError(SourceError):
    """A column has a type that a record, a shuffle or a key cannot have. The message names both."""

    def __init__(self, column: str, kind: object, problem: str = "cannot be carried in a record") -> None:
        super().__init__(f"column {column!r}: type {kind} {problem}")
        self.column = column


class TargetError(SourceError):
    """A column of target partitions has a null or a number that is no partition. The message names it."""


class PieceError(Exception):
    """The bytes of a piece of a shuffle are not rows of the expected schema."""


class MeetingError(Exception):
    """Some tasks of a barrier stage did not start in time. The message names them."""


class JavaError(Exception):
    """The Java process of Spark ended before it was ready."""
