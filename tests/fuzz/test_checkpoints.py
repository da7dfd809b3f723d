"""Doors of checkpoints as a whole, as `netstack state` and `checkpoints` read them, and as a run does."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path

import msgspec
import pytest
from hypothesis import strategies as st

from integration.storage.checkpoint_list import find_checkpoint, take_inventory
from integration.storage.directory import storage_at
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
from netstack.scenarios.checkpointed_shape import shape_of
from netstack.state.changelog import restore_logged
from netstack.state.handles import WHOLE_FILES
from netstack.state.table_backend import TableSettings, TableStateBackend

from .damage import MISTAKES, as_json, changed, damaged, door, refused, scratch, words_in
from .stored import FOLDER as CHECKPOINT
from .stored import Stored, checkpoints, handles_of, inlined, job, resealed
from .test_state import logs, tables


@st.composite
def spoilt(
    draw: st.DrawFn, valid: st.SearchStrategy[Stored], reseal: bool
) -> tuple[bytes, Mapping[str, bytes]]:
    """A checkpoint with mistakes in its metadata, in the bytes within these, or in its files.

    `reseal`: whether the checksums in the metadata mostly are those of the damaged files.
    """
    stored = draw(valid)
    tree, files = deepcopy(stored.tree), dict(stored.files)
    words = words_in(tree)
    for _ in range(draw(MISTAKES)):
        place = draw(st.sampled_from(("metadata", "file", "handle")))
        inline = [handle for handle in handles_of(tree) if inlined(handle) is not None]
        if place == "file" and files:
            path = draw(st.sampled_from([*files]))
            files[path] = draw(damaged(st.just(files[path])))
        elif place == "handle" and inline:
            handle = draw(st.sampled_from(inline))
            data = draw(damaged(st.just(inlined(handle))) | tables() | logs())
            handle |= {"inline": base64.b64encode(data).decode(), "size": len(data)}
        else:
            tree = draw(changed(tree, words))
    if reseal and draw(st.integers(0, 9)):
        resealed(tree, files)
    return draw(as_json(st.just(tree))), files


def _placed(body: bytes, files: Mapping[str, bytes]) -> Path:
    """A directory with this checkpoint in it, and nothing else."""
    root = scratch() / "checkpoints"
    shutil.rmtree(root, ignore_errors=True)
    (root / CHECKPOINT).mkdir(parents=True)
    for path, data in files.items():
        (root / path).write_bytes(data)
    body += b"\n"
    header = {"schema": "netstack.checkpoint/2", "size": len(body), "sha256": checksum(body)}
    (root / CHECKPOINT / "_metadata").write_bytes(msgspec.json.encode(header) + b"\n" + body)
    return root


def check(body: bytes, files: Mapping[str, bytes]) -> bool:
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


@door(st.deferred(lambda: spoilt(st.sampled_from(checkpoints()[:3]), reseal=True)), 0.3)
def test_checkpoints_of_memory(body: bytes, files: Mapping[str, bytes]) -> bool:
    return check(body, files)


# Without resealing: RocksDB may crash on a damaged table file whose checksum has been changed as well.
@pytest.mark.long
@door(st.deferred(lambda: spoilt(st.sampled_from(checkpoints()[3:]), reseal=False)), 0.1)
def test_checkpoints_of_tables(body: bytes, files: Mapping[str, bytes]) -> bool:
    return check(body, files)


def _go_on(checkpoint: InitialCheckpoint, parallelism: int) -> None:
    """Begin the job with it, as far as state goes; refusals are those that a run knows what to do with."""
    shape = shape_of(job({}))
    shape = shape._replace(parallelism={**shape.parallelism, "count": parallelism})
    if checkpoint.mismatches(shape):
        return
    fitted = checkpoint.fitted(shape)
    in_tables = any(
        handle.format in WHOLE_FILES for each in fitted.metadata.subtasks for handle in each.handles
    )
    with scratch_stores() if in_tables else nullcontext() as stores:
        try:
            source = RecoverySource(
                fitted.metadata, fitted.storage, owned=False, rescaling=Rescaling(shape, {})
            )
            for vertex, subtasks in shape.parallelism.items():
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
