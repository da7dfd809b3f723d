"""The agenda: what happens next, in virtual or in real time.

One heap of (time, serial, what): callbacks, and trio tasks that wait. The serial breaks ties, so the
order of a run depends on nothing but the scenario and its seed. Nobody drives the heap from outside:
a task that has to wait runs the callbacks that are due before it, and either comes up first itself,
which costs no switch of tasks at all, or wakes the task whose turn it is and goes to sleep::

    task A: await agenda.sleep(0.032)
              |  run callbacks ... until a task is next
              +--> A itself: return at once
              +--> B: reschedule(B), park A

On the virtual clock time jumps to the next entry; on the real clock a pump task sleeps until it is due.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import trio
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

_ENTRIES_PER_CHECKPOINT = 2000
"""How many callbacks run before trio may look for a cancellation or Ctrl-C."""


class Waiter:
    """A place where one task waits until somebody wakes it.

    Waking an empty place does nothing, so a waker need not know whether anybody is there.
    """

    __slots__ = ("_agenda", "_task")

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._task: Task | None = None

    @property
    def occupied(self) -> bool:
        """Whether a task waits here and has not been woken yet."""
        return self._task is not None

    def wake(self, delay: float = 0.0) -> None:
        """Let the waiting task go on `delay` seconds from now."""
        task = self._task
        if task is not None:
            self._task = None
            self._agenda.resume(task, delay)

    async def wait(self) -> None:
        """Wait until woken."""
        self._task = current_task()
        await self._agenda.park()


class Agenda:
    """All that is due in one emulation, in the order of (time, serial).

    `now` is the time in seconds since the tasks opened. `real_time` makes it keep pace with the clock
    on the wall; what is late then runs as soon as possible. `scope` is cancelled by `stop`; it has to
    hold all tasks that wait here.
    """

    def __init__(self, scope: trio.CancelScope, *, real_time: bool = False) -> None:
        self.now = 0.0
        self.scope = scope
        self.real_time = real_time
        self._heap: list[tuple[float, int, Callable[..., Any] | None, Any]] = []
        self._serial = 0
        self._entries = 0
        self._stopped = False
        self._pump: Task | None = None
        self._started_at = 0.0

    def at(self, time: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` at `time`, or as soon as possible if that is over."""
        self._serial = serial = self._serial + 1
        heapq.heappush(self._heap, (time, serial, callback, args))

    def after(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call ``callback(*args)`` in `delay` seconds."""
        self._serial = serial = self._serial + 1
        heapq.heappush(self._heap, (self.now + delay, serial, callback, args))

    def resume(self, task: Task, delay: float = 0.0) -> None:
        """Let a parked `task` go on in `delay` seconds."""
        self._serial = serial = self._serial + 1
        heapq.heappush(self._heap, (self.now + delay, serial, None, task))

    def stop(self) -> None:
        """Cancel all tasks as soon as the running callback returns."""
        self._stopped = True

    async def sleep(self, duration: float) -> None:
        """Let the calling task go on in `duration` seconds."""
        self.resume(current_task(), duration)
        await self.park()

    async def sleep_until(self, time: float) -> None:
        """Let the calling task go on at `time`."""
        self._serial = serial = self._serial + 1
        heapq.heappush(self._heap, (time, serial, None, current_task()))
        await self.park()

    async def park(self) -> None:
        """Let others run until something resumes the calling task."""
        task = None if self._stopped else self._run_until_task()
        if task is None:
            self.scope.cancel()
            await trio.lowlevel.checkpoint()
        elif task is not current_task():
            reschedule(task)
            await wait_task_rescheduled(self._let_go)
        elif self._entries > _ENTRIES_PER_CHECKPOINT:
            self._entries = 0
            await trio.lowlevel.checkpoint()

    async def enter(self) -> None:
        """Join as a new task, which goes on when the agenda is driven and its turn has come."""
        self.resume(current_task())
        await wait_task_rescheduled(self._let_go)

    def leave(self) -> None:
        """Let others run, for good: the calling task will not wait here again."""
        task = None if self._stopped else self._run_until_task()
        if task is None:
            self.scope.cancel()
        else:
            reschedule(task)

    @trio.lowlevel.enable_ki_protection
    async def drive(self) -> None:
        """Start the tasks that have entered, and on the real clock sleep until entries are due.

        Runs until cancelled, which `stop` does.
        """
        self._pump = pump = current_task()
        self._started_at = trio.current_time() - self.now
        while True:
            if self.real_time and self._heap:
                await trio.sleep_until(self._started_at + self._heap[0][0])
            task = None if self._stopped else self._run_until_task()
            if task is None:
                self.scope.cancel()
            elif task is not pump:
                reschedule(task)
                await wait_task_rescheduled(self._let_go)
            await trio.lowlevel.checkpoint()

    def _run_until_task(self) -> Task | None:
        """Run callbacks until a task is next, which is returned; the pump if nothing is due yet.

        Returns None once the agenda was stopped.
        """
        heap = self._heap
        pop = heapq.heappop
        while heap:
            if self.real_time and heap[0][0] > trio.current_time() - self._started_at:
                return self._pump
            time, _, callback, argument = pop(heap)
            if time > self.now:
                self.now = time
            self._entries += 1
            if callback is None:
                return argument  # type: ignore[no-any-return]
            callback(*argument)
            if self._stopped:
                return None
        raise RuntimeError("every task waits and nothing is left to happen: the emulation is stuck")

    def _let_go(self, _: object) -> Abort:
        """A cancelled task leaves at once; nothing is run any more, since its entry may come up."""
        self._stopped = True
        return Abort.SUCCEEDED
