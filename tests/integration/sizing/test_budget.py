"""Plans for network memory: what sizes cost by emulation, the split, and what the command prints of it."""

import re
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from integration import load_scenario
from integration.cli.app import main
from integration.present.sizing import SizeReport, print_plan
from integration.sizing.allocation import buffers_of
from integration.sizing.budget import (
    AS_IT_IS,
    IN_AS_LITTLE,
    NOW,
    ONE_SETTING,
    PLAN,
    BudgetPlan,
    Emulations,
    Figures,
    Place,
    Trial,
    figures_of,
    places_of,
    plan_budget,
    planned_scenario,
    read_per_s,
    with_sizes,
)
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
)
from netstack.jobs.build import plan_segments

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


def figures(delay_ms: float, records_per_s: float = 1000.0) -> Figures:
    return Figures(delay_ms=delay_ms, checkpoint_ms=delay_ms, records_per_s=records_per_s, checkpoints=9)


def a_gate(points: dict[int, Figures | None]) -> Place:
    return Place(
        edge=0,
        kind="gate",
        parts=2,
        pools=Counter({"tm": 2}),
        needed=2,
        steps=[2, 4, 6, 8],
        base=6,
        points=points,
    )


def test_places_have_what_links_need_up_to_what_the_options_give() -> None:
    partition, gate = places_of(chain(latency_s=0.05), [2e6])
    assert (partition.needed, partition.steps[0], partition.steps[-1]) == (3, 3, 12)
    assert partition.pools == {"source": 2}
    in_flight = 2e6 * 0.1 / SEGMENT
    assert gate.needed == 7 > in_flight > 6
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
    planned = buffers_of(sizes, [place.pools for place in places])
    memory = plan_segments(with_sizes(scenario, places, sizes))
    assert memory.keys() == planned.keys()
    # A gate some of whose channels are local has exclusive buffers for the others only.
    assert all(memory[name] <= planned[name] for name in memory)
    if len(scenario.edges) == 1:
        assert memory == planned


def test_a_size_counts_if_the_job_does_what_is_asked_up_to_the_base() -> None:
    gate = a_gate({2: figures(5), 4: figures(4, 950), 6: figures(9), 8: figures(12, 900)})
    assert list(gate.counting(990)) == [6]
    assert sorted(gate.counting(900)) == [2, 4, 6, 8]
    assert gate.curve(figures(9), 990).corners == ((6, 0),)
    gate.points[2] = None
    assert sorted(gate.counting(900)) == [4, 6, 8]


def test_a_curve_is_what_a_size_changes_and_chance_is_no_gain() -> None:
    gate = a_gate({2: figures(300), 4: figures(200.5), 6: figures(200), 8: figures(250)})
    curve = gate.curve(figures(200), 990)
    assert curve.corners == ((2, 100), (4, 0))


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
    points: dict[int, Figures | None], wanted: list[int]
) -> None:
    base = points[6]
    assert base is not None
    assert a_gate(points).next_sizes(base, 990) == wanted


def test_between_a_size_that_counts_and_one_that_does_not_the_middle_is_measured() -> None:
    assert a_gate({2: figures(5, 900), 6: figures(9)}).next_below(6) == [4]
    assert a_gate({4: figures(5, 900), 6: figures(9)}).next_below(6) == [5]
    assert a_gate({5: figures(5, 900), 6: figures(9)}).next_below(6) == []
    assert a_gate({2: figures(5), 6: figures(9)}).next_below(2) == []


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
    assert figures_of([result, result]) == Figures(
        delay_ms=(100 - 10) + (135 - 100), checkpoint_ms=150, records_per_s=12, checkpoints=2
    )
    assert read_per_s(scenario, result) == [75.0, 225.0, 400.0]
    nothing = msgspec.structs.replace(result, checkpoints=[early, failed])
    assert figures_of([result, nothing]) is None


def test_a_trial_has_the_memory_that_it_says() -> None:
    scenario = chain()
    runs = Emulations(scenario, None, 1, lambda count: None)
    assert runs.scenario.config.checkpoint_interval_s == pytest.approx(1.57)
    assert runs.trial("short", runs.scenario, 9 * SEGMENT) == Trial(
        name="short", memory_bytes=9 * SEGMENT, figures=None
    )
    assert runs.trial("ample", runs.scenario, 1 << 50).figures is not None


def test_a_window_has_whole_periods_of_the_load_unless_they_are_long() -> None:
    source = GeneratorSpec(record_bytes=2000, rates=(1.0,), burst_s=12.0)
    vertices = (
        Vertex(name="source", parallelism=2, source=source),
        Vertex(name="stage", parallelism=2, emit_every_s=30.0),
        Vertex(name="sink", emit_every_s=3600.0),
    )
    edges = (Edge(source="source", target="stage"), Edge(source="stage", target="sink"))
    runs = Emulations(chain(vertices=vertices, edges=edges), None, 1, lambda count: None)
    ((result,),) = runs.results([runs.scenario])
    (window,) = result.scenario.windows
    assert window == (30.0, 60.0)


@pytest.fixture(scope="module")
def far() -> BudgetPlan:
    """A full job over links of 100 ms, which has too many buffers in one place and too few in another."""
    scenario = chain(latency_s=0.05)
    return plan_budget(scenario, 512 * MIB, check=True)


def trial(plan: BudgetPlan, name: str) -> Trial:
    return next(each for each in plan.trials if each.name == name)


@pytest.mark.long
def test_a_plan_halves_the_delays_at_the_same_throughput(far: BudgetPlan) -> None:
    plan, now = trial(far, PLAN).figures, trial(far, AS_IT_IS).figures
    assert plan is not None
    assert now is not None
    assert plan.records_per_s >= 0.99 * now.records_per_s
    assert plan.checkpoint_ms < 0.55 * now.checkpoint_ms
    assert far.expected_delay_ms == pytest.approx(plan.delay_ms, rel=0.15)
    one = trial(far, ONE_SETTING).figures
    assert one is not None
    assert plan.delay_ms <= one.delay_ms < now.delay_ms  # with one exchange, one setting may be the plan
    assert trial(far, IN_AS_LITTLE).memory_bytes == trial(far, PLAN).memory_bytes
    gate = next(place for place in far.places if place.kind == "gate")
    assert gate.planned >= gate.needed == 6


@pytest.mark.long
def test_of_more_than_enough_the_rest_is_left_and_worth_nothing(far: BudgetPlan) -> None:
    for memory in far.task_managers:
        assert memory.planned_bytes == memory.enough_bytes < MIB
        assert (memory.saved_ms_per_mib, memory.saved_at, memory.left_ms) == (0, [], 0)


@pytest.mark.long
def test_the_planned_job_is_the_one_that_was_emulated(far: BudgetPlan) -> None:
    planned = planned_scenario(chain(latency_s=0.05), far)
    assert planned.edges[0].buffers == EdgeBuffers(
        exclusive=far.places[1].exclusive,
        floating=far.places[1].floating,
        partition=far.places[0].planned,
        max_per_channel=far.places[0].max_per_channel,
    )
    measured = emulate(planned).steady[0].end_to_end_ms
    emulated = trial(far, PLAN).figures
    assert emulated is not None
    assert measured == pytest.approx(emulated.checkpoint_ms, rel=0.15)


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
    assert "stage: more would go to the gates of stage that read source. At first it takes" in words
    assert "source: more brings nothing." in words
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


@pytest.mark.parametrize("preset", ["flink-2.2", "flink-1.20"])
@pytest.mark.long
def test_a_plan_is_shown_beside_the_job_as_it_is_with_what_its_flink_can_be_told(
    preset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(FILE.replace('duration = "30 s"', f'duration = "30 s"\npreset = "{preset}"'))
    assert main(["size", str(file), "--budget", "384 kb", "--seeds", "1", "--json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=SizeReport)
    assert report.plan is not None
    assert [each.name for each in report.plan.trials] == [PLAN, NOW]
    now = trial(report.plan, NOW).figures
    assert now is not None
    assert now.records_per_s == report.plan.records_per_s_now
    planned = trial(report.plan, PLAN).figures
    assert planned is not None
    console = Console(width=1000)
    with console.capture() as shown:
        print_plan(report.size, report.plan, console)
    assert ("network.memory.buffers-per-channel: " in shown.get()) == (preset == "flink-1.20")
    assert ("Flink 2.2 has no options for this" in shown.get()) == (preset == "flink-2.2")
    assert "Throughput is lost" not in shown.get()
    slower = msgspec.structs.replace(report.plan, records_per_s_now=planned.records_per_s / 0.985)
    with console.capture() as shown:
        print_plan(report.size, slower, console)
    assert ", 1.5 % less. No split that was tried loses less than 1 %." in shown.get()


def test_a_job_without_an_exchange_has_no_memory_to_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        'name = "j"\nduration = "1 s"\nvertices = [{ name = "s", source = { record_bytes = 99 } }]\n'
    )
    assert main(["size", str(file), "--budget", "1 mb"]) == 2
    assert capsys.readouterr().err == (
        "netstack size: --budget: j has no exchange, so there is no memory to split\n"
    )


@pytest.mark.parametrize(
    ("budget", "line"),
    [
        ("12 xb", "--budget: '12 xb' has the unit 'xb', which is none of b, kb, mb, gb, tb; it must be"),
        ("-1 mb", "--budget: '-1 mb' is negative"),
        ("16 kb", "--budget: '16 kb' holds no buffer; one has 32 kb"),
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
