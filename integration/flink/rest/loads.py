"""What passes through each subtask: how many records, how large, how much work; from what tasks have counted.

A task adds up the time in which it was busy, so busy time over records is what a record costs, back-pressured
or not. Counts of the time watched are the load of now, however few they are. Counts since the task started
include its start, with its backlog and the compilation of its code. They stand in for the cost of a record
where no records were seen, and for all where no time passed.

Bytes are counted by buffers, so a few buffers more or less make a count of few bytes wrong; over
one exchange the producer's count errs one way and the consumer's the other.

What was counted while the metrics were watched is often little, so a rate that stands is taken over the
minute before as well, of which Flink's own meter tells; how far the two differ says how sure it is.

A task that keeps no account of its time, such as a source of the old kind, is timed by the account of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from netstack import CostModel, NetworkConfig

from ...analysis.known_values import complete, mean_of_known, middle
from .cluster_job import FlinkJob, FlinkVertex
from .sampling import METER_S, Samples, SubtaskSamples

ENOUGH_RECORDS = 200
"""Records of the time watched from which rates and costs are exact within some percent."""

LEAST_RECORDS = 50
"""Fewer than so many since the start say nothing."""

ENOUGH_BUFFERS = 400
"""From so many on, the bytes of the time watched say how large a record is, within half a percent."""

HARDLY_PER_S = 0.05
"""Records per second of a source's subtask that emits next to nothing."""

SATURATED = 0.9
"""A subtask that works, or is back-pressured, for more of its time does so all the time."""

_NEVER_IDLE = 0.99
"""A task that works for more of its time takes as long for a record as its rate says."""

IDLE = 0.05
"""A source that has nothing to do for such a share of its time emits what there is."""

_SAME_LOAD = 0.2
"""Rates of the time watched and of the minute before that differ by more are of two loads."""

_LEAST_SERVICE_S = 1e-6
_SLEEP_S = 1e-3


@dataclass(frozen=True, slots=True)
class Load:
    """What one subtask counted; None: it does not say."""

    records: float
    busy_s: float | None
    seconds: float | None
    """How long it took."""
    held_s: float | None = None
    """How long it was back-pressured."""
    minute_per_s: float | None = None
    """Records per second in the minute before."""
    cost_before_s: float | None = None
    """Busy time of a record since the start; of use where there are no records."""

    @property
    def busy_share(self) -> float | None:
        """Share of its time in which it worked."""
        return None if self.busy_s is None or not self.seconds else self.busy_s / self.seconds

    @property
    def held_share(self) -> float | None:
        """Share of its time in which it was back-pressured."""
        return None if self.held_s is None or not self.seconds else self.held_s / self.seconds

    @property
    def idle_share(self) -> float | None:
        """Share of its time in which it had nothing to do."""
        busy, held = self.busy_share, self.held_share
        return None if busy is None or held is None else 1 - busy - held

    @property
    def per_s(self) -> float | None:
        """Records per second, in the minute before as well where that was of the same load."""
        now = self._now_per_s
        return None if now is None or not self.seconds else longer_per_s(now, self.seconds, self.minute_per_s)

    @property
    def cost_s(self) -> float | None:
        """Busy time of a record; of a task that never idles, in the minute before as well."""
        if self.busy_s is None:
            return None
        if not self.records:
            return self.cost_before_s
        rate, now = self.per_s, self._now_per_s
        dearer = now / rate if rate and now and self.never_idles else 1.0
        return self.busy_s / self.records * dearer

    @property
    def never_idles(self) -> bool:
        """Whether it works all the time, so that the cost of a record shows in its rate."""
        return self.busy_share is not None and self.busy_share >= _NEVER_IDLE

    @property
    def error(self) -> float:
        """Standard error of `per_s`, as a share of it; 0 where there is but one figure.

        Two means of one rate, over times that do not overlap, differ by as much as their lengths allow.
        """
        rate, now, seconds, before = self.per_s, self._now_per_s, self.seconds, self.minute_per_s
        if not rate or now is None or not seconds or before is None or not _is_same_load(now, before):
            return 0.0
        return abs(now - before) * sqrt(seconds * METER_S) / (seconds + METER_S) / rate

    @property
    def _now_per_s(self) -> float | None:
        return self.records / self.seconds if self.seconds else None


def longer_per_s(now: float, seconds: float, minute_before: float | None) -> float:
    """Return a rate over the `seconds` watched and the minute before; `now` if that was of another load."""
    if minute_before is None or not _is_same_load(now, minute_before):
        return now
    return (now * seconds + minute_before * METER_S) / (seconds + METER_S)


def _is_same_load(now: float, before: float) -> bool:
    return abs(before - now) <= _SAME_LOAD * now


def passed_s(samples: Samples) -> float | None:
    """Return the time watched by the account of most tasks, for those that keep none; None: nobody does."""
    return middle(subtask.accounted_s or None for subtasks in samples.values() for subtask in subtasks)


def load_of(
    subtask: SubtaskSamples, field: str, passed: float | None = None, age_s: float | None = None
) -> Load | None:
    """Return a subtask's load by its counter of records ("records_in", "records_out"); None: too few.

    It is that of the time watched, or since the start where no time passed. `passed` and `age_s` are these
    two times where the subtask keeps no account.
    """
    watched, total = subtask.increase(field), subtask.total(field)
    if total is None or total < LEAST_RECORDS:
        return None
    busy, idle, held = (_seconds(subtask.total(part)) for part in ("busy_ms", "idle_ms", "backpressured_ms"))
    before_s = None if busy is None else busy / total
    seconds = subtask.seconds if subtask.accounted_s is not None or passed is None else passed
    if watched is not None and (seconds or watched >= ENOUGH_RECORDS):
        busy, held = (_seconds(subtask.increase(part)) for part in ("busy_ms", "backpressured_ms"))
        return Load(watched, busy, seconds, held, subtask.minute_per_s(field), before_s)
    told = complete([busy, idle, held])
    return Load(total, busy, age_s if told is None else sum(told), held)


def overhead_s(subtask: SubtaskSamples, slept_s: float, costs: CostModel, config: NetworkConfig) -> float:
    """Return the seconds a record that the emulated task spends besides its service time.

    `slept_s` is how long it sleeps for a record.
    """
    buffers = sum(subtask.total(field) or 0.0 for field in ("buffers_in_remote", "buffers_in_local"))
    records, size = subtask.total("records_in") or 0.0, subtask.total("bytes_in") or 0.0
    buffers = buffers or size / config.segment_bytes
    a_record = buffers / records if records else 0.0
    sleeps = min(1.0, slept_s / _SLEEP_S)
    return costs.consumer_record_s + costs.consumer_buffer_s * a_record + costs.after_sleep_s * sleeps


def service_s(
    subtask: SubtaskSamples,
    load: Load,
    costs: CostModel,
    config: NetworkConfig,
    core_share: float | None = None,
) -> float | None:
    """Return the service time of a subtask's records in seconds; None where its busy time is not told.

    `core_share` is what it had of a core while it was busy, and its service time then processor time; None:
    its work takes none.
    """
    busy = load.cost_s
    if busy is None:
        return None
    a_record = busy if core_share is None else busy * core_share
    left = a_record - overhead_s(subtask, a_record if core_share is None else 0.0, costs, config)
    return left if left >= _LEAST_SERVICE_S else 0.0


def source_rate(subtask: SubtaskSamples, load: Load, *, limited: bool = False) -> float:
    """Return the records per second that a source's subtask would emit unhindered; 0: as fast as possible.

    One that emits nothing and is not held back has `HARDLY_PER_S`. One that idles emits all there is, unless
    its job is `limited`: a task behind it works all the time. One that is slowed by back-pressure would emit
    in all its time what it emits in the rest. One of the old kind does not tell when it idles: it is taken
    for paced unless it is back-pressured all the time.
    """
    rate, (busy, idle, held) = load.per_s, _times(subtask)
    if rate is None or (load.held_share or 0.0) >= SATURATED:
        return 0.0
    if busy is None or idle is None or held is None or busy + idle + held <= 0:
        return max(rate, HARDLY_PER_S)
    share = held / (busy + idle + held)
    if share >= SATURATED:
        return 0.0
    idles = idle / (busy + idle + held) >= IDLE
    return max(rate if idles and not limited else rate / (1 - share), HARDLY_PER_S)


def _times(subtask: SubtaskSamples) -> list[float | None]:
    """Busy, idle and back-pressured time: while watched, or since the start where that tells nothing."""
    count = SubtaskSamples.total if subtask.seconds is None else SubtaskSamples.increase
    return [count(subtask, part) for part in ("busy_ms", "idle_ms", "backpressured_ms")]


def record_bytes(job: FlinkJob, vertex: FlinkVertex, samples: Samples, segment_bytes: int) -> float | None:
    """Return the bytes of a record that a vertex emits, its 4-byte length included; None: it cannot be told.

    Where all goes to one vertex that reads nothing else, both ends count the same records.
    """
    sizes = [_size(samples[vertex.id], "out", segment_bytes)]
    outputs = job.outputs(vertex)
    if len(outputs) > 1:
        sizes = []  # Flink counts bytes for each edge, and in some versions records once
    consumers = [other for other in job.vertices if any(edge.target == other.id for edge in outputs)]
    sizes += [
        _size(samples[other.id], "in", segment_bytes)
        for other in consumers
        if all(edge.source == vertex.id for edge in job.inputs(other))
    ]
    return mean_of_known(sizes)


def _size(subtasks: Sequence[SubtaskSamples], direction: str, segment_bytes: int) -> float | None:
    """Bytes by records: of the time watched if that is enough, else since the start."""
    for count, enough in (
        (SubtaskSamples.increase, ENOUGH_BUFFERS * segment_bytes),
        (SubtaskSamples.total, 0),
    ):
        size = sum(count(subtask, f"bytes_{direction}") or 0.0 for subtask in subtasks)
        records = sum(count(subtask, f"records_{direction}") or 0.0 for subtask in subtasks)
        if records >= LEAST_RECORDS and size >= max(enough, 1):
            return size / records
    return None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
