"""What a connection between processes is held to."""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds on what a peer may ask for, and on how long it may take; times in seconds.

    Raises:
        ValueError: if one of them is not positive.
    """

    max_frame_bytes: int = 16 << 20
    """The longest frame, header included."""
    max_channels: int = 65_536
    """Channels of one connection that a peer may open."""
    max_connections: int = 1024
    """Connections of one listener, those that have yet to prove themselves included.

    Of the latter there are never more than half the descriptors that the process has left.
    """
    handshake_timeout_s: float = 10.0
    """From the first byte of a connection to its proof."""
    connect_timeout_s: float = 60.0
    """Until all peers are connected."""
    keep_alive_s: float = 30.0
    """A peer that sends nothing for so long is dead; detecting that takes up to a quarter longer."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0, got {getattr(self, name)}")


def free_descriptors() -> int:
    """How many more files and sockets this process may open (RLIMIT_NOFILE)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(0, soft - len(os.listdir("/dev/fd")))
