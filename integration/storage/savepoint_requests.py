"""Requests for a savepoint of a running job, from other processes, and the answers.

A run that accepts requests has a folder in the directory of the job's checkpoints. Each request is a file in
that folder with a unique name, and so is each answer::

    _savepoint-requests/5f3a.json            {"directory":null,"format":"canonical","stop":null}
    _savepoint-requests/5f3a.answer.json     {"location":"/data/checkpoints/savepoint-12","problem":null}

Requests and answers are written under another name and then renamed. The run deletes a request before it
handles it.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from flowcontrol import PostCheckpointAction, SavepointFormat
from netstack import SavepointEnd, SavepointRequest, StorageError

from ..files.writing import write_whole
from .directory import DirectoryStorage

FOLDER = "_savepoint-requests"
"""Folder of requests in the directory of the checkpoints."""

POLL_S = 0.1
"""Interval in seconds between two checks for an answer."""

WAITING = "the run has not read the request yet"
TAKING = "the run is taking the savepoint"
"""Progress messages for the caller."""

_REQUEST, _ANSWER = ".json", ".answer.json"
_LONGEST = 1 << 14


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    directory: str | None
    format: SavepointFormat
    action: PostCheckpointAction


class _Answer(msgspec.Struct, frozen=True):
    location: str | None
    problem: str | None


class RequestFolder:
    """The requests to a run, in the local directory of its checkpoints."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).absolute()
        self._folder = self._root / FOLDER

    @contextmanager
    def opened(self) -> Iterator[Callable[[], list[SavepointRequest]]]:
        """Accept requests while the block runs; yield a function that returns the new ones.

        Requests that are new when the block ends get an error as answer. The caller that reads the last
        answer deletes the folder. Files of an earlier run are deleted.

        Raises:
            StorageError: The folder cannot be made.
        """
        try:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(parents=True)
        except OSError as error:
            raise StorageError(f"{self._folder}: {error.strerror}") from error
        try:
            yield self.take
        finally:
            for request in self.take():
                request.on_end(SavepointEnd(problem="the run has ended"))
            self._tidy()

    def _tidy(self) -> None:
        with suppress(OSError):  # it still has unread answers
            self._folder.rmdir()

    def take(self) -> list[SavepointRequest]:
        """Return the new requests; answer malformed ones with their error."""
        requests = []
        for path in sorted(self._folder.glob(f"*{_REQUEST}")):
            if path.name.endswith(_ANSWER):
                continue
            answer = partial(self._answer, path.name.removesuffix(_REQUEST))
            try:
                with path.open("rb") as file:
                    data = file.read(_LONGEST)
                path.unlink()
                wish = msgspec.json.decode(data, type=_Request)
            except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
                answer(SavepointEnd(problem=f"this is not a request for a savepoint: {error}"))
                continue
            requests.append(
                SavepointRequest(
                    directory=wish.directory, format=wish.format, action=wish.action, on_end=answer
                )
            )
        return requests

    def _answer(self, name: str, end: SavepointEnd) -> None:
        location = end.location
        if location is not None:
            location = os.path.join(self._root, location)  # an absolute path stays as it is
        data = msgspec.json.encode(_Answer(location, end.problem))
        with suppress(OSError):  # an answer that fails must not fail the savepoint
            write_whole({self._folder / f"{name}{_ANSWER}": data})

    def ask(self, request: SavepointRequest, report: Callable[[str], None] = lambda doing: None) -> str:
        """Ask the run for a savepoint, wait, and return its location; Ctrl-C withdraws the request.

        `report` receives progress messages.

        Raises:
            StorageError: No run owns the directory, the run accepts no requests or has ended, or the
                savepoint failed; one line.
        """
        self._require_run("no run uses this directory, so there is no job to take a savepoint of")
        if not self._folder.is_dir():
            raise StorageError(
                f"{self._root}: the run that uses this directory does not accept requests, or not yet: "
                "only runs with `real_time` or `on_spark` do; for a run in virtual time, use "
                "savepoints_at in the scenario"
            )
        name = uuid.uuid4().hex
        place, answer = self._folder / f"{name}{_REQUEST}", self._folder / f"{name}{_ANSWER}"
        directory = request.directory
        if directory is not None and "://" not in directory:
            directory = os.path.abspath(directory)
        try:
            write_whole({place: msgspec.json.encode(_Request(directory, request.format, request.action))})
            while not answer.exists():
                report(WAITING if place.exists() else TAKING)
                time.sleep(POLL_S)
                if not answer.exists():
                    self._require_run("the run ended without an answer to the request")
            reply = msgspec.json.decode(answer.read_bytes(), type=_Answer)
            answer.unlink()
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"{self._folder}: there was no answer: {error}") from error
        finally:
            place.unlink(missing_ok=True)
            if not DirectoryStorage(self._root).is_in_use():
                self._tidy()
        if reply.location is None:
            raise StorageError(f"the savepoint failed: {reply.problem}")
        return reply.location

    def _require_run(self, otherwise: str) -> None:
        if not DirectoryStorage(self._root).is_in_use():
            raise StorageError(f"{self._root}: {otherwise}")
