"""One storm: a small random job under random faults, run in virtual time and checked against Flink's rules.

`run_storm` draws the case of a seed, runs it and checks it: `watching` after each step, and at the end the
output, times, counters and storage. Some jobs stop, and a second one continues from a checkpoint or
savepoint of the first, at another parallelism. The `StormOutcome` is a value that another process can read.
"""

from __future__ import annotations

import hashlib
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import trio

from flowcontrol import PostCheckpointAction
from integration.emulating import ctrl_c_to_trio
from integration.extras import is_installed
from integration.storage.rocksdb import RocksStores
from netstack import (
    Agenda,
    Fault,
    InitialCheckpoint,
    InputError,
    Job,
    SavepointFolder,
    Scenario,
    ScheduledSavepoint,
    StateBackendType,
    check_scenario,
)

from .case import Continuation, Reading, StormCase
from .draw import draw_case
from .expected import lives_of
from .output_rules import (
    CommitLog,
    check_counters,
    check_end,
    check_memory,
    check_order,
    check_output,
    check_storage,
    check_turns,
)
from .result_rules import (
    Notices,
    check_checkpoint_times,
    check_coordinator,
    check_delays,
    check_figures,
    check_heartbeats,
    check_subsumed,
    check_tolerance,
    check_uploads,
)
from .scenario import scenario_of
from .storage import Notes, StateWitness, TroubledDirectory, TroubledMemory, copy_of, storage_of, stored_in
from .watching import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a storm; it has failed if there are `problems`."""

    seed: int
    problems: tuple[str, ...]
    end: str
    """How the job came to its end."""
    emulated_s: float
    causes: tuple[str, ...]
    """Causes of all failures of the job, in their order."""
    restarts: int
    of_regions: int
    """How many of these were of single regions, while the others went on."""
    restored_bytes: int
    """Bytes of data in flight that restarts put back."""
    moved: bool = False
    """Whether a second run went on from a checkpoint at another parallelism."""
    from_savepoint: bool = False
    """Whether a second run went on from a savepoint."""
    moved_bytes: int = 0
    """Bytes of data in flight that a second run began with."""
    checkpoints: Counter[str] = field(default_factory=Counter)
    """How many have come to which end."""
    fired: tuple[str, ...] = ()
    records: int = 0
    """Records that were committed."""
    digest: str = ""
    """Equal for equal runs."""
    output: str = ""
    """Equal for equal output, in whatever order."""
    wall_s: float = field(default=0.0, compare=False)

    @property
    def replay(self) -> str:
        """The command that runs this storm again."""
        return f"python -m tests.storms --seed {self.seed}"

    def lines(self) -> Iterator[str]:
        """The outcome as text."""
        yield f"{self.end} after {self.emulated_s:.3f} s, {self.records} records committed"
        for cause in self.causes:
            yield f"  failed: {cause}"
        for fault in self.fired:
            yield f"  fired: {fault}"
        for status, number in sorted(self.checkpoints.items()):
            yield f"  checkpoints {status}: {number}"
        if self.restored_bytes:
            yield f"  in flight and restored: {self.restored_bytes} bytes"
        if self.moved:
            yield f"  gone on at another parallelism with {self.moved_bytes} bytes in flight"
        for problem in self.problems:
            yield f"  WRONG: {problem}"


def not_run(seed: int, problem: str) -> Outcome:
    """Return the outcome of a storm that could not be run to its end at all."""
    return Outcome(
        seed=seed,
        problems=(problem,),
        end="not run",
        emulated_s=0.0,
        causes=(),
        restarts=0,
        of_regions=0,
        restored_bytes=0,
    )


def has_ended(job: Job) -> bool:
    """Whether a job has come to the end of its input."""
    stopped = job.coordinator.stopped_with is not None
    return job.failure is None and not stopped and job.agenda.now < job.scenario.duration_s


def outcome_of(
    case: StormCase, jobs: Sequence[Job], log: CommitLog, problems: tuple[str, ...], wall_s: float
) -> Outcome:
    """Return what became of the jobs of a case, one after the other."""
    job, ended = jobs[-1], has_ended(jobs[-1])
    heads = [head for each in jobs for head in each.recorder.checkpoints]
    restarts = [restart for each in jobs for restart in each.restarts]
    causes = [restart.cause for restart in restarts] + ([] if job.failure is None else [job.failure])
    begun = [] if job.start is None else [job.start.initial.metadata]
    run = (
        list(log.transactions.values()),
        [vars(restart) for restart in restarts],
        heads,
        [each.work for each in jobs],
        job.agenda.now,
        job.failure,
    )
    return Outcome(
        seed=case.seed,
        problems=problems,
        end="gave up" if job.failure is not None else "ended" if ended else "stopped",
        emulated_s=job.agenda.now,
        causes=tuple(causes),
        restarts=len(restarts),
        of_regions=sum(bool(restart.tasks) for restart in restarts),
        restored_bytes=sum(restart.persisted_bytes for restart in restarts),
        moved_bytes=sum(metadata.persisted_bytes for metadata in begun),
        moved=any(metadata.parallelism != _parallelism(job) for metadata in begun),
        from_savepoint=any(metadata.checkpoint_type == "SYNC_SAVEPOINT" for metadata in begun),
        checkpoints=Counter(head.failure or head.status for head in heads),
        fired=tuple(f"{fault.what} at {fault.time:.4f} s" for each in jobs for fault in each.faults.fired),
        records=log.output.total(),
        digest=digest_of(run),
        output=digest_of(sorted(log.output.items())),
        wall_s=wall_s,
    )


def _parallelism(job: Job) -> dict[str, int]:
    return {vertex.name: vertex.parallelism for vertex in job.scenario.vertices}


def digest_of(value: object) -> str:
    """Return what tells a value from others, in a few letters."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


Storage = TroubledMemory | TroubledDirectory

MakeJob = Callable[[Scenario, InitialCheckpoint | None], Job]

ScenarioAt = Callable[[Sequence[int]], Scenario]
"""Gives the scenario of a case where its vertices have this parallelism; with none, that of the case."""

_MAY_BE_REFUSED = ("in-flight records from", "operator state")
"""What a checkpoint may be refused for at another parallelism."""


def stopping(scenario: Scenario, continuation: Continuation) -> Scenario:
    """Return a scenario that is stopped as the case says: by its end, or with a savepoint."""
    if continuation.savepoint is None:
        return replace(scenario, duration_s=continuation.stopped_at_s)
    stop = ScheduledSavepoint(
        at_s=continuation.stopped_at_s, format=continuation.savepoint, action=PostCheckpointAction.SUSPEND
    )
    return replace(scenario, savepoints=(stop,))


def second_run(
    continuation: Continuation, scenario_at: ScenarioAt, first: Job, found: Storage, make: MakeJob
) -> tuple[Job, list[str]]:
    """Return the job that goes on from what the `first` has left in `found`, and what is wrong with that.

    That is the savepoint that it stopped with, or one of its checkpoints. The job keeps the parallelism of
    the case where the checkpoint says that it must. `make` makes a job of a scenario and a checkpoint.
    """
    location = first.coordinator.stopped_with
    begin = (
        _checkpoint(found, continuation.back) if location is None else _savepoint(found.savepoint(location))
    )
    try:
        scenario = with_possible_faults(scenario_at(continuation.parallelism))
        return make(scenario, begin), []
    except InputError as error:
        return make(scenario_at(()), begin), list(_refused_wrongly(error.problems))


def goes_back(continuation: Continuation, found: Storage) -> bool:
    """Whether a job does not go on from the last checkpoint that another one has left."""
    return continuation.savepoint is None and continuation.back > 0 and len(found.checkpoints()) > 1


def with_possible_faults(scenario: Scenario) -> Scenario:
    """Return a scenario without faults of subtasks that it does not have."""
    return replace(
        scenario, faults=tuple(fault for fault in scenario.faults if _is_possible(scenario, fault))
    )


def _is_possible(scenario: Scenario, fault: Fault) -> bool:
    try:
        check_scenario(replace(scenario, faults=(fault,)))
    except InputError:
        return False
    return True


def _checkpoint(storage: Storage, back: int) -> InitialCheckpoint | None:
    """Return the complete checkpoint so many places before the last there; None if there is none."""
    complete = storage.checkpoints()
    if not complete:
        return None
    number = complete[max(0, len(complete) - 1 - back)]
    return InitialCheckpoint(storage.load(number), storage, "the run before", complete[-1] + 1)


def _savepoint(folder: SavepointFolder) -> InitialCheckpoint:
    metadata = folder.metadata
    return InitialCheckpoint(metadata, folder, "the savepoint before", metadata.checkpoint_id + 1)


def _refused_wrongly(reasons: Sequence[str]) -> Iterator[str]:
    """Yield each reason for which no checkpoint of the same job should be refused."""
    for reason in reasons:
        if not any(known in reason for known in _MAY_BE_REFUSED):
            yield f"refused for no good reason: {reason}"


LITERAL_EVERY = 16
"""One seed in so many is run once more as it is, and once without faults."""

PARANOID_EVERY = 64
"""One seed in so many is looked at after every entry of its agenda."""

IN_FAIR_WEATHER = "without faults: "
"""What stands before a problem of a case that nothing goes wrong in."""

ANOTHER_RESULT = "a second run gives another result"

_ALMOST_S = 1e-9


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
        case, stage, continuation = self._case, self._stage("first"), self._case.continuation
        scenario = stage.scenario_at(())
        check_scenario(scenario)
        if continuation is not None and continuation.stopped_at_s < case.duration_s:
            scenario = stopping(scenario, continuation)
            if continuation.killed:
                stage.agenda.keep(continuation.stopped_at_s - _ALMOST_S, self._kill, stage)
        else:
            continuation = None
        jobs = [stage.job(scenario)]
        problems = list(self._problems_of(jobs[0], stage, stopped=continuation is not None))
        problems = problems or list(self._about_order(jobs[0]))
        back = False
        if not problems and continuation is not None and _is_gone_on_with(jobs[0], continuation):
            found = self._left or stage.storage
            back = goes_back(continuation, found)
            problems += self._go_on(continuation, jobs, found)
        return jobs, problems or list(self._about_output(jobs, went_back=back))

    def _kill(self, stage: _Stage) -> None:
        self._left = copy_of(stage.storage)

    def _go_on(self, continuation: Continuation, jobs: list[Job], found: Storage) -> Iterator[str]:
        """Run the job that goes on from what the one before has left, which must not change."""
        files, stage = stored_in(found), self._stage("second")
        job, problems = second_run(continuation, stage.scenario_at, jobs[0], found, stage.job)
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


def _is_gone_on_with(job: Job, continuation: Continuation) -> bool:
    """Whether a job was stopped as it should have been, before it was done."""
    if continuation.savepoint is not None and job.coordinator.stopped_with is None:
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
