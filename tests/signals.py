"""Signals to processes that tests start; SIGINT is not ignored there, as `tests/conftest.py` sees to."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import AnyStr

LIMIT_S = 120.0
"""Seconds in which a process has to end after a signal, on a loaded machine."""


def ended_by(
    process: subprocess.Popen[AnyStr], number: int = signal.SIGINT, *, group: bool = False
) -> tuple[AnyStr, AnyStr]:
    """Send a signal to a process, or to its group, and return what it then writes to stdout and stderr.

    One that goes on is killed, since its end would be waited for without a limit.
    """
    if group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    try:
        return process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        name = signal.Signals(number).name
        raise AssertionError(f"{process.args} went on for {LIMIT_S:g} s after {name}") from None
