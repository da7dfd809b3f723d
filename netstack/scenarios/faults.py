"""Faults: their kind, time and duration in a run, and their form in scenario files.

Each fault fires once in a run, however often the job restarts. It fires at a given time, or with the n-th
buffer or barrier of a channel, or the n-th acknowledgement of a subtask, counted over the whole run. So a run
with faults is as reproducible as one without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, get_args

from .tables import (
    Alternative,
    Key,
    Part,
    Section,
    alternatives_of,
    key,
    needed,
    object_shape,
    place,
    read_keys,
    write_table,
)
from .unit_texts import format_duration
from .value_kinds import INTEGER, STRING, TIME, Shape, any_of, as_is, named, one_of

__all__ = [
    "ACKNOWLEDGEMENT",
    "MESSAGES",
    "AtTime",
    "ChannelItem",
    "CutLink",
    "DelayMessages",
    "DropMessages",
    "FailUpload",
    "Fault",
    "FillStorage",
    "KillSubtask",
    "KillTaskManager",
    "Moment",
    "OnAcknowledgement",
    "OnChannel",
    "Outage",
    "SubtaskName",
]


class ControlMessage(StrEnum):
    """Kinds of messages between coordinator and tasks; faults can delay or drop them."""

    TRIGGER = "trigger"
    ACKNOWLEDGE = "acknowledge"
    DECLINE = "decline"
    COMPLETED = "completed"
    ABORTED = "aborted"


MESSAGES = tuple(map(str, ControlMessage))
"""The names of `ControlMessage` in scenario files."""

ACKNOWLEDGEMENT = "acknowledgement"
"""Value of the key ``on`` that means `OnAcknowledgement`."""


@dataclass(frozen=True, slots=True)
class SubtaskName:
    """One subtask, by the name of its vertex and its index."""

    vertex: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.vertex}[{self.subtask}]"


class ChannelItem(StrEnum):
    """Items that are counted on a channel: data buffers or checkpoint barriers."""

    BUFFER = "buffer"
    BARRIER = "barrier"


@dataclass(frozen=True, slots=True)
class _SubtaskKeys(Part):
    """A subtask, in two keys of a table: its vertex and its index."""

    vertex: str
    subtask: str

    def of(self, section: Section) -> SubtaskName:
        name = section.require(self.vertex, STRING.parse, "", 'the name of a vertex, "stage1"')
        return SubtaskName(name, section.require(self.subtask, INTEGER.parse, 0, "0"))

    def read(self, section: Section, key: Key, default: object) -> SubtaskName:
        return self.of(section)

    def entries(self, key: Key, value: SubtaskName) -> Mapping[str, object]:
        return {self.vertex: value.vertex, self.subtask: value.subtask}

    def alternatives(self, key: Key | None = None) -> Sequence[Alternative]:
        properties = {self.vertex: STRING.shape, self.subtask: INTEGER.shape}
        return [Alternative(properties, frozenset(properties))]


_SUBTASK = _SubtaskKeys("vertex", "subtask")
_FROM = _SubtaskKeys("from", "from_subtask")
_TO = _SubtaskKeys("to", "to_subtask")
_NUMBER = needed(INTEGER, "3", 1)


@dataclass(frozen=True, slots=True)
class AtTime:
    """A time, in seconds since the tasks opened."""

    time_s: float = field(metadata=needed(TIME, '"12 s"', 0.0, name="at"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OnChannel:
    """The moment when `target` gets the `number`-th item (from 1) on its channel from `source`."""

    item: ChannelItem
    number: int = field(metadata=_NUMBER)
    source: SubtaskName = field(metadata=needed(_FROM))
    target: SubtaskName = field(metadata=needed(_TO))


@dataclass(frozen=True, slots=True, kw_only=True)
class OnAcknowledgement:
    """The moment when `subtask` sends its `number`-th acknowledgement of a checkpoint (from 1)."""

    number: int = field(metadata=_NUMBER)
    subtask: SubtaskName = field(metadata=needed(_FROM))


Moment = AtTime | OnChannel | OnAcknowledgement
"""Time or event at which a fault fires."""

_COUNTED = named(
    {str(item): item for item in ChannelItem} | {ACKNOWLEDGEMENT: ACKNOWLEDGEMENT},
    "cannot be counted",
)


class _MomentKeys(Part):
    """Keys for a moment in the table of a fault: ``at`` for a time, ``on`` for an item or acknowledgement."""

    def read(self, section: Section, key: Key, default: object) -> Moment:
        if "at" in section and "on" not in section:
            return read_keys(section, AtTime)
        if "at" in section:
            section.complain("at", "is given together with on; remove one of the two")
        elif "on" not in section:
            section.complain("at", 'is missing; give a time such as "12 s", or give on')
        elif on := section.take("on", _COUNTED.parse, ""):
            if on != ACKNOWLEDGEMENT:
                return read_keys(section, OnChannel, {"item": on})
            if "from" in section or "from_subtask" in section or "vertex" not in section:
                return read_keys(section, OnAcknowledgement)
            # The fault's own subtask is the one that acknowledges.
            return read_keys(section, OnAcknowledgement, {"subtask": _SUBTASK.of(section)})
        for alternative in self.alternatives(key):  # so that no other message complains about these keys
            for name in alternative.properties.keys() - {"vertex", "subtask"}:  # they may belong to the fault
                section.take(name, as_is, None)
        return AtTime(0.0)

    def entries(self, key: Key, value: Moment) -> Mapping[str, object]:
        if isinstance(value, AtTime):
            return write_table(value)
        on = ACKNOWLEDGEMENT if isinstance(value, OnAcknowledgement) else str(value.item)
        return {"on": on} | write_table(value)

    def alternatives(self, key: Key) -> Sequence[Alternative]:
        found = alternatives_of(AtTime)
        for item in ChannelItem:
            found += [_constant("on", item) | each for each in alternatives_of(OnChannel)]
        by_from = alternatives_of(OnAcknowledgement)
        by_target = [
            Alternative({"number": INTEGER.shape}, frozenset({"number"})) | _SUBTASK.alternatives()[0]
        ]
        return found + [_constant("on", ACKNOWLEDGEMENT) | each for each in by_from + by_target]


def _constant(key: str, value: str) -> Alternative:
    return Alternative({key: {"const": str(value)}})


_MANAGER = needed(STRING, 'the name of a task manager, "stage1"', "")
_MESSAGES = needed(one_of(MESSAGES), '"acknowledge"', "")
_PERIOD = needed(TIME, '"500 ms"', 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """Base of all faults. `kind` is the value of the key ``kind`` in a scenario file."""

    kind: ClassVar[str]
    needs_checkpoints: ClassVar[bool] = False
    when: Moment = field(metadata=needed(_MomentKeys()))


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSubtask(_Fault):
    """A subtask fails; its region, or the whole job, restarts as the restart strategy allows."""

    kind = "kill_subtask"
    subtask: SubtaskName = field(metadata=needed(_SUBTASK))

    def __str__(self) -> str:
        return f"subtask {self.subtask} is killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillTaskManager(_Fault):
    """A task manager is lost with all its subtasks."""

    kind = "kill_task_manager"
    task_manager: str = field(metadata=_MANAGER)

    def __str__(self) -> str:
        return f"task manager {self.task_manager} is killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLink(_Fault):
    """No message passes between two task managers in either direction for `for_s` seconds; None: permanently.

    Messages sent meanwhile leave after the cut. A cut that lasts longer than the heartbeat timeout fails the
    job, and again after each restart during the cut.
    """

    kind = "cut_link"
    from_task_manager: str = field(metadata=_MANAGER)
    to_task_manager: str = field(metadata=_MANAGER)
    for_s: float | None = key(TIME, None)

    @property
    def ends(self) -> tuple[str, str]:
        """The two task managers of the link."""
        return self.from_task_manager, self.to_task_manager

    def __str__(self) -> str:
        return f"the link from {self.from_task_manager} to {self.to_task_manager} is cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayMessages(_Fault):
    """Messages of one kind arrive `delay_s` later: all messages, or those of one vertex or subtask."""

    kind = "delay_messages"
    needs_checkpoints = True
    messages: str = field(metadata=_MESSAGES)
    delay_s: float = field(metadata=needed(TIME, '"2 s"', 1.0))
    for_s: float = field(metadata=_PERIOD)
    vertex: str | None = key(STRING, None)
    subtask: int | None = key(INTEGER, None)

    def __str__(self) -> str:
        return f"messages are delayed: {self.messages}{_of(self.vertex, self.subtask)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropMessages(_Fault):
    """Messages of one kind are lost: all messages, or those of one vertex or subtask."""

    kind = "drop_messages"
    needs_checkpoints = True
    messages: str = field(metadata=_MESSAGES)
    for_s: float = field(metadata=_PERIOD)
    vertex: str | None = key(STRING, None)
    subtask: int | None = key(INTEGER, None)

    def __str__(self) -> str:
        return f"messages are dropped: {self.messages}{_of(self.vertex, self.subtask)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailUpload(_Fault):
    """Tasks cannot write state to the checkpoint storage; the coordinator can still write metadata."""

    kind = "fail_upload"
    needs_checkpoints = True
    for_s: float = field(metadata=_PERIOD)

    def __str__(self) -> str:
        return "uploads to the checkpoint storage fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class FillStorage(_Fault):
    """The checkpoint storage has no space left for state or metadata; `for_s` None: permanently."""

    kind = "fill_storage"
    needs_checkpoints = True
    for_s: float | None = key(TIME, None)

    def __str__(self) -> str:
        return "the checkpoint storage is full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage(_Fault):
    """The whole job is down for `for_s` seconds, as during an upgrade or without a cluster.

    It then restarts from its latest checkpoint, whatever its restart strategy says.
    """

    kind = "outage"
    for_s: float = field(metadata=needed(TIME, '"10 min"', 1.0))

    def __str__(self) -> str:
        return f"the job is down for {format_duration(self.for_s)}"


Fault = (
    KillSubtask | KillTaskManager | Outage | CutLink | DelayMessages | DropMessages | FailUpload | FillStorage
)
"""Any fault; `str` returns a description of its effect."""

FAULTS: Mapping[str, type[Fault]] = MappingProxyType({fault.kind: fault for fault in get_args(Fault)})
"""The faults by the value of ``kind`` in a scenario file."""

_KIND = named(FAULTS, "is not a kind of fault")


def _of(vertex: str | None, subtask: int | None) -> str:
    if vertex is None:
        return ""
    return f" of {vertex}" if subtask is None else f" of {SubtaskName(vertex, subtask)}"


class Faults(Part):
    """A list of tables; the key ``kind`` of each gives the type of the fault."""

    is_tuple = True

    def read(self, section: Section, key: Key, default: object) -> tuple[Fault, ...]:
        """Return the faults; a table of unknown kind is reported as a mistake and omitted."""
        faults = []
        for table in section.sections(key.name, place):
            cls: Any = table.require("kind", _KIND.parse, None, '"kill_subtask"')
            if cls is not None:
                faults.append(read_keys(table, cls))
                table.finish(table.taken)
        return tuple(faults)

    def render(self, value: Sequence[Fault]) -> object:
        """Return the tables."""
        return [{"kind": fault.kind} | write_table(fault) for fault in value]

    @property
    def shape(self) -> Shape:
        """JSON Schema of the list."""
        shapes = [
            object_shape(Alternative({"kind": {"const": kind}}, frozenset({"kind"})) | each)
            for kind, cls in FAULTS.items()
            for each in alternatives_of(cls)
        ]
        return {"type": "array", "items": any_of(*shapes)}
