"""Telling a peer that hangs from one that has nothing to say."""

from __future__ import annotations

from typing import Protocol

import trio

from flowcontrol import KeepAlive, Message

from ..tcp.outgoing import Outgoing
from ..tcp.transport_errors import PeerSilentError

_LOOKS = 4  # at whether something was said and heard, during the time after which a peer counts as dead


class Speaking(Protocol):
    """A link that counts what it sends and receives."""

    peer: str
    outgoing: Outgoing
    received_bytes: int

    def enqueue(self, message: Message) -> None:
        """Let `message` leave behind all that waits."""
        ...


async def keep_alive(link: Speaking, limit_s: float) -> None:
    """Speak when there is nothing else to say, and find a peer that does not.

    Raises:
        PeerSilentError: if nothing was heard for `limit_s` seconds, in which this process did run.
    """
    interval = limit_s / _LOOKS
    said = heard = -1
    moved_at = trio.current_time()
    while True:
        due = trio.current_time() + interval
        await trio.sleep_until(due)
        now = trio.current_time()
        stalled = now - due > interval  # it was this process that did not run
        if said == link.outgoing.sent_bytes and not link.outgoing:
            link.enqueue(KeepAlive())
        if heard != link.received_bytes or stalled:
            moved_at = now
        elif now - moved_at >= limit_s - interval:
            raise PeerSilentError(link.peer, f"nothing was heard for {limit_s:g} s")
        said, heard = link.outgoing.sent_bytes, link.received_bytes
