"""Load of each subtask: records, their size and cost, and the queues before it.

The cost of a record is a task's busy time divided by its number of records, with or without back-pressure.
Counters over the time watched show the present load, however few records there are. Counters since the start
of a task include its start-up, with its backlog and the compilation of its code. They are used for the cost
of a record if no records were seen, and for everything if no time passed. A rate is also averaged with the
rate of the minute before, which Flink's meter reports. The difference between the two rates shows the
uncertainty. A task that does not report its times, such as a legacy source, is timed by those of other
tasks.

Bytes are counted by buffers, so a few buffers more or less distort a small count of bytes. Over one exchange,
the errors of the producer's and the consumer's count are opposite.

A barrier waits as long as the records before it take, so start delays that rise by 20 ms per second show that
2 % more records arrive than are read. Counters cannot show this: two subtasks that are always busy both read
as much as they can, even if one of them gets more. If records are distributed in turns (rebalance), subtasks
that are always busy get and read the same number of records, so the lag of one subtask behind the others
remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt
from typing import Literal, NamedTuple

from netstack import CheckpointResult, CostModel, NetworkConfig, VertexCheckpoint

from ...base.optional_figures import complete, mean_of_known, middle, pair_slopes, quotient
from ...runs.job_load import SATURATED
from ..read.job import FlinkJob, FlinkVertex
from ..read.samples import ACCOUNT, METER_S, Samples, SubtaskSamples, account_s, is_same_load, longer_per_s

ENOUGH_RECORDS = 200
"""Minimum number of records in the time watched for rates and costs to be exact within some percent."""

LEAST_RECORDS = 50
"""Minimum number of records since the start for an estimate."""

ENOUGH_BUFFERS = 400
"""Minimum number of buffers in the time watched that give the record size within half a percent."""

HARDLY_PER_S = 0.05
"""Records per second assumed for a source's subtask that emits next to nothing."""

IDLE = 0.05
"""A source that is idle for at least this share of the time emits all records that arrive."""

LEAST_INTERVALS = 10
"""Minimum number of intervals between polls of subtasks that show how much the sizes of records differ."""

SMALL_RECORD = 0.1
"""Share of a buffer below which the differing sizes of records have no effect."""

LEAST_RECORD_SPREAD = 0.2
"""Relative standard deviation below which records count as equally long."""

COUNTED_APART_S = 0.03
"""Assumed time between Flink's readings of `bytes_out` and `records_out`, in seconds.

In a source of equal records they were 20 to 40 ms apart.
"""

MOST_RECORD_SPREAD = 3.0
"""Largest relative standard deviation that a scenario may have."""

_NEVER_IDLE = 0.99
"""If a task is busy for at least this share of the time, its rate is the inverse of its cost per record."""

_LEAST_SERVICE_S = 1e-6
_SLEEP_S = 1e-3

_LEAST_TREND = 5
"""Minimum number of checkpoints to show a trend."""

_LEAST_AGREEING = 3
"""Minimum number of checkpoints whose agreement is not chance."""

_AGREE = 0.8
"""Minimum share of the checkpoints, or pairs of them, that must agree."""

_MOST_GROWTH = 0.1
"""Maximum growth of a queue, as a share of the records read, that counts as a steady trend."""


@dataclass(frozen=True, slots=True)
class Load:
    """Counters of one subtask; None: not reported."""

    records: float
    busy_s: float | None
    seconds: float | None
    """Period of the counters."""
    held_s: float | None = None
    """Back-pressured time, in seconds."""
    minute_per_s: float | None = None
    """Records per second in the minute before."""
    cost_before_s: float | None = None
    """Busy time in seconds per record since the start, for use if no records were seen."""

    def without(self, per_s: float) -> Load:
        """Return the load without `per_s` of its records per second, which cost no time."""
        if not per_s or not self.seconds:
            return self
        minute = None if self.minute_per_s is None else max(0.0, self.minute_per_s - per_s)
        return replace(self, records=max(0.0, self.records - per_s * self.seconds), minute_per_s=minute)

    @property
    def busy_share(self) -> float | None:
        """Share of busy time."""
        return quotient(self.busy_s, self.seconds)

    @property
    def held_share(self) -> float | None:
        """Share of back-pressured time."""
        return quotient(self.held_s, self.seconds)

    @property
    def idle_share(self) -> float | None:
        """Share of idle time."""
        busy, held = self.busy_share, self.held_share
        return None if busy is None or held is None else 1 - busy - held

    @property
    def per_s(self) -> float | None:
        """Records per second, including the minute before if the load was the same."""
        now = self._now_per_s
        return None if now is None or not self.seconds else longer_per_s(now, self.seconds, self.minute_per_s)

    @property
    def cost_s(self) -> float | None:
        """Busy time per record, in seconds. For a task that never idles, it follows from `per_s`."""
        if self.busy_s is None:
            return None
        if not self.records:
            return self.cost_before_s
        rate, now = self.per_s, self._now_per_s
        dearer = now / rate if rate and now and self.never_idles else 1.0
        return self.busy_s / self.records * dearer

    @property
    def never_idles(self) -> bool:
        """Whether the subtask is always busy, so that its rate shows the cost of a record."""
        return self.busy_share is not None and self.busy_share >= _NEVER_IDLE

    @property
    def error(self) -> float:
        """Relative standard error of `per_s`; 0 if there is only one rate.

        It follows from the difference of the rates over the time watched and over the minute before.
        """
        rate, now, seconds, before = self.per_s, self._now_per_s, self.seconds, self.minute_per_s
        if not rate or now is None or not seconds or before is None or not is_same_load(now, before):
            return 0.0
        return abs(now - before) * sqrt(seconds * METER_S) / (seconds + METER_S) / rate

    @property
    def _now_per_s(self) -> float | None:
        return quotient(self.records, self.seconds)


def load_of(
    subtask: SubtaskSamples, field: str, passed: float | None = None, age_s: float | None = None
) -> Load | None:
    """Return a subtask's load, by its counter "records_in" or "records_out"; None: too few records.

    The load covers the time watched, or the time since the start if no time passed. `passed` and `age_s` are
    these two times for a subtask that does not report its times.
    """
    watched, total = subtask.increase(field), subtask.total(field)
    if total is None or total < LEAST_RECORDS:
        return None
    busy, idle, held = (quotient(subtask.total(part), 1e3) for part in ACCOUNT)
    before_s = quotient(busy, total)
    seconds = subtask.seconds if subtask.accounted_s is not None or passed is None else passed
    if watched is not None and (seconds or watched >= ENOUGH_RECORDS):
        busy, _, held = (quotient(subtask.increase(part), 1e3) for part in ACCOUNT)
        return Load(watched, busy, seconds, held, subtask.minute_per_s(field), before_s)
    parts = complete([busy, idle, held])
    return Load(total, busy, age_s if parts is None else sum(parts), held)


def evened(loads: Sequence[Load | None], growth: Sequence[float]) -> list[Load | None]:
    """Return the loads of subtasks that get records in turns, with equal counts for those that never idle.

    Such a subtask reads as many records as it gets, unless its queue grows or shrinks. `growth` is the
    lasting trend of each queue, as a share of the records read. Other differences in counts are chance.
    """
    arriving_per_s = [
        load.per_s * (1 + more) if load is not None and load.never_idles and load.per_s is not None else None
        for load, more in zip(loads, growth, strict=True)
    ]
    mean_per_s = mean_of_known(arriving_per_s)
    if mean_per_s is None:
        return list(loads)
    evened_loads: list[Load | None] = []
    for load, more, arriving in zip(loads, growth, arriving_per_s, strict=True):
        if load is None or not load.seconds or arriving is None:
            evened_loads.append(load)
        else:
            records = mean_per_s / (1 + more) * load.seconds
            evened_loads.append(replace(load, records=records, minute_per_s=None))
    return evened_loads


def service_s(
    subtask: SubtaskSamples,
    load: Load,
    costs: CostModel,
    config: NetworkConfig,
    core_share: float | None = None,
) -> float | None:
    """Return the service time of a subtask's records in seconds; None if its busy time is not reported.

    The service time is the cost of a record without the costs of records, buffers and wake-ups, which the
    emulation adds. `core_share` is the share of a core that the task had while busy; the result is then
    processor time. None: the task only waits while busy, and uses no core.
    """
    busy = load.cost_s
    if busy is None:
        return None
    per_record = busy if core_share is None else busy * core_share
    buffers = sum(subtask.total(field) or 0.0 for field in ("buffers_in_remote", "buffers_in_local"))
    records, size = subtask.total("records_in") or 0.0, subtask.total("bytes_in") or 0.0
    buffers_per_record = (buffers or size / config.segment_bytes) / records if records else 0.0
    sleeps = min(1.0, (per_record if core_share is None else 0.0) / _SLEEP_S)
    overhead = (
        costs.consumer_record_s + costs.consumer_buffer_s * buffers_per_record + costs.after_sleep_s * sleeps
    )
    return per_record - overhead if per_record - overhead >= _LEAST_SERVICE_S else 0.0


def source_rate(subtask: SubtaskSamples, load: Load, *, limited: bool = False) -> float:
    """Return the records per second that a source's subtask would emit unhindered; 0: as fast as possible.

    - A source that emits nothing and is not back-pressured has `HARDLY_PER_S`.
    - A source that idles emits all records that arrive, unless its job is `limited`: a downstream task is
      always busy.
    - A source that is slowed by back-pressure would always emit at the rate that it has while not
      back-pressured.
    - A legacy source does not report how long it idles. It counts as paced unless back-pressure slows it.
    """
    count = SubtaskSamples.total if subtask.seconds is None else SubtaskSamples.increase
    rate, (busy, idle, held) = load.per_s, (count(subtask, part) for part in ACCOUNT)
    if rate is None or (load.held_share or 0.0) >= SATURATED:
        return 0.0
    if busy is None or idle is None or held is None or busy + idle + held <= 0:
        return max(rate / (1 - (load.held_share or 0.0)) if limited else rate, HARDLY_PER_S)
    share = held / (busy + idle + held)
    if share >= SATURATED:
        return 0.0
    idles = idle / (busy + idle + held) >= IDLE
    return max(rate if idles and not limited else rate / (1 - share), HARDLY_PER_S)


def record_bytes(job: FlinkJob, vertex: FlinkVertex, samples: Samples, segment_bytes: int) -> float | None:
    """Return the bytes of a record that a vertex emits, with its 4-byte length; None: unknown.

    If its only consumer reads nothing else, both ends count the same records. A producer counts a broadcast
    record once, but its bytes once for each subtask of the consumer.
    """

    def size(of: FlinkVertex, direction: Literal["in", "out"]) -> float | None:
        """Return the bytes per record in the time watched; since the start if records are too few."""
        bytes_field, records_field, subtasks = f"bytes_{direction}", f"records_{direction}", samples[of.id]
        size = sum(subtask.increase(bytes_field) or 0.0 for subtask in subtasks)
        records = sum(subtask.increase(records_field) or 0.0 for subtask in subtasks)
        if records >= LEAST_RECORDS and size >= max(ENOUGH_BUFFERS * segment_bytes, 1):
            return size / records
        size = sum(subtask.total(bytes_field) or 0.0 for subtask in subtasks)
        records = sum(subtask.total(records_field) or 0.0 for subtask in subtasks)
        return size / records if records >= LEAST_RECORDS and size >= 1 else None

    outputs = job.outputs(vertex)
    consumers = [other for other in job.vertices if any(edge.target == other.id for edge in outputs)]
    # With several outputs, Flink counts the bytes for each output, and in some versions records only once.
    sizes: list[float | None] = []
    if len(outputs) == 1:
        copies = consumers[0].parallelism if outputs[0].strategy == "BROADCAST" else 1
        sizes.append(quotient(size(vertex, "out"), copies))
    sizes += [
        size(other, "in")
        for other in consumers
        if all(edge.source == vertex.id for edge in job.inputs(other))
    ]
    return mean_of_known(sizes)


def record_spread(job: FlinkJob, vertex: FlinkVertex, samples: Samples, segment_bytes: int) -> float:
    """Return the relative standard deviation of the bytes of a vertex's records.

    Between two polls, the bytes of n records of a subtask vary by the square root of n times their deviation.
    Return 0 if the deviation is not significant, or if a buffer holds many records, whose sizes then hardly
    matter.
    """
    outputs = job.outputs(vertex)
    if len(outputs) != 1 or outputs[0].strategy == "BROADCAST":
        return 0.0
    consumer = next(other for other in job.vertices if other.id == outputs[0].target)
    channels = 1 if outputs[0].strategy == "FORWARD" else consumer.parallelism
    all_bytes, all_records, excess, error, intervals = 0.0, 0.0, 0.0, 0.0, 0
    for subtask in samples[vertex.id]:
        polls = _emitted_between(subtask)
        size, records = sum(each.size for each in polls), sum(each.records for each in polls)
        if not records:
            continue
        mean = size / records
        # Flink counts the bytes of a buffer when it is full or sent, at any fill of each open buffer.
        error += sum(
            2
            * (channels * segment_bytes**2 / 12 + (COUNTED_APART_S * each.records / each.seconds * mean) ** 2)
            for each in polls
        )
        excess += sum((each.size - each.records * mean) ** 2 for each in polls)
        all_bytes, all_records, intervals = all_bytes + size, all_records + records, intervals + len(polls)
    if intervals < LEAST_INTERVALS or all_records < LEAST_RECORDS:
        return 0.0
    mean = all_bytes / all_records
    spread = sqrt(max(0.0, excess - error) / all_records) / mean
    is_clear = excess > 2 * error and spread >= LEAST_RECORD_SPREAD and mean >= SMALL_RECORD * segment_bytes
    return min(MOST_RECORD_SPREAD, round(spread, 2)) if is_clear else 0.0


class _Emitted(NamedTuple):
    """The output of a subtask between two polls."""

    size: float
    records: float
    seconds: float


def _emitted_between(subtask: SubtaskSamples) -> list[_Emitted]:
    """Return what a subtask emits between its polls, as far as its counters and its account are reported."""
    found = []
    for before, after in pairwise(subtask.samples):
        begin_s, end_s = account_s(before), account_s(after)
        is_known = all(name in poll for name in ("bytes_out", "records_out") for poll in (before, after))
        if is_known and begin_s is not None and end_s is not None and end_s > begin_s:
            size, records = (after[name] - before[name] for name in ("bytes_out", "records_out"))
            found.append(_Emitted(size, records, end_s - begin_s))
    return found


# Queues, by the waits of barriers


def queue_growth(checkpoints: Sequence[CheckpointResult], vertex: str, parallelism: int) -> list[float]:
    """Return the growth of each subtask's queue as a share of the records read; 0 if there is no trend.

    The trend is the median over all pairs of checkpoints (Theil and Sen), so one slow checkpoint has no
    effect.
    """
    delays = aligned_start_delays(checkpoints, vertex, parallelism)
    return [_trend([(at, waits[subtask]) for at, waits in delays]) for subtask in range(parallelism)]


def _trend(points: Sequence[tuple[float, float | None]]) -> float:
    known = [(at, delay) for at, delay in points if delay is not None]
    if len(known) < _LEAST_TREND:
        return 0.0
    slopes = pair_slopes(sorted(known))
    slope = (middle(slopes) or 0.0) / 1e3
    agreeing = sum(each * slope > 0 for each in slopes)
    return slope if agreeing >= _AGREE * len(slopes) and abs(slope) <= _MOST_GROWTH else 0.0


def aligned_start_delays(
    checkpoints: Sequence[CheckpointResult], vertex: str, parallelism: int
) -> list[tuple[float, list[float | None]]]:
    """Return the time of each aligned checkpoint in seconds, and its start delays in ms at all subtasks.

    Barriers of unaligned checkpoints overtake queues, so their delays are not used.
    """
    return [(at, each.start_delay_ms) for at, each in _aligned(checkpoints, vertex, parallelism)]


def lags_s(checkpoints: Sequence[CheckpointResult], vertex: str, parallelism: int) -> list[float]:
    """Return the seconds by which each subtask finishes its alignment after the first subtask.

    The value is the median over aligned checkpoints; 0 if the checkpoints do not agree.
    """
    lags: list[list[float]] = []
    for _, part in _aligned(checkpoints, vertex, parallelism):
        if len(part.alignment_ms) != parallelism:
            continue
        both = zip(part.start_delay_ms, part.alignment_ms, strict=True)
        row = complete(None if delay is None or wait is None else delay + wait for delay, wait in both)
        if row is not None:
            lags.append([(end - min(row)) / 1e3 for end in row])
    if len(lags) < _LEAST_AGREEING:
        return [0.0] * parallelism

    def agreed(values: Sequence[float]) -> float:
        median = middle(values) or 0.0
        return median if sum(value >= median / 2 for value in values) >= _AGREE * len(values) else 0.0

    return [agreed(of_subtask) for of_subtask in zip(*lags, strict=True)]


def _aligned(
    checkpoints: Sequence[CheckpointResult], vertex: str, parallelism: int
) -> list[tuple[float, VertexCheckpoint]]:
    return [
        (checkpoint.t, each)
        for checkpoint in checkpoints
        for each in checkpoint.vertices
        if each.name == vertex
        and len(each.start_delay_ms) == parallelism
        and not any(each.unaligned)
        and not (checkpoint.persisted_bytes and all(flag is None for flag in each.unaligned))
    ]
