"""The network cases of flink-benchmarks: numbers of 64 bits from writers to one reader over many channels.

The time goes from the first record written to the last one read. What is not full leaves when the buffer
timeout is over, and Flink's time has that in it, too: with few records it is most of it. Flink sends 5
million records in each invocation; how many are sent here stands in `RECORDS`, since Python is slower.

A parameter is Flink's: ``1000,1ms,SSL`` is 1000 channels, a buffer timeout of 1 ms, and TLS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from .bench_case import MS_PER_OP, OPS_PER_MS, Case, Course, Effort, Opening, Trial, Unit, Way
from .bench_transport import Shape
from .certificates import fresh_certificate
from .credit_transport import CreditTransport
from .exchange_runs import Plan, between_processes, within_process
from .network_emulation import seconds_emulated
from .plain_sockets import PlainSockets

RECORDS = {100: 200_000, 1000: 100_000}
"""Records of an iteration, by the number of channels."""

EMULATED_RECORDS = {100: 200_000, 1000: 40_000}
"""The same in emulated time, in which every buffer takes time of this machine as well."""

LATENCY_RECORDS = 100
SOCKETS = "plain sockets"
NO_TLS = "the model has no cost of encryption"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What a case sends over which shape."""

    shape: Shape
    records: int
    emulated_records: int
    skewed: bool = False
    encrypted: bool = False
    per_iteration: bool = False
    """Whether an operation is a whole iteration, and not a record."""

    def plan(self, opening: Opening) -> Plan:
        """What to run on the real clock; a certificate is made where one is needed."""
        shape = replace(self.shape, certificate=fresh_certificate() if self.encrypted else None)
        return Plan(
            transport=opening.transport or CreditTransport,
            shape=shape,
            records=scaled(self.records, opening.scale, shape.writers),
            skewed=self.skewed,
        )

    def operations(self, records: int) -> int:
        """How many operations so many records are."""
        return 1 if self.per_iteration else records


def scaled(records: int, scale: float, writers: int) -> int:
    """Return so many records, times `scale`, that all writers have as many, and at least one."""
    return max(1, round(records * scale / writers)) * writers


def parse(parameter: str) -> Exchange:
    """Return what a parameter of networkThroughput says."""
    channels, timeout, *encryption = parameter.split(",")
    number = int(channels)
    return Exchange(
        shape=Shape(writers=4, channels=number, flush_s=int(timeout.removesuffix("ms")) / 1000),
        records=RECORDS[number],
        emulated_records=EMULATED_RECORDS[number],
        encrypted=bool(encryption),
    )


LATENCY = Exchange(
    shape=Shape(writers=1, channels=1, flush_s=0.01),
    records=LATENCY_RECORDS,
    emulated_records=LATENCY_RECORDS,
    per_iteration=True,
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


@contextmanager
def _opened(exchanges: dict[str, Exchange], way: Way, opening: Opening) -> Iterator[Trial]:
    """A trial on the real clock, with plain sockets that move the same bytes in the same way beside it."""
    exchange = exchanges[opening.parameter]
    plan = exchange.plan(opening)
    run = within_process if way is Way.PROCESS else between_processes
    with run(plan) as iterate, run(replace(plan, transport=PlainSockets)) as compare:
        yield Trial(iterate=iterate, operations=exchange.operations(plan.records), yardstick=compare)


@contextmanager
def _emulated(exchanges: dict[str, Exchange], opening: Opening) -> Iterator[Trial]:
    exchange = exchanges[opening.parameter]
    records = scaled(exchange.emulated_records, opening.scale, exchange.shape.writers)
    seeds = count(1)
    yield Trial(
        iterate=lambda: seconds_emulated(exchange.shape, records, exchange.skewed, next(seeds)),
        operations=exchange.operations(records),
    )


def _network_case(
    name: str, what: str, exchanges: dict[str, Exchange], unit: Unit, iteration_s: float, effort: Effort
) -> Case:
    real = {
        way: Course(
            open=partial(_opened, exchanges, way), effort=effort, yardstick=SOCKETS, iteration_s=iteration_s
        )
        for way in (Way.PROCESS, Way.TCP)
    }
    emulated = Course(
        open=partial(_emulated, exchanges),
        effort=Effort(forks=1, warmups=0, repetitions=20 if unit is MS_PER_OP else 3),
        iteration_s=5 * iteration_s,
    )
    return Case(
        name=name,
        what=what,
        unit=unit,
        parameters=tuple(exchanges),
        courses={Way.EMULATED: emulated, **real},
        absent={},
        takes_transport=True,
        excluded={(name, Way.EMULATED): NO_TLS for name, exchange in exchanges.items() if exchange.encrypted},
    )


THROUGHPUT = Effort(forks=2, warmups=1, repetitions=3)
THROUGHPUTS = (
    "100,1ms",
    "100,1ms,SSL",
    "100,100ms",
    "100,100ms,SSL",
    "1000,1ms",
    "1000,1ms,SSL",
    "1000,100ms",
    "1000,100ms,SSL",
)

CASES = (
    _network_case(
        "networkThroughput",
        "a record from 4 writers, dealt out in turns",
        {parameter: parse(parameter) for parameter in THROUGHPUTS},
        OPS_PER_MS,
        1.0,
        THROUGHPUT,
    ),
    _network_case(
        "networkLatency1to1",
        "100 records over one channel, flushed after 10 ms",
        {"": LATENCY},
        MS_PER_OP,
        0.02,
        Effort(forks=2, warmups=10, repetitions=30),
    ),
    _network_case(
        "networkSkewedThroughput",
        "a record from 10 writers, nearly all to one of 1000 channels",
        {"": SKEWED},
        OPS_PER_MS,
        1.0,
        THROUGHPUT,
    ),
    _network_case(
        "networkBroadcastThroughput",
        "a record from 4 writers to all of 100 channels",
        {"": BROADCAST},
        OPS_PER_MS,
        1.0,
        THROUGHPUT,
    ),
)
