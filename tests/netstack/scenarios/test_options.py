import dataclasses

import pytest

from netstack import (
    OPTIONS,
    PRESETS,
    CheckpointMode,
    CheckpointStorageType,
    CostModel,
    LinkConditions,
    NetworkConfig,
    QuantityError,
    RestartStrategy,
    preset_for,
    with_options,
)

# Option, the default of flink-2.2, and that of flink-1.20 where it is another.
DEFAULTS = {
    "taskmanager.memory.segment-size": ("32 kb",),
    "taskmanager.memory.min-segment-size": ("256",),
    "taskmanager.memory.starting-segment-size": ("1024", "32 kb"),
    "taskmanager.memory.network.min": ("64 mb",),
    "taskmanager.network.memory.buffers-per-channel": (2,),
    "taskmanager.network.memory.floating-buffers-per-gate": (8,),
    "taskmanager.network.memory.max-buffers-per-channel": (10,),
    "taskmanager.network.memory.max-overdraft-buffers-per-gate": (20, 5),
    "taskmanager.network.request-backoff.initial": ("100 ms",),
    "taskmanager.network.request-backoff.max": ("10000 ms",),
    "taskmanager.network.memory.buffer-debloat.enabled": (False,),
    "taskmanager.network.memory.buffer-debloat.period": ("200 ms",),
    "taskmanager.network.memory.buffer-debloat.target": ("1 s",),
    "taskmanager.network.memory.buffer-debloat.samples": (20,),
    "taskmanager.network.memory.buffer-debloat.threshold-percentages": (25,),
    "execution.buffer-timeout.enabled": (True,),
    "execution.buffer-timeout.interval": ("100 ms",),
    "execution.checkpointing.mode": ("EXACTLY_ONCE",),
    "execution.checkpointing.timeout": ("10 min",),
    "execution.checkpointing.min-pause": ("0 ms",),
    "execution.checkpointing.max-concurrent-checkpoints": (1,),
    "execution.checkpointing.tolerable-failed-checkpoints": (0,),
    "execution.checkpointing.unaligned.enabled": (False,),
    "execution.checkpointing.unaligned.forced": (False,),
    "execution.checkpointing.aligned-checkpoint-timeout": ("0 ms",),
    "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file": (5,),
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": (True,),
    "execution.checkpointing.num-retained": (1,),
    "state.storage.fs.memory-threshold": ("20 kb",),
    "restart-strategy.fixed-delay.attempts": (1,),
    "restart-strategy.fixed-delay.delay": ("1 s",),
    "restart-strategy.exponential-delay.initial-backoff": ("1 s",),
    "restart-strategy.exponential-delay.max-backoff": ("1 min",),
    "restart-strategy.exponential-delay.backoff-multiplier": ("1.5",),
    "restart-strategy.exponential-delay.reset-backoff-threshold": ("1 h",),
    "restart-strategy.exponential-delay.jitter-factor": (0.1,),
    "restart-strategy.failure-rate.max-failures-per-interval": (1,),
    "restart-strategy.failure-rate.failure-rate-interval": ("1 min",),
    "restart-strategy.failure-rate.delay": ("1 s",),
    "heartbeat.timeout": (50000,),
}
UNSET = {
    "taskmanager.memory.network.max",
    "taskmanager.network.memory.read-buffer.required-per-gate.max",
    "execution.checkpointing.interval",
    "execution.checkpointing.dir",
    "execution.checkpointing.savepoint-dir",
    "execution.checkpointing.storage",
    "restart-strategy.type",
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    "state.backend.rocksdb.localdir",
}


def field_of(name: str) -> str:
    return next(field for field, option in OPTIONS.items() if option.name == name)


@pytest.mark.parametrize("name", DEFAULTS)
def test_each_preset_has_flinks_default(name):
    field, values = field_of(name), DEFAULTS[name]
    parse = OPTIONS[field].kind.parse
    assert getattr(PRESETS["flink-2.2"], field) == parse(values[0])
    assert getattr(PRESETS["flink-1.20"], field) == parse(values[-1])


def test_options_without_a_default_are_unset():
    assert {
        option.name for field, option in OPTIONS.items() if getattr(NetworkConfig(), field) is None
    } == UNSET


def test_every_field_has_an_option_of_its_own():
    fields = {field.name for field in dataclasses.fields(NetworkConfig)} - {"given", "debloat_policy"}
    assert set(OPTIONS) == fields
    assert len({option.name for option in OPTIONS.values()}) == len(OPTIONS)


@pytest.mark.parametrize("field", OPTIONS)
def test_a_rendered_value_is_read_back(field):
    value = getattr(NetworkConfig(), field)
    if value is not None:
        kind = OPTIONS[field].kind
        assert kind.parse(kind.render(value)) == value


def test_options_that_were_given_are_known():
    config = with_options(PRESETS["flink-1.20"], {"debloat_enabled": True})
    assert config.debloat_enabled
    assert config.given == {"debloat_enabled"}
    assert config.max_overdraft_buffers_per_gate == 5


def test_buffers_are_not_flushed_when_the_timeout_is_disabled():
    assert NetworkConfig().buffer_timeout_s == 0.1
    assert NetworkConfig(buffer_timeout_enabled=False).buffer_timeout_s is None


@pytest.mark.parametrize("text", ["exactly_once", "EXACTLY_ONCE"])
def test_the_case_of_a_mode_does_not_matter(text):
    assert OPTIONS["checkpoint_mode"].kind.parse(text) is CheckpointMode.EXACTLY_ONCE


@pytest.mark.parametrize("text", ["none", "disable", "off", "OFF"])
def test_no_restart_has_several_names(text):
    assert OPTIONS["restart_strategy"].kind.parse(text) is RestartStrategy.NONE


@pytest.mark.parametrize("text", ["fixed-delay", "fixeddelay", "Fixed-Delay"])
def test_a_restart_after_a_fixed_delay_has_two_names(text):
    assert OPTIONS["restart_strategy"].kind.parse("exponentialdelay") is RestartStrategy.EXPONENTIAL_DELAY
    assert OPTIONS["restart_strategy"].kind.parse(text) is RestartStrategy.FIXED_DELAY


@pytest.mark.parametrize("strategy", RestartStrategy)
def test_a_job_restarts_as_its_strategy_says_or_with_a_growing_delay_if_it_takes_checkpoints(strategy):
    given = NetworkConfig(restart_strategy=strategy)
    for takes in (True, False):
        assert given.restart_strategy_for(takes_checkpoints=takes) is strategy
    unset = NetworkConfig()
    assert unset.restart_strategy_for(takes_checkpoints=True) is RestartStrategy.EXPONENTIAL_DELAY
    assert unset.restart_strategy_for(takes_checkpoints=False) is RestartStrategy.NONE


def test_barriers_overtake_data_only_in_exactly_once():
    assert not NetworkConfig().takes_unaligned_checkpoints
    assert NetworkConfig(unaligned_enabled=True).takes_unaligned_checkpoints
    config = NetworkConfig(unaligned_enabled=True, checkpoint_mode=CheckpointMode.AT_LEAST_ONCE)
    assert not config.takes_unaligned_checkpoints


@pytest.mark.parametrize(
    ("storage", "directory", "in_files"),
    [
        (None, None, False),
        (None, "/data", True),
        (CheckpointStorageType.JOBMANAGER, "/data", False),
        (CheckpointStorageType.FILESYSTEM, "/data", True),
    ],
)
def test_checkpoints_are_stored_in_files_where_there_is_a_directory(storage, directory, in_files):
    config = NetworkConfig(checkpoint_storage=storage, checkpoint_dir=directory)
    assert config.stores_checkpoints_in_files == in_files


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("checkpoint_mode", "ONCE"),
        ("checkpoint_storage", "rocksdb"),
        ("checkpoint_dir", ""),
        ("checkpoint_dir", 5),
        ("restart_strategy", "exponential"),
        ("restart_jitter_factor", "little"),
        ("restart_jitter_factor", True),
        ("restart_backoff_multiplier", "inf"),
        ("restart_attempts", 0),
        ("debloat_enabled", "yes"),
        ("debloat_enabled", 1),
        ("debloat_samples", 0),
        ("debloat_samples", "many"),
        ("exclusive_buffers_per_channel", -1),
        ("exclusive_buffers_per_channel", True),
        ("network_memory_fraction", 2),
        ("network_memory_fraction", "half"),
    ],
)
def test_values_that_flink_would_not_read_are_refused(field, value):
    with pytest.raises(QuantityError):
        OPTIONS[field].kind.parse(value)


def test_settings_cannot_be_changed():
    for settings in (NetworkConfig(), CostModel(), LinkConditions()):
        first = dataclasses.fields(settings)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(settings, first, 1)


@pytest.mark.parametrize("text", ["\u00b2", "-\u00b2", "\u0663", "", "-", "1.5", "9" * 5000, True])
def test_a_count_is_a_whole_number_in_ascii_of_a_sane_length(text):
    with pytest.raises(QuantityError):
        OPTIONS["max_buffers_per_channel"].kind.parse(text)


@pytest.mark.parametrize(
    ("version", "preset"),
    [
        ("1.12", "flink-1.20"),
        ("1.20.5", "flink-1.20"),
        ("2.0.0", "flink-2.2"),
        ("2.1", "flink-2.2"),
        ("2.2.1", "flink-2.2"),
        ("2.3.0", "flink-2.3"),
        ("2.4-SNAPSHOT", "flink-2.3"),
        ("3.0", "flink-2.3"),
        ("0.10", "flink-1.20"),
        ("<unknown>", "flink-2.3"),
    ],
)
def test_each_version_has_the_defaults_of_its_major_version(version: str, preset: str) -> None:
    assert preset_for(version) == preset
