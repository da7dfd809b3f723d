"""A sink whose output appears exactly once: records become visible with the checkpoint they belong to.

Between two barriers the sink gathers records in an open transaction. A snapshot seals it (pre-commit) and
keeps it in the state; when the checkpoint is complete everywhere, it is committed. After a restart, what
was sealed in the restored checkpoint is committed once more, which a log that knows the transaction
ignores, and what was still open is forgotten: its records come again. The protocol is that of Flink's
TwoPhaseCommitSinkFunction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from buffers import RecordBlock

from ..state.snapshots import PENDING_TRANSACTIONS
from .operators import NOTHING, Operator, OperatorContext, OperatorFactory


class Transaction(NamedTuple):
    """The records that one subtask of a sink received up to the barrier of a checkpoint.

    `vertex`, `subtask` and `checkpoint_id` tell it from all others.
    """

    vertex: str
    subtask: int
    checkpoint_id: int
    records: tuple[bytes, ...]


class TransactionLog:
    """Committed transactions, in the order of the commits; outside of any attempt to run the job."""

    def __init__(self) -> None:
        self._committed: dict[tuple[str, int, int], Transaction] = {}

    def commit(self, transaction: Transaction) -> None:
        """Make a transaction visible; a second time changes nothing."""
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
    """Gathers records and commits them with checkpoints.

    A job without checkpoints commits at the end of its input, as the last thing it does.
    """

    def __init__(self, commit: Callable[[Transaction], None]) -> None:
        self._commit = commit
        self._open: list[bytes] = []
        self._pending: dict[int, list[bytes]] = {}
        self._context: OperatorContext

    def open(self, context: OperatorContext) -> None:
        """Commit what was sealed when the restored checkpoint was taken."""
        self._context = context
        for checkpoint_id, records, *whose in context.operator.get(PENDING_TRANSACTIONS):
            # It keeps its name at another parallelism, and in another chain.
            subtask = whose[0] if whose else context.subtask
            vertex = whose[1] if len(whose) > 1 else context.vertex
            self._commit(Transaction(vertex, subtask, checkpoint_id, tuple(records)))

    def process(self, block: RecordBlock) -> RecordBlock:
        """Add the records to the open transaction."""
        self._open.extend(map(bytes, block.payloads()))
        return NOTHING

    def finish(self) -> RecordBlock:
        """The last transaction waits for the last checkpoint, unless there will be none."""
        if not self._context.checkpointing:
            self.before_snapshot(0)
            self._commit_up_to(max(self._pending, default=0))
        return NOTHING

    def before_snapshot(self, checkpoint_id: int) -> None:
        """Seal the open transaction."""
        if self._open:
            self._pending[checkpoint_id] = self._open
            self._open = []
        self._context.operator.put(PENDING_TRANSACTIONS, [list(item) for item in self._pending.items()])

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Commit what was sealed up to this checkpoint."""
        self._commit_up_to(checkpoint_id)

    def _commit_up_to(self, checkpoint_id: int) -> None:
        context = self._context
        for sealed in [number for number in self._pending if number <= checkpoint_id]:
            records = tuple(self._pending.pop(sealed))
            self._commit(Transaction(context.vertex, context.subtask, sealed, records))


def transactional_sink(commit: Callable[[Transaction], None]) -> OperatorFactory:
    """A vertex whose output appears exactly once.

    `commit` makes a transaction visible, and has to ignore one that it knows, as `TransactionLog.commit`
    does: after a restart the last ones come again.
    """
    return lambda subtask: TransactionalSink(commit)
