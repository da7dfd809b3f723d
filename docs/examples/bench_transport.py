"""A transport of your own in the benchmarks: here the memory channels of trio, within one process.

Run it in a checkout::

    pytest benches -k "networkThroughput and process" --transport docs.examples.bench_transport:MemoryChannels
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from benches.transport import BenchTransport, Shape
from buffers import RecordBlock

ROOM = 16
"""Blocks that may wait; then writers do."""


class MemoryChannels(BenchTransport):
    """Hands over blocks of records as they are: nothing is copied, and all channels are one."""

    name = "memory channels"
    between_processes = False

    def __init__(self, shape: Shape, nursery: trio.Nursery) -> None:
        super().__init__(shape, nursery)
        self._send, self._receive = trio.open_memory_channel[int](ROOM)

    async def listen(self) -> str:
        """There is no address."""
        return ""

    async def connect(self, address: str) -> None:
        """Both ends are there already."""

    async def write(self, writer: int, block: RecordBlock, channels: Sequence[int]) -> None:
        """Hand over how many records there are."""
        copies = self.shape.channels if self.shape.broadcast else 1
        await self._send.send(copies * len(block))

    async def read(self) -> int:
        """Take the next block."""
        return await self._receive.receive()
