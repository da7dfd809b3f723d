"""Values of metrics of many subtasks in one request.

``/jobs/J/vertices/V/metrics?get=0.numRecordsIn,1.numRecordsIn`` has the values of several subtasks, with the
number of the subtask before each name. Flink limits the length of a request's first line, so a poll of a
large vertex takes several batches. All values of a subtask are in one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from .answers import WITH_VALUES

_LONGEST_PATH = 3800
"""Maximum length of a path, in bytes.

Flink accepts lines of 4096 bytes (Netty's default), with the method, the version and a proxy's part of the
path.
"""

_VERTICES, _SUBTASKS = "/vertices/", "/subtasks/"


class Batch(NamedTuple):
    """A request for values of several subtasks of a vertex."""

    vertex: str
    """The path of the vertex."""
    names: Mapping[int, Sequence[str]]
    """The names of the metrics of each subtask."""

    @property
    def path(self) -> str:
        """The path of the request."""
        names = (f"{subtask}.{name}" for subtask, names in self.names.items() for name in names)
        return f"{self.vertex}{WITH_VALUES}{','.join(names)}"

    @classmethod
    def of(cls, path: str) -> Batch | None:
        """Return the batch that a path requests; None: the path requests something else."""
        vertex, with_values, listed = path.partition(WITH_VALUES)
        if not with_values or _VERTICES not in vertex or _SUBTASKS in vertex:
            return None
        names: dict[int, list[str]] = {}
        for each in listed.split(","):
            subtask, _, name = each.partition(".")
            names.setdefault(int(subtask), []).append(name)
        return cls(vertex, names)

    def split(self, entries: Sequence[Mapping[str, Any]]) -> dict[int, list[dict[str, Any]]]:
        """Return the entries of an answer by subtask, with the names that they have there."""
        of_subtasks: dict[int, list[dict[str, Any]]] = {subtask: [] for subtask in self.names}
        for entry in entries:
            subtask, _, name = entry["id"].partition(".")
            of_subtasks[int(subtask)].append({**entry, "id": name})
        return of_subtasks


def batches(vertex: str, names: Mapping[int, Sequence[str]]) -> Iterator[Batch]:
    """Yield requests for the given metrics of each subtask of a vertex, which is given by its path."""
    room = _LONGEST_PATH - len(vertex + WITH_VALUES)
    batch: dict[int, Sequence[str]] = {}
    taken = 0
    sizes: dict[tuple[str, ...], int] = {}
    for subtask, each in names.items():
        key = tuple(each)
        if key not in sizes:
            sizes[key] = sum(len(quote(name)) for name in key)
        size = sizes[key] + len(key) * len(f"{subtask}.,")
        if batch and taken + size > room:
            yield Batch(vertex, batch)
            batch, taken = {}, 0
        batch[subtask] = each
        taken += size
    if batch:
        yield Batch(vertex, batch)


def subtask_path(vertex: str, subtask: int) -> str:
    """Return the path of one subtask of a vertex, which is given by its path."""
    return f"{vertex}{_SUBTASKS}{subtask}"
