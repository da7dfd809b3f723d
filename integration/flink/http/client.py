"""Reader of a cluster's answers, which checks that they have the shapes that Flink documents.

::

    RestClient --> Answers: LiveCluster --> Connections --> HTTP
                            Recording (of recording.py)
                            Recorder, which keeps the answers of another

An error names the address and what to do. A path that the cluster does not have (a 404), or at which it fails
(a 500 or above), is no error: `RestClient.missing` lists these paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from netstack import InputError

from ...base.errors import FlinkRestError
from .answers import WITH_VALUES, Answers, Refused
from .batches import batches, subtask_path
from .live_cluster import TIMEOUT_S, LiveCluster

_NOT_FOUND, _FAILURE = 404, 500

_SHAPES: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}

T = TypeVar("T")


class RestClient:
    """Reads one cluster, given as a source of answers or as the address of its web interface.

    Attributes:
        url: The address, or the file of a recording, as messages name it.
        missing: Paths that the cluster did not have, or at which it failed.
        past: The time of the figures; None: now.

    Raises:
        FlinkRestError: the address is malformed.
    """

    def __init__(self, cluster: str | Answers, *, timeout_s: float = TIMEOUT_S) -> None:
        self._answers: Answers = (
            LiveCluster(cluster, timeout_s=timeout_s) if isinstance(cluster, str) else cluster
        )
        self.url = self._answers.name
        self.missing: list[str] = []
        self.past = self._answers.past
        self.pause = self._answers.pause
        self.clock = self._answers.clock
        self._path = ""
        self._has_batches = True

    def get(self, path: str) -> dict[str, Any]:
        """Return the object at a path that every cluster has.

        Raises:
            FlinkRestError: there is no answer, or it does not come from Flink.
        """
        answer = self.answer(path)
        if isinstance(answer, Refused):
            if answer.code != _NOT_FOUND:
                raise answer.error(f"{self.url}: {path}")
            raise FlinkRestError(
                f"{self.url}: has no {path}. Check that this is the address of a Flink cluster's REST API."
            )
        return self._of_shape(dict, answer)

    def find(self, path: str, *, may_be_gone: bool = False) -> dict[str, Any] | None:
        """Return the object at a path; None if the cluster does not have it, or fails to answer.

        With `may_be_gone`, as for an old checkpoint, `missing` does not list an absent path.

        Raises:
            FlinkRestError: there is no answer, or it does not come from Flink.
        """
        (found,) = self.find_all([path], may_be_gone=may_be_gone)
        return found

    def find_all(self, paths: Sequence[str], *, may_be_gone: bool = False) -> Iterator[dict[str, Any] | None]:
        """Yield the objects at several paths, as `find` returns them. `clock` returns the time of each."""
        for answer in self._found(paths, may_be_gone=may_be_gone):
            yield None if answer is None else self._of_shape(dict, answer)

    def find_list(self, path: str, *, may_be_gone: bool = False) -> list[dict[str, Any]] | None:
        """Return the list of objects at a path. It returns None, or raises errors, in the same cases as
        `find`.
        """
        (found,) = self.find_lists([path], may_be_gone=may_be_gone)
        return found

    def find_lists(
        self, paths: Sequence[str], *, may_be_gone: bool = False, may_be_denied: bool = False
    ) -> Iterator[list[dict[str, Any]] | None]:
        """Yield the lists at several paths, as `find_list` returns them.

        With `may_be_denied`, a denied path, as by a proxy, counts as missing.
        """
        for answer in self._found(paths, may_be_gone=may_be_gone, may_be_denied=may_be_denied):
            yield None if answer is None else self._list_of_objects(answer)

    def subtask_metrics(
        self, vertex: str, names: Mapping[int, Sequence[str]]
    ) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield the values of the metrics of each subtask of a vertex, unless they are unknown.

        `vertex` is the path of the vertex, and `names` has those of the metrics of each subtask. Subtasks
        are requested one by one if the cluster, like a recording, has no answers for several.

        Raises:
            FlinkRestError: there is no answer, or it does not come from Flink.
        """
        left = dict(names)
        if self._has_batches:
            requests = list(batches(vertex, names))
            answers = self._answers.answer_all([request.path for request in requests])
            for request, answer in zip(requests, answers, strict=True):
                if isinstance(answer, Refused) and answer.code == _NOT_FOUND:
                    self._has_batches = False
                    break
                for subtask in request.names:
                    del left[subtask]
                if (found := self._checked(request.path, answer)) is not None:
                    yield from request.split(self._list_of_objects(found)).items()
        single = [
            f"{subtask_path(vertex, subtask)}{WITH_VALUES}{','.join(wanted)}"
            for subtask, wanted in left.items()
        ]
        for subtask, entries in zip(left, self.find_lists(single), strict=True):
            if entries is not None:
                yield subtask, entries

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Translate the exceptions of code that evaluates answers.

        Raises:
            FlinkRestError: an answer does not have the layout that Flink documents.
        """
        try:
            yield
        except InputError:
            raise
        except KeyError as error:
            raise self._not_flink(f"an answer has no {error}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._not_flink("an answer does not have the documented values") from error

    def _not_flink(self, what: str) -> FlinkRestError:
        return FlinkRestError(f"{self.url}: {self._path}: does not answer as Flink's REST API does: {what}")

    def _of_shape(self, shape: type[T], answer: object) -> T:
        if not isinstance(answer, shape):
            raise self._not_flink(f"there is {_SHAPES[type(answer)]} in place of {_SHAPES[shape]}")
        return answer

    def _list_of_objects(self, answer: object) -> list[dict[str, Any]]:
        return [self._of_shape(dict, entry) for entry in self._of_shape(list, answer)]

    def _found(
        self, paths: Sequence[str], *, may_be_gone: bool, may_be_denied: bool = False
    ) -> Iterator[Any | None]:
        for path, answer in zip(paths, self._answers.answer_all(paths), strict=True):
            yield self._checked(path, answer, may_be_gone=may_be_gone, may_be_denied=may_be_denied)

    def _checked(
        self, path: str, answer: Any | Refused, *, may_be_gone: bool = False, may_be_denied: bool = False
    ) -> Any | None:
        self._path = path
        if not isinstance(answer, Refused):
            return answer
        is_gone = answer.code == _NOT_FOUND
        is_denied = not is_gone and answer.code < _FAILURE
        if is_denied and not may_be_denied:
            raise answer.error(f"{self.url}: {path}")
        if not (is_gone and may_be_gone):
            self.missing.append(path)
        return None

    def answer(self, path: str) -> Any | Refused:
        """Return the answer at a path, of any shape, or the refusal.

        Raises:
            FlinkRestError: there is no answer.
        """
        self._path = path
        return self._answers.answer(path)
