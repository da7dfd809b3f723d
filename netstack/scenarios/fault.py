"""Faults: what goes wrong in a run, when, and for how long.

Each fault fires once in a run, however often the job restarts: at a time, or with the n-th buffer,
barrier or acknowledgement of one place, counted over the whole run. So a run with faults is as repeatable
as one without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

MESSAGES = ("trigger", "acknowledge", "decline", "completed", "aborted")
"""Messages between the coordinator of checkpoints and the tasks that can be delayed or dropped."""


@dataclass(frozen=True, slots=True)
class SubtaskName:
    """One subtask, by the name of its vertex and its index."""

    vertex: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.vertex}[{self.subtask}]"


class ChannelItem(StrEnum):
    """What is counted on a channel: its data buffers, or its checkpoint barriers."""

    BUFFER = "buffer"
    BARRIER = "barrier"


@dataclass(frozen=True, slots=True)
class AtTime:
    """A moment on the clock, in seconds since the tasks opened."""

    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OnChannel:
    """When the channel from `source` hands its `number`-th item, counted from 1, to the task `target`."""

    item: ChannelItem
    number: int
    source: SubtaskName
    target: SubtaskName


@dataclass(frozen=True, slots=True, kw_only=True)
class OnAcknowledgement:
    """When `subtask` sends its `number`-th acknowledgement of a checkpoint, counted from 1."""

    number: int
    subtask: SubtaskName


Moment = AtTime | OnChannel | OnAcknowledgement
"""When a fault fires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSubtask:
    """A subtask fails, and with it the job, which then restarts as its strategy says."""

    kind: ClassVar[str] = "kill_subtask"
    when: Moment
    subtask: SubtaskName

    def __str__(self) -> str:
        return f"subtask {self.subtask} is killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillTaskManager:
    """A task manager is lost with all subtasks that run in it."""

    kind: ClassVar[str] = "kill_task_manager"
    when: Moment
    task_manager: str

    def __str__(self) -> str:
        return f"task manager {self.task_manager} is killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLink:
    """Nothing passes between two task managers, in neither direction; None: for good.

    What is sent meanwhile leaves when the link is whole again. A cut that lasts longer than the heartbeat's
    timeout fails the job, and again after each restart that still finds it.
    """

    kind: ClassVar[str] = "cut_link"
    when: Moment
    from_task_manager: str
    to_task_manager: str
    for_s: float | None = None

    def __str__(self) -> str:
        return f"the link from {self.from_task_manager} to {self.to_task_manager} is cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayMessages:
    """Messages of one kind arrive `delay_s` later: all, those of one vertex, or of one subtask."""

    kind: ClassVar[str] = "delay_messages"
    when: Moment
    messages: str
    delay_s: float
    for_s: float
    vertex: str | None = None
    subtask: int | None = None

    def __str__(self) -> str:
        return f"messages are delayed: {self.messages}{_of(self.vertex, self.subtask)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropMessages:
    """Messages of one kind are lost: all, those of one vertex, or of one subtask."""

    kind: ClassVar[str] = "drop_messages"
    when: Moment
    messages: str
    for_s: float
    vertex: str | None = None
    subtask: int | None = None

    def __str__(self) -> str:
        return f"messages are dropped: {self.messages}{_of(self.vertex, self.subtask)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailUpload:
    """No task can write state to the checkpoint storage; the coordinator can still write metadata."""

    kind: ClassVar[str] = "fail_upload"
    when: Moment
    for_s: float

    def __str__(self) -> str:
        return "uploads to the checkpoint storage fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class FillStorage:
    """The checkpoint storage has no space left, for state nor for metadata; None: for good."""

    kind: ClassVar[str] = "fill_storage"
    when: Moment
    for_s: float | None = None

    def __str__(self) -> str:
        return "the checkpoint storage is full"


Fault = KillSubtask | KillTaskManager | CutLink | DelayMessages | DropMessages | FailUpload | FillStorage
"""Anything that can go wrong; as text, what happens when it does."""

FAULTS: Mapping[str, type[Fault]] = MappingProxyType(
    {
        fault.kind: fault
        for fault in (
            KillSubtask,
            KillTaskManager,
            CutLink,
            DelayMessages,
            DropMessages,
            FailUpload,
            FillStorage,
        )
    }
)
"""The faults by their kind in a scenario file."""


def _of(vertex: str | None, subtask: int | None) -> str:
    if vertex is None:
        return ""
    return f" of {vertex}" if subtask is None else f" of {SubtaskName(vertex, subtask)}"
