"""Validation: a prediction for an imported job, beside the figures of the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from netstack import CheckpointResult, Result, scenario_document

from ..base.errors import FlinkRestError
from ..base.optional_figures import known
from ..runs.quantities import COMPARED
from ..runs.reference_comparison import ComparedFigure, Comparison, Spread, compare, without_proof
from .importing import Imported
from .read.measurements import reference_of


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction for an imported job, compared with its figures."""

    schema: str = "netstack.validation/1"
    url: str
    job: str
    flink: str
    """Flink's version."""
    ok: bool
    """Whether every quantity is within its tolerance."""
    comparison: Comparison
    scenario: dict[str, Any]
    """The scenario as a document, without the seeds."""
    notes: list[str]
    """Assumptions of the import."""


def validate(imported: Imported, results: Sequence[Result]) -> Validation:
    """Compare results of an imported scenario, one for each seed, with the figures of the job.

    Quantities and tolerances are those of recorded references.

    Raises:
        FlinkRestError: the job has no figures to compare.
        ScenarioError: there is no result, or the results are of another job.
    """
    shown = imported.measured
    reference = reference_of(shown, *imported.scenario.windows[0])
    comparison = compare(results, reference, is_unsteady=bool(imported.unsteady))
    if not comparison.rows:
        raise FlinkRestError(
            f"{shown.url}: job {shown.job} shows neither rates nor checkpoints, so there is nothing to "
            "compare"
        )
    rows = [without_proof(_with_range(row, shown.checkpoints)) for row in comparison.rows]
    return Validation(
        url=shown.url,
        job=shown.job,
        flink=shown.flink,
        ok=comparison.ok,
        comparison=msgspec.structs.replace(comparison, rows=rows),
        scenario=scenario_document(results[0].scenario),
        notes=list(map(str, imported.notes)),
    )


def _with_range(row: ComparedFigure, checkpoints: Sequence[CheckpointResult]) -> ComparedFigure:
    """Return a row with the range of its time over the job's checkpoints, for information only."""
    values = known(_of_checkpoint(row, checkpoint) for checkpoint in checkpoints)
    if not values:
        return row
    median = row.flink.median
    least, most = round(min(*values, median), 2), round(max(*values, median), 2)
    return msgspec.structs.replace(row, flink=Spread(median, least, most))


def _of_checkpoint(row: ComparedFigure, checkpoint: CheckpointResult) -> float | None:
    """Return the value of a row for one checkpoint. None: it is not a checkpoint time, or not reported."""
    of_checkpoint = COMPARED[row.quantity].of_checkpoint
    vertices = {vertex.name: vertex for vertex in checkpoint.vertices}
    if of_checkpoint is None or (row.vertex and row.vertex not in vertices):
        return None
    return of_checkpoint(checkpoint, vertices.get(row.vertex))
