"""The first storms, and the seed that determines each of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.storms.draw import draw_case
from tests.storms.one_storm import run_case, run_storm

SEEDS = 300
CHUNK = 30


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(CHUNK, SEEDS, CHUNK))]
)
def test_each_record_counts_and_all_memory_returns_whatever_happens(first: int) -> None:
    outcomes = map(run_storm, range(first, first + CHUNK))
    assert [(each.seed, each.problems) for each in outcomes if each.problems] == []


def test_a_seed_determines_the_case_and_its_run() -> None:
    first, second = draw_case(3), draw_case(3)
    assert list(first.lines()) == list(second.lines())
    assert first.records == second.records
    assert run_case(first) == run_case(second)


def test_a_record_that_the_sinks_lack_is_a_problem() -> None:
    case = draw_case(3)
    name, parts = next(iter(case.records.items()))
    never_read = [*parts, [b"\0\0never read"]]
    problems = run_case(replace(case, records={**case.records, name: never_read})).problems
    assert len(problems) == 1
    assert problems[0].startswith("lost: ")
