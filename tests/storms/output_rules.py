"""Checks of what a finished storm leaves: committed records and their order, counters, and stored files.

Each check yields a line for each problem; a check that yields nothing has passed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from fractions import Fraction
from math import floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buffers import WATERMARK_BYTES
from netstack import (
    CheckpointMode,
    DelayMessages,
    DropMessages,
    FailUpload,
    Fault,
    FileLayout,
    FillStorage,
    Job,
    ShipStrategy,
    StorageError,
    Transaction,
    folder_of,
)

from .case import GATHERS, ONE_FOR_ONE, SUMS, Guarantee, StormCase, StormVertex, Work
from .draw import has_time_for_checkpoints, idle_checkpoint_s, lasts_for_good
from .draw_job import has_watermarks
from .expected import Amount, Lives, at_least, by_chance, expected_output, flows_of, together
from .operators import KEY_SIZE, is_sum, key_of, parse_sum
from .storage import Untroubled

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


_HEAD = re.compile(rb"(?s)\A.{%d}\d*(source\d+)\.(\d+)\.(\d+)" % KEY_SIZE)


_SHOWN_RECORDS = 8
"""Records that a line names at most."""


class Order(IntEnum):
    """Which records of a subtask of a source come in order."""

    NONE = 0
    OF_KEYS = 1
    ALL = 2


class Together(IntEnum):
    """Which records of a subtask of a source are in one subtask of a vertex."""

    NONE = 0
    OF_KEYS = 1
    ALL = 2


class Way(NamedTuple):
    """What is known of the records of a source at a vertex."""

    order: Order
    together: Together


def orders_at(case: StormCase, source: StormVertex) -> dict[str, Order]:
    """Which records of a source are in order in each subtask of a vertex, by the vertex's name."""
    ways = {source.name: Way(Order.ALL, Together.ALL)}
    for vertex in case.vertices:
        reached = [(producer, ship) for producer, ship in case.inputs(vertex) if producer.name in ways]
        if len(reached) == 1:
            producer, ship = reached[0]
            ways[vertex.name] = _behind(vertex, _over(producer, vertex, ship, ways[producer.name]))
        elif reached:
            ways[vertex.name] = Way(Order.NONE, Together.NONE)
    return {name: way.order for name, way in ways.items()}


def _over(producer: StormVertex, consumer: StormVertex, ship: str, way: Way) -> Way:
    """What is known behind an exchange."""
    one_producer = producer.parallelism == 1 or ship == ShipStrategy.FORWARD
    one_producer = one_producer or (
        ship == ShipStrategy.RESCALE and producer.parallelism <= consumer.parallelism
    )
    together = Together.ALL if one_producer else way.together
    order = Order(min(way.order, int(together)))
    if consumer.parallelism == 1:
        return Way(order, Together.ALL)
    if ship == ShipStrategy.FORWARD or (
        ship == ShipStrategy.RESCALE and producer.parallelism >= consumer.parallelism
    ):
        return Way(order, way.together)
    return Way(order, Together.OF_KEYS if ship == ShipStrategy.HASH else Together.NONE)


def _behind(vertex: StormVertex, way: Way) -> Way:
    """What is known behind a vertex."""
    if vertex.work in SUMS or vertex.work is Work.GATHER_IN_MAP or vertex.by_event_time:
        # Of windows: behind a restart records count as of the first one, until a watermark comes.
        return Way(Order.NONE, way.together)
    if vertex.work in GATHERS:
        return Way(Order(min(way.order, Order.OF_KEYS)), way.together)
    return way


def check_order(case: StormCase, transactions: Sequence[Transaction], restarts: int) -> Iterator[str]:
    """The records that each subtask of the sink has committed are in order, as far as they have to be.

    Where records may be processed twice, they are in order as long as nothing has failed.
    """
    if restarts and case.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE:
        return
    if restarts and case.config.checkpoint_interval_s is None:
        return  # what was committed before the restart is committed again
    orders = {
        vertex.name.encode(): orders_at(case, vertex).get("sink", Order.NONE)
        for vertex in case.vertices
        if vertex.work is Work.SOURCE
    }
    by_subtask: dict[int, list[Transaction]] = defaultdict(list)
    # What is put out at the end without a checkpoint is transaction 0, and the last one.
    for each in sorted(transactions, key=lambda each: (each.checkpoint_id == 0, *each[:3])):
        by_subtask[each.subtask].append(each)
    for subtask, own in by_subtask.items():
        yield from _out_of_order(orders, subtask, [record for each in own for record in each.records])


def check_turns(case: StormCase, transactions: Sequence[Transaction]) -> Iterator[str]:
    """In a run without failures, records that were dealt out have come to the sink in turns."""
    dealt = {each.name.encode(): turns for each in case.vertices if (turns := turns_of(case, each))}
    for transaction in transactions:
        numbers: dict[tuple[bytes, bytes], list[int]] = defaultdict(list)
        for head in map(_HEAD.match, transaction.records):
            if head is not None and head[1] in dealt:
                numbers[head[1], head[2]].append(int(head[3]))
        for (source, subtask), own in numbers.items():
            places = {number % dealt[source] for number in own}
            if len(places) > 1:
                name = f"{source.decode()}[{subtask.decode()}]"
                text = f"sink[{transaction.subtask}] has records {own[:_SHOWN_RECORDS]} of {name}"
                yield f"{text}, which deals out to {dealt[source]} in turns"


def turns_of(case: StormCase, source: StormVertex) -> int:
    """Among how many subtasks the records of a source are dealt out on their way; 0: not in turns alone."""
    if case.config.adaptive_partitioner_enabled:
        return 0
    turns, alone, vertex = 1, True, source
    while vertex.work is not Work.SINK:
        ways = [(target, ship) for origin, target, ship in case.edges if origin == vertex.name]
        if len(ways) != 1 or vertex.work not in (Work.SOURCE, Work.PASS):
            return 0
        ((target, ship),) = ways
        producer, vertex = vertex, case.vertex(target)
        if ship == ShipStrategy.REBALANCE and turns == 1 and alone:
            turns = vertex.parallelism
        elif ship != ShipStrategy.FORWARD and vertex.parallelism > 1:
            return 0
        one_producer = producer.parallelism == 1 or ship == ShipStrategy.FORWARD
        alone = alone and one_producer and len(case.inputs(vertex)) == 1
    return turns if vertex.parallelism > 1 and turns > 1 else 0


def _out_of_order(orders: dict[bytes, Order], subtask: int, records: Sequence[bytes]) -> Iterator[str]:
    last: dict[tuple[bytes, ...], int] = {}
    for record in records:
        head = _HEAD.match(record)
        order = Order.NONE if head is None else orders[head[1]]
        if head is None or order is Order.NONE:
            continue
        place = (head[1], head[2], key_of(record) if order is Order.OF_KEYS else b"")
        number = int(head[3])
        if number < last.get(place, -1):
            text = f"record {number} of {head[1].decode()}[{head[2].decode()}] behind {last[place]}"
            yield f"out of order in sink[{subtask}]: {text}"
            return
        last[place] = number


_LENGTH_BYTES = 4


def check_counters(case: StormCase, job: Job) -> Iterator[str]:
    """Records, bytes and buffers add up over the exchanges of a job that has ended and never failed."""
    flows = flows_of(case)
    last = [
        {name: values[:, -1] for name, values in job.recorder.samples_of(number).items()}
        for number in range(len(case.vertices))
    ]
    by_subtask = dict(zip([vertex.name for vertex in case.vertices], last, strict=True))
    totals = {name: {key: own.sum() for key, own in each.items()} for name, each in by_subtask.items()}
    for vertex in case.vertices:
        counted, flow = totals[vertex.name], flows[vertex.name]
        sent = list(flow.sent.values())
        yield from _compare_records(vertex.name, "records_in", counted["records_in"], [flow.read])
        yield from _compare_records(vertex.name, "records_out", counted["records_out"], sent)
        if all(each.is_exact for each in sent):
            wanted = sum(map(_bytes_of, sent))
            if _differ(counted["bytes_out"], wanted, has_watermarks(case)):
                text = f"{vertex.name} has counted {counted['bytes_out']:.0f} bytes_out"
                yield f"{text}, and {wanted} were there"
        yield from _compare_turns(case, vertex, by_subtask[vertex.name])
        if vertex.work is not Work.SOURCE and not any(
            ShipStrategy.of(ship).copies for _, ship in case.inputs(vertex)
        ):
            over = [flows[producer.name].sent[vertex.name] for producer, _ in case.inputs(vertex)]
            wanted = sum(map(_bytes_of, over))
            if all(each.is_exact for each in over) and _differ(
                counted["bytes_in"], wanted, has_watermarks(case)
            ):
                text = f"{vertex.name} has counted {counted['bytes_in']:.0f} bytes_in"
                yield f"{text}, and {wanted} were sent to it"
    yield from _compare_sums(case, job, totals)


def _compare_sums(case: StormCase, job: Job, totals: dict[str, dict[str, float]]) -> Iterator[str]:
    read = sum(totals[vertex.name]["records_in"] for vertex in case.vertices)
    if job.work.records != read:
        yield f"{job.work.records} records are the work of the run, and {read:.0f} were read"
    buffers = sum(totals[vertex.name]["buffers_in"] for vertex in case.vertices)
    config = case.config
    has_own = config.exclusive_buffers_per_channel > 0 and config.max_required_buffers_per_gate is None
    # Without exclusive buffers empty ones are sent, too, which are never read.
    if has_own and job.work.buffers > buffers:
        yield f"{job.work.buffers} buffers went over links, and {buffers:.0f} were read"


def _compare_records(vertex: str, name: str, counted: float, amounts: list[Amount]) -> Iterator[str]:
    low, high = sum(each.low for each in amounts), sum(each.high for each in amounts)
    if not low <= counted <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        yield f"{vertex} has counted {counted:.0f} {name}, and {wanted} were there"


def _compare_turns(
    case: StormCase, vertex: StormVertex, counted: Mapping[str, NDArray[np.float64]]
) -> Iterator[str]:
    """Compare what each subtask has sent with what it has read, where turns say how many that is."""
    shares = [case.fraction(vertex.name, target) for source, target, _ in case.edges if source == vertex.name]
    if vertex.selectivity.denominator == 1 and set(shares) <= {Fraction(1)}:
        return
    for subtask in range(vertex.parallelism):
        bounds = _emitted(case, vertex, subtask, int(counted["records_in"][subtask]))
        if bounds is None:
            continue
        low, high = (sum(floor(share * number) for share in shares) for number in bounds)
        sent = int(counted["records_out"][subtask])
        if not low <= sent <= high:
            wanted = f"{low}" if low == high else f"{low} to {high}"
            yield f"{vertex.name}[{subtask}] has sent {sent} records, and {wanted} are due"


def _emitted(case: StormCase, vertex: StormVertex, subtask: int, read: int) -> tuple[int, int] | None:
    """How many records a subtask emits at least and at most when it has read so many; None: any number."""
    if vertex.work is Work.SOURCE:
        number = vertex.record_count(subtask)
        return number, number
    if vertex.work is Work.EMIT:
        share = vertex.selectivity
        if vertex.at_random:
            return by_chance(share, read, len(case.inputs(vertex)) if vertex.apart else 1)
        counts = len(case.inputs(vertex)) if vertex.apart else 1  # of each input for itself
        most = floor(share * read)
        return (most if counts == 1 else at_least(share, read, counts)), most
    if vertex.work in ONE_FOR_ONE or vertex.work is Work.COPY:
        return read * vertex.copies, read * vertex.copies
    return None


def _bytes_of(amount: Amount) -> int:
    return sum((len(record) + _LENGTH_BYTES) * number for record, number in amount.most.items())


def _differ(counted: float, wanted: int, watermarks: bool) -> bool:
    """Whether a count is not what it should be, or that and some watermarks."""
    more = counted - wanted
    return bool(more < 0 or more % WATERMARK_BYTES) if watermarks else more != 0


def check_storage(job: Job, storage: FileLayout, files: Iterable[str]) -> Iterator[str]:
    """As many checkpoints as are to be retained are whole, the latest ones; no file is left over.

    `files` are the paths of all that is stored.
    """
    complete, wanted = storage.checkpoints(), retained_at_the_end(job)
    if complete != wanted:
        retained = job.scenario.config.retained_checkpoints
        yield f"checkpoints {complete} are stored, and of {retained} to be retained {wanted} should be"
    given_up = {restart.unusable_checkpoint_id for restart in job.restarts}
    needed = set[str]()
    for number in complete:
        if number not in given_up:
            yield from unreadable(storage, number)
        needed |= {f"{folder_of(number)}/", *storage.load(number).files}
    savepoints = {head.savepoint for head in job.recorder.checkpoints if head.status == "COMPLETED"}
    for path in [path for path in sorted(files) if not _is_needed(path, needed, savepoints)][:_SHOWN]:
        yield f"{path} is left behind, and no checkpoint needs it"


def _is_needed(path: str, needed: set[str], savepoints: set[str | None]) -> bool:
    folder, slash, _ = path.rpartition("/")
    metadata = path.endswith("_metadata") and f"{folder}/" in needed
    return metadata or path in needed or folder in savepoints or not slash


def retained_at_the_end(job: Job) -> list[int]:
    """The checkpoints that have to be stored when a run is over, by those that it has completed.

    What another run has left counts as the first. One that could not be restored is forgotten, and stays.
    """
    events = [
        (head.ended_at, head.checkpoint_id, True)
        for head in job.recorder.checkpoints
        if head.status == "COMPLETED" and head.savepoint is None and head.ended_at is not None
    ]
    events += [
        (restart.restarted_at, restart.unusable_checkpoint_id, False)
        for restart in job.restarts
        if restart.unusable_checkpoint_id is not None and restart.restarted_at is not None
    ]
    initial = [] if job.start is None else [job.start.initial.metadata.checkpoint_id]
    kept, forgotten = list(initial), list[int]()
    for _, number, completed in sorted(events):
        if completed:
            kept = [*kept, number][-job.scenario.config.retained_checkpoints :]
        else:
            kept.remove(number)
            forgotten.append(number)
    return sorted(number for number in {*kept, *forgotten} if number not in initial)


def unreadable(storage: FileLayout, number: int) -> Iterator[str]:
    """Yield what of a complete checkpoint cannot be read."""
    read = Untroubled(storage).read
    try:
        for snapshot in storage.load(number).subtasks:
            for handle in snapshot.handles:
                if handle.file is not None:
                    read(handle.file)
    except StorageError as error:
        yield f"checkpoint {number} is not whole: {error}"
