"""Connections to the other processes, with the interfaces that the job builder and the agenda need.

A connection is served by its own trio tasks, beside the task that runs the agenda. Their callbacks run
through `Agenda.external`, because the agenda may sleep and has to update its time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeVar

from flowcontrol import BufferHeader, FrameSink, Message

from ..engine.agenda import Agenda
from ..exchange.connection import ConsumerEnd, ProducerEnd
from ..exchange.emulated_link import EmulatedLink
from ..exchange.link import LinkEnd, Receiver
from ..exchange.tcp_link import TcpLink
from ..jobs.build import Find


class TcpConnections:
    """This process's ends of the connections to other task managers.

    `links` maps the name of each other task manager to the link to it.
    """

    links: Mapping[tuple[str, str], EmulatedLink] = {}
    """Empty: faults cannot cut these connections."""

    def __init__(
        self, links: Mapping[str, TcpLink], agenda: Agenda, find: Find, max_backoff_s: float
    ) -> None:
        self._ends: list[_AgendaProducingEnd | _AgendaConsumingEnd] = []
        self.producers: list[ProducerEnd] = []
        self._reading: dict[str, ConsumerEnd] = {}
        for name, link in links.items():
            notify = partial(link.notify, agenda.external)
            producing = _AgendaProducingEnd(link.producing, agenda)
            consuming = _AgendaConsumingEnd(link.consuming, agenda)
            self._ends += [producing, consuming]
            self.producers.append(ProducerEnd(producing, notify, find))
            self._reading[name] = ConsumerEnd(consuming, notify, link.peer, max_backoff_s)

    @property
    def consumers(self) -> list[ConsumerEnd]:
        """All ends that receive buffers."""
        return list(self._reading.values())

    def reading(self, consumer: str, producer: str) -> ConsumerEnd:
        """Return the end at which this task manager reads from `producer`."""
        return self._reading[producer]

    def finish(self) -> None:
        """Stop writing. Later messages of tasks are dropped; arriving messages are still accepted."""
        for end in self._ends:
            end.finish()


R = TypeVar("R")
"""Receiver of the messages that arrive at an end."""


class _AgendaEnd(Generic[R]):
    """One end of a link, whose callbacks run through `Agenda.external`."""

    def __init__(self, end: LinkEnd[R], agenda: Agenda) -> None:
        self._end = end
        self._agenda = agenda
        self._finished = False

    @property
    def ready(self) -> bool:
        """Whether another message may be written before the earlier ones have left."""
        return self._end.ready

    @property
    def now(self) -> float:
        """The time of the run."""
        return self._agenda.now

    @property
    def leaves_at(self) -> float:
        """Now: credit that is gained later has a message of its own."""
        return self._agenda.now

    def after(self, delay_s: float, work: Callable[[], None]) -> None:
        """Call `work` after `delay_s` seconds of the run."""
        self._agenda.after(delay_s, work)

    def write(self, size: int, written: Callable[[], None] | None, message: Message) -> float | None:
        """Send `message`. After `finish`, the message is dropped, and `written` is not called."""
        if not self._finished:
            on_written = None if written is None else partial(self._agenda.external, written)
            return self._end.write(size, on_written, message)
        return None

    def finish(self) -> None:
        """Stop writing."""
        self._finished = True
        self._end.finish()


class _AgendaProducingEnd(_AgendaEnd[Receiver]):
    def listen(self, receiver: Receiver) -> None:
        """Pass arriving messages to `receiver`."""
        self._end.listen(_AgendaReceiver(receiver, self._agenda))


class _AgendaConsumingEnd(_AgendaEnd[FrameSink]):
    def listen(self, receiver: FrameSink) -> None:
        """Pass arriving messages to `receiver`."""
        self._end.listen(_AgendaSink(receiver, self._agenda))


class _AgendaReceiver:
    def __init__(self, receiver: Receiver, agenda: Agenda) -> None:
        self._receive = receiver.receive
        self._external = agenda.external

    def receive(self, message: Message) -> None:
        self._external(self._receive, message)


class _AgendaSink(_AgendaReceiver):
    def __init__(self, receiver: FrameSink, agenda: Agenda) -> None:
        super().__init__(receiver, agenda)
        self.place = receiver.place  # adds no entries to the agenda
        self._landed = receiver.landed

    def landed(self, header: BufferHeader) -> None:
        self._external(self._landed, header)
