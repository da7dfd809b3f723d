"""What only a directory has; what it has in common with memory is tested with that."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from integration.storage.directory import LONGEST_REASON, DirectoryStorage
from netstack import CheckpointMetadata, MissingFileError, StorageError


def metadata_of(checkpoint_id: int) -> CheckpointMetadata:
    return CheckpointMetadata(
        checkpoint_id=checkpoint_id,
        job="job",
        checkpoint_type="CHECKPOINT",
        triggered_at=0.0,
        completed_at=1.0,
        parallelism={},
        subtasks=(),
    )


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_root_is_a_path_or_a_uri(tmp_path: Path, scheme: str) -> None:
    root = tmp_path / "a b" / "c" if not scheme else tmp_path / "c"
    storage = DirectoryStorage(f"{scheme}{root}/")
    assert not storage.exists()
    storage.write(1, "a", b"x")
    storage.write(1, "b", b"x", shared=True)
    storage.complete(metadata_of(1))
    assert storage.exists()
    assert tree(root) == {"chk-1", "chk-1/a", "chk-1/_metadata", "shared", "shared/b"}
    storage.discard(1)
    assert tree(root) == {"shared", "shared/b"}


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = DirectoryStorage("here")
    monkeypatch.chdir("/")
    storage.write(1, "a", b"x")
    assert tree(tmp_path) == {"here", "here/chk-1", "here/chk-1/a"}


def test_names_that_look_compressed_are_not(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    assert storage.read(storage.write(1, "a.gz", b"x" * 100)) == b"x" * 100


class FailingMove:
    """A file system in which renaming fails."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def move(self, source: str, target: str) -> None:
        raise OSError(28, "ignored")


def test_metadata_that_could_not_be_moved_is_not_there(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    storage.write(1, "a", b"x")
    storage._filesystem = FailingMove(fs.LocalFileSystem())
    with pytest.raises(StorageError, match="chk-1/_metadata: No space left on device"):
        storage.complete(metadata_of(1))
    storage = DirectoryStorage(tmp_path)
    assert storage.checkpoints() == []
    assert storage.contents(1).keys() == {"chk-1/a", "chk-1/_metadata.partial"}
    storage.complete(metadata_of(1))
    assert storage.contents(1).keys() == {"chk-1/a", "chk-1/_metadata"}


def test_other_things_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    for path in ("chk-1x/a", "notes/a", "chk-2/folder/a"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(b"x")
    (tmp_path / "chk-3").write_bytes(b"a file")
    storage = DirectoryStorage(tmp_path)
    assert storage.present() == [2]
    assert storage.contents(2) == {}
    storage.discard(1)
    assert tree(tmp_path) >= {"chk-1x/a", "notes/a"}


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_bytes(b"")
    storage = DirectoryStorage(root)
    assert not storage.exists()
    with pytest.raises(StorageError, match=f"{root}/chk-1/a: Not a directory"):
        storage.write(1, "a", b"x")


@pytest.mark.parametrize("root", ["nosuch://bucket/path", "file://host/path"])
def test_a_root_that_leads_nowhere(root: str) -> None:
    with pytest.raises(StorageError, match=f"^{root}: ") as raised:
        DirectoryStorage(root)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) <= len(root) + 2 + LONGEST_REASON


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    file = storage.write(1, "a", b"x")
    storage.discard(1)
    with pytest.raises(MissingFileError, match=f"{tmp_path}/chk-1/a does not exist"):
        storage.read(file)


def test_a_late_file_leaves_no_folder_behind(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    first, second = (storage.write(3, name, b"late") for name in ("a", "b"))
    storage.delete([first])
    assert [path.name for path in tmp_path.iterdir()] == ["chk-3"]
    storage.delete([second])
    assert list(tmp_path.iterdir()) == []


def test_two_jobs_that_store_savepoints_in_one_directory_get_places_of_their_own(tmp_path: Path) -> None:
    there = str(tmp_path / "savepoints")
    storages = [DirectoryStorage(tmp_path / name) for name in ("one", "other")]
    first, second = (storage.free_location(there, "savepoint-7") for storage in storages)
    assert [first, second] == [f"{there}/savepoint-7", f"{there}/savepoint-7-2"]
    storages[0].savepoint(first).complete(metadata_of(7))
    storages[1].savepoint(second).discard(7)
    assert storages[0].savepoint(first).metadata.checkpoint_id == 7
    assert [path.name for path in (tmp_path / "savepoints").iterdir()] == ["savepoint-7"]


def test_a_savepoint_finds_no_place_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(StorageError, match="file"):
            DirectoryStorage(tmp_path / "job").free_location(str(directory), "savepoint-7")
