"""Case of a seed: one shuffle, what goes wrong while it runs, and its rows with the task where each belongs.

A fault comes at one of three moments. Files show them, not the clock, so that they are the same on any
machine::

    meeting   a task has reached its worker, and has not yet published its address
    moving    rows of all inputs are under way, and all inputs wait
    ending    all inputs continue; the fault comes a drawn time later, perhaps after the end

The expected rows are computed here one by one, without code of the shuffle.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import msgspec
import pyarrow as pa

SLOTS = 4
"""Tasks that run at once, in each of the sessions."""

LIMIT_S = 10.0
"""From the fault to the failure."""

SILENCE_S = 4.0
"""After which a peer is given up that says nothing; the time that Spark waits for tasks to meet, too."""

EXECUTOR_SILENCE_S = 6.0
"""After which Spark gives an executor up that says nothing."""

_LONGEST_PAUSE_S = 2.0
_MOST_BYTES = 6 << 20
_MOST_ROWS = 20_000


class Fault(StrEnum):
    """What goes wrong."""

    NONE = "none"
    SLOW_READER = "slow reader"
    STRANGERS = "strangers at the door"
    KILLED_WORKER = "worker killed"
    STOPPED_WORKER = "worker stopped for good"
    PAUSED_WORKER = "worker stopped for a while"
    KILLED_EXECUTOR = "executor killed"
    STOPPED_EXECUTOR = "executor stopped for good"
    FULL_DISK = "disk full"


class Moment(StrEnum):
    """When it does."""

    MEETING = "meeting"
    MOVING = "moving"
    ENDING = "ending"


_WEIGHTS = {
    Fault.NONE: 8,
    Fault.SLOW_READER: 8,
    Fault.STRANGERS: 18,
    Fault.KILLED_WORKER: 24,
    Fault.STOPPED_WORKER: 8,
    Fault.PAUSED_WORKER: 12,
    Fault.KILLED_EXECUTOR: 8,
    Fault.STOPPED_EXECUTOR: 3,
    Fault.FULL_DISK: 11,
}
_OF_EXECUTORS = {Fault.KILLED_EXECUTOR, Fault.STOPPED_EXECUTOR}
_OF_WORKERS = {Fault.KILLED_WORKER, Fault.STOPPED_WORKER, Fault.PAUSED_WORKER}
_OF_PROCESSES = _OF_WORKERS | _OF_EXECUTORS
_ELSEWHERE = 0.12
"""Share of the other shuffles that run in executors of their own, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A shuffle and its fault; times in seconds."""

    seed: int
    fault: Fault
    moment: Moment
    victim: int
    """Index of the task that meets with the fault."""
    of_input: bool
    """Whether it is the worker that makes the input of the task, not its own."""
    delay_s: float
    """From the moment to the fault."""
    pause_s: float
    """How long a worker is stopped, a reader sleeps in all, or strangers come before the meeting."""
    executors: bool
    """Whether executors are processes of their own, two of two slots; else the driver has all slots."""
    tasks: int
    partitions: int
    """As many as tasks, or more."""
    ship: str
    partitioner: str
    text_keys: bool
    keys: int
    """Number of different ones."""
    hot: bool
    """Whether half of the rows have the same one."""
    rows: tuple[int, ...]
    """Of each partition of the input."""
    longest: int
    """Bytes of the longest payload."""
    hold_after: float
    """Share of its rows that an input gives before it waits."""
    compression: str | None
    stage_behind: bool
    """Whether another stage reads the partitions, so that Spark may run the exchange again."""

    @property
    def several(self) -> bool:
        """Whether tasks take several partitions, so that rows pass Spark's files."""
        return self.partitions > self.tasks

    @property
    def held(self) -> bool:
        """Whether inputs wait in the middle."""
        return self.moment is not Moment.MEETING and self.fault in _OF_PROCESSES

    @property
    def strikes_process(self) -> bool:
        """Whether the fault is a signal to a process."""
        return self.fault in _OF_PROCESSES

    @property
    def bounds(self) -> list[int] | None:
        """The greatest key of each partition but the last, for ranges."""
        return (
            [(place + 1) * self.keys for place in range(self.partitions - 1)]
            if self.ship == "range"
            else None
        )

    def __str__(self) -> str:
        moment = f" ({self.moment}, task {self.victim}{', its input' if self.of_input else ''})"
        how = f"{self.ship}, {self.partitioner}" if self.ship == "hash" else self.ship
        return (
            f"{self.fault}{moment if self.strikes_process else ''}: {sum(self.rows)} rows of up to"
            f" {self.longest} bytes, {how}, {self.tasks} tasks, {self.partitions} partitions"
            f"{', executors' if self.executors else ''}{', a stage behind' if self.stage_behind else ''}"
        )


def draw(seed: int) -> Case:
    """Return the case of a seed: always the same one."""
    chance = random.Random(f"shuffle under a fault {seed}")
    fault = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    tasks = chance.randint(2, SLOTS)
    several = chance.random() < (0.8 if fault is Fault.FULL_DISK else 0.4)
    ship = chance.choices(("hash", "rebalance", "broadcast", "range"), (6, 2, 1, 2))[0]
    longest = chance.choice((8, 100, 1000, 20_000, 300_000))
    return Case(
        seed=seed,
        fault=fault,
        moment=chance.choice(tuple(Moment)),
        victim=chance.randrange(tasks),
        of_input=fault in (Fault.KILLED_WORKER, Fault.PAUSED_WORKER) and chance.random() < 0.25,
        delay_s=chance.uniform(0.0, 0.5),
        pause_s=_pause_s(fault, chance),
        executors=fault in _OF_EXECUTORS or chance.random() < _ELSEWHERE,
        tasks=tasks,
        partitions=chance.randint(SLOTS + 1, 12) if several else tasks,
        ship=ship,
        partitioner=chance.choice(("flink", "spark")) if ship == "hash" else "flink",
        text_keys=ship != "range" and chance.random() < 0.5,
        keys=chance.choice((1, 5, 100, 10_000)),
        hot=chance.random() < 0.2,
        rows=_rows(fault, tasks, longest, chance),
        longest=longest,
        hold_after=chance.choice((0.0, 0.5, 0.9, 1.0)),
        compression=chance.choice((None, None, "lz4", "zstd")),
        stage_behind=chance.random() < 0.35,
    )


def _pause_s(fault: Fault, chance: random.Random) -> float:
    if fault is Fault.PAUSED_WORKER:  # for less, or for more, than a peer may be silent
        return chance.choice((chance.uniform(0.2, _LONGEST_PAUSE_S), SILENCE_S + chance.uniform(2.0, 3.0)))
    return chance.uniform(0.2, _LONGEST_PAUSE_S)


def _rows(fault: Fault, tasks: int, longest: int, chance: random.Random) -> tuple[int, ...]:
    """Rows of each input: few, many, or none in some of them; a full disk needs some to be full of."""
    most = min(_MOST_ROWS, _MOST_BYTES // longest)
    least = most // 2 if fault is Fault.FULL_DISK else 0
    rows = [chance.randint(least, most) for _ in range(tasks)]
    if fault is not Fault.FULL_DISK and chance.random() < 0.15:
        rows[chance.randrange(tasks)] = 0
    return tuple(rows)


def meaning_of_seeds() -> str:
    """Return a text that is another one when seeds mean other cases."""
    return msgspec.json.encode([repr(draw(seed)) for seed in (0, 1, 2, 3)]).hex()[-64:]


SCHEMA = "id long, source int, key {key}, payload binary"
"""Of the rows, in Spark's words: `source` is the partition of the input, `key` a long or a string."""

BATCH_ROWS = 500
_CONTENTS = random.Random(1).randbytes(1 << 20)
_ROW_BITS = 32


def schema_of(case: Case) -> str:
    """Return the columns of the rows, in Spark's words."""
    return SCHEMA.format(key="string" if case.text_keys else "long")


def input_batches(case: Case, source: int) -> Iterator[pa.RecordBatch]:
    """Give the rows of a partition of the input; of none, no batch."""
    for first in range(0, case.rows[source], BATCH_ROWS):
        ids = [
            (source << _ROW_BITS) + row for row in range(first, min(first + BATCH_ROWS, case.rows[source]))
        ]
        keys = pa.array(
            [key_of(case, number) for number in ids], pa.string() if case.text_keys else pa.int64()
        )
        payloads = pa.array([payload_of(case, number) for number in ids], pa.binary())
        columns = [pa.array(ids, pa.int64()), pa.array([source] * len(ids), pa.int32()), keys, payloads]
        yield pa.record_batch(columns, ["id", "source", "key", "payload"])


def payload_of(case: Case, number: int) -> bytes:
    """Return the bytes of a row, which follow from its id."""
    mixed = number * 2654435761 % (1 << 40)
    start = (mixed >> 8) % (len(_CONTENTS) - case.longest)
    return _CONTENTS[start : start + mixed % (case.longest + 1)]


def key_of(case: Case, number: int) -> int | str:
    """Return the key of a row, which follows from its id; for ranges they lie around all bounds."""
    mixed = number * 40503 % (1 << 31)
    most = case.keys * (case.partitions + 1) if case.ship == "range" else case.keys
    key = 0 if case.hot and mixed & 1 else mixed // 2 % most
    return f"key {key}" if case.text_keys else key


def problem_with(case: Case, table: pa.Table, by_spark: dict[int, int] | None) -> str:
    """Say what is wrong with the rows that came out; empty: nothing.

    Args:
        case: The case.
        table: The rows with one more column `place`, the partition that each was in.
        by_spark: The place of each id by Spark's own `repartition`, if that is what it has to be.
    """
    ids, places = table["id"].to_pylist(), table["place"].to_pylist()
    copies = case.partitions if case.ship == "broadcast" else 1
    wanted = [(source << _ROW_BITS) + row for source, count in enumerate(case.rows) for row in range(count)]
    counted = Counter(ids)
    wrong = [number for number in wanted if counted[number] != copies]
    if wrong or len(counted) != len(wanted):
        strange = f"{len(counted.keys() - set(wanted))} rows were never sent"
        return (
            f"the row {wrong[0]:x} exists {counted[wrong[0]]} times in place of {copies}"
            if wrong
            else strange
        )
    for number, source, key, payload in zip(
        ids, *(table[name].to_pylist() for name in ("source", "key", "payload")), strict=True
    ):
        if (source, key, payload) != (number >> _ROW_BITS, key_of(case, number), payload_of(case, number)):
            return f"row {number:x} has other values than were sent"
    return _problem_with_places(case, ids, places, by_spark)


def _problem_with_places(
    case: Case, ids: list[int], places: list[int], by_spark: dict[int, int] | None
) -> str:
    if case.ship in ("rebalance", "broadcast"):
        return _problem_with_turns(case, ids, places)
    found: dict[int | str, int] = {}
    for number, place in zip(ids, places, strict=True):
        key = key_of(case, number)
        if key not in found:
            found[key] = by_spark[number] if by_spark is not None else place_of(case, key)
        if place != found[key] or (by_spark is not None and by_spark[number] != place):
            return f"row {number:x} with {key!r} is in partition {place} in place of {found[key]}"
    return ""


def _problem_with_turns(case: Case, ids: list[int], places: list[int]) -> str:
    """Rows of one input are dealt out in turns, so partitions differ by one at most; or all go to each."""
    counted = Counter((number >> _ROW_BITS, place) for number, place in zip(ids, places, strict=True))
    for source, rows in enumerate(case.rows):
        least, more = (rows, 0) if case.ship == "broadcast" else divmod(rows, case.partitions)
        of_source = [counted[source, place] for place in range(case.partitions)]
        if not all(least <= count <= least + bool(more) for count in of_source):
            return f"rows of input {source} are {of_source} by partition"
    return ""


def place_of(case: Case, key: int | str) -> int:
    """Return the partition of a key: by the bounds, or by Flink's key groups."""
    if case.bounds is not None:
        assert isinstance(key, int)
        return bisect_left(case.bounds, key)
    groups = max(128, 1 << (case.partitions + case.partitions // 2 - 1).bit_length())
    return _murmur(_java_hash(key)) % groups * case.partitions // groups


def _java_hash(key: int | str) -> int:
    """`String.hashCode` and `Long.hashCode`, without a sign."""
    if isinstance(key, int):
        return (key ^ key >> 32) & 0xFFFFFFFF
    code = 0
    for letter in key:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return code


def _murmur(code: int) -> int:
    """Flink's `MathUtils.murmurHash`: never negative."""
    mixed = _rotated(code * 0xCC9E2D51, 15) * 0x1B873593
    mixed = (_rotated(mixed, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    mixed ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ mixed >> shift) * factor & 0xFFFFFFFF
    signed = mixed - (1 << 32) if mixed >> 31 else mixed
    return 0 if signed == -(1 << 31) else abs(signed)


def _rotated(number: int, by: int) -> int:
    number &= 0xFFFFFFFF
    return (number << by | number >> 32 - by) & 0xFFFFFFFF
