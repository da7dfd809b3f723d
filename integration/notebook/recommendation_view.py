"""A recommendation in a notebook: what to set, and what each setting brings and costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from ..analysis.wording import NOTHING, milliseconds, percent, size
from ..tuning.estimates import Estimate
from ..tuning.recommend import Recommendation
from ..tuning.summaries import TargetSummary
from .arrow_columns import table_of
from .view import Grid, View

if TYPE_CHECKING:
    from ..report.panels import Chart

_FIGURES = [field.name for field in msgspec.structs.fields(TargetSummary) if field.type == Estimate | None]
_COUNTS = ["failed", "step_runs", "checkpoints_completed", "checkpoints_failed", "checkpoints_expired"]


def _settings(recommendation: Recommendation) -> pa.Table:
    """A row for each setting: means over seeds, and the ends of their 95 % intervals."""
    ends = [f"{name}{end}" for name in _FIGURES for end in ("", "_low", "_high")]
    columns = {
        "target": pa.string(),
        "recommended": pa.bool_(),
        "seeds": pa.int64(),
        **dict.fromkeys(_COUNTS, pa.int64()),
        **dict.fromkeys(ends, pa.float64()),
    }
    advised = recommendation.advised.target
    return table_of((_setting(each, advised) for each in recommendation.settings), columns)


def _setting(setting: TargetSummary, advised: str) -> dict[str, Any]:
    row: dict[str, Any] = {"target": setting.target, "recommended": setting.target == advised}
    row |= {"seeds": len(setting.seeds)} | {name: getattr(setting, name) for name in _COUNTS}
    for name in _FIGURES:
        estimate: Estimate | None = getattr(setting, name)
        if estimate is not None:
            row |= {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return row


def _pictures(recommendation: Recommendation) -> Sequence[Chart]:
    from ..report.tuning_charts import tuning_charts  # here, since its libraries take a while to import

    return tuning_charts([recommendation])


def _grid(recommendation: Recommendation) -> Grid:
    head = ("target", "throughput", "end to end", "95 %", "in flight", "record delay", "")
    return Grid(head, [_texts(each, recommendation) for each in recommendation.settings])


def _texts(setting: TargetSummary, recommendation: Recommendation) -> tuple[str, ...]:
    said = [
        word
        for word, target in (("now", recommendation.current), ("set", recommendation.chosen))
        if setting.target == target
    ]
    share = setting.throughput_share
    return (
        setting.target,
        NOTHING if share is None else percent(share.mean),
        milliseconds(_mean(setting.end_to_end_ms)),
        milliseconds(_mean(setting.end_to_end_p95_ms)),
        size(_mean(setting.in_flight_bytes)),
        milliseconds(_mean(setting.record_delay_ms)),
        ", ".join(said),
    )


def _mean(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean


VIEW: View[Recommendation] = View(
    kind="Recommendation",
    tables={"settings": _settings},
    pictures=_pictures,
    sentences=lambda recommendation: [*recommendation.words, *recommendation.configuration],
    grid=_grid,
)
"""How a `Recommendation` is shown."""
