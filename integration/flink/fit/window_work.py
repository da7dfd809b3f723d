"""Whether a window of a DataStream works for each record that it reads, or when it fires.

Flink's REST API has only the busy time of its task. A function that aggregates works for each record. A
window function works for each result, and the task handles no barrier until all results of the firing are
emitted. So the job is emulated both ways, and the import takes the one whose figures are nearer.

A window has a result for each key with records in it. So under back-pressure the number of results is no
fixed share of the records. The number of keys follows from the records and the results per second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import exp

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
_SLIDING = re.compile(r"\bSliding\w*Windows\(")

_FEW_EQUAL = 0.98
"""If windows have more results per record, hardly any records share a key, so keys have no effect."""

_MOST_KEYS = 1e7

_SHARES_OF_LAG = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Shares of the reported lag of watermarks that are tried."""

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


def fires_by_watermarks(fitted: Vertex, description: str, per_s: float | None) -> Vertex:
    """Return a vertex whose windows fire by event time.

    Args:
        fitted: Vertex that emits by the clock.
        description: Of the vertex, by Flink.
        per_s: Records per second that each subtask reads; None: unknown.
    """
    by_event_time = replace(fitted, emit_by="event_time")
    size_s, share = fitted.emit_every_s, fitted.selectivity
    if not fitted.emit_cost_s or not size_s or not per_s or not 0 < share < _FEW_EQUAL:
        return by_event_time
    if _SESSIONS in description or _SLIDING.search(description):
        return by_event_time  # a result stands for more records than those since the last firing
    return replace(by_event_time, selectivity=1.0, emit_keys=round(keys_of_windows(per_s * size_s, share)))


def keys_of_windows(records: float, share: float) -> float:
    """Return the number of keys of which `share * records` are among `records` random ones."""
    low, high = share * records, _MOST_KEYS
    while high - low > 1e-3 * low:
        keys = (low * high) ** 0.5
        if keys * (1 - exp(-records / keys)) < share * records:
            low = keys
        else:
            high = keys
    return low


def with_windows(given: Overrides, periods_s: Mapping[str, float]) -> Overrides:
    """Return overrides by which these windows work when they fire."""
    return replace(given, window_s={**periods_s, **given.window_s})


def firing(periods_s: Mapping[str, float], fitted: Scenario) -> Alternative:
    """Return the alternative in which these windows work when they fire; `fitted` is the job fitted so.

    A back-pressured source sends no watermarks, so the lag that it reports is longer than the one by which
    its watermarks are behind its records, and a few shorter ones are tried.
    """

    def form(share: float, scenario: Scenario) -> Scenario:
        vertices = tuple(_with_lag(vertex, share) for vertex in fitted.vertices)
        return replace(scenario, vertices=vertices, checkpoints_from_s=fitted.checkpoints_from_s)

    forms = [partial(form, share) for share in _SHARES_OF_LAG]
    return Alternative(", ".join(periods_s), ("window_reads", FIRES), forms)


def _with_lag(vertex: Vertex, share: float) -> Vertex:
    """Return the vertex; a source has watermarks that lag by a share of the present time."""
    source = vertex.source
    if source is None or source.out_of_orderness_s is None:
        return vertex
    lag_s = float(f"{share * source.out_of_orderness_s:.2g}")
    return replace(vertex, source=replace(source, out_of_orderness_s=lag_s))
