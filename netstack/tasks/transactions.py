"""An exactly-once sink: records become visible when their checkpoint is complete.

Between two barriers, the sink collects records in an open transaction. A snapshot closes the transaction
(pre-commit) and stores it in the state. When all subtasks have completed the checkpoint, the transaction is
committed. After a restart, the closed transactions in the restored checkpoint are committed again; a log
ignores those that it already has. Open transactions are dropped, and their records are read again. The
protocol is that of Flink's TwoPhaseCommitSinkFunction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from buffers import RecordBlock

from ..state.handles import PENDING_TRANSACTIONS
from .operators import NOTHING, Operator, OperatorContext, OperatorFactory

__all__ = ["Transaction", "TransactionLog", "TransactionalSink", "transactional_sink"]


class Transaction(NamedTuple):
    """The records that one subtask of a sink received up to the barrier of a checkpoint.

    `vertex`, `subtask` and `checkpoint_id` identify it.
    """

    vertex: str
    subtask: int
    checkpoint_id: int
    records: tuple[bytes, ...]


class TransactionLog:
    """Committed transactions, in the order of the commits. The log survives restarts."""

    def __init__(self) -> None:
        self._committed: dict[tuple[str, int, int], Transaction] = {}

    def commit(self, transaction: Transaction) -> None:
        """Make a transaction visible; repeated commits have no effect."""
        self._committed.setdefault(transaction[:3], transaction)

    @property
    def transactions(self) -> list[Transaction]:
        """All transactions."""
        return list(self._committed.values())

    @property
    def records(self) -> list[bytes]:
        """The records of all transactions."""
        return [record for transaction in self._committed.values() for record in transaction.records]


class TransactionalSink(Operator):
    """Collects records and commits them with checkpoints.

    A job without checkpoints commits at the end of its input.
    """

    def __init__(self, commit: Callable[[Transaction], None]) -> None:
        self._commit = commit
        self._open: list[bytes] = []
        self._pending: dict[int, list[bytes]] = {}
        self._context: OperatorContext

    def open(self, context: OperatorContext) -> None:
        """Commit the transactions that were pending in the restored checkpoint."""
        self._context = context
        for checkpoint_id, records, *whose in context.operator.get(PENDING_TRANSACTIONS):
            # It keeps its name, even with another parallelism or chain.
            subtask = whose[0] if whose else context.subtask
            vertex = whose[1] if len(whose) > 1 else context.vertex
            self._commit(Transaction(vertex, subtask, checkpoint_id, tuple(records)))

    def process(self, block: RecordBlock) -> RecordBlock:
        """Add the records to the open transaction."""
        self._open.extend(map(bytes, block.payloads()))
        return NOTHING

    def finish(self) -> RecordBlock:
        """Keep the last transaction for the last checkpoint; without checkpoints, commit it."""
        if not self._context.checkpointing:
            self.before_snapshot(0)
            self.checkpoint_completed(max(self._pending, default=0))
        return NOTHING

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Close the open transaction."""
        if self._open:
            self._pending[checkpoint_id] = self._open
            self._open = []
        self._context.operator.put(PENDING_TRANSACTIONS, [list(item) for item in self._pending.items()])

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Commit the transactions closed up to this checkpoint."""
        context = self._context
        for sealed in [number for number in self._pending if number <= checkpoint_id]:
            records = tuple(self._pending.pop(sealed))
            self._commit(Transaction(context.vertex, context.subtask, sealed, records))


def transactional_sink(commit: Callable[[Transaction], None]) -> OperatorFactory:
    """Return a factory of exactly-once sinks.

    `commit` makes a transaction visible. It must ignore transactions that it already has, as
    `TransactionLog.commit` does, because the last ones are committed again after a restart.
    """
    return lambda subtask: TransactionalSink(commit)
