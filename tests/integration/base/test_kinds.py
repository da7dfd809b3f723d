"""Files are recognised by their content, and a command that cannot use one names the command that can."""

import gzip
import io
import sys
from pathlib import Path

import pytest

from integration.base.file_kinds import FileKind, kind_of
from integration.cli import exit_status
from integration.cli.app import main

ROOT = Path(__file__).parents[3]
EXAMPLES, REFERENCES = ROOT / "docs" / "examples", ROOT / "tests" / "data" / "flink-reference"
RECORDINGS = ROOT / "tests" / "data" / "flink-rest"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ([*EXAMPLES.rglob("*.toml"), *REFERENCES.glob("*.toml")], FileKind.SCENARIO),
        ([*RECORDINGS.glob("*.json.gz"), *EXAMPLES.glob("*.json.gz")], FileKind.RECORDING),
        (list(REFERENCES.glob("*.json")), FileKind.MEASUREMENT),
        (list(EXAMPLES.glob("*.yaml")), FileKind.CONFIGURATION),
        ([ROOT / "README.md", ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "tests"], None),
        ([*RECORDINGS.glob("*.java"), ROOT / "share" / "netstack" / "scenario.schema.json"], None),
        ([ROOT / "tests" / "data" / "digests.json", ROOT / "nothing"], None),
    ],
)
def test_the_files_of_the_project_are_recognised(files: list[Path], kind: FileKind | None) -> None:
    assert files
    assert {str(file): kind_of(file) for file in files} == {str(file): kind for file in files}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"schema": "netstack.result/1"}', FileKind.RESULT),
        ('\ufeff {"name": "x", "vertices": []}', FileKind.SCENARIO),
        ('{"schema": "netstack.import/1", "scenario": {"name": "x"}}', FileKind.SCENARIO),
        ('{"scenario": "x", "answers": {}}', FileKind.RECORDING),
        ('{"kind": "FlinkDeployment", "apiVersion": "flink.apache.org/v1beta1"}', FileKind.CONFIGURATION),
        ("apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\n", FileKind.CONFIGURATION),
        ("# options\ntaskmanager:\n  network:\n", FileKind.CONFIGURATION),
        ("execution.checkpointing.interval: 10s\nbad: [\n", FileKind.CONFIGURATION),
        ('name = "x"\n[[vertices]]\nname = ', FileKind.SCENARIO),
        ('# [[vertices]]\nname = "x"\n', None),
        ("Note: a text\nstated: in words\n", None),
        ("# A page\n\nSome words.\n\n[[vertices]]\n\nstate: lost\n", None),
        ('{"scenario": {"name": "x"}, "steady": []}', FileKind.MEASUREMENT),
        ('{"schema": "netstack.lint/1"}', None),
        ('{"schema": "another/7", "vertices": 3}', None),
        ("{", None),
        ("", None),
    ],
)
def test_content_says_the_kind_whatever_the_name(text: str, kind: FileKind | None, tmp_path: Path) -> None:
    file = tmp_path / "any.name"
    file.write_text(text, "utf-8")
    assert kind_of(file) is kind


def test_a_folder_of_checkpoints_is_recognised(tmp_path: Path) -> None:
    assert kind_of(tmp_path) is None
    (tmp_path / "chk-7").mkdir()
    assert kind_of(tmp_path) is FileKind.CHECKPOINTS


def test_a_packed_file_is_recognised_by_what_is_packed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b'{"answers": {}}'))
    (tmp_path / "b").write_bytes(gzip.compress(b"{}"))
    (tmp_path / "c").write_bytes(gzip.compress(b'{"answers": {}}')[:-4])
    assert [kind_of(tmp_path / name) for name in "abc"] == [FileKind.RECORDING, None, None]


SCENARIO = EXAMPLES / "slow_consumers.toml"
RECORDING = EXAMPLES / "wordcount_off.rest.json.gz"
CONFIGURATION = EXAMPLES / "config.yaml"
MEASUREMENT = REFERENCES / "2x2_1MBs_off.json"


@pytest.mark.parametrize(
    ("command", "file", "line"),
    [
        ("run", CONFIGURATION, "is a Flink configuration file; check it with netstack lint {}"),
        ("size", CONFIGURATION, "is a Flink configuration file; check it with netstack lint {}"),
        ("tune", CONFIGURATION, "is a Flink configuration file; check it with netstack lint {}"),
        ("diagnose", CONFIGURATION, "is a Flink configuration file; check it with netstack lint {}"),
        ("import-flink", CONFIGURATION, "is a Flink configuration file; check it with netstack lint {}"),
        ("lint", SCENARIO, "is a scenario; run it with netstack run {}"),
        ("import-flink", SCENARIO, "is a scenario; run it with netstack run {}"),
        ("validate --from-flink", SCENARIO, "is a scenario; run it with netstack run {}"),
        ("checkpoints", SCENARIO, "is a scenario; run it with netstack run {}"),
        ("state", SCENARIO, "is a scenario; run it with netstack run {}"),
        (
            "run",
            RECORDING,
            "is a recording of Flink's REST API; read it with netstack diagnose {0}, "
            "or netstack import-flink {0} for a scenario",
        ),
        (
            "diagnose",
            MEASUREMENT,
            "is a measurement of a real Flink; compare a scenario with it: netstack compare SCENARIO {}",
        ),
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_command_that_takes_it(
    command: str, file: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), str(file)]) == exit_status.MISTAKE
    assert capsys.readouterr().err == f"{file} {line.format(file)}\n"


def test_a_folder_of_checkpoints_is_no_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "chk-1").mkdir()
    assert main(["run", str(tmp_path)]) == exit_status.MISTAKE
    line = f"{tmp_path} is a folder of checkpoints; list them with netstack checkpoints {tmp_path}\n"
    assert capsys.readouterr().err == line


def test_diagnose_runs_a_scenario(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["run", str(SCENARIO), "--json"]) == 0
    result = tmp_path / "result.json"
    result.write_text(capsys.readouterr().out)
    assert main(["diagnose", str(result)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert main(["diagnose", str(SCENARIO)]) == 0
    assert capsys.readouterr().out.splitlines()[:8] == told[:8]  # further below are times of this machine


def test_diagnose_and_tune_take_a_recording_as_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["diagnose", "--from-flink", str(RECORDING)]) == 0
    told = capsys.readouterr().out
    assert main(["diagnose", str(RECORDING)]) == 0
    assert capsys.readouterr().out == told.replace("tune --from-flink ", "tune ")
    monkeypatch.setattr("integration.cli.tune.advise", lambda scenario, *_, **__: sys.exit(scenario.name))
    with pytest.raises(SystemExit, match="wordcount"):
        main(["tune", str(RECORDING), "--job", "44e26cfff03687e8cae94598db0c1df6"])


@pytest.mark.parametrize(
    ("command", "file", "out"),
    [
        ("run -", SCENARIO, "slow-consumers"),
        ("size -", SCENARIO, "slow-consumers"),
        ("diagnose - --verbose", SCENARIO, "slow-consumers"),
        ("diagnose - --verbose", RECORDING, "wordcount"),
        ("diagnose --from-flink - --verbose", RECORDING, "wordcount"),
        ("import-flink -", RECORDING, "# Read from /dev/stdin"),
        ("lint -", CONFIGURATION, "/dev/stdin: 6 options"),
    ],
)
def test_a_dash_is_standard_input(
    command: str,
    file: Path,
    out: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert main(command.split()) in (0, exit_status.FAILED)
    assert out in capsys.readouterr().out


def test_a_mistake_on_standard_input_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in (b"name = ", b'{"schema": "netstack.result/1"'):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert main(["run", "-"]) == exit_status.MISTAKE
        assert capsys.readouterr().err.startswith("/dev/stdin: is not valid ")


def test_a_number_without_a_unit_is_said_as_flink_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        SCENARIO.read_text().replace('debloat.target" = "1 s"', 'debloat.target" = 1')
        + '\n[[changes]]\nat = "30 s"\nflink = { "execution.checkpointing.interval" = "5000" }\n'
    )
    option = "execution.checkpointing.timeout"
    assert main(["size", str(file), "--set", f"{option}=60"]) == 0
    target = "taskmanager.network.memory.buffer-debloat.target"
    assert capsys.readouterr().err.splitlines() == [
        f'netstack size: --set {option}: 60 means 60 ms in Flink; write "60 ms"',
        f'{file}: flink.{target}: 1 means 1 ms in Flink; write "1 ms"',
        f'{file}: changes.0.flink.execution.checkpointing.interval: 5000 means 5 s in Flink; write "5 s"',
    ]


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        (
            "tune {} --target 100",
            """netstack tune: --target: '100' has no unit; it must be a time such as "100 ms" or "100 s\"""",
        ),
        ("tune {} --max-checkpoint 2", "netstack tune: --max-checkpoint: '2' has no unit; it must be a time"),
        (
            "size {} --budget 512",
            """netstack size: --budget: '512' has no unit; it must be a size such as "512 kb\"""",
        ),
    ],
)
def test_an_option_of_ours_wants_a_unit(command: str, wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.format(SCENARIO).split()) == exit_status.MISTAKE
    assert capsys.readouterr().err.startswith(wrong)
