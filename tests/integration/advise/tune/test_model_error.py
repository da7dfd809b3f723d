"""The known error of the emulation: by the kind of a job, and as its present setting shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.advise.sweeps.confidence import Estimate
from integration.advise.tune.advice import advise
from integration.advise.tune.model_error import ModelError, model_error, with_measured
from integration.advise.tune.settings import NOW
from integration.runs.window_figures import Measures
from netstack import Edge, GeneratorSpec, Scenario, Vertex

from .made_up import SCENARIO, MadeUpRuns, measures, recommendation, usual

SOURCE, SINK = SCENARIO.vertices
ONE_RUN = Estimate(1000.0, None, None, 1, 1)


def with_sink(**fields: object) -> Scenario:
    return replace(SCENARIO, vertices=(SOURCE, replace(SINK, **fields)))  # type: ignore[arg-type]


OF_JOIN = replace(
    SCENARIO,
    vertices=(*SCENARIO.vertices, Vertex(name="other", source=GeneratorSpec(record_bytes=100))),
    edges=(
        Edge(source="source", target="sink", ship="hash", input=0),
        Edge(source="other", target="sink", ship="hash", input=1),
    ),
)
LARGE = replace(SCENARIO, vertices=(replace(SOURCE, source=GeneratorSpec(record_bytes=40_000)), SINK))


@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        (SCENARIO, None),
        (with_sink(emit_every_s=2.0), "its windows fire at once"),
        (with_sink(service_mode="burn"), "its work is CPU-bound"),
        (OF_JOIN, "the cost of its join may change"),
        (LARGE, "its records are larger than a buffer"),
    ],
)
def test_the_kind_of_a_job_gives_its_error(scenario: Scenario, why: str | None) -> None:
    assert model_error(scenario).why == why


def test_a_job_of_several_kinds_has_the_greatest_error_of_each() -> None:
    both = model_error(replace(LARGE, vertices=(LARGE.vertices[0], replace(SINK, service_mode="burn"))))
    large, burning = model_error(LARGE), model_error(with_sink(service_mode="burn"))
    assert both.why == f"{large.why}, and {burning.why}"
    assert (both.least, both.most, both.more_ms) == (burning.least, burning.most, burning.more_ms)
    assert both.lost == max(large.lost, burning.lost)


@given(st.floats(0, 1e4), st.floats(0, 1e3), st.floats(0, 1e3))
def test_a_band_holds_the_interval_over_seeds_and_the_error(mean: float, below: float, above: float) -> None:
    interval = Estimate(mean, max(0.0, mean - below), mean + above, 5, 5)
    band, without = ModelError().of_time(interval), ModelError().of_time(Estimate(mean, None, None, 1, 1))
    assert 0 <= band.low <= min(interval.least, without.low) + 1e-9
    assert band.high >= max(interval.greatest, without.high) - 1e-9


def test_the_present_setting_may_show_a_greater_error() -> None:
    assert with_measured(ModelError(), [1050.0], 1000.0) == ModelError()
    assert with_measured(ModelError(), [], 1000.0) == ModelError()
    assert with_measured(ModelError(), [30.0], 20.0) == ModelError(), "short times differ by little"
    assert with_measured(ModelError(), [900.0, 2100.0], 1000.0) == ModelError(), "in the range of the times"
    slower = with_measured(ModelError(), [1500.0], 1000.0)
    assert slower.why is not None
    assert slower.of_time(ONE_RUN) == pytest.approx((900.0, 1500.0))
    assert with_measured(ModelError(), [500.0], 1000.0).of_time(ONE_RUN) == pytest.approx((500.0, 1100.0))
    assert with_measured(ModelError(), [500.0], None).why is not None, "no emulated checkpoint completes"


def test_the_advice_has_the_band_only_if_it_is_wider_than_usual() -> None:
    assert not any("expect" in sentence for sentence in recommendation().words)
    burning = recommendation(scenario=with_sink(service_mode="burn"))
    assert burning.words[1] == (
        "This is less certain than usual, since its work is CPU-bound: expect checkpoints of 481 ms to 722 "
        "ms, and 94 to 103 % of the present throughput."
    )
    (other,) = advise(SCENARIO, MadeUpRuns(), measured_ms=[9000.0]).recommendations
    assert other.error.most == pytest.approx(1.5, rel=0.01)
    assert other.words[1].startswith("This is less certain than usual, since the emulated checkpoints")


def close(name: str, seed: int) -> Measures:
    """The best target loses almost as much throughput as is allowed; a longer one is nearly as good."""
    if name == "target 100 ms":
        return measures(100.0, rate=382.0)
    return measures(2600.0) if name == "target 1 s" else measures(6000.0)


def test_a_setting_that_keeps_to_the_limits_even_with_the_error_comes_first() -> None:
    assert recommendation(close, min_throughput=0.9).chosen == "target 100 ms"
    assert recommendation(close, min_throughput=0.95).chosen == "target 1 s"
    alone = recommendation(lambda name, seed: close(name, seed) if name != "target 1 s" else close(NOW, seed))
    assert alone.chosen == "target 100 ms", "no other gains anything"
    assert recommendation(usual).chosen == "target 500 ms"
