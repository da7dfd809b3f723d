"""What the pictures of checkpoints draw: rows out of results, thinned to what a picture can show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

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


def history(results: Results) -> list[Row]:
    """Rows ``run, id, t, status, type, ...``: every checkpoint with what its time was spent on.

    A completed one has a row for each phase that took any time, with ``until, part, ms, from_s, to_s`` and
    ``total``: those of the subtask that acknowledged last, ``last``. Another one has a single row, with
    ``failure`` and ``to_s`` 0.
    """
    rows: list[Row] = []
    for run, result in results.items():
        for checkpoint, until in _with_ends(result.checkpoints[-MAX_CHECKPOINTS:]):
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
        for checkpoint, until in _with_ends(of_status(result, COMPLETED)[-MAX_CHECKPOINTS:])
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
        for checkpoint, until in _with_ends(of_status(result, COMPLETED)[-MAX_CHECKPOINTS:])
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


def _with_ends(checkpoints: Sequence[CheckpointResult]) -> Iterator[tuple[CheckpointResult, float]]:
    """Each checkpoint with the right edge of its bar, before the next one's left edge."""
    gaps = [after.t - before.t for before, after in pairwise(checkpoints)] or [1.0]
    usual = median(gaps)
    for checkpoint, gap in zip(checkpoints, [*gaps, usual], strict=False):
        yield checkpoint, round(checkpoint.t + _BAR_SHARE * min(gap, usual), 3)


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
