"""Import of a running Flink job: a scenario, its assumptions, and the present figures of the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from flowcontrol import readable
from netstack import CheckpointResult, Scenario, Viewed

from ..base.errors import FlinkRestError
from .fit.alternatives import changed, nearest
from .fit.course import with_courses
from .fit.fit_scenario import fit_scenario
from .fit.noted import Remark, Remarks, some
from .fit.overrides import EVERYWHERE, Overrides, check_names
from .fit.processor_time import BURN, Burning, burning_of, core_remarks
from .fit.steadiness import calm_moment, unsteady
from .fit.union_or_join import input_kinds, unions
from .fit.window_work import FIRES, firing, unknown_windows, with_windows
from .fit.words import change_text, note_of
from .fit.work_by_input import unequal_inputs
from .http.answers import Answers, Past
from .http.client import RestClient
from .read.checkpoints import EndedCheckpoints, read_checkpoints, read_ended_checkpoints
from .read.cores_in_use import Host, Processors
from .read.job import FlinkJob, read_job
from .read.job_state import JobState, ended_job, read_ended, read_running, unchanged
from .read.measurements import Measured, measured
from .read.past_figures import PastFigures, read_past
from .read.past_window import find_window
from .read.polling import take_samples, watch_time_s
from .read.samples import Samples, stands_still
from .recording import Recording

_BACK_TO_BACK = 0.7
"""If checkpoints take at least this share of the interval, debloating has little time to recover between
them.
"""

_TIMEOUTS = ("buffer_timeout_interval_s", "buffer_timeout_enabled")


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
    """The notes on costs, rates and queues that changed while the job was read; empty if none did."""
    changes: list[str] = field(default_factory=list)
    """The same changes, without what the scenario assumes about them."""
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
            unions from joins, or when windows work.

    Raises:
        FlinkRestError: the cluster cannot be read; the job does not run, ends, restarts or loses a task
            manager while it is watched, or shows too little.
        ScenarioError: an override is wrong, or the answers make no valid scenario.
    """
    given = overrides or Overrides()
    if isinstance(cluster, Path) or (isinstance(cluster, str) and Path(cluster).is_file()):
        cluster = Recording(Path(cluster))
    client = RestClient(cluster)
    if client.past is None:
        reading = _present(client, job, given, watch_s, pause or client.pause, watching)
    else:
        reading = _past(client, job, given, client.past)
    with reading as read:
        running, samples, checkpoints = read.job, read.samples, read.checkpoints

        def fitted(given: Overrides) -> tuple[Scenario, Remarks, Burning]:
            burning = burning_of(running, samples, read.hosts, given)
            found, about = fit_scenario(running, samples, given, checkpoints, burning, read.managers)
            courses, _ = unsteady(running, samples, checkpoints, found, given)
            return with_courses(found, courses), about, burning

        try:
            scenario, remarks, burning = fitted(given)
            remarks = core_remarks(burning) + remarks
            burns = if_cpu_bound = None
            if any(use.cores < inf for use in burning.in_doubt):
                burns = replace(given, service_mode={EVERYWHERE: BURN, **given.service_mode})
                if_cpu_bound, _, _ = fitted(burns)
        except FlinkRestError as error:  # missing paths may be the reason for the error
            raise FlinkRestError(*error.notes, *map(note_of, missing_paths(client))) from None
        shown = measured(client.url, running, samples, checkpoints)
        general = _about_job(running, samples, scenario, given, shown) + missing_paths(client)
    undecided = [name for name, kind in input_kinds(running, given).items() if kind is None]
    changes = unsteady(running, samples, checkpoints, scenario, given).remarks
    changes += calm_moment(read.ended, checkpoints)
    moving = list(map(note_of, changes))
    alternatives = unions(scenario, undecided) + unequal_inputs(running, scenario, shown, given)
    if windows := unknown_windows(running, scenario, shown, given):
        alternatives.append(firing(windows, fitted(with_windows(given, windows))[0]))
    if alternatives:
        taken, about = nearest(scenario, alternatives, shown, emulating)
        scenario, remarks = changed(scenario, taken), remarks + about
        if burns is not None and any(FIRES in each.kinds for each in taken):
            if_cpu_bound, _, _ = fitted(with_windows(burns, windows))
        if if_cpu_bound is not None:
            if_cpu_bound = changed(if_cpu_bound, [each for each in taken if FIRES not in each.kinds])
    return Imported(
        scenario=scenario,
        notes=list(dict.fromkeys([*map(note_of, read.remarks), *moving, *map(note_of, remarks + general)])),
        unsteady=list(moving),
        changes=list(map(change_text, changes)),
        measured=shown,
        if_cpu_bound=if_cpu_bound,
        job=running,
        ended=read.ended,
        state=read.state,
        samples=samples,
    )


class _Read(NamedTuple):
    """All that was read of a job."""

    state: JobState
    job: FlinkJob
    samples: Samples
    checkpoints: Sequence[CheckpointResult]
    ended: EndedCheckpoints
    hosts: Sequence[Host]
    managers: Mapping[str, Mapping[str, Any]]
    """The task managers, in the form of ``/taskmanagers/ID``."""
    remarks: Remarks = ()
    """Remarks on the time of the figures, and on task managers without figures."""


@contextmanager
def _present(
    client: RestClient,
    job: str | None,
    given: Overrides,
    watch_s: float | None,
    pause: Callable[[float], None],
    watching: Callable[[float, float], None],
) -> Iterator[_Read]:
    """Watch a running job, and require that it is the same at the end of the block."""
    with client.reading():
        state = read_running(client, job)
    with unchanged(client, state, pause):
        running = read_job(client, state)
        check_shape(client, running)
        check_names(given, running)
        processors = Processors(client, running, state.managers)
        seconds = watch_time_s(running) if watch_s is None else watch_s

        def on_poll(done_s: float) -> None:
            processors.poll()
            watching(done_s, seconds)

        samples = take_samples(client, running, state, seconds, pause=pause, on_poll=on_poll)
        sampled = {"polled": processors.polled, "managers": len(state.managers)}
        yield _Read(
            state=state,
            job=running,
            samples=samples,
            checkpoints=read_checkpoints(client, running),
            ended=read_ended_checkpoints(client, running),
            hosts=processors.hosts(samples),
            managers=state.managers,
            remarks=(Remark("cores_sampled", values=sampled),)
            if processors.polled < len(state.managers)
            else (),
        )


@contextmanager
def _past(client: RestClient, job: str | None, given: Overrides, past: Past) -> Iterator[_Read]:
    """Read the figures of an earlier time. The job may have ended since."""
    with client.reading():
        ended = ended_job(client, job)
        state = read_running(client, job) if ended is None else read_ended(client, ended)
        present = read_job(client, state, ended=ended is not None)
        check_shape(client, present)
        check_names(given, present)
        figures = read_past(client, present, state, find_window(client, present, past))
        processors = Processors(client, figures.job, figures.managers)
        for manager, values in figures.use.items():
            for each in values:
                processors.add(manager, each)
        yield _Read(
            state=state,
            job=figures.job,
            samples=figures.samples,
            checkpoints=figures.checkpoints,
            ended=figures.ended,
            hosts=processors.hosts(figures.samples),
            managers=figures.managers,
            remarks=_about_past(present, figures),
        )


def _about_past(present: FlinkJob, figures: PastFigures) -> Remarks:
    """Return remarks on the time of the figures, and on those that Prometheus lacks."""
    window, (complete, moments) = figures.window, figures.moments
    span = {"begin_s": window.begin_s, "end_s": window.end_s}
    remarks: Remarks = (Remark("past", values=span),)
    if window.slowest is not None:
        remarks = (Remark("past_slowest", values={**span, **window.slowest._asdict()}),)
        if failed_at := window.slowest.failed_at:
            remarks += (Remark("past_failed_elsewhere", values={"failed_at": failed_at}),)
    if window.job_id != present.id:
        remarks += (Remark("past_other_id", window.job_id),)
    if complete < moments:
        remarks += (Remark("past_gaps", values={"complete": complete, "moments": moments}),)
    if figures.gone:
        remarks += (Remark("past_managers_gone", some(figures.gone)),)
    if figures.before:
        remarks += (Remark("past_checkpoint_before"),)
    return (*remarks, Remark("past_unreported", values={"missing": figures.missing}))


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


def missing_paths(client: RestClient) -> Remarks:
    """Return a remark on the paths that the cluster lacked; empty if it had all."""
    paths = list(dict.fromkeys(path.partition("?")[0] for path in client.missing))
    return (Remark("paths_missing", values={"paths": paths}),) if paths else ()


def _about_job(
    job: FlinkJob, samples: Samples, scenario: Scenario, given: Overrides, shown: Measured
) -> Remarks:
    """Return remarks on the job as a whole."""
    config, taken_ms = scenario.config, shown.steady.end_to_end_ms
    interval_s = config.checkpoint_interval_s
    found = {
        "batch": job.batch,
        "metrics_unchanged": stands_still(samples),
        "places_unreported": not job.vertices[0].managers,
        "latency_unreported": not given.latency_s,
        "timeout_unreported": config.given.isdisjoint(_TIMEOUTS),
        "no_completed_checkpoint": interval_s is not None and taken_ms is None,
    }
    remarks = tuple(Remark(kind) for kind, is_so in found.items() if is_so)
    if interval_s is None or taken_ms is None or not config.debloat_enabled:
        return remarks
    if taken_ms / 1e3 < _BACK_TO_BACK * interval_s:
        return remarks
    times = {"taken_s": taken_ms / 1e3, "interval_s": interval_s}
    return (*remarks, Remark("checkpoints_back_to_back", values=times))
