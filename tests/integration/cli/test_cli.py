import errno
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET
from rich.console import Console

from integration.base.errors import OutputError
from integration.base.reading import load_result
from integration.cli import exit_status
from integration.cli.app import main
from integration.show.terminal.console import to_stdout
from integration.show.terminal.run import MOST_INCIDENTS, print_head, print_incidents
from integration.storage.directory import DirectoryStorage
from netstack import CostModel, emulate, from_json
from tests.integration.sample_results import unaligned_result
from tests.signals import ended_by

ROOT = Path(__file__).parents[3]
REFERENCES = ROOT / "tests/data/flink-reference"
COMMAND = [sys.executable, "-m", "integration"]

SHORT = """\
name = "short"
duration = "8 s"
warmup = "2 s"

[flink]
"execution.checkpointing.interval" = "1 s"

[[vertices]]
name = "source"
source = { record_bytes = 1000 }

[[vertices]]
name = "stage1"
service = "1 ms"

[[edges]]
from = "source"
to = "stage1"
"""

ENDLESS = SHORT.replace('"8 s"', '"100000 s"')


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return path


@pytest.fixture
def result(scenario, tmp_path, capsys):
    """The file of a result of the scenario."""
    assert main(["run", str(scenario), "--json"]) == 0
    path = tmp_path / "results" / "short.json"
    path.parent.mkdir()
    path.write_text(capsys.readouterr().out)
    return path


def test_run_prints_a_summary_of_80_columns(scenario, capsys):
    assert main(["run", str(scenario)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for text in (
        "short",
        "seed 1",
        "virtual clock",
        "2-8 s",
        "start delay",
        "rec/s",
        "source",
        "stage1",
        "buffers",
    ):
        assert text in out


def test_names_are_printed_as_they_are(scenario, capsys):
    text = SHORT.replace('"short"', '"[bold]a[/b]"').replace('"stage1"', '"[i]stage[/]"')
    scenario.write_text(text)
    assert main(["run", str(scenario)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("[bold]a[/b]  flink-2.3")
    assert "\n[i]stage[/] " in out


def test_json_prints_the_document_alone(scenario):
    process = subprocess.run(
        [*COMMAND, "run", str(scenario), "--json"], cwd=ROOT, capture_output=True, check=True
    )
    result = from_json(process.stdout)
    assert process.stdout.count(b"\n") == 1
    assert (result.scenario.name, result.seed, result.clock) == ("short", 1, "virtual")
    assert result.work.buffers > 0
    assert result.steady[0].end_to_end_ms is not None


def test_a_seed_takes_the_place_of_the_scenarios(scenario, capsys):
    assert main(["run", str(scenario), "--json", "--seed", "7"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["seed"], document["scenario"]["seed"]) == (7, 7)


def test_out_holds_a_page_its_pictures_and_the_document(scenario, tmp_path, capsys):
    out = tmp_path / "deep" / "out"
    assert main(["run", str(scenario), "--out", str(out)]) == 0
    assert capsys.readouterr().err == f"wrote {out / 'report.html'}\n"
    assert {path.suffix for path in out.iterdir()} == {".json", ".html", ".png"}
    assert load_result(out / "short.json").seed == 1


def test_a_result_runs_again_to_the_same(result, capsys):
    first = load_result(result)
    assert main(["run", str(result), "--json"]) == 0
    again = from_json(capsys.readouterr().out)
    assert again == msgspec.structs.replace(first, wall_seconds=again.wall_seconds)


def test_real_time_says_so(tmp_path, capsys):
    path = tmp_path / "short.toml"
    path.write_text(SHORT.replace('"8 s"', '"0.3 s"').replace('"2 s"', '"0 s"'))
    assert main(["run", str(path), "--json", "--real-time"]) == 0
    result = from_json(capsys.readouterr().out)
    assert result.clock == "real"
    assert result.wall_seconds >= 0.3
    assert result.behind_s >= 0.0


@pytest.mark.parametrize(("behind_s", "says"), [(0.05, False), (0.5, True), (UNSET, False)])
def test_a_machine_that_did_not_keep_up_is_told_of(result, behind_s, says):
    late = msgspec.structs.replace(load_result(result), behind_s=behind_s)
    console = Console(file=io.StringIO(), width=80)
    print_head(late, console)
    text = console.file.getvalue()
    assert ("fell behind the clock by 0.5 s of 8 s" in " ".join(text.split())) is says


FAILING = (
    SHORT.replace("[flink]", '[flink]\n"execution.checkpointing.unaligned.enabled" = true')
    + """
[[faults]]
kind = "kill_subtask"
vertex = "stage1"
subtask = 0
at = "4.6 s"
"""
)
"""The job fails once, and restarts from an unaligned checkpoint."""

FAILING_FOR_GOOD = FAILING.replace("[flink]", '[flink]\n"restart-strategy.type" = "none"')


def with_directory(directory: Path | str) -> str:
    return SHORT.replace("[flink]", f'[flink]\n"execution.checkpointing.dir" = "{directory}"')


def test_run_prints_faults_restarts_and_what_became_of_checkpoints(scenario, capsys):
    scenario.write_text(FAILING)
    assert main(["run", str(scenario)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    flat = " ".join(out.split())
    for text in (
        "complete (UNALIGNED_CHECKPOINT)",
        "4.6 s kill subtask subtask stage1[0] is killed",
        "4.6 s failure restored checkpoint",
        "down for 1.",
        "of data in flight. After a failure, to read it back and to process it took up to",
    ):
        assert text in flat


def test_faults_that_never_fired_and_a_job_that_ended_early_are_told(scenario, capsys):
    never = '[[faults]]\nkind = "fill_storage"\nat = "7 s"\n'
    scenario.write_text(FAILING_FOR_GOOD + never)
    assert main(["run", str(scenario)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "1 of 2 faults never occurred: fill_storage" in lines
    assert any(line.startswith("2-4.6 s: ") for line in lines)

    scenario.write_text(FAILING_FOR_GOOD.replace('at = "4.6 s"', 'at = "1.5 s"'))
    assert main(["run", str(scenario)]) == 1
    assert any(
        ": the job ended before this window, after 1.5 s" in line
        for line in capsys.readouterr().out.splitlines()
    )


def test_many_incidents_are_printed_in_part(capsys):
    result = unaligned_result()
    many = [msgspec.structs.replace(result.faults[0], t=float(t)) for t in range(30)]
    print_incidents(msgspec.structs.replace(result, faults=many, restarts=[]), to_stdout())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + MOST_INCIDENTS + 1
    assert lines[-1] == f"... and {30 - MOST_INCIDENTS} more events"


def test_faults_and_restarts_are_in_the_document(scenario, capsys):
    scenario.write_text(FAILING)
    assert main(["run", str(scenario), "--json"]) == 0
    result = from_json(capsys.readouterr().out)
    assert [(fault.t, fault.kind) for fault in result.faults] == [(4.6, "kill_subtask")]
    (restart,) = result.restarts
    assert (restart.failed_at, restart.cause) == (4.6, "subtask stage1[0] is killed")
    # The initial backoff and a tenth of it at most, then deployment.
    assert 5.6 < restart.restarted_at - CostModel().deploy_s <= 5.75
    assert restart.checkpoint_id in {checkpoint.id for checkpoint in result.checkpoints}
    assert result.failure is None


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_job_that_failed_for_good_gives_its_result_a_line_and_status_1(scenario, tmp_path, capsys, option):
    scenario.write_text(FAILING_FOR_GOOD)
    out = tmp_path / "out"
    assert main(["run", str(scenario), "--out", str(out), *option]) == exit_status.FAILED
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        f"wrote {out / 'report.html'}",
        "netstack: short: the job failed for good after 4.6 s: subtask stage1[0] is killed",
    ]
    if option:
        assert from_json(captured.out).failure == "subtask stage1[0] is killed"
    else:
        assert "end of the job" in captured.out
    assert load_result(out / "short.json").failure == "subtask stage1[0] is killed"


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_checkpoints_are_written_where_the_scenario_says(scenario, tmp_path, option):
    directory = tmp_path / "made" / "checkpoints"
    scenario.write_text(with_directory(directory))
    assert main(["run", str(scenario), *option]) == 0
    storage = DirectoryStorage(directory)
    (last,) = storage.checkpoints()
    assert storage.present() == [last]
    assert storage.load(last).job == "short"


def test_checkpoints_of_an_earlier_run_are_left_alone(scenario, tmp_path, capsys):
    directory = tmp_path / "checkpoints"
    scenario.write_text(with_directory(directory))
    assert main(["run", str(scenario)]) == 0
    before = stored_in(directory)
    capsys.readouterr()
    assert main(["run", str(scenario)]) == exit_status.MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert f"flink.execution.checkpointing.dir: {directory} contains chk-" in captured.err
    assert stored_in(directory) == before


def stored_in(directory):
    """All files but the lock, which says who looked last."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "_lock"]
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("directory", ["/proc/nothing/there", "{scenario}", "nothing://there"])
def test_a_directory_that_will_not_do_is_one_line_before_the_run(scenario, capsys, directory):
    scenario.write_text(with_directory(directory.format(scenario=scenario)))
    assert main(["run", str(scenario)]) == exit_status.MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert "short.toml: flink.execution.checkpointing.dir: " in captured.err
    assert ": cannot store checkpoints: " in captured.err


def test_a_comparison_writes_no_checkpoints_and_says_so(scenario, result, tmp_path, capsys):
    directory = tmp_path / "checkpoints"
    scenario.write_text(with_directory(directory))
    assert main(["compare", str(scenario), str(flinks(result)), "--seeds", "1"]) == 0
    assert "execution.checkpointing.dir: has no effect here" in capsys.readouterr().err
    assert not directory.exists()


def test_a_storage_in_memory_needs_no_directory(scenario, tmp_path, capsys):
    text = with_directory(tmp_path / "checkpoints")
    scenario.write_text(text.replace("[flink]", '[flink]\n"execution.checkpointing.storage" = "jobmanager"'))
    assert main(["run", str(scenario)]) == 0
    assert not (tmp_path / "checkpoints").exists()


def test_options_that_flink_2_ignores_are_said_on_stderr(scenario, capsys):
    scenario.write_text(
        SHORT.replace("[flink]", '[flink]\n"taskmanager.network.memory.buffers-per-channel" = 3')
    )
    assert main(["run", str(scenario), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "buffers-per-channel: has an effect in netstack, but a real Flink 2 ignores it" in captured.err
    from_json(captured.out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "FILE"),
        (["run", "nothing.toml"], "nothing.toml: there is no such file"),
        (["run", "{scenario}", "--jsn"], "--json"),
        (["run", "{scenario}", "--seed", "x"], "--seed"),
        (["run", "{scenario}", "--seed", "1.5"], "--seed"),
        (["run", "{scenario}", "--seed", "-1"], "short.toml: seed: is -1"),
        (["run", "{scenario}", "--out", "{scenario}"], "short.toml: cannot create this folder"),
        (["rn"], "Did you mean"),
        (
            ["compare", "{scenario}"],
            "netstack compare: give a scenario or a result, and the reference as last argument",
        ),
        (["compare", "{scenario}", "nothing.json"], "nothing.json: there is no such file"),
        (["compare", "{scenario}", "{scenario}"], "short.toml: is a scenario; the last argument must be the"),
        (["compare", "{scenario}", "{references}"], "short.json: there is no such file"),
        (["compare", "{scenario}", "{folder}", "--seeds", "0"], "--seeds is 0"),
        (["compare", "{scenario}", "{folder}", "--seeds", "2.0"], "--seeds"),
        (["compare", "{folder}/none", "{references}"], "none: there is no such file"),
        (["compare", "{references}/README.md", "{references}"], "README.md"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_status_2(scenario, capsys, arguments, message):
    places = {"scenario": scenario, "references": REFERENCES, "folder": scenario.parent}
    assert main([argument.format(**places) for argument in arguments]) == exit_status.MISTAKE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_a_mistake_in_a_scenario_is_named_with_file_and_key(scenario, capsys):
    scenario.write_text(SHORT.replace("service", "servise"))
    assert main(["run", str(scenario)]) == exit_status.MISTAKE
    expected = f"{scenario}: vertices.stage1.servise: is not a key of this table; did you mean 'service'?\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    "option",
    [
        '"execution.checkpointing.mode" = "AT_LEAST_ONCE"',
        '"execution.checkpointing.unaligned.enabled" = true',
        '"execution.checkpointing.max-concurrent-checkpoints" = 2',
        '"execution.checkpointing.min-pause" = "500 ms"',
    ],
)
def test_checkpoints_of_every_kind_are_run_without_a_word(option, scenario, capsys):
    scenario.write_text(SHORT.replace("[flink]", f"[flink]\n{option}"))
    assert main(["run", str(scenario), "--json"]) == 0
    captured = capsys.readouterr()
    assert "COMPLETED" in {checkpoint["status"] for checkpoint in json.loads(captured.out)["checkpoints"]}
    assert "execution.checkpointing" not in captured.err


def test_options_that_flink_takes_otherwise_are_said_to_be_so(scenario, capsys):
    options = """[flink]
"execution.checkpointing.mode" = "AT_LEAST_ONCE"
"execution.checkpointing.unaligned.enabled" = true
"""
    scenario.write_text(SHORT.replace("[flink]", options))
    assert main(["run", str(scenario)]) == 0
    notice = f"{scenario}: flink.execution.checkpointing.unaligned.enabled: has no effect, as in Flink"
    assert notice in capsys.readouterr().err


def test_a_fault_that_makes_no_sense_is_named_with_its_number(scenario, capsys):
    scenario.write_text(SHORT + '\n[[faults]]\nkind = "kill_task_manager"\ntask_manager = "tm"\nat = "1 s"\n')
    assert main(["run", str(scenario)]) == exit_status.MISTAKE
    assert capsys.readouterr().err.startswith(f"{scenario}: faults.0.task_manager: no task manager is named")


def test_too_little_memory_is_one_line(scenario, capsys):
    scenario.write_text(SHORT.replace("[flink]", '[flink]\n"taskmanager.memory.network.max" = "64 kb"'))
    assert main(["run", str(scenario)]) == exit_status.MISTAKE
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "taskmanager.memory.network.max" in err


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("netstack")


def test_help_names_the_commands(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("compare", "demo", "run"))


def test_the_lines_of_a_help_text_are_filled(capsys):
    assert main(["size", "--help"]) == 0
    assert "--throughput describes a job of one source" in capsys.readouterr().out  # two lines in the code


def interrupted(arguments: list[str], when_stderr_has: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command until it says something on stderr, interrupt it, and wait for its end."""
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert when_stderr_has in first
        out, err = ended_by(process, group=True)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


NOTICED = ENDLESS.replace("[flink]", '[flink]\n"taskmanager.network.memory.buffers-per-channel" = 3')
"""A line about an option comes first, so that a test knows when the run begins."""


def test_ctrl_c_ends_a_run_with_one_line(scenario):
    scenario.write_text(NOTICED)
    process = interrupted(["run", str(scenario)], b"ignores it")
    assert (process.returncode, process.stdout, process.stderr) == (
        130,
        b"",
        b"netstack: stopped\n",
    )


def test_ctrl_c_ends_a_comparison_and_its_processes(scenario, tmp_path):
    scenario.write_text(NOTICED)
    window = {"from_s": 1, "to_s": 2, "end_to_end_ms": None, "persisted_bytes": None, "vertices": []}
    (tmp_path / "short.json").write_text(json.dumps({"steady": [window], "checkpoints": []}))
    process = interrupted(["compare", str(scenario), str(tmp_path)], b"ignores it")
    assert (process.returncode, process.stdout, process.stderr) == (
        130,
        b"",
        b"netstack: stopped\n",
    )


IMPORTS = """
import sys
from integration.cli.app import main
from integration.base.stopping import STOP
before = set()
begins = STOP.work_begins
STOP.work_begins = lambda: (before.update(sys.modules), begins())
assert main(["run", sys.argv[1], "--json"]) == 0
assert "netstack" in before
files = [str(getattr(sys.modules[name], "__file__", "")) for name in set(sys.modules) - before]
sys.stderr.write("".join(sorted(file for file in files if file.endswith((".so", ".pyd")))))
"""


def test_a_run_imports_no_compiled_module_which_would_swallow_a_ctrl_c(scenario):
    command = [sys.executable, "-c", IMPORTS, str(scenario)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert process.stderr == b""


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_full_disk_is_one_line_and_status_2(scenario, option):
    with Path("/dev/full").open("wb") as full:
        process = subprocess.run(
            [*COMMAND, "run", str(scenario), *option],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert process.returncode == exit_status.MISTAKE
    assert process.stderr == b"netstack: stdout: No space left on device\n"


def test_a_closed_stdout_loses_no_result_in_silence(scenario):
    command = shlex.join([*COMMAND, "run", str(scenario), "--json"])
    process = subprocess.run(["sh", "-c", f"{command} >&-"], cwd=ROOT, stderr=subprocess.PIPE, check=False)
    assert process.returncode == exit_status.MISTAKE
    assert b"stdout is closed, so the result would be lost" in process.stderr


def test_a_reader_that_goes_away_is_no_traceback(scenario):
    with subprocess.Popen(
        [*COMMAND, "run", str(scenario), "--json"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == exit_status.BROKEN_PIPE


def flinks(result: Path, **changes: float) -> Path:
    """A reference with the numbers of a result, some of them changed."""
    document = json.loads(result.read_bytes())
    del document["schema"]  # only our results have one, a measurement of Flink has none
    document["steady"][0].update(changes)
    folder = result.parent / "reference"
    folder.mkdir(exist_ok=True)
    (folder / "short.json").write_text(json.dumps(document))
    return folder


def test_a_result_equals_itself(result, capsys):
    assert main(["compare", str(result), str(flinks(result))]) == 0
    out = capsys.readouterr().out
    assert "OUTSIDE" not in out
    assert "are inside the tolerance" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_number_outside_gives_status_1(result, capsys):
    assert main(["compare", str(result), str(flinks(result, end_to_end_ms=1e6) / "short.json")]) == 1
    assert "OUTSIDE" in capsys.readouterr().out


@pytest.mark.long
def test_a_scenario_is_run_with_several_seeds_in_order(scenario, result, tmp_path, capsys):
    out = tmp_path / "out"
    table = tmp_path / "deep" / "table.md"
    arguments = ["compare", str(scenario), str(flinks(result)), "--seeds", "3", "--json", "--out", str(out)]
    assert main([*arguments, "--markdown", str(table)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "netstack.comparison/1"
    assert document["ok"]
    assert [comparison["seeds"] for comparison in document["comparisons"]] == [[1, 2, 3]]
    assert json.loads((out / "comparison.json").read_bytes()) == document
    assert table.read_bytes() == (out / "comparison.md").read_bytes()
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == document


def test_a_folder_stands_for_the_scenarios_in_it(scenario, result, capsys):
    (scenario.parent / "again.toml").write_text(SHORT)
    assert main(["compare", str(scenario.parent), str(flinks(result)), "--seeds", "1"]) == 0
    assert "of 2 scenarios are inside" in capsys.readouterr().out


def test_a_reference_of_another_job_is_named(result, capsys):
    reference = REFERENCES / "2x2_1MBs_off.json"
    assert main(["compare", str(result), str(reference)]) == exit_status.MISTAKE
    err = capsys.readouterr().err
    assert err.startswith(
        f"{result}: the measured windows differ: 2-8 s in this run, 16-46 s in the reference"
    )
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "size", "tune", "diagnose"])
def test_a_second_file_is_named_as_one_too_many(command, capsys):
    assert main([command, "a.toml", "b.toml"]) == 2
    assert capsys.readouterr().err == f"netstack {command}: 'b.toml': too many arguments; remove this\n"


@pytest.mark.parametrize("option", ["--target", "--latency", "--max-checkpoint"])
def test_a_negative_time_is_no_missing_argument(option, scenario, capsys):
    assert main(["tune", str(scenario), option, "-5ms"]) == 2
    assert capsys.readouterr().err == f"netstack tune: {option}: '-5ms' is negative; it must be positive\n"


def test_a_report_that_cannot_be_written_costs_nobody_the_result(scenario, tmp_path, monkeypatch, capsys):
    def full(*_args, **_named):
        raise OutputError("short.json: cannot be written: No space left on device")

    monkeypatch.setattr("integration.show.page.pages.write_report", full)
    assert main(["run", str(scenario), "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr()
    assert "end to end" in printed.out
    assert printed.err == "netstack: short.json: cannot be written: No space left on device\n"


@pytest.mark.parametrize("error", [OSError(errno.ENOMEM, "Cannot allocate memory"), MemoryError()])
def test_a_machine_without_enough_memory_is_told_in_a_line(error, scenario, monkeypatch, capsys):
    def too_much(*_args, **_named):
        raise error

    monkeypatch.setattr("integration.cli.size.print_sizing", too_much)
    assert main(["size", str(scenario)]) == 2
    assert capsys.readouterr().err.startswith("netstack: not enough memory; ")


def test_emulate_says_what_it_needs():
    with pytest.raises(
        TypeError,
        match=r"emulate needs a Scenario, not 'job\.toml'; integration\.load_scenario reads one from a file",
    ):
        emulate("job.toml")
