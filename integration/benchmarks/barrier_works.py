"""Barriers: what a checkpoint costs at a gate, from its first barrier to the last, whatever else waits.

A step is one checkpoint: a barrier from each channel, then what the handler says is to be done. Expected on
one core: about a microsecond a barrier, more where channels are blocked and resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from flowcontrol import (
    Alignment,
    AlternatingAligner,
    BarrierAligner,
    BarrierHandler,
    BarrierTracker,
    CheckpointBarrier,
    CheckpointOptions,
    decode_event,
    encode_event,
)

from .micro import Work, micro_case

CHANNELS = 100
ALIGNED = CheckpointOptions()
UNALIGNED = CheckpointOptions(Alignment.UNALIGNED)
AT_LEAST_ONCE = CheckpointOptions(Alignment.AT_LEAST_ONCE)


def checkpoint(make: Callable[[int], BarrierHandler], options: CheckpointOptions) -> Work:
    """Barriers of one checkpoint after the other; a step returns how many actions came of it."""
    handler = make(CHANNELS)
    numbers = count(1)

    def step() -> int:
        barrier = CheckpointBarrier(next(numbers), 0.0, options)
        return sum(len(handler.barrier(channel, barrier, 0.0)) for channel in range(CHANNELS))

    return Work(step, CHANNELS)


def codec() -> Work:
    """A barrier to bytes and back, as it is sent; a step returns it."""
    barrier = CheckpointBarrier(7, 1.5, ALIGNED)
    return Work(lambda: decode_event(encode_event(barrier)))


CASES = (
    micro_case(
        "barrier",
        "a barrier of a checkpoint over 100 channels",
        {
            "ALIGNED": partial(checkpoint, BarrierAligner, ALIGNED),
            "UNALIGNED": partial(checkpoint, AlternatingAligner, UNALIGNED),
            "AT_LEAST_ONCE": partial(checkpoint, BarrierTracker, AT_LEAST_ONCE),
            "codec": codec,
        },
        copies=False,
    ),
)
