"""A connection between two task managers: moves messages between a link and the state machines.

The producing end writes what its `SendQueue` chooses, as much at a time as the link is ready for. The
consuming end hands arrived buffers to input channels and sends back credit, sizes and resumptions::

    subpartitions -> SendQueue -> ProducerEnd == link ==> ConsumerEnd -> input channels -> gates
                                      ^ <===== link ====== |
                                        AddCredit, NewBufferSize, ResumeConsumption

Task threads do not touch the network themselves, they notify the thread that does (`notifier`).
"""

from __future__ import annotations

from collections.abc import Callable

from buffers import PipelinedSubpartition

from ..engine.agenda import Agenda
from ..engine.randomness import Randomness
from ..scenarios.config import CostModel
from .consumer_end import ConsumerEnd
from .link import Link
from .notifier import Notifier
from .producer_end import ProducerEnd

__all__ = ["ConsumerEnd", "ProducerEnd", "connect"]


def connect(
    agenda: Agenda,
    link: Link,
    costs: CostModel,
    randomness: Randomness,
    find: Callable[[int], PipelinedSubpartition],
    blocked_until: Callable[[], float] | None = None,
) -> tuple[ProducerEnd, ConsumerEnd]:
    """Both ends of a connection over an emulated `link`; `find` gives the subpartition of a channel.

    `blocked_until` tells when the consumer can write, if a link can be blocked at all.
    """
    producer = ProducerEnd(link.producing, Notifier(agenda, costs, randomness), find)
    return producer, ConsumerEnd(link.consuming, Notifier(agenda, costs, randomness, blocked_until))
