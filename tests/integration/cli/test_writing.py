"""Outputs are there whole or not at all; and what cannot be written is known before the work."""

import os
import resource
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration import write_whole
from integration.advise.sweeps.point_rows import FOLDER, PointStore
from integration.advise.sweeps.point_runs import run_point
from integration.advise.sweeps.points import Grid
from integration.base.errors import OutputError
from integration.base.reading import load_scenario
from integration.base.writing import written_whole
from integration.cli import exit_status
from integration.cli.app import main
from integration.show.terminal.documents import write_files
from tests.integration.cli.test_cli import SHORT

LIMIT = 5_000


@contextmanager
def small_files() -> Iterator[None]:
    """Let the system refuse to write more than `LIMIT` bytes to a file, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def test_a_file_is_not_at_its_place_before_it_is_complete(out: Path) -> None:
    path = out / "a"
    with written_whole(path) as partial:
        partial.write_bytes(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert list(out.iterdir()) == [path]


def write_half(path: Path) -> None:
    with written_whole(path) as partial:
        partial.write_bytes(b"ne")
        raise KeyboardInterrupt


def test_what_fails_leaves_the_file_that_was_there_and_nothing_else(out: Path) -> None:
    path = out / "a"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_half(path)
    assert {file: file.read_bytes() for file in out.iterdir()} == {path: b"old"}


def test_of_several_files_all_are_written_or_none(out: Path) -> None:
    files = {out / "a": b"small", out / "b": bytes(2 * LIMIT), out / "c": b"small"}
    with small_files(), pytest.raises(OSError, match="File too large") as raised:
        write_whole(files)
    assert raised.value.filename == str(out / "b")
    assert list(out.iterdir()) == []
    write_whole(files)
    assert {file: file.read_bytes() for file in out.iterdir()} == files


def test_a_link_is_followed_and_the_mode_stays(out: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link = out / "link"
    link.symlink_to(real)
    write_whole({link: b"new"})
    assert link.is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"new", 0o640)


def test_a_pipe_is_written_to_and_stays_a_pipe(out: Path) -> None:
    pipe = out / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    try:
        write_whole({pipe: b"new"})
        assert os.read(reader, 10) == b"new"
        assert pipe.is_fifo()
    finally:
        os.close(reader)


def test_a_folder_in_the_place_of_a_file_is_named(out: Path) -> None:
    (out / "a").mkdir()
    with pytest.raises(OutputError, match=r"out/a: cannot be written: Is a directory"):
        write_files(out, {"a": b"new"})


def test_a_report_that_finds_no_room_is_one_line_and_leaves_nothing(scenario, out, capsys) -> None:
    arguments = ["run", str(scenario), "--out", str(out)]
    with small_files():
        assert main(arguments) == exit_status.MISTAKE
    captured = capsys.readouterr()
    assert captured.err == f"netstack: {out / 'report.html'}: cannot be written: File too large\n"
    assert captured.out.startswith("short  flink-")  # what was measured is not lost with its report
    assert list(out.iterdir()) == []
    assert main(arguments) == 0
    assert {"report.html", "short.json"} <= {file.name for file in out.iterdir()}


def test_a_package_that_finds_no_room_leaves_nothing_in_the_way_of_the_next(out, capsys) -> None:
    path = out / "netstack.zip"
    with small_files():
        assert main(["package", str(path)]) == exit_status.MISTAKE
    assert capsys.readouterr().err == f"netstack: {path}: cannot be written: File too large\n"
    assert list(out.iterdir()) == []
    assert main(["package", str(path)]) == 0
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def test_a_point_that_finds_no_room_leaves_nothing(out: Path, scenario: Path) -> None:
    (point,) = Grid(seeds=1).points(load_scenario(scenario))
    row = run_point(point)
    store = PointStore(out)
    with small_files(), pytest.raises(OSError, match="File too large"):
        store.write(row)
    assert list((out / FOLDER).iterdir()) == []


def places(tmp_path: Path) -> dict[str, str]:
    """Folders in which not even root can write a file, each with the end of its error message."""
    file = tmp_path / "file"
    file.write_bytes(b"")
    return {
        str(file): "cannot create this folder: a file has that name",
        str(file / "below"): "cannot create this folder: Not a directory",
        "/proc/self": "cannot be written: No such file or directory",
    }


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "command",
    [
        ["run", "{scenario}", "--trace"],
        ["compare", "{scenario}", "{reference}"],
        ["tune", "{scenario}"],
        ["demo", "--input", "no.csv", "--key", "a"],
        ["import-flink", "http://127.0.0.1:1"],
        ["validate", "--from-flink", "http://127.0.0.1:1"],
        ["size", "{scenario}", "--check"],
        ["lint", "{configuration}"],
    ],
    ids=lambda command: command[0],
)
def test_a_folder_that_cannot_be_written_is_known_before_the_work(
    command, place, scenario, tmp_path, capsys
) -> None:
    folder, reason = list(places(tmp_path).items())[place]
    configuration = tmp_path / "config.yaml"
    configuration.write_text("parallelism.default: 2\n")
    values = {"scenario": scenario, "reference": tmp_path / "none", "configuration": configuration}
    assert main([*(text.format(**values) for text in command), "--out", folder]) == exit_status.MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"netstack: {folder}: {reason}\n")


def test_a_page_that_is_a_folder_is_known_before_the_run(scenario, out, capsys) -> None:
    (out / "report.html").mkdir()
    assert main(["run", str(scenario), "--trace", "--out", str(out)]) == exit_status.MISTAKE
    reason = "is a folder, so the file cannot be written"
    assert capsys.readouterr().err == f"netstack: {out / 'report.html'}: {reason}\n"


def test_a_table_that_cannot_be_written_is_known_before_the_comparison(scenario, tmp_path, capsys) -> None:
    (tmp_path / "file").write_bytes(b"")
    table = tmp_path / "file" / "table.md"
    assert main(["compare", str(scenario), "no.json", "--markdown", str(table)]) == exit_status.MISTAKE
    assert (
        capsys.readouterr().err
        == f"netstack: {table.parent}: cannot create this folder: a file has that name\n"
    )


def test_an_output_that_cannot_be_written_is_known_before_spark_starts(scenario, tmp_path, capsys) -> None:
    output = tmp_path / "file" / "below"
    (tmp_path / "file").write_bytes(b"")
    arguments = ["--input", str(scenario), "--output", str(output), "--partitions", "2", "--set", "nonsense"]
    assert main(["shuffle", *arguments]) == exit_status.MISTAKE
    reason = "cannot be written: Not a directory"
    assert capsys.readouterr().err == f"netstack: {output}: {reason}\n"
