"""Operators with a broadcast side: every subtask has the same of it, also after failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
import trio

from buffers import RecordBlock
from netstack import (
    Agenda,
    AtTime,
    BroadcastState,
    CollectionSource,
    Edge,
    Job,
    KeyedBroadcastOperator,
    KeyedStateBackend,
    KillSubtask,
    NetworkConfig,
    Operator,
    RestartStrategy,
    Scenario,
    ScenarioError,
    SourceObject,
    SubtaskName,
    TransactionLog,
    Vertex,
    emulate,
    transactional_sink,
)
from tests.netstack.whole_jobs import EXACTLY_ONCE, MODES

COUNT = 300
RULES = 40


class Marked(KeyedBroadcastOperator):
    """Counts records by key; counts how often each rule came; gives both at the end."""

    def declare(self, state: KeyedStateBackend) -> None:
        self._count = state.value("count", 0)

    def key_of(self, record: bytes) -> object:
        return int(record) % 10

    def process_record(self, record: bytes) -> Iterable[bytes]:
        assert not hasattr(self.broadcast, "put")
        self._count.update(self._count.get() + 1)
        return []

    def process_broadcast(self, record: bytes, state: BroadcastState) -> Iterable[bytes]:
        state[record] = (state.get(record) or 0) + 1
        return []

    def finish(self) -> RecordBlock:
        rules = [b"rule %b %d" % item for item in self.broadcast.items()]
        return RecordBlock.from_payloads([*rules, *(b"key %d %d" % item for item in self._count.items())])


def job(
    log: TransactionLog,
    settings: dict[str, object],
    ship: str = "broadcast",
    operator: type[Operator] = Marked,
) -> Scenario:
    numbers = [b"%d" % number for number in range(COUNT)]
    rules = [b"r%d" % number for number in range(RULES)]
    config: dict[str, object] = {
        "checkpoint_interval_s": 0.05,
        "restart_strategy": RestartStrategy.FIXED_DELAY,
        "restart_attempts": 1000,
        "restart_delay_s": 0.05,
        "heartbeat_timeout_s": 0.3,
    }
    return Scenario(
        name="broadcast",
        duration_s=60.0,
        config=NetworkConfig(**(config | settings)),  # type: ignore[arg-type]
        vertices=(
            Vertex(name="numbers", source=SourceObject(source=CollectionSource([numbers]), rates=(300.0,))),
            Vertex(name="rules", source=SourceObject(source=CollectionSource([rules]), rates=(40.0,))),
            Vertex(name="mark", parallelism=3, operator=lambda subtask: operator()),
            Vertex(name="out", operator=transactional_sink(log.commit)),
        ),
        edges=(
            Edge(source="numbers", target="mark", ship="hash"),
            Edge(source="rules", target="mark", ship=ship),
            Edge(source="mark", target="out"),
        ),
        faults=tuple(
            KillSubtask(when=AtTime(at), subtask=SubtaskName(name, 0))
            for name, at in (("mark", 0.33), ("rules", 0.6), ("mark", 0.9))
        ),
    )


@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_every_subtask_has_each_rule_once(mode: str) -> None:
    log = TransactionLog()
    run = Job(job(log, dict(MODES[mode])), Agenda())
    trio.run(run.run)
    assert len(run.restarts) == 3
    assert any(restart.checkpoint_id for restart in run.restarts)
    expected = Counter({b"rule r%d 1" % number: 3 for number in range(RULES)})
    expected.update(b"key %d %d" % (number, COUNT // 10) for number in range(10))
    assert Counter(log.records) == expected


def test_others_than_such_operators_get_no_records_by_broadcast_to_their_keys() -> None:
    class Plain(Marked):
        reads_broadcast = False

    with pytest.raises(
        ScenarioError,
        match="mark has keyed state, but broadcast sends records of one key to several subtasks",
    ):
        emulate(job(TransactionLog(), {}, operator=Plain))
    with pytest.raises(
        ScenarioError,
        match="mark has keyed state, but rebalance sends records of one key to several subtasks",
    ):
        emulate(job(TransactionLog(), {}, ship="rebalance"))
