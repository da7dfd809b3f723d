"""A transport of one's choice in the benchmarks: here trio's memory channels, within one process.

Run it with ``python docs/examples/bench_transport.py``, or, in that folder, through the command line::

    netstack bench networkThroughput --transport bench_transport:MemoryChannels --way process
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from buffers import RecordBlock
from integration import BenchTransport, Effort, Shape, chosen_points, run_point

ROOM = 16
"""Blocks that may wait; then writers do."""


class MemoryChannels(BenchTransport):
    """Hands over blocks of records as they are: nothing is copied, and no channel is told from another."""

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


def main(scale: float = 1.0) -> None:
    """Print what it comes to, beside plain sockets."""
    effort = Effort(forks=1, warmups=1, repetitions=3, scale=scale)
    for point in chosen_points(["networkThroughput"], ["100,100ms"], ["process"]):
        result = run_point(point, effort, MemoryChannels)
        score = f"{result.interval.mean:,.0f} {result.unit}"
        print(f"{result.name}: {score}, {result.ratio:.1f} of {result.yardstick}")


if __name__ == "__main__":
    main()
