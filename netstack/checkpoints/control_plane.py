"""Messages between the checkpoint coordinator and the tasks, outside the job's network.

::

    coordinator  -- trigger ------------------> source, or a task whose upstream has ended
                 <- acknowledge, decline ------ any task
                 -- completed, aborted -------> any task

The sender sets the delay of each message. No message is lost, unless a caller has added an `Interference`,
which can delay or drop messages. In Flink these are RPCs between the job manager and the task managers
(CheckpointCoordinatorGateway, TaskExecutorGateway).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..engine.agenda import Agenda
from ..engine.cancellation import Timers
from ..scenarios.faults import ControlMessage

TaskKey = tuple[int, int]
"""The number of a vertex and the index of a subtask in it."""

Interference = Callable[[ControlMessage, TaskKey], float | None]
"""Returns the additional delay of a message in seconds, at least 0; None: drop the message."""


class ControlPlane:
    """Carries messages between the coordinator and the tasks.

    Every function in `interference` is called for each message, in order; their delays add up.
    """

    def __init__(self, agenda: Agenda) -> None:
        self.interference: list[Interference] = []
        self._agenda = agenda
        self._under_way: dict[TaskKey, Timers] = {}

    def send(
        self,
        kind: ControlMessage,
        task: TaskKey,
        delay_s: float,
        deliver: Callable[..., None],
        *args: Any,
    ) -> None:
        """Call ``deliver(*args)`` in `delay_s` seconds; `task` is the sender or the receiver."""
        for interfere in self.interference:
            more = interfere(kind, task)
            if more is None:
                return
            delay_s += more
        if task not in self._under_way:
            self._under_way[task] = Timers(self._agenda)
        self._under_way[task].after(delay_s, deliver, *args)

    def reset(self, tasks: Iterable[TaskKey] | None = None) -> None:
        """Drop all messages in transit from or to the given cancelled tasks; None: all messages."""
        for task in list(self._under_way) if tasks is None else tasks:
            if task in self._under_way:
                self._under_way.pop(task).cancel()
