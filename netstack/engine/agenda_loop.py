"""Runs an agenda on trio: as fast as it goes, by the clock on the wall, or beside other trio tasks.

The agenda itself waits for nothing. Here is what does: for a moment in real time, for what comes from
other processes, and for trio, which is to find a cancellation or Ctrl-C now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio

from ..errors import AgendaStuckError
from .agenda import Agenda

_ENTRIES_PER_CHECKPOINT = 1000
"""Entries that run before trio checks for a cancellation or Ctrl-C."""

_MEANWHILE_EVERY_S = 0.2
"""Time between two progress reports, in seconds of real time."""

_ENTRIES_PER_TURN = 50
"""Number of entries that run in real time before other trio tasks have their turn and the clock is read."""


# Ctrl-C is not to hit a routine in the middle of its bookkeeping, but this task where it waits.
@trio.lowlevel.enable_ki_protection
async def run_agenda(agenda: Agenda) -> None:
    """Work until stopped or cancelled, or until all routines have ended; routines are closed then.

    With a clock it works until stopped or cancelled: more may always come from outside.

    Raises:
        AgendaStuckError: if routines wait and nothing is left to happen.
    """
    try:
        if agenda.clock is not None:
            await _follow(agenda, agenda.clock)
            return
        started_at = trio.current_time() - agenda.now
        meanwhile_due = trio.current_time()
        while agenda.next_s < inf and not agenda.stopped:
            if agenda.meanwhile is not None and trio.current_time() >= meanwhile_due:
                agenda.meanwhile(agenda.now)
                meanwhile_due = trio.current_time() + _MEANWHILE_EVERY_S
            if agenda.real_time:
                await trio.sleep_until(started_at + agenda.next_s)
                now = max(trio.current_time() - started_at, agenda.next_s)
                agenda.behind_s = now - agenda.next_s
                agenda.run_until(now, _ENTRIES_PER_TURN)
            else:
                await trio.lowlevel.checkpoint()
                agenda.run_entries(_ENTRIES_PER_CHECKPOINT)
        if agenda.routines and not agenda.stopped:
            raise AgendaStuckError(f"{agenda.routines} routines wait and nothing is left to happen")
    finally:
        agenda.clear()


async def _follow(agenda: Agenda, clock: Callable[[], float]) -> None:
    """Run each entry when it is due by `clock`, and let other trio tasks have their turn in between."""
    while not agenda.stopped:
        pause = agenda.next_s - clock()
        if pause > 0:
            wakened = trio.Event()
            agenda.on_external = wakened.set
            with trio.move_on_after(pause):
                await wakened.wait()
            agenda.on_external = None
        else:
            await trio.lowlevel.checkpoint()
        agenda.run_due(_ENTRIES_PER_TURN)
