"""The names of the files of a checkpoint storage, relative to its root.

::

    chk-17/_metadata         written last; with it the checkpoint is complete
    chk-17/source-0-...      belongs to checkpoint 17 alone, and goes with it
    shared/window-1-...      may belong to several checkpoints; goes when it is deleted by name

A savepoint is a folder of its own, by whatever name, with its metadata and its files side by side::

    savepoint-17-5f3a/_metadata
    savepoint-17-5f3a/source-0-...

They are those of Flink's file-based checkpoint storage (``AbstractFsCheckpointStorageAccess``), below one
job's directory.
"""

from __future__ import annotations

import re

from .metadata import checksum

METADATA_NAME = "_metadata"
"""Name of the file that makes a checkpoint complete."""

CLAIM_NAME = "_claimed"
"""Name of the file that says which run a checkpoint belongs to, if that is not the one that took it."""

SAVEPOINT_PREFIX = "savepoint-"
"""Begin of the names that savepoints are given; they may be renamed."""

SHARED_FOLDER = "shared"
"""Folder of the files that several checkpoints may use."""

LONGEST_NAME = 200
"""Characters of a file's name at most; file systems allow 255 bytes, and some add to what they are given."""

_CHECKSUM_LENGTH = 16
_FOLDER = re.compile(r"chk-(0|[1-9][0-9]*)")
_PATH = re.compile(r"(?:chk-[0-9]+|shared)/[A-Za-z0-9_%-]+")
_NAME = re.compile(r"[A-Za-z0-9_%-]+")
_ESCAPED = re.compile(rb"[^A-Za-z0-9_-]")


def file_name(name: str) -> str:
    """Return a name as one of a file: all but ASCII letters, digits, ``_`` and ``-`` as %XX of their UTF-8.

    The end of a very long one gives way to a checksum.

    Raises:
        ValueError: It is empty, or that of the metadata.
    """
    if name in ("", METADATA_NAME, CLAIM_NAME):
        raise ValueError(f"{name!r} is no name for a file of a checkpoint")
    plain = name.encode("utf-8", "replace")
    escaped = _ESCAPED.sub(lambda match: b"%%%02X" % match[0][0], plain).decode()
    if len(escaped) <= LONGEST_NAME:
        return escaped
    return f"{escaped[: LONGEST_NAME - _CHECKSUM_LENGTH - 1]}-{checksum(plain)[:_CHECKSUM_LENGTH]}"


def folder_of(checkpoint_id: int) -> str:
    """Return the folder of a checkpoint's own files.

    Raises:
        ValueError: The id is negative.
    """
    if checkpoint_id < 0:
        raise ValueError(f"{checkpoint_id} is no checkpoint id")
    return f"chk-{checkpoint_id}"


def metadata_path(checkpoint_id: int) -> str:
    """Return the path of a checkpoint's metadata."""
    return f"{folder_of(checkpoint_id)}/{METADATA_NAME}"


def claim_path(checkpoint_id: int) -> str:
    """Return the path of the file that says whose a checkpoint is."""
    return f"{folder_of(checkpoint_id)}/{CLAIM_NAME}"


def checkpoint_id_of(folder: str) -> int | None:
    """Return the id of the checkpoint whose folder has this name, None if it is none."""
    match = _FOLDER.fullmatch(folder)
    return int(match[1]) if match else None


def is_file_path(path: str) -> bool:
    """Return whether a path is one of a file that a checkpoint may have, so that it is safe to use."""
    return _PATH.fullmatch(path) is not None


def is_file_name(name: str) -> bool:
    """Return whether a name is one of a file of a savepoint, which lies in no folder of its own."""
    return _NAME.fullmatch(name) is not None and name not in (METADATA_NAME, CLAIM_NAME)
