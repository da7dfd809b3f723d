"""What pictures and pages show of checkpoints: rows out of results, thinned to what can be shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from netstack import CheckpointResult, Result

from ..analysis.checkpoint_times import (
    ALIGNMENT,
    COMPLETED,
    FAILED,
    START_DELAY,
    CheckpointTimes,
    SubtaskPart,
    checkpoint_times,
    last_part,
    of_status,
    phases_in,
    subtask_parts,
    window_times,
)
from ..analysis.wording import milliseconds, size
from .chart_data import MAX_SUBTASKS, Results, Row

MAX_CHECKPOINTS = 120
"""Checkpoints of a run that are drawn; the last ones of more."""

LEAST_BYTES = 1024
"""A checkpoint of fewer bytes is not worth a picture of them."""

IN_FLIGHT, OTHER_STATE = "data in flight", "other state"

_MIB = 1 << 20
_BAR_SHARE = 0.8

MAX_DETAILED = 32
"""Subtasks of a vertex that are shown; the slowest ones of more."""


def history(results: Results) -> list[Row]:
    """Rows ``run, id, t, status, type, ...``: every checkpoint with what its time was spent on.

    A completed one has a row for each phase that took any time, with ``until, part, ms, from_s, to_s`` and
    ``total``: those of the subtask that acknowledged last, ``last``. Another one has a single row, with
    ``failure`` and ``to_s`` 0.
    """
    rows: list[Row] = []
    for run, result in results.items():
        for checkpoint, until in _with_ends(result, result.checkpoints[-MAX_CHECKPOINTS:]):
            head = {
                "run": run,
                "id": checkpoint.id,
                "t": checkpoint.t,
                "until": until,
                "status": checkpoint.status,
                "type": checkpoint.checkpoint_type,
            }
            part, times = last_part(checkpoint), checkpoint_times(checkpoint)
            if times is None or part is None:
                rows.append(head | {"failure": outcome(checkpoint), "to_s": 0.0})
                continue
            last = {"last": f"{part.vertex} {part.subtask}", "total": round(times.end_to_end_ms, 1)}
            rows += [head | last | bar for bar in _stacked(times)]
    return rows


def stored(results: Results) -> list[Row]:
    """Rows ``run, id, t, until, type, part, bytes, mib``: what each completed checkpoint has stored.

    None of a run if none of its checkpoints has `LEAST_BYTES`.
    """
    return [
        {
            "run": run,
            "id": checkpoint.id,
            "t": checkpoint.t,
            "until": until,
            "type": checkpoint.checkpoint_type,
            "part": part,
            "size": size(count),
            "from_mib": round(below / _MIB, 4),
            "to_mib": round((below + count) / _MIB, 4),
        }
        for run, result in results.items()
        if any(checkpoint.state_bytes >= LEAST_BYTES for checkpoint in of_status(result, COMPLETED))
        for checkpoint, until in _with_ends(result, of_status(result, COMPLETED)[-MAX_CHECKPOINTS:])
        for part, count, below in (
            (IN_FLIGHT, checkpoint.persisted_bytes, 0),
            (OTHER_STATE, _other(checkpoint), checkpoint.persisted_bytes),
        )
    ]


def checkpoint_parts(results: Results) -> list[Row]:
    """Rows ``run, subtask, id, t, until, part, s, from_s, to_s``: what each checkpoint waited for.

    A bar goes from `t` to `until` across and from `from_s` to `to_s` in height. The subtasks are those of the
    vertex that barriers reach last.
    """
    return [
        {"run": run, "subtask": f"{vertex} {part.subtask}", "id": checkpoint.id, "t": checkpoint.t}
        | {"until": until}
        | bar
        for run, result in results.items()
        for vertex in (slowest_vertex(result),)
        for checkpoint, until in _with_ends(result, of_status(result, COMPLETED)[-MAX_CHECKPOINTS:])
        for part in subtask_parts(checkpoint)
        if part.vertex == vertex and part.subtask < MAX_SUBTASKS
        for bar in _waits(part)
    ]


def typical(results: Results) -> list[Row]:
    """Rows ``run, last, part, ms, from_s, to_s``: the mean checkpoint of the last window of each run."""
    return [
        {"run": run, "last": times.vertex} | bar
        for run, result in results.items()
        if (times := window_times(result)) is not None
        for bar in _stacked(times)
    ]


def slowest_vertex(result: Result) -> str:
    """Return the name of the vertex that most often acknowledges last, or of the last one if none did."""
    times = window_times(result)
    last = result.steady[-1].vertices[-1].name
    return last if times is None or times.vertex is None else times.vertex


def outcome(checkpoint: CheckpointResult) -> str:
    """Return what became of a checkpoint, in a few words."""
    if checkpoint.status == COMPLETED:
        return f"complete after {milliseconds(checkpoint.duration_ms)}"
    if checkpoint.status == FAILED:
        return f"failed: {checkpoint.failure or 'for no known reason'}"
    return "was going on at the end"


def _other(checkpoint: CheckpointResult) -> int:
    return max(0, checkpoint.state_bytes - checkpoint.persisted_bytes)


def _with_ends(
    result: Result, checkpoints: Sequence[CheckpointResult]
) -> Iterator[tuple[CheckpointResult, float]]:
    """Each checkpoint with the right edge of its bar, before the next one's left edge and the run's end."""
    gaps = [after.t - before.t for before, after in pairwise(checkpoints)] or [1.0]
    usual = median(gaps)
    for checkpoint, gap in zip(checkpoints, [*gaps, usual], strict=False):
        until = checkpoint.t + _BAR_SHARE * min(gap, usual)
        yield checkpoint, round(min(until, max(result.emulated_seconds, checkpoint.t)), 3)


def _waits(part: SubtaskPart) -> Iterator[Row]:
    if START_DELAY not in part.phases or ALIGNMENT not in part.phases:
        return
    delay, alignment = (round(part.phases[name] / 1000, 3) for name in (START_DELAY, ALIGNMENT))
    yield {"part": START_DELAY, "s": delay, "from_s": 0.0, "to_s": delay}
    yield {"part": ALIGNMENT, "s": alignment, "from_s": delay, "to_s": round(delay + alignment, 3)}


def _stacked(times: CheckpointTimes) -> Iterator[Row]:
    below = 0.0
    for name, ms in times.phases.items():
        if ms > 0:
            from_s, to_s = round(below / 1000, 5), round((below + ms) / 1000, 5)
            yield {"part": name, "ms": round(ms, 2), "from_s": from_s, "to_s": to_s}
        below += ms


def details(results: Results) -> list[dict[str, Any]]:
    """Return what a page shows of a single checkpoint, for each run: all its subtasks.

    A run has its ``name``, its ``checkpoints`` and in ``chosen`` the id of the slowest. A checkpoint has
    ``id``, ``label``, ``text``, and ``parts``: for each subtask its name, the milliseconds of each phase
    (`phases_in`), and a text of what else was measured.
    """
    shown_runs, phases = [], phases_in(results.values())
    for run, result in results.items():
        checkpoints = result.checkpoints[-MAX_CHECKPOINTS:]
        if checkpoints:
            slowest = max(checkpoints, key=lambda checkpoint: checkpoint.duration_ms or 0.0)
            shown = [_detail(checkpoint, phases) for checkpoint in checkpoints]
            shown_runs.append({"name": run, "chosen": slowest.id, "checkpoints": shown})
    return shown_runs


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
        of_vertex = [part for part in parts if part.vertex == vertex]
        of_vertex.sort(key=lambda part: part.end_to_end_ms, reverse=True)
        shown |= {(vertex, part.subtask) for part in of_vertex[:MAX_DETAILED]}
    return [part for part in parts if (part.vertex, part.subtask) in shown]


def _of(count: int, total: int) -> str:
    return f"all {total} subtasks" if count == total else f"{count} of {total} subtasks"
