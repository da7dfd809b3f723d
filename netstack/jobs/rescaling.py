"""A job at another parallelism than the checkpoint that it goes on from."""

from __future__ import annotations

from ..checkpoints.assignment import carried_over
from ..checkpoints.recovery import Rescaling
from ..scenarios.config import CheckpointMode
from ..scenarios.contents import shape_of
from ..scenarios.job_shape import JobShape
from ..scenarios.scenario import Scenario
from ..state.snapshots import CheckpointMetadata
from .job_sources import key_hashes_of


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
