"""Spark's master URL: what it says by itself, and whether anything answers there, before Spark starts."""

from __future__ import annotations

import os
import re
from contextlib import suppress

import trio

from netstack import SourceError

from ..emulating import heard_by_trio

PROBE_S = 3.0
"""How long a master has to accept a connection; Spark itself would try for a minute."""

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:, *\d+)?\])?")
_STANDALONE = "spark://"


def local_slots(master: str) -> int | None:
    """Return how many tasks run at once under a master on this machine; None for another."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)


def require_master(master: str) -> None:
    """Check that a master of Spark's own kind (``spark://``) accepts connections; of others nothing is known.

    Raises:
        SourceError: None of its addresses does, within `PROBE_S`.
    """
    if not master.startswith(_STANDALONE):
        return
    addresses = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            return  # Spark says what is wrong with it
        addresses.append((host.strip("[]"), int(port)))
    if not heard_by_trio(trio.run)(_any_answers, addresses):
        raise SourceError(f"Spark does not start: nothing answers at {master} within {PROBE_S:g} s")


async def _any_answers(addresses: list[tuple[str, int]]) -> bool:
    answered = False

    async def ask(host: str, port: int) -> None:
        nonlocal answered
        with suppress(OSError):
            async with await trio.open_tcp_stream(host, port):
                answered = True
                nursery.cancel_scope.cancel()

    with trio.move_on_after(PROBE_S):
        async with trio.open_nursery() as nursery:
            for host, port in addresses:
                nursery.start_soon(ask, host, port)
    return answered
