"""Errors of this package, by cause.

Errors in the user's input are `InputError`, with a line for each mistake: `UsageError` for arguments,
`FileError` for files, `ScenarioError` (of netstack) for scenarios, `FlinkRestError` for a cluster that cannot
be read. The command line prints these lines and ends with status 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Self

from netstack import InputError, SourceError

ParameterName = Literal[
    "job",
    "watch_s",
    "record_bytes",
    "service_s",
    "service_mode",
    "window_s",
    "inputs",
    "cores",
    "rate",
    "options",
    "latency_s",
    "ca",
    "cert",
    "key",
    "headers",
    "user",
    "password",
    "metrics_ca",
    "metrics_cert",
    "metrics_key",
    "metrics_headers",
    "metrics_user",
    "metrics_password",
    "begin_s",
    "for_s",
]
"""Parameters of `import_scenario`, `Overrides`, `Access` and `Past` that a note or an error can name.

Those for Prometheus begin with "metrics".
"""


class Parameter(NamedTuple):
    """A parameter of `import_scenario` that a piece of advice names, with an example of its value."""

    name: ParameterName
    example: float | str | None = None
    of: str | None = None
    """The vertex or Flink option in the example, if the parameter has a value for each vertex or option."""

    def __str__(self) -> str:
        if self.example is None:
            return self.name
        return f"{self.name}={self.example if self.of is None else {self.of: self.example}!r}"


class Note(str):
    """A line about a value, and the parameters with which a caller can supply or override this value.

    The string contains the Python names of the parameters. The command line shows its options instead.

    Attributes:
        text: The line without the advice.
        parameters: The parameters that the advice names, in order.
    """

    def __new__(cls, text: str, *parameters: Parameter, advice: str = "Set {} to override.") -> Self:
        """Add `advice` to `text` if there are parameters, which fill each "{}" of the advice in order."""
        note = super().__new__(cls, f"{text} {advice.format(*parameters)}" if parameters else text)
        note.text, note.parameters, note._advice = text, parameters, advice
        return note

    text: str
    parameters: tuple[Parameter, ...]
    _advice: str

    def __getnewargs_ex__(self) -> tuple[tuple[object, ...], dict[str, str]]:
        return (self.text, *self.parameters), {"advice": self._advice}

    def after(self, beginning: str) -> Note:
        """Return the same note with a prefix, such as the address that it concerns."""
        return Note(beginning + self.text, *self.parameters, advice=self._advice)

    def replacing(self, change: Callable[[Parameter], Parameter]) -> Note:
        """Return the same note with `change(parameter)` in place of each parameter."""
        return Note(self.text, *map(change, self.parameters), advice=self._advice)

    def naming(self, name: Callable[[Parameter], str]) -> str:
        """Return the line with the text `name(parameter)` for each parameter, such as its option."""
        if not self.parameters:
            return self.text
        return f"{self.text} {self._advice.format(*map(name, self.parameters))}"


class UsageError(InputError):
    """Arguments of a function or options of a command are wrong, missing or in conflict."""


class FileError(InputError):
    """A file does not exist, cannot be read, or has other contents than expected."""


class FlinkRestError(InputError):
    """A Flink cluster cannot be read, or its reports are insufficient.

    Attributes:
        notes: The original problems, each a `Note` if a parameter helps.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__(problems)
        self.notes = problems

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), self.notes


class EndedJobError(FlinkRestError):
    """No job is running that can be read, but one has ended, and a diagnosis reads it."""


class JobWentError(FlinkRestError):
    """The imported job has ended, was restarted or was rescaled."""


class NotRunningError(FlinkRestError):
    """The job is not running at the moment, and may run again later."""


class TransferError(Exception):
    """A request got no complete answer.

    Attributes:
        note: The cause and a remedy.
        transient: Whether a retry may succeed, because the connection failed or broke.
        answers: Whether the note describes an answer of the server; False: the server cannot be reached.
    """

    def __init__(self, note: Note, *, transient: bool = False, answers: bool = False) -> None:
        super().__init__(note)
        self.note = note
        self.transient = transient
        self.answers = answers


class TooLargeError(Exception):
    """An answer is larger than the limit."""


class TooManyValuesError(ValueError):
    """JSON has more values than the limit, which bounds the memory: a value may take two hundred bytes."""

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


class ShuffleFailedError(Exception):
    """An action on a shuffled DataFrame has failed.

    The first line of the message is the cause. Then comes the message of Spark's error, which is `__cause__`.
    """


class ShuffleTaskError(Exception):
    """A task of a shuffle has failed, here or on a peer. The message is the first cause."""


class ShuffleWarning(UserWarning):
    """A shuffle costs more than necessary, or an option has no effect."""


class UnsupportedColumnError(SourceError):
    """A column has a type that a record, shuffle or key cannot have. The message names column and type."""

    def __init__(self, column: str, kind: object, problem: str = "cannot be sent in a record") -> None:
        super().__init__(f"column {column!r}: type {kind} {problem}")
        self.column = column


class TargetError(SourceError):
    """A column of target partitions has a null or an invalid number. The message names the column."""


class PieceError(Exception):
    """The bytes of a piece of a shuffle are not rows of the expected schema."""


class MeetingError(Exception):
    """Some tasks of a barrier stage did not start in time. The message names them."""
