"""Series of a Prometheus that scrapes Flink's reporter, over a time in the past.

The reporter gives a metric of a task the name ``flink_taskmanager_job_task_NAME``, where NAME is that of the
REST API with underscores for dots, and the labels ``job_id``, ``task_id`` (the id of the vertex),
``subtask_index``, ``task_attempt_num``, ``tm_id`` and ``host``. Metrics of the job manager begin with
``flink_jobmanager_job_``, and those of a task manager with ``flink_taskmanager_Status_``. In the values of
labels, the reporter writes an underscore for each character that is no letter, digit, colon or underscore.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ...base.errors import FlinkRestError
from ...base.reading import one_line
from ..http.answers import MOST_VALUES, Refused, number
from ..http.client import RestClient

TASK, TASK_MANAGER, JOB = "flink_taskmanager_job_task_", "flink_taskmanager_", "flink_jobmanager_job_"
"""Beginnings of the names of metrics."""

JOB_ID, TASK_ID, SUBTASK, ATTEMPT, MANAGER, HOST = (
    "job_id",
    "task_id",
    "subtask_index",
    "task_attempt_num",
    "tm_id",
    "host",
)
"""Labels that identify a series."""

NAME = "__name__"

VALUES_OF_POINT = 3
"""Values of a point in an answer, as `decode_json` counts them."""

VALUES_OF_SERIES = 12
"""Values of the labels of a series."""

MOST_IN_ANSWER = MOST_VALUES // 2
"""Maximum number of values to request in one answer."""

_NO_LABEL = re.compile(r"[^a-zA-Z0-9:_]")


class Series(NamedTuple):
    """Values of a metric by their times, in seconds since 1970; unknown ones are left out."""

    labels: Mapping[str, str]
    values: Mapping[float, float]


class _Found(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[Any]


class _Answer(msgspec.Struct):
    status: str
    data: _Data


def equidistant(begin_s: float, end_s: float, steps: int) -> list[float]:
    """Return times from `begin_s` to at most `end_s`, in whole milliseconds as those of Prometheus."""
    begin_ms, step_ms = round(1e3 * begin_s), max(1, int(1e3 * (end_s - begin_s) / steps))
    return [(begin_ms + step_ms * number) / 1e3 for number in range(steps + 1)]


def query_range(client: RestClient, query: str, times: Sequence[float]) -> list[Series]:
    """Return the series of a query in PromQL at the times that `equidistant` returns.

    Raises:
        FlinkRestError: there is no answer, or it does not come from Prometheus.
    """
    step_s = times[1] - times[0]
    asked = f"query={query}&start={times[0]:.3f}&end={times[-1]:.3f}&step={step_s:.3f}"
    answer = client.answer(f"/api/v1/query_range?{asked}")
    if isinstance(answer, Refused):
        raise FlinkRestError(answer.text)
    try:
        found = msgspec.convert(answer, _Answer)
        if found.data.result_type != "matrix":
            raise ValueError(f"its result is a {found.data.result_type}, not a matrix")
        wanted = set(times)
        return [_series(msgspec.convert(each, _Found), wanted) for each in found.data.result]
    except ValueError as error:
        raise FlinkRestError(
            f"The address for metrics does not answer as Prometheus does: {one_line(error)}. Check that it "
            "is the address of a Prometheus."
        ) from None


def _series(found: _Found, wanted: Container[float]) -> Series:
    rounded = ((round(at, 3), number(text)) for at, text in found.values)
    return Series(found.metric, {at: value for at, value in rounded if at in wanted and value is not None})


def selector(names: Iterable[str], **labels: str) -> str:
    """Return the selector of series by regular expressions of their names, and of values of labels."""
    joined = "|".join(names)
    given = "".join(f",{label}=~{_quoted(value)}" for label, value in labels.items())
    return f"{{{NAME}=~{_quoted(joined)}{given}}}"


def one_of(values: Iterable[str]) -> str:
    """Return the regular expression of some values of a label."""
    return "|".join(map(re.escape, values))


def as_label(text: str) -> str:
    """Return a text as the reporter writes it into the value of a label."""
    return _NO_LABEL.sub("_", text)


def _quoted(text: str) -> str:
    """Return a text of PromQL. An ampersand would end the parameter of the request."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("&", "\\x26")
    return f'"{escaped}"'
