"""What sinks in several processes commit, each transaction in a file: a folder that all of them reach.

Who has come to a process with a job is noted there, too: the process, by its number.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from netstack import Transaction

from .checks import CommitLog

_TRANSACTION, _CHANGED, _PROCESS = "transaction", "changed", "process"


class CommitFolder:
    """A folder of transactions, which goes along with the operators of a job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[Callable[[Path], CommitFolder], tuple[Path]]:
        """Be noted as what has come to another process."""
        return _come_to_a_process, (self._folder,)

    def commit(self, transaction: Transaction) -> None:
        """Make a transaction visible, once; if it comes again with other records, that is noted."""
        content = msgspec.msgpack.encode(transaction)
        path = self._folder / f"{_TRANSACTION} {'-'.join(map(str, transaction[:3]))}"
        written = _write_new(self._folder, content)
        try:
            with suppress(FileExistsError):
                os.link(written, path)  # whole, or not at all
                return
            if path.read_bytes() != content:
                os.link(written, self._folder / f"{_CHANGED} {written.name}")
        finally:
            written.unlink()

    def log(self) -> CommitLog:
        """All that was committed."""
        log = CommitLog()
        for kind in (_TRANSACTION, _CHANGED):  # what has changed comes second
            for path in sorted(self._folder.glob(f"{kind} *")):
                log.commit(msgspec.msgpack.decode(path.read_bytes(), type=Transaction))
        return log

    def processes(self) -> list[int]:
        """The processes that it has come to, in the order in which it did."""
        notes = self._folder.glob(f"{_PROCESS} *")
        return [int(note.name.split()[1]) for note in sorted(notes, key=lambda note: note.stat().st_mtime_ns)]

    def note_process(self) -> None:
        """Note that it has come to this process."""
        (self._folder / f"{_PROCESS} {os.getpid()}").touch()


def _come_to_a_process(folder: Path) -> CommitFolder:
    commits = CommitFolder(folder)
    commits.note_process()
    return commits


def _write_new(folder: Path, content: bytes) -> Path:
    handle, name = tempfile.mkstemp(prefix="new-", dir=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return Path(name)
