"""The table of settings: which apply to a job, and the lines that they need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integration.advise.tune.choice import Constraints
from integration.advise.tune.settings import Mechanism, Question, Setting, first_settings, later_settings
from netstack import PRESETS, CheckpointMode, NetworkConfig, Scenario, ShipStrategy, with_options
from tests.integration.advise.tune.made_up import SCENARIO

ADAPTIVE = "adaptive selection"


def with_config(scenario: Scenario = SCENARIO, **values: object) -> Scenario:
    return replace(scenario, config=with_options(scenario.config, values))


def names(scenario: Scenario, **options: object) -> list[str]:
    return [each.name for each in first_settings(scenario, Question(**options))]  # type: ignore[arg-type]


def named(name: str, scenario: Scenario, **options: object) -> Setting:
    settings = first_settings(scenario, Question(**options))  # type: ignore[arg-type]
    return next(each for each in settings if each.name == name)


def in_turns(strategy: ShipStrategy = ShipStrategy.REBALANCE, preset_name: str = "flink-2.3") -> Scenario:
    source, sink = SCENARIO.vertices
    (edge,) = SCENARIO.edges
    return replace(
        SCENARIO,
        preset=preset_name,
        config=replace(PRESETS[preset_name], checkpoint_interval_s=20.0),
        vertices=(source, replace(sink, parallelism=3)),
        edges=(replace(edge, ship=strategy.value),),
    )


def test_targets_and_unaligned_checkpoints_are_tried_beside_the_present_setting() -> None:
    assert names(SCENARIO, targets_s=(1.0, 0.1)) == [
        "now",
        "target 100 ms",
        "target 1 s",
        "unaligned",
        "unaligned after 1 s",
    ]


def test_the_present_target_is_not_tried_twice_and_debloating_is_tried_without() -> None:
    debloated = with_config(debloat_enabled=True, debloat_target_s=0.1)
    assert names(debloated, targets_s=(1.0, 0.1))[:3] == ["now", "debloating off", "target 1 s"]


def test_a_large_job_gets_a_longer_interval_only_if_nothing_else_is_tried() -> None:
    source, sink = SCENARIO.vertices
    vertices = (replace(source, parallelism=50), replace(sink, parallelism=50))
    for scenario, tried in ((SCENARIO, True), (replace(SCENARIO, vertices=vertices), False)):
        assert bool(later_settings(scenario, tuple(Mechanism), 30e3, [])) is tried
        assert later_settings(scenario, [Mechanism.INTERVAL], 30e3, [])


def test_unaligned_checkpoints_are_left_out_where_flink_takes_none() -> None:
    at_least_once = with_config(checkpoint_mode=CheckpointMode.AT_LEAST_ONCE)
    without = with_config(checkpoint_interval_s=None)
    for scenario in (at_least_once, without):
        assert not [name for name in names(scenario) if "unaligned" in name]
    assert "unaligned" not in names(with_config(unaligned_enabled=True))
    assert "unaligned after 500 ms" in names(SCENARIO, constraints=Constraints(max_checkpoint_ms=1000.0))


def test_adaptive_selection_is_tried_where_records_go_to_several_consumers_in_turns() -> None:
    assert ADAPTIVE in names(in_turns())
    assert ADAPTIVE in names(in_turns(ShipStrategy.RESCALE))
    assert ADAPTIVE not in names(in_turns(ShipStrategy.HASH))
    assert ADAPTIVE not in names(SCENARIO), "one consumer leaves no choice"
    assert ADAPTIVE not in names(in_turns(preset_name="flink-2.2"))


def test_adaptive_selection_of_a_later_version_says_to_upgrade() -> None:
    setting = named(ADAPTIVE, in_turns(preset_name="flink-2.2"), version="flink-2.3")
    assert setting.action == "upgrade to Flink 2.3 and turn adaptive partition selection on"
    assert named(ADAPTIVE, in_turns()).action == "turn adaptive partition selection on"


def test_fewer_buffers_are_tried_in_flink_1_alone() -> None:
    assert "fewer buffers" in names(in_turns(preset_name="flink-1.20"))
    assert "fewer buffers" not in names(in_turns(preset_name="flink-2.2"))


def test_a_longer_interval_gives_checkpoints_a_pause() -> None:
    (setting,) = later_settings(SCENARIO, ("interval",), 19_000.0, [])  # type: ignore[arg-type]
    assert setting.lines(SCENARIO.config) == ["execution.checkpointing.interval: 40 s"]
    assert not later_settings(SCENARIO, ("interval",), 15_000.0, [])  # type: ignore[arg-type]
    assert not later_settings(SCENARIO, ("interval",), None, [])  # type: ignore[arg-type]


def test_the_lines_are_those_that_change_something() -> None:
    prefix = "taskmanager.network.memory.buffer-debloat"
    target = named("target 500 ms", SCENARIO)
    assert target.lines(SCENARIO.config) == [f"{prefix}.enabled: true", f"{prefix}.target: 500 ms"]
    debloated = with_config(debloat_enabled=True)
    assert named("target 500 ms", debloated).lines(debloated.config) == [f"{prefix}.target: 500 ms"]
    assert named("debloating off", debloated).lines(debloated.config) == [f"{prefix}.enabled: false"]
    unaligned = named("unaligned", SCENARIO)
    assert unaligned.lines(SCENARIO.config) == ["execution.checkpointing.unaligned.enabled: true"]


def test_a_policy_that_flink_lacks_has_no_lines() -> None:
    setting = named(
        "longest-when-unblocked, target 500 ms", SCENARIO, policies=["flink", "longest-when-unblocked"]
    )
    assert setting.lines(SCENARIO.config) == []
    assert setting.apply(SCENARIO).config.debloat_policy == "longest-when-unblocked"


@pytest.mark.parametrize("setting", first_settings(SCENARIO), ids=lambda setting: setting.name)
def test_a_setting_changes_what_its_lines_say(setting: Setting) -> None:
    changed = setting.apply(SCENARIO).config
    assert isinstance(changed, NetworkConfig)
    assert (changed == SCENARIO.config) == (not setting.lines(SCENARIO.config))
