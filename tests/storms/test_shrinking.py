"""Storms that fail: shrunk to the smallest case that still does, and run again from what is printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from integration.cli.exit_status import INTERRUPTED
from netstack import CostModel, InputError, KillSubtask, ListState, NetworkConfig
from tests.storms import __main__ as storm_command
from tests.storms.__main__ import main
from tests.storms.case import StormCase, Work
from tests.storms.draw import draw_case
from tests.storms.draw_job import pipelines
from tests.storms.one_storm import ANOTHER_RESULT, Outcome, run_storm
from tests.storms.shrinking import again, kind_of, shrink, simplified, steps

pytestmark = pytest.mark.long

WRONG = "missing: 3 records, such as b'x'"


def shrunk(seed: int, fails: Callable[[StormCase], bool]) -> list[StormCase]:
    """The cases of a seed, smaller and smaller, as far as each fails."""
    case = draw_case(seed)
    return [each.case for each in shrink(case, (WRONG,), lambda each: (WRONG,) if fails(each) else ())]


def seed_where(wanted: Callable[[StormCase], bool]) -> int:
    return next(seed for seed in range(1000) if wanted(draw_case(seed)))


def test_what_the_failure_does_not_need_is_left_out() -> None:
    seed = seed_where(lambda case: len(case.faults) > 2 and len(case.vertices) > 3 and bool(case.neighbours))
    cases = shrunk(seed, lambda case: True)
    smallest = cases[-1]
    assert cases[0] == draw_case(seed)
    assert [vertex.work for vertex in smallest.vertices] == [Work.SOURCE, Work.SINK]
    assert [vertex.parallelism for vertex in smallest.vertices] == [1, 1]
    assert smallest.vertices[0].records[0] == 1
    assert smallest.faults == smallest.neighbours == smallest.trouble == smallest.manual_checkpoints_s == ()
    assert smallest.costs == CostModel()
    kept = ("checkpoint_interval_s", "restart_strategy")
    usual = replace(NetworkConfig(), **{name: getattr(smallest.config, name) for name in kept})
    assert smallest.config == usual


def test_what_the_failure_needs_stays() -> None:
    def fails(case: StormCase) -> bool:
        kills = [fault for fault in case.faults if isinstance(fault, KillSubtask)]
        return len(kills) > 0 and max(vertex.parallelism for vertex in case.vertices) > 2

    seed = seed_where(lambda case: fails(case) and len(pipelines(case)) == 1)
    smallest = shrunk(seed, fails)[-1]
    assert [type(fault) for fault in smallest.faults] == [KillSubtask]
    assert max(vertex.parallelism for vertex in smallest.vertices) == 3
    needed = [vertex.name for vertex in smallest.vertices if vertex.work not in (Work.SOURCE, Work.SINK)]
    assert all(repr(name) in repr(smallest.faults) for name in needed)


def test_a_case_is_the_same_again_after_the_same_steps() -> None:
    case = draw_case(seed_where(lambda case: len(case.vertices) > 3))
    found = list(shrink(case, (WRONG,), lambda each: (WRONG,) if len(each.vertices) > 2 else ()))
    assert len(found[-1].steps) > 5
    for each in found:
        assert simplified(case, each.steps) == each.case
    with pytest.raises(InputError, match="'without wings' is no step from here on; one is"):
        simplified(case, ["without wings"])


def test_every_step_makes_another_case_and_none_is_left_at_the_end() -> None:
    for seed in range(40):
        case = draw_case(seed)
        named = list(steps(case))
        assert len(dict(named)) == len(named)
        assert all(step(case) != case for _, step in named)
    smallest = shrunk(3, lambda case: True)[-1]
    assert all("x1" not in name and "default" not in name for name, _ in steps(smallest))


def test_another_failure_does_not_count() -> None:
    other = "put out too often: 1 records, such as b'y'"
    case = draw_case(5)
    found = list(shrink(case, (WRONG,), lambda each: (other,)))
    assert [each.case for each in found] == [case]
    assert kind_of(WRONG) == kind_of("missing: 17 records, such as b'something else'")
    assert kind_of(WRONG) != kind_of(other)


def test_a_defect_is_shrunk_to_a_case_that_fails_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ListState, "add", lambda *args: None)
    seed = next(seed for seed in range(300) if run_storm(seed).problems)
    *_, smallest = shrink(draw_case(seed), run_storm(seed).problems)
    assert {Work.GATHER, Work.REMEMBER} & {vertex.work for vertex in smallest.case.vertices}
    assert len(smallest.case.vertices) == 3
    assert again(draw_case(seed), smallest.steps) == smallest
    assert smallest.replay.startswith(f'python -m tests.storms --seed {seed} --simpler "')


def bad_outcome(seed: int, problem: str) -> Outcome:
    return replace(run_storm(seed), problems=(problem,))


def test_the_command_prints_the_smallest_case_and_runs_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ListState, "add", lambda *args: None)
    seed = next(seed for seed in range(300) if run_storm(seed).problems)
    assert main(["--seeds", "1", "--first-seed", str(seed)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert f"the smallest that fails as seed {seed} does:" in told
    replay = next(line for line in told if "--simpler" in line)
    steps_of = replay.split('"')[1::2]
    options = [option for step in steps_of for option in ("--simpler", step)]
    assert main(["--seed", str(seed), *options]) == 1
    assert replay in capsys.readouterr().out.splitlines()
    monkeypatch.undo()
    assert main(["--seed", str(seed), *options]) == 0


def test_ctrl_c_prints_the_smallest_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(case: StormCase, problems: tuple[str, ...]) -> object:
        found = shrink(case, problems, lambda each: problems)
        yield next(found)
        yield next(found)
        raise KeyboardInterrupt

    monkeypatch.setattr(storm_command, "shrink", interrupted)
    monkeypatch.setattr(storm_command, "run_storm", lambda seed, paranoid: bad_outcome(seed, ANOTHER_RESULT))
    assert main(["--seed", "4"]) == INTERRUPTED
    told = capsys.readouterr().out
    assert "the smallest that fails as seed 4 does:" in told
    assert told.count("--simpler") == 1
