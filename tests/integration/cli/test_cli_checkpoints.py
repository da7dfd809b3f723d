import json
import os
import re
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.cli.app import main
from integration.cli.exit_status import FAILED, MISTAKE
from integration.storage.checkpoint_list import find_checkpoint
from integration.storage.directory import DirectoryStorage
from netstack import (
    CheckpointMetadata,
    StateHandle,
    StateKind,
    StorageError,
    StoredFile,
    SubtaskSnapshot,
)


def complete(
    storage: DirectoryStorage, checkpoint_id: int, *files: StoredFile, kind: str = "CHECKPOINT"
) -> None:
    handles = [StateHandle(kind=StateKind.KEYED, name="k", size=file.size, file=file) for file in files]
    metadata = CheckpointMetadata(
        checkpoint_id=checkpoint_id,
        job="demo",
        checkpoint_type=kind,
        triggered_at=3.0 * checkpoint_id,
        completed_at=3.0 * checkpoint_id + 0.25,
        parallelism={"count": 1},
        subtasks=(SubtaskSnapshot(vertex="count", subtask=0, handles=tuple(handles)),),
    )
    storage.complete(metadata)


@pytest.fixture
def storage(tmp_path: Path) -> DirectoryStorage:
    """Two complete checkpoints that share a file."""
    storage = DirectoryStorage(tmp_path)
    shared = storage.write(9, "table", b"s" * 2000, shared=True)
    complete(storage, 9, storage.write(9, "a", b"a" * 1000), shared)
    complete(storage, 10, storage.write(10, "a", b"a"), shared, kind="AT_LEAST_ONCE_CHECKPOINT")
    return storage


def list_checkpoints(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    status = main(["checkpoints", *arguments])
    return status, [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_table_of_what_is_there(storage: DirectoryStorage, capsys: pytest.CaptureFixture[str]) -> None:
    storage.write(11, "a", b"half of it")
    status, lines = list_checkpoints(capsys, storage.root)
    assert status == 0
    assert [lines[0], *lines[2:]] == [
        "id type triggered took size files",
        "9 complete checkpoint 27.0 s 250 ms 2.93 KiB 3",
        "10 complete at least once checkpoint 30.0 s 250 ms 1.95 KiB 3",
        "11 incomplete - - - 10 B 1",
    ]


def test_the_table_has_80_columns(storage: DirectoryStorage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", storage.root]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_good_files_are_verified(storage: DirectoryStorage, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = list_checkpoints(capsys, storage.root, "--verify")
    assert (status, lines[-1]) == (0, "all files are as they were written")


def test_everything_wrong_is_named(storage: DirectoryStorage, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(storage.root)
    (root / "chk-9/a").unlink()
    (root / "chk-10/a").write_bytes(b"b")
    (root / "shared/table").write_bytes(b"")
    (root / "chk-10/extra").write_bytes(b"")
    storage.write(11, "a", b"half of it")
    storage.write(11, "old", b"", shared=True)
    status, lines = list_checkpoints(capsys, storage.root, "--verify")
    assert status == FAILED
    assert lines[-6:] == [
        "missing: chk-9/a: the file does not exist",
        "corrupt: shared/table: has 0 bytes, but 2000 bytes were written",
        "corrupt: chk-10/a: does not have the checksum of the bytes that were written",
        "left over: chk-10/extra: checkpoint 10 does not use this file",
        "left over: chk-11/a: checkpoint 11 was never completed",
        "left over: shared/old: no complete checkpoint uses this file",
    ]
    status, lines = list_checkpoints(capsys, storage.root)
    assert (status, len(lines)) == (0, 5)


def test_a_folder_that_cannot_be_read_leaves_no_other_unverified(
    storage: DirectoryStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(storage.root)
    (root / "chk-10/a").write_bytes(b"b")
    (root / "chk-9/_metadata").unlink()
    (root / "chk-9/_metadata").mkdir()
    status, lines = list_checkpoints(capsys, storage.root, "--verify")
    assert status == FAILED
    assert lines[2].startswith("9 broken")
    assert [" ".join(line.split()[:2]) for line in lines[4:]] == ["unreadable: chk-9:", "corrupt: chk-10/a:"]


def test_broken_metadata(storage: DirectoryStorage, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(storage.root, "chk-10/_metadata")
    path.write_bytes(path.read_bytes()[:-5])
    assert re.fullmatch(r"10 broken - - - [\d.]+ K?i?B 2", list_checkpoints(capsys, storage.root)[1][-1])
    status, lines = list_checkpoints(capsys, storage.root, "--verify")
    assert status == FAILED
    assert re.fullmatch(r"corrupt: chk-10/_metadata: it has \d+ bytes after its first .*", lines[-1])
    assert not any("left over" in line for line in lines)


def test_metadata_that_contradicts_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = DirectoryStorage(tmp_path)
    file = storage.write(1, "a", b"abc")
    handles = (
        StateHandle(kind=StateKind.KEYED, name="k", size=2, file=file, offset=2),
        StateHandle(kind=StateKind.OPERATOR, name="o", size=1, inline=b"ab"),
        StateHandle(kind=StateKind.OPERATOR, name="fine", size=1, inline=b"a"),
    )
    storage.complete(
        CheckpointMetadata(
            checkpoint_id=1,
            job="demo",
            checkpoint_type="CHECKPOINT",
            triggered_at=0.0,
            completed_at=1.0,
            parallelism={"count": 4},
            subtasks=(SubtaskSnapshot(vertex="count", subtask=3, handles=handles),),
        )
    )
    status, lines = list_checkpoints(capsys, storage.root, "--verify")
    assert status == FAILED
    assert lines[-2:] == [
        "corrupt: chk-1/_metadata: keyed state 'k' of count 3 has 1 bytes, but should have 2",
        "corrupt: chk-1/_metadata: operator state 'o' of count 3 has 2 bytes, but should have 1",
    ]


def test_as_json(storage: DirectoryStorage, capsys: pytest.CaptureFixture[str]) -> None:
    Path(storage.root, "chk-9/a").unlink()
    assert main(["checkpoints", storage.root, "--json", "--verify"]) == FAILED
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "netstack.checkpoints/1"
    assert document["checkpoints"][0] == {
        "checkpoint_id": 9,
        "status": "complete",
        "size": 3000,
        "files": 3,
        "job": "demo",
        "checkpoint_type": "CHECKPOINT",
        "triggered_at": 27.0,
        "duration_s": 0.25,
    }
    assert document["problems"] == [{"wrong": "missing", "path": "chk-9/a", "why": "the file does not exist"}]


def test_a_directory_without_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["checkpoints"], ["checkpoints", "--verify"], ["checkpoints", "--json"], ["state"]):
        assert main([command[0], str(tmp_path), *command[1:]]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.removeprefix("netstack state: ") == f"{tmp_path}: contains no checkpoints\n"


@pytest.mark.parametrize(
    ("directory", "message"),
    [
        ("/no/such/place", "/no/such/place: there is no such directory"),
        (__file__, f"{__file__}: there is no such directory"),
        ("nosuch://x/y", "netstack checkpoints: nosuch://x/y: Unrecognized filesystem type in URI: nosuch"),
    ],
)
def test_mistakes_are_one_line(directory: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", directory]) == MISTAKE
    err = capsys.readouterr().err
    assert err.startswith(message)
    assert err.count("\n") == 1


ODD: dict[str, tuple[Callable[[Path], None], str]] = {
    "a pipe": (os.mkfifo, "is not a regular file"),
    "a folder": (Path.mkdir, "is not a regular file"),
    "an endless device": (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
    "an enormous file": (lambda path: enormous(path), f"has {1 << 40} bytes, more than the "),
}


def enormous(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Room for no more than 200 MB beside what there is; whoever wants it all fails."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (200 << 20), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("name", ["_metadata", "a"])
def test_odd_files_are_neither_waited_for_nor_read(
    storage: DirectoryStorage, what: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, message = ODD[what]
    path = Path(storage.root, "chk-10", name)
    path.unlink()
    make(path)
    status = main(["checkpoints", storage.root, "--verify"])
    captured = capsys.readouterr()
    if name == "a" and "enormous" in what:  # its size is another than it was written with
        assert (status, captured.err) == (FAILED, "")
        assert f"corrupt: chk-10/a: has {1 << 40} bytes, but 1 bytes were written" in captured.out
    else:
        assert (status, captured.err) == (FAILED, "")
        place = "chk-10" if name == "_metadata" else "chk-10/a"
        assert f"unreadable: {place}: {path} {message}" in captured.out


def test_a_start_names_what_it_skips_and_an_older_checkpoint(storage: DirectoryStorage) -> None:
    storage.write(11, "a", b"half of it")
    said: list[str] = []
    assert find_checkpoint(storage.root, said.append).metadata.checkpoint_id == 10
    assert said == [f"{storage.root}: chk-11 was never completed; starting from chk-10"]
    Path(storage.root, "chk-10/a").write_bytes(b"b")
    with pytest.raises(StorageError, match=r"; to continue from an older checkpoint, name it: chk-9$"):
        find_checkpoint(storage.root)
