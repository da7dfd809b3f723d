"""The state of a job, and the check that it did not change while the job was read.

Flink's paths: ``/config``, ``/jobs/overview``, ``/jobs/ID``, ``/jobs/ID/vertices/V``, ``/taskmanagers``,
``/taskmanagers/ID``.

Reading a job takes hundreds of requests in half a minute or more. Meanwhile the job may end, restart, or be
rescaled. Flink gives each start of a job a new time in ``timestamps.RUNNING``, and each start of a subtask a
new attempt number. A lost task manager is no longer in ``/taskmanagers``. Another job manager may have
another version. All this is read first, and again at the end, when the cluster's cached answers
(``refresh-interval`` of ``/config``) have expired. A difference aborts the import. The same comparison is
made after any other failure, because an invalid answer usually means that the job has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from netstack import InputError

from ...base.errors import EndedJobError, FlinkRestError, Note, Parameter
from ..http.answers import number
from ..http.client import RestClient

RUNNING = "RUNNING"

ENDED = frozenset({"CANCELED", "FAILED", "FINISHED"})
"""Terminal states of a job (JobStatus.isGloballyTerminalState)."""

MOST_VERTICES = 1000
"""Maximum number of vertices of a job; large jobs have some hundreds."""

_LONGEST_REFRESH_S = 10.0
_MOST_SHOWN = 20
_TRY_AGAIN = "Try again once it runs steadily."

_Entry = Mapping[str, Any]
_Jobs = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The state of a job, for detecting changes later. Answers are stored as received."""

    id: str
    version: str
    """Flink's version, such as "2.2.1"."""
    details: _Entry
    """Answer to ``/jobs/ID``."""
    vertices: Mapping[str, _Entry]
    """Answers to ``/jobs/ID/vertices/V`` by vertex id; empty if there was no answer."""
    managers: Mapping[str, _Entry]
    """Answers to ``/taskmanagers/ID`` by id; empty if the task manager of a subtask is not reported."""
    refresh_s: float
    """Seconds for which the cluster may answer from its cache."""
    asked_s: float
    """Time at which the state was requested, in seconds by the client's clock."""

    @property
    def running_since_ms(self) -> float:
        """Start of the run, in milliseconds of the cluster's clock."""
        return running_since_ms(self.details)

    def subtasks(self, vertex: str) -> list[_Entry]:
        """Return the answers about the subtasks of a vertex, in order; empty without an answer."""
        return sorted(self.vertices[vertex].get("subtasks", ()), key=lambda subtask: subtask["subtask"])


def running_since_ms(details: _Entry) -> float:
    """Return the start of a run in ms of the cluster's clock, from an answer to ``/jobs/ID``."""
    since_ms: float = details.get("timestamps", {}).get(RUNNING) or details["start-time"]
    return since_ms


# Choice of a job


def ended_job(client: RestClient, job: str | None) -> str | None:
    """Return the id of the selected job if it has ended; None if it is running or does not exist.

    Raises:
        FlinkRestError: no job is running, several have ended, and `job` is None.
    """
    jobs: _Jobs = client.get("/jobs/overview")["jobs"]
    ended = [entry for entry in jobs if entry["state"] in ENDED]
    if job is not None:
        return job if any(entry["jid"] == job for entry in ended) else None
    if len(ended) < len(jobs) or not ended:
        return None
    if len(ended) > 1:
        raise FlinkRestError(_choose_one(f"{client.url}: no job is running.", ended))
    return str(ended[0]["jid"])


def _running_job(client: RestClient, job: str | None) -> str:
    jobs: _Jobs = client.get("/jobs/overview")["jobs"]
    running = [entry for entry in jobs if entry["state"] == RUNNING]
    if job is None:
        if len(running) == 1:
            return str(running[0]["jid"])
        if running:
            raise FlinkRestError(_choose_one(f"{client.url}: {len(running)} jobs are running.", running))
        raise _not_running(f"{client.url}: no job is running; {_known(jobs)}.", jobs)
    named = [entry for entry in jobs if entry["jid"] == job]
    if not named:
        raise FlinkRestError(f"{client.url}: has no job {job}; {_known(jobs)}.")
    state = named[0]["state"]
    if state != RUNNING:
        text = f"{client.url}: job {job} is {state}; only a running job shows its load."
        raise _not_running(text, named)
    return job


def _not_running(text: str, jobs: _Jobs) -> FlinkRestError:
    """Return the error about jobs that do not run."""
    if any(entry["state"] in ENDED for entry in jobs):
        return EndedJobError(text)
    return FlinkRestError(f"{text} Try again once it runs." if jobs else text)


def _choose_one(text: str, jobs: _Jobs) -> Note:
    listed = _listed(jobs).replace("{", "{{").replace("}", "}}")
    return Note(text, Parameter("job"), advice=f"Set {{}} to one of these: {listed}")


def _known(jobs: _Jobs) -> str:
    return f"the cluster has {_listed(jobs)}" if jobs else "the cluster has no jobs"


def _listed(jobs: _Jobs) -> str:
    shown = ", ".join(f"{entry['jid']} ({entry['name']}, {entry['state']})" for entry in jobs[:_MOST_SHOWN])
    return shown if len(jobs) <= _MOST_SHOWN else f"{shown} and {len(jobs) - _MOST_SHOWN} more"


# Reading


def read_running(client: RestClient, job: str | None) -> JobState:
    """Return the state of the job with that id, or of the only running job.

    Raises:
        FlinkRestError: the cluster cannot be read, or the job or one of its vertices does not run.
    """
    version, refresh_s = _version_and_refresh(client)
    state = _read_state(client, _running_job(client, job), version, refresh_s)
    for entry in state.details["vertices"]:
        if entry["status"] != RUNNING:
            raise FlinkRestError(
                f"{client.url}: job {state.id}: {entry['name']!r} is {entry['status']}. "
                "Wait until all vertices run."
            )
    return state


def read_ended(client: RestClient, job: str) -> JobState:
    """Return the last state of a job that has ended.

    Raises:
        FlinkRestError: the cluster cannot be read.
    """
    return _read_state(client, job, *_version_and_refresh(client), with_managers=False)


def _version_and_refresh(client: RestClient) -> tuple[str, float]:
    """Return Flink's version, and the seconds for which it caches answers; 0 if not reported."""
    answer = client.get("/config")
    version, refresh_ms = answer.get("flink-version"), number(answer.get("refresh-interval"))
    if not version or not isinstance(version, str):
        raise FlinkRestError(
            f"{client.url}: does not report its version of Flink. "
            "Check that this is the address of Flink's REST API."
        )
    return version, min(max(refresh_ms or 0.0, 0.0) / 1e3, _LONGEST_REFRESH_S)


def _read_state(
    client: RestClient, job: str, version: str, refresh_s: float, *, with_managers: bool = True
) -> JobState:
    details = client.find(f"/jobs/{job}", may_be_gone=True)
    if details is None:
        raise FlinkRestError(f"{client.url}: {_unknown(client, job)}")
    if (count := len(details["vertices"])) > MOST_VERTICES:
        raise FlinkRestError(
            f"{client.url}: job {job}: has {count:,} vertices; at most {MOST_VERTICES:,} are read."
        )
    ids = [entry["id"] for entry in details["vertices"]]
    answers = client.find_all([f"/jobs/{job}/vertices/{vertex}" for vertex in ids])
    vertices = {vertex: answer or {} for vertex, answer in zip(ids, answers, strict=True)}
    managers = dict.fromkeys(
        subtask.get("taskmanager-id")
        for answer in vertices.values()
        for subtask in answer.get("subtasks", ())
    )
    known = [] if None in managers or not with_managers else list(map(str, managers))
    about = client.find_all([f"/taskmanagers/{manager}" for manager in known])
    return JobState(
        id=job,
        version=version,
        details=details,
        vertices=vertices,
        managers={manager: answer or {} for manager, answer in zip(known, about, strict=True)},
        refresh_s=refresh_s,
        asked_s=client.clock(),
    )


# Changes of the job


@contextmanager
def unchanged(client: RestClient, state: JobState, pause: Callable[[float], None]) -> Iterator[None]:
    """Require that a job is still in this state at the end of the block. `pause` waits until the cluster's
    cached answers have expired.

    Raises:
        FlinkRestError: the state has changed, there is no answer, or it does not come from Flink.
        ScenarioError: the block raised it, and the job has not changed.
    """
    try:
        with client.reading():
            yield
    except InputError as error:
        try:
            with client.reading():
                changed = _change(client, state)
        except FlinkRestError:  # report the first error, which says what is wrong
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


def restarted(job: str, detail: str = "") -> str:
    """Return the message for a job that restarted while it was read."""
    return f"job {job} restarted while it was watched{detail}. {_TRY_AGAIN}"


def _unknown(client: RestClient, job: str) -> str:
    jobs = client.get("/jobs/overview")["jobs"]
    return (
        f"while job {job} was watched, the cluster stopped reporting it; {_known(jobs)}. Only a job "
        "that keeps running shows its load."
    )


def _change(client: RestClient, before: JobState) -> str | None:
    """Return a message about a change of the job since the state `before`, with advice; None: it has not
    changed. If a change has a cause and effects, the message is about the cause.
    """
    version, refresh_s = _version_and_refresh(client)
    details = client.find(f"/jobs/{before.id}", may_be_gone=True)
    if version != before.version:
        return f"changed from Flink {before.version} to Flink {version} while it was read. Try again."
    if details is None:
        return _unknown(client, before.id)
    if (state := details.get("state", RUNNING)) != RUNNING:
        return (
            f"job {before.id} became {state} while it was watched; only a job that keeps running shows "
            f"its load. {_TRY_AGAIN}"
        )
    after = _read_state(client, before.id, version, refresh_s, with_managers=False)
    if before.vertices.keys() != after.vertices.keys():
        return f"the vertices of job {before.id} changed while it was read. {_TRY_AGAIN}"
    was = {entry["id"]: entry["parallelism"] for entry in before.details["vertices"]}
    for entry in after.details["vertices"]:
        if entry["parallelism"] != was[entry["id"]]:
            counts = f"{entry['parallelism']} subtasks instead of {was[entry['id']]}"
            return restarted(before.id, f", and {entry['name']!r} now has {counts}")
    if before.running_since_ms != after.running_since_ms:
        return restarted(before.id)
    for entry in after.details["vertices"]:
        if entry["status"] != RUNNING:
            return (
                f"{entry['name']!r} of job {before.id} became {entry['status']} while it was watched; "
                "only a job whose vertices all keep running shows its load."
            )
    for entry in after.details["vertices"]:
        if (change := _change_of_subtasks(entry, before, after)) is not None:
            return change
    present = _present(client, before.managers)
    for manager, answer in before.managers.items():
        if bool(answer) != (manager in present):
            what = "has disappeared" if answer else "has appeared"
            return f"job {before.id}: task manager {manager} {what} while it was watched. {_TRY_AGAIN}"
    return None


def _present(client: RestClient, managers: Mapping[str, _Entry]) -> set[str]:
    """Return those of the task managers that the cluster still has.

    The list of all shows this, except for task managers of which the cluster did not report details.
    """
    listed = client.find("/taskmanagers", may_be_gone=True) if any(managers.values()) else None
    present = {entry["id"] for entry in listed["taskmanagers"]} if listed else set()
    asked = [manager for manager, answer in managers.items() if not (answer and listed)]
    about = client.find_all([f"/taskmanagers/{manager}" for manager in asked])
    found = {manager for manager, answer in zip(asked, about, strict=True) if answer}
    return (present - set(asked)) | found


def _change_of_subtasks(vertex: _Entry, before: JobState, after: JobState) -> str | None:
    """Return a message if subtasks of a vertex have restarted, or are not reported in one of the states."""
    starts, starts_now = (_starts(state, vertex["id"]) for state in (before, after))
    if starts == starts_now:
        return None
    subtask = next((number for number in starts if starts_now.get(number) != starts[number]), None)
    if subtask is None or not starts_now:
        return f"job {before.id}: the subtasks of {vertex['name']!r} are not always reported. {_TRY_AGAIN}"
    return (
        f"job {before.id}: subtask {subtask} of {vertex['name']!r} restarted while it was watched. "
        f"{_TRY_AGAIN}"
    )


def _starts(state: JobState, vertex: str) -> dict[int, tuple[object, ...]]:
    """Return the attempt, the task manager and the start time of each subtask."""
    keys = ("attempt", "taskmanager-id", "start-time")
    return {entry["subtask"]: tuple(map(entry.get, keys)) for entry in state.subtasks(vertex)}
