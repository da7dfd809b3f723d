"""Unaligned barriers and alignment timeouts: the scenarios of Flink's own tests."""

from typing import Any

import pytest

from flowcontrol import (
    Abort,
    Alarm,
    Alignment,
    AlignmentEnd,
    AlternatingAligner,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointOptions,
    EndOfPartition,
    EventAnnouncement,
    FailureReason,
    Trigger,
)
from tests.flowcontrol.gate_model import Data, Item, ModelGate
from tests.vectors import flink_vectors

SCENARIOS = flink_vectors("barrier_alternating_aligned_with_timeout")

NOT_YET = "not known yet"


def make_gate(given: dict[str, Any]) -> ModelGate:
    channels, local = given["channels"], given["local_channels"]
    remote = [local != "all" and number not in local for number in range(channels)]
    return ModelGate(AlternatingAligner(channels), remote)


class Player:
    """Plays a scenario to a gate."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.gate = make_gate(scenario["given"])
        self.channels = range(scenario["given"]["channels"])
        self.steps = scenario["steps"]
        # Scenarios that never poll have everything polled as it arrives.
        self.polls = any(step.get("op") in ("poll", "drain") for step in self.steps)
        self.barriers: dict[int, CheckpointBarrier] = {}
        self.created: CheckpointBarrier | None = None

    def play(self) -> None:
        for step in self.steps:
            match step:
                case {"op": "arrive", "ch": channel, "item": item}:
                    self.arrive(channel, self.item(item))
                case {"op": "barriers_all_channels", "ids": [first, last], "alignment": "aligned"}:
                    for checkpoint_id in range(first, last + 1):
                        for channel in self.channels:
                            self.arrive(channel, CheckpointBarrier(checkpoint_id, self.gate.now))
                case {"op": "create_barrier", "item": item}:
                    self.created = self.barrier(item)
                case {"op": "poll", "expect": {"kind": kind}}:
                    polled = self.gate.poll()
                    assert polled is not None
                    assert kind_of(polled[1]) == kind
                case {"op": "drain"}:
                    self.drain()
                case {"op": "advance_ms", "ms": duration, "run_timers": runs}:
                    self.gate.now_ms += duration
                    if runs:
                        self.gate.run_alarms()
                case {"op": "run_timers"}:
                    self.gate.run_alarms()
                case {"expect": expect}:
                    self.check(expect)
                case _:
                    pytest.fail(f"unknown step {step}")

    def arrive(self, channel: int, item: Item) -> None:
        self.gate.arrive(channel, item)
        if not self.polls:
            self.drain()

    def drain(self) -> None:
        while self.gate.poll() is not None:
            pass

    def item(self, item: Any) -> Item:
        if item == "created":
            assert self.created is not None
            return self.created
        match item["k"]:
            case "data":
                return Data(0, item.get("size", 0))
            case "barrier":
                return self.barrier(item)
            case "announcement":
                return EventAnnouncement(self.barrier(item["of"]), sequence_number=17)
            case "cancel":
                return CancelCheckpointMarker(item["id"])
            case "end":
                return EndOfPartition()
        return pytest.fail(f"unknown item {item}")

    def barrier(self, item: dict[str, Any]) -> CheckpointBarrier:
        """A barrier is created when it is first used; an unaligned one belongs to the same checkpoint."""
        match item:
            case {"al": "aligned"}:
                options = CheckpointOptions()
            case {"al": "timeoutable", "timeout": timeout_ms}:
                options = CheckpointOptions(timeout_s=timeout_ms / 1000)
            case {"al": "unaligned"}:
                options = CheckpointOptions(Alignment.UNALIGNED)
            case _:
                pytest.fail(f"unknown alignment of {item}")
        created_at = (self.gate.now_ms - item.get("created_ms_ago", 0)) / 1000
        first = self.barriers.setdefault(item["id"], CheckpointBarrier(item["id"], created_at))
        return CheckpointBarrier(item["id"], first.timestamp, options)

    def check(self, expect: dict[str, Any]) -> None:
        for key, value in expect.items():
            if value == "0..122 in order":
                assert self.seen(key) == list(range(123))
            elif key.endswith("_at_least"):
                assert self.seen(key.removesuffix("_at_least")) >= value, key
            else:
                assert self.seen(key) == value, key

    def seen(self, key: str) -> Any:
        """What `key` of an `expect` object means here."""
        gate, handler = self.gate, self.gate.handler
        triggered = [
            [trigger.barrier.checkpoint_id, alignment_of(trigger.barrier.options)]
            for trigger in gate.triggers()
        ]
        match key:
            case "triggered":
                return triggered
            case "triggered_count":
                return len(triggered)
            case "triggered_ids":
                return [checkpoint_id for checkpoint_id, _ in triggered]
            case "last_triggered_alignment":
                return triggered[-1][1]
            case "no_unaligned_trigger":
                return "unaligned" not in [alignment for _, alignment in triggered]
            case "latest_checkpoint_id":
                return handler.current_checkpoint_id
            case "channel_1_blocked":
                return 1 in handler.blocked
            case "during_alignment":
                return handler.alignment_s(gate.now + 1) > handler.alignment_s(gate.now)
            case "channel_state_buffers":
                return {
                    str(number): sum(map(len, channel.persisted.values()))
                    for number, channel in enumerate(gate.channels)
                    if any(channel.persisted.values())
                }
            case _:
                return self.measured(key)

    def measured(self, key: str) -> Any:
        handler = self.gate.handler
        ends = [action for action in self.gate.done if isinstance(action, Trigger | AlignmentEnd)]
        metrics = next((end.metrics for end in reversed(ends) if end.metrics is not None), None)
        match key:
            case "alignment_ms":
                return round(handler.alignment_s(self.gate.now) * 1000, 9)
            case "start_delay_ms":
                return round(handler.start_delay_s * 1000, 9)
            case "last_alignment_ms":
                return None if metrics is None else round(metrics.alignment_s * 1000, 9)
            case "bytes_during_alignment":
                ended = {end.checkpoint_id for end in self.gate.done if isinstance(end, AlignmentEnd)}
                last = self.gate.triggers()[-1]
                if last.metrics is None and last.barrier.checkpoint_id not in ended:
                    return NOT_YET
                return None if metrics is None else metrics.bytes_processed
        return pytest.fail(f"unknown key {key}")


def kind_of(item: Item) -> str:
    return {
        Data: "data",
        CheckpointBarrier: "barrier",
        EventAnnouncement: "announcement",
        CancelCheckpointMarker: "cancel",
        EndOfPartition: "end",
    }[type(item)]


def alignment_of(options: CheckpointOptions) -> str:
    if options.is_unaligned:
        return "unaligned"
    return "timeoutable" if options.timeoutable else "aligned"


@pytest.mark.parametrize("name", SCENARIOS)
def test_flinks_alternating_scenarios(name: str) -> None:
    Player(SCENARIOS[name]).play()


def test_the_abort_scenario_tells_of_one_abort_and_sets_one_alarm() -> None:
    player = Player(SCENARIOS["alt-no-timeout-after-abort"])
    player.play()

    told = [action for action in player.gate.done if isinstance(action, Abort | Alarm)]
    assert told == [Alarm(1, pytest.approx(0.1)), Abort(1, FailureReason.DECLINED_ON_CANCELLATION_BARRIER)]
