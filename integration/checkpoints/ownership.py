"""Who has a checkpoint directory: one run at a time.

A run holds a lock of the operating system on the file `_lock` in the directory, so whatever ends the process
ends the lock. What stands in the file only tells others who it is; the file stays, for deleting it would let
two runs hold locks on two files of one name.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from netstack import StorageError

LOCK_NAME = "_lock"
"""The file in a checkpoint directory that its owner has locked."""

LONGEST_OWNER = 1 << 10
"""Bytes of what it says at most."""


class Owner(msgspec.Struct, frozen=True):
    """The process that has a directory."""

    pid: int
    host: str
    since: str
    """When it took it, in UTC."""


class DirectoryOwnership:
    """The lock of one directory; to hold it again within the same object does nothing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = FileLock(
            directory / LOCK_NAME,
            thread_local=False,
            # Without locks of the system, a file that outlives its process would keep everybody out.
            fallback_to_soft=False,
            on_acquired=_write_owner,
        )

    def __reduce__(self) -> tuple[type[DirectoryOwnership], tuple[Path]]:
        return type(self), (self._directory,)  # what another process gets holds nothing

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; the directory is made if it is not there.

        Raises:
            StorageError: Another run holds it, which the message names, or no lock can be held there.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(blocking=False)
        except Timeout:
            raise StorageError(f"{self._directory} is in use by {self._owner()}; wait for its end") from None
        except (OSError, NotImplementedError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise StorageError(f"{self._directory}: no lock can be held there: {reason}") from error
        try:
            yield
        finally:
            self._lock.release()

    def _owner(self) -> str:
        try:
            with open(self._directory / LOCK_NAME, "rb") as file:
                owner = msgspec.json.decode(file.read(LONGEST_OWNER), type=Owner)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return "another run"
        return f"another run (process {owner.pid} on {owner.host}, since {owner.since})"


def _write_owner(descriptor: int) -> None:
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    owner = msgspec.json.encode(Owner(os.getpid(), platform.node(), since)) + b"\n"
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, owner, 0)
