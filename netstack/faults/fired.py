"""What has gone wrong in a run, of what was to go wrong."""

from __future__ import annotations

import msgspec


class FiredFault(msgspec.Struct, frozen=True):
    """A fault that has fired: when, in seconds since the tasks opened; its kind; and what happened then."""

    time: float
    kind: str
    what: str
