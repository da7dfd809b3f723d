"""The points of a sweep, put together by target: each figure as a median and its range over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from netstack import QuantityError, parse_flink_duration

from ..comparison.compare import Spread
from .axes import TARGET
from .constraints import Violation
from .measures import Measures, known

if TYPE_CHECKING:
    from .rows import PointRow

OFF = "off"
"""The target where there is no debloating."""

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


class TargetSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a target comes to; a spread is over seeds, None where nothing was measured."""

    target: str
    """In Flink's syntax, or `OFF`."""
    seeds: list[int]
    """Those whose run ended well."""
    failed: int = 0
    """Points of all probes that did not."""
    throughput_per_s: Spread | None = None
    throughput_share: Spread | None = None
    """Of the throughput without debloating, with the same seed."""
    start_delay_ms: Spread | None = None
    start_delay_max_ms: Spread | None = None
    alignment_ms: Spread | None = None
    state_ms: Spread | None = None
    end_to_end_ms: Spread | None = None
    end_to_end_p95_ms: Spread | None = None
    in_flight_bytes: Spread | None = None
    record_delay_ms: Spread | None = None
    record_delay_p95_ms: Spread | None = None
    debloated_buffer_bytes: Spread | None = None
    debloated_buffer_min_bytes: Spread | None = None
    persisted_bytes: Spread | None = None
    """What an unaligned checkpoint would store of data in flight; so are the next two of such a run."""
    unaligned_end_to_end_ms: Spread | None = None
    unaligned_end_to_end_p95_ms: Spread | None = None
    adaptation_ms: Spread | None = None
    """After a step of the load; resolution 1 s."""
    not_adapted: int = 0
    """Runs with a step after which the queues did not settle."""
    checkpoints_completed: int = 0
    """Over all seeds; so are the next two."""
    checkpoints_failed: int = 0
    checkpoints_expired: int = 0
    violations: list[Violation] = []
    """What it does not keep to; empty: it fits."""

    @property
    def fits(self) -> bool:
        """Whether something was measured and it keeps to all constraints."""
        return bool(self.seeds) and not self.violations


@dataclass(slots=True)
class Setting:
    """The runs of one target."""

    target: str
    main: dict[int, Measures] = field(default_factory=dict)
    """By seed."""
    unaligned: list[Measures] = field(default_factory=list)
    step: list[Measures] = field(default_factory=list)
    failed: int = 0

    def add(self, row: PointRow) -> None:
        """Take a point in."""
        if row.measures is None:
            self.failed += 1
        elif row.probe in ("main", "baseline"):
            self.main[row.seed] = row.measures
        elif row.probe == "unaligned":
            self.unaligned.append(row.measures)
        else:
            self.step.append(row.measures)

    def shares(self, reference: Mapping[int, Measures]) -> dict[int, float]:
        """Throughput by that of the reference: of the same seed, else of the median one. By seed."""
        rates = {seed: own.throughput_per_s for seed, own in reference.items() if own.throughput_per_s}
        if not rates:
            return {}
        middle = median(rates.values())
        return {
            seed: own.throughput_per_s / rates.get(seed, middle)
            for seed, own in self.main.items()
            if own.throughput_per_s is not None
        }


def settings_of(rows: Iterable[PointRow]) -> tuple[Setting, list[Setting]]:
    """Return the runs without debloating, and those of each target, the shortest first."""
    found: dict[str, Setting] = {}
    for row in rows:
        target = OFF if row.probe == "baseline" else row.labels.get(TARGET, OFF)
        found.setdefault(target, Setting(target)).add(row)
    off = found.pop(OFF, Setting(OFF))
    return off, sorted(found.values(), key=lambda setting: target_s(setting.target))


def target_s(target: str) -> float:
    """Return a target's seconds; infinite for `OFF`, which holds back nothing."""
    try:
        return parse_flink_duration(target)
    except QuantityError:
        return float("inf")


def summarise(
    setting: Setting, reference: Mapping[int, Measures], violated: Sequence[Violation]
) -> TargetSummary:
    """Return what a target comes to; `reference` are the runs without debloating, by seed."""
    runs = list(setting.main.values())
    shares = setting.shares(reference)
    spreads = {name: spread(getattr(one, name) for one in runs) for name in _MAIN}
    return TargetSummary(
        target=setting.target,
        seeds=sorted(setting.main),
        failed=setting.failed,
        throughput_share=spread(shares.values(), 4),
        persisted_bytes=spread(one.persisted_bytes for one in setting.unaligned),
        unaligned_end_to_end_ms=spread(one.end_to_end_ms for one in setting.unaligned),
        unaligned_end_to_end_p95_ms=spread(one.end_to_end_p95_ms for one in setting.unaligned),
        adaptation_ms=spread(one.adaptation_ms for one in setting.step),
        not_adapted=sum(one.adaptation_ms is None for one in setting.step),
        checkpoints_completed=sum(one.checkpoints_completed for one in runs),
        checkpoints_failed=sum(one.checkpoints_failed for one in runs),
        checkpoints_expired=sum(one.checkpoints_expired for one in runs),
        violations=list(violated),
        **spreads,
    )


def spread(values: Iterable[float | None], decimals: int = 2) -> Spread | None:
    """Return the median and the range of the values that are there; None where there are none."""
    there = known(values)
    if not there:
        return None
    return Spread(
        round(float(median(there)), decimals), round(min(there), decimals), round(max(there), decimals)
    )
