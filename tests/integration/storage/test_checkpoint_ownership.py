"""A checkpoint directory has one owner at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.cli.app import main
from integration.cli.exit_status import MISTAKE
from integration.storage import DirectoryStorage
from integration.storage.directory import LOCK_NAME
from netstack import (
    Assignment,
    Edge,
    GeneratorSpec,
    JobFailedError,
    LaunchError,
    NetworkConfig,
    Report,
    Scenario,
    StorageError,
    Vertex,
    emulate,
    run_distributed,
)

JOB = Scenario(
    name="short",
    duration_s=1.0,
    config=NetworkConfig(checkpoint_interval_s=0.2),
    vertices=(
        Vertex(name="source", source=GeneratorSpec(record_bytes=100, rates=(100.0,))),
        Vertex(name="stage"),
    ),
    edges=(Edge(source="source", target="stage"),),
)

FILE = """\
name = "short"
duration = "1 s"

[flink]
"execution.checkpointing.interval" = "200 ms"
"execution.checkpointing.dir" = "{directory}"

[[vertices]]
name = "source"
source = {{ record_bytes = 100, rate = 100 }}

[[vertices]]
name = "stage"

[[edges]]
from = "source"
to = "stage"
"""

HOLDER = """
import sys
from integration.storage import DirectoryStorage
with DirectoryStorage(sys.argv[1]).exclusive():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def scenario(tmp_path: Path, directory: Path) -> Path:
    file = tmp_path / "short.toml"
    file.write_text(FILE.format(directory=directory))
    return file


@pytest.fixture
def holder(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the directory."""
    root = str(Path(__file__).parents[3])
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": root},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_run_says_who_has_the_directory_and_leaves_it_alone(
    scenario: Path,
    directory: Path,
    holder: subprocess.Popen[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", str(scenario)]) == MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    owner = json.loads((directory / LOCK_NAME).read_text())
    assert owner["pid"] == holder.pid
    told = f"(process {holder.pid} on {owner['host']}, since {owner['since']})"
    assert f"{directory} is in use by another run {told}" in captured.err
    assert [path.name for path in directory.iterdir()] == [LOCK_NAME]


def test_the_lock_ends_with_its_process_however_that_ends(
    scenario: Path, directory: Path, holder: subprocess.Popen[str]
) -> None:
    holder.kill()
    holder.wait()
    assert json.loads((directory / LOCK_NAME).read_text())["pid"] == holder.pid
    assert main(["run", str(scenario)]) == 0
    assert json.loads((directory / LOCK_NAME).read_text())["pid"] == os.getpid()


def test_a_run_in_python_has_the_directory_too(directory: Path) -> None:
    storage, taken = DirectoryStorage(directory), list[str]()

    def progress(time: float) -> None:
        with pytest.raises(StorageError, match=rf"in use by another run \(process {os.getpid()} on "):
            stack.enter_context(DirectoryStorage(directory).exclusive())
        taken.append("taken")

    with ExitStack() as stack:
        emulate(JOB, storage=storage, progress=progress)
    assert taken
    with DirectoryStorage(directory).exclusive(), pytest.raises(StorageError, match="in use by another run"):
        emulate(JOB, storage=storage)


def test_whoever_leads_several_processes_has_the_directory(directory: Path) -> None:
    taken = []

    def launch(assignment: Assignment) -> list[Report]:
        with pytest.raises(StorageError, match="in use"), DirectoryStorage(directory).exclusive():
            pass
        DirectoryStorage(directory).write(1, "a", b"x")  # as the tasks do, which the owner has started
        taken.append("taken")
        raise LaunchError("enough", again=False)

    with pytest.raises(JobFailedError, match="enough"):
        run_distributed(JOB, launch, DirectoryStorage(directory))
    assert taken == ["taken"]


def test_a_file_in_place_of_the_directory_is_named(directory: Path) -> None:
    directory.write_text("")
    with pytest.raises(StorageError, match="is a file; give a directory for checkpoints"):
        emulate(JOB, storage=DirectoryStorage(directory))


def test_a_lock_that_cannot_be_held_is_told(directory: Path) -> None:
    directory.mkdir()
    (directory / LOCK_NAME).symlink_to("/dev/zero")
    with pytest.raises(StorageError, match="cannot be locked"):
        emulate(JOB, storage=DirectoryStorage(directory))
