"""Encoding and validation of the metadata of a checkpoint.

The metadata is two lines of JSON; the first contains the checksum of the second::

    {"schema":"netstack.checkpoint/2","size":512,"sha256":"9f86d0..."}
    {"schema":"netstack.checkpoint/2","checkpoint_id":17,"job":"demo", ...}

It is JSON so that people can read it with any tool. Inlined state is in base64. The checksum detects a
truncated or changed file. Equal metadata is encoded as equal bytes.

The validation checks that key groups, parallelism, channels and sizes are consistent. The sizes of files are
checked when the files are read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from ..scenarios.scenario import MAX_PARALLELISM
from ..state.handles import StateHandle
from ..state.state_kinds import CHANNEL_STATE, StateKind
from .metadata import READABLE, SCHEMA, CheckpointMetadata, SubtaskSnapshot

LONGEST_HEADER = 1 << 10
"""Maximum length of the first line in bytes."""


class _Header(msgspec.Struct, frozen=True):
    schema: str
    size: int
    sha256: str


def checksum(data: bytes | memoryview) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def encode_metadata(metadata: CheckpointMetadata) -> bytes:
    """Encode the metadata of a completed checkpoint."""
    body = msgspec.json.encode(metadata, order="deterministic") + b"\n"
    header = _Header(metadata.schema, len(body), checksum(body))
    return msgspec.json.encode(header) + b"\n" + body


def decode_metadata(data: bytes) -> CheckpointMetadata:
    """Decode and check the metadata of a checkpoint.

    Raises:
        ValueError: if the bytes are truncated, changed, of another schema, or not metadata. The message names
            the reason.
    """
    end = data.find(b"\n", 0, LONGEST_HEADER)
    try:
        header = msgspec.json.decode(data[: max(end, 0)], type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("its first line is not the header of checkpoint metadata") from None
    if header.schema not in READABLE:
        raise ValueError(
            f"it has the format {header.schema!r}, but only {SCHEMA!r} and older formats can be read"
        )
    body = memoryview(data)[end + 1 :]  # no copy, since it may be large
    if len(body) != header.size:
        raise ValueError(f"it has {len(body)} bytes after its first line, but its header says {header.size}")
    if checksum(body) != header.sha256:
        raise ValueError("its contents do not match the checksum in its header")
    try:
        metadata = msgspec.json.decode(body, type=CheckpointMetadata)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is not valid checkpoint metadata: {error}") from error
    if metadata.schema != header.schema:
        raise ValueError(f"its header names the format {header.schema!r}, but its contents name another")
    problem = next(_problems(metadata), None)
    if problem is not None:
        raise ValueError(f"it is not valid checkpoint metadata: {problem}")
    return metadata


MOST_BYTES = (1 << 63) - 1
"""Maximum size of all state together in bytes: the limit of file systems and of 64-bit numbers."""


def _problems(metadata: CheckpointMetadata) -> Iterator[str]:
    if not 0 <= metadata.checkpoint_id <= MOST_BYTES:
        yield f"{metadata.checkpoint_id} is not a valid checkpoint id"
    for vertex, subtasks in metadata.parallelism.items():
        if not 1 <= subtasks <= MAX_PARALLELISM:
            yield f"{vertex!r} has the parallelism {subtasks}; it must be from 1 to {MAX_PARALLELISM}"
            return
    for vertex, most in metadata.max_parallelism.items():
        least = metadata.parallelism.get(vertex, 1)
        if not least <= most <= MAX_PARALLELISM:
            bounds = f"it must be from {least} to {MAX_PARALLELISM}"
            yield f"{vertex!r} has the maximum parallelism {most}; {bounds}"
            return
    yield from _about_subtasks(metadata)
    if metadata.size > MOST_BYTES:
        yield f"the size of its state is {metadata.size} bytes, which is not possible"


def _about_subtasks(metadata: CheckpointMetadata) -> Iterator[str]:
    seen = set()
    for snapshot in metadata.subtasks:
        where = f"subtask {snapshot.subtask} of {snapshot.vertex!r}"
        if not 0 <= snapshot.subtask < metadata.parallelism.get(snapshot.vertex, 0):
            yield f"{where} does not exist in its job"
            return
        if (snapshot.vertex, snapshot.subtask) in seen:
            yield f"{where} appears twice"
        seen.add((snapshot.vertex, snapshot.subtask))
        for handle in snapshot.handles:
            if what := _about_handle(handle) or _about_place(metadata, snapshot, handle):
                yield f"{handle.kind} state {handle.name!r} of {where} {what}"


def _about_handle(handle: StateHandle) -> str | None:
    """Return the error in the sizes or key groups of a handle, or None."""
    numbers = [handle.size, handle.offset] + ([] if handle.file is None else [handle.file.size])
    if not all(0 <= number <= MOST_BYTES for number in numbers):
        return f"has the offset {handle.offset} and the size {handle.size}, which is not possible"
    if handle.key_groups is not None:
        first, last = handle.key_groups
        if not 0 <= first <= last < MAX_PARALLELISM:
            return f"has the key groups {first} to {last}, which is not possible"
    return None


def _about_place(metadata: CheckpointMetadata, snapshot: SubtaskSnapshot, handle: StateHandle) -> str | None:
    """Return the error if a handle is in-flight data of a channel that does not exist, or None."""
    if handle.kind not in CHANNEL_STATE or _has_channel(metadata, snapshot, handle):
        return None
    return f"belongs to exchange {handle.exchange}, channel {handle.channel}, which does not exist"


def _has_channel(metadata: CheckpointMetadata, snapshot: SubtaskSnapshot, handle: StateHandle) -> bool:
    if handle.exchange < 0 or handle.channel < 0:
        return False
    if metadata.exchanges is None:
        return True
    own, other = (1, 0) if handle.kind is StateKind.INPUT_CHANNEL else (0, 1)
    ends = [each[other] for each in metadata.exchanges if each[own] == snapshot.vertex]
    return handle.exchange < len(ends) and handle.channel < metadata.parallelism.get(ends[handle.exchange], 0)
