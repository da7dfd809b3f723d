"""The way from a job to advice, by runs whose figures are made up: which settings run, and how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from integration.advise.sweeps.axes import option_axes
from integration.advise.sweeps.point_runs import run_point
from integration.advise.sweeps.points import point_of
from integration.advise.tune.advice import MOST_SEEDS, advise
from integration.advise.tune.charted_runs import runs_to_show
from integration.advise.tune.choice import Constraints
from integration.advise.tune.race import Race
from integration.advise.tune.recommend import Recommendation
from integration.advise.tune.settings import NOW, SETTING, Mechanism, Question, first_settings
from integration.runs.window_figures import Measures
from netstack import Edge, GeneratorSpec, InputError, NetworkConfig, Scenario, Vertex, with_options
from tests.integration.advise.tune.made_up import (
    SCENARIO,
    MadeUpRuns,
    advice,
    measures,
    recommendation,
    usual,
)


def whys(cluster: MadeUpRuns) -> list[str]:
    return [why for why, _ in cluster.calls]


def test_where_seeds_agree_there_are_few_runs() -> None:
    cluster = MadeUpRuns()
    found = recommendation(cluster)
    assert (found.verdict, found.chosen) == ("set", "target 500 ms")
    assert whys(cluster) == [
        "trying settings",
        "trying shorter targets",
        "trying combinations",
        "seed 2 of settings that may win",
        "a step of the load",
    ]
    assert cluster.seeds("now") == cluster.seeds("target 500 ms") == [1, 2]
    assert cluster.seeds("target 2 s") == [1], "it cannot win any more"
    assert sum(len(points) for _, points in cluster.calls) <= 20


def test_a_large_job_has_few_settings_and_one_seed_for_each() -> None:
    source, sink = SCENARIO.vertices
    wide = replace(SCENARIO, vertices=(replace(source, parallelism=50), replace(sink, parallelism=50)))
    cluster = MadeUpRuns()
    found = recommendation(cluster, wide)
    ran = [point.labels["setting"] for _, points in cluster.calls for point in points]
    assert sorted(ran) == [
        "adaptive selection",
        "now",
        "target 1 s",
        "target 300 ms",
        "target 300 ms, unaligned",
        "unaligned",
    ]
    assert found.words[-1] == ("The job has 2,500 channels, so a run takes long: each setting ran only once.")
    asked = MadeUpRuns()
    advise(wide, asked, Question(targets_s=[0.1]), most_seeds=2)
    assert asked.seeds("target 100 ms") == [1, 2]


def test_seeds_are_added_until_the_choice_is_known_and_no_further() -> None:
    def torn(name: str, seed: int) -> Measures:
        if name in ("target 500 ms", "target 50 ms") and seed > 1:
            factor = 6.0 if (seed % 2 == 0) == (name == "target 500 ms") else 1.0
            found = usual(name, seed)
            return measures(factor * (found.end_to_end_ms or 0.0), found.throughput_per_s or 0.0)
        return usual(name, seed)

    cluster = MadeUpRuns(torn)
    found = recommendation(cluster)
    assert len(cluster.seeds("now")) > 2
    assert max(len(cluster.seeds(each.name)) for each in found.settings) <= MOST_SEEDS
    assert cluster.seeds("target 2 s") == [1]


def test_figures_that_differ_from_seed_to_seed_get_more_seeds_though_the_choice_is_known() -> None:
    def noisy(name: str, seed: int) -> Measures:
        rate = 380.0 if name == "now" and seed % 2 else 400.0
        return msgspec.structs.replace(usual(name, seed), throughput_per_s=rate)

    cluster = MadeUpRuns(noisy)
    recommendation(cluster)
    assert len(cluster.seeds("now")) == MOST_SEEDS
    assert "seed 4 of settings that may win" in whys(cluster)


def test_a_target_beyond_one_that_costs_too_much_is_not_run() -> None:
    def costly(name: str, seed: int) -> Measures:
        if name == "target 300 ms":
            return measures(350.0, 300.0)
        return usual(name, seed)

    cluster = MadeUpRuns(costly)
    found = recommendation(cluster)
    assert found.left_out == ["target 50 ms", "target 100 ms", "target 200 ms"]
    assert not cluster.seeds("target 200 ms")
    assert found.words[-1].startswith("Not run: target 50 ms, target 100 ms, target 200 ms. A longer")


def test_a_longer_interval_is_tried_where_checkpoints_leave_no_pause() -> None:
    config = with_options(SCENARIO.config, {"checkpoint_interval_s": 5.0})
    cluster = MadeUpRuns()
    recommendation(cluster, replace(SCENARIO, config=config))
    assert cluster.seeds("interval 13 s")[:1] == [1]
    other = MadeUpRuns()
    recommendation(other)
    assert not any("interval" in point.labels["setting"] for _, points in other.calls for point in points)


def test_the_best_two_mechanisms_are_combined() -> None:
    cluster = MadeUpRuns()
    recommendation(cluster)
    combined = next(points for why, points in cluster.calls if why == "trying combinations")
    assert [point.labels["setting"] for point in combined] == ["target 500 ms, unaligned"]
    options = combined[0].document["flink"]
    assert options["execution.checkpointing.unaligned.enabled"] is True
    assert options["taskmanager.network.memory.buffer-debloat.target"] == "500 ms"


def test_only_some_mechanisms_are_tried_where_the_user_says_so() -> None:
    cluster = MadeUpRuns()
    advice(cluster, question=Question(only=(Mechanism.DEBLOATING,)))
    names = {point.labels["setting"] for _, points in cluster.calls for point in points}
    assert names == {
        "now",
        *(f"target {text}" for text in ("50 ms", "100 ms", "200 ms", "300 ms", "500 ms")),
    } | {
        "target 1 s",
        "target 2 s",
    }


def test_each_combination_of_other_axes_has_its_own_advice() -> None:
    found = advice(axes=option_axes(["execution.buffer-timeout=1ms,2ms"]))
    assert [each.conditions for each in found.recommendations] == [
        {"execution.buffer-timeout": "1 ms"},
        {"execution.buffer-timeout": "2 ms"},
    ]
    assert [each.chosen for each in found.recommendations] == ["target 500 ms"] * 2


def test_a_setting_whose_runs_fail_is_named_and_not_chosen() -> None:
    def failing(name: str, seed: int) -> Measures | None:
        return None if name == "target 500 ms" else usual(name, seed)

    found = recommendation(failing)
    assert found.chosen == "target 300 ms"
    assert found.failures[0] == "target 500 ms, seed 1 (main): out of luck"


def test_where_the_present_setting_fails_there_is_no_advice() -> None:
    found = recommendation(lambda name, seed: None if name == "now" else usual(name, seed))
    assert (found.verdict, found.chosen, found.configuration) == ("none", "now", [])
    assert found.words[0].startswith("No advice: all runs of the present setting failed")


def test_a_step_of_the_load_is_run_for_the_chosen_target_alone() -> None:
    cluster = MadeUpRuns()
    recommendation(cluster)
    ((_, points),) = [call for call in cluster.calls if call[1][0].probe == "step"]
    assert [point.labels["setting"] for point in points] == ["target 500 ms"]
    unaligned = MadeUpRuns(lambda name, seed: usual("now" if name.startswith("target") else name, seed))
    assert recommendation(unaligned).chosen.startswith("unaligned")
    assert "a step of the load" not in whys(unaligned)


def test_another_policy_is_compared_with_the_best_setting_of_the_jobs_own() -> None:
    def better(name: str, seed: int) -> Measures:
        if name == "longest-when-unblocked, target 300 ms":
            return measures(60.0, 400.0)
        return usual(name.removeprefix("longest-when-unblocked, "), seed)

    question = Question(policies=["flink", "longest-when-unblocked"], only=(Mechanism.DEBLOATING,))
    (found,) = advice(better, question=question).recommendations
    assert (found.chosen, found.configuration) == ("longest-when-unblocked, target 300 ms", [])
    assert found.words[0].startswith(
        "longest-when-unblocked is better: with longest-when-unblocked, target 300 ms, "
        "checkpoints take 60 ms instead"
    )
    (worse,) = advice(
        lambda name, seed: usual(name.removeprefix("longest-when-unblocked, "), seed), question=question
    ).recommendations
    assert worse.chosen == "target 500 ms"
    assert worse.words[0].startswith("longest-when-unblocked is not clearly better")
    assert worse.words[1].startswith("Set the debloat target to 500 ms")


def test_a_cost_that_no_figure_shows_is_said_behind_the_verdict() -> None:
    config = with_options(SCENARIO.config, {"checkpoint_interval_s": 5.0})

    def pausing(name: str, seed: int) -> Measures:
        return measures(1000.0 if name.startswith("interval") else 6000.0)

    found = recommendation(pausing, replace(SCENARIO, config=config))
    assert found.chosen == "interval 12 s"
    assert found.words[1] == "After a failure, a longer interval means that more records are processed again."


def test_of_several_better_policies_the_best_one_is_chosen() -> None:
    """The order in which the user names the policies does not matter."""
    other = "flowcontrol:LongestWhenUnblockedPolicy"

    def better(name: str, seed: int) -> Measures:
        if name == "longest-when-unblocked, target 300 ms":
            return measures(100.0, 400.0, delay_ms=100.0)
        if name == f"{other}, target 300 ms":
            return measures(100.0, 480.0, delay_ms=100.0)
        return usual(name.partition(", ")[2] or name, seed)

    for policies in (["longest-when-unblocked", other], [other, "longest-when-unblocked"]):
        question = Question(policies=["flink", *policies], only=(Mechanism.DEBLOATING,))
        (found,) = advice(better, question=question).recommendations
        assert found.chosen == f"{other}, target 300 ms"
        assert sum("is better: with" in sentence for sentence in found.words) == 2


def compared(figures: Callable[[int], Measures]) -> tuple[Recommendation, MadeUpRuns]:
    """The advice for a policy with these figures by seed; checkpoints take 337 ms under the job's own."""

    def run(name: str, seed: int) -> Measures:
        if name == "longest-when-unblocked, target 300 ms":
            return figures(seed)
        return measures(337.0 if name == "target 300 ms" else 6000.0)

    policies = ["flink", "longest-when-unblocked"]
    question = Question(targets_s=[0.3], policies=policies, only=(Mechanism.DEBLOATING,))
    cluster = MadeUpRuns(run)
    (found,) = advice(cluster, question=question).recommendations
    return found, cluster


def test_a_policy_whose_gain_may_be_chance_is_not_better() -> None:
    times = [178.0, 300.0, 200.0, 496.0, 178.0, 178.0, 118.0, 496.0]  # 268 ms on average
    found, cluster = compared(lambda seed: measures(times[seed - 1]))
    assert found.words[0] == (
        "longest-when-unblocked: no difference that 8 seeds show: with longest-when-unblocked, target "
        "300 ms, checkpoints take 268 ms instead of 337 ms with target 300 ms, throughput unchanged "
        "(95 % interval of the difference with the same seeds: -194 to 56 ms)."
    )
    assert found.chosen == "target 300 ms"
    assert cluster.seeds("longest-when-unblocked, target 300 ms") == list(range(1, 9))


def test_a_policy_that_gains_with_each_seed_is_better() -> None:
    found, _ = compared(lambda seed: measures(268.0 + seed))
    assert found.words[0].startswith("longest-when-unblocked is better: with longest-when-unblocked, target ")
    assert found.chosen == "longest-when-unblocked, target 300 ms"


def test_a_policy_that_pays_with_throughput_is_not_better() -> None:
    found, _ = compared(lambda seed: measures(150.0 + seed, 390.0 + 0.1 * seed))
    assert found.words[0].startswith("longest-when-unblocked is not better at an equal throughput: with ")
    assert "throughput 2.5 % lower" in found.words[0]
    assert found.chosen == "target 300 ms"


def test_a_policy_that_shortens_only_the_delay_of_records_says_so() -> None:
    found, _ = compared(lambda seed: measures(337.0, delay_ms=100.0 + seed))
    assert "is better: with" in found.words[0]
    assert found.words[0].endswith("throughput unchanged, records take 102 ms instead of 337 ms.")


def test_a_policy_or_target_that_the_job_cannot_have_is_refused() -> None:
    with pytest.raises(
        InputError, match="policy: 'longest-when-blocked' is unknown; did you mean 'longest-when-unblocked'"
    ):
        advice(question=Question(policies=["longest-when-blocked"]))


def test_limits_of_the_user_are_kept() -> None:
    assert (
        recommendation(max_stored_bytes=0.0, max_checkpoint_ms=100.0, min_throughput=0.9).chosen
        == "target 50 ms"
    )
    none = recommendation(max_checkpoint_ms=10.0)
    assert (none.verdict, none.chosen) == ("none", "now")
    assert none.words[0].startswith("No setting keeps to all limits. The nearest is ")
    assert none.constraints == Constraints(max_checkpoint_ms=10.0)


CPU_BOUND = replace(SCENARIO, name="cpu-bound")
IN_DOUBT = "It is unknown whether the work of tasks is CPU-bound or waits"


class TestWorkThatMayBeCpuBound:
    """Advice for a job whose work may be CPU-bound, or may wait."""

    def test_the_chosen_setting_is_run_against_the_present_one(self) -> None:
        cluster = MadeUpRuns()
        advised = advice(cluster, if_cpu_bound=CPU_BOUND)
        (found,) = advised.recommendations
        assert found.words[1] == f"{IN_DOUBT}; the advice is the same."
        why, points = cluster.calls[-1]
        assert why == "the advice if the work is CPU-bound"
        assert [(point.name, point.labels["setting"]) for point in points] == [
            ("cpu-bound", "target 500 ms"),
            ("cpu-bound", "now"),
        ]
        assert all("work" not in row.labels for row in advised.rows)
        assert found.seeds == recommendation().seeds

    def test_where_it_does_not_win_again_both_are_advised(self) -> None:
        def costly(name: str, seed: int) -> Measures:
            found = usual(name, seed)
            return measures(found.end_to_end_ms, 300.0) if name.endswith("500 ms") else found

        (found,) = advice(MadeUpRuns(if_cpu_bound=costly), if_cpu_bound=CPU_BOUND).recommendations
        assert (found.verdict, found.chosen) == ("set", "target 500 ms")
        assert found.words[1] == (
            f"{IN_DOUBT}. This advice holds if it waits. If it is CPU-bound: Set the debloat target to "
            "300 ms: checkpoints take 351 ms instead of 6.00 s, throughput unchanged "
            "(taskmanager.network.memory.buffer-debloat.enabled: true; "
            "taskmanager.network.memory.buffer-debloat.target: 300 ms)."
        )

    def test_all_settings_are_run_where_the_present_one_stays(self) -> None:
        def alike(name: str, seed: int) -> Measures:
            return measures(100.0)

        kept = MadeUpRuns(alike, if_cpu_bound=alike)
        (found,) = advice(kept, if_cpu_bound=CPU_BOUND).recommendations
        assert (found.verdict, found.words[1]) == ("keep", f"{IN_DOUBT}; the advice is the same.")
        assert len(kept.calls[-1][1]) > 5
        (found,) = advice(MadeUpRuns(alike), if_cpu_bound=CPU_BOUND).recommendations
        assert found.words[1].startswith(
            f"{IN_DOUBT}. This advice holds if it waits. If it is CPU-bound: Set "
        )

    def test_each_value_of_an_axis_has_its_own_answer(self) -> None:
        axes = option_axes(["execution.checkpointing.interval=10s,20s"])
        found = advice(axes=axes, if_cpu_bound=CPU_BOUND).recommendations
        assert [each.words[1] for each in found] == [f"{IN_DOUBT}; the advice is the same."] * 2

    def test_nothing_is_said_where_it_is_known(self) -> None:
        assert not any(IN_DOUBT in words for words in recommendation().words)


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


def test_a_setting_that_costs_at_todays_load_is_not_chosen() -> None:
    """At the limit, target 100 ms is fastest, but at today's load records wait longer with it."""

    def at_limit(today: dict[str, Measures], *behind: str) -> str | None:
        race = Race(SCENARIO, Constraints(), {}, today=today, behind_today={*behind})
        race.add_settings(first_settings(SCENARIO))
        rows = MadeUpRuns()([point_of(SCENARIO, {SETTING: name}) for name in race.settings], "")
        race.add_rows(rows)
        return race.choice().chosen

    chosen = at_limit({})
    assert chosen is not None
    same = measures(100.0)
    assert at_limit({NOW: same, chosen: measures(110.0)}) == chosen, "by chance"
    assert at_limit({NOW: same, chosen: measures(300.0)}) != chosen
    assert at_limit({NOW: same, chosen: same}, chosen) != chosen, "it does not keep up"
    assert at_limit({NOW: same, chosen: same}, chosen, NOW) == chosen, "nor does the present setting"
