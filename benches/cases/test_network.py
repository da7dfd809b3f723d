"""The network cases of flink-benchmarks: numbers of 64 bits from writers to one reader over many channels.

The time is measured from the first record written to the last record read. A buffer that is not full is sent
at the buffer timeout, and the time includes this wait, as in Flink. With few records the wait is most of the
time. Flink sends 5 million records in each iteration. Here `RECORDS` are sent, since Python is slower.

The parameters are those of Flink: ``1000,1ms,SSL`` stands for 1000 channels, a buffer timeout of 1 ms, and
TLS. Each case runs in three ways: ``emulated`` predicts a Flink cluster in virtual time, ``process`` runs in
one process on the real clock, ``tcp`` between two processes over TCP. The emulation has no cost of
encryption, so cases with TLS are not emulated. The yardstick of ``process`` and ``tcp`` is the transfer of
the same bytes over plain sockets.

In the emulation each writer, and the reader of each channel, is a subtask of its own, and no subtask waits
for a core. In Flink's benchmark one thread reads all channels. So the emulated rate is the rate of a job of
this shape, not of a single reading thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

import pytest
import trio

from buffers import RecordBlock
from netstack import Agenda, Edge, GeneratorSpec, Job, NetworkConfig, Operator, Scenario, Vertex

from ..credit_transport import CreditTransport, PlainSockets
from ..exchange import RECORD_BYTES, Plan, between_processes, within_process
from ..harness import MS_PER_OP, OPS_PER_MS, Measure, Unit, Yardstick
from ..transport import BenchTransport, Shape, fresh_certificate

RECORDS = {100: 200_000, 1000: 100_000}
"""Number of records in an iteration, by the number of channels."""

EMULATED_RECORDS = {100: 200_000, 1000: 40_000}
"""Like `RECORDS`, for an emulated iteration; fewer for 1000 channels, because each buffer takes time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The records of a case, and the shape of the exchange that transfers them."""

    shape: Shape
    records: int
    emulated_records: int
    skewed: bool = False
    encrypted: bool = False
    unit: Unit = OPS_PER_MS
    rounds: int = 1
    """Multiplier for the number of rounds."""

    def operations(self, records: int) -> int:
        """Return the number of operations in an iteration of `records` records.

        If the score is a time, the whole iteration is one operation.
        """
        return records if self.unit.is_rate else 1


def throughput(parameter: str) -> Exchange:
    """Return the exchange for a parameter of networkThroughput, such as "1000,1ms,SSL"."""
    channels, timeout, *encryption = parameter.split(",")
    number = int(channels)
    return Exchange(
        shape=Shape(writers=4, channels=number, flush_s=int(timeout.removesuffix("ms")) / 1000),
        records=RECORDS[number],
        emulated_records=EMULATED_RECORDS[number],
        encrypted=bool(encryption),
    )


THROUGHPUTS = {
    f"{channels},{timeout}{encryption}": throughput(f"{channels},{timeout}{encryption}")
    for channels in (100, 1000)
    for timeout in ("1ms", "100ms")
    for encryption in ("", ",SSL")
}
LATENCY = Exchange(
    shape=Shape(writers=1, channels=1, flush_s=0.01),
    records=100,
    emulated_records=100,
    unit=MS_PER_OP,
    rounds=6,
)
SKEWED = Exchange(
    shape=Shape(writers=10, channels=1000, flush_s=0.001),
    records=200_000,
    emulated_records=50_000,
    skewed=True,
)
BROADCAST = Exchange(
    shape=Shape(writers=4, channels=100, flush_s=0.1, broadcast=True), records=10_000, emulated_records=4_000
)
WAYS = ("emulated", "process", "tcp")


@pytest.mark.parametrize(
    ("parameter", "way"),
    [
        (parameter, way)
        for parameter, exchange in THROUGHPUTS.items()
        for way in WAYS
        if not (exchange.encrypted and way == "emulated")
    ],
)
def test_networkThroughput(
    measure: Measure, transport: type[BenchTransport] | None, parameter: str, way: str
) -> None:
    measure_exchange(measure, THROUGHPUTS[parameter], way, transport)


@pytest.mark.parametrize("way", WAYS)
def test_networkLatency1to1(measure: Measure, transport: type[BenchTransport] | None, way: str) -> None:
    measure_exchange(measure, LATENCY, way, transport)


@pytest.mark.parametrize("way", WAYS)
def test_networkSkewedThroughput(measure: Measure, transport: type[BenchTransport] | None, way: str) -> None:
    measure_exchange(measure, SKEWED, way, transport)


@pytest.mark.parametrize("way", WAYS)
def test_networkBroadcastThroughput(
    measure: Measure, transport: type[BenchTransport] | None, way: str
) -> None:
    measure_exchange(measure, BROADCAST, way, transport)


def measure_exchange(
    measure: Measure, exchange: Exchange, way: str, transport: type[BenchTransport] | None
) -> None:
    """Measure an exchange in one of the three ways."""
    rounds = exchange.rounds * measure.rounds
    if way == "emulated":
        if transport is not None:
            pytest.skip("an emulated exchange takes no --transport")
        records = scaled(exchange.emulated_records, measure.scale, exchange.shape.writers)
        seeds = count(1)
        measure.iterations(
            lambda: seconds_emulated(exchange.shape, records, exchange.skewed, next(seeds)),
            exchange.unit,
            operations=exchange.operations(records),
            rounds=rounds,
        )
        return
    plan = Plan(
        transport=transport or CreditTransport,
        shape=replace(exchange.shape, certificate=fresh_certificate() if exchange.encrypted else None),
        records=scaled(exchange.records, measure.scale, exchange.shape.writers),
        skewed=exchange.skewed,
    )
    if way == "tcp" and not plan.transport.between_processes:
        pytest.skip(f"{plan.transport.name} has both ends in one process")
    opened = within_process if way == "process" else between_processes
    with opened(plan) as iterate, opened(replace(plan, transport=PlainSockets)) as compared:
        measure.iterations(
            iterate,
            exchange.unit,
            operations=exchange.operations(plan.records),
            yardstick=Yardstick(PlainSockets.name, compared),
            rounds=rounds,
            warmups=exchange.rounds,
        )


def scaled(records: int, scale: float, writers: int) -> int:
    """Return `records` times `scale`, rounded so that all writers have the same number, at least one."""
    return max(1, round(records * scale / writers)) * writers


PATIENCE_S = 60.0
"""Maximum emulated seconds until all records have arrived."""

_NOTHING = RecordBlock.from_payloads([])


class Arrivals(Operator):
    """Counts the records of all readers together and ends the run when the last one has arrived."""

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
        """Run a job until all records have arrived, or to its end."""
        with self._scope:
            await job.run()


def seconds_emulated(shape: Shape, records: int, skewed: bool, seed: int) -> float:
    """Return the emulated seconds from the start of the job until all records have been read.

    Raises:
        RuntimeError: not all records have arrived within `PATIENCE_S`.
    """
    agenda = Agenda()
    arrivals = Arrivals(agenda, records * (shape.channels if shape.broadcast else 1))
    job = Job(scenario_of(shape, records, skewed, seed, arrivals), agenda)
    trio.run(arrivals.run, job)
    if arrivals.last_at is None:
        raise RuntimeError(f"not all records have arrived within {PATIENCE_S:g} emulated seconds")
    return arrivals.last_at


def scenario_of(shape: Shape, records: int, skewed: bool, seed: int, arrivals: Operator) -> Scenario:
    """Return the job that emulates a network case."""
    each = records // shape.writers
    # The burst period is twice the run: all records are emitted at the start, and none later.
    period_s = 2 * PATIENCE_S
    source = GeneratorSpec(record_bytes=RECORD_BYTES, rates=(each / period_s,), burst_s=period_s)
    ship, shares = "rebalance", tuple[float, ...]()
    if shape.broadcast:
        ship = "broadcast"
    elif skewed:
        of_others = [1.0] * (shape.channels - 1)
        ship, shares = "hash", (max(1.0, each - shape.channels + 1.0), *of_others)
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
