"""A cluster whose figures are those of an earlier time, which Prometheus has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, get_args

from ...base.errors import FlinkRestError, Note, Parameter, ParameterName
from .access import ANONYMOUS, Access
from .answers import Answers, Past, Refused
from .live_cluster import Api, LiveCluster

OF_PROMETHEUS = "/api/v1/"
"""Beginning of the paths of Prometheus's API. No path of Flink's begins so, but those of uploaded jars."""

_API = Api("Prometheus", "a Prometheus", "http://HOST:9090")

_TIMEOUT_S = 30.0
"""Time limit of one answer. A query over many subtasks takes longer than an answer of Flink."""


class PrometheusServer(LiveCluster):
    """Answers of a Prometheus, with errors that name the parameters of its own credentials.

    Raises:
        FlinkRestError: the address is malformed, or contains a name or password.
    """

    def __init__(self, url: str, access: Access = ANONYMOUS, *, timeout_s: float = _TIMEOUT_S) -> None:
        with of_metrics():
            super().__init__(url, access, timeout_s=timeout_s, api=_API)

    def answer(self, path: str) -> Any | Refused:
        """Return the answer of Prometheus.

        Raises:
            FlinkRestError: there is no answer, access is denied, or the answer is not JSON.
        """
        with of_metrics():
            answer = super().answer(path)
        if not isinstance(answer, Refused):
            return answer
        text = answer.text if isinstance(answer.text, Note) else Note(answer.text)
        return Refused(answer.code, text.replacing(_of_prometheus).after(f"{self.name}: "))


class PastCluster(Answers):
    """A cluster with the figures of an earlier time. `metrics` answers the paths of Prometheus's API."""

    def __init__(self, cluster: Answers, metrics: Answers, past: Past) -> None:
        self.name = cluster.name
        self.past: Past | None = past
        self._cluster = cluster
        self._metrics = metrics

    def answer(self, path: str) -> Any | Refused:
        """Return the answer of the cluster or of Prometheus.

        Raises:
            FlinkRestError: there is no answer, access is denied, or the answer is not JSON.
        """
        source = self._metrics if path.startswith(OF_PROMETHEUS) else self._cluster
        return source.answer(path)

    def answer_all(self, paths: Sequence[str]) -> Iterator[Any | Refused]:
        """Yield the answers to several paths, together if all are of the cluster."""
        if any(path.startswith(OF_PROMETHEUS) for path in paths):
            return super().answer_all(paths)
        return self._cluster.answer_all(paths)

    def pause(self, seconds: float) -> None:
        """Wait as the cluster does."""
        self._cluster.pause(seconds)

    def clock(self) -> float:
        """Return the time of the last answer of the cluster."""
        return self._cluster.clock()


@contextmanager
def of_metrics() -> Iterator[None]:
    """Rename the parameters of access in errors of the block to those for Prometheus.

    Raises:
        FlinkRestError: the block raised one.
    """
    try:
        yield
    except FlinkRestError as error:
        notes = [note.replacing(_of_prometheus) if isinstance(note, Note) else note for note in error.notes]
        raise FlinkRestError(*notes) from None


def _of_prometheus(parameter: Parameter) -> Parameter:
    name = next((each for each in get_args(ParameterName) if each == f"metrics_{parameter.name}"), None)
    return parameter if name is None else parameter._replace(name=name)
