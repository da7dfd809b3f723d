"""Injects the faults of a scenario.

The injector exists for the whole run, across restarts. Faults at a given time are on the agenda from the
start. Other faults wait until an event has occurred a given number of times. Counting begins at the start of
the run, so that a fault can be added at any time. The effect of a fault continues after a restart: a link
that is cut permanently is cut in the next attempt too.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, assert_never

from buffers import Pieces

from ..checkpoints.control_plane import TaskKey
from ..checkpoints.metadata import CheckpointMetadata
from ..checkpoints.storage import CheckpointStorage, folder_of, metadata_path, write_pieces
from ..engine.agenda import Agenda, Timer
from ..errors import ScenarioError, StorageError
from ..results.recorder import FiredFault
from ..scenarios.config_rules import Problem
from ..scenarios.faults import (
    AtTime,
    ChannelItem,
    ControlMessage,
    CutLink,
    DelayMessages,
    DropMessages,
    FailUpload,
    Fault,
    FillStorage,
    KillSubtask,
    KillTaskManager,
    OnAcknowledgement,
    OnChannel,
    Outage,
    SubtaskName,
)
from ..scenarios.rules import fault_key
from ..scenarios.scenario import Scenario
from ..scenarios.ship_strategies import producers_of_consumers
from ..scenarios.unit_texts import time_text
from ..state.handles import StoredFile
from .failover import all_tasks

if TYPE_CHECKING:
    from .attempt import Attempt
    from .job import Job


@dataclass(slots=True)
class _Cut:
    """A link that is cut until a time of the run; `timer` fires when heartbeats have been missing for too
    long.
    """

    fault: CutLink
    until: float
    timer: Timer | None = None


@dataclass(slots=True)
class _Count:
    """Number of occurrences of an event, and the faults that wait for an occurrence."""

    happened: int = 0
    waiting: list[tuple[int, Fault]] = field(default_factory=list)

    def step(self) -> list[Fault]:
        """Count one occurrence, and return the faults that fire now."""
        self.happened += 1
        return [fault for number, fault in self.waiting if number == self.happened]


class FaultInjector:
    """The faults of one run; `fired` are the faults that have fired, in order.

    The job calls `start` once, `attempt_started` after each attempt is built, and `attempt_ends` and
    `tasks_end` before tasks are released. When the job is built, it takes `interfere` and `storage`.
    """

    def __init__(self, scenario: Scenario, agenda: Agenda, job: Job) -> None:
        self.fired: list[FiredFault] = []
        self._agenda = agenda
        self._job = job
        self._scenario = scenario
        self._faults = scenario.faults
        self._numbers = {vertex.name: number for number, vertex in enumerate(scenario.vertices)}
        self._heartbeat_timeout = scenario.config.heartbeat_timeout_s
        self._attempt: Attempt | None = None
        self._polled: dict[TaskKey, dict[ChannelItem, array[int]]] = {}
        """Number of items polled by each released task, for each of its channels (as in `channels_into`)."""
        self._cuts: list[_Cut] = []
        self._messages: list[tuple[DelayMessages | DropMessages, float]] = []
        self._condition = StorageCondition(agenda)
        self._watched: dict[tuple[SubtaskName, SubtaskName], list[int]] = {}
        """Indices of the channels from a producer to a reader, in the reader's `channels_into`."""
        self._channels: dict[tuple[SubtaskName, SubtaskName, ChannelItem], _Count] = {}
        self._acknowledgements: dict[TaskKey, _Count] = {}
        for fault in scenario.faults:
            self._wait(fault)

    def _wait(self, fault: Fault) -> None:
        when = fault.when
        if isinstance(when, OnChannel):
            key = when.source, when.target, when.item
            if key not in self._channels:
                self._channels[key] = _Count(self._happened(when))
                self._watched[when.source, when.target] = self._places(when)
            self._channels[key].waiting.append((when.number, fault))
        elif isinstance(when, OnAcknowledgement):
            count = self._acknowledgements.setdefault(self._key(when.subtask), _Count())
            count.waiting.append((when.number, fault))

    def start(self) -> None:
        """Put the faults with a time on the agenda, where restarts do not remove them."""
        for fault in self._faults:
            if isinstance(fault.when, AtTime):
                self._agenda.keep(fault.when.time_s, self._fire, fault)

    def add(self, faults: Sequence[Fault]) -> None:
        """Add faults, as if they had been in the scenario from the start.

        Raises:
            ScenarioError: if a fault waits for a time or a count that has passed. No fault was added.
        """
        problems = [
            f"{fault_key(number, field)}: {message}"
            for number, fault in enumerate(faults, len(self._faults))
            for field, message in self._too_late(fault)
        ]
        if problems:
            raise ScenarioError(problems)
        self._faults += tuple(faults)
        for fault in faults:
            self._wait(fault)
            if isinstance(fault.when, AtTime):
                self._agenda.keep_foremost(fault.when.time_s, self._fire, fault)
        self._watch()

    def _too_late(self, fault: Fault) -> Iterable[Problem]:
        when, now = fault.when, self._agenda.now
        if isinstance(when, AtTime):
            if when.time_s < now:
                text = f"is {time_text(when.time_s)}, but the run has already reached {time_text(now)}"
                yield "at", f"{text}; give a later time"
        elif (happened := self._happened(when)) >= when.number:
            text = f"is {when.number}, but the run has already counted {happened}"
            yield "number", f"{text}; give a higher number"

    def _happened(self, when: OnChannel | OnAcknowledgement) -> int:
        """Return the number of occurrences so far, whether or not a fault waits for the event."""
        if isinstance(when, OnAcknowledgement):
            acknowledgements = self._acknowledgements.get(self._key(when.subtask))
            return 0 if acknowledgements is None else acknowledgements.happened
        count = self._channels.get((when.source, when.target, when.item))
        if count is not None:
            return count.happened
        task, places, barriers = self._key(when.target), self._places(when), when.item is ChannelItem.BARRIER
        happened = sum(self._polled[task][when.item][place] for place in places if task in self._polled)
        if self._attempt is not None:
            channels = self._attempt.channels_into(task)
            for channel in (channels[place] for place in places):
                happened += channel.polled_barriers if barriers else channel.polled_buffers
        return happened

    def _places(self, when: OnChannel) -> list[int]:
        """Return the indices of the channels of `when` among all channels that its target reads."""
        producers: list[SubtaskName] = []
        target = self._scenario.vertex(when.target.vertex)
        for edge in self._scenario.inputs(target):
            reached = self._scenario.consumers_reached(edge)
            channels = producers_of_consumers(reached, target.parallelism)[when.target.subtask]
            producers += [SubtaskName(edge.source, producer) for producer, _ in channels]
        return [place for place, producer in enumerate(producers) if producer == when.source]

    def _watch(self) -> None:
        """Make channels report each polled item, if a fault counts their items."""
        if self._attempt is None:
            return
        for (source, target), places in self._watched.items():
            channels = self._attempt.channels_into(self._key(target))
            for place in places:
                channels[place].tap = partial(self._handed_over, source, target)

    def attempt_ends(self) -> None:
        """Save the counts of all tasks, which are about to be released."""
        self.tasks_end(all_tasks(self._scenario))
        self._attempt = None

    def tasks_end(self, tasks: Iterable[TaskKey]) -> None:
        """Save the counts of tasks that are about to be released."""
        if self._attempt is None:
            return
        for task in tasks:
            channels = self._attempt.channels_into(task)
            if task not in self._polled:
                self._polled[task] = {item: array("Q", bytes(8 * len(channels))) for item in ChannelItem}
            polled = self._polled[task]
            for place, channel in enumerate(channels):
                polled[ChannelItem.BUFFER][place] += channel.polled_buffers
                polled[ChannelItem.BARRIER][place] += channel.polled_barriers
                channel.polled_buffers = channel.polled_barriers = 0

    def attempt_started(self, attempt: Attempt) -> None:
        """In a new attempt, cut those links again whose cuts have not ended, and start to count the buffers
        and barriers that are polled from all channels that faults watch.
        """
        self._attempt = attempt
        self._watch()
        for cut in self._cuts:
            if cut.timer is not None:
                cut.timer.cancel()
            if cut.until > self._agenda.now:
                self._cut(cut)

    def region_started(self) -> None:
        """Start the heartbeat timeouts of restarted tasks over links that are still cut."""
        self._watch()
        for cut in self._cuts:
            if cut.timer is None or not cut.timer.pending:
                self._await_heartbeats(cut)

    def interfere(self, message: ControlMessage, subtask: TaskKey) -> float | None:
        """Return the seconds by which a message from or to a subtask is delayed; None if it is lost.

        Called once for each message, when it is sent; `subtask` is its (vertex, index).
        """
        if message is ControlMessage.ACKNOWLEDGE:
            count = self._acknowledgements.setdefault(subtask, _Count())
            self._fire_from_routine(count.step())
        delay = 0.0
        for fault, until in self._messages:
            if fault.messages == message and self._agenda.now < until and self._concerns(fault, subtask):
                if isinstance(fault, DropMessages):
                    return None
                delay += fault.delay_s
        return delay

    def storage(self, inner: CheckpointStorage) -> CheckpointStorage:
        """Return `inner` with the failures that faults cause."""
        return FaultyStorage(inner, self._condition)

    def _handed_over(self, source: SubtaskName, target: SubtaskName, item: ChannelItem) -> None:
        count = self._channels.get((source, target, item))
        if count is not None:
            self._fire_from_routine(count.step())

    def _fire_from_routine(self, faults: Iterable[Fault]) -> None:
        """Fire faults that a subtask has caused.

        Failures fire when the subtask waits next, other faults at once.
        """
        for fault in faults:
            if isinstance(fault, KillSubtask | KillTaskManager | Outage):
                self._agenda.keep(self._agenda.now, self._fire, fault)
            else:
                self._fire(fault)

    def _fire(self, fault: Fault) -> None:
        self.fired.append(FiredFault(self._agenda.now, fault.kind, str(fault)))
        if isinstance(fault, KillSubtask):
            self._job.fail_subtask(*self._key(fault.subtask), str(fault))
        elif isinstance(fault, KillTaskManager):
            self._job.fail_task_manager(fault.task_manager, str(fault))
        elif isinstance(fault, Outage):
            self._job.stop_for(fault.for_s, str(fault))
        elif isinstance(fault, CutLink):
            self._cuts.append(_Cut(fault, self._end(fault.for_s)))
            self._cut(self._cuts[-1])
        elif isinstance(fault, DelayMessages | DropMessages):
            self._messages.append((fault, self._end(fault.for_s)))
        elif isinstance(fault, FailUpload):
            self._condition.fail_uploads(self._end(fault.for_s))
        elif isinstance(fault, FillStorage):
            self._condition.fill(self._end(fault.for_s))
        else:
            assert_never(fault)

    def _end(self, for_s: float | None) -> float:
        return math.inf if for_s is None else self._agenda.now + for_s

    def _cut(self, cut: _Cut) -> None:
        for pair in (cut.fault.ends, cut.fault.ends[::-1]):
            if self._attempt is not None and pair in self._attempt.links:
                self._attempt.links[pair].cut(None if cut.until == math.inf else cut.until)
        self._await_heartbeats(cut)

    def _await_heartbeats(self, cut: _Cut) -> None:
        """Fail the tasks that need a link if it stays cut for longer than the heartbeat timeout."""
        timeout = self._heartbeat_timeout
        if cut.until > self._agenda.now + timeout:
            cause = f"{cut.fault}, and no heartbeat came for {time_text(timeout)}"
            cut.timer = self._agenda.cancellable_after(timeout, self._job.fail_link, cut.fault.ends, cause)

    def _concerns(self, fault: DelayMessages | DropMessages, subtask: TaskKey) -> bool:
        if fault.vertex is None:
            return True
        vertex, index = subtask
        return vertex == self._numbers[fault.vertex] and fault.subtask in (None, index)

    def _key(self, name: SubtaskName) -> TaskKey:
        return self._numbers[name.vertex], name.subtask


class StorageCondition:
    """The current failures of a storage. Times are in seconds of the run, or infinite."""

    def __init__(self, clock: Agenda) -> None:
        self._clock = clock
        self._no_uploads_until = -math.inf
        self._full_until = -math.inf

    def fail_uploads(self, until: float) -> None:
        """Refuse files, but not metadata, before time `until`."""
        self._no_uploads_until = max(self._no_uploads_until, until)

    def fill(self, until: float) -> None:
        """Refuse files and metadata before time `until`."""
        self._full_until = max(self._full_until, until)

    def check_upload(self, path: str) -> None:
        """Raise StorageError while uploads are failing; the message is one line that gives the reason."""
        self.check_space(path)
        if self._clock.now < self._no_uploads_until:
            raise StorageError(f"{path} cannot be written: the upload failed")

    def check_space(self, path: str) -> None:
        """Raise StorageError while the storage is full; the message is one line that gives the reason."""
        if self._clock.now < self._full_until:
            raise StorageError(f"{path} cannot be written: no space is left")


class FaultyStorage:
    """A `CheckpointStorage` that refuses writes during a failure; reading and deleting always work."""

    def __init__(self, inner: CheckpointStorage, condition: StorageCondition) -> None:
        self._inner = inner
        self._condition = condition
        self.read, self.load, self.checkpoints = inner.read, inner.load, inner.checkpoints
        self.discard, self.delete = inner.discard, inner.delete
        self.claim, self.free_location = inner.claim, inner.free_location

    def write(self, checkpoint_id: int, name: str, data: bytes, *, shared: bool = False) -> StoredFile:
        """Store a file; raises StorageError during a failure, before anything is written."""
        self._condition.check_upload(f"{folder_of(checkpoint_id)}/{name}")
        return self._inner.write(checkpoint_id, name, data, shared=shared)

    def write_pieces(self, checkpoint_id: int, name: str, data: Pieces) -> StoredFile:
        """Store a file of in-flight data, under the same conditions as `write`."""
        self._condition.check_upload(f"{folder_of(checkpoint_id)}/{name}")
        return write_pieces(self._inner, checkpoint_id, name, data)

    def complete(self, metadata: CheckpointMetadata) -> None:
        """Write the metadata, which completes the checkpoint; raises StorageError if the storage is full."""
        self._condition.check_space(metadata_path(metadata.checkpoint_id))
        self._inner.complete(metadata)

    def savepoint(self, location: str) -> CheckpointStorage:
        """Return the storage of one savepoint, with the same failures as this one."""
        return FaultyStorage(self._inner.savepoint(location), self._condition)
