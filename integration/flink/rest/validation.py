"""What the emulator predicts for an imported job, beside what the job shows.

The two are compared as with a recorded reference, by the same quantities and tolerances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from netstack import CheckpointResult, Result, scenario_document

from ...analysis.comparison import ALIGNMENT, END_TO_END, START_DELAY, Comparison, Row, Spread, compare
from ...analysis.known_values import highest, known, mean_of_known
from ...errors import FlinkRestError
from .importing import Imported
from .measured import Measured


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction, judged."""

    schema: str = "netstack.validation/1"
    url: str
    job: str
    flink: str
    """Its version."""
    ok: bool
    """Whether every quantity is inside its tolerance."""
    comparison: Comparison
    scenario: dict[str, Any]
    """As a document, without the seeds."""
    notes: list[str]
    """What could not be read, or cannot be said in a scenario."""


def validate(imported: Imported, results: Sequence[Result]) -> Validation:
    """Compare results of an imported scenario, one for each seed, with what the job shows.

    Raises:
        FlinkRestError: the job shows nothing that could be compared.
        ScenarioError: there is no result, or the results are of another job.
    """
    measured = imported.measured
    comparison = compare(results, _reference(measured, imported.scenario.windows[0]))
    if not comparison.rows:
        raise FlinkRestError(
            f"{measured.url}: job {measured.job} shows neither rates nor checkpoints to compare with"
        )
    rows = [_with_range(row, measured.checkpoints) for row in comparison.rows]
    return Validation(
        url=measured.url,
        job=measured.job,
        flink=measured.flink,
        ok=comparison.ok,
        comparison=msgspec.structs.replace(comparison, rows=rows),
        scenario=scenario_document(results[0].scenario),
        notes=imported.notes,
    )


def _with_range(row: Row, checkpoints: Sequence[CheckpointResult]) -> Row:
    """A row with the range that its time has over the job's checkpoints; the verdict is without it."""
    values = known(_of_checkpoint(row, checkpoint) for checkpoint in checkpoints)
    if not values:
        return row
    middle = row.flink.median
    least, most = round(min(*values, middle), 2), round(max(*values, middle), 2)
    return msgspec.structs.replace(row, flink=Spread(middle, least, most))


def _of_checkpoint(row: Row, checkpoint: CheckpointResult) -> float | None:
    """What one checkpoint took, as a row has it; None: it is no time of checkpoints, or is not told."""
    if row.quantity == END_TO_END:
        return checkpoint.duration_ms
    for vertex in checkpoint.vertices:
        if vertex.name == row.vertex:
            if row.quantity == START_DELAY:
                return mean_of_known(vertex.start_delay_ms)
            if row.quantity == ALIGNMENT:
                return highest(vertex.alignment_ms)
    return None


def _reference(measured: Measured, window: tuple[float, float]) -> dict[str, Any]:
    """What the job shows, as a document with the window of the emulation, at whose end it stands."""
    from_s, to_s = window
    document: dict[str, Any] = msgspec.to_builtins(measured)
    last = max([checkpoint.t for checkpoint in measured.checkpoints], default=0.0)
    for checkpoint in document["checkpoints"]:
        checkpoint["t"] = max(from_s, to_s - (last - checkpoint["t"]))
    return {
        "steady": [document["steady"] | {"from_s": from_s, "to_s": to_s}],
        "checkpoints": document["checkpoints"],
    }
