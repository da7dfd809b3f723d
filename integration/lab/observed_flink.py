"""A running Flink beside the lab. Its job is read, polled, and read again after a change.

::

    reading --> lab with the job --> a poll every few seconds --> reading again, on request of the user
       |                               |
       if it fails: the problem        if it fails, because the cluster is unreachable or the job does not
       stays until the user            run or was replaced: the last figures stay, with their age
       requests another reading

Requests to the cluster run in threads, so the lab continues meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

import trio

from netstack import CheckpointResult, InputError, Scenario, Steady

from ..base.errors import FlinkRestError, JobWentError, NotRunningError, UsageError
from ..flink import Imported, JobWatch, Measured
from ..runs.quantities import (
    CHECKPOINT,
    LAB,
    LAB_FLINK,
    STEADY,
    VERTEX,
    VertexWindow,
    in_view,
    vertex_windows,
)
from .live_job import LiveJob
from .messages import (
    FigureValues,
    FlinkCheckpoint,
    FlinkFrame,
    FlinkJobShape,
    FlinkState,
    JobFigures,
    Predicted,
    Reading,
    figures_of,
)

EVERY_S = 3.0
"""Seconds from the end of a poll to the next one. Polling a large job may take just as long."""

Watching = Callable[[float, float], None]

Read = Callable[[bool, Watching], Imported]
"""Function that reads the named job, or with True the job running now, and reports progress."""

StartWatch = Callable[[Imported], JobWatch | None]
"""Function that starts polling a job that was read; None: it is a recording."""


class ObservedFlink:
    """The job in Flink, as last read.

    `read` and `start_watch` are called in threads. `show` receives each job that was read, and raises
    InputError if the job cannot be emulated. While `wanted` returns False, no requests are made.
    `problems_of` returns the lines of an error.
    """

    def __init__(
        self,
        url: str,
        read: Read,
        start_watch: StartWatch,
        show: Callable[[Imported], None],
        wanted: Callable[[], bool],
        *,
        every_s: float = EVERY_S,
        problems_of: Callable[[InputError], Sequence[str]] = lambda error: error.problems,
    ) -> None:
        self.reading: Reading | None = Reading(url)
        """Progress of reading; None: the job has been read."""
        self._url = url
        self._read_job, self._start_watch, self._show, self._is_wanted = read, start_watch, show, wanted
        self._every_s = every_s
        self._problems_of = problems_of
        self._again = trio.Event()
        self._imported: Imported | None = None
        self._state: FlinkState = "running"
        self._text = ""
        self._shown: Measured | None = None
        self._shown_at = 0.0

    async def run(self) -> None:
        """Read the job and poll it, until cancelled."""
        other = False
        while True:
            self._again = trio.Event()
            imported = await self._read(other)
            if imported is None:
                await self._again.wait()
            else:
                await self._watch(imported)
            other = self._state == "gone"

    def read_again(self) -> None:
        """Read the job again.

        Raises:
            UsageError: the job is being read.
        """
        if self.reading is not None and self.reading.problem is None:
            raise UsageError(["the job is already being read"])
        self.reading = Reading(self._url)
        self._again.set()

    async def _read(self, other: bool) -> Imported | None:
        """Read the job, or with `other` the job running now; None: reading failed, and the page shows why."""
        self.reading = Reading(self._url)
        try:
            imported = await trio.to_thread.run_sync(
                self._read_job, other, self._watching, abandon_on_cancel=True
            )
            self._show(imported)
        except InputError as error:
            problem = "; ".join(self._problems_of(error))
            if self._imported is None:
                self.reading = Reading(self._url, problem=problem)
            else:  # figures of an earlier reading stay
                self.reading, self._state, self._text = None, "gone", problem
            return None
        self._imported, self._shown = imported, imported.measured
        self._shown_at, self._state, self._text = monotonic(), "running", ""
        self.reading = None
        return imported

    def _watching(self, done_s: float, total_s: float) -> None:
        self.reading = Reading(self._url, done_s, total_s)

    async def _watch(self, imported: Imported) -> None:
        """Poll the job until it has to be read again."""
        watch = self._start_watch(imported)
        if watch is None:
            self._state = "recorded"
            await self._again.wait()
            return
        while not self._again.is_set():
            with trio.move_on_after(self._every_s):
                await self._again.wait()
            if not self._again.is_set() and self._is_wanted() and self._state != "gone":
                await self._poll(watch)

    async def _poll(self, watch: JobWatch) -> None:
        try:
            shown = await trio.to_thread.run_sync(watch.poll, abandon_on_cancel=True)
        except FlinkRestError as error:
            self._state = "waiting" if isinstance(error, NotRunningError) else "away"
            if isinstance(error, JobWentError):
                self._state = "gone"
            self._text = "; ".join(self._problems_of(error))
        else:
            self._shown, self._shown_at, self._state, self._text = shown, monotonic(), "running", ""

    @property
    def shape(self) -> FlinkJobShape | None:
        """The job that was read; None: no job has been read yet."""
        if self._imported is None:
            return None
        shown = self._imported.measured
        notes = list(map(str, self._imported.notes))
        return FlinkJobShape(shown.url, shown.job, shown.job_name, shown.flink, notes)

    def frame(self, sides: list[LiveJob]) -> FlinkFrame | None:
        """Return Flink's figures and those of the emulated runs `sides`; None until the job has been read."""
        if self._imported is None or self._shown is None or self.reading is not None:
            return None
        scenario, shown = self._imported.scenario, self._shown
        return FlinkFrame(
            state=self._state,
            text=self._text,
            age_s=None if self._state == "recorded" else monotonic() - self._shown_at,
            flink=job_figures(scenario, shown.steady, None),
            predicted=[Predicted(side.side, predicted_of(side, scenario)) for side in sides],
            checkpoints=[checkpoint_of(each) for each in shown.checkpoints],
        )


def predicted_of(side: LiveJob, imported: Scenario) -> JobFigures | None:
    """Return the figures of a run over at most the window in which the imported job would be measured.

    The window begins after the warm-up and after the user's last change. None: the window has not begun yet.
    """
    begin, end = imported.windows[0]
    from_s = max(begin, side.changed_at, side.now - (end - begin))
    if from_s >= side.now:
        return None
    return job_figures(imported, side.steady(from_s), side.now - from_s)


def job_figures(scenario: Scenario, steady: Steady, over_s: float | None) -> JobFigures:
    """Return the figures of a window, with vertices in the order of the scenario."""
    by_name = {each.steady.name: each for each in vertex_windows(scenario, steady)}
    return JobFigures(
        vertices=[_figures(by_name[vertex.name]) for vertex in scenario.vertices],
        checkpoints=figures_of(STEADY, [LAB], steady),
        over_s=over_s,
    )


def _figures(vertex: VertexWindow) -> FigureValues:
    """Return the figures of a vertex, with those of inputs and outputs only if it has them."""
    figures = figures_of(VERTEX, [LAB], vertex)
    return {each.name: figures[each.name] if vertex.has(each) else None for each in in_view(VERTEX, LAB)}


def checkpoint_of(checkpoint: CheckpointResult) -> FlinkCheckpoint:
    """Return a checkpoint as the page lists it."""
    return FlinkCheckpoint(checkpoint.id, figures_of(CHECKPOINT, [LAB_FLINK], checkpoint))
