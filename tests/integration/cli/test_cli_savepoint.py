"""Savepoints from the command line: scheduled, gone on from, claimed, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.cli.app import main
from integration.cli.exit_status import MISTAKE

JOB = """
duration = "{duration}"
{more}
[flink]
"execution.checkpointing.interval" = "1 s"
{options}
[[vertices]]
name = "source"
source = {{ record_bytes = 1000, rate = 500 }}
[[vertices]]
name = "work"
[[edges]]
from = "source"
to = "work"
"""


def scenario(path: Path, *, duration: str = "8 s", more: str = "", **options: Path | str) -> str:
    lines = [
        f'"execution.checkpointing.{name.replace("_", "-")}" = "{value}"' for name, value in options.items()
    ]
    file = path / "job.toml"
    file.write_text(JOB.format(duration=duration, more=more, options="\n".join(lines)))
    return str(file)


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main([*arguments])
    said = capsys.readouterr()
    return status, "".join(said.out.split()), said.err.strip()  # long paths are folded


def test_a_scheduled_savepoint_is_told_and_a_run_goes_on_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    file = scenario(tmp_path, more='savepoints_at = ["3.5 s", { at = "6 s", stop = "suspend" }]', dir=here)
    status, out, _ = run_command(capsys, "run", file)
    assert status == 0
    folders = sorted(path.name for path in here.glob("savepoint-*"))
    assert len(folders) == 2
    assert f":{here}/{folders[0]}" in out
    assert f":{here}/{folders[1]},andthejobstoppedwithit" in out
    status, out, _ = run_command(capsys, "run", file, "--from-savepoint", f"{here}/{folders[0]}")
    assert status == 0
    assert f"continuedfrom{here}/{folders[0]}(" in out
    claimed = ("--from-savepoint", f"{here}/{folders[1]}/_metadata", "--claim-mode", "claim")
    assert run_command(capsys, "run", file, *claimed)[0] == 0
    assert (here / folders[0]).exists()
    assert not (here / folders[1]).exists(), "a newer checkpoint is complete"


def test_savepoints_of_a_job_whose_checkpoints_are_in_memory_need_a_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = 'savepoints_at = ["3 s"]'
    status, _, err = run_command(capsys, "run", scenario(tmp_path, more=more))
    assert status == MISTAKE
    assert err == (
        f"{tmp_path}/job.toml: savepoints_at[0]: has no directory for its files; give the savepoint a "
        "directory, or set execution.checkpointing.savepoint-dir or "
        "execution.checkpointing.dir of the job"
    )
    places = {"there": {"savepoint_dir": tmp_path / "there"}, "elsewhere": {}}
    for name, options in places.items():
        table = f'savepoints_at = [{{ at = "3 s", directory = "{tmp_path}/elsewhere" }}]'
        file = scenario(tmp_path, more=more if options else table, **options)
        assert run_command(capsys, "run", file)[0] == 0
        (savepoint,) = (tmp_path / name).iterdir()
        assert run_command(capsys, "run", file, "--from-savepoint", str(savepoint))[0] == 0


MISTAKES: dict[str, tuple[list[str], str]] = {
    "both": (
        ["--from-savepoint", "x", "--from-checkpoint", "y"],
        "netstack run: give --from-checkpoint or --from-savepoint, not both",
    ),
    "an empty path": (
        ["--from-checkpoint", ""],
        "netstack run: --from-checkpoint is empty; give the path of a checkpoint, or of a folder of them",
    ),
    "a claim of nothing": (
        ["--claim-mode", "claim"],
        "netstack run: --claim-mode can be used only with --from-savepoint; add --from-savepoint, or remove "
        "--claim-mode",
    ),
    "nothing there": (
        ["--from-savepoint", "/nowhere/savepoint-3"],
        "netstack run: --from-savepoint: /nowhere/savepoint-3: there is no such checkpoint, nor a directory "
        "of checkpoints",
    ),
    "no metadata there": (
        ["--from-savepoint", "/nowhere/savepoint-3/_metadata"],
        "netstack run: --from-savepoint: /nowhere/savepoint-3/_metadata: there is no such savepoint, nor a "
        "checkpoint, such as chk-17, in it",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_a_run_cannot_go_on_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: str
) -> None:
    arguments, text = MISTAKES[mistake]
    assert run_command(capsys, "run", scenario(tmp_path), *arguments) == (MISTAKE, "", text)


@pytest.mark.parametrize("damage", ["metadata", "file", "missing file"])
def test_a_damaged_savepoint_is_named_and_nothing_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    options: dict[str, Any] = {"savepoint_dir": tmp_path}
    file = scenario(tmp_path, more='savepoints_at = ["3 s"]', **options)
    with open(file, "a") as stream:
        stream.write("[costs]\n")
    text = Path(file).read_text().replace('"1 s"', '"1 s"\n"state.storage.fs.memory-threshold" = "0 b"')
    Path(file).write_text(text.replace("[costs]\n", ""))
    assert run_command(capsys, "run", file)[0] == 0
    (folder,) = tmp_path.glob("savepoint-*")
    target = folder / "_metadata" if damage == "metadata" else next(folder.glob("source-*"))
    if damage == "missing file":
        target.unlink()
    else:
        target.write_bytes(target.read_bytes()[:-1])
    before = {path: path.read_bytes() for path in folder.iterdir()}
    arguments = ("--from-savepoint", str(folder), "--claim-mode", "claim")
    status, _, err = run_command(capsys, "run", file, *arguments)
    assert status == MISTAKE
    assert err.startswith(f"netstack run: --from-savepoint: {folder} is damaged: ")
    assert err.count("\n") == 0
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
