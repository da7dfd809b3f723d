"""``netstack tune``, from a file to the lines to paste, its documents and its page."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from integration.advise.tune.change_package import FILES, read_package
from integration.base.number_text import milliseconds
from integration.cli import job_to_run
from integration.cli import tune as command_tune
from integration.cli.app import main
from integration.show.terminal.console import WIDTH
from tests.integration.advise.tune import changed_job
from tests.integration.advise.tune.made_up import SCENARIO as MADE_UP
from tests.integration.advise.tune.made_up import measures, recommendation
from tests.integration.flink.flink_cluster import replayed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIO = """
name = "slow"
duration = "21 s"
warmup = "3 s"

[flink]
"execution.checkpointing.interval" = "1 s"

[[vertices]]
name = "source"
source = { record_bytes = 996 }

[[vertices]]
name = "sink"
service = "2 ms"

[[edges]]
from = "source"
to = "sink"
"""

ENABLED = "taskmanager.network.memory.buffer-debloat.enabled"
TARGET = "taskmanager.network.memory.buffer-debloat.target"

Arguments = list[str]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Arguments:
    """A sweep that has been run: the same command finds all its points."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "slow.toml").write_text(SCENARIO, "utf-8")
    command = ["tune", str(folder / "slow.toml"), "--target", "20ms,300ms", "--min-throughput", "0.9"]
    command += ["--only", "debloating", "--only", "unaligned", "--seeds", "2", "--out", str(folder / "out")]
    assert main(command) == 0
    return command


def out_of(command: Arguments) -> Path:
    return Path(command[command.index("--out") + 1])


def again(command: Arguments, folder: Path) -> Arguments:
    """Return the same command with another output folder, which has the finished points already."""
    shutil.copytree(out_of(command) / "points", folder / "points")
    return [*command[: command.index("--out")], "--out", str(folder)]


def document(command: Arguments) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out_of(command) / "tuning.json").read_bytes())
    return found


def test_the_setting_to_take_is_one_that_is_fast_and_costs_nothing(tuned: Arguments) -> None:
    (found,) = document(tuned)["recommendations"]
    times = {one["name"]: one["figures"]["end_to_end_ms"]["mean"] for one in found["settings"]}
    assert (found["verdict"], found["chosen"]) == ("set", "target 20 ms")
    assert times["now"] > 2 * times["target 20 ms"]
    assert found["configuration"] == [f"{ENABLED}: true", f"{TARGET}: 20 ms"]


def test_every_number_can_be_traced(tuned: Arguments) -> None:
    found = document(tuned)
    assert found["schema"] == "netstack.tune/3"
    assert found["scenario"]["name"] == "slow"
    assert found["command"].startswith("netstack tune ")
    points = found["points"]
    seeds = {(point["labels"]["setting"], point["seed"]) for point in points if point["probe"] == "main"}
    for setting in found["recommendations"][0]["settings"]:
        assert {seed for name, seed in seeds if name == setting["name"]} == set(setting["seeds"])
    assert [point["labels"]["setting"] for point in points if point["probe"] == "step"] == ["target 20 ms"]
    assert all(point["status"] == "finished" and "netstack" in point["versions"] for point in points)


@pytest.mark.long
def test_points_are_kept_and_not_run_again(
    tuned: Arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pictures(monkeypatch)
    command = again(tuned, tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in (out_of(command) / "points").iterdir()}
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommendations"] == document(tuned)["recommendations"]
    assert {path: path.stat().st_mtime_ns for path in (out_of(command) / "points").iterdir()} == kept
    assert len(kept) == len(found["points"])


def test_ctrl_c_says_where_the_points_are_that_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(job_to_run, "run_points", interrupted)
    file, out = tmp_path / "slow.toml", tmp_path / "out"
    file.write_text(SCENARIO, "utf-8")
    assert main(["tune", str(file), "--out", str(out)]) == 130
    assert f"finished points are in {out / 'points'}; the same command continues" in capsys.readouterr().err
    assert main(["tune", str(file)]) == 130
    assert "kept" not in capsys.readouterr().err


def test_text_for_people_fits_the_terminal_and_has_lines_to_paste(
    tuned: Arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pictures(monkeypatch)
    assert main(again(tuned, tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Set the debloat target to 20 ms: ")
    assert max(len(line) for line in lines if not line.startswith("next: ")) <= WIDTH
    assert f"  {ENABLED}: true" in lines
    rows = [line for line in lines if line.startswith(("now: ", "target ", "unaligned"))]
    assert [row.split("  ")[0] for row in rows][:3] == [
        "now: debloating off",
        "target 20 ms",
        "target 20 ms, unaligned",
    ]
    assert [row.split()[-1] for row in rows].count("set") == 1
    assert (
        lines[-1]
        == f"next: netstack verify {tmp_path}/change --from-flink http://HOST:8081  # after the change"
    )


@pytest.mark.long
def test_records_larger_than_their_buffers_are_reported(
    tuned: Arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pictures(monkeypatch)
    (pitfall,) = document(tuned)["pitfalls"]
    assert (pitfall["name"], pitfall["vertex"]) == ("large-records", "sink")
    assert "target 20 ms" in pitfall["settings"]
    main([*again(tuned, tmp_path), "--verbose"])
    assert "large-records: records are larger than the debloated buffers" in capsys.readouterr().out


def test_where_no_setting_keeps_to_a_limit_the_nearest_is_named(
    tuned: Arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pictures(monkeypatch)
    assert main([*again(tuned, tmp_path), "--max-checkpoint", "1ms"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("No setting keeps to all limits. The nearest is ")
    assert text.splitlines()[-1].endswith(" --verbose")
    assert not [line for line in text.splitlines() if line.startswith("  taskmanager")]


@pytest.mark.spark
def test_over_spark_it_finds_the_same(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "short.toml").write_text(SCENARIO.replace("21 s", "8 s"), "utf-8")
    command = ["tune", str(tmp_path / "short.toml"), "--only", "unaligned", "--seeds", "1", "--json"]
    found = []
    for name, more in (("here", []), ("spark", ["--master", "local[2]"])):
        assert main([*command, "--out", str(tmp_path / name), *more]) == 0
        found.append(json.loads(capsys.readouterr().out)["recommendations"])
    here, over_spark = found
    assert over_spark == here
    assert {"now", "unaligned"} <= {one["name"] for one in here[0]["settings"]}


def test_the_page_has_recommendation_pictures_and_origin(tuned: Arguments) -> None:
    page = (out_of(tuned) / "report.html").read_text("utf-8")
    (found,) = document(tuned)["recommendations"]
    for text in (*found["configuration"], "What to set for slow", "now (debloating off)", found["chosen"]):
        assert text in page
    (chosen,) = [each for each in found["settings"] if each["name"] == found["chosen"]]
    mean = milliseconds(
        chosen["figures"]["end_to_end_ms"]["mean"]
    )  # in the verdict and in the picture's title
    assert f"checkpoints take {mean} " in found["words"][0]
    assert re.search(rf"A checkpoint takes: .*, {mean} \({found['chosen']}\)", page.replace("\xa0", " "))
    assert page.count(document(tuned)["command"].replace("'", "&#39;")) == 1
    for picture in ("trade-off", "times-by-target", "checkpoint-history", "in-flight-time", "buffer-size"):
        assert (out_of(tuned) / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
        assert f'id="{picture}"' in page


def test_the_change_package_has_the_change_and_its_promise(tuned: Arguments) -> None:
    folder = out_of(tuned) / "change"
    assert {path.name for path in folder.iterdir()} == set(FILES)
    package, (found,) = read_package(folder), document(tuned)["recommendations"]
    assert [each.line for each in package.changes] == found["configuration"]
    (chosen,) = [each for each in found["settings"] if each["name"] == found["chosen"]]
    assert package.figures["checkpoint_ms"].promised == chosen["figures"]["end_to_end_ms"]["mean"]
    assert package.last_vertices == {"sink": ""}
    config = (folder / "config.yaml").read_text("utf-8")
    assert config.endswith("\n".join(["", *found["configuration"], ""]))


def test_the_change_is_printed_as_a_patch_with_its_restart_and_the_verification(
    tuned: Arguments, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pictures(monkeypatch)
    assert main([*again(tuned, tmp_path), "--as", "kubernetes"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    at = lines.index("  spec:")
    assert lines[at : at + 6] == [
        "  spec:",
        "    flinkConfiguration:",
        f'      {ENABLED}: "true"',
        f'      {TARGET}: "20 ms"',
        "",
        "Restart the task managers: they read these options only when they start.",
    ]
    following = f"netstack verify {tmp_path}/change --from-flink http://HOST:8081  # after the change"
    assert lines[-1] == f"next: {following}"
    assert f"wrote {tmp_path}/change, the change package" in printed.err


def test_without_a_change_there_is_no_package_and_an_older_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_to_run.JobToRun(MADE_UP, [], [], [])
    folder = tmp_path / "change"
    kept = recommendation(lambda name, seed: measures(300.0))
    nothing = "wrote no change package, because the recommendation changes no option of Flink"
    assert command_tune._write_package(folder, [kept], job, 1.0) is None
    assert capsys.readouterr().err == f"{nothing}\n"
    assert not folder.exists()
    changed = recommendation()
    assert command_tune._write_package(folder, [changed], job, 1.0) == folder
    capsys.readouterr()
    assert command_tune._write_package(folder, [kept], job, 1.0) is None
    assert capsys.readouterr().err == f"{nothing}; {folder} is of an earlier call\n"
    for several, why in (
        ([changed, changed], "there are several recommendations"),
        (
            [msgspec.structs.replace(changed, conditions={"heartbeat.timeout": "5 s"})],
            "the recommendation holds for heartbeat.timeout 5 s only",
        ),
    ):
        assert command_tune._write_package(tmp_path / "other", several, job, 1.0) is None
        assert capsys.readouterr().err == f"wrote no change package, because {why}\n"


def test_a_promise_for_another_load_than_that_of_the_job_is_not_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported = changed_job.read(changed_job.cluster({}))
    job = job_to_run.JobToRun(imported.scenario, [], [], [], imported=imported)
    assert command_tune._write_package(tmp_path / "change", [recommendation()], job, 1.5) is None
    assert "its promise would be for 1.5 times the load that the job has" in capsys.readouterr().err


@pytest.mark.long
def test_a_running_job_is_tuned_as_a_file_is(capsys: pytest.CaptureFixture[str]) -> None:
    with replayed("flink-1.20.5_2x2_200KBs_on1s") as cluster:
        cluster.let_queue_grow("stage1")
        command = ["tune", "--from-flink", cluster.url, "--watch", "0 s", "--target", "200ms"]
        command += ["--only", "debloating", "--seeds", "2"]
        assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (recommendation,) = found["recommendations"]
    assert found["scenario"]["preset"] == "flink-1.20"
    assert recommendation["present"] == "target 1 s"
    assert recommendation["chosen"] == "target 200 ms"
    assert any("buffer timeout" in note for note in found["notes"])
    reported, grew = recommendation["words"][1:3]
    assert reported.startswith("Flink reports that checkpoints take ")
    assert grew.startswith("The queue before stage1 grew: the wait of its barriers rose by ")
    assert not any("The queue before" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "netstack tune: give either a scenario, or a Flink cluster with --from-flink"),
        (["FILE", "--job", "1"], "netstack tune: --job can be used only with --from-flink; give"),
        (["FILE", "--min-throughput", "99"], "--min-throughput is 99; it must be a share from 0 to 1"),
        (
            ["FILE", "--max-delay", "3x"],
            "netstack tune: --max-delay: '3x' has the unknown unit 'x'; known units are ",
        ),
        (
            ["FILE", "--max-checkpoint", "2"],
            """--max-checkpoint: '2' has no unit; it must be a time such as "2 ms" or "2 s\"""",
        ),
        (["FILE", "--max-delay", "250"], "--max-delay: '250' has no unit; it must be a time such as"),
        (["FILE", "--max-checkpoint", "0s"], "netstack tune: --max-checkpoint is 0s; it must be more than 0"),
        (["FILE", "--set", f"{TARGET}=1s"], f"--set: {TARGET} conflicts with the debloat targets"),
        (
            ["FILE", "--max-stored", "512"],
            "netstack tune: --max-stored: '512' has no unit; it must be a size",
        ),
        (["FILE", "--only", "nothing"], "debloating"),
        (["FILE", "--flink", "newest"], "--flink: 'newest' is not a version of Flink; it must be"),
        (["FILE", "--only", "unaligned", "--target", "1s"], "are for debloating, but --only excludes it"),
        (["FILE", "--target", "1s,nan"], "netstack tune: --target: 'nan' is not a whole number with a unit"),
        (["FILE", "--target", "0ms"], "netstack tune: --target is 0ms; it must be more than 0"),
        (
            ["FILE", "--policy", "flink,os:system"],
            "netstack tune: --policy: 'os:system' is not a class derived from flowcontrol.DebloatPolicy",
        ),
        (
            ["FILE", "--latency", "1ms", "--service", "2ms"],
            "netstack tune: --service and --latency can be used only with --from-flink",
        ),
        (["FILE", "--seeds", "0"], "netstack tune: --seeds is 0; it must be at least 1"),
        (
            ["FILE", "--seeds", "99999999999999999999"],
            "netstack tune: --seeds is 99999999999999999999; it must be at most 100,000",
        ),
        (["FILE", "--from-flink", "http://127.0.0.1:1"], "give either a scenario"),
        (["--from-flink", "http://127.0.0.1:1"], "http://127.0.0.1:1: cannot be reached"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: Arguments, message: str
) -> None:
    file = tmp_path / "slow.toml"
    file.write_text(SCENARIO, "utf-8")
    assert main(["tune", *(str(file) if argument == "FILE" else argument for argument in arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_points_that_cannot_be_kept_are_found_out_before_any_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slow.toml").write_text(SCENARIO, "utf-8")
    (tmp_path / "points").write_text("", "utf-8")
    assert main(["tune", str(tmp_path / "slow.toml"), "--out", str(tmp_path)]) == 2
    assert "points: cannot create this folder" in capsys.readouterr().err


def test_a_limit_for_checkpoints_that_are_never_taken_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "slow.toml"
    file.write_text(SCENARIO.replace('"execution.checkpointing.interval" = "1 s"', ""), "utf-8")
    assert main(["tune", str(file), "--max-checkpoint", "1s"]) == 2
    assert capsys.readouterr().err == "netstack tune: --max-checkpoint: slow takes no checkpoints\n"


def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no PNG: that takes longest, and other tests check it."""
    monkeypatch.setattr("integration.show.page.pages.to_png", lambda chart: b"")
    monkeypatch.setattr("integration.cli.tune.runs_to_show", lambda *arguments: {})
