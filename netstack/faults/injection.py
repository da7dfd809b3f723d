"""Lets the faults of a scenario happen.

The injector lives as long as the run, over all restarts. Faults at a time stand on the agenda from the
start; the others wait for a count that taps and the control plane drive. What a fault has changed goes on
over a restart: a link that is cut for good is cut in the next attempt too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from ..checkpoints.control_plane import ControlMessage, TaskKey
from ..checkpoints.storage import CheckpointStorage
from ..engine.agenda import Agenda
from ..engine.callbacks import Timer
from ..scenarios.config_rules import time_text
from ..scenarios.fault import (
    AtTime,
    ChannelItem,
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
    SubtaskName,
)
from ..scenarios.scenario import Scenario
from .faulty_storage import FaultyStorage, StorageCondition
from .fired import FiredFault
from .tapped_gate import Tap


class FailingJob(Protocol):
    """What can fail. Nothing is to be done where no attempt runs, or the one that runs is failing already."""

    def fail_subtask(self, vertex: int, index: int, cause: str) -> None:
        """Let one subtask fail; `vertex` is its number in the scenario."""
        ...

    def fail_task_manager(self, name: str, cause: str) -> None:
        """Lose a task manager and all its subtasks."""
        ...

    def fail_link(self, ends: tuple[str, str], cause: str) -> None:
        """Lose the connection between two task managers, and all subtasks that need it."""
        ...


class Cuttable(Protocol):
    """A link that can be cut, as `EmulatedLink` can."""

    def cut(self, until: float | None) -> None:
        """Let nothing leave before `until`; None: never again."""
        ...


class _Cut:
    """A link that is cut until some second of the run; `timer` waits for the heartbeats that do not come."""

    def __init__(self, fault: CutLink, until: float) -> None:
        self.fault = fault
        self.until = until
        self.timer: Timer | None = None

    @property
    def ends(self) -> tuple[str, str]:
        """The task managers of the link."""
        return self.fault.from_task_manager, self.fault.to_task_manager


class _Count:
    """How often something has happened in the run, and the faults that wait for one of these times."""

    def __init__(self) -> None:
        self.happened = 0
        self.waiting: list[tuple[int, Fault]] = []

    def step(self) -> list[Fault]:
        """Count one more, and return the faults whose turn it is."""
        self.happened += 1
        return [fault for number, fault in self.waiting if number == self.happened]


class FaultInjector:
    """The faults of one run; `fired` are those that have happened, in their order.

    `start` is called once, `attempt_started` whenever the connections of an attempt have been made.
    `watched`, `interfere` and `storage` are what the job builds in.
    """

    def __init__(self, scenario: Scenario, agenda: Agenda, job: FailingJob) -> None:
        self.fired: list[FiredFault] = []
        self._agenda = agenda
        self._job = job
        self._faults = scenario.faults
        self._numbers = {vertex.name: number for number, vertex in enumerate(scenario.vertices)}
        self._heartbeat_timeout = scenario.config.heartbeat_timeout_s
        self._links: Mapping[tuple[str, str], Cuttable] = {}
        self._cuts: list[_Cut] = []
        self._messages: list[tuple[DelayMessages | DropMessages, float]] = []
        self._condition = StorageCondition(agenda)
        self._channels: dict[tuple[SubtaskName, SubtaskName, ChannelItem], _Count] = {}
        self._acknowledgements: dict[TaskKey, _Count] = {}
        for fault in scenario.faults:
            self._wait(fault)

    def _wait(self, fault: Fault) -> None:
        when = fault.when
        if isinstance(when, OnChannel):
            count = self._channels.setdefault((when.source, when.target, when.item), _Count())
            count.waiting.append((when.number, fault))
        elif isinstance(when, OnAcknowledgement):
            count = self._acknowledgements.setdefault(self._key(when.subtask), _Count())
            count.waiting.append((when.number, fault))

    def start(self) -> None:
        """Put the faults that have a time on the agenda, where they outlive restarts."""
        for fault in self._faults:
            if isinstance(fault.when, AtTime):
                self._agenda.keep(fault.when.time_s, self._fire, fault)

    def add(self, faults: Sequence[Fault]) -> None:
        """Let more faults happen, that have a time to come."""
        self._faults += tuple(faults)
        for fault in faults:
            if isinstance(fault.when, AtTime):
                self._agenda.keep_foremost(fault.when.time_s, self._fire, fault)

    def attempt_started(self, links: Mapping[tuple[str, str], Cuttable]) -> None:
        """An attempt has the connections `links`, by (producer's, consumer's) task manager.

        Those that are cut still are cut.
        """
        self._links = links
        for cut in self._cuts:
            if cut.timer is not None:
                cut.timer.cancel()
            if cut.until > self._agenda.now:
                self._cut(cut)

    def region_started(self) -> None:
        """Tasks are there again: they wait for heartbeats over links that are still cut."""
        for cut in self._cuts:
            if cut.timer is None or not cut.timer.pending:
                self._await_heartbeats(cut)

    def watched(self, source: str, target: str, target_subtask: int) -> dict[int, Tap]:
        """Taps for the gate of a subtask of `target` that reads from `source`, by the producer's index.

        Where there are any, the gate has to be a `TappedGate`.
        """
        consumer = SubtaskName(target, target_subtask)
        producers = {
            producer.subtask
            for producer, reader, _ in self._channels
            if producer.vertex == source and reader == consumer
        }
        return {
            index: partial(self._handed_over, SubtaskName(source, index), consumer)
            for index in sorted(producers)
        }

    @property
    def interferes(self) -> bool:
        """Whether a fault can have to do with messages; if none has, `interfere` need not be asked."""
        message_faults = any(isinstance(fault, DelayMessages | DropMessages) for fault in self._faults)
        return message_faults or bool(self._acknowledgements)

    def interfere(self, message: ControlMessage, subtask: TaskKey) -> float | None:
        """Return by how many seconds a message of or to a subtask is delayed, None if it is lost.

        Asked once for each message, when it is sent; `subtask` is its (vertex, index).
        """
        if message is ControlMessage.ACKNOWLEDGE and subtask in self._acknowledgements:
            self._fire_from_routine(self._acknowledgements[subtask].step())
        delay = 0.0
        for fault, until in self._messages:
            if fault.messages == message and self._agenda.now < until and self._concerns(fault, subtask):
                if isinstance(fault, DropMessages):
                    return None
                delay += fault.delay_s
        return delay

    def storage(self, inner: CheckpointStorage) -> CheckpointStorage:
        """Return `inner` as the faults let it look: itself if none concerns the storage."""
        if any(isinstance(fault, FailUpload | FillStorage) for fault in self._faults):
            return FaultyStorage(inner, self._condition)
        return inner

    def _handed_over(self, source: SubtaskName, target: SubtaskName, item: ChannelItem) -> None:
        count = self._channels.get((source, target, item))
        if count is not None:
            self._fire_from_routine(count.step())

    def _fire_from_routine(self, faults: Iterable[Fault]) -> None:
        """Fire what a subtask has set off: at once, but a failure not before the subtask waits again."""
        for fault in faults:
            if isinstance(fault, KillSubtask | KillTaskManager):
                self._agenda.keep(self._agenda.now, self._fire, fault)
            else:
                self._fire(fault)

    def _fire(self, fault: Fault) -> None:
        now = self._agenda.now
        self.fired.append(FiredFault(now, fault.kind, str(fault)))
        if isinstance(fault, KillSubtask):
            self._job.fail_subtask(*self._key(fault.subtask), str(fault))
        elif isinstance(fault, KillTaskManager):
            self._job.fail_task_manager(fault.task_manager, str(fault))
        else:
            self._change(fault, math.inf if fault.for_s is None else now + fault.for_s)

    def _change(
        self, fault: CutLink | DelayMessages | DropMessages | FailUpload | FillStorage, until: float
    ) -> None:
        if isinstance(fault, CutLink):
            self._cuts.append(_Cut(fault, until))
            self._cut(self._cuts[-1])
        elif isinstance(fault, DelayMessages | DropMessages):
            self._messages.append((fault, until))
        elif isinstance(fault, FailUpload):
            self._condition.fail_uploads(until)
        else:
            self._condition.fill(until)

    def _cut(self, cut: _Cut) -> None:
        for pair in (cut.ends, cut.ends[::-1]):
            if pair in self._links:
                self._links[pair].cut(None if cut.until == math.inf else cut.until)
        self._await_heartbeats(cut)

    def _await_heartbeats(self, cut: _Cut) -> None:
        """Let those who need a link fail when it has been cut for too long, if it will be."""
        timeout = self._heartbeat_timeout
        if cut.until > self._agenda.now + timeout:
            cause = f"{cut.fault}, and no heartbeat came for {time_text(timeout)}"
            cut.timer = self._agenda.cancellable_after(timeout, self._job.fail_link, cut.ends, cause)

    def _concerns(self, fault: DelayMessages | DropMessages, subtask: TaskKey) -> bool:
        if fault.vertex is None:
            return True
        vertex, index = subtask
        return vertex == self._numbers[fault.vertex] and fault.subtask in (None, index)

    def _key(self, name: SubtaskName) -> TaskKey:
        return self._numbers[name.vertex], name.subtask
