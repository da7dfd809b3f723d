"""Remedies that were estimated, emulated: with the figures of the run, and only where one takes seconds."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from integration.files.reading import load_scenario
from integration.number_text import milliseconds
from integration.present.tuning import remedy_text
from integration.tuning.measures import measure
from integration.tuning.point_rows import PointRow
from integration.tuning.recommend import Recommendation, recommend
from integration.tuning.remedies import Remedy
from integration.tuning.reruns import changes_of, with_trials
from netstack import Scenario, emulate, to_json, with_options
from tests.integration.tuning.test_tuning_recommend import Constraints, replace, sweep

REFERENCE = Path(__file__).parents[2] / "data" / "flink-reference"


@pytest.fixture(scope="module")
def job() -> Scenario:
    return replace(load_scenario(REFERENCE / "2x2_200KBs_off.toml"), duration_s=20.0, warmup_s=8.0, phases=())


@pytest.fixture(scope="module")
def rows() -> list[PointRow]:
    return sweep({None: (3500.0, 400.0), "500 ms": (900.0, 400.0), "1 s": (1800.0, 400.0)})


@pytest.fixture(scope="module")
def found(job: Scenario, rows: list[PointRow]) -> Recommendation:
    return recommend(rows, job, Constraints(max_checkpoint_ms=500.0))


def only(found: Recommendation, name: str) -> Remedy:
    return next(remedy for remedy in found.remedies if remedy.name == name)


def test_an_estimated_remedy_is_emulated_and_says_what_came_of_it(
    job: Scenario, rows: list[PointRow], found: Recommendation
) -> None:
    estimated, tried = only(found, "smaller buffers"), only(with_trials(found, rows, job), "smaller buffers")
    changes = changes_of(estimated)
    measures = measure(emulate(replace(job, config=with_options(job.config, changes)), seed=1))
    assert changes["debloat_enabled"] is False
    assert f"95 % of checkpoints take at most {milliseconds(measures.end_to_end_p95_ms)}" in tried.why
    assert measures.throughput_per_s is not None
    assert f"throughput is {measures.throughput_per_s / 400:.3f} of that without debloating" in tried.why
    assert tried.emulated_s is not None
    assert remedy_text(tried).endswith(f"(emulated in {tried.emulated_s:g} s)")
    assert remedy_text(estimated).endswith("(estimated)")


def test_a_shorter_target_is_emulated_with_debloating(found: Recommendation) -> None:
    assert changes_of(only(found, "a shorter target")) == {
        "debloat_enabled": True,
        "debloat_target_s": pytest.approx(0.277),
    }


def test_a_remedy_that_names_no_target_is_emulated_with_the_present_debloating(
    job: Scenario, rows: list[PointRow], found: Recommendation
) -> None:
    debloated = replace(job, config=with_options(job.config, {"debloat_enabled": True}))
    kept = [*rows]
    place = next(number for number, row in enumerate(rows) if row.probe == "main")
    kept[place] = msgspec.structs.replace(rows[place], result=to_json(emulate(debloated)).decode())
    line = "execution.checkpointing.interval: 5 s"
    remedy = Remedy(name="a longer checkpoint interval", why="they follow each other", configuration=[line])
    (tried,) = with_trials(msgspec.structs.replace(found, remedies=[remedy]), kept, job).remedies
    rare = replace(job, config=with_options(job.config, {"checkpoint_interval_s": 5.0}))
    time = milliseconds(measure(emulate(rare, seed=1)).end_to_end_p95_ms)
    assert f"95 % of checkpoints take at most {time}" in tried.why


def test_what_is_not_set_by_options_stays_estimated(
    job: Scenario, rows: list[PointRow], found: Recommendation
) -> None:
    plain = Remedy(name="more parallelism", why="it is busy", measured=False)
    with_it = msgspec.structs.replace(found, remedies=[plain])
    assert with_trials(with_it, rows, job).remedies == [plain]


def test_a_job_that_takes_long_is_not_emulated_for_advice(
    job: Scenario, rows: list[PointRow], found: Recommendation
) -> None:
    slow = [msgspec.structs.replace(row, wall_seconds=4.0) for row in rows]
    assert with_trials(found, slow, job) == found


def test_options_that_do_not_go_together_leave_a_remedy_as_it_was(
    job: Scenario, rows: list[PointRow], found: Recommendation
) -> None:
    wrong = Remedy(
        name="impossible",
        why="it cannot be",
        measured=False,
        configuration=["taskmanager.memory.segment-size: 8 kb", "taskmanager.memory.min-segment-size: 16 kb"],
    )
    with_it = msgspec.structs.replace(found, remedies=[wrong])
    assert with_trials(with_it, rows, job).remedies == [wrong]
