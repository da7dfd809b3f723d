"""One storm: a small random job under random faults, run in virtual time and held to what Flink promises.

The seed is the case: `run_storm` draws it, runs it and checks it. While it runs, `watching` looks at it; when
it is over, its output, its times, its counters and its storage are held against what had to come of it.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter

import trio

from integration.emulating import ctrl_c_to_trio
from integration.extras import is_installed
from integration.storage.rocksdb import RocksStores
from netstack import Agenda, InitialCheckpoint, Job, Scenario, StateBackendType, check_scenario

from .case import GoingOn, Reading, StormCase
from .checkpoint_ends import Notices, check_subsumed, check_tolerance, check_uploads
from .checks import CommitLog, check_end, check_memory, check_output
from .coordinator_rules import check_coordinator
from .counted_work import check_counters
from .draw import draw_case
from .failure_rules import check_delays, check_heartbeats
from .figures import check_checkpoint_times, check_figures
from .going_on import ScenarioAt, goes_back, second_run, stopping
from .record_order import check_order, check_turns
from .state_witness import Notes, StateWitness
from .stored_files import check_storage
from .storm_lives import lives_of
from .storm_outcome import Outcome, has_ended, not_run, outcome_of
from .storm_scenarios import scenario_of
from .troubled_storage import TroubledDirectory, TroubledMemory, copy_of, storage_of, stored_in
from .watching import Watch

LITERAL_EVERY = 16
"""One seed in so many is run once more as it is, and once without faults."""

PARANOID_EVERY = 64
"""One seed in so many is looked at after every entry of its agenda."""

IN_FAIR_WEATHER = "without faults: "
"""What stands before a problem of a case that nothing goes wrong in."""

ANOTHER_RESULT = "a second run gives another result"

_ALMOST_S = 1e-9

Storage = TroubledMemory | TroubledDirectory


def run_storm(seed: int, *, paranoid: bool = False) -> Outcome:
    """Draw the case of a seed, run it and check it; some seeds are run again, to compare two runs.

    `paranoid`: look at it after every entry of its agenda, which some seeds are in any case. Whatever it
    raises is a problem of this storm, and others go on.
    """
    try:
        return _run_and_compare(seed, paranoid=paranoid or seed % PARANOID_EVERY == 1)
    except Exception as error:
        return not_run(seed, _with_places(error))


def _run_and_compare(seed: int, *, paranoid: bool) -> Outcome:
    case = draw_case(seed)
    outcome = run_case(case, paranoid=paranoid)
    if outcome.problems or seed % LITERAL_EVERY:
        return outcome
    problems = [IN_FAIR_WEATHER + problem for problem in run_case(in_fair_weather(case)).problems]
    if run_case(case).digest != outcome.digest:
        problems.append(ANOTHER_RESULT)
    return replace(outcome, problems=tuple(problems))


def in_fair_weather(case: StormCase) -> StormCase:
    """The case without anything that goes wrong."""
    return replace(case, faults=(), trouble=(), neighbours=())


def run_case(case: StormCase, *, paranoid: bool = False) -> Outcome:
    """Run a case and check all there is to check of it."""
    started = perf_counter()
    if case.config.state_backend is StateBackendType.ROCKSDB and not is_installed("rocksdb"):
        case = replace(case, config=replace(case.config, state_backend=StateBackendType.HASHMAP))
    log = CommitLog()
    with _folder_for(case) as folder:
        jobs, problems = _Runs(case, log, folder, paranoid=paranoid).all()
    return outcome_of(case, jobs, log, tuple(problems), perf_counter() - started)


@contextmanager
def _folder_for(case: StormCase) -> Iterator[Path]:
    """A folder for the files of a case, if there may be any."""
    reads = {vertex.reading for vertex in case.vertices} - {Reading.MEMORY, Reading.COMPUTED}
    if not (case.on_disk or reads or case.config.state_backend is StateBackendType.ROCKSDB):
        yield Path()
        return
    with tempfile.TemporaryDirectory(prefix="netstack-storm-") as folder:
        yield Path(folder)


class _Stage:
    """What a run of a case needs besides its scenario."""

    def __init__(
        self, case: StormCase, log: CommitLog, folder: Path, notes: Notes, name: str, *, paranoid: bool
    ) -> None:
        self.agenda = Agenda()
        self.storage = storage_of(case, folder / f"{name} checkpoints")
        self._tables = _tables_in(case, folder / f"{name} tables")
        self._witness = witness = StateWitness(
            lambda: self.agenda.now, self.storage, _tables_in(case, folder / f"{name} looked at"), notes=notes
        )
        self.scenario_at: ScenarioAt = partial(scenario_of, case, log.commit, witness, folder)
        self.watch = Watch(case, paranoid=paranoid)
        self.notices = Notices()

    def job(self, scenario: Scenario, initial: InitialCheckpoint | None = None) -> Job:
        """The job that runs a scenario here.

        Raises:
            ScenarioError: `initial` is no checkpoint of this job.
        """
        job = Job(
            scenario,
            self.agenda,
            storage=self.storage,
            from_checkpoint=initial,
            tables=self._tables,
            progress=self.watch.at_end,
        )
        self._witness.watch(job)
        return job

    async def run(self, job: Job) -> None:
        """Run a job, and look at it meanwhile."""
        self.watch.begin(job)
        self.notices.listen(job)
        await job.run()

    def close(self) -> None:
        """Close the tables."""
        if self._tables is not None:
            self._tables.close()


def _tables_in(case: StormCase, folder: Path) -> RocksStores | None:
    if case.config.state_backend is not StateBackendType.ROCKSDB:
        return None
    folder.mkdir()
    return RocksStores(folder)


class _Runs:
    """The runs of a case: one, and where another one goes on from what it has left, that one, too."""

    def __init__(self, case: StormCase, log: CommitLog, folder: Path, *, paranoid: bool) -> None:
        self._case = case
        self._log = log
        self._stage = partial(_Stage, case, log, folder, Notes(), paranoid=paranoid)
        self._left: Storage | None = None

    def all(self) -> tuple[list[Job], list[str]]:
        """Run what there is to run, and return the jobs with all that is wrong of them."""
        case, stage, going_on = self._case, self._stage("first"), self._case.going_on
        scenario = stage.scenario_at(())
        check_scenario(scenario)
        if going_on is not None and going_on.stopped_at_s < case.duration_s:
            scenario = stopping(scenario, going_on)
            if going_on.killed:
                stage.agenda.keep(going_on.stopped_at_s - _ALMOST_S, self._kill, stage)
        else:
            going_on = None
        jobs = [stage.job(scenario)]
        problems = list(self._problems_of(jobs[0], stage, stopped=going_on is not None))
        problems = problems or list(self._about_order(jobs[0]))
        back = False
        if not problems and going_on is not None and _is_gone_on_with(jobs[0], going_on):
            found = self._left or stage.storage
            back = goes_back(going_on, found)
            problems += self._go_on(going_on, jobs, found)
        return jobs, problems or list(self._about_output(jobs, went_back=back))

    def _kill(self, stage: _Stage) -> None:
        self._left = copy_of(stage.storage)

    def _go_on(self, going_on: GoingOn, jobs: list[Job], found: Storage) -> Iterator[str]:
        """Run the job that goes on from what the one before has left, which must not change."""
        files, stage = stored_in(found), self._stage("second")
        job, problems = second_run(going_on, stage.scenario_at, jobs[0], found, stage.job)
        jobs.append(job)
        yield from problems
        yield from self._problems_of(job, stage)
        if stored_in(found) != files:
            yield "files of the run before were changed"

    def _problems_of(self, job: Job, stage: _Stage, *, stopped: bool = False) -> Iterator[str]:
        """Run a job, and yield what is wrong with how it went; `stopped`: it need not have ended."""
        case = self._case
        try:
            ctrl_c_to_trio(trio.run)(stage.run, job, restrict_keyboard_interrupt_to_checkpoints=True)
            yield from check_end(case, job, stopped or has_ended(job))
            yield from check_storage(job, stage.storage, stored_in(stage.storage))
            yield from check_coordinator(case, job)
            yield from stage.notices.check(job)
            yield from check_subsumed(job)
            yield from check_tolerance(job, stage.notices)
            yield from check_uploads(job)
            yield from check_heartbeats(case, job)
            yield from check_delays(case, job)
            yield from check_figures(case, job)
            yield from check_checkpoint_times(case, job)
        except Exception as error:
            yield _with_places(error)
        finally:
            stage.close()
        yield from check_memory(job, stage.watch.neighbours_kept)

    def _about_order(self, job: Job) -> Iterator[str]:
        """What a job has put out so far is in order; that of another one may have another parallelism."""
        if not _went_back(job):
            yield from check_order(self._case, list(self._log.transactions.values()), len(job.restarts))

    def _about_output(self, jobs: Sequence[Job], *, went_back: bool) -> Iterator[str]:
        lives, ended = lives_of(jobs), has_ended(jobs[-1])
        back = went_back or any(map(_went_back, jobs))
        yield from check_output(self._case, self._log, ended, lives, went_back=back)
        if ended and not lives.restarts:
            yield from check_counters(self._case, jobs[0])
            yield from check_turns(self._case, list(self._log.transactions.values()))


def _went_back(job: Job) -> bool:
    """Whether a checkpoint could not be restored, and so an older one was."""
    return any(restart.unusable_checkpoint_id is not None for restart in job.restarts)


def _is_gone_on_with(job: Job, going_on: GoingOn) -> bool:
    """Whether a job was stopped as it should have been, before it was done."""
    if going_on.savepoint is not None and job.coordinator.stopped_with is None:
        return False  # there was no savepoint, and so it has gone on by itself
    if job.coordinator.stopped_with is not None:
        return True  # also where it has failed before all tasks had heard
    return job.failure is None and not has_ended(job)


def _with_places(error: Exception) -> str:
    """An exception in one line, with the two places nearest to it."""
    places = [
        f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    return f"{type(error).__name__}: {error} ({' < '.join(places[:-4:-1])})"
