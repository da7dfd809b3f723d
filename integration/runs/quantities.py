"""The figures that users see, each declared once: name, unit, meaning, value, and the views that show it.

A table has the quantities of one subject: the job, a vertex or a subtask in a measured window, or a
checkpoint. Views loop over a table with `in_view`. A figure appears in a view if it has a head there::

    for quantity in in_view(VERTEX, VERTICES):
        cells.append(quantity.unit.text(quantity.of(vertex)))

So a new figure needs a field where it is measured (`netstack.results.result`) and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from netstack import CheckpointResult, Scenario, Steady, VertexCheckpoint, VertexSteady

from ..base.number_text import NOTHING, figure, milliseconds, per_second, percent, size
from ..base.optional_figures import (
    Values,
    complete,
    highest,
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

CHECKPOINTS, RATES, TIME = "checkpoints", "rates", "time"
RECORDS, SIZES, QUEUES = "records", "sizes", "queues"
"""Topics of quantities."""


class View(NamedTuple):
    """A view, and the order of the topics in it."""

    name: str
    topics: tuple[str, ...]


WINDOWS = View("windows", (CHECKPOINTS, SIZES, RATES))
"""Table of windows of `run`, of reports, of notebooks, and of two compared results."""
SETTING = View("setting", (CHECKPOINTS, SIZES, RECORDS, TIME))
"""Details of a setting in `tune` and on its page."""
SETTINGS = View("settings", (CHECKPOINTS, RECORDS, SIZES))
"""Table of settings of `tune`."""
NOTEBOOK_SETTINGS = View("settings in a notebook", (CHECKPOINTS, SIZES, RECORDS))
VERTICES = View("vertices", (CHECKPOINTS, RATES, SIZES, QUEUES, TIME))
"""Table of vertices of `run`."""
SUBTASKS = View("subtasks", (RATES, TIME, SIZES, QUEUES))
"""Table of subtasks of a report."""
GRAPH = View("graph", (RATES, TIME, CHECKPOINTS))
"""Drawn vertices of a job."""
IMPORTED_JOB = View("imported", (RATES, TIME, CHECKPOINTS))
"""Table of an imported Flink job in a notebook."""
LAB = View("lab", (TIME, RATES, QUEUES, SIZES, CHECKPOINTS))
"""Tables of the lab for a job in Flink and its predictions."""
LAB_FLINK = View("lab_flink", (CHECKPOINTS, SIZES))
"""The last checkpoints in Flink, in the lab."""
LAB_ENDED = View("lab_ended", (CHECKPOINTS, SIZES))
"""Table of ended checkpoints in the lab."""
LAB_PHASES = View("lab_phases", (CHECKPOINTS,))
"""Bar of the phases of a checkpoint in the lab."""
LAB_EFFECT = View("lab_effect", (CHECKPOINTS, SIZES))
"""Last checkpoint before and after a change in the lab."""


@dataclass(frozen=True, slots=True)
class Quantity(Generic[S]):
    """A figure of a subject; its value is None if it was not measured."""

    name: str
    unit: Unit
    topic: str
    meaning: str
    heads: Mapping[View, str]
    """Name of the figure in each view that shows it."""
    value: Callable[[S], float | None] | None = None
    """None: the attribute of the subject with this name."""
    end: str | None = None
    """End of a vertex to which the figure belongs, `INPUT` or `OUTPUT`; None: to both."""
    optional: bool = False
    """Whether tables omit the quantity if all its values are 0 or unknown."""

    def of(self, subject: S) -> float | None:
        """Return the value for a subject."""
        found: float | None = getattr(subject, self.name) if self.value is None else self.value(subject)
        return found


def in_view(table: Sequence[Quantity[S]], view: View) -> list[Quantity[S]]:
    """Return the quantities of a table that a view shows, in its order."""
    listed = [quantity for quantity in table if view in quantity.heads]
    return sorted(listed, key=lambda quantity: view.topics.index(quantity.topic))


# The whole job in a window. Names are those of fields of `WindowFigures` and `Measures`.

_NB = NOTEBOOK_SETTINGS

JOB: tuple[Quantity[WindowFigures], ...] = (
    Quantity(
        "start_delay_ms",
        MS,
        CHECKPOINTS,
        "to the first barrier",
        {WINDOWS: "Start delay", SETTING: "Start delay"},
    ),
    Quantity(
        "alignment_ms",
        MS,
        CHECKPOINTS,
        "from first to last barrier",
        {WINDOWS: "Alignment", SETTING: "Alignment"},
    ),
    Quantity("state_ms", MS, CHECKPOINTS, "sync and async part", {WINDOWS: "Snapshot"}),
    Quantity("acknowledgement_ms", MS, CHECKPOINTS, "from there to completion", {WINDOWS: "Acknowledgement"}),
    Quantity(
        "end_to_end_ms",
        MS,
        CHECKPOINTS,
        "trigger to completion, the sum",
        {WINDOWS: "End to end", SETTING: "Checkpoint", SETTINGS: "check-\npoint", _NB: "end to end"},
    ),
    Quantity(
        "end_to_end_p95_ms",
        MS,
        CHECKPOINTS,
        "95 % take less",
        {SETTING: "Checkpoint, p95", SETTINGS: "95 %", _NB: "95 %"},
    ),
    Quantity(
        "end_to_end_max_ms",
        MS,
        CHECKPOINTS,
        "the slowest one",
        {SETTING: "Checkpoint, worst", SETTINGS: "worst"},
    ),
    Quantity(
        "in_flight_bytes",
        BYTES,
        SIZES,
        "queued at senders and receivers",
        {WINDOWS: "Bytes in flight", SETTING: "In flight", _NB: "in flight"},
    ),
    Quantity(
        "persisted_bytes",
        BYTES,
        SIZES,
        "of these, with a checkpoint",
        {WINDOWS: "Stored", SETTING: "Stored", SETTINGS: "stored"},
        optional=True,
    ),
    Quantity("buffer_bytes", BYTES, SIZES, "smallest of all consumers", {WINDOWS: "Buffer size"}),
    Quantity(
        "record_delay_ms",
        MS,
        RECORDS,
        "from emission to processing",
        {SETTING: "Record", SETTINGS: "record", _NB: "record delay"},
    ),
    Quantity("record_delay_p95_ms", MS, RECORDS, "95 % take less", {SETTING: "Record, p95"}),
    Quantity("adaptation_ms", MS, TIME, "until queues are steady again", {SETTING: "Adapts"}),
    Quantity("throughput_per_s", PER_S, RATES, "records, all consumers", {WINDOWS: "Throughput"}),
    Quantity("checkpoints_completed", COUNT, RATES, "completed", {WINDOWS: "Checkpoints"}),
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


def _over(
    over: Callable[[Values], float | None], field: str, divisor: float = 1.0
) -> Callable[[VertexWindow], float | None]:
    """Return a function that combines the values of the subtasks of a vertex."""

    def value(vertex: VertexWindow) -> float | None:
        return quotient(over(getattr(vertex.steady, field)), divisor)

    return value


def _sum(values: Values) -> float | None:
    """Return the sum; None if a value is unknown, because a partial sum would mislead."""
    listed = complete(values)
    return None if listed is None else sum(listed)


def _records(vertex: VertexWindow) -> float | None:
    steady = vertex.steady
    return _sum(steady.records_in_per_s if INPUT in vertex.ends else steady.records_out_per_s)


def _last(part: str) -> Callable[[VertexWindow], float | None]:
    """Return a function that returns a mean time of the subtask that acknowledged last."""

    def value(vertex: VertexWindow) -> float | None:
        found: float | None = None if vertex.times is None else getattr(vertex.times, part)
        return found

    return value


_MEAN, _LAST = "mean of the subtasks", "of the subtask that acknowledged last"
_HIGHEST, _MEDIAN = "highest of the subtasks", "median of all subtasks and checkpoints"

VERTEX: tuple[Quantity[VertexWindow], ...] = (
    Quantity("busy", SHARE, TIME, _MEAN, {VERTICES: "busy", LAB: "Busy"}, _over(mean, "busy_ms_per_s", 1e3)),
    Quantity(
        "backpressured",
        SHARE,
        TIME,
        _MEAN,
        {VERTICES: "blocked", LAB: "Back-pressured"},
        _over(mean, "backpressured_ms_per_s", 1e3),
    ),
    Quantity("idle", SHARE, TIME, _MEAN, {LAB: "Idle"}, _over(mean, "idle_ms_per_s", 1e3)),
    Quantity(
        "busiest",
        SHARE,
        TIME,
        _HIGHEST,
        {GRAPH: "busy", IMPORTED_JOB: "busy"},
        _over(highest, "busy_ms_per_s", 1e3),
    ),
    Quantity(
        "most_backpressured",
        SHARE,
        TIME,
        _HIGHEST,
        {GRAPH: "back-pressure"},
        _over(highest, "backpressured_ms_per_s", 1e3),
    ),
    Quantity(
        "records_per_s",
        PER_S,
        RATES,
        "read, or emitted by a source",
        {VERTICES: "rec/s", LAB: "Records"},
        _records,
    ),
    Quantity(
        "records_in_per_s",
        PER_S,
        RATES,
        "all subtasks",
        {GRAPH: "in", IMPORTED_JOB: "records in"},
        _over(_sum, "records_in_per_s"),
        INPUT,
    ),
    Quantity(
        "records_out_per_s",
        PER_S,
        RATES,
        "all subtasks",
        {GRAPH: "out", IMPORTED_JOB: "records out"},
        _over(_sum, "records_out_per_s"),
        OUTPUT,
    ),
    Quantity("in_pool", SHARE, QUEUES, _MEAN, {LAB: "In pool"}, _over(mean, "inPoolUsage"), INPUT),
    Quantity(
        "input_queue",
        BUFFERS,
        QUEUES,
        _MEAN,
        {VERTICES: "in", LAB: "Input queue, buffers"},
        _over(mean, "inputQueueLength"),
        INPUT,
    ),
    Quantity("out_pool", SHARE, QUEUES, _MEAN, {LAB: "Out pool"}, _over(mean, "outPoolUsage"), OUTPUT),
    Quantity(
        "output_queue",
        BUFFERS,
        QUEUES,
        _MEAN,
        {VERTICES: "out", LAB: "Output queue, buffers"},
        _over(mean, "outputQueueLength"),
        OUTPUT,
    ),
    Quantity(
        "buffer_bytes",
        BYTES,
        SIZES,
        "smallest debloated size",
        {VERTICES: "buffer", LAB: "Buffer size"},
        _over(lowest, "debloatedBufferSize"),
        INPUT,
    ),
    Quantity(
        "time_to_consume_ms",
        MS,
        SIZES,
        "queued data, slowest subtask",
        {LAB: "Time to consume"},
        _over(highest, "estimatedTimeToConsumeBuffersMs"),
        INPUT,
    ),
    Quantity(
        "last_start_delay_ms", MS, CHECKPOINTS, _LAST, {VERTICES: "start\ndelay"}, _last("start_delay_ms")
    ),
    Quantity("last_alignment_ms", MS, CHECKPOINTS, _LAST, {VERTICES: "align-\nment"}, _last("alignment_ms")),
    Quantity("last_end_to_end_ms", MS, CHECKPOINTS, _LAST, {VERTICES: "end to\nend"}, _last("end_to_end_ms")),
    Quantity(
        "start_delay_ms",
        MS,
        CHECKPOINTS,
        _MEDIAN,
        {IMPORTED_JOB: "start delay"},
        attrgetter("steady.start_delay_ms"),
    ),
    Quantity(
        "start_delay_ms_mean_subtask",
        MS,
        CHECKPOINTS,
        _MEAN,
        {LAB: "Start delay"},
        attrgetter("steady.start_delay_ms_mean_subtask"),
    ),
    Quantity(
        "start_delay_ms_max_subtask",
        MS,
        CHECKPOINTS,
        _HIGHEST,
        {GRAPH: "start delay"},
        attrgetter("steady.start_delay_ms_max_subtask"),
    ),
    Quantity(
        "alignment_ms",
        MS,
        CHECKPOINTS,
        _MEDIAN,
        {IMPORTED_JOB: "alignment"},
        attrgetter("steady.alignment_ms"),
    ),
    Quantity(
        "alignment_ms_max_subtask",
        MS,
        CHECKPOINTS,
        _HIGHEST,
        {LAB: "Alignment"},
        attrgetter("steady.alignment_ms_max_subtask"),
        INPUT,
    ),
)


# The checkpoints of a window: medians and extremes.

STEADY: tuple[Quantity[Steady], ...] = (
    Quantity("checkpoints", COUNT, CHECKPOINTS, "completed", {LAB: "Checkpoints"}),
    Quantity("end_to_end_ms", MS, CHECKPOINTS, "median", {LAB: "End to end"}),
    Quantity("end_to_end_ms_min", MS, CHECKPOINTS, "shortest", {LAB: "Shortest"}),
    Quantity("end_to_end_ms_max", MS, CHECKPOINTS, "longest", {LAB: "Longest"}),
    Quantity("persisted_bytes", BYTES, CHECKPOINTS, "median", {LAB: "Data in flight, stored"}),
)


# A checkpoint.


def _longest(field: str) -> Callable[[CheckpointResult], float | None]:
    """Return a function that returns the longest time of all subtasks."""
    return lambda checkpoint: highest(
        time for vertex in checkpoint.vertices for time in getattr(vertex, field)
    )


CHECKPOINT: tuple[Quantity[CheckpointResult], ...] = (
    Quantity(
        "triggered_ms",
        MS,
        CHECKPOINTS,
        "time since the start of the job",
        {LAB_FLINK: "Triggered after"},
        lambda checkpoint: checkpoint.t * 1e3,
    ),
    Quantity(
        "duration_ms",
        MS,
        CHECKPOINTS,
        "from the trigger to completion",
        {LAB_FLINK: "End to end", LAB_ENDED: "End to end", LAB_EFFECT: "Checkpoint, end to end"},
    ),
    Quantity(
        "start_delay_ms",
        MS,
        CHECKPOINTS,
        "longest of all subtasks",
        {
            LAB_FLINK: "Longest start delay",
            LAB_ENDED: "Start delay",
            LAB_PHASES: "start delay",
            LAB_EFFECT: "Start delay",
        },
        _longest("start_delay_ms"),
    ),
    Quantity(
        "alignment_ms",
        MS,
        CHECKPOINTS,
        "longest of all subtasks",
        {
            LAB_FLINK: "Longest alignment",
            LAB_ENDED: "Alignment",
            LAB_PHASES: "alignment",
            LAB_EFFECT: "Alignment",
        },
        _longest("alignment_ms"),
    ),
    Quantity(
        "sync_ms",
        MS,
        CHECKPOINTS,
        "longest of all subtasks",
        {LAB_ENDED: "Sync", LAB_PHASES: "sync"},
        _longest("sync_ms"),
    ),
    Quantity(
        "async_ms",
        MS,
        CHECKPOINTS,
        "longest of all subtasks",
        {LAB_ENDED: "Async", LAB_PHASES: "async"},
        _longest("async_ms"),
    ),
    Quantity("state_bytes", BYTES, SIZES, "all state", {LAB_ENDED: "State"}),
    Quantity(
        "persisted_bytes",
        BYTES,
        SIZES,
        "data in flight that was stored",
        dict.fromkeys((LAB_FLINK, LAB_ENDED, LAB_EFFECT), "Data in flight, stored"),
    ),
)


# A subtask in a window. Names are those of fields of `VertexSteady` with a value for each subtask.


class SubtaskWindow(NamedTuple):
    """A subtask of a vertex in a window, by its place."""

    vertex: VertexSteady
    place: int


def _at(field: str, divisor: float = 1.0) -> Callable[[SubtaskWindow], float | None]:
    """Return a function that returns the value of a subtask in a list of its vertex."""
    return lambda subtask: quotient(value_at(getattr(subtask.vertex, field), subtask.place), divisor)


SUBTASK: tuple[Quantity[SubtaskWindow], ...] = tuple(
    Quantity(field, unit, topic, head.lower(), {SUBTASKS: head}, _at(field, divisor), end)
    for field, divisor, unit, topic, head, end in (
        ("records_in_per_s", 1.0, PER_S, RATES, "Records in", INPUT),
        ("records_out_per_s", 1.0, PER_S, RATES, "Records out", OUTPUT),
        ("busy_ms_per_s", 1e3, SHARE, TIME, "Busy", None),
        ("backpressured_ms_per_s", 1e3, SHARE, TIME, "Back-pressured", None),
        ("debloatedBufferSize", 1.0, BYTES, SIZES, "Buffer size", INPUT),
        ("inputQueueLength", 1.0, BUFFERS, QUEUES, "Input queue", INPUT),
        ("outputQueueLength", 1.0, BUFFERS, QUEUES, "Output queue", OUTPUT),
    )
)


# Comparison of a window with a reference. The documents of both sides have the layout of a result.

THROUGHPUT, START_DELAY, ALIGNMENT = "throughput", "mean start delay", "slowest alignment"
END_TO_END, PERSISTED, BUFFER_SIZE = "end to end", "persisted in flight", "smallest buffer"

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
    """A figure that is compared with a reference, and the difference that is allowed."""

    unit: Unit
    value: Callable[[MeasuredWindow], float | None]
    of_vertex: bool = True
    """Whether it is a figure of each vertex; otherwise of the whole job."""
    share: float = ALLOWED_SHARE
    """Allowed difference as a share of the reference."""
    least: float = LEAST_MS
    """Difference that is always allowed."""
    ranges_over_seeds: bool = True
    """Whether the reference may also lie in the range of our seeds."""
    of_checkpoint: Callable[[CheckpointResult, VertexCheckpoint | None], float | None] | None = None
    """Returns the value for one checkpoint, and for the vertex in it; None: it is no time of checkpoints."""


def _in_part(
    over: Callable[[Values], float | None], field: str
) -> Callable[[CheckpointResult, VertexCheckpoint | None], float | None]:
    """Return a function that combines the values of a vertex's subtasks in one checkpoint."""
    return lambda checkpoint, vertex: over(getattr(vertex, field))


COMPARED: Mapping[str, Compared] = {
    END_TO_END: Compared(
        MS,
        lambda window: window.block["end_to_end_ms"],
        of_vertex=False,
        of_checkpoint=lambda checkpoint, vertex: checkpoint.duration_ms,
    ),
    PERSISTED: Compared(
        BYTES,
        lambda window: window.block["persisted_bytes"] or None,
        of_vertex=False,
        least=0.0,
        ranges_over_seeds=False,
    ),
    THROUGHPUT: Compared(
        PER_S,
        lambda window: total(window.vertex["records_in_per_s"]),
        share=0.03,
        least=0.0,
        ranges_over_seeds=False,
    ),
    START_DELAY: Compared(
        MS,
        lambda window: middle(map(mean_of_known, window.parts("start_delay_ms"))),
        of_checkpoint=_in_part(mean_of_known, "start_delay_ms"),
    ),
    ALIGNMENT: Compared(
        MS,
        lambda window: window.vertex["alignment_ms_max_subtask"],
        of_checkpoint=_in_part(highest, "alignment_ms"),
    ),
    BUFFER_SIZE: Compared(
        BYTES, lambda window: lowest(window.vertex.get("debloatedBufferSize") or ()), least=LEAST_BYTES
    ),
}
"""The compared figures by name, in the order of their rows."""
