"""Debloating policies in a gate and in whole jobs: names, the user's own, and what they change."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from flowcontrol import POLICIES, Announcement, DebloatedChannel, DebloatPolicy, register_policy
from netstack import (
    Edge,
    GeneratorSpec,
    NetworkConfig,
    Result,
    Scenario,
    ScenarioError,
    Vertex,
    emulate,
    option_notices,
    scenario_document,
    scenario_problems,
    with_options,
)
from netstack.errors import PolicyError
from netstack.scenarios.config_rules import policy_class


class Recorder(DebloatPolicy):
    """Announces nothing, and remembers what it is asked with."""

    watches_polls = True
    made: ClassVar[list["Recorder"]] = []

    def __init__(self, settings):  # type: ignore[no-untyped-def]
        super().__init__(settings)
        self.calls: list[tuple[float, int, list[tuple[int, bool]]]] = []
        self.bytes_of: dict[int, int] = {}
        self.made.append(self)

    def recalculate(
        self, throughput: int, channels: Sequence[DebloatedChannel], now: float
    ) -> Iterable[Announcement]:
        seen = [(channel.buffers_in_use, channel.blocked) for channel in channels]
        self.calls.append((now, throughput, seen))
        return ()

    def polled(self, channel: int, size: int) -> None:
        self.bytes_of[channel] = self.bytes_of.get(channel, 0) + size


register_policy("recorder-of-a-test", Recorder)


def job(policy: str, *, service_s: float = 0.005, target_s: float = 1.0, **others: object) -> Scenario:
    values = {"debloat_enabled": True, "debloat_target_s": target_s, "checkpoint_interval_s": 2.0}
    config = with_options(NetworkConfig(), values | others)
    return Scenario(
        name="job",
        duration_s=30.0,
        warmup_s=15.0,
        config=dataclasses.replace(config, debloat_policy=policy),
        vertices=(
            Vertex(name="source", parallelism=2, source=GeneratorSpec(record_bytes=1013)),
            Vertex(name="stage1", parallelism=2, service=((0.0, service_s),)),
        ),
        edges=(Edge(source="source", target="stage1"),),
    )


def records_per_s(result: Result) -> float:
    return sum(rate or 0.0 for rate in result.steady[-1].vertices[-1].records_in_per_s)


@pytest.mark.parametrize("name", list(POLICIES))
def test_every_policy_keeps_the_throughput_and_shortens_checkpoints(name: str) -> None:
    off = emulate(job("flink", debloat_enabled=False))
    on = emulate(job(name, target_s=0.5))
    assert records_per_s(on) == pytest.approx(records_per_s(off), rel=0.01)
    assert on.steady[-1].end_to_end_ms is not None
    assert off.steady[-1].end_to_end_ms is not None
    assert on.steady[-1].end_to_end_ms < 0.6 * off.steady[-1].end_to_end_ms


def test_the_same_seed_gives_the_same_run() -> None:
    name = "longest-when-unblocked"
    first, second = (emulate(job(name)) for _ in range(2))
    assert first.series == second.series
    assert first.checkpoints == second.checkpoints
    assert first.series != emulate(job(name), seed=2).series


def test_a_held_size_keeps_a_target_that_flink_misses_with_checkpoints_back_to_back() -> None:
    literal, held = (
        emulate(job(name)).steady[-1].end_to_end_ms for name in ("flink", "longest-when-unblocked")
    )
    assert literal is not None
    assert held is not None
    assert literal > 1300
    assert 800 < held < 1100


def recorded(**changes: object) -> Recorder:
    """What one gate has told its policy in a job; both consumers have one."""
    Recorder.made.clear()
    scenario = job("recorder-of-a-test", **changes)
    emulate(dataclasses.replace(scenario, duration_s=8.0, warmup_s=0.0))
    asked = [policy for policy in Recorder.made if policy.calls]
    assert len(asked) == 2
    return asked[0]


@pytest.mark.parametrize("together", [False, True], ids=["remote", "local"])
def test_a_policy_sees_when_channels_are_blocked_for_alignment(together: bool) -> None:
    Recorder.made.clear()
    scenario = job("recorder-of-a-test", checkpoint_interval_s=0.33)
    manager = "tm" if together else None
    uneven = GeneratorSpec(record_bytes=1013, rates=(0.0, 50.0))  # so that one barrier waits for the other
    vertices = tuple(
        dataclasses.replace(vertex, task_manager=manager, source=vertex.source and uneven)
        for vertex in scenario.vertices
    )
    scenario = dataclasses.replace(scenario, vertices=vertices)
    emulate(dataclasses.replace(scenario, duration_s=12.0, warmup_s=0.0))
    blocked = [any(stop for _, stop in seen) for _, _, seen in Recorder.made[-1].calls]
    assert any(blocked)
    assert not all(blocked)


def test_no_channel_is_blocked_without_an_aligned_checkpoint() -> None:
    for changes in ({"checkpoint_interval_s": None}, {"unaligned_enabled": True}):
        assert not any(stop for _, _, seen in recorded(**changes).calls for _, stop in seen)


def test_a_policy_that_watches_is_told_of_what_is_polled() -> None:
    policy = recorded(checkpoint_interval_s=None)
    times = [now for now, _, _ in policy.calls]
    assert len(times) >= 35
    assert times == sorted(times)
    assert set(policy.bytes_of) == {0, 1}
    assert sum(policy.bytes_of.values()) == pytest.approx(200 * 1017 * 8.0, rel=0.1)
    assert policy.calls[-1][1] == pytest.approx(200 * 1017, rel=0.5)


def test_names_stand_for_policies() -> None:
    for name, policy in POLICIES.items():
        assert policy_class(name) is policy


def test_a_policy_of_the_users_own_is_imported_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_policies_of_a_test.py").write_text(
        "from flowcontrol import DebloatPolicy, to_all\n"
        "class Constant(DebloatPolicy):\n"
        "    def recalculate(self, throughput, channels, now):\n"
        "        self.last_announced = 2048\n"
        "        return to_all(2048, channels)\n"
        "NOTHING = 1\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    result = emulate(job("own_policies_of_a_test:Constant"))
    assert result.steady[-1].vertices[-1].debloatedBufferSize == [2048, 2048]
    assert result.scenario.config.debloat_policy == "own_policies_of_a_test:Constant"
    for wrong in (
        "own_policies_of_a_test:NOTHING",
        "own_policies_of_a_test:Missing",
        "no_such_module:A",
        ":",
    ):
        with pytest.raises(PolicyError):
            policy_class(wrong)


OWN = """
import sys
from flowcontrol import DebloatPolicy, to_all
class Sized(DebloatPolicy):
    def recalculate(self, throughput, channels, now):
        return ()
class TakesNothing(Sized):
    def __init__(self):
        pass
class ForgetsItsBase(Sized):
    def __init__(self, settings):
        self.settings = settings
class Refuses(Sized):
    def __init__(self, settings):
        raise ValueError("the target is\\ntoo short")
class SizesNothing(DebloatPolicy):
    pass
class AnnouncesNothingUsable(DebloatPolicy):
    def recalculate(self, throughput, channels, now):
        return to_all(0, channels)
"""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("TakesNothing", r"TypeError: TakesNothing.__init__\(\) takes 1 positional argument"),
        ("ForgetsItsBase", "AttributeError: .* no attribute 'last_announced'"),
        ("Refuses", "ValueError: the target is too short"),
        ("SizesNothing", "TypeError: Can't instantiate abstract class SizesNothing"),
    ],
)
def test_a_policy_that_cannot_be_made_is_a_mistake_of_the_scenario(
    name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_policies_of_a_test.py").write_text(OWN, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    scenario = job(f"failing_policies_of_a_test:{name}")
    with pytest.raises(
        ScenarioError, match=f"policy: '.*:{name}' cannot be created with these options: {reason}"
    ):
        emulate(scenario)
    config = dataclasses.replace(scenario.config, debloat_enabled=False)
    assert scenario_problems(dataclasses.replace(scenario, config=config)) == []
    config = dataclasses.replace(scenario.config, debloat_target_s=-1.0)
    problems = scenario_problems(dataclasses.replace(scenario, config=config))
    assert [key for key, _ in problems] == ["flink.taskmanager.network.memory.buffer-debloat.target"]


def test_a_policy_that_announces_what_cannot_be_fails_the_job_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong_policies_of_a_test.py").write_text(OWN, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    scenario = job("wrong_policies_of_a_test:AnnouncesNothingUsable")
    with pytest.raises(
        ValueError, match="AnnouncesNothingUsable announces 0 bytes; the settings allow 256 to"
    ):
        emulate(scenario)


class Choosy(DebloatPolicy):
    def __init__(self, settings):  # type: ignore[no-untyped-def]
        raise ValueError("a target of 1 s is too long")

    def recalculate(self, throughput, channels, now):  # type: ignore[no-untyped-def]
        return ()


def test_a_registered_policy_that_cannot_be_made_is_not_taken_for_a_wrong_name() -> None:
    register_policy("choosy-of-a-test", Choosy)
    (problem,) = scenario_problems(job("choosy-of-a-test"))
    assert problem == (
        "policy",
        "'choosy-of-a-test' cannot be created with these options: ValueError: a target of 1 s is too long",
    )


def test_a_module_that_ends_the_program_is_a_mistake_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaving_policies_of_a_test.py").write_text("raise SystemExit('good\\nbye')\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PolicyError, match=r" cannot be imported: SystemExit: good bye$"):
        policy_class("leaving_policies_of_a_test:Any")


def test_an_unknown_policy_is_a_mistake_of_the_scenario() -> None:
    (problem,) = scenario_problems(job("longest-when-unblokked"))
    assert problem == (
        "policy",
        "'longest-when-unblokked' is unknown; did you mean 'longest-when-unblocked'?",
    )
    with pytest.raises(ScenarioError, match="policy: 'cubic' is unknown; use one of flink, "):
        emulate(job("cubic"))


def test_a_policy_without_debloating_is_noticed() -> None:
    (notice,) = option_notices(job("longest-when-unblocked", debloat_enabled=False))
    assert notice == (
        "policy",
        "has no effect unless taskmanager.network.memory.buffer-debloat.enabled is true",
    )
    assert option_notices(job("longest-when-unblocked")) == option_notices(job("flink")) == []


def test_a_policy_may_stand_among_the_options_that_were_given() -> None:
    config = with_options(NetworkConfig(debloat_enabled=True), {"debloat_policy": "longest-when-unblocked"})
    scenario = dataclasses.replace(job("flink"), config=config)
    assert option_notices(scenario) == []
    assert scenario_document(scenario)["policy"] == "longest-when-unblocked"


def test_only_another_policy_than_flinks_is_in_the_document() -> None:
    assert "policy" not in scenario_document(job("flink"))
    assert scenario_document(job("longest-when-unblocked"))["policy"] == "longest-when-unblocked"
