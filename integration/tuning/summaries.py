"""Summaries of a sweep by target: each figure as a mean over seeds, with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from netstack import QuantityError, parse_flink_duration

from ..optional_figures import quotient
from .axes import TARGET
from .constraints import Shortfall
from .estimates import Answer, Estimate, estimate
from .measures import Measures

if TYPE_CHECKING:
    from .point_rows import PointRow
    from .points import Point

OFF = "off"
"""The target of settings without debloating."""

_MAIN = (
    "throughput_per_s",
    "start_delay_ms",
    "start_delay_max_ms",
    "alignment_ms",
    "state_ms",
    "end_to_end_ms",
    "end_to_end_p95_ms",
    "in_flight_bytes",
    "record_delay_ms",
    "record_delay_p95_ms",
    "debloated_buffer_bytes",
    "debloated_buffer_min_bytes",
)

_SHARES = {
    "throughput_share": "throughput_per_s",
    "end_to_end_share": "end_to_end_ms",
    "record_delay_share": "record_delay_ms",
}
"""Fields that compare a figure with that of the present setting."""


class TargetSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a target, as estimates over seeds; None: not measured."""

    target: str
    """The target in Flink's syntax, or `OFF`."""
    seeds: list[int]
    """Seeds whose run ended without failure."""
    failed: int = 0
    """Number of seeds whose run failed."""
    throughput_per_s: Estimate | None = None
    throughput_share: Estimate | None = None
    """Share of the present setting's throughput, with the same seed; the next two are such shares, too."""
    end_to_end_share: Estimate | None = None
    record_delay_share: Estimate | None = None
    start_delay_ms: Estimate | None = None
    start_delay_max_ms: Estimate | None = None
    alignment_ms: Estimate | None = None
    state_ms: Estimate | None = None
    end_to_end_ms: Estimate | None = None
    end_to_end_p95_ms: Estimate | None = None
    in_flight_bytes: Estimate | None = None
    record_delay_ms: Estimate | None = None
    record_delay_p95_ms: Estimate | None = None
    debloated_buffer_bytes: Estimate | None = None
    debloated_buffer_min_bytes: Estimate | None = None
    persisted_bytes: Estimate | None = None
    """Stored in-flight data of an unaligned checkpoint; the next two also come from unaligned runs."""
    unaligned_end_to_end_ms: Estimate | None = None
    unaligned_end_to_end_p95_ms: Estimate | None = None
    adaptation_ms: Estimate | None = None
    """Time to adapt to a step of the load, over the runs that settled; resolution 1 s."""
    step_runs: int = 0
    """Number of runs with a step, settled or not."""
    checkpoints_completed: int = 0
    """Sum over all seeds, as are the next two."""
    checkpoints_failed: int = 0
    checkpoints_expired: int = 0
    fewest_checkpoints: int | None = None
    """Completed checkpoints of the seed that has the fewest."""
    shortfalls: list[Shortfall] = []
    """Constraints that it breaks, or is not shown to keep; empty: it fits."""

    @property
    def keeps(self) -> Answer:
        """Whether runs show that it keeps to all constraints."""
        kept = {shortfall.kept for shortfall in self.shortfalls}
        return "no" if not self.seeds or "no" in kept else "undecided" if kept else "yes"


@dataclass(slots=True)
class Setting:
    """The runs of one target."""

    target: str
    main: dict[int, Measures] = field(default_factory=dict)
    """Figures of the main runs, by seed."""
    unaligned: list[Measures] = field(default_factory=list)
    step: list[Measures] = field(default_factory=list)
    failed: int = 0
    """Number of main runs without figures."""
    failed_probes: dict[str, int] = field(default_factory=dict)

    def add(self, row: PointRow) -> None:
        """Add the row of a point."""
        is_main = row.probe in ("main", "baseline")
        if row.measures is None:
            self.failed += is_main
            if not is_main:
                self.failed_probes[row.probe] = self.failed_probes.get(row.probe, 0) + 1
        elif is_main:
            self.main[row.seed] = row.measures
        elif row.probe == "unaligned":
            self.unaligned.append(row.measures)
        else:
            self.step.append(row.measures)

    def shares(self, now: Mapping[int, Measures], name: str) -> dict[int, float | None]:
        """Return a figure relative to the present setting with the same seed, by seed; None where unknown."""
        return {
            seed: quotient(getattr(run, name), getattr(now[seed], name))
            for seed, run in self.main.items()
            if seed in now
        }


def settings_of(rows: Iterable[PointRow]) -> list[Setting]:
    """Return the runs by setting: no debloating, if it was run, then each target, the shortest first."""
    settings: dict[str, Setting] = {}
    for row in rows:
        target = setting_of(row)
        settings.setdefault(target, Setting(target)).add(row)
    return sorted(settings.values(), key=lambda setting: (setting.target != OFF, target_s(setting.target)))


def setting_of(row: PointRow | Point) -> str:
    """Return the target of a point, `OFF` where it has none."""
    return OFF if row.probe == "baseline" else row.labels.get(TARGET, OFF)


def target_s(target: str) -> float:
    """Return a target in seconds; infinite for `OFF`, which limits nothing."""
    try:
        return parse_flink_duration(target)
    except QuantityError:
        return float("inf")


def summarise(
    setting: Setting, now: Mapping[int, Measures], shortfalls: Sequence[Shortfall]
) -> TargetSummary:
    """Return means over a target's runs, and shares relative to the present setting's runs (`now`, by
    seed)."""
    runs = list(setting.main.values())
    figures = {
        name: estimate([*(getattr(run, name) for run in runs), *_lost(setting.failed)]) for name in _MAIN
    }
    shares = {name: estimate(setting.shares(now, figure).values(), 4) for name, figure in _SHARES.items()}
    return TargetSummary(
        target=setting.target,
        seeds=sorted(setting.main),
        failed=setting.failed,
        persisted_bytes=_probed(setting, "unaligned", "persisted_bytes"),
        unaligned_end_to_end_ms=_probed(setting, "unaligned", "end_to_end_ms"),
        unaligned_end_to_end_p95_ms=_probed(setting, "unaligned", "end_to_end_p95_ms"),
        adaptation_ms=_probed(setting, "step", "adaptation_ms"),
        step_runs=len(setting.step) + setting.failed_probes.get("step", 0),
        checkpoints_completed=sum(run.checkpoints_completed for run in runs),
        checkpoints_failed=sum(run.checkpoints_failed for run in runs),
        checkpoints_expired=sum(run.checkpoints_expired for run in runs),
        fewest_checkpoints=min((run.checkpoints_completed for run in runs), default=None),
        shortfalls=list(shortfalls),
        **figures,
        **shares,
    )


def _probed(setting: Setting, probe: str, name: str) -> Estimate | None:
    runs = setting.unaligned if probe == "unaligned" else setting.step
    return estimate([*(getattr(run, name) for run in runs), *_lost(setting.failed_probes.get(probe, 0))])


def _lost(failed: int) -> list[None]:
    """Return an empty value for each failed run, so that it counts as one without the figure."""
    return [None] * failed
