"""What became of a storm, as a value that goes from process to process."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from netstack import Job

from .case import StormCase
from .checks import CommitLog


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
