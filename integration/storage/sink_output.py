"""Committed transactions of sinks, each a file that survives a killed run.

A transaction is written under another name and renamed, so it appears completely or not at all. A run that
resumes from a checkpoint commits that checkpoint's transactions again. An existing file must then have the
same bytes. So in the end the directory has the content of an undisturbed run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from netstack import StorageError, Transaction, file_name

SUFFIX = ".transaction"
"""Suffix of a committed transaction: a MessagePack array of a Transaction's fields."""

PARTIAL = ".partial"
"""Suffix of a transaction while it is being written."""


class TransactionDirectory:
    """Committed transactions in a directory of this machine; pass `commit` to `transactional_sink`.

    A run that starts from a checkpoint needs `resume`, which allows and keeps earlier transactions.

    Raises:
        StorageError: the directory cannot be made, or has transactions although `resume` is false.
    """

    def __init__(self, path: str | Path, *, resume: bool = False) -> None:
        self.path = Path(path).absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            taken = not resume and any(self._files())
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}") from error
        if taken:
            raise StorageError(
                f"{self.path} contains transactions of an earlier run; resume that run, or give another "
                "directory"
            )

    def commit(self, transaction: Transaction) -> None:
        """Make a transaction visible and durable; a second call changes nothing.

        Raises:
            StorageError: it cannot be written, or there is a different transaction of the same vertex,
                subtask and checkpoint.
        """
        name = file_name("-".join(map(str, transaction[:3]))) + SUFFIX
        data = msgspec.msgpack.encode(transaction)
        try:
            known = (self.path / name).read_bytes() if (self.path / name).exists() else None
            if known is None:
                self._write(name, data)
        except OSError as error:
            raise StorageError(f"{self.path / name}: {error.strerror}") from error
        if known is not None and known != data:
            raise StorageError(
                f"{self.path / name} has already been committed by another run, with other records"
            )

    @property
    def transactions(self) -> list[Transaction]:
        """All transactions, by checkpoint, vertex and subtask.

        Raises:
            StorageError: a transaction cannot be read.
        """
        try:
            read = [msgspec.msgpack.decode(file.read_bytes(), type=Transaction) for file in self._files()]
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"{self.path}: {error}") from error
        return sorted(read, key=lambda each: (each.checkpoint_id, each.vertex, each.subtask))

    @property
    def records(self) -> list[bytes]:
        """The records of all transactions. Raises the same errors as `transactions`."""
        return [record for transaction in self.transactions for record in transaction.records]

    def _files(self) -> Iterable[Path]:
        return self.path.glob(f"*{SUFFIX}")

    def _write(self, name: str, data: bytes) -> None:
        partial = self.path / (name + PARTIAL)
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(self.path / name)
        directory = os.open(self.path, os.O_RDONLY)  # makes the new name durable
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
