"""Changes of Flink's options: the restart that each one needs, and the patch of a FlinkDeployment."""

from __future__ import annotations

from dataclasses import replace

import yaml

from integration.advise.tune.option_changes import (
    Restart,
    option_changes,
    patch_lines,
    restart_for,
    restart_sentences,
    way_back_patch,
)
from integration.advise.tune.settings import first_settings, later_settings
from netstack import OPTIONS, PRESETS, NetworkConfig
from tests.integration.advise.tune.made_up import SCENARIO, recommendation

ENABLED = "taskmanager.network.memory.buffer-debloat.enabled"
TARGET = "taskmanager.network.memory.buffer-debloat.target"
PARTITIONER = "taskmanager.network.adaptive-partitioner.enabled"


def test_the_restart_of_every_option_that_a_setting_changes_is_known() -> None:
    wide = replace(
        SCENARIO,
        vertices=tuple(replace(each, parallelism=2) for each in SCENARIO.vertices),
        config=replace(SCENARIO.config, checkpoint_interval_s=1.0),
    )
    of_1x = replace(
        wide, preset="flink-1.20", config=replace(PRESETS["flink-1.20"], checkpoint_interval_s=1.0)
    )
    restarts: dict[str, Restart] = {}
    for scenario in (wide, of_1x):
        first = first_settings(scenario)
        for setting in (*first, *later_settings(scenario, ["interval"], 5000.0, first[1:])):
            for field in setting.changes:
                if field in OPTIONS:
                    restarts[OPTIONS[field].name] = restart_for(OPTIONS[field].name)
    assert restarts == {
        ENABLED: Restart.TASK_MANAGERS,
        TARGET: Restart.TASK_MANAGERS,
        "taskmanager.network.memory.buffers-per-channel": Restart.TASK_MANAGERS,
        "taskmanager.network.memory.floating-buffers-per-gate": Restart.TASK_MANAGERS,
        PARTITIONER: Restart.JOB,
        "execution.checkpointing.unaligned.enabled": Restart.JOB,
        "execution.checkpointing.aligned-checkpoint-timeout": Restart.JOB,
        "execution.checkpointing.max-concurrent-checkpoints": Restart.JOB,
        "execution.checkpointing.interval": Restart.JOB,
    }


def test_each_kind_of_restart_has_a_sentence_that_names_its_options() -> None:
    fields = {"debloat_enabled": True, "unaligned_enabled": True, "debloat_target_s": 1.0}
    changes = option_changes(fields.items(), NetworkConfig())
    assert restart_sentences(changes) == [
        f"Restart the task managers: they read {ENABLED} only when they start.",
        "Restart the job: it gets execution.checkpointing.unaligned.enabled when it is submitted.",
    ]
    assert restart_sentences(changes[:1]) == [
        "Restart the task managers: they read this option only when they start."
    ]
    assert restart_sentences([]) == []


def test_a_recommendation_has_the_patch_beside_the_lines() -> None:
    found = recommendation()
    assert found.configuration == [f"{ENABLED}: true", f"{TARGET}: 500 ms"]
    assert found.flink_deployment == {"spec": {"flinkConfiguration": {ENABLED: "true", TARGET: "500 ms"}}}
    assert [(each.before, each.configured, each.after) for each in found.changes] == [
        ("false", None, "true"),
        ("1 s", None, "500 ms"),
    ]


def test_the_way_back_restores_options_that_were_given_and_removes_the_others() -> None:
    config = replace(NetworkConfig(), given=frozenset({"debloat_target_s"}))
    changes = option_changes({"debloat_enabled": True, "debloat_target_s": 0.3}.items(), config)
    back = {"spec": {"flinkConfiguration": {ENABLED: None, TARGET: "1 s"}}}
    assert way_back_patch(changes) == back
    assert yaml.safe_load("\n".join(patch_lines(back))) == back
    assert patch_lines(way_back_patch([])) == []
