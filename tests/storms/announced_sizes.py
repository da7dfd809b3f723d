"""Buffer sizes: what a gate has announced is what its producers make, once the message is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from buffers import BufferBuilder, PipelinedSubpartition
from flowcontrol import ChannelSender
from netstack import RemoteInputChannel

from .case import StormCase
from .storm_flows import flows_of
from .storm_operators import Broken

_ONE_SIZE_EACH = "per-channel"
"""The policy that announces another size to each channel, of which a gate shows the smallest."""

_HEADER = 4

SenderOf = Callable[[RemoteInputChannel], ChannelSender | None]
"""Gives the sending end of a channel, if it is there."""


_ARRIVES_S = 0.01
"""After so long an announcement has left the task, and stands on the wire at the latest."""


class SizesInForce:
    """Compares sizes from one look to the next, in one attempt of a job.

    `looks_s`: seconds from one look to the next; 0: one comes after every entry. Where a size can go and come
    again in between, nobody knows when it was announced; where one can come and go, what buffers began with.
    """

    def __init__(self, case: StormCase, looks_s: float = 0.0) -> None:
        self._case = case
        period = case.config.debloat_period_s
        self._on = case.config.debloat_enabled
        self._one_size = case.config.debloat_policy != _ONE_SIZE_EACH and period >= looks_s
        # From Flink 2 on the last buffer of a pool grows, again and again where a record gives several.
        self._buffers = period >= 3 * looks_s and case.preset.startswith("flink-1")
        self._announced: dict[object, tuple[int, float]] = {}
        self._looked_at_s = 0.0
        self._seen: dict[PipelinedSubpartition, tuple[int, BufferBuilder | None]] = {}
        self._largest: dict[str, int] = {}

    def check(self, attempt: Any, now: float, sender_of: SenderOf) -> None:
        """Look at all channels and all buffers that are being written.

        Raises:
            Broken: a producer goes by another size than was announced, or by none.
        """
        if self._on:
            if self._one_size:
                self._check_announced(attempt, now, sender_of)
            if self._buffers:
                # What a blocked link has held up arrives all at once, and only the last size of it is seen.
                held_up = any(link.blocked_until() > self._looked_at_s for link in attempt.links.values())
                self._check_buffers(attempt, compares=not held_up)
            self._looked_at_s = now

    def _check_announced(self, attempt: Any, now: float, sender_of: SenderOf) -> None:
        idle = all(link.under_way == 0 and link.blocked_until() <= now for link in attempt.links.values())
        for subtask in attempt.subtasks:
            for gate in getattr(subtask, "gates", ()):
                size = gate.debloater.last_announced
                known, since = self._announced.get(gate, (-1, now))
                if known != size:
                    self._announced[gate] = size, now
                elif idle and now > since + _ARRIVES_S and not subtask.ended:
                    self._compare(f"{subtask}", gate.remote_channels, size, sender_of)

    def _compare(
        self, name: str, channels: Iterable[RemoteInputChannel], size: int, sender_of: SenderOf
    ) -> None:
        for channel in channels:
            sender = None if channel.released else sender_of(channel)
            view: Any = None if sender is None else sender.view
            if view is not None and view.buffer_size != size:
                raise Broken(
                    f"{name} has announced buffers of {size} bytes on channel {channel.index}, "
                    f"and its producer goes by {view.buffer_size}"
                )

    def _check_buffers(self, attempt: Any, *, compares: bool) -> None:
        """A buffer is as large as was wanted when it was begun, or as the record in it.

        What was wanted may have changed since the last look, so the larger of both sizes counts.
        """
        for subtask in attempt.subtasks:
            for output in subtask.outputs:
                partition = output.partition
                for queue, builder in zip(partition.subpartitions, partition.open_buffers, strict=True):
                    before, known = self._seen.get(queue, (queue.buffer_size, None))
                    self._seen[queue] = queue.buffer_size, builder
                    if not compares or builder is None or builder is known:
                        continue
                    record = self._largest_record(subtask.name)
                    if builder.capacity > max(before, queue.buffer_size, record):
                        raise Broken(
                            f"has {subtask} writes a buffer of {builder.capacity} bytes, instead of the "
                            f"those of {queue.buffer_size} that are wanted and records have up to "
                            f"{record}"
                        )

    def _largest_record(self, vertex: str) -> int:
        """Bytes of the largest record that a vertex writes, with its length."""
        if not self._largest:
            flows = flows_of(self._case)
            self._largest = {
                name: _HEADER + max(map(len, flow.written.most), default=0) for name, flow in flows.items()
            }
        return self._largest[vertex]
