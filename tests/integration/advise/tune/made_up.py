"""Runs of settings whose figures are made up, and the recommendation that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from integration.advise.sweeps.axes import Axis
from integration.advise.sweeps.point_rows import PointRow, failed_row
from integration.advise.sweeps.points import Point
from integration.advise.tune.advice import WORK, Advice, advise
from integration.advise.tune.choice import Constraints
from integration.advise.tune.recommend import Recommendation
from integration.advise.tune.settings import SETTING, Question
from integration.runs.window_figures import Measures
from netstack import Edge, GeneratorSpec, NetworkConfig, Scenario, Vertex

SCENARIO = Scenario(
    name="made-up",
    duration_s=60.0,
    warmup_s=20.0,
    vertices=(
        Vertex(name="source", source=GeneratorSpec(record_bytes=100)),
        Vertex(name="sink", service=((0.0, 0.001),)),
    ),
    edges=(Edge(source="source", target="sink"),),
    config=NetworkConfig(checkpoint_interval_s=20.0),
)

MeasuresOf = Callable[[str, int], Measures | None]
"""Function that makes up the figures of a setting with a seed; None: the run failed."""


def measures(
    time_ms: float | None, rate: float = 400.0, delay_ms: float | None = None, stored: float = 0.0
) -> Measures:
    """Figures of a run; by default records take as long as checkpoints."""
    delay_ms = time_ms if delay_ms is None else delay_ms
    return Measures(
        throughput_per_s=rate,
        start_delay_ms=time_ms,
        alignment_ms=0.0,
        end_to_end_ms=time_ms,
        end_to_end_p95_ms=time_ms,
        record_delay_ms=delay_ms,
        record_delay_p95_ms=delay_ms,
        in_flight_bytes=1e6,
        persisted_bytes=stored,
        checkpoints_completed=0 if time_ms is None else 10,
    )


def usual(name: str, seed: int) -> Measures:
    """Figures of a job whose checkpoints wait for queued data: shorter targets cost a little throughput."""
    time, rate = {
        "now": (6000.0, 400.0),
        "target 50 ms": (80.0, 380.0),
        "target 100 ms": (140.0, 392.0),
        "target 200 ms": (250.0, 396.0),
        "target 300 ms": (350.0, 399.0),
        "target 500 ms": (600.0, 400.0),
        "target 1 s": (1500.0, 400.0),
        "target 2 s": (3000.0, 400.0),
    }.get(name, (6000.0, 400.0))
    if name == "unaligned":
        return measures(40.0, delay_ms=6000.0, stored=2e6)
    if name.startswith("unaligned after"):
        return measures(1050.0, delay_ms=6000.0, stored=1.5e6)
    return measures(time + seed, rate)


class MadeUpRuns:
    """Runs points: keeps them, with why they were run, and makes up their rows."""

    def __init__(self, figures: MeasuresOf = usual, if_cpu_bound: MeasuresOf = usual) -> None:
        self.figures = figures
        self.if_cpu_bound = if_cpu_bound
        self.calls: list[tuple[str, list[Point]]] = []

    def __call__(self, points: Sequence[Point], why: str) -> list[PointRow]:
        self.calls.append((why, list(points)))
        return [self._row(point) for point in points]

    def _row(self, point: Point) -> PointRow:
        figures = self.if_cpu_bound if WORK in point.labels else self.figures
        found = figures(point.labels[SETTING], point.seed)
        if found is None:
            return failed_row(point, "out of luck")
        return PointRow(
            key=point.key,
            name=point.name,
            labels=point.labels,
            seed=point.seed,
            probe=point.probe,
            status="finished",
            wall_seconds=0.1,
            versions={"netstack": "0.1.0"},
            measures=found,
        )

    def seeds(self, name: str) -> list[int]:
        """The seeds that a setting was run with, steps of the load left out."""
        points = [point for _, points in self.calls for point in points if point.probe == "main"]
        return [point.seed for point in points if point.labels[SETTING] == name]


def advice(
    figures: MeasuresOf | MadeUpRuns = usual,
    scenario: Scenario = SCENARIO,
    question: Question | None = None,
    axes: Sequence[Axis] = (),
    if_cpu_bound: Scenario | None = None,
    **limits: float,
) -> Advice:
    """What is advised for made-up figures."""
    run = figures if isinstance(figures, MadeUpRuns) else MadeUpRuns(figures)
    asked = Question(constraints=Constraints(**limits)) if question is None else question
    return advise(scenario, run, asked, axes, if_cpu_bound=if_cpu_bound)


def recommendation(
    figures: MeasuresOf | MadeUpRuns = usual, scenario: Scenario = SCENARIO, **limits: float
) -> Recommendation:
    """The recommendation for made-up figures."""
    (found,) = advice(figures, scenario, **limits).recommendations
    return found
