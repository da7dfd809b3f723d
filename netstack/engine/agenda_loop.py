"""Runs an agenda on trio: as fast as possible, by the wall clock, or beside other trio tasks.

The agenda itself never waits. This module waits: for real time, for messages of other processes, and for
trio, which has to check for cancellation and Ctrl-C now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio

from ..errors import AgendaStuckError
from .agenda import Agenda

_ENTRIES_PER_CHECKPOINT = 1000
"""Number of entries that run before trio checks for cancellation or Ctrl-C."""

_MEANWHILE_EVERY_S = 0.2
"""Real time between two calls of `Agenda.meanwhile`, in seconds."""

_ENTRIES_PER_TURN = 50
"""Number of entries that run in real time before other trio tasks run and the clock is read."""


# Ctrl-C must not interrupt a routine while it updates its state, but this task where it waits.
@trio.lowlevel.enable_ki_protection
async def run_agenda(agenda: Agenda) -> None:
    """Run the agenda until stopped or cancelled, or until all routines have ended; then close the routines.

    With a clock it runs until stopped or cancelled, since other trio tasks may add entries at any time.

    Raises:
        AgendaStuckError: if routines wait and no entry is left.
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
            raise AgendaStuckError(
                f"the run cannot continue: {agenda.routines} routines wait, but no event is left that "
                "could wake them"
            )
    finally:
        agenda.clear()


async def _follow(agenda: Agenda, clock: Callable[[], float]) -> None:
    """Run each entry when it is due by `clock`, and let other trio tasks run in between."""
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
