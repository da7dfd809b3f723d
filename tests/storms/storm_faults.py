"""Draws the faults of a storm: what goes wrong with tasks, the network, messages and the storage."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from netstack import (
    MESSAGES,
    AtTime,
    ChannelItem,
    CutLink,
    DelayMessages,
    DropMessages,
    FailUpload,
    Fault,
    FillStorage,
    KillSubtask,
    KillTaskManager,
    Moment,
    OnAcknowledgement,
    OnChannel,
    ShipStrategy,
    SubtaskName,
    consumers_of_producers,
)

from .case import Neighbour, ReadTrouble, StormCase
from .storm_jobs import weighted

_KILLS = ((0, 30), (1, 48), (2, 18), (3, 3), (5, 1))
_OTHERS = ((0, 40), (1, 38), (2, 16), (3, 3), (5, 1))


Draw = Callable[[random.Random, StormCase, Moment], Fault]


def lasts_for_good(faults: Sequence[Fault]) -> bool:
    """Whether one of the faults, once it has fired, is never over."""
    return any(isinstance(fault, CutLink | FillStorage) and fault.for_s is None for fault in faults)


def draw_faults(chance: random.Random, case: StormCase, longest_s: float) -> tuple[Fault, ...]:
    """None to ten faults, most of them early in a job of at most `longest_s` seconds.

    Some kill a subtask while the job recovers from what was killed before.
    """
    kinds = _kills(chance) + _others(chance, case)
    chance.shuffle(kinds)
    faults = [draw(chance, case, _moment(chance, case, longest_s)) for draw in kinds]
    for fault in list(faults):
        if isinstance(fault, KillSubtask) and isinstance(fault.when, AtTime) and chance.random() < 0.25:
            delay_s = max(0.001, case.config.restart_delay_s)
            recovering = AtTime(fault.when.time_s + delay_s + chance.choice((0.0, 1e-5, 1e-3, 1e-2)))
            faults.append(_kill(chance, case, recovering))
    return tuple(faults)


def draw_read_trouble(chance: random.Random) -> tuple[ReadTrouble, ...]:
    """None, or a few files that cannot be read when a job comes back."""
    if chance.random() > 0.06:
        return ()
    numbers = chance.sample(range(1, 30), chance.randint(1, 3))
    return tuple(ReadTrouble(number=number, damaged=chance.random() < 0.5) for number in sorted(numbers))


def draw_neighbours(chance: random.Random, case: StormCase, longest_s: float) -> tuple[Neighbour, ...]:
    """None, or pools of other jobs that come to the task managers of this one, and go again."""
    if chance.random() > 0.3:
        return ()
    managers = sorted({manager for vertex in case.vertices for manager in vertex.managers})
    return tuple(
        Neighbour(
            task_manager=chance.choice(managers),
            comes_at_s=chance.random() ** 2 * longest_s,
            stays_s=0.01 * 30 ** chance.random(),
            segments=chance.randint(1, 12),
        )
        for _ in range(chance.randint(1, 4))
    )


def _kills(chance: random.Random) -> list[Draw]:
    """What fails the job at once."""
    return [weighted(chance, ((_kill, 4), (_kill_manager, 1))) for _ in range(weighted(chance, _KILLS))]


def _others(chance: random.Random, case: StormCase) -> list[Draw]:
    """What is over after a while, or what the job may survive."""
    kinds = [_cut] if _links(case) else []
    kinds += [_delay, _drop, _storage] if case.takes_checkpoints else []
    return [chance.choice(kinds) for _ in range(weighted(chance, _OTHERS))] if kinds else []


def _kill(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    return KillSubtask(when=when, subtask=_subtask(chance, case))


def _kill_manager(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    return KillTaskManager(when=when, task_manager=chance.choice(chance.choice(case.vertices).managers))


def _cut(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    source, target = chance.choice(_links(case))
    lasts = None if chance.random() < 0.15 else 0.01 * 200 ** chance.random()
    return CutLink(when=when, from_task_manager=source, to_task_manager=target, for_s=lasts)


def _delay(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    vertex, subtask = _concerned(chance, case)
    return DelayMessages(
        when=when,
        messages=chance.choice(MESSAGES),
        delay_s=0.01 * 100 ** chance.random(),
        for_s=0.05 * 20 ** chance.random(),
        vertex=vertex,
        subtask=subtask,
    )


def _drop(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    vertex, subtask = _concerned(chance, case)
    return DropMessages(
        when=when,
        messages=chance.choice(MESSAGES),
        for_s=0.01 * 50 ** chance.random(),
        vertex=vertex,
        subtask=subtask,
    )


def _concerned(chance: random.Random, case: StormCase) -> tuple[str | None, int | None]:
    """Whose messages a fault concerns: those of all, of a vertex, or of a subtask."""
    if chance.random() < 0.4:
        return None, None
    subtask = _subtask(chance, case)
    return subtask.vertex, chance.choice((None, subtask.subtask))


def _storage(chance: random.Random, case: StormCase, when: Moment) -> Fault:
    lasts = 0.02 * 50 ** chance.random()
    if chance.random() < 0.5:
        return FailUpload(when=when, for_s=lasts)
    return FillStorage(when=when, for_s=None if chance.random() < 0.1 else lasts)


def _moment(chance: random.Random, case: StormCase, longest_s: float) -> Moment:
    kind = chance.random()
    if kind < 0.35 or (kind > 0.5 and not case.takes_checkpoints):
        return AtTime(chance.random() ** 2 * (longest_s + 0.2))
    if kind > 0.7:
        return OnAcknowledgement(number=chance.randint(1, 7), subtask=_subtask(chance, case))
    item = ChannelItem.BUFFER if kind < 0.5 else ChannelItem.BARRIER
    source, target = _channel(chance, case)
    number = chance.randint(1, 8 if item is ChannelItem.BUFFER else 6)
    return OnChannel(item=item, number=number, source=source, target=target)


def _channel(chance: random.Random, case: StormCase) -> tuple[SubtaskName, SubtaskName]:
    """Two subtasks that a channel connects."""
    source, target, ship = chance.choice(case.edges)
    producers, consumers = case.vertex(source).parallelism, case.vertex(target).parallelism
    consumer = chance.randrange(consumers)
    # The first of those that a pointwise exchange connects.
    first = consumer * producers // consumers
    producer = first if ShipStrategy.of(ship).pointwise else chance.randrange(producers)
    return SubtaskName(source, producer), SubtaskName(target, consumer)


def _subtask(chance: random.Random, case: StormCase) -> SubtaskName:
    vertex = chance.choice(case.vertices)
    return SubtaskName(vertex.name, chance.randrange(vertex.parallelism))


def _links(case: StormCase) -> list[tuple[str, str]]:
    """The pairs of task managers that records go between."""
    pairs = set[tuple[str, str]]()
    for source, target, ship in case.edges:
        producer, consumer = case.vertex(source), case.vertex(target)
        reached = consumers_of_producers(ship, producer.parallelism, consumer.parallelism)
        for subtask, consumers in enumerate(reached):
            pairs.update((producer.manager_of(subtask), consumer.manager_of(each)) for each in consumers)
    return sorted(pair for pair in pairs if pair[0] != pair[1])
