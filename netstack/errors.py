"""Errors of this package, by cause.

`InputError`: the caller passed wrong input. All mistakes are reported at once. `StateError`, `StorageError`,
`RecoveryError`: a checkpoint cannot be written or restored. `SourceError`, `JobFailedError`, `LaunchError`: a
job cannot continue. `TransportError`: the connection to a peer has failed. `AgendaStuckError`: a defect of
netstack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from flowcontrol import readable

if TYPE_CHECKING:
    from .results.result import Result

__all__ = [
    "ConnectionLostError",
    "DamagedFileError",
    "HandshakeError",
    "InputError",
    "JobFailedError",
    "LaunchError",
    "LinkClosedError",
    "MissingFileError",
    "PeerFailedError",
    "PeerSilentError",
    "QuantityError",
    "ScenarioError",
    "SourceError",
    "StateError",
    "StorageError",
    "TransportError",
]


class InputError(ValueError):
    """The caller passed wrong input.

    Attributes:
        problems: One line for each mistake, with its place, a description, and a correct value. Unprintable
            characters, such as a line feed in a name, are escaped.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(map(readable, problems))
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (self.problems,)  # pickled by its problems, not by their text


class ScenarioError(InputError):
    """A scenario is wrong, or needs a feature that this version does not have."""


class PolicyError(ValueError):
    """A debloating policy cannot be found or created from its name and options; the message says why."""


class QuantityError(ValueError):
    """A text or number is not a valid quantity.

    Attributes:
        wrong: The mistake.
        right: A correct value, or a description of one.
    """

    def __init__(self, wrong: str, right: str) -> None:
        super().__init__(f"{wrong}; it must be {right}")
        self.wrong = wrong
        self.right = right


class StateError(Exception):
    """State cannot be stored or restored. The message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(readable(message))


class StorageError(Exception):
    """The checkpoint storage failed. The message is one line that names the file."""

    def __init__(self, message: str) -> None:
        super().__init__(readable(message))


class MissingFileError(StorageError):
    """A file, or the metadata of a checkpoint, does not exist."""


class DamagedFileError(StorageError):
    """The size or checksum of a file differs from that of the bytes that were written."""


class RecoveryError(Exception):
    """The state of a checkpoint does not fit the job."""


class SourceError(Exception):
    """A source cannot deliver its records. The message is one line."""


class JobFailedError(Exception):
    """A job has failed permanently. The message is the cause.

    Attributes:
        result: The figures measured until the failure.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(result.failure)
        self.result = result

    def __reduce__(self) -> tuple[type[JobFailedError], tuple[Result]]:
        return type(self), (self.result,)  # not from the message, as exceptions are by default


class LaunchError(Exception):
    """The processes of an attempt ended without a report. The message is the cause, on one line.

    Attributes:
        again: Whether another attempt may succeed, as after the loss of a process.
    """

    def __init__(self, cause: str, *, again: bool = True) -> None:
        super().__init__(cause)
        self.again = again


class TransportError(Exception):
    """The connection to a peer has failed.

    Attributes:
        peer: Name and address of the peer.
        problem: The cause.
    """

    def __init__(self, peer: str, problem: str) -> None:
        super().__init__(f"{peer}: {problem}")
        self.peer = peer
        self.problem = problem

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.peer, self.problem)


class ConnectionLostError(TransportError):
    """The connection was reset, or closed before both sides had finished."""


class PeerSilentError(TransportError):
    """The peer has sent nothing, not even a keep-alive message, within the timeout."""


class PeerFailedError(TransportError):
    """The peer has failed and has sent the cause.

    A process that stops because another one failed passes on `problem` unchanged, so the first cause is
    reported.
    """

    def __str__(self) -> str:
        return self.problem


class PartitionNotFoundError(TransportError):
    """After all retries, the peer still has no partition for a channel (Flink:
    ``PartitionNotFoundException``).
    """


class HandshakeError(TransportError):
    """The peer could not be reached, did not prove that it knows the secret, or refused our proof."""


class LinkClosedError(TransportError):
    """A message was sent after the final message, or read after the connection was closed."""


class UnprovenError(Exception):
    """The handshake of a connection failed; internal to `netstack.tcp`.

    Attributes:
        final: Whether another attempt to connect to the same address would fail too.
    """

    def __init__(self, problem: str, *, final: bool = False) -> None:
        super().__init__(problem)
        self.final = final


class AgendaStuckError(RuntimeError):
    """Routines wait, but the agenda has no entry left: a bug in netstack or in the routines."""
