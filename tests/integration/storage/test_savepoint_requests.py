"""Savepoints of jobs that run, asked for by other processes, and going on from them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flowcontrol import PostCheckpointAction, SavepointFormat
from integration.storage.directory import DirectoryStorage
from integration.storage.savepoint_requests import FOLDER, TAKING, WAITING, RequestFolder
from netstack import SavepointEnd, SavepointRequest, StorageError


@contextmanager
def served(
    root: Path, answer: Callable[[SavepointRequest], SavepointEnd]
) -> Iterator[list[SavepointRequest]]:
    """A run that has a directory and answers requests in a thread of its own."""
    taken: list[SavepointRequest] = []
    over = threading.Event()

    def serve() -> None:
        with DirectoryStorage(root).exclusive(), RequestFolder(root).opened() as take:
            ready.set()
            while not over.wait(0.01):
                for request in take():
                    taken.append(request)
                    request.on_end(answer(request))

    ready = threading.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def test_who_asks_is_told_what_is_waited_for(tmp_path: Path) -> None:
    told = list[str]()
    folder = RequestFolder(tmp_path)
    with DirectoryStorage(tmp_path).exclusive(), folder.opened() as take:
        asking = threading.Thread(target=folder.ask, args=(SavepointRequest(), told.append))
        asking.start()
        while not told:
            threading.Event().wait(0.01)
        assert set(told) == {WAITING}
        (request,) = take()
        while told[-1] != TAKING:
            assert asking.is_alive()
            threading.Event().wait(0.01)
        request.on_end(SavepointEnd(location="savepoint-7"))
        asking.join()


def test_a_request_is_answered_with_where_the_savepoint_is(tmp_path: Path) -> None:
    places = iter(["savepoint-7", "/elsewhere/savepoint-8"])
    with served(tmp_path, lambda request: SavepointEnd(location=next(places))) as taken:
        folder = RequestFolder(tmp_path)
        assert folder.ask(SavepointRequest()) == f"{tmp_path}/savepoint-7"
        request = SavepointRequest(
            directory="/elsewhere", format=SavepointFormat.NATIVE, action=PostCheckpointAction.SUSPEND
        )
        assert folder.ask(request) == "/elsewhere/savepoint-8"
        assert list((tmp_path / FOLDER).iterdir()) == []
    assert [(each.directory, each.format.name, each.action.name) for each in taken] == [
        (None, "CANONICAL", "NONE"),
        ("/elsewhere", "NATIVE", "SUSPEND"),
    ]
    assert not (tmp_path / FOLDER).exists()


def test_a_directory_is_named_in_full_as_the_run_is_somewhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with served(tmp_path, lambda request: SavepointEnd(location="x")) as taken:
        RequestFolder(tmp_path).ask(SavepointRequest(directory="there"))
        RequestFolder(tmp_path).ask(SavepointRequest(directory="s3://bucket/there"))
    assert [each.directory for each in taken] == [f"{tmp_path}/there", "s3://bucket/there"]


def test_an_answer_outlives_the_run_until_it_is_read(tmp_path: Path) -> None:
    over: list[Any] = []

    def ask() -> None:
        over.append(RequestFolder(tmp_path).ask(SavepointRequest()))

    with DirectoryStorage(tmp_path).exclusive(), RequestFolder(tmp_path).opened() as take:
        asker = threading.Thread(target=ask)
        asker.start()
        while not (requests := take()):
            pass
        requests[0].on_end(SavepointEnd(location="savepoint-3"))
    asker.join()
    assert over == [f"{tmp_path}/savepoint-3"]
    assert not (tmp_path / FOLDER).exists()


def problem_of(root: Path) -> str:
    with pytest.raises(StorageError) as raised:
        RequestFolder(root).ask(SavepointRequest())
    return str(raised.value)


def test_why_there_is_no_savepoint(tmp_path: Path) -> None:
    assert problem_of(tmp_path / "nothing").endswith(
        "no run uses this directory, so there is no job to take a savepoint of"
    )
    with DirectoryStorage(tmp_path).exclusive():
        assert "does not accept requests, or not yet" in problem_of(tmp_path)
    with served(tmp_path, lambda request: SavepointEnd(problem="the disk is full")):
        assert problem_of(tmp_path) == "the savepoint failed: the disk is full"


def test_what_is_no_request_is_answered_and_deleted(tmp_path: Path) -> None:
    with RequestFolder(tmp_path).opened() as take:
        for name, text in (("a", "{"), ("b", '{"directory": 5}'), ("c", "\x00" * 100)):
            (tmp_path / FOLDER / f"{name}.json").write_text(text)
        assert take() == []
        answers = sorted((tmp_path / FOLDER).iterdir())
        assert [path.name for path in answers] == ["a.answer.json", "b.answer.json", "c.answer.json"]
        for path in answers:
            assert json.loads(path.read_text())["problem"].startswith("this is not a request for a savepoint")
