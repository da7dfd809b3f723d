"""What some tasks have put on the agenda: it runs as if it stood there by itself, or is forgotten as one."""

from __future__ import annotations

import pytest
import trio

from netstack.engine.agenda import Agenda, Waiter
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.cancellation import Scope
from netstack.engine.cores import Cores


class Story:
    """An agenda with two scopes, and what happened on it."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.one, self.other = Scope(self.agenda), Scope(self.agenda)
        self.trace: list[tuple[float, str]] = []

    def note(self, name: str) -> None:
        self.trace.append((self.agenda.now, name))

    def run(self) -> list[tuple[float, str]]:
        trio.run(run_agenda, self.agenda)
        return self.trace

    async def sleeper(self, name: str) -> None:
        try:
            for _ in range(3):
                await self.agenda.sleep(1.0)
                self.note(name)
        finally:
            self.note(f"{name} is over")

    async def wait(self, place: Waiter, name: str) -> None:
        await place.wait()
        self.note(name)


def test_entries_of_scopes_keep_their_order_among_all_others() -> None:
    story = Story()
    story.one.at(1.0, story.note, "one")
    story.agenda.at(1.0, story.note, "none")
    story.other.after(1.0, story.note, "other")
    story.one.after(0.5, story.note, "first")
    assert story.run() == [(0.5, "first"), (1.0, "one"), (1.0, "none"), (1.0, "other")]


def test_what_a_closed_scope_has_put_there_is_forgotten_and_nothing_else() -> None:
    story = Story()
    story.one.start(story.sleeper("one"))
    story.other.start(story.sleeper("other"))
    for time in (1.2, 1.8):
        story.one.at(time, story.note, f"one at {time}")
        story.other.at(time, story.note, f"other at {time}")
    story.agenda.at(1.5, story.one.close)
    assert story.run() == [
        (1.0, "one"),
        (1.0, "other"),
        (1.2, "one at 1.2"),
        (1.2, "other at 1.2"),
        (1.5, "one is over"),
        (1.8, "other at 1.8"),
        (2.0, "other"),
        (3.0, "other"),
        (3.0, "other is over"),
    ]


def test_a_closed_scope_takes_nothing_any_more() -> None:
    story = Story()
    story.one.close()
    story.one.at(1.0, story.note, "one")
    story.one.after(1.0, story.note, "one")
    assert (story.run(), len(story.agenda)) == ([], 0)


def test_a_place_that_has_forgotten_its_routine_wakes_nobody() -> None:
    story = Story()
    place, kept = Waiter(story.agenda), Waiter(story.agenda)
    story.one.start(story.wait(place, "one"))
    story.other.start(story.wait(kept, "other"))
    story.agenda.at(1.0, story.one.close)
    story.agenda.at(1.0, place.forget)
    story.agenda.at(2.0, place.wake)
    story.agenda.at(2.0, kept.wake)
    assert story.run() == [(2.0, "other")]


def test_a_routine_that_was_woken_and_closed_does_not_go_on() -> None:
    story = Story()
    place = Waiter(story.agenda)
    story.one.start(story.wait(place, "one"))
    story.agenda.at(1.0, place.wake, 0.5)
    story.agenda.at(1.2, story.one.close)
    assert story.run() == []


@pytest.mark.parametrize(("closed_at", "ends"), [(0.6, 1.3), (5.0, 2.0)])
def test_whoever_is_closed_at_work_leaves_its_core_to_the_others(closed_at: float, ends: float) -> None:
    story = Story()
    cores = Cores(story.agenda, 1.0)

    async def burn(name: str) -> None:
        await cores.work(1.0)
        story.note(name)

    story.one.start(burn("one"))
    story.other.start(burn("other"))
    story.agenda.at(closed_at, story.one.close)
    assert next(time for time, name in story.run() if name == "other") == pytest.approx(ends)
