import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from buffers import BlankBytes, Pieces
from integration.storage.directory import DirectoryStorage
from netstack import (
    CheckpointMetadata,
    CheckpointStorage,
    DamagedFileError,
    FileLayout,
    MemoryStorage,
    MissingFileError,
    StateHandle,
    StateKind,
    StorageError,
    StoredFile,
    SubtaskSnapshot,
)
from netstack.checkpoints.metadata_encoding import checksum, decode_metadata, encode_metadata
from netstack.checkpoints.storage import LONGEST_NAME, HandleReader, checkpoint_id_of, file_name, write_pieces


def metadata_of(checkpoint_id: int, *files: StoredFile) -> CheckpointMetadata:
    stored = [StateHandle(kind=StateKind.KEYED, name="k", size=file.size, file=file) for file in files]
    inline = StateHandle(kind=StateKind.OPERATOR, name="o", size=3, inline=b"\x00\xffz", key_groups=(0, 7))
    return CheckpointMetadata(
        checkpoint_id=checkpoint_id,
        job="job",
        checkpoint_type="CHECKPOINT",
        triggered_at=1.5,
        completed_at=1.75,
        parallelism={"zulu": 2, "alpha": 1},
        subtasks=(SubtaskSnapshot(vertex="zulu", subtask=0, handles=(inline, *stored)),),
    )


@pytest.fixture(params=["memory", "directory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> FileLayout:
    return MemoryStorage() if request.param == "memory" else DirectoryStorage(tmp_path / "new" / "root")


def change(storage: FileLayout, path: str, data: bytes) -> None:
    if isinstance(storage, MemoryStorage):
        storage.files[path] = data
    elif isinstance(storage, DirectoryStorage):
        (Path(storage.root) / path).write_bytes(data)


def test_what_is_written_is_read(storage: FileLayout) -> None:
    interface: CheckpointStorage = storage
    own = interface.write(17, "source-0-keyed", b"abc")
    shared = interface.write(17, "table", b"", shared=True)
    assert own == StoredFile(path="chk-17/source-0-keyed", size=3, checksum=checksum(b"abc"))
    assert shared == StoredFile(path="shared/table", size=0, checksum=checksum(b""), shared=True)
    assert (interface.read(own), interface.read(shared)) == (b"abc", b"")
    assert (storage.contents(17), storage.shared_files()) == ({own.path: 3}, {shared.path: 0})


def test_blank_data_in_flight_is_read_as_bytes_wherever_it_is_kept(storage: FileLayout) -> None:
    data = Pieces([b"abc", BlankBytes(2, 40, 13)])
    file = write_pieces(storage, 1, "channels", data)
    assert (file.path, file.size, storage.contents(1)) == ("chk-1/channels", 43, {"chk-1/channels": 43})
    assert storage.read(file) == bytes(data)
    handle = StateHandle(kind=StateKind.INPUT_CHANNEL, size=40, file=file, offset=3)
    assert HandleReader(storage)(handle) == bytes(BlankBytes(2, 40, 13))
    plain = write_pieces(storage, 1, "plain", Pieces([b"abc"]))
    assert plain == StoredFile(path="chk-1/plain", size=3, checksum=checksum(b"abc"))
    storage.complete(metadata_of(1, file, plain))
    with pytest.raises(
        StorageError, match="chk-1/late cannot be written, because chk-1/_metadata already exists"
    ):
        write_pieces(storage, 1, "late", data)


def test_memory_keeps_blank_data_without_its_bytes_and_sees_that_it_was_changed() -> None:
    storage = MemoryStorage()
    data = Pieces([BlankBytes(0, 1 << 40, 1017)])
    file = write_pieces(storage, 1, "channels", data)
    assert (file.size, storage.files) == (1 << 40, {"chk-1/channels": data})
    storage.files[file.path] = Pieces([BlankBytes(1, 1 << 40, 1017)])
    with pytest.raises(DamagedFileError, match="the contents of chk-1/channels differ from what was written"):
        storage.read(file)


def test_a_checkpoint_is_complete_with_its_metadata_and_not_before(storage: FileLayout) -> None:
    assert (storage.checkpoints(), storage.present()) == ([], [])
    for number in (10, 9):
        file = storage.write(number, "a", b"x")
        assert storage.checkpoints() == ([] if number == 10 else [10])
        with pytest.raises(MissingFileError, match=f"chk-{number}/_metadata does not exist"):
            storage.load(number)
        storage.complete(metadata_of(number, file))
    storage.write(11, "a", b"x")
    assert (storage.checkpoints(), storage.present()) == ([9, 10], [9, 10, 11])
    assert storage.load(9) == metadata_of(9, StoredFile(path="chk-9/a", size=1, checksum=checksum(b"x")))
    assert storage.contents(9).keys() == {"chk-9/_metadata", "chk-9/a"}


def test_a_complete_checkpoint_is_not_changed(storage: FileLayout) -> None:
    file = storage.write(1, "a", b"x")
    storage.complete(metadata_of(1, file))
    with pytest.raises(
        StorageError, match="chk-1/a cannot be written, because chk-1/_metadata already exists"
    ):
        storage.write(1, "a", b"y")
    with pytest.raises(StorageError, match="chk-1/_metadata already exists"):
        storage.complete(metadata_of(1))
    assert storage.read(file) == b"x"


def test_leftovers_of_an_attempt_are_replaced_but_shared_files_never_are(storage: FileLayout) -> None:
    storage.write(1, "a", b"half")
    assert storage.read(storage.write(1, "a", b"whole")) == b"whole"
    storage.write(1, "a", b"x", shared=True)
    with pytest.raises(StorageError, match="shared/a cannot be written, because shared/a already exists"):
        storage.write(2, "a", b"y", shared=True)


def test_discarding_takes_all_but_shared_files(storage: FileLayout) -> None:
    for number in (1, 2):
        own = storage.write(number, "a", b"x")
        shared = storage.write(number, f"s{number}", b"x", shared=True)
        storage.complete(metadata_of(number, own, shared))
    storage.write(12, "a", b"x")
    storage.discard(1)
    storage.discard(12)
    storage.discard(99)
    assert (storage.checkpoints(), storage.present()) == ([2], [2])
    assert storage.shared_files().keys() == {"shared/s1", "shared/s2"}
    storage.delete([shared, shared])
    assert storage.shared_files().keys() == {"shared/s1"}


def test_damage_is_found(storage: FileLayout) -> None:
    file = storage.write(1, "a", b"abc")
    change(storage, "chk-1/a", b"abd")
    with pytest.raises(
        DamagedFileError, match="chk-1/a does not have the checksum of the bytes that were written"
    ):
        storage.read(file)
    change(storage, "chk-1/a", b"ab")
    with pytest.raises(DamagedFileError, match="chk-1/a has 2 bytes, but 3 bytes were written"):
        storage.read(file)
    storage.delete([file])
    with pytest.raises(MissingFileError, match="chk-1/a does not exist"):
        storage.read(file)


def test_broken_metadata_is_not_complete(storage: FileLayout) -> None:
    storage.complete(metadata_of(1))
    good = encode_metadata(metadata_of(1))
    for cut in range(0, len(good), 11):
        change(storage, "chk-1/_metadata", good[:cut])
        assert storage.checkpoints() == []
    with pytest.raises(
        DamagedFileError,
        match=r"chk-1/_metadata: it has \d+ bytes after its first line, but its header says ",
    ):
        storage.load(1)
    storage.complete(metadata_of(2))
    change(storage, "chk-2/_metadata", good)
    with pytest.raises(
        DamagedFileError,
        match=" holds the metadata of checkpoint 1",
    ):
        storage.load(2)


@pytest.mark.parametrize("path", ["../secret", "chk-1/../../secret", "/etc/passwd", "other/a", "chk-1/a/b"])
def test_paths_that_lead_elsewhere_are_refused(storage: FileLayout, path: str) -> None:
    file = StoredFile(path=path, size=0, checksum="")
    with pytest.raises(DamagedFileError, match=" is not a path that files of a checkpoint can have"):
        storage.read(file)
    with pytest.raises(DamagedFileError, match=" is not a path that files of a checkpoint can have"):
        storage.delete([file])


@pytest.mark.parametrize("name", ["", "_metadata"])
def test_names_that_no_file_may_have(storage: FileLayout, name: str) -> None:
    with pytest.raises(
        ValueError, match=" cannot be the name of a checkpoint's file: the name is empty or reserved"
    ):
        storage.write(1, name, b"")
    with pytest.raises(ValueError, match="-1 is not a valid checkpoint id"):
        storage.write(-1, "a", b"")


@pytest.mark.parametrize("name", ["a/b", "..", "word count-0-keyed", "größe", "a%2Fb", "\ud800", "x" * 1000])
def test_any_other_name_will_do(storage: FileLayout, name: str) -> None:
    file = storage.write(1, name, b"x")
    assert storage.read(file) == b"x"
    assert storage.present() == [1]


def test_names_stay_apart() -> None:
    names = ["a b", "a%20b", "a/b", "a-b", "a_b", "x" * LONGEST_NAME + "1", "x" * LONGEST_NAME + "2"]
    assert len({file_name(name) for name in names}) == len(names)
    assert max(len(file_name(name)) for name in [*names, "é" * 300]) == LONGEST_NAME
    assert [checkpoint_id_of(name) for name in ("chk-0", "chk-17", "chk-017", "chk-", "shared")] == [
        0,
        17,
        None,
        None,
        None,
    ]


def test_metadata_is_two_lines_of_json_and_always_the_same_bytes() -> None:
    metadata = metadata_of(3, StoredFile(path="chk-3/a", size=1, checksum="c"))
    data = encode_metadata(metadata)
    assert data == encode_metadata(decode_metadata(data))
    first, second, rest = data.split(b"\n")
    assert rest == b""
    assert json.loads(first)["schema"] == json.loads(second)["schema"] == "netstack.checkpoint/2"
    inline = json.loads(second)["subtasks"][0]["handles"][0]["inline"]
    assert base64.b64decode(inline) == b"\x00\xffz"
    assert list(json.loads(second)["parallelism"]) == ["alpha", "zulu"]


def test_no_changed_byte_of_metadata_goes_unnoticed() -> None:
    metadata = metadata_of(3)
    data = encode_metadata(metadata)
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(ValueError, match=r"^it"):
            decode_metadata(changed)


def test_metadata_of_the_first_layout_is_read() -> None:
    now = metadata_of(3)
    first = msgspec.structs.replace(now, schema="netstack.checkpoint/1")
    *_, body = encode_metadata(first).split(b"\n", 1)
    body = body.replace(b',"stored_before":false', b"").replace(b',"format":"canonical"', b"")
    assert b"format" not in body
    header = {"schema": first.schema, "size": len(body), "sha256": checksum(body)}
    assert decode_metadata(msgspec.json.encode(header) + b"\n" + body) == first


def test_metadata_of_another_layout_is_refused() -> None:
    other = encode_metadata(msgspec.structs.replace(metadata_of(3), schema="netstack.checkpoint/9"))
    with pytest.raises(
        ValueError,
        match=r"it has the format 'netstack.checkpoint/9', but only .*/2' and older formats can be read",
    ):
        decode_metadata(other)
    body = b'{"schema":"netstack.checkpoint/2"}\n'
    header = {"schema": "netstack.checkpoint/2", "size": len(body), "sha256": checksum(body)}
    with pytest.raises(ValueError, match=r"it is not valid checkpoint metadata: .*checkpoint_id"):
        decode_metadata(msgspec.json.encode(header) + b"\n" + body)


KEYED = StateHandle(kind=StateKind.KEYED, name="s", size=1, inline=b"x", key_groups=(0, 127))
IN_FLIGHT = StateHandle(kind=StateKind.INPUT_CHANNEL, size=1, inline=b"x")


def subtask(number: int, *handles: StateHandle) -> SubtaskSnapshot:
    return SubtaskSnapshot(vertex="b", subtask=number, handles=handles)


def with_handle(**changes: Any) -> dict[str, Any]:
    handle = KEYED if "channel" not in changes and "exchange" not in changes else IN_FLIGHT
    return {"subtasks": (subtask(0, replace(handle, **changes)),)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"checkpoint_id": -1}, "-1 is not a valid checkpoint id"),
        (
            {"parallelism": {"a": 2**53, "b": 1}},
            "'a' has the parallelism 9007199254740992; it must be from 1 to 32768",
        ),
        ({"parallelism": {"a": 1, "b": 0}}, "'b' has the parallelism 0; it must be from 1 to 32768"),
        ({"max_parallelism": {"b": 1}}, "'b' has the maximum parallelism 1; it must be from 2 to 32768"),
        ({"max_parallelism": {"b": 10**6}}, "'b' has the maximum parallelism 1000000; it must be from 2 to "),
        ({"subtasks": (subtask(2),)}, "subtask 2 of 'b' does not exist in its job"),
        (
            {"subtasks": (SubtaskSnapshot(vertex="c", subtask=0),)},
            "subtask 0 of 'c' does not exist in its job",
        ),
        ({"subtasks": (subtask(1), subtask(1))}, "subtask 1 of 'b' appears twice"),
        (
            {"subtasks": (subtask(0, *[replace(KEYED, size=2**62)] * 2),)},
            "the size of its state is 9223372036854775808",
        ),
        (with_handle(offset=-1), r"keyed state 's' of .* has the offset -1 and the size 1"),
        (with_handle(size=2**64), "has the offset 0 and the size 18446744073709551616"),
        (with_handle(key_groups=(5, 4)), "has the key groups 5 to 4"),
        (with_handle(exchange=1), "belongs to exchange 1, channel 0, which does not exist"),
        (with_handle(channel=1), "belongs to exchange 0, channel 1, which does not exist"),
    ],
)
def test_metadata_whose_numbers_do_not_fit_together_is_refused(changes: dict[str, Any], message: str) -> None:
    right = replace(
        metadata_of(3),
        parallelism={"a": 1, "b": 2},
        exchanges=(("a", "b", "hash"),),
        subtasks=(subtask(0, KEYED, IN_FLIGHT), subtask(1)),
    )
    assert decode_metadata(encode_metadata(right)) == right
    with pytest.raises(ValueError, match=message):
        decode_metadata(encode_metadata(replace(right, **changes)))


def test_metadata_of_two_layouts_at_once_is_refused() -> None:
    _, body = encode_metadata(replace(metadata_of(3), schema="netstack.checkpoint/1")).split(b"\n", 1)
    header = {"schema": "netstack.checkpoint/2", "size": len(body), "sha256": checksum(body)}
    with pytest.raises(ValueError, match=", but its contents name another"):
        decode_metadata(msgspec.json.encode(header) + b"\n" + body)
