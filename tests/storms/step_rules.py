"""Checks of a running storm, after each step: pools, queues, ledgers, sizes, turns, overtaking barriers.

Barriers overtake data from ``aligned-checkpoint-timeout`` after the trigger, neither before nor much later.
From then on a task without mail must not keep a barrier behind the data of its outputs, nor one in its
inputs without having begun the checkpoint. After the end of a checkpoint no channel persists data for it.
Tasks read their gates in turns, and gates their channels, as long as several have data. A producer makes no
buffer larger than the gate has announced, and the announced size follows Flink's arithmetic of debloating.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from buffers import BufferBuilder, LocalBufferPool, NetworkBufferPool, PipelinedSubpartition
from flowcontrol import (
    BLOCKING_TYPES,
    POLICIES,
    Announcement,
    ChannelSender,
    CheckpointBarrier,
    DebloatedChannel,
    DebloatPolicy,
    DebloatSettings,
    decode_event,
)
from netstack import DelayMessages, DropMessages, InputGate, Job, RemoteInputChannel, ResultPartition

from .case import StormCase
from .expected import flows_of
from .operators import Broken

_ONE_SIZE_EACH = "per-channel"
"""The policy that announces another size to each channel, of which a gate shows the smallest."""

_HEADER = 4

SenderOf = Callable[[RemoteInputChannel], ChannelSender | None]
"""Gives the sending end of a channel, if it is there."""


_ARRIVES_S = 0.01
"""After so long an announcement has left the task, and stands on the wire at the latest."""


class SizesInForce:
    """Compares sizes from one look to the next, in one attempt of a job.

    `looks_s`: seconds from one look to the next; 0: one comes after every entry. Where a size can go and come
    again in between, nobody knows when it was announced; where one can come and go, what buffers began with.
    """

    def __init__(self, case: StormCase, looks_s: float = 0.0) -> None:
        self._case = case
        period = case.config.debloat_period_s
        self._on = case.config.debloat_enabled
        self._one_size = case.config.debloat_policy != _ONE_SIZE_EACH and period >= looks_s
        # From Flink 2 on the last buffer of a pool grows, again and again where a record gives several.
        self._buffers = period >= 3 * looks_s and case.preset.startswith("flink-1")
        self._announced: dict[object, tuple[int, float]] = {}
        self._looked_at_s = 0.0
        self._seen: dict[PipelinedSubpartition, tuple[int, BufferBuilder | None]] = {}
        self._largest: dict[str, int] = {}

    def check(self, attempt: Any, now: float, sender_of: SenderOf) -> None:
        """Look at all channels and all buffers that are being written.

        Raises:
            Broken: a producer goes by another size than was announced, or by none.
        """
        if self._on:
            if self._one_size:
                self._check_announced(attempt, now, sender_of)
            if self._buffers:
                # What a blocked link has held up arrives all at once, and only the last size of it is seen.
                held_up = any(link.blocked_until() > self._looked_at_s for link in attempt.links.values())
                self._check_buffers(attempt, compares=not held_up)
            self._looked_at_s = now

    def _check_announced(self, attempt: Any, now: float, sender_of: SenderOf) -> None:
        idle = all(link.under_way == 0 and link.blocked_until() <= now for link in attempt.links.values())
        for subtask in attempt.subtasks:
            for gate in getattr(subtask, "gates", ()):
                size = gate.debloater.last_announced
                known, since = self._announced.get(gate, (-1, now))
                if known != size:
                    self._announced[gate] = size, now
                elif idle and now > since + _ARRIVES_S and not subtask.ended:
                    self._compare(f"{subtask}", gate.remote_channels, size, sender_of)

    def _compare(
        self, name: str, channels: Iterable[RemoteInputChannel], size: int, sender_of: SenderOf
    ) -> None:
        for channel in channels:
            sender = None if channel.released else sender_of(channel)
            view: Any = None if sender is None else sender.view
            if view is not None and view.buffer_size != size:
                raise Broken(
                    f"{name} has announced buffers of {size} bytes on channel {channel.index}, "
                    f"and its producer goes by {view.buffer_size}"
                )

    def _check_buffers(self, attempt: Any, *, compares: bool) -> None:
        """A buffer is as large as was wanted when it was begun, or as the record in it.

        What was wanted may have changed since the last look, so the larger of both sizes counts.
        """
        for subtask in attempt.subtasks:
            for output in subtask.outputs:
                partition = output.partition
                for queue, builder in zip(partition.subpartitions, partition.open_buffers, strict=True):
                    before, known = self._seen.get(queue, (queue.buffer_size, None))
                    self._seen[queue] = queue.buffer_size, builder
                    if not compares or builder is None or builder is known:
                        continue
                    record = self._largest_record(subtask.name)
                    if builder.capacity > max(before, queue.buffer_size, record):
                        raise Broken(
                            f"has {subtask} writes a buffer of {builder.capacity} bytes, instead of the "
                            f"those of {queue.buffer_size} that are wanted and records have up to "
                            f"{record}"
                        )

    def _largest_record(self, vertex: str) -> int:
        """Bytes of the largest record that a vertex writes, with its length."""
        if not self._largest:
            flows = flows_of(self._case)
            self._largest = {
                name: _HEADER + max(map(len, flow.written.most), default=0) for name, flow in flows.items()
            }
        return self._largest[vertex]


CHECKED_POLICY = f"{__name__}:CheckedDebloating"
"""The name of Flink's policy under observation."""

_SLACK_BYTES = 1.0
"""What is announced is rounded."""


class CheckedDebloating(DebloatPolicy):
    """Flink's policy, whose sizes are calculated once more."""

    def __init__(self, settings: DebloatSettings) -> None:
        super().__init__(settings)
        self._policy = POLICIES["flink"](settings)
        self._size = float(settings.starting_size)
        self._told = settings.starting_size

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Take one step as Flink does.

        Raises:
            Broken: the size is another one than throughput and buffers in use make it.
        """
        announcements = list(self._policy.recalculate(throughput, channels, now))
        self.last_announced = self._policy.last_announced
        self.estimated_time_s = self._policy.estimated_time_s
        self._step(throughput, sum(channel.buffers_in_use for channel in channels))
        self._check(announcements)
        return announcements

    def _step(self, throughput: int, in_use: int) -> None:
        settings = self.settings
        # Whole bytes, as growth doubles what is left out here.
        in_time = throughput * round(1000 * settings.target_s) // 1000
        wanted = in_time / max(1, in_use)
        weight = 2 / (settings.samples + 1)
        moved = (1 - weight) * self._size + weight * min(wanted, 2 * self._size)
        self._size = min(max(moved, settings.min_size), settings.max_size)

    def _check(self, announcements: Sequence[Announcement]) -> None:
        settings, before = self.settings, self._told
        changed = abs(self._size - before)
        at_bound = self._size <= settings.min_size or self._size >= settings.max_size
        worth = math.floor(before * settings.threshold_percent / 100)
        if not announcements:
            if changed > worth + _SLACK_BYTES or (at_bound and changed > _SLACK_BYTES):
                raise Broken(f"debloating keeps {before} bytes, and {self._size:.1f} are due")
            return
        self._told = announcements[0][1]
        if abs(self._told - self._size) > _SLACK_BYTES:
            raise Broken(f"debloating announces {self._told} bytes, and {self._size:.1f} are due")


def check_machines(attempt: Any) -> None:
    """Check all gates, partitions and pools of an attempt.

    Raises:
        Broken: one does not keep its word; says which and how.
    """
    for name, pool in attempt.builder.pools.items():
        check_segments(name, pool)
    for subtask in attempt.subtasks:
        for gate in getattr(subtask, "gates", ()):
            check_gate(f"{subtask}", gate)
        for output in subtask.outputs:
            check_partition(f"{subtask}", output.partition)


def check_mail(attempt: Any) -> None:
    """A task that waits has no mail, unless it waits within a record.

    Raises:
        Broken: one lets its mail lie.
    """
    for subtask in attempt.subtasks:
        waits = subtask._waiter._routine is not None
        if waits and subtask.mail and not any(output.partition.blocked for output in subtask.outputs):
            raise Broken(f"{subtask} waits for {subtask.times.state.value}, and has mail")


def check_segments(name: str, memory: NetworkBufferPool) -> None:
    """No segment is free twice.

    Raises:
        Broken: one is.
    """
    free = [id(segment) for segment in memory._returned]
    for pool in memory.pools:
        free += [id(segment) for segment in pool._free]
    if len(set(free)) < len(free):
        raise Broken(f"{name} has {len(free)} free segments, and {len(set(free))} different ones")


def check_gate(name: str, gate: InputGate) -> None:
    """Each channel stands in the line that it says it is in, once.

    Raises:
        Broken: one does not.
    """
    urgent, ready = list(gate._urgent), list(gate._ready)
    for channel in gate.channels:
        places = urgent.count(channel), ready.count(channel)
        says = int(channel.urgent), int(channel.queued and not channel.urgent)
        if places != says and not channel.released:
            text = f"{name}: channel {channel.index} of the gate from {gate.name}"
            raise Broken(f"{text} stands {places} times in its lines (urgent, ready), and says {says}")
    for channel in gate.remote_channels:
        credit = channel.receiver.credit
        if credit.outstanding < 0 or credit.unannounced < 0:
            raise Broken(f"{name}: channel {channel.index} has a credit of {credit.outstanding}")


def check_partition(name: str, partition: ResultPartition) -> None:
    """Open buffers have room, and of what is queued only the last may be open.

    Raises:
        Broken: it is not so.
    """
    for builder in partition.open_buffers:
        if builder is not None and (builder.finished or builder.position >= builder.capacity):
            raise Broken(f"{name} has a buffer open that is full or finished: {builder.position} bytes")
    for queue in partition.subpartitions:
        _check_queue(name, queue)


def _check_queue(name: str, queue: PipelinedSubpartition) -> None:
    items: list[Any] = queue._queue
    if not all(item.finished or item._builder.finished for item in items[:-1]):
        raise Broken(f"{name}: an open buffer stands before another one in subpartition {queue.index}")
    data = sum(not item.is_event for item in items)
    if data != queue.data_buffers:
        raise Broken(f"{name}: subpartition {queue.index} counts {queue.data_buffers} data buffers of {data}")


_STAYS_ALIGNED = frozenset({"broadcast", "forward", "rescale"})
"""Exchanges whose barriers never overtake, and so no other barrier does at the tasks that read them."""

_ROUNDING_S = 1e-6
_LOOKS_S = (_ROUNDING_S, 0.001, 0.002, 0.004, 0.008)
"""When to look behind a timeout, in emulated seconds: the timer's mail is there, and soon handled."""

_AT_LEAST_S = 0.0005
"""From one look that counts to the next."""

_TOO_LATE = 3
"""So many looks may find a task that has no mail and a barrier which should have overtaken."""

_TOLD_S = 0.03
"""Within that time tasks hear that a checkpoint has ended."""


class Overtaking:
    """Watches barriers and persisting channels in one attempt of a job."""

    def __init__(self, case: StormCase, job: Job) -> None:
        config = case.config
        self._job = job
        self._watches = config.takes_unaligned_checkpoints
        self._timeout_s = config.aligned_checkpoint_timeout_s
        self._aligned = {target for _, target, ship in case.edges if ship in _STAYS_ALIGNED}
        self._is_told = not any(isinstance(fault, DelayMessages | DropMessages) for fault in case.faults)
        self._late: dict[object, tuple[int, float]] = {}  # how often it was seen, and from when on
        self._ended: dict[object, float] = {}  # when a channel was first seen to persist for what has ended

    def check(self, attempt: Any) -> None:
        """Look at all tasks.

        Raises:
            Broken: one has let a barrier overtake too early or too late, or goes on persisting.
        """
        if not self._watches:
            return
        now, pending = self._job.agenda.now, self._job.coordinator.pending
        triggered = {each.checkpoint_id: each.triggered_at for each in pending if each.request is None}
        continuation = {each.checkpoint_id for each in pending}
        late, ended = dict[object, tuple[int, float]](), dict[object, float]()
        due = {number for number, at in triggered.items() if now > at + self._timeout_s + _ROUNDING_S}
        for subtask in attempt.present:
            if subtask.ended or subtask.suspended:
                continue
            for channel, number in _persisting(subtask):
                self._check_early(subtask, number, triggered, now)
                if number not in continuation:
                    ended[channel, number] = since = self._ended.get((channel, number), now)
                    if self._is_told and now > since + _TOLD_S:
                        raise Broken(f"{subtask} persists inputs for checkpoint {number}, which has ended")
            if not self._timeout_s:
                continue
            for number in self._in_front(subtask):
                self._check_early(subtask, number, triggered, now)
            for number in due if not subtask.mail else ():
                for place in self._waiting(subtask, number):
                    late[place] = self._count(place, subtask, number, now)
        self._late, self._ended = late, ended

    def _check_early(self, subtask: Any, number: int, triggered: dict[int, float], now: float) -> None:
        at = triggered.get(number)
        if at is not None and self._timeout_s and now < at + self._timeout_s - _ROUNDING_S:
            text = f"{now - at:.6f} s after its trigger, and its timeout is {self._timeout_s:g} s"
            raise Broken(f"{subtask} lets the barrier of checkpoint {number} overtake {text}")

    def _in_front(self, subtask: Any) -> Iterator[int]:
        """Checkpoints whose barriers are in front of the data in the outputs of a task."""
        for output in subtask.outputs:
            for queue in output.partition.subpartitions:
                for item in queue._queue[: queue.in_front]:
                    yield _number(item)

    def _waiting(self, subtask: Any, number: int) -> Iterator[object]:
        """Places where a barrier waits that should have overtaken, if the task can do anything about it."""
        checkpoints = subtask.checkpoints
        if number in checkpoints._running:
            for output in subtask.outputs:
                if output.partition.supports_unaligned:
                    for queue in output.partition.subpartitions:
                        if _has_barrier(queue, number):
                            yield subtask, queue
        gates = getattr(subtask, "gates", ())
        if not gates or checkpoints.last >= number or subtask.name in self._aligned:
            return
        handler = checkpoints.handler
        begun = handler.current_checkpoint_id
        if begun > number or (begun == number and not handler.pending):
            return  # it was given up here, and the coordinator does not know yet
        if any(channel.barrier.arrived_id == number for gate in gates for channel in gate.remote_channels):
            yield subtask, "inputs"

    def _count(self, place: object, subtask: Any, number: int, now: float) -> tuple[int, float]:
        """A barrier waits that should have overtaken: how often it was seen to, and when it counts again."""
        looks, counts_from = self._late.get(place, (0, 0.0))
        if now < counts_from:
            return looks, counts_from
        if looks == _TOO_LATE:
            raise Broken(f"{subtask} keeps the barrier of checkpoint {number} waiting behind its timeout")
        serving = getattr(subtask, "_serving", None)  # mail waits for the end of a pause within a buffer
        pause_ends = None if serving is None else serving.pause_ends
        return looks + 1, max(now, pause_ends or 0.0) + _AT_LEAST_S


def _persisting(subtask: Any) -> Iterator[tuple[Any, int]]:
    """The channels of a task that have not ended and persist what arrives, and for which checkpoint."""
    if getattr(subtask, "gates", ()):
        inputs = subtask.checkpoints
        for place, channel in enumerate(inputs.channels):
            if channel.persisting is not None and place not in inputs.handler._ended:
                yield channel, channel.persisting


def look_behind_timeouts(case: StormCase, job: Job, look: Any) -> None:
    """Have `look` called a few times behind the timeout of each checkpoint of a job."""
    timeout_s = case.config.aligned_checkpoint_timeout_s
    if not (case.config.takes_unaligned_checkpoints and timeout_s):
        return
    begun = {-1}

    def heard(kind: str, task: tuple[int, int]) -> float:
        if kind == "trigger" and (number := job.coordinator.next_id) not in begun:
            begun.add(number)
            for after_s in _LOOKS_S:
                job.agenda.keep(job.agenda.now + timeout_s + after_s, look)
        return 0.0

    job.coordinator.control_plane.interference.insert(0, heard)


def _has_barrier(queue: Any, number: int) -> bool:
    """Whether the barrier of a checkpoint waits in a subpartition in its turn."""
    if len(queue) == queue.data_buffers:
        return False
    items = queue._queue[queue.in_front :]
    return any(
        item.is_event and item.data_type in BLOCKING_TYPES and _number(item) == number for item in items
    )


def _number(item: Any) -> int:
    event = decode_event(bytes(item.build().payload))
    return event.checkpoint_id if isinstance(event, CheckpointBarrier) else -1


class PoolRules:
    """Checks the pools of one attempt, and keeps the number of segments of each from the last check.

    Whether a pool has taken all that it may can be checked only if no step is missed (`closely`).
    """

    def __init__(self, *, closely: bool = True) -> None:
        self._closely = closely
        self._requested: dict[LocalBufferPool, int] = {}
        self._owed: dict[str, int] = {}

    def check(self, name: str, memory: NetworkBufferPool, *, may_owe: bool = False) -> None:
        """Check the memory of a task manager.

        `may_owe`: tasks were built anew there, whose exclusive segments may still be in use elsewhere.

        Raises:
            Broken: its pools do not add up, or one holds what it should have given back.
        """
        sizes, minima, out = 0, 0, 0
        resizable, most = 0, 0
        owed_before, self._owed[name] = self._owed.get(name, 0), memory.owed
        still_owed = bool(owed_before and memory.owed)
        for pool in memory.pools:
            self._check_pool(name, pool, still_owed)
            sizes += pool.size
            minima += pool.minimum
            out += pool.requested
            if pool.minimum < pool.maximum:
                resizable += pool.minimum
                most += pool.maximum
        exclusive = memory.guaranteed - minima
        if memory.guaranteed > memory.total or sizes + exclusive > memory.total:
            raise Broken(
                f"{name} has {memory.total} segments, {exclusive} of them exclusive, for pools of {sizes}"
            )
        rest = memory.total - memory.guaranteed
        wanted = minima - resizable + min(most, rest + resizable)
        if sizes != wanted:
            raise Broken(f"the pools of {name} may hold {sizes} segments together, and {wanted} are theirs")
        overdrawn = memory.owed > (memory._reserved if may_owe else 0)
        if overdrawn or out + exclusive > memory.used:
            raise Broken(f"{name} has lent {memory.used} segments, and {out} + {exclusive} are in use")

    def _check_pool(self, name: str, pool: LocalBufferPool, still_owed: bool) -> None:
        size, requested, free = pool.size, pool.requested, pool.free
        before, self._requested[pool] = self._requested.get(pool, 0), requested
        wrong = ""
        if not pool.minimum <= size <= pool.maximum:
            wrong = "has a size out of its bounds"
        elif free and requested > size:
            wrong = "keeps segments above its size"
        elif self._closely and requested > size + pool.max_overdraft and requested > before:
            wrong = "has taken more than its size and overdraft"
        elif self._closely and still_owed and requested > before:
            wrong = "has taken what is owed to others"
        elif pool.available and not free:
            wrong = "is available, and nothing is free"
        if wrong:
            raise Broken(f"a pool of {name} {wrong}: {pool.statistics()}")
        if free and not pool.available:
            now = pool.statistics()
            if not now.full_subpartitions or now.listeners:
                raise Broken(f"a pool of {name} lets somebody wait for what is free: {now}")


def check_shrunk(name: str, before: Mapping[LocalBufferPool, int]) -> None:
    """Pools that had `before` segments, and were resized since, have given back no more than they had to.

    Raises:
        Broken: one has.
    """
    for pool, requested in before.items():
        if pool.requested < min(requested, pool.size):
            text = f"a pool of {name} had {requested} segments and keeps {pool.requested}"
            raise Broken(f"{text}, where its size is {pool.size}")


_OVERTAKEN = 4
"""Turns in one checkpoint where barriers overtake: a channel that had one goes to the end of the line."""

_GATES = 4
"""Turns of one gate while another one waits: the first ones may find nothing in a channel after all."""


class GateTurns(DebloatPolicy):
    """Watches what is polled from one gate of a task, and tells `others`, a policy that watches it, too."""

    def __init__(self, gate: InputGate, task: TaskTurns, others: DebloatPolicy | None, most: int) -> None:
        super().__init__(DebloatSettings())
        self._checkpoint_id = -1
        self._gate = gate
        self._task = task
        self._others = others
        self._most = most
        self._passed: dict[Any, dict[Any, int]] = {}  # by waiting channel: how often each other one was read

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        """Size no buffers: it only watches."""
        return ()

    def polled(self, channel: int, size: int) -> None:
        """Count a turn of a channel.

        Raises:
            Broken: another channel, or another gate, has waited for too many turns.
        """
        if self._others is not None:
            self._others.polled(channel, size)
        gate, checkpoint_id = self._gate, self._task.checkpoint_id
        if checkpoint_id != self._checkpoint_id:
            self._checkpoint_id = checkpoint_id
            self._passed.clear()
        read, before, passed = gate.channels[channel], self._passed, dict[Any, dict[Any, int]]()
        for waiting in gate._ready:
            if waiting is read:
                continue
            counts = before.get(waiting, {})
            counts[read] = counts.get(read, 0) + 1
            if counts[read] > self._most:
                text = f"channel {channel} is read {counts[read]} times while channel {waiting.index} waits"
                raise Broken(f"the gate from {gate.name}: {text}")
            passed[waiting] = counts
        self._passed = passed
        self._task.polled(gate)


class TaskTurns:
    """The turns of the gates of one task."""

    def __init__(self, subtask: Any) -> None:
        self._subtask = subtask
        self._gates: list[InputGate] = subtask.gates
        self._polls = dict.fromkeys(self._gates, 0)
        self._servings = {
            gate: each.servings[gate] for each in getattr(subtask, "_task_inputs", ()) for gate in each.gates
        }
        self._records: dict[InputGate, int] = {}
        self._passed: dict[InputGate, dict[InputGate, tuple[int, object]]] = {}

    @property
    def checkpoint_id(self) -> int:
        """The newest checkpoint that the task knows of."""
        return int(self._subtask.checkpoints.handler.current_checkpoint_id)

    def polled(self, gate: InputGate) -> None:
        """Count a turn of a gate, unless it only goes on with a record that is longer than a buffer.

        Raises:
            Broken: another gate has waited for too many turns, and nothing of it was served.
        """
        if len(self._gates) == 1:
            return
        self._polls[gate] += 1
        self._passed.pop(gate, None)
        serving = self._servings.get(gate)
        if serving is not None:
            before, self._records[gate] = self._records.get(gate, -1), serving.records
            if serving.records == before:
                return
        for other in self._gates:
            if other is gate:
                continue
            if not other._ready:
                self._passed.pop(other, None)
                continue
            counts = self._passed.setdefault(other, {})
            turns, progress = counts.get(gate, (0, None))
            now = self._progress(other)
            turns = turns + 1 if progress == now else 1
            if turns > _GATES:
                text = f"the gate from {gate.name} is read {turns} times while that from {other.name} waits"
                raise Broken(f"{self._subtask}: {text}")
            counts[gate] = turns, now

    def _progress(self, gate: InputGate) -> object:
        serving = self._servings.get(gate)
        return self._polls[gate], *(() if serving is None else (serving.records, serving.left))


def watch_turns(attempt: Any, *, overtakes: bool) -> None:
    """Watch the turns of all tasks of an attempt that are not watched; `overtakes`: barriers may do so."""
    for subtask in attempt.subtasks:
        gates = getattr(subtask, "gates", ())
        if gates and not any(isinstance(gate._watcher, GateTurns) for gate in gates):
            task = TaskTurns(subtask)
            for gate in gates:
                gate._watcher = GateTurns(gate, task, gate._watcher, _OVERTAKEN if overtakes else 1)
