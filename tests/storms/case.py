"""The case of a storm: a job with its records, its settings, and what disturbs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import NamedTuple

from flowcontrol import SavepointFormat
from netstack import CheckpointMode, CutLink, NetworkConfig, RestartStrategy, Scenario


class Work(StrEnum):
    """The work of a vertex on each record."""

    SOURCE = "source"
    PASS = "pass on"
    MARK = "mark"
    COPY = "copy"
    FILTER = "filter"
    EMIT = "emit twice"
    SUM = "sum by key"
    SUM_IN_VALUE = "sum by key in a value"
    SUM_IN_AGGREGATE = "sum by key in an accumulator"
    GATHER = "gather by key"
    GATHER_IN_MAP = "gather by key in a map"
    COUNT = "count in operator state and pass on"
    SINK = "sink"


KEYED = frozenset({Work.SUM, Work.SUM_IN_VALUE, Work.SUM_IN_AGGREGATE, Work.GATHER, Work.GATHER_IN_MAP})
"""Work with keyed state, which needs a hash exchange."""

COUNTS_EACH = frozenset({Work.SUM, Work.SUM_IN_VALUE, Work.SUM_IN_AGGREGATE, Work.COUNT})
"""Work whose output changes if a record is processed twice."""


class Continuation(NamedTuple):
    """A second run of the job, at another parallelism, from what the first one left when it was stopped.

    `parallelism`: of each vertex, in their order. `savepoint`: the format of the savepoint with which the
    job stops; None: the second run starts from the latest checkpoint.
    """

    stopped_at_s: float
    parallelism: tuple[int, ...]
    savepoint: SavepointFormat | None


@dataclass(frozen=True)
class StormCase:
    """One case. Its scenario has no operators yet; `works` says what each vertex does.

    `records`: those of each source, by subtask. `continuation`: None if the first run is the only one.
    """

    seed: int
    scenario: Scenario
    works: Mapping[str, Work]
    records: Mapping[str, Sequence[Sequence[bytes]]]
    continuation: Continuation | None = None

    @property
    def config(self) -> NetworkConfig:
        """The settings at the start of the run."""
        return self.scenario.config

    @property
    def is_exactly_once(self) -> bool:
        """Whether each record must count exactly once, whatever happens."""
        return self.config.checkpoint_mode is CheckpointMode.EXACTLY_ONCE

    @property
    def commits_all(self) -> bool:
        """Whether a job that ends has committed all its output: its tasks wait for a last checkpoint."""
        return self.config.checkpoints_after_tasks_finish

    @property
    def always_restarts(self) -> bool:
        """Whether no number of failures makes the job fail permanently."""
        return self.config.restart_strategy in (None, RestartStrategy.EXPONENTIAL_DELAY)

    def lines(self) -> Iterator[str]:
        """Yield the case as text."""
        yield f"seed {self.seed}"
        for vertex in self.scenario.vertices:
            counts = [len(part) for part in self.records.get(vertex.name, ())]
            text = f"  {vertex.name}: {self.works[vertex.name]} x{vertex.parallelism} in {vertex.managers}"
            yield f"{text}, records {counts}" if counts else f"{text}, service {vertex.service}"
        for edge in self.scenario.edges:
            yield f"  {edge.source} -> {edge.target}: {edge.ship}"
        for name in ("config", "costs", "link"):
            yield f"  {name}: {', '.join(_changes(getattr(self.scenario, name))) or 'default'}"
        for change in self.scenario.changes:
            yield f"  at {change.at_s:.4f} s: {change}"
        for fault in self.scenario.faults:
            yield f"  {fault!r}"
        if self.continuation is not None:
            yield f"  {self.continuation}"


def cuts_of(scenario: Scenario) -> list[CutLink]:
    """Return the cuts among the faults of a scenario."""
    return [fault for fault in scenario.faults if isinstance(fault, CutLink)]


def _changes(settings: object) -> Iterator[str]:
    """Yield each field that does not have its default."""
    usual = type(settings)()
    for each in fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, each.name)
        if value != getattr(usual, each.name) and each.name != "given":
            yield f"{each.name}={value}"
