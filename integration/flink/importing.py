"""Import of a running Flink job: a scenario, its assumptions, and the present figures of the job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from flowcontrol import readable
from netstack import Scenario, Viewed

from ..base.errors import FlinkRestError, Note, Parameter
from .fit.core_notes import core_notes
from .fit.fit_scenario import fit_scenario
from .fit.job_options import EVERYWHERE, Overrides, check_names, input_kinds
from .fit.processor_time import BURN, burning_of
from .fit.steadiness import unsteady
from .fit.union_or_join import with_input_kinds
from .http.client import Answers, RestClient
from .read.cores_in_use import Processors
from .read.job import FlinkJob, JobState, read_job, read_running, unchanged
from .read.measurements import EndedCheckpoints, Measured, measured, read_checkpoints, read_ended_checkpoints
from .read.sampling import Samples, stands_still, take_samples, watch_time_s
from .recording import Recording

_BACK_TO_BACK = 0.7
"""If checkpoints take at least this share of the interval, debloating has little time to recover between
them.
"""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Imported(Viewed):
    """A job read from Flink; `plot` has the picture "task-time".

    `to_pandas` and `to_arrow` have the tables "vertices", "subtasks", "checkpoints", "checkpoint_subtasks"
    and "notes".
    """

    scenario: Scenario
    notes: list[str]
    """Assumptions about unreported values, a line each.

    A `Note` has a parameter that overrides the assumption.
    """
    unsteady: list[str]
    """The notes on rates and queues that changed while the job was read; empty if none did."""
    measured: Measured
    if_cpu_bound: Scenario | None = field(default=None, repr=False)
    """The scenario if its work is CPU-bound, where this is unknown and `scenario` assumes that it waits.

    None: it is known, or makes no difference.
    """
    job: FlinkJob = field(repr=False)
    """The job as the cluster describes it."""
    ended: EndedCheckpoints = field(repr=False)
    """Number of the last checkpoints that completed or failed, and of the failed ones."""
    state: JobState = field(repr=False)
    """State of the job when reading began. It was unchanged when reading ended."""
    samples: Samples = field(repr=False)
    """The metrics of its subtasks while it was watched."""

    def __repr__(self) -> str:
        """Return the job, its version and its size in one line."""
        name, flink = readable(self.scenario.name), readable(self.measured.flink)
        vertices = f"{len(self.scenario.vertices)} vertices, {len(self.notes)} notes"
        return f"<Imported {name} from Flink {flink}: {vertices}>"


def import_scenario(
    cluster: str | Path | Answers,
    job: str | None = None,
    *,
    overrides: Overrides | None = None,
    watch_s: float | None = None,
    pause: Callable[[float], None] | None = None,
    watching: Callable[[float, float], None] = lambda done, total: None,
    emulating: Callable[[float, float], None] = lambda done, total: None,
) -> Imported:
    """Read a running job through Flink's REST API.

    Args:
        cluster: Address of Flink's web interface, file of a recording, or another source of answers.
        job: Id of the job; None: the only one that runs.
        overrides: Values that replace those read.
        watch_s: Seconds to watch the metrics; None: until they have changed three times, at least 20 s.
        pause: Waits for a number of seconds; by default as the source of answers does.
        watching: Called with the seconds watched so far, and all seconds.
        emulating: Called with the seconds emulated so far, and all seconds, if the job is emulated to tell
            unions from joins.

    Raises:
        FlinkRestError: the cluster cannot be read; the job does not run, ends, restarts or loses a task
            manager while it is watched, or shows too little.
        ScenarioError: an override is wrong, or the answers make no valid scenario.
    """
    given = overrides or Overrides()
    if isinstance(cluster, Path) or (isinstance(cluster, str) and Path(cluster).is_file()):
        cluster = Recording(Path(cluster))
    client = RestClient(cluster)
    wait = pause or client.pause
    with client.reading():
        state = read_running(client, job)
    with unchanged(client, state, wait):
        running = read_job(client, state)
        check_shape(client, running)
        check_names(given, running)
        processors = Processors(client, running, state.managers)
        seconds = watch_time_s(running) if watch_s is None else watch_s

        def on_poll(done_s: float) -> None:
            processors.poll()
            watching(done_s, seconds)

        samples = take_samples(client, running, state, seconds, pause=wait, on_poll=on_poll)
        checkpoints = read_checkpoints(client, running)
        ended = read_ended_checkpoints(client, running)
        notes: list[str] = []
        try:
            burning = burning_of(running, samples, processors.hosts(samples), given)
            notes += core_notes(burning)
            scenario = fit_scenario(running, samples, given, notes, checkpoints, burning, state.managers)
            if_cpu_bound = None
            if any(use.cores < inf for use in burning.in_doubt):
                burns = replace(given, service_mode={EVERYWHERE: BURN, **given.service_mode})
                burning = burning_of(running, samples, processors.hosts(samples), burns)
                if_cpu_bound = fit_scenario(running, samples, burns, [], checkpoints, burning, state.managers)
        except FlinkRestError as error:  # missing paths may be the reason for the error
            raise FlinkRestError(*error.notes, *note_on_missing(client)) from None
        shown = measured(client.url, running, samples, checkpoints)
        general = _general_notes(running, samples, scenario, given, shown)
        general += note_on_missing(client)
    undecided = [name for name, kind in input_kinds(running, given).items() if kind is None]
    moving = unsteady(running, samples, checkpoints, scenario)
    if undecided:
        scenario = with_input_kinds(scenario, undecided, shown, notes, emulating)
        if if_cpu_bound is not None:
            if_cpu_bound = replace(if_cpu_bound, edges=scenario.edges)
    return Imported(
        scenario=scenario,
        notes=list(dict.fromkeys(moving + notes + general)),
        unsteady=moving,
        measured=shown,
        if_cpu_bound=if_cpu_bound,
        job=running,
        ended=ended,
        state=state,
        samples=samples,
    )


def check_readable(cluster: Answers, job: str | None, given: Overrides) -> None:
    """Check with a few requests that a job is running and can be imported.

    Raises:
        FlinkRestError: there is no answer, there is no such job, or an override names a vertex that the job
            lacks.
    """
    client = RestClient(cluster)
    with client.reading():
        running = read_job(client, read_running(client, job))
        check_shape(client, running)
        check_names(given, running)


def check_shape(client: RestClient, job: FlinkJob) -> None:
    """Require that a job has an exchange.

    Raises:
        FlinkRestError: the job has none.
    """
    if not job.edges:
        raise FlinkRestError(
            f"{client.url}: job {job.id} ({job.name}) has no exchange: all its operators run in one "
            "task, so nothing goes through the network layer."
        )


def note_on_missing(client: RestClient) -> list[str]:
    """Return a line about the paths that the cluster lacked; empty if it had all."""
    paths = list(dict.fromkeys(path.partition("?")[0] for path in client.missing))
    if not paths:
        return []
    shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return [f"The cluster does not offer {shown}, or fails to answer; their figures are unknown."]


def _general_notes(
    job: FlinkJob, samples: Samples, scenario: Scenario, given: Overrides, shown: Measured
) -> list[str]:
    notes: list[str] = []
    config, duration_ms = scenario.config, shown.steady.end_to_end_ms
    if job.batch:
        notes.append("It is a batch job; assuming a streaming job.")
    if stands_still(samples):
        text = (
            "The metrics did not change while they were watched; assuming means since the start of the job."
        )
        notes.append(Note(text, Parameter("watch_s"), advice="Set {} to a longer time."))
    if not job.vertices[0].managers:
        notes.append("The task managers of subtasks are not reported; assuming one for each vertex.")
    if not given.latency_s:
        text = "Latency between task managers is not reported; assuming loopback."
        notes.append(Note(text, Parameter("latency_s")))
    if "buffer_timeout_interval_s" not in config.given and "buffer_timeout_enabled" not in config.given:
        example = Parameter("options", "50 ms", of="execution.buffer-timeout.interval")
        text = "A buffer timeout that the job sets itself is not reported; assuming 100 ms."
        notes.append(Note(text, example, advice="Use {} to override."))
    if (interval_s := config.checkpoint_interval_s) is None:
        return notes
    if duration_ms is None:
        notes.append("The history contains no completed checkpoint, so delays are unknown.")
    elif config.debloat_enabled and duration_ms / 1e3 >= _BACK_TO_BACK * interval_s:
        notes.append(
            f"Checkpoints take {duration_ms / 1000.0:.2g} s, and the interval is {interval_s:g} s. So "
            "channels are blocked most of the time, which misleads debloating. Delays differ by up to a "
            "fifth between runs."
        )
    return notes
