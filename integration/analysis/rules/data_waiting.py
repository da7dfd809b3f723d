"""How many bytes wait before a vertex, at both ends of what it reads, as reports have it of a whole job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

from netstack import Series, VertexSteady

from ..known_values import complete, quotient
from .observation import Observation

_T = TypeVar("_T")


class DataWaiting(NamedTuple):
    """What waits: at the senders, at the receivers, and at both, which need not be their sum."""

    sender_bytes: float
    receiver_bytes: float
    bytes: float

    @property
    def sender_share(self) -> float | None:
        """Share of it that waits at the senders, 0 to 1; None where each end is empty most of the time."""
        return quotient(self.sender_bytes, self.sender_bytes + self.receiver_bytes)


def bytes_waiting(view: Observation, vertex: VertexSteady, readers: Sequence[int]) -> DataWaiting | None:
    """Return what waits for some subtasks of a vertex, for all if none are named; None: it is not known.

    It is the median over the window's samples of the sum over subtasks; without samples, as of a real Flink,
    the sum of the subtasks' medians.
    """
    writers = [writer for _, writer in view.inputs(vertex)]
    sampled = _sampled(view, [writer.name for writer in writers], vertex.name, readers)
    if sampled is not None:
        return sampled
    senders = complete(held for writer in writers for held in writer.outputQueueSize)
    receivers = complete(of_subtasks(vertex.inputQueueSize, readers))
    if senders is None or receivers is None:
        return None
    return DataWaiting(sum(senders), sum(receivers), sum(senders) + sum(receivers))


def _sampled(
    view: Observation, writers: Sequence[str], reader: str, readers: Sequence[int]
) -> DataWaiting | None:
    by_name = {series.vertex: series for series in view.series}
    if not writers or not {*writers, reader} <= by_name.keys():
        return None
    held = [by_name[writer].outputQueueSize for writer in writers]
    received = by_name[reader].inputQueueSize
    if not all(held) or not received:
        return None
    inside = list(_inside(view, by_name[reader]))
    sent = [sum(queue[at] for subtasks in held for queue in subtasks) for at in inside]
    got = [sum(queue[at] for queue in of_subtasks(received, readers)) for at in inside]
    if not inside:
        return None
    both = [at_senders + at_receivers for at_senders, at_receivers in zip(sent, got, strict=True)]
    return DataWaiting(median(sent), median(got), median(both))


def _inside(view: Observation, series: Series) -> Iterator[int]:
    """The places of the samples of the window."""
    for place, t in enumerate(series.t):
        if view.steady.from_s <= t <= view.steady.to_s:
            yield place


def of_subtasks(values: Sequence[_T], subtasks: Sequence[int]) -> list[_T]:
    """Return what there is of some subtasks, of all if none are named."""
    return [value for subtask, value in enumerate(values) if not subtasks or subtask in subtasks]
