"""What a user asks for with a savepoint, and how whoever asked hears what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from flowcontrol import PostCheckpointAction, SavepointFormat

from ..engine.agenda import Agenda
from ..scenarios.changes import ScheduledSavepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointEnd:
    """What came of a request: the `location` of the savepoint, or the `problem` for which there is none."""

    location: str | None = None
    problem: str | None = None


def _nobody(end: SavepointEnd) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointRequest:
    """A wish for a savepoint.

    `directory` is where its folder is to be; None: where the job keeps its savepoints. `told` is called once,
    with what came of it.
    """

    directory: str | None = None
    format: SavepointFormat = SavepointFormat.CANONICAL
    action: PostCheckpointAction = PostCheckpointAction.NONE
    told: Callable[[SavepointEnd], None] = _nobody

    @property
    def stops(self) -> bool:
        """Whether the job ends with it."""
        return self.action is not PostCheckpointAction.NONE


SavepointRequests = Callable[[], Iterable[SavepointRequest]]
"""Returns what users want, each once."""

LOOKS_S = 0.5
"""How often users are asked, in seconds."""


class SavepointTaker(Protocol):
    """Who takes savepoints: the coordinator."""

    def request_savepoint(self, request: SavepointRequest) -> None:
        """Take one, or say why not."""
        ...


def take_requests(agenda: Agenda, taker: SavepointTaker, requests: SavepointRequests) -> None:
    """Let what users want be done, now and again and again."""
    for request in requests():
        taker.request_savepoint(request)
    agenda.keep(agenda.now + LOOKS_S, take_requests, agenda, taker, requests)


def request_of(scheduled: ScheduledSavepoint) -> SavepointRequest:
    """Return the request of a scenario."""
    return SavepointRequest(directory=scheduled.directory, format=scheduled.format, action=scheduled.action)
