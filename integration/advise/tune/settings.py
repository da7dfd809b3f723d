"""The settings that are compared for a job: small sets of Flink's options that act on its checkpoints.

| mechanism | settings | where they apply |
|---|---|---|
| debloating | off, and on with several targets | always |
| unaligned | unaligned checkpoints, at once and after a timeout | exactly-once, if no deadlock can follow |
| adaptive | adaptive partition selection | rebalance and rescale, from Flink 2.3 on |
| buffers | fewer buffers for each channel and gate | Flink 1.x |
| interval | a longer checkpoint interval | checkpoints without a pause between them |

The settings of the last row, and the combination of the best two, depend on first runs (`later_settings`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import msgspec

from netstack import (
    OPTIONS,
    CheckpointMode,
    FlinkVersion,
    NetworkConfig,
    Scenario,
    format_duration,
    version_of,
    with_options,
)

from ..diagnose.conditions import NO_PAUSE, share_of_interval
from ..diagnose.observation import may_overtake
from ..sweeps.axes import FLINK
from .choice import Constraints
from .option_changes import OptionChange, option_changes

SETTING = "setting"
"""Name of the label that holds a point's setting."""

NOW = "now"
"""Name of the present setting."""

DEFAULT_TARGETS_S = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
"""Default debloat targets. Shorter ones cost throughput, and longer ones gain nothing."""

LARGE_TARGETS_S = (0.3, 1.0)
"""Default debloat targets of a large job, whose runs take half a minute each."""

LARGE_CHANNELS = 2000
"""Minimum number of channels of a large job."""

_TIMEOUT_S = 1.0
"""Alignment timeout if the user gives no limit for checkpoint durations."""
_PAUSE_FACTOR = 2.0
"""The longer checkpoint interval, as a multiple of the present checkpoint duration."""
_FEW_BUFFERS = {"exclusive_buffers_per_channel": 1, "floating_buffers_per_gate": 4}


class Mechanism(StrEnum):
    """A part of Flink that acts on checkpoints, and whose options a setting changes."""

    DEBLOATING = "debloating"
    UNALIGNED = "unaligned"
    ADAPTIVE = "adaptive"
    BUFFERS = "buffers"
    INTERVAL = "interval"


PRICES = {
    Mechanism.ADAPTIVE: "Records of one producer may then be processed in another order; state by key is not "
    "affected.",
    Mechanism.INTERVAL: "After a failure, a longer interval means that more records are processed again.",
}
"""Costs of a mechanism that no figure shows, each as a sentence."""


class Question(NamedTuple):
    """The settings to compare, and the limits that they must meet."""

    constraints: Constraints = Constraints()
    targets_s: Sequence[float] | None = None
    """Debloat targets to try; None: `DEFAULT_TARGETS_S`, or `LARGE_TARGETS_S` for a large job."""
    policies: Sequence[str] = ()
    """Debloat policies to try beside that of the job."""
    only: Collection[Mechanism] = tuple(Mechanism)
    version: str | None = None
    """Flink version to which the user may upgrade; None: no upgrade."""

    @property
    def limits(self) -> Constraints:
        """The constraints; if `only` or `policies` are given, no checkpoint is fast enough to stop."""
        if not self.policies and {*self.only} == {*Mechanism}:
            return self.constraints
        return msgspec.structs.replace(self.constraints, fast_enough_ms=0.0)


USUAL = Question()
"""All mechanisms, with the usual targets and limits."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Options to change together. The present setting changes none."""

    name: str
    action: str
    """Action that applies the setting, as a clause: "set the debloat target to 1 s"."""
    mechanisms: tuple[Mechanism, ...] = ()
    changes: Mapping[str, object] = field(default_factory=dict)
    """Fields of `NetworkConfig` with their new values."""

    @property
    def target_s(self) -> float:
        """The debloat target that the setting sets; infinite if it sets none or turns debloating off."""
        target = self.changes.get("debloat_target_s")
        return target if isinstance(target, float) else math.inf

    @property
    def policy(self) -> str | None:
        """The debloat policy that the setting sets; None: the job's own."""
        policy = self.changes.get("debloat_policy")
        return None if policy is None else str(policy)

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario with this setting."""
        config = replace(scenario.config, debloat_policy=self.policy or scenario.config.debloat_policy)
        options = {field: value for field, value in self.changes.items() if field in OPTIONS}
        return replace(scenario, config=with_options(config, options))

    def option_changes(self, config: NetworkConfig) -> list[OptionChange]:
        """Return the changes of Flink's options; empty if Flink lacks the policy."""
        if (self.policy or config.debloat_policy) != FLINK and Mechanism.DEBLOATING in self.mechanisms:
            return []
        return option_changes(self.changes.items(), config)

    def lines(self, config: NetworkConfig) -> list[str]:
        """Return the lines to paste into Flink's configuration; empty if Flink lacks the policy."""
        return [change.line for change in self.option_changes(config)]


def is_large(scenario: Scenario) -> bool:
    """Return whether a run of the job takes so long that fewer settings are tried, each with one seed."""
    return scenario.channels >= LARGE_CHANNELS


def first_settings(scenario: Scenario, question: Question = USUAL) -> list[Setting]:
    """Return the settings to run first: the present one, and those of each mechanism that applies."""
    targets = question.targets_s
    if targets is None:
        targets = LARGE_TARGETS_S if is_large(scenario) else DEFAULT_TARGETS_S
    made = [
        Setting(NOW, "keep the present setting"),
        *_debloating(scenario, targets, question.policies),
        *_unaligned(scenario, question.constraints.max_checkpoint_ms),
        *_adaptive(scenario, question.version or scenario.preset),
        *_fewer_buffers(scenario),
    ]
    return [each for each in made if {*each.mechanisms} <= {*question.only}]


def later_settings(
    scenario: Scenario,
    only: Collection[Mechanism],
    checkpoint_ms: float | None,
    best: Sequence[Setting],
) -> list[Setting]:
    """Return the settings that depend on first runs.

    `checkpoint_ms` is the present checkpoint duration. `best` are the best settings of the first runs, in
    order.
    """
    # With a longer interval, ten checkpoints of a large job take minutes.
    tries_interval = {*only} == {Mechanism.INTERVAL} if is_large(scenario) else Mechanism.INTERVAL in only
    longer = _longer_interval(scenario, checkpoint_ms) if tries_interval else ()
    return [*longer, *_combined(best)]


def _debloating(scenario: Scenario, targets: Sequence[float], policies: Sequence[str]) -> Iterator[Setting]:
    config = scenario.config
    if config.debloat_enabled:
        yield Setting(
            "debloating off",
            "turn debloating off",
            (Mechanism.DEBLOATING,),
            {"debloat_enabled": False},
        )
    for policy in policies or [config.debloat_policy]:
        other = {} if policy == config.debloat_policy else {"debloat_policy": policy}
        for length in sorted(set(targets)):
            if config.debloat_enabled and config.debloat_target_s == length and not other:
                continue  # the present setting
            text = format_duration(length)
            yield Setting(
                f"{policy}, target {text}" if other else f"target {text}",
                f"set the debloat target to {text}",
                (Mechanism.DEBLOATING,),
                {**other, "debloat_enabled": True, "debloat_target_s": length},
            )


def _unaligned(scenario: Scenario, max_checkpoint_ms: float | None) -> Iterator[Setting]:
    config = scenario.config
    if (
        not scenario.takes_checkpoints
        or config.checkpoint_mode is not CheckpointMode.EXACTLY_ONCE
        or not may_overtake(scenario.edges, scenario.vertices)
    ):
        return
    timeouts = [0.0]
    if max_checkpoint_ms is not None:
        timeouts.append(max_checkpoint_ms / 2e3)
    elif not is_large(scenario):
        timeouts.append(_TIMEOUT_S)
    for timeout in timeouts:
        if config.takes_unaligned_checkpoints and config.aligned_checkpoint_timeout_s == timeout:
            continue
        after = f" after {format_duration(timeout)}" if timeout else ""
        yield Setting(
            f"unaligned{after}",
            f"let checkpoints become unaligned{after}" if timeout else "take unaligned checkpoints",
            (Mechanism.UNALIGNED,),
            {
                "unaligned_enabled": True,
                "aligned_checkpoint_timeout_s": timeout,
                "max_concurrent_checkpoints": 1,
            },
        )


def _adaptive(scenario: Scenario, version: str) -> Iterator[Setting]:
    parallelism = {vertex.name: vertex.parallelism for vertex in scenario.vertices}
    deals_out = any(edge.strategy.in_turns and parallelism[edge.target] > 1 for edge in scenario.edges)
    first = FlinkVersion(2, 3)
    if version_of(version) < first or scenario.config.adaptive_partitioner_enabled or not deals_out:
        return
    upgrade = f"upgrade to Flink {first} and " if scenario.flink_version < first else ""
    yield Setting(
        "adaptive selection",
        f"{upgrade}turn adaptive partition selection on",
        (Mechanism.ADAPTIVE,),
        {"adaptive_partitioner_enabled": True},
    )


def _fewer_buffers(scenario: Scenario) -> Iterator[Setting]:
    config = scenario.config
    changes = {field: few for field, few in _FEW_BUFFERS.items() if getattr(config, field) > few}
    if scenario.flink_version.major == 1 and changes:
        yield Setting("fewer buffers", "take fewer network buffers", (Mechanism.BUFFERS,), changes)


def _longer_interval(scenario: Scenario, checkpoint_ms: float | None) -> Iterator[Setting]:
    interval = scenario.config.checkpoint_interval_s
    if interval is None or checkpoint_ms is None or share_of_interval(checkpoint_ms, interval) < NO_PAUSE:
        return
    longer = float(math.ceil(_PAUSE_FACTOR * max(interval, checkpoint_ms / 1e3)))
    text = format_duration(longer)
    yield Setting(
        f"interval {text}",
        f"set the checkpoint interval to {text}",
        (Mechanism.INTERVAL,),
        {"checkpoint_interval_s": longer},
    )


def _combined(best: Sequence[Setting]) -> Iterator[Setting]:
    """Yield the combination of the best setting with the next best one that has other mechanisms."""
    for other in best[1:]:
        first = best[0]
        if not {*first.mechanisms} & {*other.mechanisms}:
            yield Setting(
                f"{first.name}, {other.name}",
                f"{first.action}, and {other.action}",
                (*first.mechanisms, *other.mechanisms),
                {**first.changes, **other.changes},
            )
            return
