"""Takes samples of the subtasks of one process, at every whole second of the run and at its end."""

from __future__ import annotations

from math import ceil

import numpy as np

from ..engine.agenda import Agenda
from ..jobs.attempt import Attempt
from ..jobs.job import SAMPLE_INTERVAL_S
from ..results.statistics import Table
from .attempt_report import COLUMNS

MOST_SAMPLES = 1 << 15
"""Rows that a process keeps; from then on every other one (see `statistics.Table`).

So all processes drop the same ones, however many subtasks each has.
"""


class Sampler:
    """The samples of the subtasks of `attempt`; there are none before `start`."""

    def __init__(self, agenda: Agenda, attempt: Attempt) -> None:
        self.subtasks = 0
        self._agenda = agenda
        self._attempt = attempt
        self._table: Table | None = None

    def start(self, begins_at: float) -> None:
        """Take a sample at every whole second from `begins_at` on."""
        self.subtasks = len(self._attempt.subtasks)
        table_bytes = MOST_SAMPLES * 8 * COLUMNS * self.subtasks
        self._table = Table(COLUMNS, self.subtasks, table_bytes=table_bytes)
        self._sample_at(ceil(begins_at / SAMPLE_INTERVAL_S))

    def _sample_at(self, number: int) -> None:
        self._agenda.at(number * SAMPLE_INTERVAL_S, self._periodically, number)

    def _periodically(self, number: int) -> None:
        self.sample()
        self._sample_at(number + 1)

    def sample(self) -> None:
        """Take a sample now."""
        if self._table is not None:
            now = self._agenda.now
            rows = [(now, *subtask.sample()) for subtask in self._attempt.subtasks]
            self._table.append(np.array(rows, dtype=np.float64).T)

    @property
    def data(self) -> bytes:
        """All rows, as `Report.samples` wants them."""
        return b"" if self._table is None else self._table.rows.tobytes()
