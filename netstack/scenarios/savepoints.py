"""The ``savepoints_at`` of a scenario: when a user asks for a savepoint, and what for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from flowcontrol import PostCheckpointAction, SavepointFormat

from .quantities import QuantityError, format_duration, parse_duration
from .sections import ListOf, Section, text
from .shapes import DURATION, TABLE, accepts, any_of

Named = TypeVar("Named")

_STOPS = {"suspend": PostCheckpointAction.SUSPEND, "drain": PostCheckpointAction.TERMINATE}
_FORMATS = {each.name.lower(): each for each in SavepointFormat}
_KEYS = ("at", "directory", "format", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSavepoint:
    """A savepoint that a user asks for at a time, in seconds.

    `directory` is where its folder goes; None: where the job keeps its savepoints. The job may stop with it.
    """

    at_s: float
    directory: str | None = None
    format: SavepointFormat = SavepointFormat.CANONICAL
    action: PostCheckpointAction = PostCheckpointAction.NONE


@accepts({"enum": list(_FORMATS)})
def savepoint_format(value: object) -> SavepointFormat:
    """Return the format of that name.

    Raises:
        QuantityError: it is none.
    """
    return _named(value, _FORMATS, "format of savepoints")


@accepts({"enum": list(_STOPS)})
def _stop(value: object) -> PostCheckpointAction:
    return _named(value, _STOPS, "way to stop")


def _named(value: object, names: Mapping[str, Named], what: str) -> Named:
    name = text(value)
    if name not in names:
        raise QuantityError(f"{name!r} is no {what}", " or ".join(map(repr, names)))
    return names[name]


@accepts(any_of(DURATION, TABLE))
def _time_or_table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {"at": value}


def read_savepoints(top: Section) -> tuple[ScheduledSavepoint, ...]:
    """Return the savepoints of a document: times, or tables with a time `at`; mistakes are noted in `top`."""
    savepoints = []
    for place, document in enumerate(top.take("savepoints_at", ListOf(_time_or_table), ())):
        section = top.part("savepoints_at", document, place)
        savepoints.append(
            ScheduledSavepoint(
                at_s=section.require("at", parse_duration, 0.0, '"30 s"'),
                directory=section.take("directory", text, None),
                format=section.take("format", savepoint_format, SavepointFormat.CANONICAL),
                action=section.take("stop", _stop, PostCheckpointAction.NONE),
            )
        )
        section.finish(_KEYS)
    return tuple(savepoints)


def savepoint_documents(savepoints: tuple[ScheduledSavepoint, ...]) -> list[Any]:
    """Return savepoints as a document has them: times, if there is no more to say of any."""
    documents = [dict(_entries(savepoint)) for savepoint in savepoints]
    if all(len(document) == 1 for document in documents):
        return [document["at"] for document in documents]
    return documents


def _entries(savepoint: ScheduledSavepoint) -> Iterator[tuple[str, str]]:
    yield "at", format_duration(savepoint.at_s)
    if savepoint.directory is not None:
        yield "directory", savepoint.directory
    if savepoint.format is not SavepointFormat.CANONICAL:
        yield "format", savepoint.format.name.lower()
    for name, action in _STOPS.items():
        if action is savepoint.action:
            yield "stop", name
