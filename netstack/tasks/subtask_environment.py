"""The environment of a subtask: its outputs, the coordinator, and objects that all subtasks share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from flowcontrol import FailureReason

from ..checkpoints.pending_checkpoint import Acknowledgement, CheckpointedTask
from ..checkpoints.storage import CheckpointStorage
from ..engine.agenda import Agenda
from ..engine.cancellation import Scope
from ..engine.randomness import Randomness
from ..exchange.partition import ResultPartition
from ..exchange.selectors import ChannelSelector
from ..results.trace import Trace
from ..scenarios.costs import CostModel
from ..scenarios.options import NetworkConfig
from ..state.handles import StoredFile
from ..state.table_store import TableStores
from .source_log import SourceLogs


class Coordinator(Protocol):
    """Methods of the checkpoint coordinator that subtasks call."""

    def acknowledge(self, subtask: CheckpointedTask, report: Acknowledgement) -> None:
        """Report that a subtask has taken its snapshot."""

    def decline(
        self, subtask: CheckpointedTask, checkpoint_id: int, reason: FailureReason, detail: str = ""
    ) -> None:
        """Report that a subtask has declined a checkpoint."""

    def discard_unused(self, files: Iterable[StoredFile]) -> None:
        """Delete those of the given shared files that no retained checkpoint needs."""

    def fail_task(self, subtask: CheckpointedTask, cause: str) -> None:
        """Fail a subtask that cannot continue. Its region, or the whole job, restarts."""

    def finished(self, subtask: CheckpointedTask) -> None:
        """Report that a subtask has ended and will send no more acknowledgements."""


@dataclass(frozen=True, slots=True)
class RemoteSubtask:
    """Name of a subtask that runs in another process."""

    name: str
    index: int
    ended: bool = False

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"


class Output(NamedTuple):
    """One outgoing exchange of a subtask. Without a selector, each record is sent to all subpartitions."""

    partition: ResultPartition
    selector: ChannelSelector | None


class Environment(NamedTuple):
    """The environment that all subtasks of a job share."""

    agenda: Agenda
    scope: Scope
    """Callbacks and routines of the subtasks; closed when they are cancelled."""
    costs: CostModel
    config: NetworkConfig
    randomness: Randomness
    coordinator: Coordinator
    storage: CheckpointStorage
    source_logs: SourceLogs
    trace: Trace | None = None
    tables: TableStores | None = None
    first_checkpoint: int = 1
    """The id of the first checkpoint that the attempt may take."""
    judged_by: CostModel | None = None
    """Costs from which lateness is computed; None: lateness is not measured."""
