"""Costs of keyed state in tables, or with a changelog, for a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from netstack import (
    CostModel,
    KeyedStateBackend,
    MemoryStorage,
    Result,
    Scenario,
    StateBackendType,
    TransactionLog,
    emulate,
)
from netstack.state.subtask_state import ChangelogTerms, SubtaskState
from netstack.state.table_backend import TableSettings
from netstack.tasks.state_work import state_times
from tests.netstack.table_model import ModelStores
from tests.netstack.whole_jobs import sums_job

COSTS = CostModel(table_read_s=0.001, table_write_s=0.01, log_write_s=0.1)


def work(keyed: KeyedStateBackend) -> None:
    keyed.set_current_key(1, 1)
    keyed.value("v").update(5)
    keyed.value("v").get()
    keyed.value("v").clear()


@pytest.mark.parametrize(
    ("more", "owed"),
    [
        ({"tables": TableSettings(ModelStores())}, 0.021),
        ({"changelog": ChangelogTerms(in_files=False, discard=print)}, 0.2),
    ],
)
def test_each_access_is_owed_once(more: dict[str, Any], owed: float) -> None:
    state = SubtaskState("sums", 0, 1, 8, **more)
    times = state_times(state, COSTS)
    assert times is not None
    assert times.owed_s() == 0.0
    work(state.keyed)
    assert times.owed_s() == pytest.approx(owed)
    assert times.owed_s() == 0.0


def test_state_in_memory_owes_nothing() -> None:
    assert state_times(SubtaskState("sums", 0, 1, 8), COSTS) is None


def emulate_at_cost(scenario: Scenario, cost_s: float) -> Result:
    costs = replace(scenario.costs, table_read_s=cost_s, table_write_s=0.0, table_flush_rate_bytes_per_s=1e12)
    return emulate(replace(scenario, costs=costs), storage=MemoryStorage(), tables=ModelStores())


def test_a_job_is_busy_for_what_it_reads() -> None:
    """600 sums that each read an entry, in 1 ms."""
    scenario = sums_job(TransactionLog(), state_backend=StateBackendType.ROCKSDB, checkpoint_interval_s=None)
    free, dear = emulate_at_cost(scenario, 0.0), emulate_at_cost(scenario, 0.001)
    busy = [sum(each[-1] for each in result.series[2].busy_ms) for result in (free, dear)]
    assert busy[1] - busy[0] == pytest.approx(600, rel=0.05)
