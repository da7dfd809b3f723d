"""Polls of a job after its import.

A poll requests the values of every subtask. Rates are over the polls of the last minute. Metrics change only
once per update interval of Flink. Until the polls have seen a change, the samples of the import are used.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from netstack import CheckpointResult

from ..base.errors import FlinkRestError, JobWentError, NotRunningError
from .http.answers import Answers
from .http.client import RestClient
from .importing import Imported
from .read.checkpoints import read_checkpoints
from .read.job import FlinkJob
from .read.job_state import ENDED, RUNNING, running_since_ms
from .read.measurements import Measured, measured
from .read.polling import AT_BEGIN, Polled, metric_fields, poll, subtasks_in_detail
from .read.running_tasks import check_counts
from .read.samples import Round, Samples, samples_of, stands_still

WINDOW_S = 60.0
"""Period in seconds over which rates are measured."""


class JobWatch:
    """Polls a job that has been imported from a cluster."""

    def __init__(self, cluster: Answers, imported: Imported) -> None:
        self._cluster = cluster
        self._job, self._state = imported.job, imported.state
        self._samples: Samples = imported.samples
        self._checkpoints: dict[int, CheckpointResult | None] = {
            checkpoint.id: checkpoint for checkpoint in imported.measured.checkpoints
        }
        self._polled = Polled(fields={}, in_detail=subtasks_in_detail(imported.job))
        self._rounds: deque[tuple[float, Round]] = deque()
        self._advanced = False

    def poll(self) -> Measured:
        """Return the present figures of the job.

        Raises:
            JobWentError: the imported job has ended or restarted.
            NotRunningError: the job is not running at the moment.
            FlinkRestError: the cluster cannot be read.
        """
        client = RestClient(self._cluster)
        with client.reading():
            job = self._same_job(client)
            if not any(self._polled.fields.values()):
                fields = metric_fields(client, job, lambda: None)
                self._polled = replace(self._polled, fields=fields)
            self._rounds.append((client.clock(), poll(client, job, self._polled, AT_BEGIN)))
            while self._rounds[-1][0] - self._rounds[0][0] > WINDOW_S:
                self._rounds.popleft()
            rounds = [round_ for _, round_ in self._rounds]
            samples = samples_of(rounds, job)
            self._advanced = self._advanced or (len(rounds) > 1 and not stands_still(samples))
            if self._advanced:
                self._samples = samples
            try:
                check_counts(client, job, self._state, rounds)
            except FlinkRestError as error:
                raise JobWentError(*error.notes) from None
            checkpoints = read_checkpoints(client, job, self._checkpoints)
            return measured(client.url, job, self._samples, checkpoints)

    def _same_job(self, client: RestClient) -> FlinkJob:
        """Return the job with its present age, if it has not changed."""
        job, url = self._job, client.url
        jobs = {entry["jid"]: entry["state"] for entry in client.get("/jobs/overview")["jobs"]}
        state = jobs.get(job.id)
        if state is None:
            raise JobWentError(f"{url}: job {job.id} is no longer known to the cluster")
        if state in ENDED:
            raise JobWentError(f"{url}: job {job.id} became {state}")
        if state != RUNNING:
            raise NotRunningError(f"{url}: job {job.id} is {state}")
        details = client.get(f"/jobs/{job.id}")
        if running_since_ms(details) != job.running_since_ms:
            raise JobWentError(f"{url}: job {job.id} restarted after it was read")
        parallelism = {entry["id"]: entry["parallelism"] for entry in details["vertices"]}
        if parallelism != {vertex.id: vertex.parallelism for vertex in job.vertices}:
            raise JobWentError(f"{url}: job {job.id} now has other vertices or another parallelism")
        return replace(job, age_s=max(0.0, (details["now"] - job.running_since_ms) / 1e3))
