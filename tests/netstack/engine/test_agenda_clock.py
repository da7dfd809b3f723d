"""An agenda with a clock of its own, beside other trio tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from netstack.engine.agenda import Agenda, Waiter
from netstack.engine.agenda_loop import run_agenda


class Clocked:
    """An agenda whose clock is that of trio, which jumps where nothing is to be done; and what happened."""

    def __init__(self) -> None:
        self._began = 0.0
        self.agenda = Agenda(clock=lambda: trio.current_time() - self._began)
        self.trace: list[tuple[float, str]] = []

    def note(self, name: str) -> None:
        self.trace.append((round(self.agenda.now, 6), name))

    def run(self, *beside: Callable[[], Awaitable[None]]) -> list[tuple[float, str]]:
        async def main() -> None:
            self._began = trio.current_time()
            async with trio.open_nursery() as nursery:
                for task in beside:
                    nursery.start_soon(task)
                await run_agenda(self.agenda)

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        return self.trace


def test_entries_run_when_they_are_due() -> None:
    story = Clocked()
    for at in (2.0, 0.5, 1.0):
        story.agenda.at(at, story.note, f"due at {at}")
    story.agenda.at(2.5, story.agenda.stop)
    assert story.run() == [(0.5, "due at 0.5"), (1.0, "due at 1.0"), (2.0, "due at 2.0")]


def test_what_comes_from_outside_is_done_at_once() -> None:
    story = Clocked()
    story.agenda.at(100.0, story.agenda.stop)

    async def outside() -> None:
        await trio.sleep(5.0)
        story.agenda.external(story.note, "received")
        story.note("afterwards")

    assert story.run(outside) == [(5.0, "received"), (5.0, "afterwards")]


def test_a_sleeping_agenda_is_woken_by_what_comes_from_outside() -> None:
    story = Clocked()
    story.agenda.at(100.0, story.agenda.stop)

    async def outside() -> None:
        await trio.sleep(5.0)
        story.agenda.external(story.agenda.after, 1.5, story.note, "later")

    assert story.run(outside) == [(6.5, "later")]


def test_a_routine_is_woken_from_outside() -> None:
    story = Clocked()
    place = Waiter(story.agenda)

    async def routine() -> None:
        await place.wait()
        story.note("woken")
        story.agenda.stop()

    async def outside() -> None:
        await trio.sleep(3.0)
        story.agenda.external(place.wake)

    story.agenda.start(routine())
    assert story.run(outside) == [(3.0, "woken")]


def test_an_empty_agenda_waits_for_more_and_ends_when_it_is_stopped() -> None:
    story = Clocked()

    async def outside() -> None:
        await trio.sleep(7.0)
        story.agenda.external(story.agenda.stop)

    assert story.run(outside) == []
    assert story.agenda.now == pytest.approx(7.0)


def test_what_is_late_runs_as_soon_as_possible_and_is_told_the_time() -> None:
    story = Clocked()
    story.agenda.at(1.0, story.note, "due at 1")
    story.agenda.at(4.0, story.agenda.stop)

    def work(seconds: float) -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(seconds)

    story.agenda.at(0.5, work, 2.0)
    assert story.run() == [(2.5, "due at 1")]


def test_other_tasks_have_their_turn_while_the_agenda_is_busy() -> None:
    story = Clocked()
    turns = 0

    def busy() -> None:
        story.agenda.after(0.0, busy)

    async def outside() -> None:
        nonlocal turns
        for _ in range(10):
            await trio.lowlevel.checkpoint()
            turns += 1
        story.agenda.external(story.agenda.stop)

    story.agenda.at(0.0, busy)
    story.run(outside)
    assert turns == 10


def test_a_stopped_agenda_closes_its_routines() -> None:
    story = Clocked()
    closed = False

    async def routine() -> None:
        nonlocal closed
        try:
            await Waiter(story.agenda).wait()
        finally:
            closed = True

    story.agenda.start(routine())
    story.agenda.at(1.0, story.agenda.stop)
    story.run()
    assert closed


def test_only_an_agenda_with_a_clock_has_others_beside_it() -> None:
    with pytest.raises(AssertionError, match="the agenda has no clock"):
        Agenda().external(print)
