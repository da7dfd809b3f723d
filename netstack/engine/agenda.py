"""The agenda: what happens next, in virtual or in real time.

One heap of (time, serial, what): callbacks, and routines that wait. The serial breaks ties, so the order
of a run depends on nothing but the scenario and its seed. `agenda_loop` beside it takes entry after entry:
a callback is called, a routine is stepped until it waits again::

    heap   0.0312  17  link: message arrives        -> call it
           0.0312  18  routine of subtask 3         -> step it: ... await agenda.sleep(0.032)
           0.0640  19  flush

Routines are coroutines that wait on the agenda and on nothing else. They are not trio tasks: stepping
one costs about 1 microsecond here, switching trio tasks 6 to 9. All routines of an emulation share the one
trio task that runs the agenda; on the real clock it sleeps until the next entry is due, on the virtual
clock time jumps there.

A million messages may be under way over one wire. They come in order, so they stand in a `Line`, of which
only the first entry is on the heap: that stays as small as there are wires and tasks. Entries of a line that
are due one after the other, with nothing of the heap in between, run without a detour over the heap. So does
each `beat`, by which what works in even steps looks whether there is anything to do for its routine at all.

What may be taken back is put there with `cancellable_at` or `cancellable_after`, which return a `Timer`. A
cancelled one keeps its place and does nothing when it is due, so the order of all else stays.

An agenda with a `clock` of its own lives beside other trio tasks, which receive what comes from other
processes and hand it over with `external`: that tells `now`, and wakes whoever runs the agenda.
"""

from __future__ import annotations

import heapq
import types
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Generator
from math import floor, inf
from typing import Any


class Timer:
    """A callback that waits on the agenda and can be cancelled."""

    __slots__ = ("_args", "_callback")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._callback: Callable[..., Any] | None = callback
        self._args = args

    @property
    def pending(self) -> bool:
        """Whether the callback is still to be called."""
        return self._callback is not None

    def cancel(self) -> None:
        """Do not call it, and let go of what it was to be called with; nothing if it has been called."""
        self._callback, self._args = None, ()

    def __call__(self) -> None:
        """It is due."""
        callback, args = self._callback, self._args
        if callback is not None:
            self.cancel()
            callback(*args)


class Kept:
    """A callback that outlives `Agenda.clear`."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[..., Any]) -> None:
        self._callback = callback

    def __call__(self, *args: Any) -> None:
        """It is due."""
        self._callback(*args)


Routine = Coroutine[Any, None, None]
"""A coroutine that the agenda steps."""


class Waiter:
    """A place where one routine waits until it is woken.

    Waking an empty place does nothing, so a waker need not know whether a task is there.
    """

    __slots__ = ("_agenda", "_routine")

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._routine: Routine | None = None

    def wake(self, delay: float = 0.0) -> None:
        """Let the waiting routine go on `delay` seconds from now."""
        routine = self._routine
        if routine is not None:
            self._routine = None
            self._agenda.resume(routine, delay)

    def forget(self) -> None:
        """Let go of a routine that was closed while it waited; the place is empty then."""
        self._routine = None

    async def wait(self) -> None:
        """Wait until woken."""
        self._routine = self._agenda.current
        await suspend()


_IN_A_ROW = 200
"""Entries of a line that may run before the runner of the agenda has its turn."""


class Line:
    """Callbacks that come in the order of their times, as the messages of a wire do.

    They run as if each had been put on the agenda with `Agenda.at`, but only the first is on its heap.
    """

    __slots__ = ("_agenda", "_entries")

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._entries: deque[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def at(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` at `time`, or as soon as possible if that is over.

        Raises:
            ValueError: if that is before what stands in the line already.
        """
        entries = self._entries
        if entries and time < entries[-1][0]:
            raise ValueError(f"{time} s is before {entries[-1][0]} s, which is in the line already")
        agenda = self._agenda
        agenda._serial = serial = agenda._serial + 1
        if not entries:
            heapq.heappush(agenda._heap, (time, serial, self, ()))
        entries.append((time, serial, callback, args))

    @property
    def last_s(self) -> float:
        """Time at which the last one is due, in seconds; 0 if there is none."""
        return self._entries[-1][0] if self._entries else 0.0

    def arguments(self) -> list[tuple[Any, ...]]:
        """Return the arguments of the callbacks in it, in their order."""
        return [arguments for _, _, _, arguments in self._entries]

    def clear(self) -> None:
        """Forget all that stands in it."""
        self._entries.clear()

    def __call__(self) -> None:
        """The first entry is due, and those behind it that come before all else, a number of them at most."""
        agenda, entries = self._agenda, self._entries
        left = _IN_A_ROW if agenda._in_a_row else 1
        while True:
            _, _, callback, args = entries.popleft()
            left -= 1
            if not left or not entries:  # whatever comes into an empty line goes to the heap as well
                self._back_to_heap()
                callback(*args)
                return
            agenda._off_heap = self
            callback(*args)
            if not agenda._is_off_heap(self):  # all that was due was forgotten
                return
            agenda._off_heap = None
            time, serial, _, _ = entries[0]
            if agenda.stopped or agenda._comes_before(time, serial):
                self._back_to_heap()
                return
            if time > agenda.now:
                agenda.now = time

    def _back_to_heap(self) -> None:
        if self._entries:
            time, serial, _, _ = self._entries[0]
            heapq.heappush(self._agenda._heap, (time, serial, self, ()))


class Agenda:
    """All that is due in one emulation, in the order of (time, serial).

    `now` is the time in seconds since the tasks opened, `current` the routine that is being stepped.
    `real_time` makes the agenda keep pace with the clock on the wall; what is late then runs as soon as
    possible, and `now` is when it was due. With a `clock`, which says how many seconds the run has lasted,
    `now` is what that says when an entry runs, never less than before; `on_external` is called when something
    was put on it from outside. `between`, if it is there, is called after each entry in virtual time,
    `meanwhile` a few times a second of real time, with `now`.
    `stopped`: nothing more is to run. `behind_s`: of one that keeps pace with the clock on the wall, by how
    much the latest entries were late.
    """

    def __init__(self, *, real_time: bool = False, clock: Callable[[], float] | None = None) -> None:
        self.now = 0.0
        self.real_time = real_time or clock is not None
        self.clock = clock
        self.behind_s = 0.0
        self.on_external: Callable[[], None] | None = None
        self.between: Callable[[], None] | None = None
        self.meanwhile: Callable[[float], None] | None = None
        self.current: Routine | None = None
        self._heap: list[tuple[float, int, Callable[..., Any] | None, Any]] = []
        self._serial = 0
        self._foremost = 0
        self.stopped = False
        self._beats = Line(self)
        self._in_a_row = False  # whether a line may run several of its entries
        self._off_heap: Line | None = None  # the one that does so now
        self._routines: dict[Routine, tuple[str, Callable[[], None] | None]] = {}

    def __len__(self) -> int:
        """Entries that are due now or later."""
        behind = sum([len(line) - 1 for _, _, line, _ in self._heap if isinstance(line, Line)])
        return len(self._heap) + behind

    @property
    def next_s(self) -> float:
        """Time at which the next entry is due, in seconds; infinity if there is none."""
        return self._heap[0][0] if self._heap else inf

    @property
    def routines(self) -> int:
        """Routines that have not ended."""
        return len(self._routines)

    def at(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` at `time`, or as soon as possible if that is over."""
        self._serial = serial = self._serial + 1
        heapq.heappush(self._heap, (time, serial, callback, args))

    def after(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` in `delay` seconds."""
        self._serial = serial = self._serial + 1
        heapq.heappush(self._heap, (self.now + delay, serial, callback, args))

    def beat(self, time: float, callback: Callable[[], None]) -> None:
        """Like `at`, optimised for nearly increasing times."""
        line = self._beats
        if time < line.last_s:
            self.at(time, callback)
        else:
            line.at(time, callback)

    def _is_off_heap(self, line: Line) -> bool:
        # A call, since a type checker, and so a compiled module, takes what was set before for granted.
        return self._off_heap is line

    def _comes_before(self, time: float, serial: int) -> bool:
        """Whether an entry of the heap comes before that one."""
        heap = self._heap
        if not heap:
            return False
        first = heap[0]
        return first[0] < time or (first[0] == time and first[1] < serial)

    def cancellable_at(self, time: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Plan a callback as `at` does, and return the handle by which it can be cancelled."""
        timer = Timer(callback, args)
        self.at(time, timer)
        return timer

    def cancellable_after(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Plan a callback as `after` does, and return the handle by which it can be cancelled."""
        return self.cancellable_at(self.now + delay, callback, *args)

    def keep(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Like `at`; the entry outlives `clear`."""
        self.at(time, Kept(callback), *args)

    def keep_foremost(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Like `keep`, before all other entries that are due at that moment."""
        self._foremost = serial = self._foremost - 1
        heapq.heappush(self._heap, (time, serial, Kept(callback), args))

    def clear(self) -> None:
        """Close all routines and forget all that is due, except what was to be kept.

        Not to be called by a routine, which would have to close itself.
        """
        for routine in list(self._routines):
            routine.close()
        self._routines.clear()
        for _, _, callback, _ in self._heap:
            if isinstance(callback, Line):
                callback.clear()
        if self._off_heap is not None:
            self._off_heap.clear()
            self._off_heap = None
        # In place, as `run` holds on to the list.
        self._heap[:] = [entry for entry in self._heap if isinstance(entry[2], Kept)]
        heapq.heapify(self._heap)

    def forget(self, owner: Callable[..., Any], routines: Collection[Routine]) -> None:
        """Close some routines, and forget when they were to go on and what `owner` was to be called for.

        Not to be called by one of the routines, which would have to close itself.
        """
        for routine in routines:
            if self._routines.pop(routine, None) is not None:
                routine.close()
        self._heap[:] = [
            entry
            for entry in self._heap
            if entry[2] is not owner and not (entry[2] is None and entry[3] in routines)
        ]
        heapq.heapify(self._heap)

    def start(
        self, routine: Routine, name: str = "routine", on_end: Callable[[], None] | None = None
    ) -> None:
        """Step `routine` as soon as its turn comes, and call `on_end` when it has returned.

        What it raises ends the run, with a note that says by its `name` where it comes from.
        """
        self._routines[routine] = name, on_end
        self.resume(routine)

    def resume(self, routine: Routine | None, delay: float = 0.0) -> None:
        """Step a waiting `routine` in `delay` seconds."""
        self._serial = serial = self._serial + 1
        heapq.heappush(self._heap, (self.now + delay, serial, None, routine))

    def stop(self) -> None:
        """Run nothing more once the current entry is done."""
        self.stopped = True

    async def sleep(self, duration: float) -> None:
        """Let the calling routine go on in `duration` seconds."""
        self.resume(self.current, duration)
        await suspend()

    async def sleep_until(self, time: float) -> None:
        """Let the calling routine go on at `time`."""
        self._serial = serial = self._serial + 1
        heapq.heappush(self._heap, (time, serial, None, self.current))
        await suspend()

    def external(self, callback: Callable[..., Any], *args: Any) -> None:
        """Do ``callback(*args)`` at once, on behalf of a trio task beside this agenda's, which has a clock.

        What it puts on the agenda is seen to in time, also if whoever runs that sleeps.
        """
        self._look_at_clock()
        callback(*args)
        if self.on_external is not None:
            self.on_external()

    def run_due(self, count: int) -> None:
        """Run up to `count` entries that are due by the clock of its own."""
        heap = self._heap
        for _ in range(count):
            self._look_at_clock()
            if self.stopped or not heap or heap[0][0] > self.now:
                break
            _, _, callback, argument = heapq.heappop(heap)
            if callback is None:
                self.step(argument)
            else:
                callback(*argument)

    def _look_at_clock(self) -> None:
        assert self.clock is not None, "only an agenda with a clock of its own has others beside it"
        now = self.clock()
        if now > self.now:
            self.now = now

    def run_entries(self, count: int) -> None:
        """Run the next `count` entries, of which there is at least one, and turn the time to each."""
        if self.between is not None and count > 1:
            self._run_watched(count)
            return
        heap = self._heap
        pop = heapq.heappop
        self._in_a_row = count > 1
        for _ in range(count):
            time, _, callback, argument = pop(heap)
            if time > self.now:
                self.now = time
            if callback is None:
                self.step(argument)
            else:
                callback(*argument)
            if self.stopped or not heap:
                break
        self._in_a_row = False

    def _run_watched(self, count: int) -> None:
        for _ in range(count):
            self.run_entries(1)
            if self.stopped or not self._heap:
                break
            if self.between is not None:
                self.between()

    def run_until(self, time: float, count: int) -> None:
        """Run up to `count` entries that are due by `time`."""
        heap = self._heap
        for _ in range(count):
            if self.stopped or not heap or heap[0][0] > time:
                break
            self.run_entries(1)

    def step(self, routine: Routine) -> None:
        """Let a routine that is due go on until it waits again; not to be called by a routine."""
        self.current = routine
        try:
            foreign = routine.send(None)
        except StopIteration:
            _, on_end = self._routines.pop(routine)
        except BaseException as error:
            name, _ = self._routines.pop(routine, ("a routine that is over", None))
            if isinstance(error, Exception):
                error.add_note(f"in {name}")
            raise
        else:
            if foreign is not None:
                raise TypeError(f"a routine waits for {foreign!r}, and not on the agenda")
            return
        if on_end is not None:
            on_end()


@types.coroutine
def suspend() -> Generator[None, None, None]:
    """Wait until the agenda steps the calling routine again, for which the caller has seen to it."""
    yield


_ROUNDING = 1e-6


class EventClock:
    """Tells the event time of now, in whole milliseconds: that of the agenda, which begins with the run.

    A run that goes on from the checkpoint of an earlier one begins behind what that had reached, so that
    event time does not go back.
    """

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._ahead_ms = 0

    @property
    def now_ms(self) -> int:
        """The event time of what is emitted now."""
        return self._passed_ms + self._ahead_ms

    def go_on_from(self, reached_ms: int) -> None:
        """An earlier run had come so far; if this one has not, its event time goes on from there."""
        self._ahead_ms = max(self._ahead_ms, reached_ms - self._passed_ms)

    @property
    def _passed_ms(self) -> int:
        return floor(self._agenda.now * 1e3 + _ROUNDING)
