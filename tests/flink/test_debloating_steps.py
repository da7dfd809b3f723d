"""Steps of debloating: as the agent writes them, as the emulator takes them, and side by side."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

from netstack import InputError, emulate
from tests.flink.cluster import TestbedError
from tests.flink.debloating_steps import (
    Step,
    check_steps,
    emulated_steps,
    figures,
    of_scenario,
    side_by_side,
    steps_in,
)
from tests.flink.references import scenario_named

BEGAN_MS = 1_795_174_951_000.0


def written(file: Path, *rows: dict[str, object]) -> Path:
    """A file as a task manager writes it, whose last line was cut off."""
    lines = [json.dumps(row) for row in rows]
    file.write_text("\n".join([*lines, lines[-1][:20]]), "utf-8")
    return file


def row(ms: int, task: str, channels: list[list[object]], throughput: int | None) -> dict[str, object]:
    return {
        "ms": int(BEGAN_MS) + ms,
        "task": task,
        "gate": 0,
        "size": 8192,
        "channels": channels,
        "throughput": throughput,
    }


def test_lines_of_several_task_managers_become_steps_in_the_order_of_time(tmp_path: Path) -> None:
    second = row(400, "v1 (2/2)#0 (a3f0_0a44_1_0)", [[9, False], [0, True]], None)
    first = row(200, "v1 (1/2)#0 (a3f0_0a44_0_0)", [[9, False], [8, False]], 204_800)
    files = [written(tmp_path / "tm1.steps", second), written(tmp_path / "tm0.steps", first)]
    assert steps_in([*files, tmp_path / "jm.steps"], of_scenario(["source", "consumer"]), BEGAN_MS) == [
        Step(0.2, "consumer", 0, 0, 8192, (9, 8), 0, 204_800),
        Step(0.4, "consumer", 1, 0, 8192, (9, 0), 1, None),
    ]


def test_no_step_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="is it switched on"):
        steps_in([tmp_path / "tm0.steps"], of_scenario(["source"]), BEGAN_MS)


def test_the_emulators_steps_have_the_sizes_and_the_throughput_of_its_gauges() -> None:
    scenario = replace(scenario_named("hot_source_on200ms"), duration_s=12.0, warmup_s=5.0)
    result = emulate(scenario, seed=3)
    steps = emulated_steps(scenario, 3)
    series = next(each for each in result.series if each.vertex == "consumer")
    for subtask, sizes in enumerate(series.debloatedBufferSize):
        mine = [step for step in steps if step.subtask == subtask]
        assert len(mine) == pytest.approx(12.0 / 0.2, abs=2)
        for second, size in zip(series.t, sizes, strict=True):
            later = [step for step in mine if step.t > second]
            assert not later or later[0].size == size
    assert {step.vertex for step in steps} == {"consumer"}
    assert any(step.blocked for step in steps)
    assert any(not step.blocked and sum(step.in_use) > 10 for step in steps)


def test_figures_are_of_each_gate_and_run_by_itself() -> None:
    def gate(subtask: int, sizes: list[int], blocked: list[int]) -> list[Step]:
        return [
            Step(0.2 * place, "consumer", subtask, 0, size, (3, 1), held, 100e3)
            for place, (size, held) in enumerate(zip(sizes, blocked, strict=True))
        ]

    steady = gate(0, [4000] * 5, [0] * 5)
    moving = gate(1, [4000, 5000, 5000, 6000, 6000], [0, 1, 1, 1, 0])
    rows = {row.name: row.spread for row in figures([steady, moving], 0.0, 1.0)}
    assert rows["announcements, a gate"] == pytest.approx((0.1, 1.0, 1.9))
    assert rows["steps with a blocked channel"] == pytest.approx((3.0, 30.0, 57.0))
    assert rows["buffers in use, some blocked"] == (4, 4, 4)
    assert rows["longest channel to the mean"] == (1.5, 1.5, 1.5)
    assert rows["throughput"] == (100, 100, 100)


def test_steps_stand_side_by_side_and_what_there_is_none_of_is_a_dash() -> None:
    flinks = [[Step(1.0, "consumer", 0, 0, 4000, (3, 1), 0, None)]]
    ours = [[Step(1.0, "consumer", 0, 0, 5000, (4, 2), 1, 2e5)]]
    lines = side_by_side(flinks, ours, [(0.0, 2.0)]).splitlines()
    assert lines[0] == "consumer, 0 to 2 s"
    shown = {line[:31].strip(): line[31:].split("  ") for line in lines[2:] if line}
    assert [part.strip() for part in shown["size in force, bytes"] if part.strip()] == [
        "4000 (4000-4000)",
        "5000 (5000-5000)",
    ]
    assert [part.strip() for part in shown["throughput, KB/s"] if part.strip()] == ["-", "200 (200-200)"]
    assert max(map(len, lines)) <= 80


def test_each_input_of_a_task_has_a_table_and_the_emulator_numbers_gates_by_inputs() -> None:
    scenario = replace(scenario_named("two_inputs_by_key_on500ms"), duration_s=4.0, warmup_s=1.0)
    turned = tuple(
        replace(edge, input=1 - edge.input) if edge.target == "join" else edge for edge in scenario.edges
    )
    means = []
    for edges in (scenario.edges, turned):
        steps = [step for step in emulated_steps(replace(scenario, edges=edges), 1) if step.vertex == "join"]
        means.append([mean(step.throughput or 0 for step in steps if step.gate == gate) for gate in (0, 1)])
        lines = side_by_side([steps], [steps], [(0.0, 4.0)]).splitlines()
        assert [line for line in lines if line.startswith("join")] == [
            "join, input 1, 0 to 4 s",
            "join, input 2, 0 to 4 s",
        ]
    assert means[0][0] > 2 * means[0][1]  # of orders, which are larger and more than payments
    assert means[1] == means[0][::-1]


def test_a_scenario_without_steps_is_refused() -> None:
    scenario = scenario_named("hot_source_on200ms")
    off = replace(scenario, config=replace(scenario.config, debloat_enabled=False))
    with pytest.raises(InputError, match="debloating is off"):
        check_steps(off)
    with pytest.raises(InputError, match="a size for each channel"):
        check_steps(scenario_named("hot_source_on200ms", "per-channel"))
