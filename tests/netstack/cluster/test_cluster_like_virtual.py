"""The same job in virtual time and over TCP: what the protocol decides is the same, times are alike.

Two sources feed one stage: `fast`, as fast as it may, whose buffers fill up, and `slow`, whose do not. The
barrier of `slow` comes at once, that of `fast` behind all its data, so the stage aligns for as long as that
takes to consume. The time that it takes is service time, which is the same in both runs; how many bytes are
read meanwhile is up to the protocol alone.
"""

from __future__ import annotations

from statistics import median

import pytest

from netstack import (
    Edge,
    GeneratorSpec,
    MemoryStorage,
    NetworkConfig,
    Result,
    Scenario,
    TraceLog,
    Vertex,
    VertexCheckpoint,
    emulate,
    run_distributed,
)
from tests.netstack.local_cluster import launch_locally

STAGES = ("stage[0]", "stage[1]")


def two_sources(*, debloat: bool, duration_s: float = 3.5) -> Scenario:
    """A stage of two subtasks that takes 4 ms for a record; its checkpoint is triggered at 1.5 s."""
    return Scenario(
        name="two sources",
        duration_s=duration_s,
        warmup_s=1.0,
        config=NetworkConfig(
            segment_bytes=4096,
            buffer_timeout_interval_s=0.02,
            debloat_enabled=debloat,
            debloat_period_s=0.05,
            debloat_target_s=0.2,
        ),
        manual_checkpoints_s=(1.5,),
        vertices=(
            Vertex(name="fast", source=GeneratorSpec(record_bytes=200)),
            Vertex(name="slow", source=GeneratorSpec(record_bytes=200, rates=(10.0,))),
            Vertex(name="stage", parallelism=2, service=((0.0, 0.004),)),
        ),
        edges=(Edge(source="fast", target="stage"), Edge(source="slow", target="stage")),
    )


class Both:
    """One scenario run in both ways."""

    def __init__(self, scenario: Scenario) -> None:
        storage = MemoryStorage()
        self.trace_over_tcp, self.trace_in_virtual_time = TraceLog(), TraceLog()
        self.over_tcp = run_distributed(scenario, launch_locally(storage), storage, trace=self.trace_over_tcp)
        self.in_virtual_time = emulate(scenario, trace=self.trace_in_virtual_time)


@pytest.fixture(scope="module")
def plain() -> Both:
    return Both(two_sources(debloat=False))


@pytest.fixture(scope="module")
def debloated() -> Both:
    return Both(two_sources(debloat=True))


def stage_in(result: Result) -> VertexCheckpoint:
    """What the stage did for the one checkpoint, which has to be complete."""
    (checkpoint,) = result.checkpoints
    assert checkpoint.status == "COMPLETED"
    return checkpoint.vertices[-1]


def alignment_ms(result: Result) -> float:
    return median(alignment or 0.0 for alignment in stage_in(result).alignment_ms)


def bytes_in_alignment(result: Result) -> float:
    return median(count or 0 for count in stage_in(result).alignment_processed_bytes)


def last_sizes(result: Result) -> list[float | None]:
    """The debloated size of each subtask of the stage, at the end."""
    sizes = result.series[-1].debloatedBufferSize
    assert isinstance(sizes, list)
    return [row[-1] for row in sizes]


@pytest.mark.parametrize("place", [*STAGES, "fast[0]", "slow[0]"])
def test_a_barrier_over_tcp_sets_off_the_same_steps(plain: Both, place: str) -> None:
    over_tcp = [event.text for event in plain.trace_over_tcp if event.place == place]
    in_virtual_time = [event.text for event in plain.trace_in_virtual_time if event.place == place]
    if place in STAGES:
        assert over_tcp == [
            "barrier 1 from slow[0]: its channel is blocked",
            "barrier 1 from fast[0]: the last one",
            "snapshot for checkpoint 1",
            "unblocks the channel from fast[0]",
            "unblocks the channel from slow[0]",
            "acknowledges checkpoint 1: 0 bytes of state",
        ]
        assert over_tcp == in_virtual_time
    else:  # at which record it comes depends on the time
        assert [text.split(":")[0] for text in over_tcp] == [text.split(":")[0] for text in in_virtual_time]


def test_as_much_is_in_flight_over_tcp_as_in_virtual_time(plain: Both) -> None:
    predicted = bytes_in_alignment(plain.in_virtual_time)
    assert predicted > 20_000
    assert bytes_in_alignment(plain.over_tcp) == pytest.approx(predicted, rel=0.5)


def test_an_alignment_over_tcp_takes_as_long_as_predicted(plain: Both) -> None:
    assert 0.5 < alignment_ms(plain.over_tcp) / alignment_ms(plain.in_virtual_time) < 2.5


def test_a_debloated_size_is_announced_over_tcp(debloated: Both) -> None:
    for measured, predicted in zip(
        last_sizes(debloated.over_tcp), last_sizes(debloated.in_virtual_time), strict=True
    ):
        assert measured is not None
        assert predicted is not None
        assert 256 <= measured < 4096  # below a segment: the announcement has changed what is sent
        assert 0.4 < measured / predicted < 2.5


def test_smaller_buffers_arrive_over_tcp(debloated: Both, plain: Both) -> None:
    def bytes_of_a_buffer(result: Result) -> float:
        return result.work.bytes / result.work.buffers

    for with_debloating, without in (
        (debloated.over_tcp, plain.over_tcp),
        (debloated.in_virtual_time, plain.in_virtual_time),
    ):
        assert bytes_of_a_buffer(with_debloating) < 0.7 * bytes_of_a_buffer(without)


def test_debloating_shortens_what_a_barrier_waits_for_over_tcp_too(debloated: Both, plain: Both) -> None:
    for with_debloating, without in (
        (debloated.over_tcp, plain.over_tcp),
        (debloated.in_virtual_time, plain.in_virtual_time),
    ):
        assert bytes_in_alignment(with_debloating) < 0.75 * bytes_in_alignment(without)


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_slow_subtask_gets_fewer_records_over_tcp_too_if_the_selection_is_adaptive(adaptive: bool) -> None:
    """The fast subtask takes 2 ms for a record, the slow one 16 ms."""
    both = Both(
        Scenario(
            name="slow subtask",
            duration_s=2.5,
            warmup_s=1.0,
            config=NetworkConfig(segment_bytes=1024, adaptive_partitioner_enabled=adaptive),
            vertices=(
                Vertex(name="source", source=GeneratorSpec(record_bytes=200)),
                Vertex(name="stage", parallelism=2, service=((0.0, 0.002),), service_skew=(1.0, 8.0)),
            ),
            edges=(Edge(source="source", target="stage"),),
        )
    )
    for result in (both.over_tcp, both.in_virtual_time):
        fast, slow = result.steady[0].vertices[-1].records_in_per_s
        assert fast is not None
        assert slow is not None
        assert 40 < slow < 70  # 62.5 a second at most
        assert fast / slow > 5 if adaptive else fast / slow < 1.5
