"""What is recommended, on points made by hand, and whether what is only reckoned holds in an emulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.comparison.compare import Spread
from integration.reporting.wording import size
from integration.scenarios.load import load_scenario
from integration.tuning.choice import END_TO_END, RECORD_DELAY, choose, knee
from integration.tuning.constraints import (
    CHECKPOINTS,
    MAX_CHECKPOINT,
    MAX_DELAY,
    MIN_THROUGHPUT,
    Constraints,
    Violation,
    binding,
    nearest,
)
from integration.tuning.measures import Measures, measure
from integration.tuning.probes import Probe
from integration.tuning.recommend import Recommendation, recommend, recommendations
from integration.tuning.rows import PointRow
from integration.tuning.summaries import TargetSummary, target_s
from integration.tuning.verdicts import with_range
from netstack import Scenario, ScenarioError, emulate, to_json, with_options

REFERENCE = Path(__file__).parents[1] / "data" / "flink-reference"
SEEDS = (1, 2, 3)
ENABLED = "taskmanager.network.memory.buffer-debloat.enabled"
TARGET = "taskmanager.network.memory.buffer-debloat.target"


@pytest.fixture(scope="module")
def job() -> Scenario:
    """The job that the points are said to be of."""
    return load_scenario(REFERENCE / "2x2_200KBs_off.toml")


def point(
    target: str | None,
    seed: int = 1,
    probe: Probe = "main",
    labels: Mapping[str, str] | None = None,
    result: str | None = None,
    **measures: Any,
) -> PointRow:
    """A point that ended well; figures that are not given are those of a job at ease."""
    figures = {
        "throughput_per_s": 400.0,
        "end_to_end_ms": 100.0,
        "record_delay_ms": 100.0,
        "record_delay_p95_ms": 100.0,
        "checkpoints_completed": 10,
        "debloated_buffer_min_bytes": 4000.0,
    } | measures
    figures.setdefault("end_to_end_p95_ms", figures["end_to_end_ms"])
    return PointRow(
        key=f"{target} {seed} {probe}",
        name="job",
        labels={**({} if target is None else {"target": target}), **(labels or {})},
        seed=seed,
        probe=probe,
        status="finished",
        wall_seconds=0.1,
        versions={"netstack": "1"},
        measures=Measures(**figures),
        result=result,
    )


def failed(target: str, seed: int) -> PointRow:
    whole = point(target, seed)
    return msgspec.structs.replace(whole, status="failed", error="out of memory", measures=None)


def sweep(times: Mapping[str | None, tuple[float, float]], seeds: tuple[int, ...] = SEEDS) -> list[PointRow]:
    """Points by target: end-to-end ms and throughput; None is the baseline. Seeds differ by 1 ms."""
    return [
        point(
            target,
            seed,
            "baseline" if target is None else "main",
            end_to_end_ms=time + seed - 2,
            throughput_per_s=rate,
        )
        for target, (time, rate) in times.items()
        for seed in seeds
    ]


USUAL: dict[str | None, tuple[float, float]] = {
    None: (3500.0, 400.0),
    "50 ms": (60.0, 380.0),
    "100 ms": (110.0, 398.0),
    "200 ms": (210.0, 399.0),
    "1 s": (1800.0, 400.0),
}


def test_the_fastest_target_that_keeps_the_throughput_is_set(job: Scenario) -> None:
    found = recommend(sweep(USUAL), job)
    assert (found.verdict, found.chosen, found.current) == ("set", "100 ms", "off")
    assert found.configuration == [f"{ENABLED}: true", f"{TARGET}: 100 ms"]
    assert found.words[0] == (
        "Set the debloat target to 100 ms: checkpoints take 110 ms (109 to 111 ms) instead of 3.50 s, "
        "at 0.995 of the throughput without debloating."
    )
    assert found.remedies == []
    assert [one.target for one in found.targets] == ["50 ms", "100 ms", "200 ms", "1 s"]
    assert [one.fits for one in found.targets] == [False, True, True, True]
    assert found.targets[1].end_to_end_ms == Spread(110.0, 109.0, 111.0)
    assert found.targets[1].throughput_share == Spread(0.995, 0.995, 0.995)
    assert found.baseline is not None
    assert found.baseline.throughput_share == Spread(1.0, 1.0, 1.0)


def test_a_target_that_one_seed_shows_to_be_too_dear_is_not_set(job: Scenario) -> None:
    rows = [
        msgspec.structs.replace(row, measures=msgspec.structs.replace(row.measures, throughput_per_s=390.0))
        if row.labels.get("target") == "100 ms" and row.seed == 2 and row.measures
        else row
        for row in sweep(USUAL)
    ]
    found = recommend(rows, job)
    assert found.chosen == "200 ms"
    assert found.by_seed == {1: "100 ms", 2: "200 ms", 3: "100 ms"}
    assert found.words[-1] == "Alone, the 3 seeds lead to: 100 ms (2), 200 ms (1)."
    (violation,) = found.targets[1].violations
    assert (violation.constraint, violation.seed, violation.value) == (MIN_THROUGHPUT, 2, 0.975)


def test_of_equal_targets_the_longest_is_set(job: Scenario) -> None:
    times = {**USUAL, "50 ms": (100.0, 400.0), "100 ms": (110.0, 400.0), "200 ms": (130.0, 400.0)}
    assert recommend(sweep(times), job).chosen == "100 ms"
    # Ranges over seeds that overlap say no more than that the two are equal.
    wide = [point("50 ms", 4, end_to_end_ms=135.0), point(None, 4, "baseline", end_to_end_ms=3500.0)]
    assert recommend([*sweep(times), *wide], job).chosen == "200 ms"


def test_debloating_that_brings_nothing_is_left_off(job: Scenario) -> None:
    found = recommend(sweep({None: (50.0, 400.0), "50 ms": (45.0, 400.0), "1 s": (46.0, 400.0)}), job)
    assert (found.verdict, found.chosen) == ("leave off", None)
    assert found.configuration == [f"{ENABLED}: false"]
    assert found.by_seed == dict.fromkeys(SEEDS, "off")
    assert "45 ms" in found.words[0]


def test_no_target_is_better_than_one_that_costs_too_much(job: Scenario) -> None:
    found = recommend(sweep({None: (300.0, 400.0), "50 ms": (45.0, 300.0)}), job)
    assert (found.verdict, found.configuration) == ("leave off", [f"{ENABLED}: false"])


def test_where_nothing_fits_it_says_what_binds_and_by_how_much(job: Scenario) -> None:
    found = recommend(sweep(USUAL), job, Constraints(max_checkpoint_ms=20.0))
    assert (found.verdict, found.chosen, found.configuration) == ("none", None, [])
    assert (found.binding, found.nearest) == ([MAX_CHECKPOINT], "50 ms")
    assert "more than 20 ms (seed 3)" in found.words[-1]


def test_two_constraints_that_only_together_rule_all_out_both_bind(job: Scenario) -> None:
    found = recommend(sweep(USUAL), job, Constraints(max_checkpoint_ms=80.0))
    assert found.binding == [MAX_CHECKPOINT, MIN_THROUGHPUT]
    assert found.nearest == "50 ms"


def test_checkpoints_that_do_not_complete_rule_a_target_out(job: Scenario) -> None:
    expired = {"checkpoints_expired": 1, "checkpoints_failed": 1}
    rows = [
        point(None, probe="baseline", end_to_end_ms=9000.0),
        point("50 ms", **expired),
        point("100 ms", checkpoints_completed=0, end_to_end_ms=None, pending_ms=30_000.0),
        point("1 s", end_to_end_ms=1000.0),
    ]
    found = recommend(rows, job, Constraints(max_checkpoint_ms=5000.0))
    assert found.chosen == "1 s"
    broken = [[one.constraint for one in target.violations] for target in found.targets]
    assert broken == [[CHECKPOINTS], [CHECKPOINTS, MAX_CHECKPOINT], []]


def test_the_delay_of_records_can_be_limited(job: Scenario) -> None:
    rows = [
        point(None, probe="baseline", end_to_end_ms=3000.0),
        point("50 ms", record_delay_p95_ms=70.0, end_to_end_ms=300.0),
        point("1 s", record_delay_p95_ms=900.0, end_to_end_ms=100.0),
    ]
    assert recommend(rows, job, Constraints(max_delay_ms=80.0)).chosen == "50 ms"
    assert recommend(rows, job).chosen == "1 s"
    assert recommend(rows, job, Constraints(max_delay_ms=10.0)).binding == [MAX_DELAY]


def test_where_barriers_overtake_it_is_the_record_delay_that_counts(job: Scenario) -> None:
    overtaking = replace(job, config=with_options(job.config, {"unaligned_enabled": True}))
    rows = [
        point(None, probe="baseline", end_to_end_ms=30.0, record_delay_ms=3000.0),
        point("50 ms", end_to_end_ms=31.0, record_delay_ms=60.0),
        point("1 s", end_to_end_ms=30.0, record_delay_ms=1000.0),
    ]
    found = recommend(rows, overtaking)
    assert (found.objective, found.chosen) == (RECORD_DELAY, "50 ms")
    assert "records are under way for 60 ms instead of 3.00 s" in found.words[0]
    assert found.words[1] == "Checkpoints then take 31 ms."
    assert recommend(rows, job).verdict == "leave off"


def test_what_could_not_be_measured_is_no_reason_to_choose(job: Scenario) -> None:
    silent = replace(job, config=with_options(job.config, {"checkpoint_interval_s": None}))
    nothing = {"checkpoints_completed": 0, "end_to_end_ms": None, "record_delay_ms": None}
    found = recommend([point("50 ms", **nothing), point("1 s", **nothing)], silent)
    assert (found.verdict, found.binding, found.nearest) == ("none", [], None)
    assert found.words == ["No target can be chosen: the record delay could not be measured."]


def test_failed_points_are_named_and_lose_no_others(job: Scenario) -> None:
    rows = [*sweep(USUAL), failed("100 ms", 4)]
    found = recommend(rows, job)
    assert found.chosen == "100 ms"
    assert found.failures == ["target 100 ms, seed 4 (main): out of memory"]
    assert found.targets[1].failed == 1
    only_failed = recommend([failed("100 ms", 1)], job)
    assert (only_failed.verdict, only_failed.chosen, only_failed.baseline) == ("none", None, None)
    assert only_failed.words == ["No target can be chosen: no run with debloating ended well."]


def test_a_baseline_that_failed_is_not_said_to_miss_the_constraints(job: Scenario) -> None:
    (word,) = recommend([point("50 ms")], job, Constraints(max_checkpoint_ms=1.0)).words[:1]
    assert word == ("No target keeps to the constraints, and no run without debloating ended well.")


def test_what_the_axes_change_decides_what_counts(job: Scenario) -> None:
    overtaking = replace(job, config=with_options(job.config, {"unaligned_enabled": True}), duration_s=0.1)
    ran = to_json(emulate(replace(overtaking, warmup_s=0.0, phases=()))).decode()
    assert recommend([point("50 ms", result=ran)], job).objective == RECORD_DELAY
    assert recommend([point("50 ms")], job).objective == END_TO_END


def test_no_checkpoint_without_debloating_and_queues_that_do_not_settle_are_said(job: Scenario) -> None:
    rows = [
        point(None, probe="baseline", checkpoints_completed=0, end_to_end_ms=None, end_to_end_p95_ms=None),
        point("50 ms"),
        point("50 ms", probe="step"),
    ]
    found = recommend(rows, job)
    assert "checkpoints take 100 ms, where none completed without debloating" in found.words[0]
    assert found.words[-1].startswith("In 1 run where the service time of the bottleneck doubles, the queues")


def test_constraints_that_each_rule_all_out_are_not_said_to_bind_together(job: Scenario) -> None:
    found = recommend(sweep(USUAL), job, Constraints(max_checkpoint_ms=1.0, max_delay_ms=1.0))
    assert found.binding == [MAX_CHECKPOINT, MAX_DELAY]
    assert any(word.startswith("Max-checkpoint and max-delay bind, each by itself.") for word in found.words)


def test_a_delay_that_was_not_measured_does_not_keep_to_a_limit(job: Scenario) -> None:
    rows = [
        point(None, probe="baseline", end_to_end_ms=3000.0, record_delay_p95_ms=500.0),
        point("50 ms", record_delay_p95_ms=None),
        point("1 s", record_delay_p95_ms=70.0, end_to_end_ms=900.0),
    ]
    assert recommend(rows, job).chosen == "50 ms"
    assert recommend(rows, job, Constraints(max_delay_ms=80.0)).chosen == "1 s"


def test_seeds_that_agree_only_with_each_other_are_not_said_to_lead_to_the_same(job: Scenario) -> None:
    times = {1: (100.0, 120.0), 2: (130.0, 160.0), 3: (160.0, 190.0)}  # 160 is within the range of the best
    rows = [
        made
        for seed, (short, long) in times.items()
        for made in (
            point(None, seed, "baseline", end_to_end_ms=3000.0),
            point("50 ms", seed, end_to_end_ms=short),
            point("60 ms", seed, end_to_end_ms=long),
        )
    ]
    found = recommend(rows, job)
    assert (found.chosen, set(found.by_seed.values())) == ("60 ms", {"50 ms"})
    assert found.words[-1] == "Alone, the 3 seeds lead to: 50 ms (3)."


def test_probes_tell_what_they_were_run_for(job: Scenario) -> None:
    rows = [
        *sweep(USUAL),
        point("100 ms", 1, "unaligned", end_to_end_ms=31.0, persisted_bytes=46_000.0),
        point("100 ms", 1, "step", adaptation_ms=4000.0),
        point("100 ms", 2, "step", adaptation_ms=None),
    ]
    chosen = recommend(rows, job).targets[1]
    assert chosen.persisted_bytes == Spread(46_000.0, 46_000.0, 46_000.0)
    assert chosen.unaligned_end_to_end_ms == Spread(31.0, 31.0, 31.0)
    assert (chosen.adaptation_ms, chosen.not_adapted) == (Spread(4000.0, 4000.0, 4000.0), 1)
    assert chosen.end_to_end_ms == Spread(110.0, 109.0, 111.0)


def test_each_combination_of_other_axes_has_its_own_recommendation(job: Scenario) -> None:
    option = "taskmanager.network.memory.buffer-debloat.samples"
    rows = [
        msgspec.structs.replace(row, labels={**row.labels, option: samples, "latency": "1 ms"})
        for samples, times in (("5", USUAL), ("20", {**USUAL, "100 ms": (110.0, 350.0)}))
        for row in sweep(times)
    ]
    first, second = recommendations(rows, job)
    assert (first.conditions[option], first.chosen) == ("5", "100 ms")
    assert (second.conditions[option], second.chosen) == ("20", "200 ms")
    assert first.configuration == [f"{ENABLED}: true", f"{TARGET}: 100 ms", f"{option}: 5"]
    with pytest.raises(ScenarioError, match="differ in more than the target"):
        recommend(rows, job)
    with pytest.raises(ScenarioError, match="no point"):
        recommend([], job)


def test_a_recommendation_survives_json(job: Scenario) -> None:
    found = recommend(sweep(USUAL), job, Constraints(max_checkpoint_ms=20.0))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Recommendation) == found


def summary(target: str, time: float, share: float, spread: float = 0.0) -> TargetSummary:
    return TargetSummary(
        target=target,
        seeds=[1],
        end_to_end_ms=Spread(time, time - spread, time + spread),
        throughput_share=Spread(share, share, share),
    )


def test_the_knee_is_where_time_begins_to_cost_throughput() -> None:
    curve = [
        summary("20 ms", 49, 0.974),
        summary("50 ms", 74, 0.984),
        summary("100 ms", 122, 0.993),
        summary("200 ms", 225, 0.997),
        summary("500 ms", 556, 0.9996),
    ]
    assert knee(curve, END_TO_END)[0] == "100 ms"
    assert knee(curve[:2], END_TO_END) == (None, "fewer than three targets were measured")
    flat = [summary(one.target, index * 100.0, 0.999) for index, one in enumerate(curve)]
    assert knee(flat, END_TO_END) == (None, "throughput is the same for all targets, within 0.5 %")
    still = [summary(one.target, index, 0.9 + index / 100) for index, one in enumerate(curve)]
    assert "the same for all targets, within 15 ms" in knee(still, END_TO_END)[1]
    straight = [summary(one.target, index * 100.0, 0.9 + index / 100) for index, one in enumerate(curve)]
    assert "straight" in knee(straight, END_TO_END)[1]


TIMES = st.lists(st.floats(1, 1e5), min_size=1, max_size=8)


@given(TIMES, st.floats(0, 100))
def test_the_choice_is_never_slower_than_what_cannot_be_told_from_the_best(
    times: list[float], spread: float
) -> None:
    targets = [summary(f"{index + 1} ms", time, 1.0, spread) for index, time in enumerate(times)]
    chosen = choose(targets, END_TO_END)
    assert chosen is not None
    assert chosen.end_to_end_ms is not None
    least = min(times)
    assert chosen.end_to_end_ms.median <= max(1.1 * least, least + 15, least + spread) + 1e-6
    longer = [one for one in targets if target_s(one.target) > target_s(chosen.target)]
    assert all(one.end_to_end_ms and one.end_to_end_ms.median > least for one in longer)


def test_a_range_names_its_unit_once_unless_there_are_two() -> None:
    assert with_range(Spread(110.0, 109.0, 111.0)) == "110 ms (109 to 111 ms)"
    assert with_range(Spread(1000.0, 900.0, 1100.0)) == "1.00 s (900 ms to 1.10 s)"
    assert with_range(Spread(110.0, 109.9, 110.1)) == "110 ms"
    assert with_range(Spread(1024.0, 900.0, 2048.0), size) == "1.00 KiB (900 B to 2.00 KiB)"
    assert with_range(None) == "-"


def violation(constraint: str, value: float, limit: float) -> Violation:
    return Violation(constraint=constraint, limit=limit, value=value, seed=1, text="")


def test_binding_and_nearest_go_by_all_settings() -> None:
    slow, very_slow = (violation(MAX_CHECKPOINT, value, 100.0) for value in (200.0, 400.0))
    dear = violation(MIN_THROUGHPUT, 0.9, 0.99)
    assert binding([[slow], [very_slow, dear]]) == [MAX_CHECKPOINT]
    assert binding([[slow], [dear]]) == [MAX_CHECKPOINT, MIN_THROUGHPUT]
    assert binding([[slow], []]) == []
    assert binding([]) == []
    assert nearest({"a": [very_slow], "b": [slow, dear], "c": [violation(CHECKPOINTS, 1.0, 0.0)]}) == "b"


@pytest.fixture(scope="module")
def runs(job: Scenario) -> dict[str, Measures]:
    """What remedies come to that are reckoned only: each is run here."""
    on = {"debloat_enabled": True, "debloat_target_s": 1.0}
    options: dict[str, dict[str, object]] = {
        "off": {},
        "1 s": on,
        "1 s, rarely": on | {"checkpoint_interval_s": 10.0},
        "8 kb": {"segment_bytes": 8 << 10},
        "timeout": {"unaligned_enabled": True, "aligned_checkpoint_timeout_s": 1.46},
    }
    return {
        name: measure(emulate(replace(job, config=with_options(job.config, values))))
        for name, values in options.items()
    }


def test_remedies_of_a_job_whose_checkpoints_take_too_long(job: Scenario, runs: dict[str, Measures]) -> None:
    limit = 1500.0
    rows = [
        msgspec.structs.replace(point(None, probe="baseline"), measures=runs["off"], result=_busy(job)),
        msgspec.structs.replace(point("1 s"), measures=runs["1 s"]),
        point("1 s", probe="unaligned", end_to_end_ms=37.0, persisted_bytes=365_000.0),
    ]
    found = recommend(rows, job, Constraints(max_checkpoint_ms=limit))
    assert (found.verdict, found.binding) == ("none", [MAX_CHECKPOINT])
    remedies = {remedy.name: remedy for remedy in found.remedies}
    assert list(remedies) == [
        "unaligned checkpoints",
        "aligned checkpoints with a timeout",
        "a shorter target",
        "smaller buffers",
        "more parallelism",
        "a longer checkpoint interval",
    ]
    assert remedies["unaligned checkpoints"].measured
    timeout = "execution.checkpointing.aligned-checkpoint-timeout: 1460 ms"
    assert timeout in remedies["aligned checkpoints with a timeout"].configuration
    assert "taskmanager.memory.segment-size: 8 kb" in remedies["smaller buffers"].configuration
    assert "execution.checkpointing.interval: 10 s" in remedies["a longer checkpoint interval"].configuration
    assert "stage1 is busy for 100 % of the time" in remedies["more parallelism"].why
    # What was reckoned, run: both of the sure ones keep to the limit, and the interval does bring something.
    for name in ("8 kb", "timeout"):
        time = runs[name].end_to_end_p95_ms
        assert time is not None
        assert time <= 1.05 * limit
    rare, often = runs["1 s, rarely"].end_to_end_ms, runs["1 s"].end_to_end_ms
    assert rare is not None
    assert often is not None
    assert rare < 0.8 * often


def _busy(job: Scenario) -> str:
    short = replace(job, duration_s=10.0, warmup_s=5.0, phases=())
    return to_json(msgspec.structs.replace(emulate(short), series=[])).decode()


def test_at_the_minimum_size_only_the_number_of_buffers_is_left(job: Scenario) -> None:
    rows = [
        point(None, probe="baseline", end_to_end_ms=60_000.0),
        point("500 ms", end_to_end_ms=2500.0, debloated_buffer_min_bytes=256.0, in_flight_bytes=9600.0),
    ]
    limit = Constraints(max_checkpoint_ms=1000.0)
    new = {remedy.name: remedy for remedy in recommend(rows, job, limit).remedies}
    assert new["fewer channels"].configuration == []
    assert "minimum of 256 b, and still hold 9.38 KiB" in new["fewer channels"].why
    assert "a shorter target" not in new
    assert "a longer checkpoint interval" not in new
    old = {remedy.name for remedy in recommend(rows, replace(job, preset="flink-1.20"), limit).remedies}
    assert "fewer buffers" in old


def test_records_larger_than_buffers_want_overdraft_or_a_larger_minimum(job: Scenario) -> None:
    rows = [
        point(None, probe="baseline", end_to_end_ms=9000.0),
        point("50 ms", throughput_per_s=300.0, debloated_buffer_min_bytes=400.0),
    ]
    limit = Constraints(max_checkpoint_ms=1000.0)
    flink_2 = {remedy.name: remedy for remedy in recommend(rows, job, limit).remedies}
    assert flink_2["a larger minimum size"].configuration == ["taskmanager.memory.min-segment-size: 1 kb"]
    assert "overdraft buffers" not in flink_2
    config = with_options(job.config, {"max_overdraft_buffers_per_gate": 5})
    flink_1 = {
        remedy.name: remedy
        for remedy in recommend(rows, replace(job, preset="flink-1.20", config=config), limit).remedies
    }
    assert flink_1["overdraft buffers"].configuration == [
        "taskmanager.network.memory.max-overdraft-buffers-per-gate: 20"
    ]


def test_snapshots_that_take_most_of_the_time_are_no_matter_of_buffers(job: Scenario) -> None:
    times = {"end_to_end_ms": 900.0, "state_ms": 850.0}
    found = recommend([point(None, probe="baseline", **times), point("50 ms", **times)], job)
    assert found.verdict == "leave off"
    assert [remedy.name for remedy in found.remedies] == ["smaller or incremental snapshots"]


def test_a_limit_of_throughput_is_shown_as_it_was_given(job: Scenario) -> None:
    rows = sweep({None: (300.0, 400.0), "50 ms": (45.0, 399.0)})
    (target,) = recommend(rows, job, Constraints(min_throughput=0.999)).targets
    assert [one.text for one in target.violations] == [
        "throughput is 0.998 of that without debloating, less than 0.999"
    ]


def test_where_only_throughput_binds_a_longer_target_helps(job: Scenario) -> None:
    rows = sweep({None: (3500.0, 400.0), "50 ms": (60.0, 380.0), "100 ms": (110.0, 390.0)})
    found = recommend(rows, job, Constraints(min_throughput=0.99, max_checkpoint_ms=150.0))
    assert (found.verdict, found.binding) == ("none", ["min-throughput"])
    (remedy,) = found.remedies
    assert (remedy.name, remedy.measured) == ("a longer target", False)
    assert "at 100 ms" in remedy.why
    assert "0.975" in remedy.why
    assert remedy.configuration == [f"{TARGET}: 200 ms"]


def test_a_run_that_failed_is_no_ground_for_remedies(job: Scenario) -> None:
    result = emulate(replace(job, duration_s=0.1, warmup_s=0.0, phases=()))
    cut = to_json(msgspec.structs.replace(result, steady=[], series=[])).decode()
    rows = [msgspec.structs.replace(failed("50 ms", 1), result=cut), *sweep(USUAL)]
    found = recommend(rows, job, Constraints(max_checkpoint_ms=1.0))
    assert found.verdict == "none"
    assert "more parallelism" not in [remedy.name for remedy in found.remedies]
