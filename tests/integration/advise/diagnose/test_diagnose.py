"""``netstack diagnose``: results of runs, and recordings of real Flink jobs, judged on the command line."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from integration import load_scenario
from integration.advise.diagnose.flink_job import diagnose_job
from integration.advise.diagnose.trial import trials
from integration.advise.diagnose.verdict import UNDECIDED, Diagnosis
from integration.base.errors import FlinkRestError
from integration.base.number_text import milliseconds
from integration.cli.app import main
from integration.flink.read.polling import METRICS
from integration.runs.checkpoint_times import window_times
from netstack import (
    Edge,
    GeneratorSpec,
    InputError,
    LinkConditions,
    NetworkConfig,
    Scenario,
    Vertex,
    emulate,
    to_json,
    with_options,
)
from tests.integration.flink.flink_cluster import NAMES, ReplayedCluster, Unserved, recording, replayed

REFERENCES = Path(__file__).parents[3] / "data" / "flink-reference"

Diagnosed = Callable[[Scenario], dict[str, Any]]


@pytest.fixture
def diagnosed(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Diagnosed:
    """Runs a scenario and returns what the command says of its last window."""

    def run(scenario: Scenario) -> dict[str, Any]:
        file = tmp_path / "result.json"
        file.write_bytes(to_json(msgspec.structs.replace(emulate(scenario), wall_seconds=0.1)))
        assert main(["diagnose", str(file), "--json"]) == 0
        document = json.loads(capsysbinary.readouterr().out)
        assert document["schema"] == "netstack.diagnosis/1"
        return dict(document["windows"][-1])

    return run


def rules(window: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in window["findings"]}


def reference(name: str, duration_s: float) -> Scenario:
    scenario = load_scenario(REFERENCES / f"{name}.toml")
    return dataclasses.replace(scenario, duration_s=duration_s, phases=())


def two_by_two(link: LinkConditions, service_s: float) -> Scenario:
    return Scenario(
        name="two by two",
        duration_s=12.0,
        warmup_s=4.0,
        config=NetworkConfig(checkpoint_interval_s=2.0),
        link=link,
        vertices=(
            Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=1013)),
            Vertex(name="consumer", parallelism=2, service=((0.0, service_s),)),
        ),
        edges=(Edge(source="source", target="consumer"),),
    )


@cache
def slow_consumer() -> bytes:
    """The result of a job whose consumer limits it, as a document."""
    return to_json(emulate(two_by_two(LinkConditions(), 1e-3)))


def test_a_slow_operator_and_the_data_before_it(diagnosed: Diagnosed) -> None:
    window = diagnosed(reference("2x2_200KBs_off", 40.0))
    assert window["verdict"] == "operator bound, at stage1"
    assert {"operator-bound", "long-start-delay", "back-to-back", "input-full-output-free"} == rules(window)
    for finding in window["findings"]:
        assert list(finding) == ["rule", "severity", "where", "says", "evidence", "next"]


def test_the_last_of_two_stages_is_found(diagnosed: Diagnosed) -> None:
    window = diagnosed(reference("2x2x2_1MBs_depth2_off", 24.0))
    assert window["verdict"] == "operator bound, at stage2"
    assert {"where": "stage1", "rule": "both-pools-full"}.items() <= window["findings"][2].items()


@pytest.mark.parametrize(
    ("link", "evidence"),
    [
        (LinkConditions(latency_s=0.05), "in a round trip of 100 ms"),
        (LinkConditions(bandwidth_bytes_per_s=2.5e6), " of the bandwidth of 2.38 MiB/s is used"),
    ],
)
def test_a_slow_network(diagnosed: Diagnosed, link: LinkConditions, evidence: str) -> None:
    window = diagnosed(two_by_two(link, 20e-6))
    assert window["verdict"] == "network bound, at source -> consumer"
    assert evidence in window["findings"][0]["evidence"][-1]


def test_a_skewed_vertex(diagnosed: Diagnosed) -> None:
    window = diagnosed(reference("4x4_1MBs_skewed_consumers_off", 30.0))
    assert {"some-readers-full", "skewed-cost"} <= rules(window)
    assert any("stage1[3] cannot keep up" in finding["says"] for finding in window["findings"])


def test_unequal_sources_align_long(diagnosed: Diagnosed) -> None:
    window = diagnosed(reference("4x4_1MBs_skewed_sources", 24.0))
    assert {"unequal-writers", "long-alignment"} <= rules(window)


def test_a_job_that_keeps_up(diagnosed: Diagnosed) -> None:
    window = diagnosed(reference("2x2_unsaturated_on100ms", 24.0))
    assert window["verdict"] == "input bound"
    assert {finding["severity"] for finding in window["findings"]} == {"fine"}


def test_the_text_fits_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(slow_consumer())
    assert main(["diagnose", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "consumer limits the throughput: it is always busy, and upstream tasks wait."
    assert re.fullmatch(
        r"Checkpoints take [\d.]+ m?s \(95 %: [\d.]+ m?s, slowest [\d.]+ m?s\), mostly start delay: "
        r"barriers wait behind queued data\.",
        " ".join(lines[1 : lines.index("")]),
    )
    assert lines[3:5] == ["", "problem  consumer"]
    assert lines[5].startswith("  evidence: busy 100 %")
    assert [line for line in lines if line.startswith("  action: ")]
    assert lines[-1] == f"next: netstack diagnose {file} --verbose"
    assert max(map(len, lines[:-1])) <= 80
    assert "notice" not in "\n".join(lines)


def test_verbose_adds_all_findings_the_rules_and_the_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(slow_consumer())
    assert main(["diagnose", str(file), "--verbose"]) == 0
    text = capsys.readouterr().out
    assert "problem  consumer  [operator-bound]" in text
    assert "notice  consumer  [input-full-output-free]" in text
    assert "Window: 4-12 s, 4 checkpoints." in text
    assert re.search(r"Source: two by two, flink-2\.3, seed 1, virtual clock, netstack ", text)


def test_a_job_that_nothing_limits_is_said_to_be_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(to_json(emulate(reference("2x2_unsaturated_on100ms", 24.0))))
    assert main(["diagnose", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "No task limits the throughput: the job is as fast as its input."
    assert re.fullmatch(
        r"Checkpoints take \d+ ms \(95 %: \d+ ms, slowest \d+ ms\), which is short\.", lines[1]
    )
    assert "problem" not in "\n".join(lines)


def test_assumptions_about_a_running_job_come_after_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    with replayed("flink-2.2.1_2x2_200KBs_on1s") as cluster:
        assert main(["diagnose", "--from-flink", cluster.url]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("Assumptions")
    assert lines[place - 2] == f"next: netstack tune --from-flink {cluster.url}"
    latency = "Latency between task managers is not reported; assuming loopback. Set --latency to override."
    assert f"  {latency}" in lines[place:]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a file (a result, a scenario or a recording), or a cluster with --from-flink"),
        (["missing.json"], "missing.json: there is no such file"),
        (["missing.json", "--job", "a"], "--job can be used only with --from-flink"),
        (["missing.json", "--from-flink", "http://localhost:1"], "give either a file"),
        (["--from-flink", "http://localhost:1", "--latency", "soon"], "--latency: 'soon'"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_result_with_a_broken_scenario_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(slow_consumer())
    document["scenario"]["link"] = {"latency": "soon"}
    file = tmp_path / "result.json"
    file.write_text(json.dumps(document))
    assert main(["diagnose", str(file)]) == 2
    assert "the scenario in the result is not valid" in capsys.readouterr().err


def test_an_emulated_result_tells_of_exclusive_and_floating_buffers(diagnosed: Diagnosed) -> None:
    window = diagnosed(reference("2x2_200KBs_off", 40.0))
    pools = next(finding for finding in window["findings"] if finding["rule"] == "input-full-output-free")
    assert pools["evidence"][-1] == (
        "100 % of the floating buffers and 100 % of the exclusive buffers are used: data waits on all "
        "or most channels"
    )
    assert window["not_known"] == []


def test_advice_is_tried_out_where_a_run_takes_little(diagnosed: Diagnosed) -> None:
    scenario = reference("2x2_200KBs_off", 40.0)
    window = diagnosed(scenario)
    finding = next(found for found in window["findings"] if found["rule"] == "long-start-delay")
    for step, changes in zip(
        finding["next"], ({"debloat_enabled": True}, {"unaligned_enabled": True}), strict=True
    ):
        changed = dataclasses.replace(scenario, config=with_options(scenario.config, changes))
        times = window_times(emulate(changed))
        assert times is not None
        assert f"a checkpoint takes {milliseconds(times.end_to_end_ms)} instead of " in step
        assert re.search(r"emulated in [0-9.]+ s: ", step)


@pytest.mark.parametrize(
    "change",
    [
        {"wall_seconds": 5.0},
        {"clock": "real"},
        {"failure": "it failed"},
        {"debloat_policy": "os:system"},
    ],
)
def test_advice_on_a_job_that_is_not_to_be_run_again_is_not_tried(change: dict[str, Any]) -> None:
    result = emulate(reference("2x2_200KBs_off", 30.0))
    if "debloat_policy" in change:
        config = dataclasses.replace(result.scenario.config, **change)
        change = {"scenario": dataclasses.replace(result.scenario, config=config)}
    (tried,) = trials(msgspec.structs.replace(result, **change))
    assert tried({"debloat_enabled": True}) is None


def test_a_result_is_read_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = slow_consumer()
    for content, status in ((document, 0), (b"{", 2)):
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(content)))
        assert main(["diagnose", "-"]) == status
    printed = capsys.readouterr()
    assert printed.out.startswith("consumer limits the throughput")
    assert "/dev/stdin: is not a JSON result of netstack run" in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(("version", "exclusive"), [("2.2.1", 100), ("1.20.5", 100)])
def test_a_real_flink_job_is_judged_by_the_same_rules(version: str, exclusive: int) -> None:
    with replayed(f"flink-{version}_2x2_200KBs_on1s") as cluster:
        diagnosis = diagnose_job(cluster.url, watch_s=0.0)
    (window,) = diagnosis.windows
    assert f"Flink {version}" in diagnosis.of
    assert window.verdict == "operator bound, at stage1"
    pools = next(finding for finding in window.findings if finding.rule == "input-full-output-free")
    assert pools.evidence[-1] == (
        f"100 % of the floating buffers and {exclusive} % of the exclusive buffers are used: data waits "
        "on all or most channels"
    )
    assert window.not_known == []


def test_what_flinks_web_ui_shows_stands_in_for_metrics_that_are_gone() -> None:
    cluster = ReplayedCluster(recording("flink-2.2.1_2x2_200KBs_on1s"))
    take_away(cluster, lambda vertex, subtask, metric: metric.endswith("TimeMs"))
    (window,) = diagnose_job(Unserved(cluster), watch_s=0.0).windows
    cluster.forget("/backpressure")
    blind = diagnose_job(Unserved(cluster), watch_s=0.0)
    assert window.verdict == "operator bound, at stage1"
    bound = next(finding for finding in window.findings if finding.rule == "operator-bound")
    assert "upstream back-pressured: source 100 % (HIGH)" in bound.evidence[0]
    assert blind.windows[0].verdict == UNDECIDED
    steps = [step for finding in blind.windows[0].findings for step in finding.next]
    assert not any("no task is back-pressured" in step for step in steps)
    assert blind.windows[0].not_known[:2] == [
        "back-pressured time of source, stage1; so it is unknown which vertex has to wait",
        "busy time of source, stage1; so it is unknown which vertex makes others wait",
    ]


def test_the_word_high_alone_is_evidence_too() -> None:
    cluster = ReplayedCluster(recording("flink-2.2.1_2x2_200KBs_on1s"))
    take_away(cluster, lambda vertex, subtask, metric: metric == "accumulateBackPressuredTimeMs")
    path = f"/jobs/{cluster.job}/vertices/{cluster.vertex('source')}/backpressure"
    cluster.answers[path] = {"status": "ok", "backpressureLevel": "high"}
    diagnosis = diagnose_job(Unserved(cluster), watch_s=0.0)
    (window,) = diagnosis.windows
    assert window.verdict == "operator bound, at stage1"
    assert any(
        "source, stage1: metrics do not report how the time is spent; assuming the shares that "
        "/backpressure reported at one moment." in note
        for note in diagnosis.notes
    )


Gone = Callable[[str, int, str], bool]


def take_away(cluster: ReplayedCluster, gone: Gone) -> None:
    """Drop every metric of a subtask for which `gone` says so, and what the vertex says it has counted."""
    for path in list(cluster.answers):
        found = re.fullmatch(rf"/jobs/{cluster.job}/vertices/(\w+)/subtasks/(\d+)/metrics(\?get=\*)?", path)
        if found is None:
            continue
        rounds = cluster.answers[path] if found[3] else [cluster.answers[path]]
        kept = [
            [entry for entry in entries if not gone(found[1], int(found[2]), entry["id"])]
            for entries in rounds
        ]
        cluster.answers[path] = kept if found[3] else kept[0]


METRIC = re.compile("|".join(pattern for patterns in METRICS.values() for pattern in patterns))
"""Names of the metrics that are read for a subtask."""

ACCOUNT = {"accumulateBusyTimeMs", "accumulateIdleTimeMs", "accumulateBackPressuredTimeMs"}
PHASE_FIELDS = ("start_delay", "alignment", "checkpoint", "end_to_end_duration", "unaligned_checkpoint")


@cache
def fired_with_all(name: str) -> set[tuple[str, str]]:
    return fired_by(diagnose_job(Unserved(ReplayedCluster(recording(name))), watch_s=0.0))


def fired_by(diagnosis: Diagnosis) -> set[tuple[str, str]]:
    (window,) = diagnosis.windows
    return {(found.rule, found.where) for found in window.findings}


def without(name: str, gone: Gone) -> ReplayedCluster:
    cluster = ReplayedCluster(recording(name))
    take_away(cluster, gone)
    return cluster


def without_fields(cluster: ReplayedCluster, fields: list[str]) -> None:
    """Drop what each subtask says of the phases of its checkpoints."""
    for path in filter(re.compile("/checkpoints/details/.*/subtasks/").search, cluster.answers):
        for subtask in cluster.answers[path]["subtasks"]:
            for field in fields:
                subtask.pop(field, None)


def or_weaker(fired: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Add the weaker finding that replaces one if it is unknown whether others wait for a busy vertex."""
    bound = ("operator-bound", "near-its-limit")
    return fired | {("at-its-limit", where) for rule, where in fired if rule in bound}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32), part=st.sampled_from([0.05, 0.3, 0.7, 1.0]))
def test_taking_metrics_away_never_makes_a_rule_fire(name: str, seed: int, part: float) -> None:
    """Each metric is there of all subtasks or of none, so none of them is silent while others go on."""
    chance = Random(seed)
    fates: dict[str, bool] = {}

    def gone(vertex: str, subtask: int, metric: str) -> bool:
        return fates.setdefault(metric, chance.random() < part and METRIC.fullmatch(metric) is not None)

    cluster = without(name, gone)
    if chance.random() < 0.5:
        cluster.forget("/backpressure")
    without_fields(cluster, [field for field in PHASE_FIELDS if chance.random() < part / 2])
    diagnosis = diagnose_job(Unserved(cluster), watch_s=0.0)
    assert fired_by(diagnosis) <= or_weaker(fired_with_all(name))
    assert diagnosis.windows[0].not_known or diagnosis.notes or not any(fates.values())


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32))
def test_a_subtask_that_tells_nothing_is_refused_just_where_another_goes_on(name: str, seed: int) -> None:
    """The metrics of a vertex are those of its first subtask; one that reports its whole time is used."""
    chance = Random(seed)
    parts: dict[tuple[str, int], float] = {}
    told: dict[tuple[str, int], set[str]] = {}
    fates: dict[tuple[str, int, str], bool] = {}

    def gone(vertex: str, subtask: int, metric: str) -> bool:
        part = parts.setdefault((vertex, subtask), chance.choice((0.0, 0.1, 0.6, 1.0)))
        # Rates are not asked for of a young job.
        away = metric.endswith("PerSecond") or (METRIC.fullmatch(metric) and chance.random() < part)
        fate = fates.setdefault((vertex, subtask, metric), bool(away))
        if METRIC.fullmatch(metric) and not fate:
            told.setdefault((vertex, subtask), set()).add(metric)
        return fate

    cluster = without(name, gone)
    asked = {vertex: told.get((vertex, 0), set()) for vertex, _ in parts}
    heard = {task: told.get(task, set()) & asked[task[0]] for task in parts if asked[task[0]]}
    silent = [task for task, metrics in heard.items() if not metrics]
    if silent and any(metrics >= ACCOUNT for metrics in heard.values()):
        with pytest.raises(FlinkRestError, match="stopped reporting while others continued") as refused:
            diagnose_job(Unserved(cluster), watch_s=0.0)
        names = {each["id"]: each["name"] for each in cluster.answers[f"/jobs/{cluster.job}"]["vertices"]}
        assert any(f"subtask {task} of {names[vertex]!r}" in str(refused.value) for vertex, task in silent)
    else:
        assert fired_by(diagnose_job(Unserved(cluster), watch_s=0.0)) <= or_weaker(fired_with_all(name))


def test_a_flink_job_without_these_metrics_is_judged_by_the_others() -> None:
    cluster = ReplayedCluster(recording("flink-2.2.1_2x2x2_1MBs_depth2_off"))
    for name in ("source", "stage1", "stage2"):
        for subtask in (0, 1):
            path = f"/jobs/{cluster.job}/vertices/{cluster.vertex(name)}/subtasks/{subtask}/metrics?get=*"
            cluster.answers[path] = [
                [entry for entry in entries if "BuffersUsage" not in entry["id"]]
                for entries in cluster.answers[path]
            ]
    (window,) = diagnose_job(Unserved(cluster), watch_s=0.0, latency_s=0.001).windows
    assert window.verdict == "operator bound, at stage2"
    evidence = [line for finding in window.findings for line in finding.evidence]
    assert any(line.startswith("at least 100 % of the floating") for line in evidence)


def test_an_unreachable_cluster_is_a_clear_error() -> None:
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9"):
        diagnose_job("http://127.0.0.1:9")
