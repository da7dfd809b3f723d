"""Storms over TCP: the cases that can be, and that none goes wrong."""

from __future__ import annotations

import pytest

from netstack import KillSubtask, KillTaskManager
from tests.storms.__main__ import main
from tests.storms.over_tcp import case_over_tcp, run_over_tcp

pytestmark = pytest.mark.long

SEEDS = range(12)


def test_no_storm_over_tcp_goes_wrong() -> None:
    outcomes = [run_over_tcp(seed) for seed in SEEDS]
    assert [(outcome.seed, outcome.problems) for outcome in outcomes if outcome.problems] == []
    assert {outcome.end for outcome in outcomes} == {"ended"}
    assert sum(outcome.checkpoints["COMPLETED"] for outcome in outcomes) > len(SEEDS)


def test_what_is_not_possible_over_tcp_is_left_out() -> None:
    for seed in range(300):
        case = case_over_tcp(seed)
        assert all(len(vertex.managers) == 1 for vertex in case.vertices)
        assert all(isinstance(fault, KillSubtask | KillTaskManager) for fault in case.faults)
        assert case.continuation is None
        assert (case.trouble, case.neighbours) == ((), ())


def test_the_command_runs_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tcp", "--seeds", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "wrong: none"
    assert main(["--tcp", "--seed", "3"]) == 0
    assert "seed 3, at most 60 s" in capsys.readouterr().out
