"""Aligned barriers: the scenarios of Flink's own tests."""

import json
from pathlib import Path
from typing import Any

import pytest

from flowcontrol import (
    Abort,
    Action,
    Alignment,
    AlignmentMetrics,
    BarrierAligner,
    CheckpointBarrier,
    CheckpointOptions,
    Resume,
    Trigger,
)

VECTORS = Path(__file__).parents[1] / "data" / "vectors"

TIMEOUT_HANDLER_SCENARIOS = {
    # Barriers that turn unaligned by a timer, an announcement or an upstream task.
    "alt-switch-by-upstream",
    "alt-aligned-after-timeout",
    "alt-never-times-out",
    "alt-timeout-two-channels",
    "alt-timeout-on-first-barrier",
    "alt-timeout-before-first-barrier",
    "alt-active-after-passive-announcement",
    "alt-active-before-first-announcement",
    "alt-active-after-barrier",
    "alt-active-on-announcements",
    "alt-passive-on-announcement",
    "alt-second-checkpoint",
    "alt-local-first",
    "alt-local-passive",
    "alt-active-first-barrier",
    "alt-no-timeout-after-last",
    "alt-no-timeout-after-abort",
    "alt-upstream-timed-out",
    "alt-timeout-on-end",
    "alt-start-by-announcement",
    "alt-duration-cancel-late",
    "alt-timeout-after-barrier",
}
"""They belong to the handlers with a timeout, which do not exist yet."""


def scenarios(name: str) -> dict[str, dict[str, Any]]:
    document = json.loads((VECTORS / f"{name}.json").read_text())
    assert len(document["scenarios"]) == document["scenario_count"]
    return {scenario["id"]: scenario for scenario in document["scenarios"]}


ALIGNED = scenarios("barrier_aligned")
ALTERNATING = scenarios("barrier_alternating_aligned_with_timeout")
PLAIN_ALTERNATING = ["alt-alternation", "alt-out-of-order", "alt-metrics", "alt-metrics-one-channel"]


class Gate:
    """Plays a scenario to an aligner on a manual clock, and keeps what came out."""

    def __init__(self, channels: int, **options: bool) -> None:
        self.aligner = BarrierAligner(channels, **options)
        self.now_ms = 1000
        self.triggered: list[int] = []
        self.aborted: list[list[Any]] = []
        self.blocked_upstream: set[int] = set()
        self.created: CheckpointBarrier | None = None

    @property
    def now(self) -> float:
        return self.now_ms / 1000

    def barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        self.blocked_upstream.add(channel)
        self.apply(self.aligner.barrier(channel, barrier, self.now))

    def apply(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Trigger():
                    self.triggered.append(action.barrier.checkpoint_id)
                case Abort():
                    self.aborted.append([action.checkpoint_id, action.reason.value])
                case Resume():
                    self.blocked_upstream.remove(action.channel)

    def seen(self, key: str) -> Any:
        """What `key` of an `expect` object means here."""
        aligner = self.aligner
        if key == "bytes_during_alignment":
            return 0 if aligner.latest_metrics is None else aligner.latest_metrics.bytes_processed
        return {
            "triggered": self.triggered,
            "triggered_count": len(self.triggered),
            "aborted_count": len(self.aborted),
            "last_aborted": self.aborted[-1:] and self.aborted[-1],
            "blocked": list(aligner.blocked),
            "channel_1_blocked": 1 in aligner.blocked,
            "latest_checkpoint_id": aligner.current_checkpoint_id,
            "pending": aligner.pending,
            "alignment_ms": round(aligner.alignment_s(self.now) * 1000, 9),
            "start_delay_ms": round(aligner.start_delay_s * 1000, 9),
        }[key]

    def check(self, expect: dict[str, Any]) -> None:
        for key, value in expect.items():
            if key == "output_order":
                continue  # the aligner holds no data back: what is polled is processed at once
            if key.endswith("_at_least"):
                assert self.seen(key.removesuffix("_at_least")) >= value, key
            else:
                assert self.seen(key) == value, key


def play_aligned(scenario: dict[str, Any]) -> Gate:
    given = scenario["given"]
    gate = Gate(given["channels"], checkpoints_after_tasks_finish=given["checkpoints_after_tasks_finish"])
    barriers: dict[int, CheckpointBarrier] = {}
    for step in scenario["steps"]:
        match step:
            case {"ev": "buffer"}:
                gate.aligner.bytes_processed(step.get("size", 0))
            case {"ev": "barrier"}:
                # The test creates its barriers, and then sleeps, before it feeds them.
                created = (gate.now_ms - 10) / 1000
                barrier = barriers.setdefault(step["id"], CheckpointBarrier(step["id"], created))
                gate.barrier(step["ch"], barrier)
            case {"ev": "cancel"}:
                gate.apply(gate.aligner.cancel(step["ch"], step["id"], gate.now))
            case {"ev": "end_of_partition"}:
                gate.blocked_upstream.discard(step["ch"])
                gate.apply(gate.aligner.end_of_partition(step["ch"], gate.now))
            case {"sleep_ms": duration}:
                gate.now_ms += duration
            case {"expect": expect}:
                gate.check(expect)
            case _:
                pytest.fail(f"unknown step {step}")
        assert set(gate.aligner.blocked) == gate.blocked_upstream
    return gate


def make_barrier(gate: Gate, item: dict[str, Any]) -> CheckpointBarrier:
    assert item["k"] == "barrier"
    created_ms = gate.now_ms - item.get("created_ms_ago", 0)
    return CheckpointBarrier(item["id"], created_ms / 1000, CheckpointOptions(Alignment.ALIGNED))


def arrive(gate: Gate, channel: int, item: Any) -> bool:
    """Poll `item` as soon as it arrives; False if it is nothing for an aligner."""
    if item == "created":
        assert gate.created is not None
        gate.barrier(channel, gate.created)
    elif item["k"] == "data":
        gate.aligner.bytes_processed(item["size"])
    elif item["al"] == "unaligned":
        return False
    else:
        gate.barrier(channel, make_barrier(gate, item))
    return True


def play_alternating(scenario: dict[str, Any]) -> Gate:
    """Play up to the first unaligned barrier."""
    gate = Gate(scenario["given"]["channels"])
    for step in scenario["steps"]:
        match step:
            case {"op": "arrive", "ch": channel, "item": item}:
                if not arrive(gate, channel, item):
                    return gate
            case {"op": "create_barrier", "item": item}:
                gate.created = make_barrier(gate, item)
            case {"op": "advance_ms", "ms": duration}:
                gate.now_ms += duration
            case {"op": "barriers_all_channels", "ids": [first, last], "alignment": "aligned"}:
                for checkpoint_id in range(first, last + 1):
                    for channel in range(scenario["given"]["channels"]):
                        gate.barrier(channel, CheckpointBarrier(checkpoint_id, gate.now))
            case {"op": "drain"}:
                pass
            case {"expect": {"triggered_ids": "0..122 in order"}}:
                assert gate.triggered == list(range(123))
            case {"expect": expect}:
                gate.check(expect)
            case _:
                pytest.fail(f"unknown step {step}")
    return gate


@pytest.mark.parametrize("name", ALIGNED)
def test_flinks_aligned_scenarios(name: str) -> None:
    play_aligned(ALIGNED[name])


@pytest.mark.parametrize("name", PLAIN_ALTERNATING)
def test_flinks_alternating_scenarios_with_aligned_barriers(name: str) -> None:
    play_alternating(ALTERNATING[name])


def test_every_alternating_scenario_is_played_or_belongs_to_the_timeout_handlers() -> None:
    assert set(ALTERNATING) == TIMEOUT_HANDLER_SCENARIOS | set(PLAIN_ALTERNATING)
    assert not TIMEOUT_HANDLER_SCENARIOS & set(PLAIN_ALTERNATING)


def test_the_metrics_scenario_is_played_up_to_its_unaligned_checkpoint() -> None:
    gate = play_alternating(ALTERNATING["alt-metrics"])

    assert gate.triggered == [1, 2]
    assert gate.aligner.latest_metrics == AlignmentMetrics(pytest.approx(0.005), pytest.approx(0.005), 1000)
