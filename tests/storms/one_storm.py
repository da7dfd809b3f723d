"""One storm: runs the case of a seed, and checks it against a plain model and against other runs.

After all recoveries, the sinks must have committed what the plain model gives, all memory must be back, and
the storage must contain the retained checkpoints and no other file. Some scenarios must give the same run as
another one: the same scenario, a policy that is changed at the start, cuts with their ends exchanged, and
cuts within longer cuts.
"""

from __future__ import annotations

import hashlib
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from flowcontrol import (
    FailureReason,
    PostCheckpointAction,
)
from integration.storage.rocksdb import RocksStores
from netstack import (
    Agenda,
    AtTime,
    CutLink,
    Fault,
    InitialCheckpoint,
    InputError,
    Job,
    MemoryStorage,
    Scenario,
    ScheduledChange,
    ScheduledSavepoint,
    StateBackendType,
    StorageError,
    Transaction,
    check_scenario,
    folder_of,
)

from .case import Continuation, StormCase, cuts_of
from .draw import GENEROUS_S, draw_case, links_of
from .operators import expected_output, operator_of
from .watching import Watch

_SHOWN = 3
_SOON_S = 1e-6
_DOWN_S = 1.5
"""Longest time from a failure until all tasks run again, without a further failure."""
_MAY_BE_REFUSED = ("in-flight records from", "operator state")
"""Parts of the reasons for which a checkpoint may be refused at another parallelism."""


@dataclass(frozen=True)
class Outcome:
    """The result of a storm, which has failed if there are `problems`; `digest` is equal for equal runs."""

    seed: int
    problems: tuple[str, ...]
    end: str = "not run"
    emulated_s: float = 0.0
    restarts: int = 0
    checkpoints: tuple[tuple[str, int], ...] = ()
    """Number of checkpoints with each end."""
    records: int = 0
    """Number of committed records."""
    digest: str = ""

    def __str__(self) -> str:
        checkpoints = ", ".join(f"{number} {end}" for end, number in self.checkpoints)
        text = f"{self.end} after {self.emulated_s:.9g} s, {self.records} records, {self.restarts} restarts"
        return f"{text}, checkpoints: {checkpoints or 'none'}"


class CommitLog:
    """The transactions that sinks have committed; `changed`: those that came again with other records."""

    def __init__(self) -> None:
        self.transactions: dict[tuple[str, int, int], Transaction] = {}
        self.changed: list[Transaction] = []

    def commit(self, transaction: Transaction) -> None:
        """Make a transaction visible, once."""
        if self.transactions.setdefault(transaction[:3], transaction) != transaction:
            self.changed.append(transaction)

    @property
    def output(self) -> Counter[bytes]:
        """How often each record is visible."""
        return Counter(record for each in self.transactions.values() for record in each.records)


def run_storm(seed: int) -> Outcome:
    """Run the storm of a seed, and one of the scenarios that must give the same run.

    An error of the emulation is a problem of this storm.
    """
    try:
        case = draw_case(seed)
        outcome = run_case(case)
        problems = list(outcome.problems)
        equal = [] if problems else list(equal_scenarios(case))
        if equal:
            name, scenario = equal[seed % len(equal)]
            other = run_case(replace(case, scenario=scenario))
            problems += [f"{name}: {problem}" for problem in other.problems]
            if other.digest != outcome.digest:
                problems.append(f"{name}: not {outcome}, but {other}")
        return replace(outcome, problems=tuple(problems))
    except Exception as error:
        return Outcome(seed, (_in_one_line(error),))


def equal_scenarios(case: StormCase) -> Iterator[tuple[str, Scenario]]:
    """Yield scenarios that must give the same run as the case, each with its name."""
    scenario, config = case.scenario, case.config
    if case.seed % 8 == 0:
        yield "run a second time", scenario
        return
    if cuts_of(scenario):
        faults, links = list[Fault](), links_of(scenario)
        for fault in scenario.faults:
            if isinstance(fault, CutLink):
                # A continuation at another parallelism may use a link in the other direction only.
                if (pair := fault.ends[::-1]) in links and case.continuation is None:
                    fault = replace(fault, from_task_manager=pair[0], to_task_manager=pair[1])
                faults += _within(fault, config.heartbeat_timeout_s)
            faults.append(fault)
        yield "with exchanged ends and shorter cuts within", replace(scenario, faults=tuple(faults))
    if config.debloat_enabled:
        policy = "per-channel" if config.debloat_policy != "per-channel" else "burst"
        changed = ScheduledChange(at_s=0.0, settings=(("debloat_policy", config.debloat_policy),))
        yield (
            "with the policy changed at the start",
            replace(
                scenario,
                config=replace(config, debloat_policy=policy),
                changes=(changed, *scenario.changes),
            ),
        )


def _within(cut: CutLink, heartbeat_timeout_s: float) -> list[Fault]:
    """Return a cut of the same link within a longer one, too short for a heartbeat timeout of its own."""
    if not isinstance(cut.when, AtTime) or cut.for_s is None:
        return []
    later_s = 0.4 * cut.for_s
    for_s = min(0.5 * cut.for_s, 0.9 * heartbeat_timeout_s)
    return [replace(cut, when=AtTime(cut.when.time_s + later_s), for_s=for_s)]


def run_case(case: StormCase) -> Outcome:
    """Run a case, and its continuation, and check both."""
    with TemporaryDirectory(prefix="netstack-storm-") as folder:
        return _Runs(case, Path(folder)).all()


class _Runs:
    """The runs of one case; they share a log of transactions."""

    def __init__(self, case: StormCase, folder: Path) -> None:
        self._case = case
        self._folder = folder
        self._log = CommitLog()
        self._jobs: list[Job] = []
        self._problems: list[str] = []

    def all(self) -> Outcome:
        """Run the case, then what continues it, and return the outcome of both."""
        case, continuation = self._case, self._case.continuation
        scenario, storage = self._with_operators(case.scenario), MemoryStorage()
        if continuation is None:
            self._run(scenario, storage, None)
        else:
            self._run(_stopping(scenario, continuation), storage, None)
            first = self._jobs[0]
            if not self._problems and first.failure is None and not _has_ended(first):
                self._continue(continuation, storage)
        if not self._problems:
            self._problems += self._problems_of_output()
        return self._outcome()

    def _with_operators(self, scenario: Scenario) -> Scenario:
        works, commit = self._case.works, self._log.commit
        vertices = (
            replace(vertex, operator=operator_of(works[vertex.name], commit)) for vertex in scenario.vertices
        )
        return replace(scenario, vertices=tuple(vertices))

    def _continue(self, continuation: Continuation, storage: MemoryStorage) -> None:
        """Run the job from its savepoint or latest checkpoint, at the parallelism of the continuation.

        If the checkpoint must be refused there, run the job at its former parallelism.
        """
        case, files = self._case, dict(storage.files)
        initial = _left_by(self._jobs[0], storage)
        former = self._with_operators(case.scenario)
        scenario = replace(
            former,
            vertices=tuple(
                replace(vertex, parallelism=number)
                for vertex, number in zip(former.vertices, continuation.parallelism, strict=True)
            ),
        )
        scenario = replace(
            scenario, faults=tuple(each for each in scenario.faults if _is_possible(scenario, each))
        )
        own = MemoryStorage()
        try:
            self._run(scenario, own, initial)
        except InputError as error:
            wrong = [each for each in error.problems if not any(known in each for known in _MAY_BE_REFUSED)]
            self._problems += [f"refused without a reason: {each}" for each in wrong]
            self._run(former, own, initial)
        if storage.files != files:
            self._problems.append("the second run changed files of the first")

    def _run(self, scenario: Scenario, storage: MemoryStorage, initial: InitialCheckpoint | None) -> None:
        """Run one job, and check it.

        Raises:
            InputError: if the job cannot start from `initial`.
        """
        tables = None
        if scenario.config.state_backend is StateBackendType.ROCKSDB:
            path = self._folder / f"{len(self._jobs)}"
            path.mkdir(exist_ok=True)
            tables = RocksStores(path)
        try:
            job = Job(scenario, Agenda(), storage=storage, from_checkpoint=initial, tables=tables)
            Watch(job)
            self._jobs.append(job)
            trio.run(job.run)
        finally:
            if tables is not None:
                tables.close()
        self._problems += problems_of_run(self._case, job, storage)

    def _problems_of_output(self) -> Iterator[str]:
        """Compare what was committed with the plain model."""
        case, log, wanted = self._case, self._log, expected_output(self._case)
        got, ended = log.output, _has_ended(self._jobs[-1])
        if case.is_exactly_once:
            yield from _shown("committed too often", got - wanted)
            for each in log.changed[:_SHOWN]:
                yield f"{each.vertex}[{each.subtask}] committed transaction {each.checkpoint_id} twice"
        else:
            yield from _shown("invented", Counter(record for record in got if record not in wanted))
        if ended and case.commits_all:
            yield from _shown("lost", wanted - got)

    def _outcome(self) -> Outcome:
        jobs, case = self._jobs, self._case
        last = jobs[-1]
        heads = [head for job in jobs for head in job.recorder.checkpoints]
        restarts = [restart for job in jobs for restart in job.restarts]
        run = (
            sorted(self._log.transactions.values()),
            [(each.failed_at, each.restarted_at, each.running_at, each.checkpoint_id) for each in restarts],
            heads,
            [job.work for job in jobs],
        )
        return Outcome(
            seed=case.seed,
            problems=tuple(self._problems),
            end="failed" if last.failure is not None else "ended" if _has_ended(last) else "stopped",
            emulated_s=last.agenda.now,
            restarts=len(restarts),
            checkpoints=tuple(sorted(Counter(head.failure or str(head.status) for head in heads).items())),
            records=self._log.output.total(),
            digest=hashlib.sha256(repr(run).encode()).hexdigest()[:16],
        )


def _has_ended(job: Job) -> bool:
    """Return whether a job has come to the end of its input."""
    stopped = job.coordinator.stopped_with is not None
    return job.failure is None and not stopped and job.agenda.now < job.scenario.duration_s


def _stopping(scenario: Scenario, continuation: Continuation) -> Scenario:
    """Return a scenario that stops as the continuation says."""
    if continuation.savepoint is None:
        return scenario.ending_at(continuation.stopped_at_s)
    stop = ScheduledSavepoint(
        at_s=continuation.stopped_at_s, format=continuation.savepoint, action=PostCheckpointAction.SUSPEND
    )
    return replace(scenario, savepoints=(stop,))


def _left_by(job: Job, storage: MemoryStorage) -> InitialCheckpoint | None:
    """Return the savepoint or the latest checkpoint of a job that has stopped; None if it has none."""
    if (location := job.coordinator.stopped_with) is not None:
        folder = storage.savepoint(location)
        return InitialCheckpoint(folder.metadata, folder, location, folder.metadata.checkpoint_id + 1)
    complete = storage.checkpoints()
    if not complete:
        return None
    return InitialCheckpoint(storage.load(complete[-1]), storage, "the first run", complete[-1] + 1)


def _is_possible(scenario: Scenario, fault: Fault) -> bool:
    try:
        check_scenario(replace(scenario, faults=(fault,)))
    except InputError:
        return False
    return True


def problems_of_run(case: StormCase, job: Job, storage: MemoryStorage) -> Iterator[str]:
    """Yield the problems of a run that is over, apart from its output."""
    if job.leaked_segments:
        yield f"{job.leaked_segments} segments were not returned"
    yield from _problems_of_failures(case, job)
    yield from _problems_of_files(job, storage)
    yield from _problems_of_liveness(case, job)


def _problems_of_failures(case: StormCase, job: Job) -> Iterator[str]:
    """Each failure has a fault as its cause, and only a limited restart strategy makes it permanent."""
    allowed = ("checkpoint ", *(fault.what for fault in job.faults.fired))
    causes = [restart.cause for restart in job.restarts] + ([] if job.failure is None else [job.failure])
    for cause in causes:
        if not cause.startswith(allowed):
            yield f"failed without a fault: {cause}"
    stopping = job.coordinator.stopped_with is not None
    if job.failure is not None and case.always_restarts and not stopping:
        yield f"failed permanently: {job.failure}"
    if causes and not job.scenario.faults:
        yield f"failed without any fault: {causes}"
    timeout_s = job.scenario.config.heartbeat_timeout_s
    failures = [restart.failed_at for restart in job.restarts]
    for cut in cuts_of(job.scenario) if len(job.regions) == 1 and not stopping else ():
        at_s = cut.when.time_s if isinstance(cut.when, AtTime) else inf
        late_s = at_s + timeout_s + _SOON_S
        too_long = cut.for_s is not None and cut.for_s > timeout_s and job.agenda.now > late_s
        if too_long and not any(at_s - _DOWN_S <= failure <= late_s for failure in failures):
            yield f"no heartbeat came from {at_s:.3f} s on, but nothing has failed"


def _problems_of_files(job: Job, storage: MemoryStorage) -> Iterator[str]:
    """The storage has the latest completed checkpoints, all of them readable, and no other file."""
    heads = [head for head in job.recorder.checkpoints if head.status == "COMPLETED"]
    numbers = sorted((head.ended_at, head.checkpoint_id) for head in heads if head.savepoint is None)
    kept = [number for _, number in numbers][-job.scenario.config.retained_checkpoints :]
    if storage.checkpoints() != sorted(kept):
        yield f"checkpoints {storage.checkpoints()} are stored, but {kept} should be"
    needed, folders = set[str](), {head.savepoint for head in heads}
    for number in storage.checkpoints():
        metadata = storage.load(number)
        needed |= {f"{folder_of(number)}/_metadata", *metadata.files}
        for handle in (handle for snapshot in metadata.subtasks for handle in snapshot.handles):
            if handle.file is not None:
                try:
                    storage.read(handle.file)
                except StorageError as error:
                    yield f"checkpoint {number}: {error}"
    left = [path for path in storage.files if path not in needed and path.rpartition("/")[0] not in folders]
    for path in sorted(left)[:_SHOWN]:
        yield f"{path} is left, but no checkpoint needs it"


def _problems_of_liveness(case: StormCase, job: Job) -> Iterator[str]:
    """The job ends, and after all disturbances checkpoints complete."""
    if job.failure is None and job.agenda.now >= job.scenario.duration_s > GENEROUS_S:
        yield f"did not end within {job.scenario.duration_s:g} s"
    times = [fault.time for fault in job.faults.fired]
    times += [restart.running_at or restart.failed_at for restart in job.restarts]
    times += [change.at_s for change in case.scenario.changes]
    longest = max(
        (
            (getattr(fault, "for_s", None) or 0.0) + getattr(fault, "delay_s", 0.0)
            for fault in job.scenario.faults
        ),
        default=0.0,
    )
    calm_s = max(times, default=0.0) + longest
    failed = [
        head
        for head in job.recorder.checkpoints
        if head.triggered_at > calm_s and head.failure == FailureReason.EXPIRED
    ]
    for head in failed[:_SHOWN]:
        yield f"checkpoint {head.checkpoint_id} expired, but all has been calm since {calm_s:.3f} s"


def _shown(what: str, records: Counter[bytes]) -> Iterator[str]:
    if records:
        first = ", ".join(f"{record[:40]!r} x{number}" for record, number in sorted(records.items())[:_SHOWN])
        yield f"{what}: {records.total()} records, such as {first}"


def _in_one_line(error: Exception) -> str:
    frames: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{Path(each.filename).name}:{each.lineno}" for each in frames[:-4:-1])
    return f"{type(error).__name__}: {error} ({places})"
