"""Scenarios for comparing debloating policies: steady loads, and loads that are hard for FLIP-183."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from netstack import (
    Edge,
    FlatMap,
    GeneratorSpec,
    NetworkConfig,
    Scenario,
    Vertex,
)

RECORD_BYTES = 1013
SINK = "stage1"
MS = 0.001


@dataclass(frozen=True)
class Pulses:
    """Factory of operators that forward only the last `on` records of every `cycle` records."""

    on: int
    cycle: int

    def __call__(self, subtask: int) -> FlatMap:
        """Return the operator of one subtask, which has its own count."""
        count = 0

        def passing(record: bytes) -> Iterable[bytes]:
            nonlocal count
            count += 1
            return (record,) if (count - 1) % self.cycle >= self.cycle - self.on else ()

        return FlatMap(passing)


def source(parallelism: int, *rates: float, name: str = "source", record_bytes: int = RECORD_BYTES) -> Vertex:
    """Return a source with the records per second of each subtask; without `rates`, as fast as possible."""
    spec = GeneratorSpec(record_bytes=record_bytes, rates=rates or (0.0,))
    return Vertex(name=name, parallelism=parallelism, source=spec)


def sink(
    parallelism: int, *service_ms: float | tuple[float, float], skew: tuple[float, ...] = (1.0,)
) -> Vertex:
    """Return a consumer. `service_ms` is the ms for a record, or steps (time in s, ms for a record)."""
    steps = [step if isinstance(step, tuple) else (0.0, step) for step in service_ms]
    service = tuple((at, cost * MS) for at, cost in steps)
    return Vertex(name=SINK, parallelism=parallelism, service=service, service_skew=skew)


def job(
    name: str,
    target_s: float,
    *vertices: Vertex,
    ship: str = "rebalance",
    duration_s: float = 46.0,
    warmup_s: float = 16.0,
    interval_s: float = 2.0,
    unaligned: bool = False,
) -> Scenario:
    """Return a job with the debloat target `target_s`: sources that all send to the last of `vertices`."""
    config = NetworkConfig(
        debloat_enabled=True,
        debloat_target_s=target_s,
        checkpoint_interval_s=interval_s,
        unaligned_enabled=unaligned,
    )
    edges = tuple(Edge(source=vertex.name, target=SINK, ship=ship) for vertex in vertices[:-1])
    return Scenario(
        name=name, duration_s=duration_s, warmup_s=warmup_s, config=config, vertices=vertices, edges=edges
    )


def chain(scenario: Scenario, middle: Vertex, ship: str = "rebalance") -> Scenario:
    """Return the job with a vertex inserted between its source and its sink."""
    first, last = scenario.vertices[0], scenario.vertices[-1]
    edges = (
        Edge(source=first.name, target=middle.name, ship=ship),
        Edge(source=middle.name, target=SINK),
    )
    return replace(scenario, vertices=(first, middle, last), edges=edges)


@dataclass(frozen=True)
class Case:
    """A scenario, its description, and the windows after each change of the load, in seconds."""

    about: str
    scenario: Scenario
    changes: tuple[tuple[float, float], ...] = ()


_FILTER = Vertex(name="filter", parallelism=2, operator=Pulses(on=4000, cycle=16000))
_STAGE = Vertex(name="middle", parallelism=2)
_STEPS = ((0.0, 0.5), (30.0, 5.0), (55.0, 0.5))
_BURSTS = [
    (0.0, 0.2),
    *((at + shift, cost) for at in (10.0, 20.0, 30.0, 40.0) for shift, cost in ((0, 5.0), (4, 0.2))),
]

CASES = (
    Case(
        "two consumers of 200 KB/s, checkpoints back to back",
        job("steady-1s", 1.0, source(2), sink(2, 5.0), duration_s=60.0),
    ),
    Case(
        "two consumers of 200 KB/s, a checkpoint every 10 s",
        job("steady-1s-rare", 1.0, source(2), sink(2, 5.0), duration_s=90.0, interval_s=10.0),
    ),
    Case("two consumers of 1 MB/s", job("steady-100ms", 0.1, source(2), sink(2, 1.0))),
    Case(
        "two consumers of 1 MB/s, unaligned checkpoints",
        job("unaligned-100ms", 0.1, source(2), sink(2, 1.0), unaligned=True),
    ),
    Case("8 producers, 8 consumers of 500 KB/s", job("8x8-300ms", 0.3, source(8), sink(8, 2.0))),
    Case("a stage between source and sink", chain(job("depth2-200ms", 0.2, source(2), sink(2, 1.0)), _STAGE)),
    Case(
        "4 producers distribute records by hash to 4 consumers of 1 MB/s",
        job("hash-100ms", 0.1, source(4), sink(4, 1.0), ship="hash"),
    ),
    Case(
        "sources emit half of what consumers can read",
        job("unsaturated-100ms", 0.1, source(2, 500.0), sink(2, 1.0)),
    ),
    Case(
        "records of 100 B; a consumer takes 50 ms for each",
        job("minimum-1s", 1.0, source(2, record_bytes=100), sink(2, 50.0)),
    ),
    Case(
        "two of four producers send 100 records/s each, the others as fast as possible",
        job("skewed-sources-100ms", 0.1, source(4, 0.0, 0.0, 100.0, 100.0), sink(4, 1.0)),
    ),
    Case(
        "one producer is ten times as fast as the other three",
        job("hot-source-200ms", 0.2, source(4, 400.0, 400.0, 400.0, 4000.0), sink(4, 1.0)),
    ),
    Case(
        "one consumer is four times as slow as the others",
        job("skewed-consumers-100ms", 0.1, source(4), sink(4, 1.0, skew=(1.0, 1.0, 1.0, 4.0))),
    ),
    Case(
        "two inputs; each source subtask of the second sends 20 records/s",
        job("slow-input-1s", 1.0, source(2, name="fast"), source(2, 20.0, name="slow"), sink(2, 2.0)),
    ),
    Case(
        "consumers become 10 times as slow at 30 s, and fast again at 55 s",
        job("step-200ms", 0.2, source(2), sink(2, *_STEPS), duration_s=75.0, warmup_s=10.0, interval_s=1.0),
        ((30.0, 55.0), (55.0, 75.0)),
    ),
    Case(
        "consumers are 25 times as slow for 4 s of every 10 s",
        job(
            "slow-spells-200ms",
            0.2,
            source(2, 1000.0),
            sink(2, *_BURSTS),
            duration_s=50.0,
            warmup_s=9.0,
            interval_s=0.5,
        ),
        tuple((at, at + 4.0) for at in (10.0, 20.0, 30.0, 40.0)),
    ),
    Case(
        "no records for 6 s; then each consumer gets 4,000 records, at twice the rate at which it can read",
        chain(
            job("bursts-100ms", 0.1, source(2, 2000.0), sink(2, 1.0), duration_s=64.0, interval_s=1.0),
            _FILTER,
            ship="forward",
        ),
    ),
)
