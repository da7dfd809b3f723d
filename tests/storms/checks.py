"""What has to be true of a storm, while it goes on and when it is over.

Each check yields a line for everything that is wrong, so a check that yields nothing has passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from netstack import (
    CheckpointMode,
    DelayMessages,
    DropMessages,
    FailUpload,
    Fault,
    FillStorage,
    Job,
    Transaction,
)

from .case import Guarantee, StormCase
from .storm_estimates import has_time_for_checkpoints, idle_checkpoint_s
from .storm_faults import lasts_for_good
from .storm_flows import expected_output, together
from .storm_lives import Lives
from .storm_records import is_sum, parse_sum

_SHOWN = 3
"""Records that a line names at most."""

_EXPIRED = "CHECKPOINT_EXPIRED"
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

    def records_of(self, sink: str) -> int:
        """How many records of a sink are visible."""
        return sum(len(each.records) for each in self.transactions.values() if each.vertex == sink)


def check_memory(job: Job, neighbours_kept: int) -> Iterator[str]:
    """All memory of all attempts has come back, but for what other jobs have."""
    leaked = job.leaked_segments - neighbours_kept
    if leaked:
        yield f"{leaked} segments were not given back"


_NOTHING_TO_RESTORE = (
    "there is no other checkpoint to restore",
    "the run ended before an older checkpoint was tried",
)


def check_end(case: StormCase, job: Job, ended: bool) -> Iterator[str]:
    """The job has ended by itself, or a fault explains why not."""
    fired = [fault for fault in case.faults if any(str(fault) == each.what for each in job.faults.fired)]
    causes = [restart.cause for restart in job.restarts]
    failures = [restart.failed_at for restart in job.restarts]
    parallelism = {each.name: each.parallelism for each in job.scenario.vertices}
    stands_still = case.may_stand_still(parallelism)
    patient = case.patient and not stands_still and has_time_for_checkpoints(case, parallelism)
    # A failure while another region waits for its restart counts as one with its.
    merged = any(restart.tasks for restart in job.restarts)
    for count in range(1, len(failures) + 1):
        if case.gives_up(failures[:count]) and not merged:
            yield f"began again after failure {count}, against {case.restart_strategy}"
    if job.failure is not None:
        causes.append(job.failure)
        is_stopped = job.coordinator.stopped_with is not None  # and so it does not begin again
        hopeless = bool(case.trouble) and any(why in job.failure for why in _NOTHING_TO_RESTORE)
        if not (is_stopped or hopeless or merged or case.gives_up([*failures, job.agenda.now])):
            yield f"failed for good after {len(failures)} restarts, against {case.restart_strategy}"
    elif not (ended or stands_still or lasts_for_good(case.faults) or expire_for_good(case, job)):
        yield f"did not end within {case.duration_s:g} s, and nothing keeps it from that"
    for cause in causes:
        if not _explained(cause, fired, patient=patient):
            yield f"failed for no good reason: {cause}"


def expire_for_good(case: StormCase, job: Job) -> bool:
    """Whether all checkpoints of the second half of a run have expired, as they stand in each other's way.

    That is so where those that may be under way at once take longer than their timeout, one after another in
    one task: each has expired when its turn comes, and another one has been triggered in its place.
    """
    recorder, config = job.recorder, case.config
    late = [head for head in recorder.checkpoints if head.triggered_at > job.agenda.now / 2]
    expired = [head.failure == _EXPIRED for head in late if head.ended_at is not None]
    parts = [recorder.parts_of(number)["sync_s"] for number in range(len(case.vertices))]
    longest_s = max((np.nanmax(each) for each in parts if not np.isnan(each).all()), default=0.0)
    at_once = config.max_concurrent_checkpoints
    in_turn_s = at_once * longest_s + idle_checkpoint_s(case)
    return at_once > 1 and bool(expired) and all(expired) and bool(in_turn_s > config.checkpoint_timeout_s)


def _explained(cause: str, fired: Iterable[Fault], *, patient: bool) -> bool:
    if cause.startswith("checkpoint ") and " failed: " in cause:
        return not patient or any(isinstance(fault, _HINDER_CHECKPOINTS) for fault in fired)
    if "cannot be restored" in cause:
        return "as the storm will have it" in cause
    return any(cause.startswith(str(fault)) for fault in fired)


def check_output(
    case: StormCase, log: CommitLog, ended: bool, lives: Lives, *, went_back: bool = False
) -> Iterator[str]:
    """What was committed is what the job had to put out, as far as it got and as its mode promises.

    `went_back`: the job went on from a checkpoint that was not the last.
    """
    guarantee = case.guarantee(lives.restarts, went_back=went_back)
    if guarantee is not Guarantee.NOTHING_INVENTED:
        for transaction in log.changed[:_SHOWN]:
            name = f"{transaction.vertex}[{transaction.subtask}]"
            yield f"{name} committed transaction {transaction.checkpoint_id} twice, with other records"
    sinks, got = expected_output(case, lives), log.output
    wanted = together(sinks.values())
    complete = ended and case.commits_all and guarantee is not Guarantee.NOTHING_INVENTED
    if guarantee is Guarantee.EXACTLY_ONCE:
        yield from _differences("put out too often", got - wanted.most)
    else:
        yield from _differences("invented", Counter(_invented(case, wanted.most, got)))
    if complete:
        yield from _differences("missing", _missing(guarantee, wanted.least, got))
    for name, amount in sinks.items():
        if not amount.is_exact:
            number = log.records_of(name)
            if guarantee is Guarantee.EXACTLY_ONCE and number > amount.high:
                yield f"{name} has put out {number} records, and its shares allow {amount.high} at most"
            if complete and number < amount.low:
                yield f"{name} has put out {number} records, and its shares allow {amount.low} at least"


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
