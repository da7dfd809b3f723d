"""What the lab and its page say to each other: JSON texts over one websocket.

The page gets a `Hello` first, then a `Frame` of each side up to twenty times a second, a `Row` of the time
series each emulated second, and a `CheckpointRow` whenever a checkpoint has ended. There is one side, "a",
until the user forks the run; then "a" goes on as it was, and "b" has the changes that are made from then on.
After a step back, a fork or a new job the page gets a `Hello` again, with the history of each side. What
there is of a running Flink stands in `flink_messages`.

All times are in seconds of emulated time, all sizes in bytes. Numbers that nobody knows are null. Lists of a
`Frame` follow the order of the vertices, edges and channels in `Hello`: channels of an edge are listed
producer by producer. An edge of more than `MOST_CHANNELS` channels is summed: one entry for each consumer.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .flink_messages import FlinkFrame, FlinkJobShape, ReadAgain, Reading

MOST_CHANNELS = 4096
"""Channels of an edge beyond which a frame has sums for each consumer."""

Side = Literal["a", "b"]

Shares = tuple[float, float, float]
"""Of the time of a subtask: busy, idle, back-pressured; all 0 where it does not run."""


class VertexShape(msgspec.Struct, frozen=True):
    """A vertex as it is drawn: `x` and `y` are its place in the layered graph, from 0 to 1."""

    name: str
    parallelism: int
    source: bool
    x: float
    y: float
    task_managers: list[str]
    """Of each subtask."""


class EdgeShape(msgspec.Struct, frozen=True):
    """An edge, by places of vertices; `channels` are (producer, consumer), of a sum (null, consumer)."""

    source: int
    target: int
    ship: str
    summed: bool
    channels: list[tuple[int | None, int]]


class Control(msgspec.Struct, frozen=True):
    """What a user may change while the job runs: of the job where `vertex` is null, else of that vertex.

    `kind`: "switch" (true or false), "choice" (one of `choices`), "duration" (text such as "200 ms"),
    "rate" (records a second of each subtask, 0: as fast as possible), "factors" (one number for each
    subtask, separated by commas). `least` and `most` bound a slider, in seconds or records a second.
    """

    key: str
    label: str
    kind: Literal["switch", "choice", "duration", "rate", "factors"]
    value: str
    vertex: str | None = None
    choices: list[str] = []
    least: float | None = None
    most: float | None = None


class Row(msgspec.Struct, frozen=True, tag="row"):
    """Figures of one emulated second: shares from 0 to 1 and rates of each vertex, by its place."""

    side: Side
    t: float
    busy: list[float | None]
    idle: list[float | None]
    backpressured: list[float | None]
    records_per_s: list[float | None]
    """Records that it emits, if it is a source; else that it has read."""
    buffer_bytes: list[float | None]
    """The least size of buffers that debloating has announced; null for sources and where it is off."""
    time_to_consume_s: list[float | None]
    """How long the data in flight into a vertex would take, as debloating estimates."""
    in_flight_bytes: list[float]
    """Data in flight on each edge, by its place: at producers, on the way and at consumers."""


class CheckpointRow(msgspec.Struct, frozen=True, tag="checkpoint"):
    """A checkpoint that has ended, with its phases: each the longest of all subtasks, in seconds."""

    side: Side
    id: int
    t: float
    status: str
    kind: str
    end_to_end_s: float | None
    """Null: it was not completed."""
    start_delay_s: float | None
    alignment_s: float | None
    sync_s: float | None
    async_s: float | None
    state_bytes: int
    in_flight_bytes: int
    """Data in flight that was stored with it."""
    failure: str | None = None


class Incident(msgspec.Struct, frozen=True, tag="incident"):
    """What happened to the job, in words: a change, a fault, a failure, a restart."""

    side: Side
    t: float
    text: str


class EdgeFrame(msgspec.Struct, frozen=True):
    """The channels of an edge at a moment.

    `sender` and `receiver` are queued buffers at either end, `credit` what the sender may send (null within
    one task manager, where nobody asks for it), `size` the largest buffer that the sender may fill, in bytes.
    `barriers` are (place of the channel, where, checkpoint id) of each barrier that is in a channel; where is
    "sender", "wire" or "receiver". `blocked` are places of channels whose barrier has come while those of
    others have not.
    """

    sender: list[int]
    receiver: list[int]
    credit: list[int | None]
    size: list[int]
    under_way: int
    """Messages between the task managers of this edge."""
    barriers: list[tuple[int, str, int]]
    blocked: list[int]


class PendingRow(msgspec.Struct, frozen=True):
    """A checkpoint that goes on: since when, and how many of its subtasks have acknowledged it."""

    id: int
    t: float
    acknowledged: int
    subtasks: int


class Frame(msgspec.Struct, frozen=True, tag="frame"):
    """All that moves, at a moment of one side.

    `subtasks`: of each vertex and each subtask its shares of time since the last frame: busy, idle,
    back-pressured. `state`: "running", "paused", "behind" (it replays up to the moment of the other side),
    "restarting", "ended" or "failed"; `text` says why. `speed`: emulated seconds a second of late.
    """

    side: Side
    t: float
    state: str
    text: str
    speed: float | None
    subtasks: list[list[Shares]]
    edges: list[EdgeFrame]
    pending: list[PendingRow]


class History(msgspec.Struct, frozen=True):
    """What a side has behind it, and what was changed in it so far."""

    side: Side
    t: float
    rows: list[Row]
    checkpoints: list[CheckpointRow]
    incidents: list[Incident]
    controls: list[Control]
    """As they are now."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The job and where it is; `pace` is emulated seconds a second, null as fast as possible."""

    name: str
    duration_s: float
    segment_bytes: int
    vertices: list[VertexShape]
    edges: list[EdgeShape]
    task_managers: list[str]
    links: list[tuple[str, str]]
    """Pairs of task managers whose connection can be cut: producer's, consumer's."""
    sides: list[History]
    pace: float | None
    paused: bool
    flink: FlinkJobShape | None = None
    """The running job beside which this one runs."""


class Copied(msgspec.Struct, frozen=True, tag="copied"):
    """The scenario of a side with all its changes, as TOML; running it gives the same numbers."""

    side: Side
    toml: str


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """What the page asked for cannot be done, in one line."""

    text: str


# What the page says. `side` is the one that is meant.


class Pace(msgspec.Struct, frozen=True, tag="pace"):
    """Run so many emulated seconds a second; null: as fast as possible."""

    value: float | None


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Stand still, or go on."""

    paused: bool


class Step(msgspec.Struct, frozen=True, tag="step"):
    """Run on by so many emulated seconds and stand still; null: until the next thing happens."""

    seconds: float | None


class Back(msgspec.Struct, frozen=True, tag="back"):
    """Go back to a moment; what was changed later is forgotten."""

    t: float


class Change(msgspec.Struct, frozen=True, tag="change"):
    """Set a control, by its key and vertex, to a value as a scenario file would have it."""

    side: Side
    key: str
    value: str
    vertex: str | None = None


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Kill a subtask, or a task manager where `task_manager` is given."""

    side: Side
    vertex: str | None = None
    subtask: int | None = None
    task_manager: str | None = None


class Cut(msgspec.Struct, frozen=True, tag="cut"):
    """Cut the connection between two task managers for so many seconds."""

    side: Side
    link: tuple[str, str]
    seconds: float


class TakeCheckpoint(msgspec.Struct, frozen=True, tag="take_checkpoint"):
    """Take a checkpoint now."""

    side: Side


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Run a second side from now on."""


class Join(msgspec.Struct, frozen=True, tag="join"):
    """Keep this side alone."""

    side: Side


class Copy(msgspec.Struct, frozen=True, tag="copy"):
    """Give the scenario of a side."""

    side: Side


Request = Pace | Pause | Step | Back | Change | Kill | Cut | TakeCheckpoint | Fork | Join | Copy
"""What is asked of a lab."""

Answer = Hello | Frame | Row | CheckpointRow | Incident | Copied | Refused | Reading | FlinkFrame

_DECODER: msgspec.json.Decoder[Request | ReadAgain] = msgspec.json.Decoder(Request | ReadAgain)


def read_request(text: str | bytes) -> Request | ReadAgain:
    """Return what a page asks for.

    Raises:
        msgspec.DecodeError: It is no request.
    """
    return _DECODER.decode(text)


def encode(answer: Answer | Any) -> str:
    """Return the text of a message to the page."""
    return msgspec.json.encode(answer).decode()
