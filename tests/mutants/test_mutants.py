"""Ten of the mutants; all of them are ``python -m tests.mutants``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant, UnplantableError, copy_into, mutated, planted
from tests.mutants.trials import first_failing_test, first_wrong_storm
from tests.test_layers import ROOT

SEEDS = 40
"""Storms for each of the ten, which are found by fewer."""

TEN = (
    "credit-announced-twice",
    "alignment-without-the-last",
    "exclusive-leaks",
    "overtaken-data-not-copied",
    "arrivals-out-of-order",
    "begun-record-loses-a-byte",
    "complete-without-the-last",
    "nothing-subsumed-is-deleted",
    "committed-before-the-checkpoint",
    "event-before-its-data",
)


def mutant(name: str) -> Mutant:
    return next(each for each in MUTANTS if each.name == name)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    copy_into(folder)
    return folder


@pytest.mark.parametrize("each", MUTANTS, ids=lambda each: each.name)
def test_each_defect_can_be_planted(each: Mutant) -> None:
    assert mutated(each, (ROOT / each.path).read_text("utf-8"))
    assert all((ROOT / tests).exists() for tests in each.tests)


def test_there_are_defects_of_all_layers_under_names_of_their_own() -> None:
    assert len({each.name for each in MUTANTS}) == len(MUTANTS) >= 60
    floors = {"exchange", "state", "checkpoints", "tasks", "faults", "jobs", "engine"}
    assert {each.layer for each in MUTANTS} == {"flowcontrol", "buffers", *floors}


def test_a_defect_that_does_not_fit_is_told() -> None:
    with pytest.raises(UnplantableError, match="2 times, not once"):
        mutated(Mutant("twice", "a.py", "x", "y", ""), "x = x")
    with pytest.raises(UnplantableError, match="no Python"):
        mutated(Mutant("broken", "a.py", "x", "(", ""), "x = 1")


def test_nothing_is_found_where_nothing_is_planted(copy: Path) -> None:
    assert first_wrong_storm(copy, 5) is None


@pytest.mark.parametrize("name", TEN)
def test_storms_find_a_defect(name: str, copy: Path) -> None:
    with planted(mutant(name), copy):
        assert first_wrong_storm(copy, SEEDS) is not None


def test_tests_find_a_defect(copy: Path) -> None:
    with planted(mutant("debloating-never-grows"), copy):
        found = first_failing_test(copy, mutant("debloating-never-grows"))
    assert found is not None
    assert found.startswith("flowcontrol/test_debloat.py::")
