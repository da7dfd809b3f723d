"""Change packages: the files to apply, to undo and to watch, and what they promise."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from integration.advise.tune.change_package import (
    CHECKPOINT,
    FAILED,
    FILES,
    RATE,
    ChangePackage,
    files_of,
    package_of,
    read_package,
)
from integration.advise.tune.option_changes import option_changes
from integration.base.errors import FileError
from integration.cli.app import main
from tests.integration.advise.tune.changed_job import BEFORE, ENABLED, TARGET, cluster, figures, package, read
from tests.integration.advise.tune.changed_job import RATE as READ
from tests.integration.advise.tune.made_up import measures, recommendation


def texts(found: ChangePackage) -> dict[str, str]:
    return {name: content.decode() for name, content in files_of(found, b"{}").items()}


def test_the_patch_and_the_lines_make_the_change() -> None:
    found = texts(package())
    assert yaml.safe_load(found["config.yaml"]) == {ENABLED: True, TARGET: "300 ms"}
    patch = yaml.safe_load(found["flinkdeployment-patch.yaml"])
    assert patch == {"spec": {"flinkConfiguration": {ENABLED: "true", TARGET: "300 ms"}}}


def test_the_lines_are_a_configuration_without_findings(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(texts(package())["config.yaml"])
    assert main(["lint", str(file)]) == 0


def test_the_way_back_restores_what_was_configured_and_removes_what_was_not() -> None:
    found = texts(package())
    patch = yaml.safe_load(found["revert-patch.yaml"])
    assert patch == {"spec": {"flinkConfiguration": {ENABLED: "false", TARGET: None}}}
    assert yaml.safe_load(found["revert-config.yaml"]) == {ENABLED: False}
    assert f"# Remove the line {TARGET}: 300 ms\n" in found["revert-config.yaml"]


def test_where_flink_reports_no_configuration_the_way_back_sets_the_values_in_force() -> None:
    made = cluster({})
    made.answers["/jobmanager/config"] = []
    patch = yaml.safe_load(texts(package(read(made)))["revert-patch.yaml"])
    assert patch == {"spec": {"flinkConfiguration": {ENABLED: "false", TARGET: "1 s"}}}


def test_an_option_that_the_job_sets_itself_is_named() -> None:
    made = cluster({**BEFORE, "execution.checkpointing.interval": None})
    before = read(made)
    longer = option_changes({"checkpoint_interval_s": 20.0}.items(), before.scenario.config)
    advised = msgspec.structs.replace(recommendation(figures, before.scenario), changes=longer)
    found = package_of(advised, ["stage1"], before)
    assert found is not None
    assert found.set_by_job == ["execution.checkpointing.interval"]
    assert (
        "# The job sets execution.checkpointing.interval itself, or its client does"
        in texts(found)["config.yaml"]
    )
    assert package(read(cluster(BEFORE))).set_by_job == []


def test_figures_before_are_measured_and_the_throughput_is_promised_as_a_share_of_them() -> None:
    found = package()
    assert (found.job, found.flink, found.measured) == ("flinklab", "2.2.1", True)
    assert found.figures[CHECKPOINT].before == 1511.5
    assert found.figures[CHECKPOINT].promised == pytest.approx(350, abs=10)
    assert found.figures[RATE].before == READ
    assert found.figures[RATE].promised == pytest.approx(READ * 398 / 400, abs=0.1)
    assert (found.figures[FAILED].before, found.figures[FAILED].promised) == (0, 0)
    assert found.last_vertices == {"stage1": read(cluster(BEFORE)).job.vertices[1].id}


def test_figures_before_of_a_scenario_file_are_emulated() -> None:
    found = package_of(recommendation(figures), ["sink"], None)
    assert found is not None
    assert (found.job, found.name, found.measured) == (None, "made-up", False)
    assert found.figures[CHECKPOINT].before == pytest.approx(6000, abs=10)
    assert found.figures[RATE].promised == pytest.approx(398, abs=0.1)
    assert 'task_name=~".*sink.*"' in texts(found)["watch.promql"]


def test_a_missing_rate_of_a_subtask_makes_the_throughput_before_unknown() -> None:
    made = cluster(BEFORE)
    path = next(path for path in made.answers if made.vertex("stage1") in path and "/0/metrics?get=" in path)
    for entries in made.answers[path]:
        entries[:] = [entry for entry in entries if entry["id"] != "numRecordsIn"]
    assert package(read(made)).figures[RATE].before is None


def test_the_queries_have_the_promised_range_and_match_the_labels_of_flink() -> None:
    named = msgspec.structs.replace(package(), job="word count\n(new)")
    lines = texts(named)["watch.promql"].splitlines()
    assert (
        lines[0] == "# word count (new): what to watch after this change: set the debloat target to 300 ms."
    )
    queries = {line.partition("{")[0]: line for line in lines if line and not line.startswith("#")}
    assert list(queries) == [
        "avg_over_time(flink_jobmanager_job_lastCheckpointDuration",
        "quantile_over_time(0.95, flink_jobmanager_job_lastCheckpointDuration",
        "sum(rate(flink_taskmanager_job_task_numRecordsIn",
        "delta(flink_jobmanager_job_numberOfFailedCheckpoints",
        "avg by (task_name) (avg_over_time(flink_taskmanager_job_task_backPressuredTimeMsPerSecond",
    ]
    for query in queries.values():
        (pattern,) = re.findall(r'job_name=~"(.*?)"', query)
        for label in ("word_count__new_", "wordcountnew", "word count (new)"):
            assert re.fullmatch(pattern, label)
        assert not re.fullmatch(pattern, "word_count")
        assert query.count("(") - query.count(")") == 0
    comment = next(line for line in lines if line.startswith("# Checkpoint: "))
    assert re.fullmatch(
        r"# Checkpoint: mean, in ms\. Promised: 35\d ms, 3\d\d ms to 3\d\d ms\. "
        r"Before: 1\.51 s, measured in Flink\.",
        comment,
    )
    assert "Before: 998 ms/s at the slowest vertex." in lines[-2]


def test_nothing_to_change_makes_no_package() -> None:
    kept = recommendation(lambda name, seed: measures(300.0))
    assert kept.verdict == "keep"
    assert package_of(kept, ["sink"], None) is None


def written(folder: Path, **changes: Any) -> Path:
    """A folder with a package whose document was changed."""
    document = json.loads(msgspec.json.encode(package())) | changes
    (folder / "change.json").write_text(json.dumps(document))
    return folder


def test_a_package_is_read_from_its_folder_and_from_its_document(tmp_path: Path) -> None:
    assert read_package(written(tmp_path)) == read_package(tmp_path / "change.json") == package()
    assert set(texts(package())) == set(FILES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"schema": "netstack.change/9"},
            "its schema is 'netstack.change/9'; it must be 'netstack.change/1'",
        ),
        ({"figures": {}}, "it has no figure checkpoint_ms"),
        ({"changes": 3}, "Expected `array`, got `int` - at `$.changes`"),
        (
            {
                "changes": [
                    {"option": "a.b", "before": None, "configured": None, "after": "1", "restart": "job"}
                ]
            },
            "a.b is not an option that netstack knows",
        ),
        (
            {
                "changes": [
                    {"option": TARGET, "before": None, "configured": None, "after": "x", "restart": "job"}
                ]
            },
            f"{TARGET}: 'x' is not a whole number with a unit",
        ),
    ],
)
def test_another_document_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FileError) as refused:
        read_package(written(tmp_path, **changes))
    (line,) = refused.value.problems
    begin = f"{tmp_path / 'change.json'}: is not a change package, as tune writes it: "
    assert line.startswith(begin + message)


def test_a_folder_without_a_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError) as refused:
        read_package(tmp_path)
    assert refused.value.problems == (
        f"{tmp_path}: holds no change.json; give the folder change that tune writes beside its report",
    )
