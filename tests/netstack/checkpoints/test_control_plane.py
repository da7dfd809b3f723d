"""Messages between coordinator and tasks: when they arrive, and what can happen to them on their way."""

from __future__ import annotations

import pytest
import trio

from netstack.checkpoints.control_plane import ControlPlane, TaskKey
from netstack.engine.agenda import Agenda
from netstack.engine.agenda_loop import run_agenda
from netstack.scenarios.faults import ControlMessage

Arrivals = list[tuple[float, str]]


class Plane:
    """A control plane and what has arrived over it."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.plane = ControlPlane(self.agenda)
        self.arrivals: Arrivals = []

    def send(
        self,
        text: str,
        delay: float,
        kind: ControlMessage = ControlMessage.TRIGGER,
        task: TaskKey = (0, 1),
    ) -> None:
        self.plane.send(kind, task, delay, self._arrived, text)

    def _arrived(self, text: str) -> None:
        self.arrivals.append((self.agenda.now, text))

    def run(self) -> Arrivals:
        trio.run(run_agenda, self.agenda)
        return self.arrivals


def test_a_message_arrives_after_its_delay() -> None:
    plane = Plane()
    plane.send("late", 2.0)
    plane.send("soon", 0.5)
    plane.send("at once", 0.0)
    assert plane.run() == [(0.0, "at once"), (0.5, "soon"), (2.0, "late")]


def test_interference_adds_up_and_is_asked_once_for_each_message() -> None:
    asked: list[tuple[ControlMessage, TaskKey]] = []

    def interfere(kind: ControlMessage, task: TaskKey) -> float:
        asked.append((kind, task))
        return 1.0

    plane = Plane()
    plane.plane.interference += [interfere, lambda kind, task: 0.25]
    plane.send("message", 2.0, ControlMessage.DECLINE)
    assert plane.run() == [(3.25, "message")]
    assert asked == [(ControlMessage.DECLINE, (0, 1))]


@pytest.mark.parametrize("kind", ControlMessage)
def test_a_message_that_is_lost_never_arrives(kind: ControlMessage) -> None:
    plane = Plane()
    plane.plane.interference.append(lambda sent, task: None if sent is kind else 0.0)
    for other in ControlMessage:
        plane.send(other.value, 1.0, other)
    assert plane.run() == [(1.0, other.value) for other in ControlMessage if other is not kind]


def test_a_reset_loses_what_is_under_way_and_nothing_later() -> None:
    plane = Plane()
    plane.send("before", 1.0)
    plane.plane.reset()
    plane.send("after", 1.0)
    assert plane.run() == [(1.0, "after")]


def test_a_reset_of_some_tasks_loses_nothing_of_the_others() -> None:
    plane = Plane()
    for task in ((0, 0), (0, 1), (1, 0)):
        plane.send(f"to {task}", 1.0, task=task)
    plane.plane.reset([(0, 1), (2, 2)])
    plane.send("to (0, 1), later", 1.0, task=(0, 1))
    assert plane.run() == [(1.0, "to (0, 0)"), (1.0, "to (1, 0)"), (1.0, "to (0, 1), later")]
