"""What a network buffer holds, and how the network layer has to treat it.

| type | event | blocks upstream | priority | announced |
|---|---|---|---|---|
| DATA_BUFFER | | | | |
| EVENT_BUFFER | y | | | |
| PRIORITIZED_EVENT_BUFFER | y | | y | |
| ALIGNED_CHECKPOINT_BARRIER | y | y | | |
| TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER | y | y | | y |
| RECOVERY_COMPLETION | y | y | | |
| END_OF_SEGMENT, RECOVERY_METADATA | y | | | |
"""

from __future__ import annotations

from enum import IntEnum


class DataType(IntEnum):
    """The kind of a buffer; its value is the byte on the wire (Flink's Buffer.DataType).

    0 is Flink's NONE, "there is no buffer", which never travels and so has no member here.
    """

    DATA_BUFFER = 1
    EVENT_BUFFER = 2
    PRIORITIZED_EVENT_BUFFER = 3
    ALIGNED_CHECKPOINT_BARRIER = 4
    TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER = 5
    RECOVERY_COMPLETION = 6
    END_OF_SEGMENT = 7
    RECOVERY_METADATA = 8


EVENT_TYPES = frozenset(DataType) - {DataType.DATA_BUFFER}
"""Types that hold an event: they need no credit and no pooled memory."""

BLOCKING_TYPES = frozenset(
    {
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
        DataType.RECOVERY_COMPLETION,
    }
)
"""Types after which a subpartition sends nothing until consumption resumes."""

PRIORITY_TYPES = frozenset({DataType.PRIORITIZED_EVENT_BUFFER})
"""Types that overtake the data queued before them."""

ANNOUNCED_TYPES = frozenset({DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER})
"""Types whose arrival a receiver tells ahead of their turn."""
