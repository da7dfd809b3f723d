"""A forecast whose figures are made up, and a short restart drill that ran."""

from __future__ import annotations

from functools import cache

from integration.advise.diagnose.headroom import Bottleneck, Headroom
from integration.advise.forecast.forecast import Forecast
from integration.advise.forecast.load_figures import Curve, LoadFigures
from integration.advise.forecast.scaling import Scaling
from integration.advise.sweeps.restart_drill import EndOnceCaughtUp, drill_of, drill_scenario
from netstack import Edge, GeneratorSpec, NetworkConfig, Result, Scenario, Vertex, emulate
from tests.integration.advise.tune import made_up

TARGET = "target 300 ms"

SCENARIO = Scenario(
    name="paced",
    duration_s=30.0,
    warmup_s=2.0,
    vertices=(
        Vertex(name="source", source=GeneratorSpec(record_bytes=10_000, rates=(40.0,))),
        Vertex(name="sink", service=((0.0, 0.0125),)),
    ),
    edges=(Edge(source="source", target="sink"),),
    config=NetworkConfig(checkpoint_interval_s=2.0),
)
"""A job that is busy for half of the time."""


def headroom(limit: float = 2.0, *, is_bounded: bool = True) -> Headroom:
    """A limit of the sink."""
    bottleneck = Bottleneck(vertex="sink", subtask=0, busy_share=1.0)
    return Headroom(limit=limit, at_least=limit, bottleneck=bottleneck, is_bounded=is_bounded)


def point(load: float, checkpoint_ms: float | None, limit: float) -> LoadFigures:
    """Figures at a load: 40 records per second and a delay of 50 ms for each unit of load."""
    keeps_up = load < limit
    return LoadFigures(
        load=load,
        keeps_up=keeps_up,
        throughput_per_s=40.0 * min(load, limit),
        checkpoint_ms=checkpoint_ms,
        checkpoint_p95_ms=None if checkpoint_ms is None else 1.1 * checkpoint_ms,
        checkpoint_max_ms=None if checkpoint_ms is None else 1.2 * checkpoint_ms,
        record_delay_ms=50.0 * load,
        in_flight_bytes=1e4 * load,
        persisted_bytes=0.0,
        checkpoints_expired=0,
        busiest=Bottleneck(vertex="sink", subtask=0, busy_share=min(1.0, load / limit)),
    )


def curve(setting: str, at_limit_ms: float, limit: float = 2.0) -> Curve:
    """A job whose checkpoints take 100 ms for each unit of load, and `at_limit_ms` at its limit."""
    points = [point(load, 100.0 * load, limit) for load in (0.5, 1.0, 1.8)]
    points += [point(load, at_limit_ms, limit) for load in (limit, 3.0)]
    return Curve(setting=setting, headroom=headroom(limit), points=points)


@cache
def drill(down_s: float = 10.0) -> Result:
    """The result of a short outage, with its series."""
    scenario = drill_scenario(SCENARIO, down_s, headroom().limit)
    return emulate(scenario, end_of_run=EndOnceCaughtUp(scenario))


def drills() -> dict[str, Result]:
    """The results of the drills, by setting; both settings ran in the same way."""
    return {"now": drill(), TARGET: drill()}


@cache
def forecast() -> Forecast:
    """A forecast with two settings, a restart drill of each, and one more subtask."""
    return Forecast(
        scenario=SCENARIO.name,
        recommendation=made_up.recommendation(),
        curves=[curve("now", 5000.0), curve(TARGET, 400.0, 2.04)],
        restarts=[drill_of(name, result) for name, result in drills().items()],
        scaling=Scaling(
            vertex="sink",
            parallelism=1,
            limit=3.5,
            before=2.04,
            limiting="source",
            checkpoint_ms=60.0,
            slots=1,
            slots_after=2,
            memory_bytes=1 << 20,
            memory_bytes_after=3 << 20,
            autoscaler=1,
            has_shares=True,
        ),
    )
