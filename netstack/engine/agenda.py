"""The agenda: the queue of events of an emulation, in virtual or in real time.

The agenda is one heap of (time, serial, entry). An entry is a callback or a waiting routine. The serial
breaks ties, so the order of a run depends only on the scenario and its seed. `agenda_loop` takes one entry
after the other. It calls a callback, and steps a routine until the routine waits again::

    heap   0.0312  17  link: message arrives        -> call it
           0.0312  18  routine of subtask 3         -> step it: ... await agenda.sleep(0.032)
           0.0640  19  flush

Routines are coroutines that wait only on the agenda. They are not trio tasks: stepping one costs about 1
microsecond, switching trio tasks 6 to 9. All routines of an emulation share the one trio task that runs the
agenda. With a real clock this task sleeps until the next entry is due. With the virtual clock, the time jumps
to the next entry.

A million messages may be in transit on one wire. They arrive in order, so they form a `Line`, of which only
the first entry is on the heap. So the heap has only as many entries as there are wires and tasks. Entries of
a line that are due before the next entry of the heap run directly, without passing through the heap.

Entries that may be cancelled are added with `cancellable_at` or `cancellable_after`, which return a `Timer`.
A cancelled timer stays on the heap and does nothing when it is due, so the order of all other entries is
unchanged.

An agenda with its own `clock` runs beside other trio tasks. These tasks receive messages from other processes
and pass them on with `external`, which updates `now` and wakes the task that runs the agenda.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Generator
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final

__all__ = ["Agenda"]

_push: Final = heappush  # compiled code need not look up what is final
_pop: Final = heappop


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
        """Cancel the callback and drop the references to its arguments; does nothing if it was already
        called."""
        self._callback, self._args = None, ()

    def __call__(self) -> None:
        """Call the callback, unless cancelled; the agenda calls this when the timer is due."""
        callback, args = self._callback, self._args
        if callback is not None:
            self.cancel()
            callback(*args)


class Kept:
    """A callback that stays on the agenda after `Agenda.clear`."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[..., Any]) -> None:
        self._callback = callback

    def __call__(self, *args: Any) -> None:
        """Call the callback; the agenda calls this when it is due."""
        self._callback(*args)


Routine = Coroutine[Any, None, None]
"""A coroutine that the agenda runs step by step."""


class Waiter:
    """A place where one routine waits until it is woken.

    Waking does nothing if no routine waits, so the caller need not check.
    """

    __slots__ = ("_agenda", "_routine")

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._routine: Routine | None = None

    def wake(self, delay: float = 0.0) -> None:
        """Resume the waiting routine `delay` seconds from now."""
        routine = self._routine
        if routine is not None:
            self._routine = None
            self._agenda.resume(routine, delay)

    def wake_now(self) -> None:
        """Step the waiting routine at once; called by an entry of the agenda."""
        routine = self._routine
        if routine is not None:
            self._routine = None
            self._agenda.step(routine)

    def forget(self) -> None:
        """Drop a routine that was closed while it waited."""
        self._routine = None

    def prepare(self) -> None:
        """Let wake-ups from now on count for the calling routine, which then has to suspend itself."""
        self._routine = self._agenda.current

    async def wait(self) -> None:
        """Wait until woken."""
        self.prepare()
        await suspend()


_IN_A_ROW: Final = 200
"""Maximum number of entries of a line that run before control returns to the agenda loop."""


class Line:
    """Callbacks with non-decreasing times, such as the messages of a wire.

    The callbacks run in the same order as with `Agenda.at`, but only the first is on the heap.
    """

    __slots__ = ("_agenda", "_entries")

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._entries: deque[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def at(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` at `time`, or as soon as possible if that has passed.

        Raises:
            ValueError: if `time` is before the last entry of the line.
        """
        entries = self._entries
        if entries and time < entries[-1][0]:
            raise ValueError(f"the time {time} s is before {entries[-1][0]} s, the time of the last entry")
        agenda = self._agenda
        agenda._serial = serial = agenda._serial + 1
        if not entries:
            _push(agenda._heap, (time, serial, self, ()))
        entries.append((time, serial, callback, args))

    @property
    def last_s(self) -> float:
        """Time of the last entry, in seconds; 0 if the line is empty."""
        return self._entries[-1][0] if self._entries else 0.0

    def arguments(self) -> list[tuple[Any, ...]]:
        """Return the arguments of the callbacks, in order."""
        return [arguments for _, _, _, arguments in self._entries]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()

    def __call__(self) -> None:
        """Run the first entries while they are due before the next entry of the heap, up to a limit."""
        agenda, entries = self._agenda, self._entries
        left = _IN_A_ROW if agenda._in_a_row else 1
        while True:
            _, _, callback, args = entries.popleft()
            left -= 1
            if not left or not entries:  # a callback added to an empty line goes to the heap too
                self._back_to_heap()
                callback(*args)
                return
            agenda._off_heap = self
            callback(*args)
            if not agenda._is_off_heap(self):  # its entries were dropped
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
            _push(self._agenda._heap, (time, serial, self, ()))


class Agenda:
    """All entries of one emulation, in the order of (time, serial).

    `now` is the time in seconds since the tasks opened, `current` the routine that is being stepped. With
    `real_time`, the agenda keeps pace with the wall clock; late entries run as soon as possible, and `now` is
    the time at which they were due. With a `clock`, which returns the seconds since the start of the run,
    `now` is the clock's time when an entry runs, and never decreases. `on_external` is called when a trio
    task has added an entry through `external`. `between`, if set, is called after each entry in virtual time;
    `meanwhile`, if set, is called a few times per second of real time, with `now`. `stopped`: whether the
    agenda runs no more entries. `behind_s`: lateness of the latest entries in seconds, if the agenda keeps
    pace with the wall clock.
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
        self._in_a_row = False  # whether a line may run several of its entries
        self._off_heap: Line | None = None  # the line that does so now
        self._routines: dict[Routine, tuple[str, Callable[[], None] | None]] = {}

    def __len__(self) -> int:
        """Number of entries, including those of lines."""
        behind = sum([len(line) - 1 for _, _, line, _ in self._heap if isinstance(line, Line)])
        return len(self._heap) + behind

    @property
    def next_s(self) -> float:
        """Time of the next entry, in seconds; infinity if the agenda is empty."""
        return self._heap[0][0] if self._heap else inf

    @property
    def routines(self) -> int:
        """Number of routines that have not ended."""
        return len(self._routines)

    def at(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` at `time`, or as soon as possible if that has passed."""
        self._serial = serial = self._serial + 1
        _push(self._heap, (time, serial, callback, args))

    def after(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` in `delay` seconds."""
        self._serial = serial = self._serial + 1
        _push(self._heap, (self.now + delay, serial, callback, args))

    def _is_off_heap(self, line: Line) -> bool:
        # A method, because a type checker, and so a compiled module, assumes that the attribute keeps its
        # last value.
        return self._off_heap is line

    def _comes_before(self, time: float, serial: int) -> bool:
        """Whether an entry of the heap is due before an entry with this time and serial."""
        heap = self._heap
        if not heap:
            return False
        first = heap[0]
        return first[0] < time or (first[0] == time and first[1] < serial)

    def cancellable_at(self, time: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Add a callback as `at` does, and return a handle to cancel it."""
        timer = Timer(callback, args)
        self.at(time, timer)
        return timer

    def cancellable_after(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Add a callback as `after` does, and return a handle to cancel it."""
        return self.cancellable_at(self.now + delay, callback, *args)

    def keep(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Like `at`, but `clear` does not remove the callback."""
        self.at(time, Kept(callback), *args)

    def keep_foremost(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Like `keep`, but the callback runs before all other entries for the same time."""
        self._foremost = serial = self._foremost - 1
        _push(self._heap, (time, serial, Kept(callback), args))

    def clear(self) -> None:
        """Close all routines and remove all entries, except those added with `keep`.

        A routine must not call this method, since it would have to close itself.
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
        # In place, since `run` holds a reference to the list.
        self._heap[:] = [entry for entry in self._heap if isinstance(entry[2], Kept)]
        heapify(self._heap)

    def forget(self, owner: Callable[..., Any], routines: Collection[Routine]) -> None:
        """Close the given routines, and remove their entries and the entries that call `owner`.

        None of these routines may call this method, since it would have to close itself.
        """
        for routine in routines:
            if self._routines.pop(routine, None) is not None:
                routine.close()
        self._heap[:] = [
            entry
            for entry in self._heap
            if entry[2] is not owner and not (entry[2] is None and entry[3] in routines)
        ]
        heapify(self._heap)

    def start(
        self, routine: Routine, name: str = "routine", on_end: Callable[[], None] | None = None
    ) -> None:
        """Step `routine` as soon as possible, and call `on_end` when it has returned.

        An exception of the routine ends the run, with a note that names the routine.
        """
        self._routines[routine] = name, on_end
        self.resume(routine)

    def resume(self, routine: Routine | None, delay: float = 0.0) -> None:
        """Step a waiting `routine` in `delay` seconds."""
        self._serial = serial = self._serial + 1
        _push(self._heap, (self.now + delay, serial, None, routine))

    def stop(self) -> None:
        """Run no more entries after the current one."""
        self.stopped = True

    async def sleep(self, duration: float) -> None:
        """Suspend the calling routine for `duration` seconds."""
        self.resume(self.current, duration)
        await suspend()

    async def sleep_until(self, time: float) -> None:
        """Suspend the calling routine until `time`."""
        self._serial = serial = self._serial + 1
        _push(self._heap, (time, serial, None, self.current))
        await suspend()

    def external(self, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` at once, for another trio task; needs an agenda with a clock.

        Updates `now` first. If the task that runs the agenda sleeps, it is woken for entries that the
        callback adds.
        """
        self._read_clock()
        callback(*args)
        if self.on_external is not None:
            self.on_external()

    def run_due(self, count: int) -> None:
        """Run up to `count` entries that are due by the agenda's clock."""
        heap = self._heap
        for _ in range(count):
            self._read_clock()
            if self.stopped or not heap or heap[0][0] > self.now:
                break
            self.run_entries(1)

    def _read_clock(self) -> None:
        assert self.clock is not None, "the agenda has no clock; create it with `clock`"
        now = self.clock()
        if now > self.now:
            self.now = now

    def run_entries(self, count: int) -> None:
        """Run the next `count` entries, advancing the time to each. There must be at least one entry."""
        if self.between is not None and count > 1:
            self._run_watched(count)
            return
        heap = self._heap
        pop = _pop
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
        """Resume a routine until it waits again; routines must not call this method."""
        self.current = routine
        try:
            foreign = routine.send(None)
        except StopIteration:
            _, on_end = self._routines.pop(routine)
        except BaseException as error:
            name, _ = self._routines.pop(routine, ("a routine that has ended", None))
            if isinstance(error, Exception):
                error.add_note(f"in {name}")
            raise
        else:
            if foreign is not None:
                raise TypeError(f"a routine awaits {foreign!r}, but it may await only what the agenda offers")
            return
        if on_end is not None:
            on_end()


@types.coroutine
def suspend() -> Generator[None, None, None]:
    """Suspend the calling routine. The routine must have arranged for the agenda to resume it."""
    yield
