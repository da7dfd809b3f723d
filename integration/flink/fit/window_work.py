"""Whether a window of a DataStream works for each record that it reads, or when it fires.

Flink's REST API has only the busy time of its task. A function that aggregates works for each record. A
window function works for each result, and the task handles no barrier until all results of the firing are
emitted. So the job is emulated both ways, and the import takes the one whose figures are nearer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from netstack import Scenario, Vertex

from ..read.job import FlinkJob
from ..read.measurements import Measured
from .alternatives import Alternative
from .exchange_flows import window_s
from .overrides import Overrides, of_vertex

FIRES = "window_fires"
"""Kind of the remark if windows work when they fire."""

_OF_DATASTREAM = re.compile(r"\bWindow\(\w*Windows\(")
"""Description of a window operator, such as "Window(TumblingEventTimeWindows(2000), ...)"."""

_SESSIONS = "SessionWindows("

_LEAST_BUSY = 0.2
"""The work of a window matters if its busiest subtask is busy for at least this share of the time."""


def unknown_windows(job: FlinkJob, scenario: Scenario, shown: Measured, given: Overrides) -> dict[str, float]:
    """Return the period in seconds of each window whose work matters and is not overridden, by vertex name.

    Sessions end at any time, so some fire with each watermark.
    """
    found: dict[str, float] = {}
    for vertex, figures in zip(job.vertices, shown.steady.vertices, strict=True):
        name, description = job.names[vertex.id], vertex.description
        busy = max((share or 0.0 for share in figures.busy_ms_per_s), default=0.0) / 1e3
        if of_vertex(given.window_s, name) is not None or of_vertex(given.service_s, name) is not None:
            continue
        if busy < _LEAST_BUSY or not _OF_DATASTREAM.search(description):
            continue
        is_session = _SESSIONS in description
        period_s = scenario.config.auto_watermark_interval_s if is_session else window_s(description)
        if period_s:
            found[name] = period_s
    return found


def with_windows(given: Overrides, periods_s: Mapping[str, float]) -> Overrides:
    """Return overrides by which these windows work when they fire."""
    return replace(given, window_s={**periods_s, **given.window_s})


def firing(periods_s: Mapping[str, float], vertices: Sequence[Vertex]) -> Alternative:
    """Return the alternative in which these windows work when they fire; `vertices` are those fitted so."""
    return Alternative(
        ", ".join(periods_s),
        ("window_reads", FIRES),
        lambda scenario: replace(scenario, vertices=tuple(vertices)),
    )
