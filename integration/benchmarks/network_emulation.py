"""A network case in emulated time: what the model of a Flink cluster says of the same exchange.

Every writer and every channel's reader is a subtask of its own, and none waits for a core; in Flink's
benchmark all channels are read by one thread. So this is the rate of a job of that shape, and not of that one
thread.
"""

from __future__ import annotations

import trio

from buffers import RecordBlock
from netstack import (
    Agenda,
    Edge,
    GeneratorSpec,
    Job,
    NetworkConfig,
    Operator,
    Scenario,
    Vertex,
)

from .bench_errors import BenchmarkError
from .bench_transport import Shape
from .exchange_runs import RECORD_BYTES

PATIENCE_S = 60.0
"""Emulated seconds in which all records have to arrive."""

_NOTHING = RecordBlock.from_payloads([])


class Arrivals(Operator):
    """Counts records, of all readers together, and ends the run when the last one has come."""

    def __init__(self, agenda: Agenda, expected: int) -> None:
        self._agenda = agenda
        self._left = expected
        self._scope = trio.CancelScope()
        self.last_at: float | None = None

    def process(self, block: RecordBlock) -> RecordBlock:
        """Count the records of a block."""
        self._left -= len(block)
        if self._left <= 0 and self.last_at is None:
            self.last_at = self._agenda.now
            self._scope.cancel()
        return _NOTHING

    async def run(self, job: Job) -> None:
        """Run a job until then, or to its end."""
        with self._scope:
            await job.run()


def seconds_emulated(shape: Shape, records: int, skewed: bool, seed: int) -> float:
    """Return the emulated seconds from the start of the job until all records have been read.

    Raises:
        BenchmarkError: they have not arrived within `PATIENCE_S`.
    """
    agenda = Agenda()
    arrivals = Arrivals(agenda, records * (shape.channels if shape.broadcast else 1))
    job = Job(scenario_of(shape, records, skewed, seed, arrivals), agenda)
    trio.run(arrivals.run, job)
    if arrivals.last_at is None:
        raise BenchmarkError(f"not all records have arrived within {PATIENCE_S:g} emulated seconds")
    return arrivals.last_at


def scenario_of(shape: Shape, records: int, skewed: bool, seed: int, arrivals: Operator) -> Scenario:
    """Return the job of a network case."""
    each = records // shape.writers
    # One burst that would have to do for twice the run: all records at its start, and none later.
    period_s = 2 * PATIENCE_S
    source = GeneratorSpec(record_bytes=RECORD_BYTES, rates=(each / period_s,), burst_s=period_s)
    ship, shares = "rebalance", tuple[float, ...]()
    if shape.broadcast:
        ship = "broadcast"
    elif skewed:
        ship, shares = "hash", (max(1.0, each - shape.channels + 1.0),) + (1.0,) * (shape.channels - 1)
    return Scenario(
        name="benchmark",
        duration_s=PATIENCE_S,
        seed=seed,
        config=NetworkConfig(buffer_timeout_interval_s=shape.flush_s),
        vertices=(
            Vertex(name="writer", parallelism=shape.writers, source=source),
            Vertex(name="reader", parallelism=shape.channels, operator=lambda subtask: arrivals),
        ),
        edges=(Edge(source="writer", target="reader", ship=ship, shares=shares),),
    )
