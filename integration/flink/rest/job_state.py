"""What has to stay as it is while a job is read, for all that was read to be of one state of it.

To read a job takes hundreds of requests in half a minute or more. Meanwhile it may end, restart, or be
rescaled. Flink gives each start of a job a new time in ``timestamps.RUNNING``, and each start of a subtask a
new number of its attempt; of a task manager that was lost it has no ``/taskmanagers/ID`` any more, and where
another job manager answers, its version may be another one. All this is asked before anything else, and once
more after it, when what the cluster keeps to answer with (``refresh-interval`` of ``/config``) is new; what
differs ends the reading. Where reading fails for another reason, it is asked as well, for an answer that
makes no sense is mostly one of another state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from netstack import InputError

from ...errors import FlinkRestError
from .answers import number
from .client import RestClient
from .job_choice import RUNNING, known_jobs, running_job

_AGAIN = "try again once it runs steadily"

_LONGEST_REFRESH_S = 10.0

MOST_VERTICES = 1000
"""Vertices of the largest job that is read; those of large jobs are some hundreds."""

_Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What a cluster says of the state of one of its jobs; answers are as they came."""

    id: str
    version: str
    """Of Flink, such as "2.2.1"."""
    details: _Answer
    """Of ``/jobs/ID``."""
    vertices: Mapping[str, _Answer]
    """Of ``/jobs/ID/vertices/V`` by the vertex's id; empty of one that does not answer."""
    managers: Mapping[str, _Answer]
    """Of ``/taskmanagers/ID`` by the id, likewise; none where it is not told in which each subtask runs."""
    refresh_s: float
    """For so long the cluster may answer with what was so."""
    asked_s: float
    """When that was, by the clock of the client."""

    @property
    def running_since_ms(self) -> float:
        """When the job began to run, in milliseconds of the cluster's clock."""
        return since(self.details)

    def subtasks(self, vertex: str) -> list[_Answer]:
        """What a vertex says of its subtasks, in order; nothing where it does not answer."""
        return sorted(self.vertices[vertex].get("subtasks", ()), key=lambda subtask: subtask["subtask"])


def since(details: _Answer) -> float:
    """Return when the job of an answer to ``/jobs/ID`` began to run, in ms of the cluster's clock."""
    began_ms: float = details.get("timestamps", {}).get(RUNNING) or details["start-time"]
    return began_ms


def read_running(client: RestClient, job: str | None) -> JobState:
    """Return the state of the job of that id, or of the only one that runs.

    Raises:
        FlinkRestError: the cluster cannot be read, or the job does not run, or not in all of its vertices.
    """
    version, refresh_s = _version_and_refresh(client)
    state = _asked(client, running_job(client, job), version, refresh_s)
    for entry in state.details["vertices"]:
        if entry["status"] != RUNNING:
            raise FlinkRestError(
                f"{client.url}: job {state.id}: {entry['name']!r} is {entry['status']}; "
                "wait until all vertices run"
            )
    return state


def read_ended(client: RestClient, job: str) -> JobState:
    """Return the last state of a job that runs no more.

    Raises:
        FlinkRestError: the cluster cannot be read.
    """
    return _asked(client, job, *_version_and_refresh(client), with_managers=False)


@contextmanager
def unchanged(client: RestClient, state: JobState, pause: Callable[[float], None]) -> Iterator[None]:
    """While a job is read: it has to be in the same state when that is over, and `pause` has waited a little.

    Raises:
        FlinkRestError: it is not, or nobody answers, or not as Flink does.
        ScenarioError: what was read makes no sense, and not for a change.
    """
    try:
        with client.reading():
            yield
    except InputError as error:
        try:
            with client.reading():
                changed = _change(client, state)
        except FlinkRestError:  # nobody answers, or not as Flink does, which is what the first error says
            raise error from None
        if changed is None:
            raise
    else:
        if state.refresh_s:
            pause(state.refresh_s)
        with client.reading():
            changed = _change(client, state)
    if changed is not None:
        raise FlinkRestError(f"{client.url}: {changed}") from None


def restarted(job: str, how: str = "") -> str:
    """Return the words for a job whose counts begin anew in between."""
    return f"job {job} has restarted while it was watched{how}; {_AGAIN}"


def _version_and_refresh(client: RestClient) -> tuple[str, float]:
    """The version of Flink, and for how many seconds it keeps answers; 0 where that is not told."""
    answer = client.get("/config")
    version, refresh_ms = answer.get("flink-version"), number(answer.get("refresh-interval"))
    if not version or not isinstance(version, str):
        raise FlinkRestError(f"{client.url}: does not say which Flink it is; is this its REST API?")
    return version, min(max(refresh_ms or 0.0, 0.0) / 1e3, _LONGEST_REFRESH_S)


def _asked(
    client: RestClient, job: str, version: str, refresh_s: float, *, with_managers: bool = True
) -> JobState:
    details = client.find(f"/jobs/{job}", may_be_gone=True)
    if details is None:
        raise FlinkRestError(f"{client.url}: {_unknown(client, job)}")
    if (number_of := len(details["vertices"])) > MOST_VERTICES:
        raise FlinkRestError(
            f"{client.url}: job {job}: has {number_of:,} vertices; at most {MOST_VERTICES:,} are read"
        )
    vertices = {
        entry["id"]: client.find(f"/jobs/{job}/vertices/{entry['id']}") or {} for entry in details["vertices"]
    }
    named = dict.fromkeys(
        subtask.get("taskmanager-id")
        for answer in vertices.values()
        for subtask in answer.get("subtasks", ())
    )
    asked = () if None in named or not with_managers else map(str, named)
    return JobState(
        id=job,
        version=version,
        details=details,
        vertices=vertices,
        managers={manager: client.find(f"/taskmanagers/{manager}") or {} for manager in asked},
        refresh_s=refresh_s,
        asked_s=client.clock(),
    )


def _unknown(client: RestClient, job: str) -> str:
    return (
        f"job {job} has become unknown to the cluster, or it fails at it, while it was watched; "
        f"{known_jobs(client)}; only a job that keeps running shows its load"
    )


def _change(client: RestClient, before: JobState) -> str | None:
    """What has become of a job since then, and what to do, in a line; None: nothing has."""
    version, refresh_s = _version_and_refresh(client)
    details = client.find(f"/jobs/{before.id}", may_be_gone=True)
    if version != before.version:
        return f"has become Flink {version} while it was read, and was {before.version}; try again"
    if details is None:
        return _unknown(client, before.id)
    state = details.get("state", RUNNING)
    if state != RUNNING:
        return (
            f"job {before.id} has become {state} while it was watched; "
            f"only a job that keeps running shows its load; {_AGAIN}"
        )
    after = _asked(client, before.id, version, refresh_s, with_managers=bool(before.managers))
    return next((told for change in _CHANGES if (told := change(before, after)) is not None), None)


def _other_vertices(before: JobState, after: JobState) -> str | None:
    if before.vertices.keys() == after.vertices.keys():
        return None
    return f"job {before.id} has become another graph of vertices while it was read; {_AGAIN}"


def _rescaled(before: JobState, after: JobState) -> str | None:
    was = {entry["id"]: entry["parallelism"] for entry in before.details["vertices"]}
    for entry in after.details["vertices"]:
        if entry["parallelism"] != was[entry["id"]]:
            return restarted(
                before.id,
                f", and {entry['name']!r} has {entry['parallelism']} subtasks in place of {was[entry['id']]}",
            )
    return None


def _started_again(before: JobState, after: JobState) -> str | None:
    return None if before.running_since_ms == after.running_since_ms else restarted(before.id)


def _vertex_ended(before: JobState, after: JobState) -> str | None:
    for entry in after.details["vertices"]:
        if entry["status"] != RUNNING:
            return (
                f"job {before.id}: {entry['name']!r} has become {entry['status']} while it was watched; "
                "only a job all of whose vertices keep running shows its load"
            )
    return None


def _subtask_started_again(before: JobState, after: JobState) -> str | None:
    for entry in after.details["vertices"]:
        was, is_ = (_starts(state, entry["id"]) for state in (before, after))
        if was != is_:
            which = next((str(number) for number in was if is_.get(number) != was[number]), "")
            return (
                f"job {before.id}: subtask {which} of {entry['name']!r} has started again while it was "
                f"watched; {_AGAIN}"
                if which and is_
                else f"job {before.id}: what it says of the subtasks of {entry['name']!r} came and went "
                f"while it was watched; {_AGAIN}"
            )
    return None


def _starts(state: JobState, vertex: str) -> dict[int, tuple[object, ...]]:
    """Of each subtask which attempt it is, where, and since when."""
    told = ("attempt", "taskmanager-id", "start-time")
    return {entry["subtask"]: tuple(map(entry.get, told)) for entry in state.subtasks(vertex)}


def _managers_came_or_went(before: JobState, after: JobState) -> str | None:
    for manager, answer in before.managers.items():
        if bool(answer) != bool(after.managers.get(manager)):
            what = "is gone" if answer else "has come"
            return f"job {before.id}: task manager {manager} {what} while it was watched; {_AGAIN}"
    return None


_CHANGES: tuple[Callable[[JobState, JobState], str | None], ...] = (
    _other_vertices,
    _rescaled,
    _started_again,
    _vertex_ended,
    _subtask_started_again,
    _managers_came_or_went,
)
"""What may have become of a job, the causes before what follows of them."""
