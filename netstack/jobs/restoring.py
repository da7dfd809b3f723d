"""A job that goes on from a checkpoint: whose that is from then on, and who gets what of its state."""

from __future__ import annotations

from ..checkpoints.assignment import carried_over
from ..checkpoints.initial import InitialCheckpoint
from ..checkpoints.recovery import RecoverySource, Rescaling
from ..checkpoints.storage import CheckpointStorage
from ..errors import ScenarioError
from ..scenarios.config import CheckpointMode
from ..scenarios.contents import shape_of
from ..scenarios.scenario import Scenario
from ..scenarios.topology import JobShape
from ..state.snapshots import CheckpointMetadata
from .job_sources import key_hashes_of


def claimed(initial: InitialCheckpoint, scenario: Scenario) -> InitialCheckpoint:
    """Claim a checkpoint for a run, and return what of it fits.

    Raises:
        ScenarioError: it is no checkpoint of this job, or something would be left over.
        StorageError: another run has claimed it.
    """
    if problems := initial.misfits(shape_of(scenario)):
        raise ScenarioError(problems)
    initial.claim()
    return initial.fitted(shape_of(scenario))


def recovery_source(
    scenario: Scenario,
    metadata: CheckpointMetadata,
    storage: CheckpointStorage,
    initial: InitialCheckpoint | None,
) -> RecoverySource:
    """Return where the state of a checkpoint is read, one of those in `storage` or the `initial` one.

    Raises:
        ScenarioError: a path has not been opened, whose keys say where records go.
        StorageError: if it cannot be read.
        StateError: if it cannot be dealt out to the subtasks of this job.
    """
    owned = True
    if initial is not None and metadata is initial.metadata:
        storage, owned = initial.storage, initial.shares_files
    return RecoverySource(metadata, storage, owned=owned, rescaling=rescaling_of(scenario, metadata))


def rescaling_of(scenario: Scenario, metadata: CheckpointMetadata) -> Rescaling | None:
    """Return what the state of a checkpoint is to be dealt out to; None: parallelism has not changed.

    Raises:
        ScenarioError: a path has not been opened, whose keys say where records go.
    """
    job = shape_of(scenario)
    if job.parallelism == metadata.parallelism:
        return None
    at_least_once = scenario.config.checkpoint_mode is CheckpointMode.AT_LEAST_ONCE
    return Rescaling(job, key_hashes_of(scenario), at_least_once)


def shape_after(scenario: Scenario, metadata: CheckpointMetadata | None) -> JobShape:
    """Return what the checkpoints of a job depend on that goes on from a checkpoint, or from none."""
    job = shape_of(scenario)
    return job if metadata is None else job._replace(max_parallelism=carried_over(metadata, job))
