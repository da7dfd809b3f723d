"""What gates, queues and ledgers promise in their docstrings, for runs that are looked at after every step.

To hold them to their word, these checks look at what lies inside of them; nothing else does.
"""

from __future__ import annotations

from typing import Any

from buffers import NetworkBufferPool, PipelinedSubpartition
from netstack import InputGate, ResultPartition

from .storm_operators import Broken


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
            raise Broken(f"{subtask} waits for {subtask._waiting.value}, and has mail")


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
