"""What has to hold for memory, credit and sizes between any two entries of a storm's agenda."""

from __future__ import annotations

from typing import NamedTuple

from buffers import LocalBufferPool, NetworkBufferPool, PipelinedSubpartition
from flowcontrol import ReceiverState
from netstack import CutLink, InputGate, Job, RemoteInputChannel

from .case import StormCase

_DELIVERED_S = 0.02
"""Time in which a message is there, besides the latency of its link, where no link is short of bandwidth."""


class Broken(AssertionError):  # noqa: N818 - it names what happened
    """Something does not hold in the middle of a run."""


class _Seen(NamedTuple):
    """What was announced for a channel when it was looked at last.

    `is_told`: the size has changed since its producer listens. What is announced before that is lost, as in
    Flink.
    """

    at: float
    announced: int
    listens: bool
    is_told: bool = False


class MemoryRules:
    """Looks at a job between two entries of its agenda.

    What takes a while to hold, such as a size that was announced, is held against what was seen at the look
    before.
    """

    def __init__(self, case: StormCase) -> None:
        self._case = case
        self._seen: dict[PipelinedSubpartition, _Seen] = {}
        slow = case.link.bandwidth_bytes_per_s is not None
        cut = any(isinstance(fault, CutLink) for fault in case.faults)
        self._messages_arrive = not (slow or cut)

    def check(self, job: Job) -> None:
        """Look at all there is.

        Raises:
            Broken: something does not hold.
        """
        attempt = job.attempt
        if attempt is None:
            return
        for subtask in attempt.subtasks:
            for output in subtask.outputs:
                _check_pool(output.partition.pool, f"the partition of {subtask}")
            for gate in getattr(subtask, "gates", ()):
                _check_pool(gate.floating, f"the gate of {subtask}")
                for channel in gate.remote_channels:
                    _check_credit(channel, f"{subtask}, channel {channel.index}")
                    _check_senders(job, channel, f"{subtask}, channel {channel.index}")
                self._check_sizes(job, gate, str(subtask))
        for name, manager in attempt.builder.task_managers.items():
            _check_shares(manager.pool, name)

    def _check_sizes(self, job: Job, gate: InputGate, subtask: str) -> None:
        """A size that was announced has come to the producer."""
        config = self._case.config
        policy = gate.debloater
        if policy is None or config.debloat_policy != "flink" or not self._messages_arrive:
            return
        assert job.attempt is not None
        now, seen = job.agenda.now, self._seen
        arrived_s = self._case.link.latency_s + _DELIVERED_S
        for channel in gate.channels:
            queue, announced = job.attempt.builder.subpartition_of(channel.channel_id), policy.last_announced
            if queue is None:
                continue
            before = seen.get(queue, _Seen(now, announced, listens=False))
            changed = before.announced != announced
            is_told = before.listens and (changed or before.is_told)
            since = now if changed else before.at
            seen[queue] = _Seen(since, announced, queue.on_data is not None, is_told)
            over = queue.finished or queue.released or channel.released
            if is_told and not over and now - since > arrived_s and queue.buffer_size != announced:
                where = f"{subtask}, channel {channel.index}"
                raise Broken(
                    f"{where} has announced {announced} bytes, and its producer has {queue.buffer_size}"
                )


def _check_pool(pool: LocalBufferPool, whose: str) -> None:
    """The invariants that `LocalBufferPool` states."""
    if pool.destroyed:
        return
    free, line = pool.free, pool.statistics()
    if pool.available != (free > 0 and not line.full_subpartitions):
        raise Broken(f"{whose} has {free} free segments and is available: {pool.available}")
    if free and pool.requested > pool.size:
        raise Broken(f"{whose} keeps {free} free segments, with {pool.requested} of {pool.size}")
    if free and line.listeners:
        raise Broken(f"{whose} has {free} free segments and {line.listeners} who wait for one")
    if not free and pool.requested < pool.size and pool.network_pool.free:
        raise Broken(f"{whose} holds {pool.requested} of {pool.size} segments, and more are free")


def _check_credit(channel: RemoteInputChannel, where: str) -> None:
    """Free buffers and credit are the same at each receiving channel."""
    credit, buffers = channel.receiver.credit, channel.buffers
    worth = credit.outstanding + credit.unannounced
    state = channel.receiver.state
    blocked = state is ReceiverState.BLOCKED and not buffers.exclusive_total
    if buffers.available != (0 if blocked else worth) and not buffers.released:
        raise Broken(
            f"{where} ({state.name.lower()}) has {buffers.available} free buffers, and credit for {worth}"
        )


def _check_shares(network: NetworkBufferPool, name: str) -> None:
    """All memory that is not promised is shared out, up to what pools can use."""
    pools = [pool for pool in network.pools if pool.minimum < pool.maximum]
    fixed = network.guaranteed - sum(pool.minimum for pool in pools)
    shared, wanted = sum(pool.size for pool in pools), sum(pool.maximum for pool in pools)
    if pools and shared != min(wanted, network.total - fixed):
        raise Broken(f"pools of {name} have {shared} of {network.total - fixed} segments, and want {wanted}")


def _check_senders(job: Job, channel: RemoteInputChannel, where: str) -> None:
    """No sender has more credit than its receiver has given and not seen spent."""
    assert job.attempt is not None
    credit = channel.receiver.credit
    if not credit.initial:  # it is revoked at both ends, at one of them first
        return
    for producer in job.attempt.builder.connections.producers:
        sender = producer.queue.sender(channel.channel_id)
        if sender is not None and sender.credit.available > credit.outstanding:
            given = f"{credit.outstanding} was given and not spent"
            raise Broken(f"{where} has a sender with credit {sender.credit.available}, where {given}")
