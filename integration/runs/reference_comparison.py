"""Comparison of emulated numbers with measurements of a real Flink, within stated tolerances.

A run is the document of an emulation or of a real Flink. Both documents have ``steady`` and ``checkpoints``
in one layout, so the same functions measure them. The layout of a real Flink's document is checked; its other
parts are ignored. Vertices are identified by position, because Flink renames them.

The emulated number is the median over seeds. Flink's number is the median over its repetitions. The emulated
number is inside the tolerance if one of these rules holds:

- The two numbers differ by no more than 3 % for throughput; for times, the largest of 10 %, 15 ms and the
  time to read one buffer; for buffer sizes, the larger of 10 % and 64 bytes; for persisted bytes, 10 %.
- Flink's number lies in the range of the emulated ones over all seeds, widened by 10 %. This rule does not
  apply to throughput and persisted bytes.
- The emulated number lies in the range of Flink's repetitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Annotated, Any, NamedTuple

import msgspec

from flowcontrol import readable
from netstack import CheckpointStatus, Result, Viewed

from ..base.errors import FileError, UsageError
from ..base.number_text import counted, is_or_are
from ..base.optional_figures import middle
from .quantities import (
    COMPARED,
    COMPARED_IF_UNSTEADY,
    COMPARED_OF_JOB,
    COMPARED_OF_VERTEX,
    MS,
    MeasuredWindow,
)

Run = Mapping[str, Any]
Block = Mapping[str, Any]
"""One window of a run's ``steady``."""

_PARTS = ("steady", "checkpoints")
"""The compared parts of a run."""

WIDENING = 0.10

TOO_SMALL = "too small"
"""Value of `Row.why` for a number inside an allowance of more than half of Flink's number."""


class Window(NamedTuple):
    """A measured window of a run, in seconds."""

    from_s: float
    to_s: float

    def __str__(self) -> str:
        return f"{self.from_s:g}-{self.to_s:g} s"


class Subject(NamedTuple):
    """Key of a measured number: window, position of the vertex (None: the whole job), and quantity."""

    window: Window
    vertex: int | None
    quantity: str


def windows(run: Run) -> list[Window]:
    """Return the measured windows of a run."""
    return [Window(block["from_s"], block["to_s"]) for block in run["steady"]]


def measure(run: Run, operators: Sequence[int], *, is_unsteady: bool = False) -> dict[Subject, float]:
    """Return the known quantities of a run; `operators` are the positions of the vertices with inputs.

    An unsteady job has also those of `COMPARED_IF_UNSTEADY`.
    """
    quantities: dict[Subject, float | None] = {}
    of_job = COMPARED_OF_JOB | (COMPARED_IF_UNSTEADY if is_unsteady else {})
    for window, block in zip(windows(run), run["steady"], strict=True):
        checkpoints = checkpoints_in(run, window)
        for place in (None, *operators):
            measured = MeasuredWindow(block, checkpoints, place)
            for name, compared in (of_job if place is None else COMPARED_OF_VERTEX).items():
                quantities[Subject(window, place, name)] = compared.value(measured)
    return {subject: value for subject, value in quantities.items() if value is not None}


def checkpoints_in(run: Run, window: Window) -> list[Mapping[str, Any]]:
    """Return the completed checkpoints triggered in a window."""
    return [
        checkpoint
        for checkpoint in run["checkpoints"]
        if checkpoint.get("status", CheckpointStatus.COMPLETED) == CheckpointStatus.COMPLETED
        and window.from_s <= checkpoint["t"] <= window.to_s
    ]


def buffer_time_ms(block: Block, place: int, segment_bytes: int) -> float:
    """Return the time in which a vertex reads one buffer: buffer size divided by the rate in bytes.

    The buffer size is the debloated size, or else the segment size. The result is the median over subtasks,
    and 0 if nothing is read.
    """
    vertex = block["vertices"][place]
    rates = vertex["bytes_in_per_s"]
    sizes = vertex.get("debloatedBufferSize") or [None] * len(rates)
    times = [(size or segment_bytes) / rate * 1e3 for size, rate in zip(sizes, rates, strict=True) if rate]
    return middle(times) or 0.0


class Spread(msgspec.Struct, frozen=True):
    """A median, with the minimum and the maximum."""

    median: float
    least: float
    most: float


class ComparedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity, both measured in Flink and emulated."""

    window: str
    vertex: str
    """Name of the vertex; empty for a quantity of the whole job."""
    quantity: str
    unit: str
    flink: Spread
    """Flink's number, over its repetitions."""
    ours: Spread | None
    """The emulated number, over seeds; None: not emulated."""
    ratio: float | None
    """The emulated number divided by Flink's; None if Flink's is 0."""
    tolerance: float
    """Allowed difference, in the unit of the quantity."""
    ok: bool
    why: str
    """The deciding rule: "tolerance", "our range", "Flink's range", "outside" or `TOO_SMALL`."""


class Comparison(msgspec.Struct, Viewed, frozen=True, kw_only=True):
    """One scenario, compared with Flink or with another result.

    `to_pandas` and `to_arrow` have the table "numbers", `plot` the picture "ratios".
    """

    scenario: str
    seeds: list[int]
    rows: list[ComparedFigure]
    reference: str | msgspec.UnsetType = msgspec.UNSET
    """Name of the reference if it is an emulated result; unset for a measurement of Flink."""

    @property
    def other_side(self) -> str:
        """Name of the side that the emulation is compared with."""
        return "Flink" if self.reference is msgspec.UNSET else "reference"

    @property
    def ok(self) -> bool:
        """Whether every quantity is inside its tolerance."""
        return all(row.ok for row in self.rows)

    def __repr__(self) -> str:
        """Return the number of quantities inside their tolerance, in one line."""
        inside = sum(row.ok for row in self.rows)
        numbers = f"{inside} of {counted(len(self.rows), 'number')} {is_or_are(inside)}"
        sides = f"{readable(self.scenario)} with {self.other_side}"
        return f"<Comparison of {sides}, {counted(len(self.seeds), 'seed')}: {numbers} inside the tolerance>"


def compare(results: Sequence[Result], reference: dict[str, Any], *, is_unsteady: bool = False) -> Comparison:
    """Compare results of one scenario, one for each seed, with a measurement of Flink or another result.

    If the job `is_unsteady`, the slowest tenth of its checkpoints is compared, too.

    Raises:
        UsageError: `results` is empty, or the reference has other windows or vertices.
    """
    if not results:
        raise UsageError(["no result was given to compare; give at least one"])
    runs = [{key: msgspec.to_builtins(getattr(result, key)) for key in _PARTS} for result in results]
    theirs = runs_of(reference)
    _check_alike(runs[0], theirs[0])
    scenario = results[0].scenario
    vertices = sorted(scenario.vertices, key=lambda vertex: vertex.source is None)
    operators = [place for place, vertex in enumerate(vertices) if vertex.source is None]
    ours, flinks = (
        [measure(run, operators, is_unsteady=is_unsteady) for run in side] for side in (runs, theirs)
    )
    rows = [
        _row(
            subject,
            "" if subject.vertex is None else vertices[subject.vertex].name,
            _spread(flinks, subject),
            _spread(ours, subject) if any(subject in run for run in ours) else None,
            _buffer_time(theirs[0], subject, operators, scenario.config.segment_bytes),
        )
        for subject in flinks[0]
    ]
    emulated = reference.get("schema")
    return Comparison(
        scenario=scenario.name,
        seeds=[result.seed for result in results],
        rows=rows,
        reference=msgspec.UNSET if emulated is None else str(emulated),
    )


def tolerance(quantity: str, flink: float, buffer_time: float) -> float:
    """Return the allowed difference from Flink's number, in the quantity's unit."""
    compared = COMPARED[quantity]
    return max(compared.share * flink, compared.least, buffer_time if compared.unit is MS else 0.0)


def judge(quantity: str, flink: Spread, ours: Spread, allowed: float) -> str:
    """Return the rule that the emulated number meets, as `Row.why` names it, or "outside"."""
    if abs(ours.median - flink.median) <= allowed:
        return "tolerance"
    if COMPARED[quantity].ranges:
        least, most = ours.least * (1 - WIDENING), ours.most * (1 + WIDENING)
        if least <= flink.median <= most:
            return "our range"
    return "Flink's range" if flink.least <= ours.median <= flink.most else "outside"


def without_proof(row: ComparedFigure) -> ComparedFigure:
    """Return a row, marked `TOO_SMALL` if it is inside an allowance that proves nothing.

    This is an allowance of more than half of Flink's number, such as the time to read one large buffer.
    """
    if row.why == "tolerance" and row.tolerance > 0.5 * row.flink.median:
        return msgspec.structs.replace(row, why=TOO_SMALL)
    return row


def _row(
    subject: Subject, vertex: str, flink: Spread, ours: Spread | None, buffer_time: float
) -> ComparedFigure:
    allowed = tolerance(subject.quantity, flink.median, buffer_time)
    why = "outside" if ours is None else judge(subject.quantity, flink, ours, allowed)
    return ComparedFigure(
        window=str(subject.window),
        vertex=vertex,
        quantity=subject.quantity,
        unit=COMPARED[subject.quantity].unit.name,
        flink=flink,
        ours=ours,
        ratio=round(ours.median / flink.median, 3) if ours is not None and flink.median else None,
        tolerance=round(allowed, 2),
        ok=why != "outside",
        why=why,
    )


def _spread(runs: Sequence[dict[Subject, float]], subject: Subject) -> Spread:
    values = [run[subject] for run in runs if subject in run]
    return Spread(round(median(values), 2), round(min(values), 2), round(max(values), 2))


def _buffer_time(run: Run, subject: Subject, operators: Sequence[int], segment: int) -> float:
    """Return the ms to read one buffer at a vertex; for the whole job, at its slowest vertex."""
    block = run["steady"][windows(run).index(subject.window)]
    places = operators if subject.vertex is None else [subject.vertex]
    return max((buffer_time_ms(block, place, segment) for place in places), default=0.0)


def _check_alike(ours: Run, flink: Run) -> None:
    if windows(ours) != windows(flink):
        ours_shown, flink_shown = (", ".join(map(str, windows(run))) for run in (ours, flink))
        raise UsageError(
            [
                f"the measured windows differ: {ours_shown} in this run, {flink_shown} in the reference; "
                "give both the same windows"
            ]
        )
    ours_shape, flink_shape = (
        [vertex["parallelism"] for vertex in run["steady"][0]["vertices"]] for run in (ours, flink)
    )
    if ours_shape != flink_shape:
        raise UsageError(
            [
                f"the jobs differ: the parallelism of the vertices is {ours_shape} in this run and "
                f"{flink_shape} in the reference; give a reference of the same job"
            ]
        )


_Number = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]

_Numbers = list[_Number | None]


class _Vertex(msgspec.Struct, kw_only=True):
    parallelism: int
    records_in_per_s: _Numbers
    bytes_in_per_s: _Numbers
    alignment_ms_max_subtask: _Number | None
    debloatedBufferSize: _Numbers | None = None  # noqa: N815 - Flink's name of the metric


class _Block(msgspec.Struct, kw_only=True):
    from_s: _Number
    to_s: _Number
    end_to_end_ms: _Number | None
    persisted_bytes: _Number | None
    vertices: list[_Vertex]


class _PartOfVertex(msgspec.Struct):
    start_delay_ms: _Numbers


class _Checkpoint(msgspec.Struct, kw_only=True):
    t: _Number
    status: str = CheckpointStatus.COMPLETED
    vertices: list[_PartOfVertex]


class _Run(msgspec.Struct, kw_only=True):
    steady: list[_Block]
    checkpoints: list[_Checkpoint]

    @property
    def windows(self) -> list[tuple[float, float]]:
        return [(block.from_s, block.to_s) for block in self.steady]


class _Measurement(_Run, kw_only=True):
    repetitions: list[_Run] = []


def runs_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the runs of a measurement: the first one and its repetitions, unchanged.

    Raises:
        FileError: the document is no measurement, or its runs are not of one job.
    """
    try:
        problem = _problem(msgspec.convert(document, _Measurement))
    except (msgspec.ValidationError, RecursionError) as error:
        problem = str(error)
    if problem is not None:
        raise FileError([f"the reference is not a measurement of Flink: {problem}"])
    return [document, *document.get("repetitions", ())]


def _problem(measured: _Measurement) -> str | None:
    """Return the first difference in windows, or in the number of vertices or subtasks; None: none."""
    if not measured.steady:
        return "it has no measured window"
    runs: list[_Run] = [measured, *measured.repetitions]
    if any(run.windows != measured.windows for run in runs):
        return "its repetitions have different measured windows"
    vertices = len(measured.steady[0].vertices)
    for run in runs:
        counts = [len(block.vertices) for block in run.steady]
        counts += [len(checkpoint.vertices) for checkpoint in run.checkpoints]
        if any(count != vertices for count in counts):
            return f"not all of its windows and checkpoints have {vertices} vertices"
        for vertex in (vertex for block in run.steady for vertex in block.vertices):
            sizes = vertex.debloatedBufferSize
            rates = len(vertex.bytes_in_per_s)
            if sizes and len(sizes) != rates:
                return f"a vertex has {len(sizes)} buffer sizes but {rates} rates; the numbers must be equal"
    return None
