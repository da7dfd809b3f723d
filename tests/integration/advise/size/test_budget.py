"""Plans for network memory: the split, what sizes cost by emulation, and what the command prints of it.

The split is as good as an independent linear program within the budget, with multipliers that hold.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from rich.console import Console
from scipy.optimize import linprog

from integration import load_scenario
from integration.advise.size.budget import (
    IN_AS_LITTLE,
    IN_BUDGET,
    NOW,
    ONE_SETTING,
    PLAN,
    BudgetPlan,
    Curve,
    Place,
    PlanFigures,
    PlannedExchange,
    PlannedMemory,
    PlannedPlace,
    Planner,
    Trial,
    convex,
    figures_of,
    places_of,
    plan_budget,
    planned_scenario,
    read_per_s,
    split,
    with_sizes,
)
from integration.advise.size.job_size import size_job
from integration.cli.app import main
from integration.show.terminal.sizing import SizeReport, print_plan
from netstack import (
    CheckpointResult,
    Edge,
    EdgeBuffers,
    GeneratorSpec,
    LinkConditions,
    NetworkConfig,
    Result,
    Scenario,
    Steady,
    Vertex,
    VertexCheckpoint,
    VertexSteady,
    emulate,
    parse_flink_size,
    plan_segments,
)

MIB = 1 << 20
SEGMENT = 32 << 10


def chain(*, latency_s: float = 0.0, rate: float = 0.0, **settings: object) -> Scenario:
    """Two sources before two subtasks that take 1000 records a second each, and a sink."""
    source = GeneratorSpec(record_bytes=2000, rates=(rate,), wave_s=10.0 if rate else None)
    return replace(
        Scenario(
            name="job",
            duration_s=30.0,
            warmup_s=6.0,
            vertices=(
                Vertex(name="source", parallelism=2, source=source),
                Vertex(name="stage", parallelism=2, service=((0.0, 1e-3),)),
            ),
            edges=(Edge(source="source", target="stage"),),
            link=LinkConditions(latency_s=latency_s),
            config=NetworkConfig(checkpoint_interval_s=2.0),
        ),
        **settings,  # type: ignore[arg-type]
    )


def in_slots() -> Scenario:
    """Four producers before four consumers, over two task managers; and a sink behind each."""
    placed = ("tm-1", "tm-1", "tm-1", "tm-2")
    return chain(
        vertices=(
            Vertex(name="source", parallelism=4, task_manager=placed, source=GeneratorSpec(record_bytes=100)),
            Vertex(name="stage", parallelism=4, task_manager=placed),
            Vertex(name="sink", parallelism=4, task_manager=placed),
        ),
        edges=(Edge(source="source", target="stage"), Edge(source="stage", target="sink", ship="forward")),
    )


def figures(delay_ms: float, records_per_s: float = 1000.0) -> PlanFigures:
    return PlanFigures(delay_ms=delay_ms, checkpoint_ms=delay_ms, records_per_s=records_per_s)


def a_gate(points: dict[int, PlanFigures | None]) -> Place:
    return Place("gate", parts=2, pools=Counter({"tm": 2}), steps=[2, 4, 6, 8], base=6, points=points)


FALLING, GENTLE = convex({2: 100, 4: 50, 8: 10}), convex({1: 30, 5: 10, 9: 12})
Pools = NDArray[np.int64]


def some_places(seed: int) -> tuple[list[Curve], Pools, int]:
    """Curves, the numbers of pools in each of two task managers, and a budget that the least sizes fit."""
    chance, curves, pools = Random(seed), list[Curve](), []
    for _ in range(chance.randint(1, 6)):
        sizes = sorted(chance.sample(range(1, 60), chance.randint(1, 5)))
        curves.append(convex({size: chance.uniform(1, 100) for size in sizes}))
        pools.append((chance.randint(1, 4), chance.randint(0, 4)))
    matrix = np.array(pools).T
    return curves, matrix, most(matrix, map(min, curves)) + chance.randint(0, 200)


def most(pools: Pools, sizes: Iterable[int]) -> int:
    """Return the buffers of the task manager that needs most."""
    return int((pools @ list(sizes)).max())


def cost_of(curves: list[Curve], sizes: list[int]) -> float:
    pairs = zip(curves, sizes, strict=True)
    return sum(float(np.interp(size, list(curve), list(curve.values()))) for curve, size in pairs)


def optimum(curves: list[Curve], pools: Pools, budget: float) -> float:
    """The least cost without whole numbers, if each size is a mixture of the corners of its curve."""
    corners = [(place, *corner) for place, curve in enumerate(curves) for corner in curve.items()]
    one = np.array([[place == corner[0] for corner in corners] for place in range(len(curves))], dtype=float)
    used = [[row[place] * size for place, size, _ in corners] for row in pools]
    costs = [cost for *_, cost in corners]
    found = linprog(costs, A_ub=used, b_ub=[budget] * len(pools), A_eq=one, b_eq=np.ones(len(curves)))
    assert found.success, found.message
    return float(found.fun)


@given(st.integers(0, 10**6))
def test_a_split_fits_and_is_the_optimum_except_for_whole_numbers(seed: int) -> None:
    """One buffer of every place less is at least what rounding down costs."""
    curves, pools, budget = some_places(seed)
    sizes, _ = split(curves, pools, budget)
    assert most(pools, sizes) <= budget
    for place, (curve, size) in enumerate(zip(curves, sizes, strict=True)):
        assert min(curve) <= size <= max(curve)
        more = [*sizes[:place], size + 1, *sizes[place + 1 :]]
        assert size == max(curve) or most(pools, more) > budget
    assert cost_of(curves, sizes) >= optimum(curves, pools, budget) - 1e-6
    rounded = budget - int(pools.sum(axis=1).max())
    if rounded >= most(pools, map(min, curves)):
        assert cost_of(curves, sizes) <= optimum(curves, pools, rounded) + 1e-6
    for size in range(60):
        equal = [max(min(curve), size) for curve in curves]
        assert most(pools, equal) > budget or cost_of(curves, sizes) <= cost_of(curves, equal) + 1e-6


@given(st.integers(0, 10**6))
def test_the_conditions_of_karush_kuhn_and_tucker_hold_except_for_whole_numbers(seed: int) -> None:
    """The multipliers bound the cost of all splits from below, and are 0 where the budget is not used up."""
    curves, pools, budget = some_places(seed)
    _, worth = split(curves, pools, budget)
    multipliers = np.array([saved for saved, _ in worth])
    assert min(multipliers) >= 0
    prices = multipliers @ pools
    lowest = [
        min(cost + price * size for size, cost in curve.items())
        for curve, price in zip(curves, prices, strict=True)
    ]
    bound = sum(lowest) - sum(multipliers) * (budget + 0.5)
    assert bound == pytest.approx(optimum(curves, pools, budget + 0.5), rel=1e-6, abs=1e-5)
    for row, (saved, places) in zip(pools, worth, strict=True):
        assert bool(places) == (saved > 0)
        assert all(row[place] for place in places)
        if row @ list(map(max, curves)) <= budget:
            assert saved == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("curves", "pools", "budget", "sizes", "worth"),
    [
        pytest.param(
            [FALLING, GENTLE], [[2, 0], [0, 3]], 10, [5, 3], [(10 / 2, [0]), (5 / 3, [1])], id="each its own"
        ),
        pytest.param([FALLING, GENTLE], [[1, 1]], 7, [6, 1], [(10, [0])], id="shared"),
        pytest.param([FALLING], [[1]], 4, [4], [(10, [0])], id="at a corner that of more memory"),
        pytest.param([FALLING], [[3], [2]], 12, [4], [(10 / 3, [0]), (0, [])], id="held back by another"),
        pytest.param([FALLING, GENTLE], [[1, 1]], 1000, [8, 5], [(0, [])], id="more than is of use"),
        pytest.param([{3: 7.0}], [[1]], 9, [3], [(0, [])], id="no choice"),
    ],
)
def test_a_split_says_what_one_more_buffer_saves_and_where(
    curves: list[Curve],
    pools: list[list[int]],
    budget: int,
    sizes: list[int],
    worth: list[tuple[float, list[int]]],
) -> None:
    found, saved = split(curves, np.array(pools), budget)
    assert found == sizes
    assert [places for _, places in saved] == [places for _, places in worth]
    assert [each for each, _ in saved] == pytest.approx([each for each, _ in worth])


def test_straight_pieces_of_one_slope_share_what_is_left_and_all_are_named() -> None:
    curves: list[Curve] = [{0: 8, 4: 0}, {0: 4, 2: 0}]
    sizes, ((saved, places),) = split(curves, np.array([[1, 1]]), 3)
    assert sum(sizes) == 3
    assert cost_of(curves, sizes) == pytest.approx(6)
    assert saved == pytest.approx(2)
    assert places == [0, 1]


@given(st.dictionaries(st.integers(0, 50), st.integers(0, 50), min_size=1))
def test_a_curve_is_convex_and_lies_under_its_points(costs: dict[int, int]) -> None:
    curve = convex(costs)
    slopes = np.diff(list(curve.values())) / np.diff(list(curve))
    assert all(slope < following for slope, following in pairwise([*slopes, 0.0]))
    assert all(cost - cost_of([curve], [size]) >= -1e-9 for size, cost in costs.items())
    assert curve.items() <= costs.items()
    assert min(curve) == min(costs)
    assert curve[max(curve)] == min(costs.values())


def test_places_have_what_links_need_up_to_what_the_options_give() -> None:
    partition, gate = places_of(chain(latency_s=0.05), [2e6])
    assert (partition.steps[0], partition.steps[-1]) == (3, 12)
    assert partition.pools == {"source": 2}
    in_flight = 2e6 * 0.1 / SEGMENT
    assert 7 > in_flight > 6
    assert (gate.steps[0], gate.steps[-1]) == (7, 28)
    assert gate.base == 21
    assert gate.base in gate.steps
    assert gate.pools == {"stage": 2}


def test_a_gate_has_credit_ahead_of_data_and_a_subpartition_what_the_others_leave() -> None:
    scenario = chain()
    places = places_of(scenario, [0.0])
    (edge,) = with_sizes(scenario, places, (5, 6)).edges
    assert edge.buffers == EdgeBuffers(exclusive=2, floating=2, partition=5, max_per_channel=4)
    (edge,) = with_sizes(scenario, places, (30, 1)).edges
    assert edge.buffers == EdgeBuffers(exclusive=0, floating=1, partition=30, max_per_channel=10)


@pytest.mark.parametrize("scenario", [chain(), in_slots()], ids=["chain", "slots"])
def test_sizes_come_to_the_memory_that_the_job_then_has(scenario: Scenario) -> None:
    scenario = replace(scenario, config=NetworkConfig(max_overdraft_buffers_per_gate=0))
    places = places_of(scenario, [0.0] * len(scenario.edges))
    sizes = [place.steps[-1] for place in places]
    planned = Counter[str]()
    for place, size in zip(places, sizes, strict=True):
        planned.update({name: count * size for name, count in place.pools.items()})
    memory = plan_segments(with_sizes(scenario, places, sizes))
    assert memory.keys() == planned.keys()
    # A gate some of whose channels are local has exclusive buffers for the others only.
    assert all(memory[name] <= planned[name] for name in memory)
    if len(scenario.edges) == 1:
        assert memory == planned


def test_a_size_counts_if_the_job_does_what_is_asked() -> None:
    gate = a_gate({2: figures(5), 4: figures(4, 950), 6: figures(9), 8: figures(1, 900)})
    assert gate.curve(990) == {2: 5}
    assert gate.curve(900) == {2: 5, 8: 1}
    gate.points[2] = None
    assert gate.curve(990) == {6: 9}


def test_chance_is_no_gain() -> None:
    gate = a_gate({2: figures(300), 4: figures(200.5), 6: figures(200), 8: figures(250)})
    assert gate.curve(990) == {2: 300, 4: 200}


@pytest.mark.parametrize(
    ("points", "wanted"),
    [
        ({2: figures(100), 6: figures(150)}, []),
        ({2: figures(100), 6: figures(99.5)}, []),
        ({2: figures(100), 6: figures(80)}, [4]),
        ({2: figures(100, 800), 6: figures(150)}, [4]),
        ({2: None, 6: figures(150)}, [4]),
        ({2: figures(100), 4: figures(90), 6: figures(80)}, [8]),
        ({2: figures(100), 4: figures(80), 6: figures(80)}, []),
        ({2: figures(100), 4: figures(90), 6: figures(80), 8: figures(70)}, []),
        ({2: figures(2.9), 6: figures(2)}, []),
    ],
)
def test_sizes_are_measured_while_larger_ones_bring_something(
    points: dict[int, PlanFigures | None], wanted: list[int]
) -> None:
    assert a_gate(points).next_sizes(990) == wanted


@pytest.mark.parametrize(("too_small", "wanted"), [(2, [4]), (4, [5]), (5, [])])
def test_between_a_size_that_counts_and_one_that_does_not_the_middle_is_measured(
    too_small: int, wanted: list[int]
) -> None:
    assert a_gate({too_small: figures(5, 900), 6: figures(9)}).next_below(990) == wanted
    assert a_gate({too_small: figures(5), 6: figures(9)}).next_below(990) == []


def test_delays_are_those_from_vertex_to_vertex_and_the_last_barrier_counts() -> None:
    scenario = chain(
        vertices=(
            *(Vertex(name=name, source=GeneratorSpec(record_bytes=100)) for name in ("a", "b")),
            Vertex(name="join", parallelism=2),
            Vertex(name="sink"),
        ),
        edges=(
            Edge(source="a", target="join"),
            Edge(source="b", target="join"),
            Edge(source="join", target="sink"),
        ),
    )
    vertices = [
        VertexCheckpoint(name="a", start_delay_ms=[5.0], alignment_ms=[0.0]),
        VertexCheckpoint(name="b", start_delay_ms=[10.0], alignment_ms=[None]),
        VertexCheckpoint(name="join", start_delay_ms=[20.0, 30.0], alignment_ms=[80.0, 40.0]),
        VertexCheckpoint(name="sink", start_delay_ms=[130.0], alignment_ms=[5.0]),
    ]
    done = CheckpointResult(id=1, t=9.0, duration_ms=150.0, vertices=vertices)
    early = CheckpointResult(id=2, t=1.0, duration_ms=999.0, vertices=vertices)
    failed = CheckpointResult(id=3, t=9.0, status="FAILED", vertices=vertices)
    steady = Steady(
        from_s=8.0,
        to_s=40.0,
        checkpoints=1,
        vertices=[
            VertexSteady(name="a", parallelism=1, records_out_per_s=[7.0], bytes_out_per_s=[100.0]),
            VertexSteady(name="b", parallelism=1, records_out_per_s=[5.0], bytes_out_per_s=[300.0]),
            VertexSteady(
                name="join", parallelism=2, bytes_in_per_s=[300.0, 100.0], bytes_out_per_s=[200.0, 200.0]
            ),
            VertexSteady(name="sink", parallelism=1, bytes_in_per_s=[400.0]),
        ],
    )
    result = Result(
        scenario=scenario,
        preset=scenario.preset,
        clock="virtual",
        seed=1,
        emulated_seconds=40.0,
        wall_seconds=0.0,
        checkpoints=[early, done, failed],
        steady=[steady],
    )
    assert figures_of([result, result]) == PlanFigures(
        delay_ms=(100 - 10) + (135 - 100), checkpoint_ms=150, records_per_s=12
    )
    assert read_per_s(scenario, result) == [75.0, 225.0, 400.0]
    nothing = msgspec.structs.replace(result, checkpoints=[early, failed])
    assert figures_of([result, nothing]) is None


def test_a_setting_has_the_memory_that_it_is_tried_with_and_is_emulated_once() -> None:
    scenario = chain(config=NetworkConfig(checkpoint_interval_s=2.0, network_memory_max_bytes=SEGMENT))
    counts: list[int] = []
    planner = Planner(scenario, 64 * MIB, None, 1, counts.append)
    assert planner.job.config.checkpoint_interval_s == pytest.approx(1.57)
    assert planner.within(planner.job, 9 * SEGMENT) is None
    assert planner.within(planner.job, 1 << 50) == planner.now is not None
    assert counts == [1]


@pytest.fixture(scope="module")
def far() -> BudgetPlan:
    """A full job over links of 100 ms, which has too many buffers in one place and too few in another."""
    scenario = chain(latency_s=0.05)
    return plan_budget(scenario, 512 * MIB, check=True)


def trial(plan: BudgetPlan, name: str) -> PlanFigures:
    (found,) = [each.figures for each in plan.trials if each.name == name]
    assert found is not None
    return found


@pytest.mark.long
def test_a_plan_halves_the_delays_at_the_same_throughput(far: BudgetPlan) -> None:
    plan, now, one = (trial(far, name) for name in (PLAN, NOW, ONE_SETTING))
    assert plan.records_per_s >= 0.99 * now.records_per_s
    assert plan.checkpoint_ms < 0.55 * now.checkpoint_ms
    assert plan.delay_ms <= one.delay_ms < now.delay_ms  # with one exchange, one setting may be the plan
    assert trial(far, IN_BUDGET) == now
    memory = {each.name: each.memory_bytes for each in far.trials}
    assert memory[IN_AS_LITTLE] == memory[PLAN] == max(each.planned_bytes for each in far.task_managers)
    (exchange,) = far.exchanges
    assert exchange.gate.planned >= 6  # what the link needs


@pytest.mark.long
def test_of_more_than_enough_the_rest_is_left_and_worth_nothing(far: BudgetPlan) -> None:
    for memory in far.task_managers:
        assert memory.planned_bytes == memory.enough_bytes < MIB
        assert (memory.saved_ms_per_mib, memory.saved_at, memory.left_ms) == (0, [], 0)


@pytest.mark.long
def test_the_planned_job_is_the_one_that_was_emulated(far: BudgetPlan) -> None:
    planned, (exchange,) = planned_scenario(chain(latency_s=0.05), far), far.exchanges
    buffers = planned.edges[0].buffers
    assert buffers == exchange.buffers
    assert buffers.partition == exchange.partition.planned
    assert (buffers.exclusive or 0) * 2 + (buffers.floating or 0) == exchange.gate.planned
    measured = emulate(planned).steady[0].end_to_end_ms
    assert measured == pytest.approx(trial(far, PLAN).checkpoint_ms, rel=0.15)


FILE = """\
name = "far-wave"
duration = "30 s"
warmup = "6 s"
link = { latency = "50 ms" }

[flink]
"execution.checkpointing.interval" = "2 s"

[[vertices]]
name = "source"
parallelism = 2
source = { record_bytes = 2000, rate = [600], wave = "10 s" }

[[vertices]]
name = "stage"
parallelism = 2
service = "1 ms"

[[edges]]
from = "source"
to = "stage"
"""


@pytest.mark.long
def test_a_tight_budget_says_what_more_would_bring_and_the_plan_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "job.toml", tmp_path / "out"
    file.write_text(FILE)
    arguments = ["size", str(file), "--budget", "448 kb", "--seeds", "1", "--check", "--out", str(out)]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert "448 KiB of network memory in a task manager. More would help." in words
    assert re.search(
        r"stage: [\d.]+ KiB more would shorten the time of barriers by .* ms, at first by .* ms per MiB",
        words,
    )
    assert "It would go to the gates of stage that read source." in words
    assert "source: more has no effect." in words
    report = msgspec.json.decode((out / "size.json").read_bytes(), type=SizeReport)
    plan = report.plan
    assert plan is not None
    assert plan.budget_bytes == 448 << 10
    source, stage = plan.task_managers
    assert stage.least_bytes < stage.planned_bytes <= 448 << 10 < stage.enough_bytes
    assert stage.saved_ms_per_mib > 0
    # Convex: the first of what is left brings at least the mean of it.
    assert stage.saved_ms_per_mib * (stage.enough_bytes - stage.planned_bytes) / MIB >= stage.left_ms > 0
    assert source.planned_bytes == source.enough_bytes
    planned = load_scenario(out / "plan.toml")
    assert planned == planned_scenario(load_scenario(file), plan)
    keys = tomllib.loads((out / "plan.toml").read_text())["edges"][0]["buffers"]
    assert "buffers = { " + ", ".join(f"{key} = {value}" for key, value in keys.items()) + " }" in words


def shown(
    planned: PlanFigures, now: PlanFigures, *, saved_ms: float = 0.0, preset: str = "flink-2.2"
) -> list[str]:
    """Return the lines printed for a plan of the chain."""
    place = PlannedPlace(parts=2, least=3, enough=6, planned=4)
    buffers = EdgeBuffers(exclusive=1, floating=2, partition=4, max_per_channel=2)
    memory = PlannedMemory(
        task_managers=["stage"],
        least_bytes=6 * SEGMENT,
        planned_bytes=8 * SEGMENT,
        enough_bytes=12 * SEGMENT,
        saved_ms_per_mib=saved_ms,
        saved_at=["the gates"] if saved_ms else [],
        left_ms=saved_ms / 8,
    )
    plan = BudgetPlan(
        budget_bytes=MIB,
        seeds=[1],
        runs=9,
        exchanges=[PlannedExchange("source", "stage", place, place, buffers)],
        task_managers=[memory],
        trials=[
            Trial(name=PLAN, memory_bytes=8 * SEGMENT, figures=planned),
            Trial(name=NOW, memory_bytes=None, figures=now),
        ],
    )
    console = Console(width=1000)
    with console.capture() as captured:
        print_plan(size_job(chain(preset=preset)), plan, console)
    return captured.get().splitlines()


def test_the_page_of_a_plan_begins_with_what_it_needs_and_changes() -> None:
    lines = shown(figures(146), figures(294))
    assert lines[0] == "job  flink-2.2, buffers of 32.0 KiB; 1.00 MiB for each task manager"
    assert lines[1:5] == [
        "256 KiB of network memory is enough for a task manager, split as below.",
        "Barriers take 146 ms (now 294 ms), and checkpoints 146 ms (now 294 ms).",
        "The throughput stays as it is now: 1,000 records/s.",
        "Emulated in 9 runs, virtual clock, seed 1.",
    ]
    assert "stage: more has no effect unless other task managers get more, too." in lines


def test_the_page_of_a_plan_says_what_more_memory_would_do() -> None:
    lines = shown(figures(146), figures(294), saved_ms=80)
    assert lines[1] == "The plan uses 256 KiB of network memory in a task manager. More would help."
    line = "stage: 128 KiB more would shorten the time of barriers by 10 ms, at first by 80 ms per MiB. "
    assert f"{line}It would go to the gates." in lines


def test_the_page_of_a_plan_says_what_it_does_not_achieve() -> None:
    no_gain, lost = shown(figures(762), figures(765))[3], shown(figures(100, 985), figures(294))[3]
    assert no_gain == (
        "Barriers do not wait for buffers here: none of the sizes that were tried makes them faster."
    )
    assert lost.startswith(
        "The plan costs throughput: now the job processes 1,000 records/s, with this plan 985, which is "
        "1.5 % less. None of the splits that were tried loses less than "
    )


def test_the_page_of_a_plan_names_the_options_that_its_flink_obeys() -> None:
    old = shown(figures(146), figures(294), preset="flink-1.20")
    assert "  taskmanager.network.memory.buffers-per-channel: 1" in old
    assert "  taskmanager.network.memory.floating-buffers-per-gate: 2" in old
    assert "Flink 2.2 cannot be set to this plan" in "\n".join(shown(figures(146), figures(294)))


def test_a_job_without_an_exchange_has_no_memory_to_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        'name = "j"\nduration = "1 s"\nvertices = [{ name = "s", source = { record_bytes = 99 } }]\n'
    )
    assert main(["size", str(file), "--budget", "1 mb"]) == 2
    assert capsys.readouterr().err == (
        "netstack size: --budget: j has no exchange, so there is no network memory to split\n"
    )


@pytest.mark.parametrize(
    ("budget", "line"),
    [
        (
            "12 xb",
            "--budget: '12 xb' has the unknown unit 'xb'; known units are b, kb, mb, gb, tb; it must be",
        ),
        ("-1 mb", "--budget: '-1 mb' is negative"),
        ("16 kb", "--budget: '16 kb' is smaller than one buffer; it must be at least 32 kb"),
        ("lots", "--budget: 'lots' is not a whole number with a unit"),
    ],
)
def test_a_budget_that_is_none_is_one_line(
    budget: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(FILE)
    assert main(["size", str(file), "--budget", budget]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"netstack size: {line}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.long
def test_a_budget_below_the_least_is_one_line_with_the_least_and_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(FILE)
    out = tmp_path / "out"
    assert main(["size", str(file), "--budget", "128 kb", "--seeds", "1", "--out", str(out)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    needed, part = map(parse_flink_size, re.findall(r"\d+ kb(?= are|, of)", error))
    assert needed / 2 < part <= needed
    assert (needed % SEGMENT, part % SEGMENT) == (0, 0)
    assert error.startswith(
        "netstack size: --budget: 128 kb is too little: task manager stage needs at least"
    )
    assert error.endswith("are for the gates of stage that read source")
    assert list(out.iterdir()) == []
