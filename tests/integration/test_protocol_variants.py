"""Changes of the protocol that the documentation shows: what they are for, and what they must not break."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from benches.studies.debloating_limits import example
from buffers import EventBuffer, NetworkBufferPool
from flowcontrol import CreditAnnouncer
from integration import load_scenario
from netstack import (
    AtTime,
    CheckpointMode,
    CollectionSource,
    Edge,
    KillSubtask,
    NetworkConfig,
    Result,
    Scenario,
    SourceObject,
    SubtaskName,
    Vertex,
    emulate,
    key_sum,
    sink,
)
from tests.storms.draw import draw_case
from tests.storms.one_storm import run_case

pytestmark = pytest.mark.interpreted

NUMBERS = 3000
WITHOUT = NetworkConfig(checkpoint_interval_s=0.2, segment_bytes=1024)
RIGHT = {"odd": 2 * (NUMBERS // 2) ** 2, "even": 2 * (NUMBERS // 2) * (NUMBERS // 2 + 1)}


def parity(payload: bytes) -> tuple[bytes, int]:
    number = int(payload)
    return (b"odd" if number % 2 else b"even"), number


def sums(
    within: AbstractContextManager[None], config: NetworkConfig, killed_s: float
) -> tuple[dict[str, int], Result]:
    """The sums of odd and even numbers that two sources count up to, with a failure under back-pressure."""
    counting = [b"%061d" % number for number in range(1, NUMBERS + 1)]
    results: list[bytes] = []
    scenario = Scenario(
        name="sums",
        duration_s=60.0,
        config=config,
        vertices=(
            Vertex(
                name="numbers",
                parallelism=2,
                source=SourceObject(source=CollectionSource([counting, counting])),
            ),
            Vertex(name="hand on", parallelism=2, service=((0.0, 0.0004),)),
            Vertex(name="sums", operator=key_sum(parity), service=((0.0, 0.001),)),
            Vertex(name="results", operator=sink(results.append)),
        ),
        edges=(
            Edge(source="numbers", target="hand on"),
            Edge(source="hand on", target="sums"),
            Edge(source="sums", target="results"),
        ),
        faults=(KillSubtask(when=AtTime(killed_s), subtask=SubtaskName("sums", 0)),),
    )
    with within:
        result = emulate(scenario)
    return {name.decode(): int(total) for name, total in (line.split() for line in results)}, result


@pytest.mark.parametrize("killed_s", [1.73, 2.51, 3.8])
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_what_a_barrier_has_overtaken_up_to_a_limit_is_restored_once(limit: int, killed_s: float) -> None:
    variant = example("limited_overtaking")
    found, result = sums(variant.limited_overtaking(limit), WITHOUT, killed_s)
    assert result.restarts[0].persisted_bytes > 0
    assert found == RIGHT


def test_a_checkpoint_stores_at_most_the_limit_at_each_end_of_a_channel() -> None:
    variant = example("limited_overtaking")
    scenario = load_scenario(variant.SCENARIO)
    scenario = replace(scenario, duration_s=30.0, warmup_s=12.0, phases=())
    aligned, *limited = (variant.run(scenario, limit).steady[0] for limit in (0, 1, 4))
    assert emulate(scenario).steady[0].end_to_end_ms == aligned.end_to_end_ms  # a limit of 0 is no change
    assert aligned.persisted_bytes == 0
    for limit, steady in zip((1, 4), limited, strict=True):
        channels, record = 4, 1017
        most = channels * (2 * limit * scenario.config.segment_bytes + record)
        assert 0.5 * most < steady.persisted_bytes <= most
    assert aligned.end_to_end_ms > limited[0].end_to_end_ms + 300 > limited[1].end_to_end_ms + 1000
    everything = variant.run(scenario, 12).steady[0]
    buffer_ms = 1000 * scenario.config.segment_bytes / 200e3
    assert everything.end_to_end_ms < buffer_ms  # it waits for what is in work, and not for credit


def test_limited_overtaking_stands_storms_of_faults() -> None:
    variant = example("limited_overtaking")
    cases = [case for case in map(draw_case, range(60)) if is_aligned(case.config)]
    # Without exclusive buffers, the barrier of another channel has to come.
    without_exclusive = [case for case in cases if case.config.exclusive_buffers_per_channel == 0]
    assert len(cases) >= 12
    assert without_exclusive
    for case in (*cases[:8], *without_exclusive[-2:]):
        with variant.limited_overtaking(2):
            assert run_case(case).problems == ()


def is_aligned(config: NetworkConfig) -> bool:
    return config.checkpoint_mode is CheckpointMode.EXACTLY_ONCE and not config.unaligned_enabled


@pytest.mark.parametrize(("name", "goes_on"), [("standstill", False), ("standstill_after_expiry", True)])
def test_a_job_whose_snapshot_was_taken_goes_on_where_channels_are_released(
    name: str, *, goes_on: bool
) -> None:
    variant = example("released_at_snapshot")
    scenario = load_scenario(variant.EXAMPLES / f"{name}.toml")
    assert variant.read_per_s(emulate(scenario)) < 100
    with variant.released_at_snapshot():
        assert (variant.read_per_s(emulate(scenario)) > 500) is goes_on


@pytest.mark.long
def test_release_at_the_snapshot_stands_storms_of_faults() -> None:
    variant = example("released_at_snapshot")
    cases = [case for case in map(draw_case, range(60)) if case.config.takes_unaligned_checkpoints]
    for case in cases[:25]:
        with variant.released_at_snapshot():
            assert run_case(case).problems == ()


@pytest.mark.parametrize("policy", ["whole-segments", "flink-and-bytes"])
@pytest.mark.parametrize(("unaligned", "exclusive"), [(False, 2), (True, 2), (False, 0)])
def test_credit_by_bytes_loses_no_record_and_no_credit(
    policy: str, exclusive: int, *, unaligned: bool
) -> None:
    variant = example("credit_by_bytes")
    with variant.credit_by_bytes():  # makes the policies known
        config = replace(
            WITHOUT,
            debloat_enabled=True,
            debloat_target_s=0.02,
            debloat_policy=policy,
            unaligned_enabled=unaligned,
            exclusive_buffers_per_channel=exclusive,
        )
        found, result = sums(nullcontext(), config, 1.73)
    assert result.restarts
    assert found == RIGHT


class Waiting:
    """A channel with a buffer of 1000 bytes queued, whose gate has no budget for another one."""

    def __init__(self) -> None:
        self.queued_bytes = 1000
        self.queue_length = self.buffers_in_use = 1
        self.queued_events: list[EventBuffer] = []
        self.gate = SimpleNamespace(
            channels=[self], debloater=SimpleNamespace(budget=SimpleNamespace(size=9))
        )

    def credit_gained(self) -> None:
        """Nothing is sent here."""


def test_credit_that_was_kept_back_is_gone_with_the_buffers_behind_it() -> None:
    pool = NetworkBufferPool(8, 1024).create_pool(8, 1, 8)
    credit, channel = CreditAnnouncer(0), Waiting()
    buffers = example("credit_by_bytes").BuffersByBytes((), pool, credit, channel)
    buffers.report_backlog(5)
    assert (buffers.available, buffers.kept_back, credit.take()) == (5, 5, 0)
    buffers.block()
    assert (buffers.available, buffers.kept_back, pool.used) == (0, 0, 0)
    channel.queued_bytes = channel.queue_length = 0
    buffers.report_backlog(1)
    assert (buffers.available, buffers.kept_back, credit.take()) == (1, 0, 1)


def test_credit_by_bytes_keeps_what_waits_at_the_receiver_below_its_target() -> None:
    variant = example("credit_by_bytes")
    scenario = replace(load_scenario(variant.SCENARIO), duration_s=16.0, warmup_s=8.0, phases=())
    usual = emulate(variant.without_debloating(scenario)).steady[0].vertices[1]
    ours = variant.by_bytes(scenario).steady[0].vertices[1]
    segment, budget = scenario.config.segment_bytes, 1_000_000 * scenario.config.debloat_target_s
    assert all(size > 3 * budget for size in usual.inputQueueSize)
    assert all(size <= budget + 2 * segment for size in ours.inputQueueSize)  # a buffer for each channel
    assert sum(ours.records_in_per_s) == pytest.approx(sum(usual.records_in_per_s), rel=0.01)
