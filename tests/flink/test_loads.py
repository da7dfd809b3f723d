"""A job's load, what it did under it, and the end of catching up are read from samples of a cluster."""

import argparse
from pathlib import Path
from typing import Any

import msgspec
import pytest

from integration.advise.tune.change_package import DOCUMENT, TITLES, ChangePackage, Promise
from integration.advise.tune.option_changes import OptionChange, Restart
from netstack import GeneratorSpec, InputError
from tests.flink import __main__ as commands
from tests.flink.cluster import TestbedError
from tests.flink.job_description import described
from tests.flink.loads import (
    EMITTED,
    PENDING,
    Attempt,
    ScenarioJob,
    at_load,
    attempts_of,
    caught_up,
    limits_of,
    most_pending,
    subject_of,
    summary,
    table_of,
    work_in,
)
from tests.flink.measuring import JobVertex, Samples
from tests.flink.references import scenario_named
from tests.flink.test_measurements import Recorded

SOURCE = JobVertex("a", "source", 2, ("tm0", "tm0"))
SINK = JobVertex("b", "sink", 1, ("tm1",))


def samples_of(**metrics: list[list[float | None]]) -> Samples:
    """Ten samples of a source with two subtasks, and a sink that is busy half of the time."""
    times = [float(second) for second in range(10)]
    waited: dict[str, Any] = {
        "accumulateBackPressuredTimeMs": [[100 * at for at in times], [300 * at for at in times]],
        EMITTED: [[200 * at for at in times], [400 * at for at in times]],
    }
    sink = {
        "accumulateBusyTimeMs": [[500 * at for at in times]],
        "accumulateBackPressuredTimeMs": [[900 * at for at in times]],
    }
    return Samples([SOURCE, SINK], times=times, series=[waited | metrics, sink])


def parsed(*arguments: str) -> argparse.Namespace:
    return commands.parser().parse_args(list(arguments))


def rates_of(scenario: Any) -> list[tuple[float, ...]]:
    sources = [vertex.source for vertex in scenario.vertices]
    return [source.rates for source in sources if isinstance(source, GeneratorSpec)]


def test_a_load_multiplies_the_rates_and_the_limit_has_none() -> None:
    scenario = scenario_named("headroom_skewed_keys")
    assert rates_of(scenario) == [(750.0,)]
    assert rates_of(at_load(scenario, 1.2)) == [(900.0,)]
    assert rates_of(at_load(scenario, None)) == [(0.0,)]
    assert at_load(scenario, 1.0) == scenario


@pytest.mark.parametrize("name", ["headroom_skewed_keys", "headroom_one_core"])
def test_sources_of_a_measured_job_read_a_log(name: str) -> None:
    scenario = scenario_named(name)
    source, *others = described(scenario, logged=True)["vertices"]
    plain, *others_plain = described(scenario)["vertices"]
    assert source["source"] == plain["source"] | {"logged": True}
    assert others == others_plain


def test_options_of_the_command_replace_those_of_the_job() -> None:
    interval, other = "execution.checkpointing.interval", "state.backend.type"
    asked = parsed("load", "headroom_one_core", "--set", f"{interval}=5 s", "--set", f"{other}=rocksdb")
    layout = subject_of(asked).layout
    assert layout.options[interval] == "5 s"
    assert layout.options[other] == "rocksdb"
    assert layout.options["execution.checkpointing.tolerable-failed-checkpoints"] == 1_000_000
    assert layout.cores == [[], [0]]
    ordinary = subject_of(parsed("load", "etl:off", "--set", f"{interval}=5 s"))
    assert ordinary.name == "etl_off"
    assert ordinary.layout.options[interval] == "5 s"


def test_a_change_package_is_applied(tmp_path: Path) -> None:
    interval = "execution.checkpointing.interval"
    change = OptionChange(option=interval, before="2 s", configured=None, after="7 s", restart=Restart.JOB)
    package = ChangePackage(
        netstack="", job=None, job_id=None, flink=None, scenario="headroom_one_core", action="",
        changes=[change], set_by_job=[], measured=False, max_checkpoint_ms=None, back_pressured_ms_per_s=None,
        figures={name: Promise(before=None, promised=None) for name in TITLES}, last_vertices={},
    )  # fmt: skip
    (tmp_path / DOCUMENT).write_bytes(msgspec.json.encode(package))
    asked = ["load", "headroom_one_core", "--change", str(tmp_path)]
    assert subject_of(parsed(*asked)).layout.options[interval] == "7 s"
    assert subject_of(parsed(*asked, "--set", f"{interval}=3 s")).layout.options[interval] == "3 s"
    with pytest.raises(InputError, match="nothing"):
        subject_of(parsed("load", "etl", "--change", "nothing"))


def test_an_option_that_changes_buffers_changes_the_layout_as_in_the_file() -> None:
    scenario = scenario_named("headroom_skewed_keys")
    given = ScenarioJob(scenario, {"taskmanager.network.memory.buffers-per-channel": "1"})
    assert given.layout.options["shuffle-service-factory.class"].endswith("ChosenBuffersFactory")
    with pytest.raises(InputError, match="interval"):
        ScenarioJob(scenario, {"execution.checkpointing.interval": "often"})


def test_a_source_without_a_rate_has_no_load() -> None:
    with pytest.raises(InputError, match=r"vertices.source.source.rate: is 0, so the load has no limit"):
        subject_of(parsed("load", "proof"))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["load", "windows:off"], "windows: its sources have no load; choose one of etl, enrich"),
        (["load", "etl:off", "--set", "a.b"], "--set a.b: has no value; write it as OPTION=VALUE"),
        (["outage", "headroom_one_core", "--rate", "9"], "--rate 9: headroom_one_core has rates in its file"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments: list[str], why: str) -> None:
    with pytest.raises(TestbedError, match=why):
        subject_of(parsed(*arguments))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["load", "etl", "--loads", "1,0"], "'0' is not a number above 0"),
        (["load", "etl", "--rate", "fast"], "'fast' is not a number above 0"),
        (["outage", "etl", "--down", "long"], "--down"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(*arguments)
    assert why in capsys.readouterr().err


def test_checkpoints_of_a_window_are_summed_up_with_their_failures() -> None:
    recorded = Recorded()
    path = f"/jobs/{recorded.job}/checkpoints"
    history = recorded.answers[path]["history"][:6]
    began_ms = min(each["trigger_timestamp"] for each in history)
    slow, *_ = sorted(history, key=lambda each: each["end_to_end_duration"])
    slow |= {"status": "FAILED", "failure_message": "Checkpoint expired before completing."}
    recorded.answers[path]["history"] = history
    attempts = attempts_of(recorded, recorded.job, began_ms)
    assert [each.id for each in attempts] == sorted(each["id"] for each in history)
    assert attempts[0].t == 0.0
    assert [each.failure for each in attempts if each.status == "FAILED"] == [slow["failure_message"]]
    durations = sorted(each["end_to_end_duration"] for each in history if each is not slow)
    assert summary(attempts, (0.0, 600.0)) == {
        "completed": 5,
        "failed": 1,
        "unfinished": 0,
        "middle_ms": durations[2],
        "p95_ms": round(durations[3] + 0.8 * (durations[4] - durations[3])),
        "worst_ms": durations[4],
    }
    nothing = summary([Attempt(1, 5.0, "IN_PROGRESS", 9, None)], (0.0, 6.0))
    assert nothing["unfinished"] == 1
    assert nothing["middle_ms"] is None
    assert summary(attempts, (600.0, 700.0))["completed"] == 0


def test_the_work_of_a_window_is_that_of_its_sources_and_of_the_busiest_subtask() -> None:
    pending: list[list[float | None]] = [[5.0 * at for at in range(10)], [None] * 10]
    assert work_in(samples_of(**{PENDING: pending}), (2.0, 9.0)) == {
        "records_per_s": 600.0,
        "pending_growth_per_s": 5.0,
        "busiest": ["sink", 0],
        "busy_share": 0.5,
        "backpressured_ms_per_s": 300.0,
        "backpressured_ms_per_s_mean": 200.0,
    }
    assert set(work_in(samples_of(), (8.0, 9.0)).values()) == {None}


def test_a_job_has_caught_up_when_no_source_lacks_more_than_the_records_of_a_second() -> None:
    limits = limits_of(samples_of(), (2.0, 9.0))
    assert limits == {(0, 0): 200.0, (0, 1): 400.0}
    late: list[float | None] = [*map(float, range(2200, 400, -200)), 400.0]
    assert caught_up(samples_of(**{PENDING: [[0.0] * 10, late]}), limits)
    assert not caught_up(samples_of(**{PENDING: [[0.0] * 10, [*late[:-1], 401.0]]}), limits)
    assert not caught_up(samples_of(**{PENDING: [[0.0] * 10, late[:-1]]}), limits)
    assert not caught_up(samples_of(**{PENDING: [[0.0] * 10, [*late[:-1], None]]}), limits)
    assert not caught_up(samples_of(), limits)
    assert most_pending(samples_of(**{PENDING: [[None, *[7.0] * 9], late]})) == 2200.0
    assert most_pending(samples_of()) is None


def test_a_source_that_was_not_seen_to_emit_cannot_be_judged() -> None:
    with pytest.raises(TestbedError, match="subtask 0 of source has emitted nothing; measure longer"):
        limits_of(samples_of(**{EMITTED: [[0.0] * 10, [0.0] * 10]}), (2.0, 9.0))
    with pytest.raises(TestbedError, match="no source has reported how many records"):
        limits_of(samples_of(**{EMITTED: []}), (2.0, 9.0))


def test_loads_stand_in_a_table() -> None:
    checkpoints = summary([Attempt(1, 0.0, "COMPLETED", 40, None)], (0.0, 1.0))
    figures = work_in(samples_of(), (2.0, 9.0)) | {"checkpoints": checkpoints}
    unknown = work_in(samples_of(), (8.0, 9.0)) | {"checkpoints": summary([], (0.0, 1.0))}
    assert table_of({"load 1": figures, "at limit": unknown}).splitlines() == [
        "          records/s  busy  busiest  waiting  middle  p95  worst  done  failed",
        "load 1    600.0      0.5   sink 0   300.0    40      40   40     1     0",
        "at limit  ?          ?     ?        ?        ?       ?    ?      0     0",
        "waiting: back-pressure of the slowest source subtask, ms/s. Checkpoints: ms.",
    ]
