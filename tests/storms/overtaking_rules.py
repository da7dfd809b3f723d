"""Barriers overtake when their timeout is over, neither before nor much later; and inputs stop persisting.

The moment follows from the checkpoint alone: ``aligned-checkpoint-timeout`` after its trigger. From then on,
a task that has no mail may neither keep a barrier behind the data in its outputs, nor have one in its inputs
without having begun the checkpoint. No barrier is in front of data before that. Once a checkpoint has ended
and tasks have been told, no channel persists anything for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowcontrol import BLOCKING_TYPES, CheckpointBarrier, decode_event
from netstack import DelayMessages, DropMessages, Job

from .case import StormCase
from .storm_operators import Broken

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
        going_on = {each.checkpoint_id for each in pending}
        late, ended = dict[object, tuple[int, float]](), dict[object, float]()
        due = {number for number, at in triggered.items() if now > at + self._timeout_s + _ROUNDING_S}
        for subtask in attempt.present:
            if subtask.ended or subtask.suspended:
                continue
            for channel, number in _persisting(subtask):
                self._check_early(subtask, number, triggered, now)
                if number not in going_on:
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
