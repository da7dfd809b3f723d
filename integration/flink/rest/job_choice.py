"""Which of a cluster's jobs is meant, by ``/jobs/overview``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import FlinkRestError
from .client import RestClient

RUNNING = "RUNNING"

ENDED = frozenset({"CANCELED", "FAILED", "FINISHED"})
"""States that a job does not leave (JobStatus.isGloballyTerminalState)."""

_MOST_SHOWN = 20
"""Jobs that a message names."""

_Jobs = Sequence[dict[str, Any]]


def running_job(client: RestClient, job: str | None) -> str:
    """Return the id of the job to read: the one that is named, or the only one, and it runs.

    Raises:
        FlinkRestError: it does not run, or which one is meant is not clear.
    """
    jobs = _listed(client)
    if job is not None:
        named = [entry for entry in jobs if entry["jid"] == job]
        if not named:
            raise FlinkRestError(f"{client.url}: has no job {job}; {_known(jobs)}")
        if named[0]["state"] != RUNNING:
            raise FlinkRestError(
                f"{client.url}: job {job} is {named[0]['state']}; only a running job shows its load"
                f"{_advice(named)}"
            )
        return job
    running = [entry for entry in jobs if entry["state"] == RUNNING]
    if not running:
        raise FlinkRestError(f"{client.url}: no job is running; {_known(jobs)}{_advice(jobs)}")
    if len(running) > 1:
        raise FlinkRestError(
            f"{client.url}: {len(running)} jobs are running; name one by --job: {_ids(running)}"
        )
    return str(running[0]["jid"])


def ended_job(client: RestClient, job: str | None) -> str | None:
    """Return the id of the job that is meant if it has ended; None: it has not, or is not there.

    Raises:
        FlinkRestError: no job runs, several have ended, and none was named.
    """
    jobs = _listed(client)
    ended = [entry for entry in jobs if entry["state"] in ENDED]
    if job is not None:
        return job if any(entry["jid"] == job for entry in ended) else None
    if len(ended) < len(jobs) or not ended:
        return None
    if len(ended) > 1:
        raise FlinkRestError(f"{client.url}: no job is running; name one by --job: {_ids(ended)}")
    return str(ended[0]["jid"])


def known_jobs(client: RestClient) -> str:
    """Return in words which jobs a cluster has now."""
    return _known(_listed(client))


def _listed(client: RestClient) -> _Jobs:
    jobs: _Jobs = client.get("/jobs/overview")["jobs"]
    return jobs


def _advice(jobs: _Jobs) -> str:
    """Return advice for jobs of which none runs."""
    if any(entry["state"] in ENDED for entry in jobs):
        return "; what is left of one that ended is for netstack diagnose --from-flink"
    return "; try again once it runs" if jobs else ""


def _known(jobs: _Jobs) -> str:
    return f"there are {_ids(jobs)}" if jobs else "there is none at all"


def _ids(jobs: _Jobs) -> str:
    shown = ", ".join(f"{entry['jid']} ({entry['name']}, {entry['state']})" for entry in jobs[:_MOST_SHOWN])
    return shown if len(jobs) <= _MOST_SHOWN else f"{shown} and {len(jobs) - _MOST_SHOWN} more"
