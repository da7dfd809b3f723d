"""A job that was imported, looked at again and again: what it shows now, or why it is no longer that job.

A look asks every subtask once. Rates are over the looks of the last minute; until these have seen the
metrics change, which takes as long as Flink updates them, the answers of the import stand in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from netstack import CheckpointResult

from ...errors import FlinkRestError, JobWentError, NotRunningError
from .answers import Answers
from .client import RestClient
from .cluster_job import FlinkJob
from .importing import Imported
from .job_choice import ENDED, RUNNING
from .job_state import since
from .measured import Measured, measured, read_checkpoints
from .sampling import MetricNames, Samples, ask_all, gathered, metric_names, stands_still
from .steady_tasks import Round, check_counts
from .topology import vertex_names

WINDOW_S = 60.0
"""How far back the rates of a look go."""


class JobWatch:
    """Looks at an imported job of a cluster."""

    def __init__(self, cluster: Answers, imported: Imported) -> None:
        self._cluster = cluster
        self._job, self._state = imported.job, imported.state
        self._vertices = vertex_names(imported.job.vertices)
        self._samples: Samples = imported.samples
        self._checkpoints: dict[int, CheckpointResult | None] = {
            checkpoint.id: checkpoint for checkpoint in imported.measured.checkpoints
        }
        self._metrics: MetricNames = {}
        self._rounds: deque[tuple[float, Round]] = deque()
        self._moved = False

    def look(self) -> Measured:
        """Return what the job shows now.

        Raises:
            JobWentError: it is no longer the job that was imported.
            NotRunningError: it does not run at the moment.
            FlinkRestError: the cluster cannot be read.
        """
        client = RestClient(self._cluster)
        with client.reading():
            job = self._still_the_job(client)
            self._ask(client, job)
            try:
                check_counts(client, job, self._state, [answers for _, answers in self._rounds])
            except FlinkRestError as error:
                raise JobWentError(*error.problems) from None
            checkpoints = read_checkpoints(client, job, self._vertices, self._checkpoints)
            return measured(client.url, job, self._vertices, self._samples, checkpoints)

    def _ask(self, client: RestClient, job: FlinkJob) -> None:
        if not any(self._metrics.values()):
            self._metrics = metric_names(client, job, lambda: None)
        self._rounds.append((client.clock(), ask_all(client, job, self._metrics, client.clock)))
        while self._rounds[-1][0] - self._rounds[0][0] > WINDOW_S:
            self._rounds.popleft()
        samples = gathered([answers for _, answers in self._rounds], job)
        self._moved = self._moved or (len(self._rounds) > 1 and not stands_still(samples))
        if self._moved:
            self._samples = samples

    def _still_the_job(self, client: RestClient) -> FlinkJob:
        """What the cluster says of the job now, if it is the same."""
        job, url = self._job, client.url
        jobs = {entry["jid"]: entry["state"] for entry in client.get("/jobs/overview")["jobs"]}
        state = jobs.get(job.id)
        if state is None:
            raise JobWentError(f"{url}: job {job.id} is unknown to the cluster now")
        if state in ENDED:
            raise JobWentError(f"{url}: job {job.id} has become {state}")
        if state != RUNNING:
            raise NotRunningError(f"{url}: job {job.id} is {state}")
        details = client.get(f"/jobs/{job.id}")
        if since(details) != job.running_since_ms:
            raise JobWentError(f"{url}: job {job.id} has restarted since it was read")
        if _parallelisms(details) != {vertex.id: vertex.parallelism for vertex in job.vertices}:
            raise JobWentError(f"{url}: job {job.id} has other vertices or another parallelism now")
        return replace(job, age_s=max(0.0, (details["now"] - job.running_since_ms) / 1e3))


def _parallelisms(details: Mapping[str, Any]) -> dict[str, int]:
    return {entry["id"]: entry["parallelism"] for entry in details["vertices"]}
