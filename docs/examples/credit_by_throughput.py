"""A change of the protocol: floating buffers in proportion to throughput, where Flink uses the backlog.

Flink's receiver borrows floating buffers for whatever its sender has waiting, so the channel whose sender is
held up most gets most of them. Here a channel borrows at most its share of the buffers that came last on its
gate. ``python docs/examples/credit_by_throughput.py [NAME ...]`` in a checkout emulates scenarios of
``tests/data/flink-reference`` and ``tests/flink/scenarios`` both ways, and prints what became of them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from buffers import ChannelBuffers, LocalBufferPool, MemorySegment
from integration import load_scenario
from netstack import Result, Scenario, emulate
from netstack.exchange import remote_channel

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "tests/data/flink-reference", ROOT / "tests/flink/scenarios")
NAMES = (
    "2x2_200KBs_off",
    "2x2_200KBs_on1s",
    "2x2_1MBs_on100ms",
    "4x4_1MBs_skewed_sources",
    "4x4_1MBs_skewed_consumers_off",
    "4x4_1MBs_hash_on100ms",
    "2x2x2_1MBs_depth2_off",
    "hot_source_on200ms",
    "two_inputs_by_key_on500ms",
)
SEEDS = (1, 2, 3)

REMEMBERED = 32
"""Buffers of each channel, on average, after which half of what was counted is forgotten."""


class Arrivals:
    """The buffers that came on the channels of one gate, the older ones counting less."""

    def __init__(self) -> None:
        self._counts = Counter[ChannelBuffers]()

    def join(self, channel: ChannelBuffers) -> None:
        """Count this channel too, as if as much had come on it as on any other so far."""
        self._counts[channel] = max(self._counts.values(), default=1)

    def add(self, channel: ChannelBuffers) -> None:
        """A buffer has come."""
        self._counts[channel] += 1
        if self._counts.total() > REMEMBERED * len(self._counts):
            for each in self._counts:
                self._counts[each] //= 2

    def share(self, channel: ChannelBuffers) -> float:
        """The channel's part of what came, 0 to 1."""
        return self._counts[channel] / max(1, self._counts.total())


class BuffersByThroughput(ChannelBuffers):
    """Buffers of a channel that borrows by its share of the arrivals, and not more than its sender needs.

    `required` stays what the sender needs, since debloating counts by it; `wanted` is how many it may have.
    """

    __slots__ = ("_arrivals",)

    gates: dict[LocalBufferPool, Arrivals]
    """The arrivals of each gate, by its floating buffers."""

    def __init__(
        self, exclusive: Sequence[MemorySegment], pool: LocalBufferPool, *more: Any, **named: Any
    ) -> None:
        super().__init__(exclusive, pool, *more, **named)
        self._arrivals = self.gates.setdefault(pool, Arrivals())
        self._arrivals.join(self)

    @property
    def wanted(self) -> int:
        """Free buffers that it borrows up to."""
        floating = round(self.pool.maximum * self._arrivals.share(self))
        return min(self.required, self.exclusive_total + floating)

    def take(self) -> tuple[MemorySegment, ChannelBuffers | LocalBufferPool] | None:
        """Data has come."""
        self._arrivals.add(self)
        return super().take()

    def _borrow(self) -> int:
        required, self.required = self.required, self.wanted
        borrowed = super()._borrow()
        self.required = required
        return borrowed

    def buffer_available(self, segment: MemorySegment) -> bool:
        """Its turn in the pool's line has come."""
        required, self.required = self.required, self.wanted
        taken = super().buffer_available(segment)
        self.required = required
        return taken

    def recycle(self, segment: MemorySegment, subpartition: int = -1) -> None:
        """Take an exclusive segment back; a floating one beyond what it may have leaves for it."""
        required, self.required = self.required, self.wanted
        super().recycle(segment, subpartition)
        self.required = required


@contextmanager
def credit_by_throughput() -> Iterator[None]:
    """Let the channels of all jobs in the block grant credit so."""
    usual = remote_channel.ChannelBuffers
    BuffersByThroughput.gates = {}
    remote_channel.ChannelBuffers = BuffersByThroughput  # type: ignore[misc]
    try:
        yield
    finally:
        remote_channel.ChannelBuffers = usual  # type: ignore[misc]


class Figures(NamedTuple):
    """Medians over seeds; of the last window."""

    end_to_end_ms: float
    start_delay_ms: float
    records_per_s: float


def figures_of(results: Sequence[Result]) -> Figures:
    """Mean figures of runs of one scenario."""
    scenario = results[0].scenario
    last = [place for place, vertex in enumerate(scenario.vertices) if not scenario.outputs(vertex)]
    blocks = [result.steady[-1] for result in results]
    return Figures(
        median(block.end_to_end_ms or 0.0 for block in blocks),
        median(max(block.vertices[place].start_delay_ms or 0.0 for place in last) for block in blocks),
        median(
            sum(rate or 0.0 for place in last for rate in block.vertices[place].records_in_per_s)
            for block in blocks
        ),
    )


def both_ways(scenario: Scenario, seeds: Sequence[int] = SEEDS) -> tuple[Figures, Figures]:
    """Run a scenario with credit by the backlog, as in Flink, and by throughput."""
    usual = figures_of([emulate(scenario, seed=seed) for seed in seeds])
    with credit_by_throughput():
        return usual, figures_of([emulate(scenario, seed=seed) for seed in seeds])


def scenario_named(name: str) -> Scenario:
    """The scenario of that name in one of the folders."""
    return load_scenario(next(file for folder in FOLDERS if (file := folder / f"{name}.toml").exists()))


def main(names: Sequence[str]) -> None:
    """Print a table."""
    print(
        "| scenario | end to end, ms | by throughput | start delay, ms | by throughput"
        " | records/s | by throughput |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in names:
        usual, ours = both_ways(scenario_named(name))
        pairs = zip(usual, ours, strict=True)
        print(f"| {name} | {' | '.join(f'{one:.0f} | {other:.0f}' for one, other in pairs)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or NAMES)
