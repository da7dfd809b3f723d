"""The two runs that a report of a tuning draws over time."""

from __future__ import annotations

import msgspec

from integration.tuning.advice import advise
from integration.tuning.point_runs import run_point
from integration.tuning.recommend import Recommendation
from integration.tuning.settings import Mechanism, Question
from integration.tuning.shown_runs import runs_to_show
from netstack import Edge, GeneratorSpec, NetworkConfig, Scenario, Vertex

JOB = Scenario(
    name="job",
    duration_s=4.0,
    config=NetworkConfig(checkpoint_interval_s=0.5),
    vertices=(
        Vertex(name="source", source=GeneratorSpec(record_bytes=1000)),
        Vertex(name="slow", service=((0.0, 0.002),)),
    ),
    edges=(Edge(source="source", target="slow"),),
)


def test_the_present_and_the_chosen_setting_are_run_again_with_their_series() -> None:
    question = Question(targets_s=[0.1], only=(Mechanism.DEBLOATING,))
    advice = advise(JOB, lambda points, why: list(map(run_point, points)), question, most_seeds=1)
    (found,) = advice.recommendations
    assert found.chosen == "target 100 ms"
    shown = runs_to_show(found, advice.rows, JOB)
    assert list(shown) == ["now (debloating off)", "target 100 ms"]
    assert all(run.series and run.seed == JOB.seed for run in shown.values())
    assert [run.scenario.config.debloat_enabled for run in shown.values()] == [False, True]
    staying = runs_to_show(replace_chosen(found), advice.rows, JOB)
    assert list(staying) == list(shown), "where nothing changes, the fastest other setting is drawn"


def replace_chosen(found: Recommendation) -> Recommendation:
    return msgspec.structs.replace(found, verdict="keep", chosen="now")
