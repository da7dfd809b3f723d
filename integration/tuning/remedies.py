"""What would help instead of debloating, each with its reason in the figures of the sweep.

A remedy is measured where the sweep has run it, else reckoned from what was measured; `remedy_trials`
emulates those that can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from netstack import Scenario, from_json

from ..analysis.wording import digits, milliseconds, percent, size
from .constraints import CHECKPOINTS, MAX_CHECKPOINT, MAX_DELAY, Constraints
from .remedy_buffers import (
    at_floor,
    fewer_buffers,
    large_records,
    longer_target,
    shorter_target,
    smaller_segments,
)
from .remedy_case import Case, Remedy, line
from .summaries import TargetSummary, target_s

if TYPE_CHECKING:
    from .rows import PointRow

BUSY = 0.9
"""Share of its time from which on a subtask is what the job waits for."""
BACK_TO_BACK = 0.9
"""Share of the interval from which on a checkpoint leaves no pause before the next."""
_LEAST_TIMEOUT_MS = 50.0
_PAUSE_FACTOR = 5


def remedies(
    scenario: Scenario,
    rows: Sequence[PointRow],
    baseline: TargetSummary,
    targets: Sequence[TargetSummary],
    constraints: Constraints,
    binding: Sequence[str],
) -> list[Remedy]:
    """Return what would help, where `binding` constraints rule out all targets (none: where they are kept).

    `scenario` has the values of all axes but the target; `targets` begin with the shortest.
    """
    case = Case(scenario, rows, baseline, targets, constraints, binding)
    return [remedy for rule in _RULES for remedy in rule(case)]


def _unaligned(case: Case) -> Iterator[Remedy]:
    """Unaligned checkpoints, at once or after a timeout, where the probes show that they are fast enough."""
    if not {MAX_CHECKPOINT, CHECKPOINTS} & set(case.binding):
        return
    limit = case.constraints.max_checkpoint_ms
    quick = [
        (one, one.unaligned_end_to_end_p95_ms.greatest)
        for one in case.targets
        if one.unaligned_end_to_end_p95_ms is not None
        and (limit is None or one.unaligned_end_to_end_p95_ms.greatest <= limit)
    ]
    if not quick:
        return
    target, time = max(quick, key=lambda pair: target_s(pair[0].target))
    stored = "" if target.persisted_bytes is None else f" and store {size(target.persisted_bytes.mean)} each"
    delay = (
        ""
        if target.record_delay_ms is None
        else f"; records wait {milliseconds(target.record_delay_ms.mean)}"
    )
    nothing = f", so this does nothing for {MAX_DELAY}" if MAX_DELAY in case.binding else ""
    yield Remedy(
        name="unaligned checkpoints",
        why=f"with a target of {target.target} 95 % of them take no more than {milliseconds(time)}{stored}"
        f"{delay} as before{nothing}",
        measured=True,
        configuration=[line("unaligned_enabled", "true")],
    )
    if limit is not None and limit - time >= _LEAST_TIMEOUT_MS:
        timeout = f"{math.floor((limit - time) / 10) * 10} ms"
        yield Remedy(
            name="aligned checkpoints with a timeout",
            why=f"they stay aligned and store nothing while queues are short; those not through after "
            f"{timeout} overtake, which takes another {milliseconds(time)}",
            measured=False,
            configuration=[
                line("unaligned_enabled", "true"),
                line("aligned_checkpoint_timeout_s", timeout),
            ],
            target=target.target,
        )


def _parallelism(case: Case) -> Iterator[Remedy]:
    """More subtasks of the vertex that all wait for."""
    if not case.too_slow:
        return
    name, busy = _busiest(case.rows)
    if busy < BUSY:
        return
    broken = [case.shortfall(one) for one in case.binding]
    factors = [one.excess for one in broken if one is not None and math.isfinite(one.excess)]
    need = f"; about {digits(max(factors))} times its rate is needed" if factors else ""
    yield Remedy(
        name="more parallelism",
        why=f"{name} is busy for {percent(busy)} of the time, and what is in flight drains at its rate{need}",
        measured=False,
    )


def _pauses(case: Case) -> Iterator[Remedy]:
    """A longer interval, where checkpoints follow one another without a pause."""
    interval = case.scenario.config.checkpoint_interval_s
    growing = [one for one in case.targets if not at_floor(case, one)]
    times = [(one.end_to_end_ms.mean, one.target) for one in growing if one.end_to_end_ms is not None]
    if interval is None or not times or MAX_CHECKPOINT not in case.binding:
        return
    shortest, target = min(times)
    if shortest < BACK_TO_BACK * interval * 1e3:
        return
    yield Remedy(
        name="a longer checkpoint interval",
        why=f"checkpoints take {milliseconds(shortest)} at an interval of {milliseconds(interval * 1e3)}, so "
        "one follows the other; while channels are blocked for alignment, debloating sees no backlog and "
        "sizes grow",
        measured=False,
        configuration=[line("checkpoint_interval_s", f"{math.ceil(interval * _PAUSE_FACTOR)} s")],
        target=target,
    )


def _state(case: Case) -> Iterator[Remedy]:
    """Smaller or incremental snapshots, where they take most of the time."""
    state, whole = case.baseline.state_ms, case.baseline.end_to_end_ms
    if state is None or whole is None or not whole.mean or state.mean < whole.mean / 2:
        return
    yield Remedy(
        name="smaller or incremental snapshots",
        why=f"the snapshot of the subtask that acknowledges last takes {milliseconds(state.mean)} of the "
        f"{milliseconds(whole.mean)} of a checkpoint, which no buffer has a part in",
        measured=True,
    )


_RULES: tuple[Callable[[Case], Iterator[Remedy]], ...] = (
    _unaligned,
    shorter_target,
    longer_target,
    fewer_buffers,
    smaller_segments,
    _parallelism,
    large_records,
    _pauses,
    _state,
)


def _busiest(rows: Sequence[PointRow]) -> tuple[str, float]:
    """The vertex with input whose subtasks are busiest, and the share of their time, by the first result."""
    ended = [row for row in rows if row.probe in ("main", "baseline") and row.status == "finished"]
    texts = [row.result for row in ended if row.result is not None]
    if not texts:
        return "", 0.0
    result = from_json(texts[0])
    readers = {edge["to"] for edge in result.scenario["edges"]}
    shares = [
        (max((share or 0.0) for share in vertex.busy_ms_per_s) / 1e3, vertex.name)
        for vertex in result.steady[-1].vertices
        if vertex.name in readers and vertex.busy_ms_per_s
    ]
    share, name = max(shares, default=(0.0, ""))
    return name, share
