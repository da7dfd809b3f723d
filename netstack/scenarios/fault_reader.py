"""The ``[[faults]]`` of a scenario file: what goes wrong, when, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .fault import (
    FAULTS,
    MESSAGES,
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
    Moment,
    OnAcknowledgement,
    OnChannel,
    SubtaskName,
)
from .fault_document import ACKNOWLEDGEMENT
from .quantities import QuantityError, parse_duration
from .sections import OneOf, Section, integer, text
from .shapes import accepts

_MOMENT_KEYS = ("at", "on", "number", "from", "from_subtask", "to", "to_subtask")
_COUNTED = (*map(str, ChannelItem), ACKNOWLEDGEMENT)
_START = AtTime(0.0)


def read_faults(sections: list[Section]) -> tuple[Fault, ...]:
    """Return the faults of a document; those whose kind nobody knows are left out, which has been noted."""
    return tuple(fault for section in sections if (fault := _fault(section)) is not None)


def _fault(section: Section) -> Fault | None:
    kind = section.require("kind", _kind, "", '"kill_subtask"')
    if not kind:
        return None
    fault = _READERS[kind](section)
    section.finish(section.taken)
    return fault


@accepts({"enum": list(FAULTS)})
def _kind(value: object) -> str:
    name = text(value)
    if name not in FAULTS:
        raise QuantityError(f"{name!r} is no fault", " or ".join(map(repr, FAULTS)))
    return name


def _kill_subtask(section: Section) -> Fault:
    subtask = _subtask(section, "vertex", "subtask")
    return KillSubtask(when=_moment(section), subtask=subtask)


def _kill_task_manager(section: Section) -> Fault:
    name = _manager(section, "task_manager")
    return KillTaskManager(when=_moment(section), task_manager=name)


def _cut_link(section: Section) -> Fault:
    return CutLink(
        when=_moment(section),
        from_task_manager=_manager(section, "from_task_manager"),
        to_task_manager=_manager(section, "to_task_manager"),
        for_s=section.take("for", parse_duration, None),
    )


def _delay_messages(section: Section) -> Fault:
    return DelayMessages(
        when=_moment(section),
        messages=_messages(section),
        delay_s=section.require("delay", parse_duration, 1.0, '"2 s"'),
        for_s=_period(section),
        vertex=section.take("vertex", text, None),
        subtask=section.take("subtask", integer, None),
    )


def _drop_messages(section: Section) -> Fault:
    return DropMessages(
        when=_moment(section),
        messages=_messages(section),
        for_s=_period(section),
        vertex=section.take("vertex", text, None),
        subtask=section.take("subtask", integer, None),
    )


def _fail_upload(section: Section) -> Fault:
    return FailUpload(when=_moment(section), for_s=_period(section))


def _fill_storage(section: Section) -> Fault:
    return FillStorage(when=_moment(section), for_s=section.take("for", parse_duration, None))


_READERS: Mapping[str, Callable[[Section], Fault]] = {
    KillSubtask.kind: _kill_subtask,
    KillTaskManager.kind: _kill_task_manager,
    CutLink.kind: _cut_link,
    DelayMessages.kind: _delay_messages,
    DropMessages.kind: _drop_messages,
    FailUpload.kind: _fail_upload,
    FillStorage.kind: _fill_storage,
}


def _moment(section: Section) -> Moment:
    """When a fault fires: ``at`` a time, or ``on`` the n-th of what is counted."""
    if "at" in section and "on" not in section:
        return AtTime(section.require("at", parse_duration, 0.0, '"12 s"'))
    if "at" in section:
        section.complain("at", "is given with on; keep one of the two")
    elif "on" not in section:
        section.complain("at", 'is missing; give it, such as "12 s", or on')
    elif on := section.take("on", _counted, ""):
        return _on(section, on)
    for key in _MOMENT_KEYS:  # what they say cannot be told without knowing the moment's kind
        section.take(key, _anything, None)
    return _START


def _on(section: Section, what: str) -> Moment:
    number = section.require("number", integer, 1, "3")
    if what == ACKNOWLEDGEMENT:
        return OnAcknowledgement(number=number, subtask=_acknowledging(section))
    source, target = _subtask(section, "from", "from_subtask"), _subtask(section, "to", "to_subtask")
    return OnChannel(item=ChannelItem(what), number=number, source=source, target=target)


def _acknowledging(section: Section) -> SubtaskName:
    """Who acknowledges: ``from``, or where that is absent, the subtask that the fault is about."""
    if "from" in section or "from_subtask" in section or "vertex" not in section:
        return _subtask(section, "from", "from_subtask")
    return _subtask(section, "vertex", "subtask")


@accepts({"enum": list(_COUNTED)})
def _counted(value: object) -> str:
    name = text(value)
    if name not in _COUNTED:
        raise QuantityError(f"{name!r} is nothing that is counted", " or ".join(map(repr, _COUNTED)))
    return str(name)


def _subtask(section: Section, vertex: str, subtask: str) -> SubtaskName:
    name = section.require(vertex, text, "", 'the name of a vertex, "stage1"')
    return SubtaskName(name, section.require(subtask, integer, 0, "0"))


def _manager(section: Section, key: str) -> str:
    return section.require(key, text, "", 'the name of a task manager, "stage1"')


def _messages(section: Section) -> str:
    return section.require("messages", OneOf(MESSAGES), "", '"acknowledge"')


def _period(section: Section) -> float:
    return section.require("for", parse_duration, 1.0, '"500 ms"')


@accepts({})
def _anything(value: object) -> object:
    return value
