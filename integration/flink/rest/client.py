"""What answers to Flink's paths, taken apart, and everything that can go wrong on the way.

An error names the address and what would help. A path that the cluster does not have (a 404), or at which it
fails (a 500 or above), is no error of the whole: it costs what it would have told, and `RestClient.missing`
says which paths these were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from netstack import InputError

from ...errors import FlinkRestError
from .answers import Answers, Refused
from .live_cluster import TIMEOUT_S, LiveCluster

__all__ = ["FlinkRestError", "RestClient"]

NOT_FOUND = 404

FAILURE = 500
"""From this status on, a cluster fails at what it was asked."""

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
    """Reads one cluster: what answers, or the address of its web interface.

    Raises:
        FlinkRestError: the address is none.
    """

    def __init__(self, cluster: str | Answers, *, timeout_s: float = TIMEOUT_S) -> None:
        self._answers: Answers = (
            LiveCluster(cluster, timeout_s=timeout_s) if isinstance(cluster, str) else cluster
        )
        self.url = self._answers.name
        """How the cluster is called wherever it is spoken of."""
        self.missing: list[str] = []
        """Paths that the cluster did not have, or at which it failed."""
        self.pause = self._answers.pause
        self.clock = self._answers.clock
        self._asked = ""

    def get(self, path: str) -> dict[str, Any]:
        """Return the object that answers a path which every cluster has.

        Raises:
            FlinkRestError: nobody answers, or not as Flink does.
        """
        answer = self._ask(path)
        if isinstance(answer, Refused):
            if answer.code != NOT_FOUND:
                raise FlinkRestError(f"{self.url}: {path}: {answer.text}")
            raise FlinkRestError(
                f"{self.url}: has no {path}; is this the address of a Flink cluster's REST API?"
            )
        return self._of_shape(dict, path, answer)

    def find(self, path: str, *, may_be_gone: bool = False) -> dict[str, Any] | None:
        """Return the object that answers a path, None where the cluster does not have it, or fails at it.

        What may be gone because it is old does not count as missing.

        Raises:
            FlinkRestError: nobody answers, or not as Flink does.
        """
        answer = self._found(path, may_be_gone)
        return None if answer is None else self._of_shape(dict, path, answer)

    def find_list(
        self, path: str, *, may_be_gone: bool = False, may_be_denied: bool = False
    ) -> list[dict[str, Any]] | None:
        """Return the list of objects that answers a path; None, and errors, as with `find`.

        What one can do without may be denied, as by a proxy: that counts as missing.
        """
        answer = self._found(path, may_be_gone, may_be_denied)
        if answer is None:
            return None
        return [self._of_shape(dict, path, entry) for entry in self._of_shape(list, path, answer)]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While answers are taken apart: one that is not what Flink's REST API documents ends it.

        Raises:
            FlinkRestError: in place of the errors that such an answer causes.
        """
        try:
            yield
        except InputError:
            raise
        except KeyError as error:
            raise self._not_flink(f"an answer has no {error}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._not_flink("an answer has not the values that are documented") from error

    def _not_flink(self, what: str) -> FlinkRestError:
        return FlinkRestError(f"{self.url}: {self._asked}: does not answer as Flink's REST API does: {what}")

    def _of_shape(self, shape: type[T], path: str, answer: object) -> T:
        if not isinstance(answer, shape):
            is_, right = _SHAPES[type(answer)], _SHAPES[shape]
            raise self._not_flink(f"where {right} should be is {is_}")
        return answer

    def _found(self, path: str, may_be_gone: bool = False, may_be_denied: bool = False) -> Any | None:
        answer = self._ask(path)
        if not isinstance(answer, Refused):
            return answer
        if answer.code != NOT_FOUND and answer.code < FAILURE and not may_be_denied:
            raise FlinkRestError(f"{self.url}: {path}: {answer.text}")
        self.missing += [] if may_be_gone and answer.code == NOT_FOUND else [path]
        return None

    def _ask(self, path: str) -> Any | Refused:
        self._asked = path
        return self._answers.answer(path)
