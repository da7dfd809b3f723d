"""Aligned barriers: the scenarios of Flink's own tests, for both handlers that can align."""

from typing import Any

import pytest

from flowcontrol import (
    Abort,
    Action,
    AlternatingAligner,
    BarrierAligner,
    CheckpointBarrier,
    Resume,
    Trigger,
)
from tests.vectors import flink_vectors

ALIGNED = flink_vectors("barrier_aligned")
HANDLERS = [BarrierAligner, AlternatingAligner]
Aligner = BarrierAligner | AlternatingAligner


class Gate:
    """Plays a scenario to an aligner on a manual clock, and keeps what came out."""

    def __init__(self, aligner: Aligner) -> None:
        self.aligner = aligner
        self.now_ms = 1000
        self.triggered: list[int] = []
        self.aborted: list[list[Any]] = []
        self.blocked_upstream: set[int] = set()
        self.aligned_bytes = 0

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
                    assert action.metrics is not None
                    self.aligned_bytes = action.metrics.bytes_processed
                case Abort():
                    self.aborted.append([action.checkpoint_id, action.reason.value])
                case Resume():
                    self.blocked_upstream.remove(action.channel)

    def seen(self, key: str) -> Any:
        """The value that `key` of an `expect` object stands for."""
        aligner = self.aligner
        if key == "bytes_during_alignment":
            return self.aligned_bytes
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


def play(scenario: dict[str, Any], handler: type[Aligner]) -> None:
    given = scenario["given"]
    counts_ends = given["checkpoints_after_tasks_finish"]
    gate = Gate(handler(given["channels"], checkpoints_after_tasks_finish=counts_ends))
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


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("name", ALIGNED)
def test_flinks_aligned_scenarios(name: str, handler: type[Aligner]) -> None:
    play(ALIGNED[name], handler)
