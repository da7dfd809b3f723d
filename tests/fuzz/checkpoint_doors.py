"""Doors of checkpoints as a whole, as `netstack state` and `checkpoints` read them, and as a run does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from integration.storage.checkpoint_list import find_checkpoint, take_inventory
from integration.storage.directory import storage_at
from integration.storage.savepoint_requests import FOLDER, RequestFolder
from integration.storage.state_contents import batches_of, contents_of, entries_of, scratch_stores
from netstack import (
    InitialCheckpoint,
    InputError,
    KeyedStateBackend,
    OperatorStateBackend,
    StateError,
    StorageError,
)
from netstack.checkpoints.metadata_encoding import checksum
from netstack.checkpoints.recovery import UNUSABLE, RecoverySource
from netstack.checkpoints.rescaling import Rescaling
from netstack.exchange.key_groups import key_group_range
from netstack.scenarios.exchange_patterns import JobShape
from netstack.state.changelog import restore_logged
from netstack.state.snapshots import StateFormat
from netstack.state.table_backend import TableSettings, TableStateBackend

from .door import Arguments, Door, refused, scratch
from .mutation import as_json, mutated, spoilt, words_in
from .state_doors import EXCHANGES, JOB, checkpoints, draw_log, draw_table, inlined, resealed, with_inline

_OF_TABLES = (StateFormat.TABLE_FILE, StateFormat.CATALOGUE)

_IN_MEMORY, _IN_TABLES = slice(0, 3), slice(3, 4)


def in_memory(random: Random) -> Iterator[Arguments]:
    """Checkpoints of state that was in memory, with something wrong in metadata, handles or files."""
    return _spoilt(random, _IN_MEMORY)


def in_tables(random: Random) -> Iterator[Arguments]:
    """Checkpoints of state that was in tables of RocksDB, likewise."""
    return _spoilt(random, _IN_TABLES)


def _spoilt(random: Random, which: slice) -> Iterator[Arguments]:
    right = checkpoints()[which]
    words = words_in(*(stored.tree for stored in right))
    while True:
        stored = random.choice(right)
        tree, files = stored.tree, dict(stored.files)
        for _ in range(random.choice((0, 1, 1, 1, 2))):
            kind = random.random()
            if kind < 0.35:
                tree = mutated(random, tree, words)
            elif kind < 0.65 and files:
                path = random.choice(list(files))
                files[path] = spoilt(random, files[path])
            else:
                tree = _with_spoilt_handle(random, tree)
        if random.random() < 0.9:
            tree = _copied(tree)
            resealed(tree, files)
        yield as_json(random, tree, 0.02), files


def _with_spoilt_handle(random: Random, tree: Any) -> Any:
    """A tree in which one handle has other bytes, if it holds any."""
    try:
        place = random.randrange(len(tree["subtasks"]))
        handles = tree["subtasks"][place]["handles"]
        number = random.randrange(len(handles))
        data = inlined(handles[number])
    except (KeyError, IndexError, TypeError, ValueError):
        return tree
    if data is None:
        return tree
    kind = random.random()
    data = spoilt(random, data) if kind < 0.6 else draw_table(random) if kind < 0.85 else draw_log(random)
    tree = _copied(tree)
    tree["subtasks"][place]["handles"][number] = with_inline(handles[number], data)
    return tree


def _copied(tree: Any) -> Any:
    """A copy that shares nothing that is changed."""
    if isinstance(tree, Mapping):
        return {key: _copied(value) for key, value in tree.items()}
    return [_copied(value) for value in tree] if isinstance(tree, list) else tree


def _placed(body: bytes, files: Mapping[str, bytes]) -> Path:
    """A directory with this checkpoint in it, and nothing else."""
    root = scratch() / "checkpoints"
    shutil.rmtree(root, ignore_errors=True)
    (root / "chk-17").mkdir(parents=True)
    for path, data in files.items():
        (root / path).write_bytes(data)
    body += b"\n"
    header = {"schema": "netstack.checkpoint/2", "size": len(body), "sha256": checksum(body)}
    (root / "chk-17/_metadata").write_bytes(msgspec.json.encode(header) + b"\n" + body)
    return root


def check_checkpoint(body: bytes, files: Mapping[str, bytes]) -> bool:
    """A checkpoint is listed; its state is shown and restored, at any parallelism, or it is refused."""
    root = _placed(body, files)
    msgspec.json.encode(take_inventory(storage_at(str(root)), str(root), verify=True))
    try:
        checkpoint = find_checkpoint(str(root))
        contents = contents_of(checkpoint)
        msgspec.json.encode(contents)
        for batch in batches_of(entries_of(checkpoint)):
            batch.validate()
    except (StorageError, StateError, InputError) as error:
        return refused(error)
    for parallelism in (2, 3):
        _go_on(checkpoint, parallelism)
    return True


def _go_on(checkpoint: InitialCheckpoint, parallelism: int) -> None:
    """Begin the job with it, as far as state goes; refusals are those that a run knows what to do with."""
    job = JobShape(JOB, {"source": 1, "count": parallelism, "sink": 1}, EXCHANGES)
    if checkpoint.mismatches(job):
        return
    fitted = checkpoint.fitted(job)
    in_tables = any(
        handle.format in _OF_TABLES for each in fitted.metadata.subtasks for handle in each.handles
    )
    with scratch_stores() if in_tables else nullcontext() as stores:
        try:
            source = RecoverySource(
                fitted.metadata, fitted.storage, owned=False, rescaling=Rescaling(job, {})
            )
            for vertex, subtasks in job.parallelism.items():
                for subtask in range(subtasks):
                    state = source.of(vertex, subtask)
                    groups = key_group_range(128, subtasks, subtask)
                    keyed: KeyedStateBackend = KeyedStateBackend(groups, 128, {})
                    if stores is not None:
                        name = f"{vertex}-{subtask}"
                        keyed = TableStateBackend(name, groups, 128, {}, TableSettings(stores))
                    restore_logged(keyed, state.state_handles, state.read)
                    keyed.close()
                    OperatorStateBackend().restore(state.state_handles, state.read)
        except UNUSABLE as error:
            refused(error)


_REQUEST: dict[str, Any] = {"directory": None, "format": 0, "action": 1}


def requests(random: Random) -> Iterator[Arguments]:
    """Files in the folder in which a run finds requests for savepoints."""
    words = [*_REQUEST, "location", "problem", "a"]
    names = ("5f3a.json", "a.json", "x.answer.json", ".json", "\u20ac.json", "a b.json", "a.json.partial")
    while True:
        files = {}
        for _ in range(random.choice((1, 1, 2, 3))):
            tree: Any = {**_REQUEST, "directory": random.choice((None, "/tmp/x", "s3://a/b"))}
            tree |= {"format": random.randrange(2), "action": random.randrange(4)}
            for _ in range(random.choice((0, 1, 1, 2))):
                tree = mutated(random, tree, words)
            files[random.choice(names)] = as_json(random, tree)
        yield (files,)


def check_requests(files: Mapping[str, bytes]) -> bool:
    """Each file is a request or gets an answer that says why it is none; what is no request stays."""
    root = scratch() / "requests"
    with RequestFolder(root).opened() as take:
        folder = root / FOLDER
        for name, data in files.items():
            (folder / name).write_bytes(data)
        wishes = take()
        asked = [name for name in files if name.endswith(".json") and not name.endswith(".answer.json")]
        answers = [path for path in folder.glob("*.answer.json") if path.name not in files]
        assert len(wishes) + len(answers) == len(asked)
        for answer in answers:
            told = msgspec.json.decode(answer.read_bytes())
            assert told["location"] is None
            refused(ValueError(told["problem"]))
        assert take() == []
    shutil.rmtree(root)
    return bool(wishes)


DOORS = [
    Door("checkpoint", in_memory, check_checkpoint, 100, 0.1),
    Door("tables", in_tables, check_checkpoint, 5, 0.01, native=True),
    Door("request", requests, check_requests, 2_000, 0.5),
]
