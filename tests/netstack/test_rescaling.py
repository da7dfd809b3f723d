"""Jobs that go on from a checkpoint at another parallelism, with output and state as if they had not."""

from __future__ import annotations

from functools import cache

import pytest

from netstack import MemoryStorage, TransactionLog, emulate

from .job_settings import EXACTLY_ONCE, MODES
from .rescaled_job import expected, final_sums, gone_on, job_of, latest, stopped


@cache
def undisturbed() -> tuple[list[bytes], dict[bytes, int]]:
    log, storage = TransactionLog(), MemoryStorage()
    emulate(job_of(log, 2), storage=storage)
    return sorted(log.records), final_sums(storage)


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (2, 3), (3, 2), (5, 4)])
@pytest.mark.parametrize("mode", EXACTLY_ONCE)
def test_output_and_state_are_those_of_a_run_that_went_through(mode: str, before: int, after: int) -> None:
    log = TransactionLog()
    begin = latest(stopped(job_of(log, before, **MODES[mode]), at=0.4))
    assert 0 < len(log.records) < len(expected())
    assert (begin.metadata.persisted_bytes > 0) == (mode != "aligned")
    result, storage = gone_on(job_of(log, after, **MODES[mode]), begin)
    assert result.restarts == []
    assert sorted(log.records) == undisturbed()[0] == expected()
    assert final_sums(storage) == undisturbed()[1]
