"""A fault as a table of a document: the keys that a scenario file would have."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from .fault import AtTime, Fault, Moment, OnAcknowledgement, SubtaskName
from .quantities import format_duration

ACKNOWLEDGEMENT = "acknowledgement"
"""What ``on`` says for `OnAcknowledgement`."""


def fault_document(fault: Fault) -> dict[str, Any]:
    """Return a fault as a table that is read back to an equal one."""
    document: dict[str, Any] = {"kind": fault.kind} | _moment(fault.when)
    for field in fields(fault):
        value = getattr(fault, field.name)
        if isinstance(value, SubtaskName):
            document |= {"vertex": value.vertex, "subtask": value.subtask}
        elif field.name != "when" and value is not None:
            timed = field.name.endswith("_s")
            document[field.name.removesuffix("_s")] = format_duration(value) if timed else value
    return document


def _moment(when: Moment) -> dict[str, Any]:
    if isinstance(when, AtTime):
        return {"at": format_duration(when.time_s)}
    if isinstance(when, OnAcknowledgement):
        return {"on": ACKNOWLEDGEMENT, "number": when.number} | _named("from", when.subtask)
    document = {"on": str(when.item), "number": when.number}
    return document | _named("from", when.source) | _named("to", when.target)


def _named(key: str, name: SubtaskName) -> dict[str, Any]:
    return {key: name.vertex, f"{key}_subtask": name.subtask}
