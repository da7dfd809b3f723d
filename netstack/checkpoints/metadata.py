"""The bytes of a checkpoint's metadata: two lines of JSON, the first with the checksum of the second.

::

    {"schema":"netstack.checkpoint/2","size":512,"sha256":"9f86d0..."}
    {"schema":"netstack.checkpoint/2","checkpoint_id":17,"job":"demo", ...}

JSON, so that a person can read it with whatever is at hand; state that is inlined is in base64. The checksum
tells a file that was cut short or changed from a good one. The same metadata has the same bytes.
"""

from __future__ import annotations

import hashlib

import msgspec

from ..state.snapshots import READABLE, SCHEMA, CheckpointMetadata
from .metadata_rules import metadata_problem

LONGEST_HEADER = 1 << 10
"""Bytes of the first line at most."""


class _Header(msgspec.Struct, frozen=True):
    schema: str
    size: int
    sha256: str


def checksum(data: bytes | memoryview) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def encode_metadata(metadata: CheckpointMetadata) -> bytes:
    """Return the bytes of a completed checkpoint's metadata."""
    body = msgspec.json.encode(metadata, order="deterministic") + b"\n"
    header = _Header(metadata.schema, len(body), checksum(body))
    return msgspec.json.encode(header) + b"\n" + body


def decode_metadata(data: bytes) -> CheckpointMetadata:
    """Return the metadata in these bytes.

    Raises:
        ValueError: They are cut short, changed, of another layout, or no metadata at all; says which.
    """
    end = data.find(b"\n", 0, LONGEST_HEADER)
    try:
        header = msgspec.json.decode(data[: max(end, 0)], type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("it does not begin like checkpoint metadata") from None
    if header.schema not in READABLE:
        raise ValueError(f"its layout is {header.schema!r}, and only {SCHEMA!r} and older ones can be read")
    body = memoryview(data)[end + 1 :]  # no copy: there may be much of it
    if len(body) != header.size:
        raise ValueError(f"it has {len(body)} bytes after its first line instead of {header.size}")
    if checksum(body) != header.sha256:
        raise ValueError("its checksum is not the one in its first line")
    try:
        metadata = msgspec.json.decode(body, type=CheckpointMetadata)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is no checkpoint metadata: {error}") from error
    if metadata.schema != header.schema:
        raise ValueError(f"its layout is {header.schema!r} in its first line and another one in the second")
    problem = metadata_problem(metadata)
    if problem is not None:
        raise ValueError(f"it is no checkpoint metadata: {problem}")
    return metadata
