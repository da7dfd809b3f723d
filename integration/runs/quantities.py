"""The figures that users see, each declared once: name, unit, value, and its head in each view that shows it.

A table has the quantities of one subject: the job, a vertex or a subtask in a window, or a checkpoint. Views
loop over a table::

    for quantity in in_view(VERTEX, VERTICES):
        cells.append(quantity.unit.text(quantity.of(vertex)))

So a new figure needs an entry here, and a field where it is measured: of a vertex or a checkpoint in
`netstack.results.result`, of the job in a window in `Measures` or `WindowFigures` (`window_figures.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from netstack import CheckpointResult, Scenario, Steady, VertexCheckpoint, VertexSteady

from ..base.number_text import NOTHING, figure, milliseconds, per_second, percent, size
from ..base.optional_figures import (
    Values,
    complete,
    highest,
    known,
    lowest,
    mean,
    mean_of_known,
    middle,
    quotient,
    total,
    value_at,
)
from .checkpoint_times import CheckpointTimes, mean_times
from .window_figures import WindowFigures

S = TypeVar("S")


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:g}"


class Unit(NamedTuple):
    """A unit, and its texts: `text` contains the unit, `bare` leaves it to the legend of a table."""

    name: str
    text: Callable[[float | None], str]
    bare: Callable[[float | None], str]


MS = Unit("ms", milliseconds, figure)
BYTES = Unit("bytes", size, size)
PER_S = Unit("rec/s", per_second, figure)
SHARE = Unit("share", percent, percent)
BUFFERS = Unit("buffers", _number, figure)
COUNT = Unit("count", _number, figure)

PHASES, CHECKPOINTS, RECORDS = "phases", "checkpoints", "records"
TIME, RATES, SIZES, QUEUES = "time", "rates", "sizes", "queues"
"""Topics of quantities."""


class View(NamedTuple):
    """A table or drawing with quantities, and the order of their topics."""

    name: str
    topics: tuple[str, ...]


# In `run`, reports and notebooks: windows of one or two runs, their vertices and subtasks; drawn vertices;
# vertices of an imported Flink job.
WINDOWS = View("windows", (CHECKPOINTS, SIZES, RATES))
VERTICES = View("vertices", (CHECKPOINTS, RATES, SIZES, QUEUES, TIME))
SUBTASKS = View("subtasks", (RATES, TIME, SIZES, QUEUES))
GRAPH = View("graph", (RATES, TIME, CHECKPOINTS))
IMPORTED_JOB = View("imported", (RATES, TIME, CHECKPOINTS))
# In `tune`: details of a setting, and tables of settings.
SETTING = View("setting", (CHECKPOINTS, SIZES, RECORDS, TIME))
SETTINGS = View("settings", (CHECKPOINTS, RECORDS, SIZES))
NOTEBOOK_SETTINGS = View("notebook_settings", (CHECKPOINTS, SIZES, RECORDS))
# In the lab: figures of a job in Flink and of its predictions; the last checkpoints in Flink; checkpoints
# that have ended; the last checkpoint before and after a change.
LAB = View("lab", (TIME, RATES, QUEUES, SIZES, CHECKPOINTS))
LAB_FLINK = View("lab_flink", (CHECKPOINTS, PHASES, SIZES))
LAB_ENDED = View("lab_ended", (CHECKPOINTS, PHASES, SIZES))
LAB_EFFECT = View("lab_effect", (CHECKPOINTS, PHASES, SIZES))


@dataclass(frozen=True, slots=True)
class Quantity(Generic[S]):
    """A figure of a subject; its value is None if it was not measured."""

    name: str
    unit: Unit
    topic: str
    heads: Mapping[str, str]
    """Name of the figure in each view that shows it, by name of the view."""
    of: Callable[[S], float | None]
    end: str | None = None
    """End of a vertex to which the figure belongs, `INPUT` or `OUTPUT`; None: to both."""
    meaning: str = ""
    optional: bool = False
    """Whether tables omit the quantity if all its values are 0 or unknown."""

    def head(self, view: View) -> str:
        """Return the name of the figure in a view that shows it."""
        return self.heads[view.name]


def in_view(table: Sequence[Quantity[S]], view: View) -> list[Quantity[S]]:
    """Return the quantities of a table that a view shows, in its order."""
    listed = [quantity for quantity in table if view.name in quantity.heads]
    return sorted(listed, key=lambda quantity: view.topics.index(quantity.topic))


def _of(
    name: str, unit: Unit, topic: str, of: Callable[[S], float | None], end: str | None = None, **heads: str
) -> Quantity[S]:
    return Quantity(name, unit, topic, heads, of, end)


# The whole job in a window. Names are those of fields of `WindowFigures` and `Measures`.


def _job(name: str, unit: Unit, topic: str, meaning: str, **heads: str) -> Quantity[WindowFigures]:
    return Quantity(name, unit, topic, heads, attrgetter(name), None, meaning)


def _both(windows: str, setting: str | None = None) -> dict[str, str]:
    return {"windows": windows, "setting": setting or windows}


_END_TO_END = _both("End to end", "Checkpoint") | {
    "settings": "check-\npoint",
    "notebook_settings": "end to end",
}
_IN_FLIGHT = _both("Bytes in flight", "In flight") | {"notebook_settings": "in flight"}
_RECORD = {"setting": "Record", "settings": "record", "notebook_settings": "record delay"}
_KEPT = _both("Stored") | {"settings": "stored"}
_P95 = {"setting": "Checkpoint, p95", "settings": "95 %", "notebook_settings": "95 %"}

JOB = (
    _job("start_delay_ms", MS, CHECKPOINTS, "to the first barrier", **_both("Start delay")),
    _job("alignment_ms", MS, CHECKPOINTS, "from first to last barrier", **_both("Alignment")),
    _job("state_ms", MS, CHECKPOINTS, "sync and async part", windows="Snapshot"),
    _job("acknowledgement_ms", MS, CHECKPOINTS, "from there to completion", windows="Acknowledgement"),
    _job("end_to_end_ms", MS, CHECKPOINTS, "trigger to completion, the sum", **_END_TO_END),
    _job("end_to_end_p95_ms", MS, CHECKPOINTS, "95 % take less", **_P95),
    _job("end_to_end_max_ms", MS, CHECKPOINTS, "the slowest", setting="Checkpoint, worst", settings="worst"),
    _job("in_flight_bytes", BYTES, SIZES, "queued at senders and receivers", **_IN_FLIGHT),
    replace(_job("persisted_bytes", BYTES, SIZES, "of these, with a checkpoint", **_KEPT), optional=True),
    _job("buffer_bytes", BYTES, SIZES, "smallest of all consumers", windows="Buffer size"),
    _job("record_delay_ms", MS, RECORDS, "from emission to processing", **_RECORD),
    _job("record_delay_p95_ms", MS, RECORDS, "95 % take less", setting="Record, p95"),
    _job("adaptation_ms", MS, TIME, "until queues are steady again", setting="Adapts"),
    _job("throughput_per_s", PER_S, RATES, "records, all consumers", windows="Throughput"),
    _job("checkpoints_completed", COUNT, RATES, "completed", windows="Checkpoints"),
)

# A vertex in a window.

INPUT, OUTPUT = "input", "output"
"""Ends of a vertex."""


class VertexWindow(NamedTuple):
    """A vertex in a window, with the inputs and outputs that it has in its job."""

    steady: VertexSteady
    ends: frozenset[str]
    times: CheckpointTimes | None = None
    """Mean times of checkpoints up to the last acknowledgement of the vertex; None: not known."""

    def has(self, quantity: Quantity[Any]) -> bool:
        """Whether the vertex has the end to which a quantity belongs."""
        return quantity.end is None or quantity.end in self.ends


def ends_of(scenario: Scenario, vertex: str) -> frozenset[str]:
    """Return the ends that a vertex has in its job."""
    inputs = {INPUT for edge in scenario.edges if edge.target == vertex}
    return frozenset(inputs | {OUTPUT for edge in scenario.edges if edge.source == vertex})


def vertex_windows(
    scenario: Scenario, steady: Steady, completed: Sequence[CheckpointResult] = ()
) -> list[VertexWindow]:
    """Return the vertices of a window, in its order; `completed` are its completed checkpoints."""
    return [
        VertexWindow(vertex, ends_of(scenario, vertex.name), mean_times(completed, vertex.name))
        for vertex in steady.vertices
    ]


Value = Callable[[VertexWindow], float | None]


def _over(combine: Callable[[Values], float | None], field: str, divisor: float = 1.0) -> Value:
    """Return a function that combines the values of the subtasks of a vertex."""
    return lambda vertex: quotient(combine(getattr(vertex.steady, field)), divisor)


def _time(combine: Callable[[Values], float | None], kind: str) -> Value:
    return _over(combine, f"{kind}_ms_per_s", 1e3)


def _sum(values: Values) -> float | None:
    """Return the sum; None if a value is unknown, because a partial sum would mislead."""
    return None if (listed := complete(values)) is None else sum(listed)


def _records(vertex: VertexWindow) -> float | None:
    steady = vertex.steady
    return _sum(steady.records_in_per_s if INPUT in vertex.ends else steady.records_out_per_s)


def _last(part: str) -> Value:
    """Return a function that returns a mean time of the subtask that acknowledged last."""
    return lambda vertex: None if vertex.times is None else getattr(vertex.times, part)


def _steady(name: str, end: str | None = None, **heads: str) -> Quantity[VertexWindow]:
    return Quantity(name, MS, CHECKPOINTS, heads, attrgetter(f"steady.{name}"), end)


_IN_QUEUE = {"vertices": "in", "lab": "Input queue, buffers"}
_OUT_QUEUE = {"vertices": "out", "lab": "Output queue, buffers"}
_SIZE, _TO_CONSUME = {"vertices": "buffer", "lab": "Buffer size"}, "estimatedTimeToConsumeBuffersMs"
_IN, _OUT = {"graph": "in", "imported": "records in"}, {"graph": "out", "imported": "records out"}

VERTEX: tuple[Quantity[VertexWindow], ...] = (
    _of("busy", SHARE, TIME, _time(mean, "busy"), vertices="busy", lab="Busy"),
    _of("backpressured", SHARE, TIME, _time(mean, "backpressured"), vertices="blocked", lab="Back-pressured"),
    _of("idle", SHARE, TIME, _time(mean, "idle"), lab="Idle"),
    _of("busiest", SHARE, TIME, _time(highest, "busy"), graph="busy", imported="busy"),
    _of("most_backpressured", SHARE, TIME, _time(highest, "backpressured"), graph="back-pressure"),
    _of("records_per_s", PER_S, RATES, _records, vertices="rec/s", lab="Records"),
    _of("records_in", PER_S, RATES, _over(_sum, "records_in_per_s"), INPUT, **_IN),
    _of("records_out", PER_S, RATES, _over(_sum, "records_out_per_s"), OUTPUT, **_OUT),
    _of("in_pool", SHARE, QUEUES, _over(mean, "inPoolUsage"), INPUT, lab="In pool"),
    _of("input_queue", BUFFERS, QUEUES, _over(mean, "inputQueueLength"), INPUT, **_IN_QUEUE),
    _of("out_pool", SHARE, QUEUES, _over(mean, "outPoolUsage"), OUTPUT, lab="Out pool"),
    _of("output_queue", BUFFERS, QUEUES, _over(mean, "outputQueueLength"), OUTPUT, **_OUT_QUEUE),
    _of("buffer_bytes", BYTES, SIZES, _over(lowest, "debloatedBufferSize"), INPUT, **_SIZE),
    _of("time_to_consume_ms", MS, SIZES, _over(highest, _TO_CONSUME), INPUT, lab="Time to consume"),
    _of("last_start_delay_ms", MS, CHECKPOINTS, _last("start_delay_ms"), vertices="start\ndelay"),
    _of("last_alignment_ms", MS, CHECKPOINTS, _last("alignment_ms"), vertices="align-\nment"),
    _of("last_end_to_end_ms", MS, CHECKPOINTS, _last("end_to_end_ms"), vertices="end to\nend"),
    _steady("start_delay_ms", imported="start delay"),
    _steady("start_delay_ms_mean_subtask", lab="Start delay"),
    _steady("start_delay_ms_max_subtask", graph="start delay"),
    _steady("alignment_ms", imported="alignment"),
    _steady("alignment_ms_max_subtask", INPUT, lab="Alignment"),
)

# A subtask in a window. Names are those of fields of `VertexSteady`.


class SubtaskWindow(NamedTuple):
    """A subtask of a vertex in a window, by its place."""

    vertex: VertexSteady
    place: int


def _subtask(
    field: str, unit: Unit, topic: str, head: str, end: str | None, divisor: float = 1.0
) -> Quantity[SubtaskWindow]:
    def of(subtask: SubtaskWindow) -> float | None:
        return quotient(value_at(getattr(subtask.vertex, field), subtask.place), divisor)

    return _of(field, unit, topic, of, end, subtasks=head)


SUBTASK = (
    _subtask("records_in_per_s", PER_S, RATES, "Records in", INPUT),
    _subtask("records_out_per_s", PER_S, RATES, "Records out", OUTPUT),
    _subtask("busy_ms_per_s", SHARE, TIME, "Busy", None, 1e3),
    _subtask("backpressured_ms_per_s", SHARE, TIME, "Back-pressured", None, 1e3),
    _subtask("debloatedBufferSize", BYTES, SIZES, "Buffer size", INPUT),
    _subtask("inputQueueLength", BUFFERS, QUEUES, "Input queue", INPUT),
    _subtask("outputQueueLength", BUFFERS, QUEUES, "Output queue", OUTPUT),
)

# The checkpoints of a window: medians, and the range of their times.

STEADY: tuple[Quantity[Steady], ...] = (
    _of("checkpoints", COUNT, CHECKPOINTS, attrgetter("checkpoints"), lab="Checkpoints"),
    _of("end_to_end_ms", MS, CHECKPOINTS, attrgetter("end_to_end_ms"), lab="End to end"),
    _of("end_to_end_ms_min", MS, CHECKPOINTS, attrgetter("end_to_end_ms_min"), lab="Shortest"),
    _of("end_to_end_ms_max", MS, CHECKPOINTS, attrgetter("end_to_end_ms_max"), lab="Longest"),
    _of("persisted_bytes", BYTES, SIZES, attrgetter("persisted_bytes"), lab="Data in flight, stored"),
)

# A checkpoint. Each phase is the longest of all subtasks.


def _phase(field: str, head: str, **heads: str) -> Quantity[CheckpointResult]:
    def longest(checkpoint: CheckpointResult) -> float | None:
        return highest(time for vertex in checkpoint.vertices for time in getattr(vertex, field))

    return _of(field, MS, PHASES, longest, lab_ended=head, **heads)


_STORED = dict.fromkeys(("lab_flink", "lab_ended", "lab_effect"), "Data in flight, stored")
_TOOK = {"lab_flink": "End to end", "lab_ended": "End to end", "lab_effect": "Checkpoint, end to end"}

CHECKPOINT: tuple[Quantity[CheckpointResult], ...] = (
    _of("triggered_ms", MS, CHECKPOINTS, lambda checkpoint: checkpoint.t * 1e3, lab_flink="Triggered after"),
    _of("duration_ms", MS, CHECKPOINTS, attrgetter("duration_ms"), **_TOOK),
    _phase("start_delay_ms", "Start delay", lab_flink="Longest start delay", lab_effect="Start delay"),
    _phase("alignment_ms", "Alignment", lab_flink="Longest alignment", lab_effect="Alignment"),
    _phase("sync_ms", "Sync"),
    _phase("async_ms", "Async"),
    _of("state_bytes", BYTES, SIZES, attrgetter("state_bytes"), lab_ended="State"),
    _of("persisted_bytes", BYTES, SIZES, attrgetter("persisted_bytes"), **_STORED),
)

# Comparison of a window with a reference. The documents of both sides have the layout of a result.

THROUGHPUT, START_DELAY, ALIGNMENT = "throughput", "mean start delay", "slowest alignment"
END_TO_END, PERSISTED, BUFFER_SIZE = "end to end", "persisted in flight", "smallest buffer"
SLOW_TENTH = "slowest tenth of checkpoints"

ALLOWED_SHARE, LEAST_MS, LEAST_BYTES = 0.10, 15.0, 64.0
"""Allowed difference of most quantities, and the smallest difference that is allowed for times and sizes."""


class MeasuredWindow(NamedTuple):
    """A window of a document, and its checkpoints; `place` is the position of a vertex, or None."""

    block: Mapping[str, Any]
    checkpoints: Sequence[Mapping[str, Any]]
    place: int | None

    @property
    def vertex(self) -> Mapping[str, Any]:
        """The figures of the vertex."""
        found: Mapping[str, Any] = self.block["vertices"][self.place]
        return found

    def parts(self, field: str) -> list[list[float | None]]:
        """Return the values of the subtasks of the vertex in each checkpoint."""
        return [checkpoint["vertices"][self.place][field] for checkpoint in self.checkpoints]


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure that is compared with a reference, and the difference that is allowed.

    `of_checkpoint` returns the value for one checkpoint, and for a vertex in it; None: it is no time of
    checkpoints.
    """

    unit: Unit
    value: Callable[[MeasuredWindow], float | None]
    of_checkpoint: Callable[[CheckpointResult, VertexCheckpoint | None], float | None] | None = None
    share: float = ALLOWED_SHARE
    """Allowed difference as a share of the reference."""
    least: float = 0.0
    """Difference that is always allowed."""
    ranges: bool = True
    """Whether the reference may also lie in the range of our seeds."""


def _delay(window: MeasuredWindow) -> float | None:
    return middle(map(mean_of_known, window.parts("start_delay_ms")))


def _mean_delay(checkpoint: CheckpointResult, vertex: VertexCheckpoint | None) -> float | None:
    return None if vertex is None else mean_of_known(vertex.start_delay_ms)


def _alignment(window: MeasuredWindow) -> float | None:
    found: float | None = window.vertex["alignment_ms_max_subtask"]
    return found


def _longest_alignment(checkpoint: CheckpointResult, vertex: VertexCheckpoint | None) -> float | None:
    return None if vertex is None else highest(vertex.alignment_ms)


def _smallest_buffer(window: MeasuredWindow) -> float | None:
    return lowest(window.vertex.get("debloatedBufferSize") or ())


def _slow_tenth(window: MeasuredWindow) -> float | None:
    times = known(checkpoint.get("duration_ms") for checkpoint in window.checkpoints)
    return float(np.percentile(times, 90)) if times else None


COMPARED_OF_JOB = {
    END_TO_END: Compared(
        MS,
        lambda window: window.block["end_to_end_ms"],
        lambda checkpoint, _: checkpoint.duration_ms,
        least=LEAST_MS,
    ),
    PERSISTED: Compared(BYTES, lambda window: window.block["persisted_bytes"] or None, ranges=False),
}
COMPARED_IF_UNSTEADY = {SLOW_TENTH: Compared(MS, _slow_tenth, least=LEAST_MS)}
"""Compared figures of the whole job that say more than a median if the job changes."""
COMPARED_OF_VERTEX = {
    THROUGHPUT: Compared(
        PER_S, lambda window: total(window.vertex["records_in_per_s"]), share=0.03, ranges=False
    ),
    START_DELAY: Compared(MS, _delay, _mean_delay, least=LEAST_MS),
    ALIGNMENT: Compared(MS, _alignment, _longest_alignment, least=LEAST_MS),
    BUFFER_SIZE: Compared(BYTES, _smallest_buffer, least=LEAST_BYTES),
}
COMPARED = COMPARED_OF_JOB | COMPARED_IF_UNSTEADY | COMPARED_OF_VERTEX
"""The compared figures by name, in the order of their rows."""
