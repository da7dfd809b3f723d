"""A running Flink beside the lab: its job is read, shown as it is now, and read again when it has changed.

::

    reading --> a lab with the job --> a look every few seconds --> reading, when the user wants that
       |                                  |
       problem, until the user            the cluster is away, the job waits: the last figures stay,
       wants to read again                with their age; it is gone: so do they, for good

Whatever asks the cluster does so in a thread, as it waits for answers; the lab goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

import trio

from netstack import InputError, Scenario

from ..errors import FlinkRestError, JobWentError, NotRunningError, UsageError
from ..flink import Imported, JobWatch, Measured
from .flink_figures import checkpoint_of, job_figures
from .flink_messages import FlinkFrame, FlinkJobShape, FlinkState, JobFigures, Predicted, Reading
from .live_job import LiveJob

EVERY_S = 3.0
"""Between two looks; each of them may take as long again of a large job."""

Watching = Callable[[float, float], None]

Read = Callable[[bool, Watching], Imported]
"""Reads the job that was named, or with True the one that runs by now; tells of the progress."""

Look = Callable[[Imported], JobWatch | None]
"""Begins to look at a job that was read; None: it is a recording, which does not go on."""


class ObservedFlink:
    """What is known of the job in Flink.

    `read` and `look` are called in threads; `show` is told of each job that was read, and raises a
    ScenarioError where none can be run. `wanted` says whether somebody looks on: else nothing is asked.
    `problems_of` returns the lines of an error.
    """

    def __init__(
        self,
        url: str,
        read: Read,
        look: Look,
        show: Callable[[Imported], None],
        wanted: Callable[[], bool],
        *,
        every_s: float = EVERY_S,
        problems_of: Callable[[InputError], Sequence[str]] = lambda error: error.problems,
    ) -> None:
        self.reading: Reading | None = Reading(url)
        """How far that is; None: the job has been read."""
        self._url = url
        self._read_job, self._look_at, self._show, self._is_wanted = read, look, show, wanted
        self._every_s = every_s
        self._problems_of = problems_of
        self._again = trio.Event()
        self._imported: Imported | None = None
        self._state: FlinkState = "running"
        self._text = ""
        self._shown: Measured | None = None
        self._shown_at = 0.0

    async def run(self) -> None:
        """Read the job and look at it, until cancelled."""
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
        """Read the job anew.

        Raises:
            UsageError: that is being done.
        """
        if self.reading is not None and self.reading.problem is None:
            raise UsageError(["the job is being read already"])
        self.reading = Reading(self._url)
        self._again.set()

    async def _read(self, other: bool) -> Imported | None:
        """The job; None: it cannot be read, and the page is told why."""
        self.reading = Reading(self._url)
        try:
            imported = await trio.to_thread.run_sync(
                self._read_job, other, self._watching, abandon_on_cancel=True
            )
            self._show(imported)
        except InputError as error:
            self._not_read("; ".join(self._problems_of(error)))
            return None
        self._imported, self._shown = imported, imported.measured
        self._shown_at, self._state, self._text = monotonic(), "running", ""
        self.reading = None
        return imported

    def _not_read(self, problem: str) -> None:
        """Tell the page; it goes on with what was read before, if there is any."""
        if self._imported is None:
            self.reading = Reading(self._url, problem=problem)
        else:
            self.reading, self._state, self._text = None, "gone", problem

    def _watching(self, done_s: float, total_s: float) -> None:
        self.reading = Reading(self._url, done_s, total_s)

    async def _watch(self, imported: Imported) -> None:
        """Look until the job is to be read again."""
        watch = self._look_at(imported)
        if watch is None:
            self._state = "recorded"
            await self._again.wait()
            return
        while not self._again.is_set():
            with trio.move_on_after(self._every_s):
                await self._again.wait()
            if not self._again.is_set() and self._is_wanted() and self._state != "gone":
                await self._look(watch)

    async def _look(self, watch: JobWatch) -> None:
        try:
            shown = await trio.to_thread.run_sync(watch.look, abandon_on_cancel=True)
        except JobWentError as error:
            self._state, self._text = "gone", "; ".join(self._problems_of(error))
        except NotRunningError as error:
            self._state, self._text = "waiting", "; ".join(self._problems_of(error))
        except FlinkRestError as error:
            self._state, self._text = "away", "; ".join(self._problems_of(error))
        else:
            self._shown, self._shown_at, self._state, self._text = shown, monotonic(), "running", ""

    @property
    def shape(self) -> FlinkJobShape | None:
        """Which job was read; None: none yet."""
        if self._imported is None:
            return None
        shown = self._imported.measured
        notes = list(map(str, self._imported.notes))
        return FlinkJobShape(shown.url, shown.job, shown.job_name, shown.flink, notes)

    def frame(self, sides: list[LiveJob]) -> FlinkFrame | None:
        """Return what Flink shows beside what some runs of its job do; None: no job was read yet."""
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
    """Return what a run does over as long as the imported job would be measured, at most.

    That begins behind the warm-up, and behind what a user has changed last; None: nothing is behind these.
    """
    begin, end = imported.windows[0]
    from_s = max(begin, side.changed_at, side.now - (end - begin))
    if from_s >= side.now:
        return None
    return job_figures(imported, side.steady(from_s), side.now - from_s)
