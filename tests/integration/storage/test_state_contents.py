"""What lies in a checkpoint: read the same from each format, shown, written, and read through Spark."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from integration.cli.app import main
from integration.cli.exit_status import FAILED, MISTAKE
from integration.storage import DirectoryStorage, find_checkpoint, table_stores
from integration.storage.state_contents import as_json, contents_of, entries_of
from netstack import (
    CollectionSource,
    Edge,
    KeyedOperator,
    KeyedStateBackend,
    NetworkConfig,
    Scenario,
    ScheduledSavepoint,
    SourceObject,
    StateBackendType,
    Vertex,
    emulate,
)

CHANCE = random.Random(3)
LINES = [
    b"%s:%d" % (CHANCE.choices([b"flink", b"spark", b"w%d" % CHANCE.randrange(40)], [5, 3, 9])[0], number)
    for number in range(600)
]


class Words(KeyedOperator):
    """Counts words, and keeps where they stood."""

    def declare(self, state: KeyedStateBackend) -> None:
        self._count = state.reducing("count", lambda one, other: one + other)
        self._places = state.list("places")
        self._pages = state.map("pages")

    def key_of(self, record: bytes) -> object:
        return record.split(b":")[0].decode()

    def process_record(self, record: bytes) -> Iterable[bytes]:
        place = int(record.split(b":")[1])
        self._count.add(1)
        self._places.add(place)
        self._pages.put(place // 100, [place])
        return ()


WAYS: dict[str, dict[str, Any]] = {
    "heap": {},
    "tables": {"state_backend": StateBackendType.ROCKSDB, "incremental_checkpoints": True},
    "changelog": {"changelog_enabled": True, "materialize_interval_s": 1.0},
}


@pytest.fixture(scope="module", params=WAYS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints, the last of which has all words, and a savepoint."""
    folder = tmp_path_factory.mktemp("state") / request.param
    options = {"state_memory_threshold_bytes": 100, "checkpoint_interval_s": 0.4} | WAYS[request.param]
    scenario = Scenario(
        name="words",
        duration_s=5.0,
        savepoints=(ScheduledSavepoint(at_s=1.0),),
        config=NetworkConfig(**options),
        vertices=(
            Vertex(name="lines", source=SourceObject(source=CollectionSource([LINES]), rates=(300.0,))),
            Vertex(name="words", parallelism=3, operator=lambda subtask: Words()),
        ),
        edges=(Edge(source="lines", target="words", ship="hash"),),
    )
    with table_stores(scenario) as tables:
        emulate(scenario, storage=DirectoryStorage(folder), tables=tables)
    return folder


def expected() -> dict[str, dict[str, Any]]:
    count: Counter[str] = Counter()
    places, pages = defaultdict[str, list[int]](list), defaultdict[str, dict[int, list[int]]](dict)
    for line in LINES:
        word, number = line.decode().split(":")
        count[word] += 1
        places[word].append(int(number))
        pages[word][int(number) // 100] = [int(number)]
    return {"count": count, "places": places, "pages": pages}


def test_entries_are_the_same_however_they_are_stored(directory: Path) -> None:
    found: dict[str, dict[str, Any]] = {"count": {}, "places": {}, "pages": defaultdict(dict)}
    for entry in entries_of(find_checkpoint(directory)):
        assert (entry.vertex, 0 <= entry.key_group < 128) == ("words", True)
        if entry.kind == "map":
            found[entry.state][entry.key][entry.key_in_map] = entry.value
        else:
            found[entry.state][entry.key] = entry.value
    assert found == expected()


def test_figures_add_up(directory: Path) -> None:
    contents = contents_of(find_checkpoint(directory), top=2)
    assert contents.parallelism == {"lines": 1, "words": 3}
    for each in contents.keyed:
        right = expected()[each.state]
        assert each.keys == len(right)
        assert each.size == sum(each.by_key_group.values()) == sum(each.by_subtask) > 0
        assert each.skew == pytest.approx(3 * max(each.by_subtask) / each.size)
        assert each.group_skew == pytest.approx(128 * max(each.by_key_group.values()) / each.size)
        assert len(each.largest) == 2
    count, pages, places = contents.keyed
    assert (count.kind, pages.kind, places.kind) == ("reducing", "map", "list")
    assert pages.entries == sum(map(len, expected()["pages"].values()))
    assert [key.key for key in places.largest] == ['"flink"', '"spark"']
    assert places.largest[0].entries == len(expected()["places"]["flink"])
    (position,) = contents.operator
    assert (position.vertex, position.by_subtask) == ("lines", [1])


def test_what_the_command_prints_and_writes(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", str(directory), "--top", "1", "--arrow", str(tmp_path / "out.arrow")]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80 or str(directory) in out.splitlines()[0]
    assert max(map(len, out.splitlines()[1:])) <= 80
    assert "largest keys of words, places" in out
    with pa.OSFile(str(tmp_path / "out.arrow")) as file:
        rows = pa.ipc.open_file(file).read_all().to_pylist()
    counts = {json.loads(row["key"]): json.loads(row["value"]) for row in rows if row["state"] == "count"}
    assert counts == expected()["count"]
    assert main(["state", str(directory), "--state", "pages", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "netstack.state/1"
    assert [each["state"] for each in document["keyed"]] == ["pages"]


def test_a_savepoint_is_read_like_a_checkpoint_and_listed_beside_them(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (savepoint,) = directory.glob("savepoint-*")
    contents = contents_of(find_checkpoint(savepoint))
    assert contents.checkpoint_type == "SAVEPOINT"
    assert 0 < contents.keyed[0].keys <= len(expected()["count"])
    assert main(["checkpoints", str(directory), "--verify"]) == 0
    assert savepoint.name in capsys.readouterr().out
    extra = savepoint / "extra"
    extra.touch()
    assert main(["checkpoints", str(directory), "--verify"]) == FAILED
    assert (
        f"left over: {savepoint.name}/extra: the savepoint does not use this file" in capsys.readouterr().out
    )
    extra.unlink()
    unfinished = directory / "savepoint-99"
    unfinished.mkdir()
    (unfinished / "part").touch()
    assert main(["checkpoints", str(directory), "--verify"]) == FAILED
    out = capsys.readouterr().out
    assert "savepoint-99" in out
    assert "left over: savepoint-99/part: the savepoint was never completed" in out
    (unfinished / "part").unlink()
    unfinished.rmdir()
    file = next(path for path in savepoint.iterdir() if path.name != "_metadata")
    data = file.read_bytes()
    file.unlink()
    assert main(["checkpoints", str(directory), "--verify"]) == FAILED
    assert f"missing: {savepoint.name}/{file.name}: the file does not exist" in capsys.readouterr().out
    file.write_bytes(data)


MISTAKES = {
    "vertex": (["--vertex", "nix"], ": has no vertex 'nix'; its vertices are lines, words"),
    "state": (["--state", "nix"], ": has no keyed state 'nix'; its keyed states are count, pages, places"),
    "no state": (
        ["--vertex", "lines", "--state", "nix"],
        ": has no keyed state 'nix'; it has no keyed state",
    ),
    "file": (["--arrow", "/nowhere/out"], "/nowhere/out"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_not_there_is_said_in_a_line(
    directory: Path, mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, text = MISTAKES[mistake]
    assert main(["state", str(directory), *arguments]) == MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert text in captured.err


@pytest.mark.parametrize("damage", ["a photograph", "cut short", "of a newer version", "a file that is gone"])
def test_what_cannot_be_read_is_said_in_a_line(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "savepoint-3"
    folder.mkdir()
    body = b'{"schema":"netstack.checkpoint/9","size":2,"sha256":""}\n{}'
    metadata = {"a photograph": b"\xff\xd8\xff\xe0" * 99, "of a newer version": body, "cut short": body[:30]}
    if damage in metadata:
        (folder / "_metadata").write_bytes(metadata[damage])
    assert main(["state", str(folder)]) == MISTAKE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith(f"netstack state: {folder}")


def test_keys_and_values_as_json() -> None:
    values = [b"text", b"\xff", (1, "a"), {"a": [1.5, None]}, {1: 2, (1, 2): True}, "ü"]
    texts = ['"text"', '"/w=="', '[1,"a"]', '{"a":[1.5,null]}', "[[1,2],[[1,2],true]]", '"ü"']
    assert list(map(as_json, values)) == texts


@pytest.mark.spark
def test_state_is_a_data_frame(spark: Any, directory: Path) -> None:
    from integration.spark import read_state

    frame = read_state(spark, str(directory), "words", "count")
    rows = frame.selectExpr(
        "from_json(concat('[', key, ']'), 'array<string>')[0] as word", "int(value)", "subtask"
    )
    found = rows.collect()
    assert {row[0]: row[1] for row in found} == expected()["count"]
    assert {row[2] for row in found} == {0, 1, 2}
    pages = read_state(spark, str(directory), "words", "pages")
    assert pages.where("key = '\"flink\"'").count() == len(expected()["pages"]["flink"])
