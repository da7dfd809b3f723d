"""What has to be true of a storm, while it goes on and when it is over.

Each check yields a line for everything that is wrong, so a check that yields nothing has passed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from netstack import (
    METADATA_NAME,
    CheckpointMode,
    DelayMessages,
    DropMessages,
    FailUpload,
    Fault,
    FillStorage,
    Job,
    MemoryStorage,
    StorageError,
    Transaction,
    metadata_path,
)

from .case import Guarantee, StormCase, Work
from .conditions import lasts_for_good
from .work import expected_output, is_sum, parse_sum

_SHOWN = 3
"""Records that a line names at most."""

_NUMBERED = re.compile(rb"(source\d+)\.(\d+)\.(\d+)")
"""The source, its subtask and the number that a record names."""

_KEEP_ORDER = frozenset({Work.SOURCE, Work.PASS, Work.MARK, Work.COPY, Work.FILTER})

_HINDER_CHECKPOINTS = DelayMessages | DropMessages | FailUpload | FillStorage


class CommitLog:
    """What sinks have committed; a transaction that comes again has to be the same."""

    def __init__(self) -> None:
        self.transactions: dict[tuple[str, int, int], Transaction] = {}
        self.changed: list[Transaction] = []

    def commit(self, transaction: Transaction) -> None:
        """Make a transaction visible, once."""
        known = self.transactions.setdefault(transaction[:3], transaction)
        if known != transaction:
            self.changed.append(transaction)

    @property
    def output(self) -> Counter[bytes]:
        """Each record that is visible, and how often."""
        return Counter(record for each in self.transactions.values() for record in each.records)


def check_memory(job: Job) -> Iterator[str]:
    """All memory of all attempts has come back."""
    if job.leaked_segments:
        yield f"{job.leaked_segments} segments were not given back"


def check_end(case: StormCase, job: Job, ended: bool) -> Iterator[str]:
    """The job has ended by itself, or a fault explains why not."""
    fired = [fault for fault in case.faults if any(str(fault) == each.what for each in job.faults.fired)]
    causes = [restart.cause for restart in job.restarts]
    failures = [restart.failed_at for restart in job.restarts]
    for count in range(1, len(failures) + 1):
        if case.gives_up(failures[:count]):
            yield f"began again after failure {count}, against {case.restart_strategy}"
    if job.failure is not None:
        causes.append(job.failure)
        is_stopped = job.coordinator.stopped_with is not None  # and so it does not begin again
        if not is_stopped and not case.gives_up([*failures, job.agenda.now]):
            yield f"failed for good after {len(failures)} restarts, against {case.restart_strategy}"
    elif not ended and not lasts_for_good(case.faults):  # else it was given little time
        yield f"did not end within {case.duration_s:g} s, and nothing keeps it from that"
    for cause in causes:
        if not _explained(case, cause, fired):
            yield f"failed for no good reason: {cause}"


def _explained(case: StormCase, cause: str, fired: Iterable[Fault]) -> bool:
    if cause.startswith("checkpoint ") and " failed: " in cause:
        return not case.patient or any(isinstance(fault, _HINDER_CHECKPOINTS) for fault in fired)
    return any(cause.startswith(str(fault)) for fault in fired)


def check_output(case: StormCase, log: CommitLog, ended: bool, restarts: int) -> Iterator[str]:
    """What was committed is what the job had to put out, as far as it got and as its mode promises."""
    guarantee = case.guarantee(restarts)
    if guarantee is not Guarantee.NOTHING_INVENTED:
        for transaction in log.changed[:_SHOWN]:
            name = f"{transaction.vertex}[{transaction.subtask}]"
            yield f"{name} committed transaction {transaction.checkpoint_id} twice, with other records"
    wanted, got = expected_output(case), log.output
    if guarantee is Guarantee.EXACTLY_ONCE:
        yield from _differences("put out too often", got - wanted)
    else:
        yield from _differences("invented", Counter(_invented(case, wanted, got)))
    if ended and case.commits_all and guarantee is not Guarantee.NOTHING_INVENTED:
        yield from _differences("missing", _missing(guarantee, wanted, got))


def _invented(case: StormCase, wanted: Counter[bytes], got: Counter[bytes]) -> Iterator[bytes]:
    """Records that should not be there at all; a sum may be too large where records may come twice."""
    if case.config.checkpoint_mode is CheckpointMode.EXACTLY_ONCE:
        yield from set(got) - set(wanted)
        return
    least: dict[bytes, int] = {}
    for key, total in map(parse_sum, filter(is_sum, wanted)):
        least[key] = min(total, least.get(key, total))
    for record in got:
        if record in wanted:
            continue
        key, total = parse_sum(record) if is_sum(record) else (record, 0)
        if total < least.get(key, total + 1):
            yield record


def _missing(guarantee: Guarantee, wanted: Counter[bytes], got: Counter[bytes]) -> Counter[bytes]:
    """Records that should be there; a larger sum of the same key may stand for one."""
    missing = wanted - got
    if guarantee is Guarantee.EXACTLY_ONCE:
        return missing
    more = Counter(parse_sum(record)[0] for record in (got - wanted).elements() if is_sum(record))
    sums = Counter({record: number for record, number in missing.items() if is_sum(record)})
    for record in sums:
        key, _ = parse_sum(record)
        covered = min(missing[record], more[key])
        more[key] -= covered
        missing[record] -= covered
    return +missing


def _differences(what: str, records: Counter[bytes]) -> Iterator[str]:
    if records:
        first = ", ".join(f"{record[:40]!r} x{number}" for record, number in sorted(records.items())[:_SHOWN])
        yield f"{what}: {records.total()} records, such as {first}"


def check_storage(job: Job, storage: MemoryStorage) -> Iterator[str]:
    """As many checkpoints as are to be retained are complete and whole, and nothing else is stored."""
    complete = storage.checkpoints()
    retained = job.scenario.config.retained_checkpoints
    heads = [head for head in job.recorder.checkpoints if head.savepoint is None]
    unusable = {restart.unusable_checkpoint_id for restart in job.restarts} - {None}
    wanted = min(retained, sum(head.status == "COMPLETED" for head in heads))
    if not unusable and len(complete) != wanted:
        yield f"{len(complete)} checkpoints are stored, {wanted} are to be retained"
    latest = job.coordinator.latest_completed
    is_own = job.start is None or latest is not job.start.initial.metadata
    if latest is not None and is_own and complete[-1:] != [latest.checkpoint_id]:
        yield f"checkpoint {latest.checkpoint_id} is the latest, and complete are {complete}"
    for number in complete:
        yield from _unreadable(storage, number)
    # What a task was told to delete by a message that is lost stays.
    if not any(isinstance(fault, DropMessages) for fault in job.scenario.faults):
        yield from _left_over(storage, complete)


def _left_over(storage: MemoryStorage, complete: Sequence[int]) -> Iterator[str]:
    """Files that no complete checkpoint or savepoint needs."""
    needed = {path for number in complete for path in storage.load(number).files}
    needed |= {metadata_path(number) for number in complete}
    for folder in storage.savepoints():
        if folder.present():
            needed |= {f"{folder.folder}/{name}" for name in (*folder.metadata.files, METADATA_NAME)}
    for path in sorted(set(storage.files) - needed)[:_SHOWN]:
        yield f"{path} is left behind, and no checkpoint needs it"


def _unreadable(storage: MemoryStorage, number: int) -> Iterator[str]:
    try:
        for snapshot in storage.load(number).subtasks:
            for handle in snapshot.handles:
                if handle.file is not None:
                    storage.read(handle.file)
    except StorageError as error:
        yield f"checkpoint {number} is not whole: {error}"


def check_order(case: StormCase, log: CommitLog) -> Iterator[str]:
    """Records that can only go one way from a subtask of a source to one of a sink come in their order."""
    sources = set(_in_order(case))
    last: dict[tuple[str, int, bytes, bytes], int] = {}
    for (vertex, subtask, _), transaction in log.transactions.items():
        for record in transaction.records:
            named = _NUMBERED.search(record)
            if named is None or named[1].decode() not in sources:
                continue
            way, number = (vertex, subtask, named[1], named[2]), int(named[3])
            if number < last.get(way, 0):
                yield f"{vertex}[{subtask}] got {record[:40]!r} behind record {last[way]} of the same source"
                return
            last[way] = number


def _in_order(case: StormCase) -> Iterator[str]:
    """The sources whose records cannot overtake each other: there is one way for those of each subtask."""
    for source in case.vertices:
        here = source
        while here.work in _KEEP_ORDER:
            ways = [(target, ship) for origin, target, ship in case.edges if origin == here.name]
            if len(ways) != 1:
                break
            here = case.vertex(ways[0][0])
            if here.work is Work.SINK:
                if source.work is Work.SOURCE:
                    yield source.name
                break
            if here.parallelism > 1 and ways[0][1] != "forward":
                break
