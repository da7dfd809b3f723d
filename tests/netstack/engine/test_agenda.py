"""The agenda: the order of what happens, on the virtual clock and on the real one."""

from __future__ import annotations

import random
import signal
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from netstack.engine.agenda import Agenda, Line, Routine, Waiter
from netstack.engine.agenda_loop import run_agenda
from netstack.engine.cancellation import Timers
from netstack.errors import AgendaStuckError

Trace = list[tuple[float, str]]
END = "end"


class Story:
    """An agenda, and what happened on it: (time, name) in the order in which it happened."""

    def __init__(self, *, real_time: bool = False) -> None:
        self.agenda = Agenda(real_time=real_time)
        self.trace: Trace = []

    def note(self, name: str) -> None:
        self.trace.append((self.agenda.now, name))

    def at(self, *entries: tuple[float, str]) -> None:
        """Let callbacks of these names run at these times."""
        for time, name in entries:
            self.agenda.at(time, self.note, name)

    def start(self, *routines: Routine) -> None:
        for routine in routines:
            self.agenda.start(routine)

    def run(self, **trio_options: Any) -> Trace:
        trio.run(run_agenda, self.agenda, **trio_options)
        return self.trace

    async def sleeper(self, name: str, *durations: float) -> None:
        """Sleep, and tell each time who woke."""
        for duration in durations:
            await self.agenda.sleep(duration)
            self.note(name)

    async def endless(self, name: str = END) -> None:
        """Work for ever, and tell when it is over."""
        try:
            while True:
                await self.agenda.sleep(0.001)
        finally:
            self.note(name)

    async def waiter(self, place: Waiter, name: str = "woken") -> None:
        """Wait at `place` for ever, and tell each time it was woken."""
        while True:
            await place.wait()
            self.note(name)


def test_callbacks_run_in_the_order_of_time_and_serial() -> None:
    story = Story()
    story.at((2.0, "c"), (1.0, "a"), (2.0, "d"), (1.0, "b"))
    assert len(story.agenda) == 4
    assert story.run() == [(1.0, "a"), (1.0, "b"), (2.0, "c"), (2.0, "d")]
    assert (story.agenda.now, len(story.agenda)) == (2.0, 0)


def test_whoever_looks_between_entries_sees_each_and_changes_nothing() -> None:
    story = Story()
    story.at((1.0, "a"), (1.0, "b"), (2.0, "c"))
    seen: list[int] = []
    story.agenda.between = lambda: seen.append(len(story.trace))
    assert story.run() == [(1.0, "a"), (1.0, "b"), (2.0, "c")]
    assert seen == [1, 2]  # behind the last entry the run is over


def test_entries_of_a_line_count_one_by_one_between_entries() -> None:
    story = Story()
    line, ran = Line(story.agenda), list[int]()
    for _ in range(3):
        line.at(1.0, story.note, "line")
    story.at((2.0, "end"))
    story.agenda.between = lambda: ran.append(len(story.trace))
    story.run()
    assert ran == [1, 2, 3]


@given(st.lists(st.integers(0, 5)))
def test_equal_times_keep_the_order_in_which_they_were_asked_for(times: list[int]) -> None:
    story = Story()
    story.at(*[(float(time), f"{serial:03}") for serial, time in enumerate(times)])
    assert story.run() == sorted((float(time), f"{serial:03}") for serial, time in enumerate(times))


def test_the_foremost_of_a_moment_runs_before_all_that_was_there_and_is_kept() -> None:
    story = Story()
    story.at((1.0, "long ago"), (2.0, "cleared"))
    story.agenda.keep_foremost(2.0, story.note, "kept")
    story.agenda.at(1.0, story.agenda.keep_foremost, 2.0, story.note, "kept, and latest")
    story.agenda.at(1.5, story.agenda.clear)
    assert story.run() == [(1.0, "long ago"), (2.0, "kept, and latest"), (2.0, "kept")]


def test_arguments_reach_the_callback() -> None:
    agenda, called = Agenda(), list[object]()
    agenda.at(1.0, lambda *args: called.extend(args), "a", 2)
    trio.run(run_agenda, agenda)
    assert called == ["a", 2]


def test_after_counts_from_now() -> None:
    story = Story()
    story.agenda.at(2.0, story.agenda.after, 0.5, story.note, "later")
    assert story.run() == [(2.5, "later")]


def test_what_is_late_runs_as_soon_as_possible_and_time_does_not_go_back() -> None:
    story = Story()
    story.agenda.at(5.0, story.at, (1.0, "late"), (5.0, "now"))
    story.at((5.0, "before"))
    assert story.run() == [(5.0, "late"), (5.0, "before"), (5.0, "now")]


def test_a_cancelled_callback_is_not_called_and_the_others_keep_their_order() -> None:
    story = Story()
    story.at((1.0, "before"))
    at_one = story.agenda.cancellable_at(1.0, story.note, "at one")
    story.agenda.at(1.0, story.agenda.cancellable_after, 1.0, story.note, "after one")
    at_two = story.agenda.cancellable_at(2.0, story.note, "at two")
    story.agenda.at(1.0, at_two.cancel)
    story.at((1.0, "behind"), (2.0, "last"))
    assert (at_one.pending, at_two.pending) == (True, True)
    assert story.run() == [
        (1.0, "before"),
        (1.0, "at one"),
        (1.0, "behind"),
        (2.0, "last"),
        (2.0, "after one"),
    ]
    assert (at_one.pending, at_two.pending) == (False, False)
    at_one.cancel()  # too late: has no effect


def test_a_callback_that_runs_is_pending_no_more_and_may_set_the_next() -> None:
    story, pending = Story(), list[bool]()

    def again() -> None:
        pending.append(timer.pending)
        story.agenda.cancellable_after(1.0, story.note, "next")

    timer = story.agenda.cancellable_at(1.0, again)
    assert story.run() == [(2.0, "next")]
    assert pending == [False]


def test_timers_of_one_owner_are_cancelled_together() -> None:
    story = Story()
    timers, others = Timers(story.agenda), Timers(story.agenda)
    for delay in (3.0, 1.0, 2.0):
        timers.after(delay, story.note, "ours")
    others.after(2.5, story.note, "theirs")
    story.agenda.at(1.5, timers.cancel)
    story.agenda.at(1.75, timers.after, 0.25, story.note, "ours again")
    assert story.run() == [(1.0, "ours"), (2.0, "ours again"), (2.5, "theirs")]


def test_routines_and_callbacks_share_one_order() -> None:
    story = Story()
    story.at((1.0, "callback"), (2.0, "callback"), (3.0, "callback"))
    story.start(story.sleeper("a", 1.0, 1.0), story.sleeper("b", 2.0, 1.0))
    assert story.run() == [
        (1.0, "callback"),
        (1.0, "a"),
        (2.0, "callback"),
        (2.0, "b"),  # asked for its time before a did
        (2.0, "a"),
        (3.0, "callback"),
        (3.0, "b"),
    ]


def test_routines_start_in_turn_when_the_agenda_runs() -> None:
    story = Story()

    async def routine(name: str) -> None:
        story.note(name)

    story.start(routine("a"), routine("b"))
    assert story.trace == []
    assert story.run() == [(0.0, "a"), (0.0, "b")]


def test_many_routines_run_in_one_order_every_time() -> None:
    def trace_of_a_run() -> Trace:
        story, draw = Story(), random.Random(7)
        for number in range(8):
            story.start(story.sleeper(str(number), *[draw.choice((0.0, 0.5, 1.0)) for _ in range(6)]))
        return story.run()

    first = trace_of_a_run()
    assert len(first) == 48
    assert all(trace_of_a_run() == first for _ in range(4))


def test_sleep_until_a_time() -> None:
    story = Story()

    async def routine() -> None:
        await story.agenda.sleep_until(2.5)
        story.note("in time")
        await story.agenda.sleep_until(1.0)
        story.note("late")

    story.start(routine())
    assert story.run() == [(2.5, "in time"), (2.5, "late")]


def test_a_waiter_is_woken_once_and_after_the_delay() -> None:
    story = Story()
    place = Waiter(story.agenda)

    def wake(delay: float) -> None:
        place.wake(delay)
        place.wake()  # the routine waits no more

    story.start(story.waiter(place))
    story.agenda.at(1.0, wake, 0.0)
    story.agenda.at(2.0, wake, 0.25)
    story.agenda.at(3.0, story.agenda.stop)
    assert story.run() == [(1.0, "woken"), (2.25, "woken")]


def test_a_routine_wakes_another_and_goes_on_first() -> None:
    story = Story()
    place = Waiter(story.agenda)

    async def waker() -> None:
        await story.agenda.sleep(1.0)
        place.wake()
        story.note("waker")
        await story.agenda.sleep(1.0)
        story.note("waker")
        story.agenda.stop()

    story.start(story.waiter(place), waker())
    assert story.run() == [(1.0, "waker"), (1.0, "woken"), (2.0, "waker")]


def test_waking_an_empty_place_does_nothing() -> None:
    agenda = Agenda()
    place = Waiter(agenda)
    place.wake()
    assert len(agenda) == 0


def test_a_routine_that_ends_leaves_the_others() -> None:
    story = Story()
    story.start(story.sleeper("short", 1.0), story.sleeper("long", 1.0, 1.0, 1.0))
    assert story.run() == [(1.0, "short"), (1.0, "long"), (2.0, "long"), (3.0, "long")]


def test_stop_ends_every_routine_and_nothing_runs_afterwards() -> None:
    story = Story()
    story.start(story.endless(), story.endless())
    story.agenda.at(0.0015, story.agenda.stop)
    story.at((0.0015, "too late"))
    assert story.run() == [(0.0015, END), (0.0015, END)]


def test_stop_ends_routines_that_have_not_started() -> None:
    story = Story()
    story.agenda.at(0.0, story.agenda.stop)
    story.start(story.sleeper("never", 0.0))
    assert story.run() == []


def test_a_stopped_routine_runs_to_its_next_wait_and_no_further() -> None:
    story = Story()

    async def routine() -> None:
        story.agenda.stop()
        story.note("last")
        await story.agenda.sleep(0.0)
        story.note("too late")

    story.start(routine())
    assert story.run() == [(0.0, "last")]


def test_a_stuck_emulation_says_so() -> None:
    story = Story()
    places = [Waiter(story.agenda), Waiter(story.agenda)]

    async def stuck(place: Waiter) -> None:
        try:
            await place.wait()
        finally:
            story.note(END)

    story.start(stuck(places[0]), stuck(places[1]))
    story.at((1.0, "callback"))
    with pytest.raises(AgendaStuckError, match="2 routines wait"):
        story.run()
    assert story.trace == [(1.0, "callback"), (1.0, END), (1.0, END)]


def test_an_empty_agenda_is_done() -> None:
    assert Story().run() == []


def fail() -> None:
    raise ValueError("a bug")


async def failing_routine() -> None:
    fail()


@pytest.mark.parametrize("where", ["callback", "routine"])
def test_an_error_ends_the_run_and_every_routine(where: str) -> None:
    story = Story()
    story.start(story.endless())
    story.agenda.at(0.0005, fail if where == "callback" else lambda: story.start(failing_routine()))
    with pytest.raises(ValueError, match="a bug"):
        story.run()
    assert story.trace == [(0.0005, END)]


def test_cancelling_from_outside_ends_every_routine() -> None:
    story = Story()
    story.start(story.endless(), story.endless())

    async def main() -> bool:
        with trio.CancelScope() as scope:
            story.agenda.at(1.0, scope.cancel)
            await run_agenda(story.agenda)
        return scope.cancelled_caught

    assert trio.run(main)
    assert [name for _, name in story.trace] == [END, END]
    # Cancellations are looked for once in so many entries.
    assert 1.0 <= story.agenda.now < 2.0


def test_a_busy_emulation_lets_other_tasks_run() -> None:
    story = Story()
    story.start(story.endless())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_agenda, story.agenda)
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert [name for _, name in story.trace] == [END]


def test_ctrl_c_ends_every_routine_but_not_in_the_middle_of_its_work() -> None:
    story = Story()

    async def routine() -> None:
        try:
            await story.agenda.sleep(1.0)
            signal.raise_signal(signal.SIGINT)
            story.note("work is done")
            while True:
                await story.agenda.sleep(1.0)
        finally:
            story.note(END)

    story.start(routine())
    with pytest.raises(KeyboardInterrupt):
        story.run()
    assert story.trace[0] == (1.0, "work is done")
    assert [name for _, name in story.trace[1:]] == [END]


class Paced(Story):
    """A story on the real clock that tells the clock's time too, both in units of `scale`."""

    def __init__(self, scale: float) -> None:
        super().__init__(real_time=True)
        self.elapsed: list[float] = []
        self._scale = scale
        self._started = 0.0

    def note(self, name: str) -> None:
        self.trace.append((round(self.agenda.now / self._scale, 6), name))
        self.elapsed.append((trio.current_time() - self._started) / self._scale)

    def play(self, clock: trio.abc.Clock | None) -> None:
        scale = self._scale
        self.at(*[(time * scale, "callback") for time in (1, 3, 4)])
        self.start(self.sleeper("routine", 2 * scale, 2 * scale, 2 * scale))

        async def main() -> None:
            self._started = trio.current_time()
            await run_agenda(self.agenda)

        trio.run(main, clock=clock)


IN_TIME = [(1, "callback"), (2, "routine"), (3, "callback"), (4, "callback"), (4, "routine"), (6, "routine")]


def autojump_clock() -> trio.testing.MockClock:
    return trio.testing.MockClock(autojump_threshold=0)


def test_the_agenda_keeps_pace_with_a_clock() -> None:
    story = Paced(1.0)
    story.play(autojump_clock())
    assert story.trace == IN_TIME
    assert story.elapsed == [time for time, _ in IN_TIME]


def test_the_agenda_keeps_pace_with_the_wall() -> None:
    story = Paced(0.002)
    story.play(None)
    assert story.trace == IN_TIME
    assert all(seen >= time - 1e-6 for seen, (time, _) in zip(story.elapsed, IN_TIME, strict=True))


def test_on_the_real_clock_what_is_late_runs_at_once() -> None:
    story, clock = Story(real_time=True), autojump_clock()
    seen: list[float] = []

    def note() -> None:
        seen.append(trio.current_time())

    late: list[float] = []
    story.agenda.at(1.0, clock.jump, 5.0)
    story.agenda.at(2.0, note)
    story.agenda.at(2.0, lambda: late.append(story.agenda.behind_s))
    story.agenda.at(9.0, note)
    story.run(clock=clock)
    assert seen == [6.0, 9.0]
    assert late == [4.0]
    assert story.agenda.behind_s == 0.0


@pytest.mark.parametrize("way", ["stop", "cancel"])
def test_a_run_on_the_real_clock_ends_while_it_sleeps(way: str) -> None:
    story = Story(real_time=True)

    async def sleepy() -> None:
        try:
            await story.agenda.sleep(1e6)
        finally:
            story.note(END)

    async def main() -> float:
        with trio.move_on_after(5.0):
            await run_agenda(story.agenda)
        return trio.current_time()

    story.start(sleepy())
    if way == "stop":
        story.agenda.at(5.0, story.agenda.stop)
    assert trio.run(main, clock=autojump_clock()) == 5.0
    assert [name for _, name in story.trace] == [END]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3))))
def test_a_line_runs_as_if_each_entry_had_been_put_on_the_agenda(entries: list[tuple[int, int]]) -> None:
    """Two lines, and the agenda itself; a number is the time that passes before the next entry."""
    plain, lined = Story(), Story()
    lines = [Line(lined.agenda), Line(lined.agenda)]
    times = [0.0, 0.0, 0.0]
    for serial, (way, pause) in enumerate(entries):
        times[way] += pause
        plain.agenda.at(times[way], plain.note, str(serial))
        put = lined.agenda.at if way == 2 else lines[way].at
        put(times[way], lined.note, str(serial))
    assert len(lined.agenda) == len(plain.agenda) == len(entries)
    assert lined.run() == plain.run()


class Followed(Story):
    """What happens puts more on the agenda: in a line, or each with `at`."""

    def __init__(self, *, lined: bool) -> None:
        super().__init__()
        self.line = Line(self.agenda)
        self.lined = lined
        self.ends_with = ""

    def put(self, name: str, way: int, pause: int, more: int) -> None:
        """Something is to happen in a while, and `more` of it after that."""
        time = self.agenda.now + pause
        if way and self.lined and time >= self.line.last_s:
            self.line.at(time, self.happen, name, way, pause, more)
        else:
            self.agenda.at(time, self.happen, name, way, pause, more)

    def happen(self, name: str, way: int, pause: int, more: int) -> None:
        """It does."""
        self.note(name)
        if name == self.ends_with:
            self.agenda.stop()
        if more:
            self.put(f"{name}{more}", way, pause, more - 1)


FOLLOWED = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 4)), max_size=12)


@given(FOLLOWED, st.text("0123456789", max_size=2))
def test_lines_run_in_a_row_as_if_each_had_been_put_on_the_agenda(
    entries: list[tuple[int, int, int]], ends_with: str
) -> None:
    lined, plain = Followed(lined=True), Followed(lined=False)
    for story in (lined, plain):
        story.ends_with = ends_with
        for number, (way, pause, more) in enumerate(entries):
            story.put(str(number), way, pause, more)
    assert lined.run() == plain.run()


def test_what_runs_in_a_row_stops_and_forgets_the_rest_when_all_is_forgotten() -> None:
    story = Story()
    line = Line(story.agenda)

    def forget() -> None:
        story.note("forget")
        story.agenda.clear()
        line.at(3.0, story.note, "behind")

    line.at(1.0, story.note, "first")
    line.at(2.0, forget)
    for _ in range(3):
        line.at(2.0, story.note, "forgotten")
    assert story.run() == [(1.0, "first"), (2.0, "forget"), (3.0, "behind")]


def test_a_long_row_lets_whoever_runs_the_agenda_have_a_turn() -> None:
    agenda = Agenda()
    line = Line(agenda)
    seen: list[int] = []
    for number in range(1000):
        line.at(0.0, seen.append, number)
    agenda.run_entries(2)
    assert 2 < len(seen) < 1000
    before = len(seen)
    agenda.run_entries(1)
    assert len(seen) == before + 1
    agenda.run_until(0.0, 3)
    assert seen == list(range(before + 4))


def test_a_line_takes_entries_while_it_runs_and_after_it_was_cleared() -> None:
    story = Story()
    line = Line(story.agenda)
    line.at(1.0, story.note, "forgotten")
    line.at(2.0, story.note, "forgotten")
    story.agenda.clear()
    assert len(story.agenda) == 0
    line.at(1.5, lambda: line.at(1.5, story.note, "second"))
    line.at(1.5, story.note, "first")
    assert story.run() == [(1.5, "first"), (1.5, "second")]


def test_nothing_is_put_into_a_line_before_what_stands_there() -> None:
    line = Line(Agenda())
    line.at(2.0, print)
    with pytest.raises(ValueError, match=r"^the time 1.0 s is before 2.0 s, the time of the last entry$"):
        line.at(1.0, print)
