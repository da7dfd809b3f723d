"""Messages between the lab and its page: JSON texts over one websocket.

The page gets a `Hello` first. Then it gets a `Frame` of each side up to twenty times a second, a `SampleRow`
of the time series each emulated second, and a `CheckpointRow` whenever a checkpoint has ended. There is one
side, "a", until the user forks the run. From then on "a" continues unchanged, and later changes apply to side
"b". After a step back, a fork or a new job the page gets a `Hello` again, with the history of each side.

With a running Flink beside the lab, the page gets a `Reading` while the job is read. After the `Hello`, it
gets a `FlinkFrame` each second.

All times are in seconds of emulated time, all sizes in bytes, shares from 0 to 1. Unknown numbers are null.
Lists of a `Frame` follow the order of the vertices, edges and channels in `Hello`. Channels of an edge are
ordered by producer. An edge of more than `MOST_CHANNELS` channels has one entry per consumer, with sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from ..runs.quantities import (
    CHECKPOINT,
    LAB,
    LAB_EFFECT,
    LAB_ENDED,
    LAB_FLINK,
    PHASES,
    STEADY,
    VERTEX,
    Quantity,
    View,
    in_view,
)

MOST_CHANNELS = 4096
"""Maximum number of channels of an edge that frames list. Above it, frames have sums per consumer."""

Side = Literal["a", "b"]

FigureValues = dict[str, float | None]
"""Figures by the name of their quantity (`quantities.py`), in its unit."""


class Column(msgspec.Struct, frozen=True):
    """A figure in a table of the page: its name in `FigureValues`, the head of its column, and its unit."""

    name: str
    head: str
    unit: str


def columns_of(table: Sequence[Quantity[Any]], view: View) -> list[Column]:
    """Return the columns of a table in a view."""
    return [Column(each.name, each.head(view), each.unit.name) for each in in_view(table, view)]


def figures_of(table: Sequence[Quantity[Any]], views: Iterable[View], subject: Any) -> FigureValues:
    """Return the figures of a subject that some views show."""
    shown = {each.name for view in views for each in in_view(table, view)}
    return {each.name: each.of(subject) for each in table if each.name in shown}


CHECKPOINT_VIEWS = (LAB_ENDED, LAB_EFFECT)

COLUMNS = {
    "vertices": columns_of(VERTEX, LAB),
    "checkpoints": columns_of(STEADY, LAB),
    "ended": columns_of(CHECKPOINT, LAB_ENDED),
    "phases": columns_of([each for each in CHECKPOINT if each.topic == PHASES], LAB_ENDED),
    "effect": columns_of(CHECKPOINT, LAB_EFFECT),
    "flink": columns_of(CHECKPOINT, LAB_FLINK),
}
"""Columns of the tables of the page, by table."""

Shares = tuple[float, float, float]
"""Shares of the time of a subtask: busy, idle, back-pressured. All are 0 while it does not run."""


class VertexShape(msgspec.Struct, frozen=True):
    """A drawn vertex. `rank` is its row in the graph: 0 for a source."""

    name: str
    parallelism: int
    source: bool
    rank: int
    task_managers: list[str]
    """The task manager of each subtask."""


class EdgeShape(msgspec.Struct, frozen=True):
    """An edge between vertices given by index.

    `channels` are (producer, consumer), or (null, consumer) for sums.
    """

    source: int
    target: int
    ship: str
    summed: bool
    channels: list[tuple[int | None, int]]


class Control(msgspec.Struct, frozen=True):
    """A setting that a user may change while the job runs: of a vertex, or of the job if `vertex` is null.

    `kind`: "switch" (true or false), "choice" (one of `choices`), "duration" (text such as "200 ms"),
    "rate" (records a second of each subtask, with commas between them; 0: as fast as possible), "factors"
    (one number for each subtask, with colons between them), "load" (a factor of the scenario's rates; empty:
    there is no common factor). `least` and `most` bound a slider, in seconds, records a second, or as a
    factor. `why_not` is the reason why the setting cannot change; null: it can.
    """

    key: str
    label: str
    kind: Literal["switch", "choice", "duration", "rate", "factors", "load"]
    value: str
    vertex: str | None = None
    choices: list[str] = []
    least: float | None = None
    most: float | None = None
    why_not: str | None = None


class SampleRow(msgspec.Struct, frozen=True, tag="row"):
    """Figures of one emulated second, by index of the vertex: shares from 0 to 1, and rates."""

    side: Side
    t: float
    busy: list[float | None]
    idle: list[float | None]
    backpressured: list[float | None]
    records_per_s: list[float | None]
    """Records per second that a source emits, or that another vertex reads."""
    buffer_bytes: list[float | None]
    """The smallest debloated buffer size; null for sources and without debloating."""
    time_to_consume_s: list[float | None]
    """Estimated time in which a vertex consumes its queued data, by debloating's formula."""
    pending_records: list[int | None]
    """Records that have arrived and that a source has not read.

    Null for a vertex without a rate, and if not all subtasks run.
    """
    in_flight_bytes: list[float]
    """Data in flight on each edge, by its index: at producers, in the network and at consumers."""


class CheckpointRow(msgspec.Struct, frozen=True, tag="checkpoint"):
    """A checkpoint that has ended; `figures` are those of `Hello.columns`."""

    side: Side
    id: int
    t: float
    status: str
    kind: str
    figures: FigureValues
    failure: str | None = None


class Incident(msgspec.Struct, frozen=True, tag="incident"):
    """An event of the job as text: a change, a fault, a failure, a restart."""

    side: Side
    t: float
    text: str


class EdgeFrame(msgspec.Struct, frozen=True):
    """The channels of an edge at a moment.

    `sender` and `receiver` are the queued buffers at either end. `credit` is the number of buffers that the
    sender may send (null within one task manager, where there is no credit). `size` is the largest buffer
    that the sender may fill, in bytes. `barriers` has (index of the channel, location, checkpoint id) for
    each barrier in a channel; the location is "sender", "wire" or "receiver". `blocked` are the indices of
    channels whose barrier has arrived while barriers of other channels have not.
    """

    sender: list[int]
    receiver: list[int]
    credit: list[int | None]
    size: list[int]
    under_way: int
    """Messages in transit between the task managers of this edge."""
    barriers: list[tuple[int, str, int]]
    blocked: list[int]


class PendingRow(msgspec.Struct, frozen=True):
    """A pending checkpoint: its trigger time, and the number of acknowledgements."""

    id: int
    t: float
    acknowledged: int
    subtasks: int


class Frame(msgspec.Struct, frozen=True, tag="frame"):
    """The state of one side at a moment.

    `subtasks`: for each vertex and subtask, the shares of time since the last frame: busy, idle,
    back-pressured. `state`: "running", "paused", "behind" (it replays up to the moment of the other side),
    "restarting", "down" (an outage), "ended" or "failed"; `text` says why. `speed`: recent emulated seconds
    per second. `backlog`: records that have arrived and that the sources have not read; null if not all
    sources run, or none has a rate. `catches_up`: whether sources read records that arrived while they were
    down.
    """

    side: Side
    t: float
    state: str
    text: str
    speed: float | None
    subtasks: list[list[Shares]]
    edges: list[EdgeFrame]
    pending: list[PendingRow]
    backlog: int | None
    catches_up: bool
    replays_to_s: float | None
    """Time up to which the side replays the run; null: it is up to date."""


class History(msgspec.Struct, frozen=True):
    """The history of a side, and its controls."""

    side: Side
    t: float
    rows: list[SampleRow]
    checkpoints: list[CheckpointRow]
    incidents: list[Incident]
    controls: list[Control]
    """Settings with their current values."""


# A running Flink beside the lab.

FlinkState = Literal["running", "recorded", "away", "waiting", "gone"]
"""State of the job in Flink.

"running": the job runs; "recorded": it is a recording; "away": the cluster is unreachable; "waiting": the
job is not running at the moment; "gone": the job that was read has ended or restarted."""


class Reading(msgspec.Struct, frozen=True, tag="reading"):
    """Progress of reading a job from Flink: its metrics have been watched for `done_s` of `total_s` seconds.

    Both are null before that.

    `problem` is the reason of a failed reading. The page may then ask to read again.
    """

    url: str
    done_s: float | None = None
    total_s: float | None = None
    problem: str | None = None


class FlinkJobShape(msgspec.Struct, frozen=True):
    """The job that was read; `notes` list values that could not be read."""

    url: str
    job: str
    job_name: str
    version: str
    notes: list[str]


class JobFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a job over a window: of its vertices, in the order of `Hello`, and of its checkpoints."""

    vertices: list[FigureValues]
    checkpoints: FigureValues
    over_s: float | None = None
    """Length of the window; null: the time watched while reading."""


class FlinkCheckpoint(msgspec.Struct, frozen=True):
    """A recent checkpoint of the job in Flink."""

    id: int
    figures: FigureValues


class Predicted(msgspec.Struct, frozen=True):
    """Figures of a side of the lab over its last window; null until the warm-up is over."""

    side: str
    figures: JobFigures | None


class FlinkFrame(msgspec.Struct, frozen=True, tag="flink"):
    """Figures of Flink beside predictions.

    `age_s` is the age of Flink's figures; null for a recording. `text` describes a problem.
    """

    state: FlinkState
    text: str
    age_s: float | None
    flink: JobFigures
    predicted: list[Predicted]
    checkpoints: list[FlinkCheckpoint]


# The job as a whole.


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The job and its state. `pace` is in emulated seconds per second; null: as fast as possible."""

    name: str
    duration_s: float
    segment_bytes: int
    vertices: list[VertexShape]
    edges: list[EdgeShape]
    task_managers: list[str]
    links: list[tuple[str, str]]
    """Pairs of task managers, producer's and consumer's, whose connection can be cut."""
    sides: list[History]
    pace: float | None
    paused: bool
    columns: dict[str, list[Column]] = msgspec.field(default_factory=lambda: COLUMNS)
    """Figures that each table of the page shows."""
    flink: FlinkJobShape | None = None
    """The running Flink job that the page shows beside the emulated one; null: none."""


class Copied(msgspec.Struct, frozen=True, tag="copied"):
    """The scenario of a side with all its changes, as TOML. A run of it gives the same numbers."""

    side: Side
    toml: str


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The reason why a request of the page failed, in one line."""

    text: str


# Requests of the page.


class Pace(msgspec.Struct, frozen=True, tag="pace"):
    """Run at this pace, in emulated seconds per second; null: as fast as possible."""

    value: float | None


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Pause or continue."""

    paused: bool


class Step(msgspec.Struct, frozen=True, tag="step"):
    """Run for some emulated seconds and pause; null: until the next event."""

    seconds: float | None


class Back(msgspec.Struct, frozen=True, tag="back"):
    """Go back to a moment, without later changes."""

    t: float


class Change(msgspec.Struct, frozen=True, tag="change"):
    """Set a control, by its key and vertex, to a value in the syntax of scenario files."""

    side: Side
    key: str
    value: str
    vertex: str | None = None


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Kill a subtask, or the task manager if `task_manager` is given."""

    side: Side
    vertex: str | None = None
    subtask: int | None = None
    task_manager: str | None = None


class Cut(msgspec.Struct, frozen=True, tag="cut"):
    """Cut the connection between two task managers for this many seconds."""

    side: Side
    link: tuple[str, str]
    seconds: float


class StopFor(msgspec.Struct, frozen=True, tag="stop_for"):
    """Stop the job for this many seconds, as in an outage."""

    side: Side
    seconds: float


class TakeCheckpoint(msgspec.Struct, frozen=True, tag="take_checkpoint"):
    """Take a checkpoint now."""

    side: Side


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Start a second side at this moment."""


class Join(msgspec.Struct, frozen=True, tag="join"):
    """Keep only this side."""

    side: Side


class Copy(msgspec.Struct, frozen=True, tag="copy"):
    """Return the scenario of a side."""

    side: Side


class ReadAgain(msgspec.Struct, frozen=True, tag="read_again"):
    """Read the job from Flink again, and restart the lab with it."""


Request = Pace | Pause | Step | Back | Change | Kill | Cut | StopFor | TakeCheckpoint | Fork | Join | Copy
"""Requests to a lab."""

Answer = Hello | Frame | SampleRow | CheckpointRow | Incident | Copied | Refused | Reading | FlinkFrame

_DECODER: msgspec.json.Decoder[Request | ReadAgain] = msgspec.json.Decoder(Request | ReadAgain)


def read_request(text: str | bytes) -> Request | ReadAgain:
    """Decode a request of a page.

    Raises:
        msgspec.DecodeError: The text is not a valid request.
    """
    return _DECODER.decode(text)


def encode(answer: Answer | Any) -> str:
    """Encode a message to the page."""
    return msgspec.json.encode(answer).decode()
