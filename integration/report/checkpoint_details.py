"""What a page shows of a single checkpoint when it is asked: the phases of all its subtasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netstack import CheckpointResult

from ..analysis.checkpoint_times import SubtaskPart, phases_in, subtask_parts
from ..analysis.wording import milliseconds, size
from .chart_data import Results
from .checkpoint_rows import MAX_CHECKPOINTS, outcome

MAX_DETAILED = 32
"""Subtasks of a vertex that are shown; the slowest ones of more."""


def details(results: Results) -> list[dict[str, Any]]:
    """Return what a page shows of a single checkpoint, for each run: all its subtasks.

    A run has its ``name``, its ``checkpoints`` and in ``chosen`` the id of the slowest. A checkpoint has
    ``id``, ``label``, ``text``, and ``parts``: for each subtask its name, the milliseconds of each phase
    (`phases_in`), and a text of what else was measured.
    """
    found, phases = [], phases_in(results.values())
    for run, result in results.items():
        checkpoints = result.checkpoints[-MAX_CHECKPOINTS:]
        if checkpoints:
            slowest = max(checkpoints, key=lambda checkpoint: checkpoint.duration_ms or 0.0)
            shown = [_detail(checkpoint, phases) for checkpoint in checkpoints]
            found.append({"name": run, "chosen": slowest.id, "checkpoints": shown})
    return found


def _detail(checkpoint: CheckpointResult, phases: Sequence[str]) -> dict[str, Any]:
    parts = list(subtask_parts(checkpoint))
    shown = _slowest_of_each_vertex(parts)
    subtasks = sum(len(vertex.end_to_end_ms) for vertex in checkpoint.vertices)
    text = f"{checkpoint.checkpoint_type}, triggered at {checkpoint.t:.1f} s, {outcome(checkpoint)}; "
    text += f"{_of(len(parts), subtasks)} acknowledged"
    if len(shown) < len(parts):
        text += f", the slowest {MAX_DETAILED} of a vertex are shown"
    if checkpoint.state_bytes:
        text += f"; {size(checkpoint.state_bytes)} of state"
    if checkpoint.persisted_bytes:
        text += f", {size(checkpoint.persisted_bytes)} of it data in flight"
    return {
        "id": checkpoint.id,
        "label": f"{checkpoint.id}: at {checkpoint.t:.1f} s, {outcome(checkpoint)}",
        "text": f"{text}.",
        "parts": [
            [
                f"{part.vertex} {part.subtask}",
                _bars(part, phases),
                _figures(part),
            ]
            for part in shown
        ],
    }


def _bars(part: SubtaskPart, phases: Sequence[str]) -> list[float]:
    """The length of each phase's bar; 0 of what was not measured, which is in `NOT_TOLD`."""
    return [round(part.phases.get(name, 0.0), 2) for name in phases]


def _figures(part: SubtaskPart) -> str:
    kind = {True: "unaligned", False: "aligned", None: "aligned or not"}[part.unaligned]
    text = f"{kind}; sync {milliseconds(part.sync_ms)}, async {milliseconds(part.async_ms)} in all"
    if part.processed_bytes:
        text += f"; {size(part.processed_bytes)} processed during alignment"
    return text + (f"; {size(part.persisted_bytes)} persisted" if part.persisted_bytes else "")


def _slowest_of_each_vertex(parts: list[SubtaskPart]) -> list[SubtaskPart]:
    shown: set[tuple[str, int]] = set()
    for vertex in dict.fromkeys(part.vertex for part in parts):
        own = [part for part in parts if part.vertex == vertex]
        own.sort(key=lambda part: part.end_to_end_ms, reverse=True)
        shown |= {(vertex, part.subtask) for part in own[:MAX_DETAILED]}
    return [part for part in parts if (part.vertex, part.subtask) in shown]


def _of(count: int, total: int) -> str:
    return f"all {total} subtasks" if count == total else f"{count} of {total} subtasks"
